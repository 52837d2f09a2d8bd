//! The test helper of all dialogues: runs a dialogue and compares the replies.
//!
//! Notation, by the first characters of a line:
//!
//! | line | means |
//! |---|---|
//! | `> SET k "a\x00b" {xy*1000}` | a request, with the quotes of inline requests; `{xy*1000}` is `xy` 1000 times |
//! | `@resp3`, `@resp2` | the protocol of the following requests (initially RESP2) |
//! | `@wait 20` | advances the time by this many milliseconds |
//! | `@config maxmemory 100mb` | sets a directive |
//! | `@inspect k` | the encoding and the TTL of a key, on the line below |
//! | `@ours REASON` | the dialogue is not run against real servers: they behave differently |
//! | `@valkey REASON` | likewise, but Valkey gives the same replies; `@redis-8.4 REASON`: Redis from that version on |
//! | `@differs redis REASON` | the next reply of Redis is different (`redis-8.4`: from that version on, `redis<8.4`: before it) |
//! | `@may-differ redis REASON` | the next reply of Redis is not compared: it may vary |
//! | `# ...` | a remark |
//! | anything else | a reply in the format of [`show`](crate::show); these are compared |

use expect_test::Expect;
use wire::reply::Protocol;
use wire::request::{Batch, Parser, RequestLimits};
use wire::response::Reply;

use crate::marks::{Identity, Mark, covers};
use crate::ours::Ours;
use crate::peer::Peer;
use crate::show::show;

/// The server that a dialogue is run against.
pub trait Server {
    /// The product and version of a real server; `None` for Broadloom.
    fn identity(&self) -> Option<&Identity> {
        None
    }
    /// Runs a request and returns its reply; `None`: no reply.
    fn request(&mut self, args: &[Vec<u8>]) -> Option<Reply>;
    /// Switches the protocol.
    fn set_protocol(&mut self, protocol: Protocol);
    /// Advances the time.
    fn wait(&mut self, ms: u64);
    /// Returns the encoding of a key and its TTL in milliseconds; `None`: no such key.
    fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)>;
    /// Sets a directive.
    fn configure(&mut self, name: &str, value: &str);
}

/// Runs the dialogue with the requests in `script`, and compares the replies.
#[track_caller]
pub fn check(script: Expect) {
    let text = dedented(&script);
    match std::env::var("DIALOGUE_PEER") {
        Ok(address) => {
            if let Some(mut peer) = Peer::connect(&address, &text) {
                script.assert_eq(&run_dialogue(&text, &mut peer));
            }
        }
        Err(_) => {
            let mut ours = Ours::new();
            script.assert_eq(&run_dialogue(&text, &mut ours));
            ours.check_replay();
        }
    }
}

/// Runs a dialogue, and returns its text with the replies of `server`.
fn run_dialogue(text: &str, server: &mut dyn Server) -> String {
    let mut transcript = String::new();
    let mut marks = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // A push is shown with `>` and no blank after it.
        if !line.starts_with("> ") && !line.starts_with(['@', '#']) && !line.is_empty() {
            continue;
        }
        transcript.push_str(line);
        transcript.push('\n');
        let shown = if let Some(request) = line.strip_prefix("> ") {
            server.request(&split(request)).map_or_else(|| "(no reply)".to_owned(), |reply| show(&reply))
        } else if let Some(key) = line.strip_prefix("@inspect ") {
            inspected(&split(key)[0], server)
        } else if let Some(found) = Mark::parse(line) {
            marks.push(found);
            continue;
        } else {
            if let Some(directive) = line.strip_prefix('@') {
                direct(directive, server);
            }
            continue;
        };
        let expected = lines.peek().copied().unwrap_or_default();
        let differs = |mark: &Mark<'_>| match mark {
            Mark::Differs(scope) => server.identity().is_some_and(|identity| covers(scope, identity)),
            Mark::Ours | Mark::RunsOn(_) | Mark::MayDiffer(_) => false,
        };
        let may_differ = |mark: &Mark<'_>| match mark {
            Mark::MayDiffer(scope) => server.identity().is_some_and(|identity| covers(scope, identity)),
            Mark::Ours | Mark::RunsOn(_) | Mark::Differs(_) => false,
        };
        transcript.push_str(if marks.iter().any(may_differ) {
            expected
        } else if !marks.iter().any(differs) {
            &shown
        } else if shown == expected {
            "(no difference: the mark is not needed)"
        } else {
            expected
        });
        marks.clear();
        transcript.push('\n');
    }
    transcript
}

/// Returns the line of `@inspect`. The TTL on a real server may be up to 100 ms shorter.
fn inspected(key: &[u8], server: &mut dyn Server) -> String {
    match server.inspect(key) {
        None => "no key".to_owned(),
        Some((encoding, None)) => encoding,
        Some((encoding, Some(ms))) => format!("{encoding}, {} ms", (ms + 99) / 100 * 100),
    }
}

fn direct(directive: &str, server: &mut dyn Server) {
    let words: Vec<&str> = directive.split(' ').collect();
    match words[..] {
        ["resp2"] => server.set_protocol(Protocol::Resp2),
        ["resp3"] => server.set_protocol(Protocol::Resp3),
        ["wait", ms] => server.wait(ms.parse().expect("a number of milliseconds")),
        ["config", name, value] => server.configure(name, value),
        _ => panic!("no such directive: @{directive}"),
    }
}

/// Returns the text without the indentation of the source, as `expect-test` compares it.
fn dedented(script: &Expect) -> String {
    let text = script.data.trim_start_matches('\n');
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let common = text.lines().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let dedented = |line| if indent(line) < common { line.trim_start_matches(' ') } else { &line[common..] };
    text.split_inclusive('\n').map(dedented).collect()
}

/// Splits a request into words.
fn split(request: &str) -> Vec<Vec<u8>> {
    let line = format!("{request}\r\n");
    let mut batch = Batch::new();
    let parsed = Parser::default().parse(line.as_bytes(), &RequestLimits::default(), &mut batch, 1);
    assert!(parsed.error.is_none() && batch.len() == 1, "not a request: {request}");
    batch.requests(line.as_bytes()).flatten().map(repeated).collect()
}

/// Expands `{text*count}`; returns other words unchanged.
fn repeated(word: &[u8]) -> Vec<u8> {
    let written_out = || {
        let inner = word.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let star = inner.iter().rposition(|byte| *byte == b'*')?;
        let count = std::str::from_utf8(&inner[star + 1..]).ok()?.parse().ok()?;
        Some(inner[..star].repeat(count))
    };
    written_out().unwrap_or_else(|| word.to_vec())
}

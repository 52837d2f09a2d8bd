//! Marks: the real servers to which a dialogue, or one of its replies, does not apply, and the reason.
//!
//! A scope is `valkey` or `redis`; suffix `-8.4`: from that version on, `<8.4`: before it.

/// The product and version of a real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `valkey` or `redis`.
    pub product: &'static str,
    /// Major and minor.
    pub version: (u32, u32),
}

impl Identity {
    /// Parses the text of `INFO server`.
    pub fn of_info(info: &str) -> Self {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let (product, text) = match field("valkey_version") {
            Some(text) => ("valkey", text),
            None => ("redis", field("redis_version").expect("a server says its version")),
        };
        Self { product, version: version(text.trim()) }
    }
}

/// A line that limits the servers to which a dialogue or a reply applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// `@ours`: not run against real servers.
    Ours,
    /// `@valkey`, `@redis-8.4`: run against these servers. Several such lines add up.
    RunsOn(&'a str),
    /// `@differs redis`: the next reply of these servers is different.
    Differs(&'a str),
    /// `@may-differ redis`: the next reply of these servers is not compared.
    MayDiffer(&'a str),
}

impl<'a> Mark<'a> {
    /// Parses a line; `None` if it is not a mark.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (word, rest) = line.strip_prefix('@')?.split_once(' ').unwrap_or((&line[1..], ""));
        let (mark, reason) = match word {
            "ours" => (Self::Ours, rest),
            "differs" | "may-differ" => {
                let (scope, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                (if word == "differs" { Self::Differs(scope) } else { Self::MayDiffer(scope) }, reason)
            }
            _ if word.starts_with("valkey") || word.starts_with("redis") => (Self::RunsOn(word), rest),
            _ => return None,
        };
        assert!(!reason.trim().is_empty(), "without a reason: {line}");
        Some(mark)
    }
}

/// Whether a dialogue applies to this server.
pub fn applies_to(text: &str, server: &Identity) -> bool {
    let mut marks = text.lines().filter_map(Mark::parse).filter_map(|mark| match mark {
        Mark::Ours => Some(false),
        Mark::RunsOn(scope) => Some(covers(scope, server)),
        Mark::Differs(_) | Mark::MayDiffer(_) => None,
    });
    let Some(first) = marks.next() else { return true };
    marks.fold(first, |any, one| any || one)
}

/// Whether a scope includes this server.
pub fn covers(scope: &str, server: &Identity) -> bool {
    let Some(rest) = scope.strip_prefix(server.product) else { return false };
    match rest.split_at_checked(1) {
        None => true,
        Some(("-", from)) => server.version >= version(from),
        Some(("<", before)) => server.version < version(before),
        Some(_) => panic!("no such scope: {scope}"),
    }
}

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().expect("a number in a version"));
    (parts.next().expect("a major version"), parts.next().expect("a minor version"))
}

#[test]
fn scopes() {
    let redis = Identity::of_info("# Server\r\nredis_version:8.6.3\r\n");
    let valkey = Identity::of_info("redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n");
    assert_eq!((redis.product, redis.version), ("redis", (8, 6)));
    assert_eq!((valkey.product, valkey.version), ("valkey", (9, 1)));
    let applies = |text: &str| (applies_to(text, &valkey), applies_to(text, &redis));
    assert_eq!(applies("> PING\n+PONG"), (true, true));
    assert_eq!(applies("@ours it has other ways"), (false, false));
    assert_eq!(applies("@valkey only that has it"), (true, false));
    assert_eq!(applies("@redis-8.6 new"), (false, true));
    assert_eq!(applies("@redis-8.8 newer\n@valkey has it"), (true, false));
    assert_eq!(applies("@redis<8.6 was dropped"), (false, false));
    assert_eq!(applies("@differs redis other words\n> PING\n+PONG"), (true, true));
}

#[test]
#[should_panic(expected = "without a reason")]
fn a_mark_requires_a_reason() {
    Mark::parse("@differs redis");
}

//! Client input, request by request: accepted forms, error texts, and independence from fragmentation.

use std::sync::Arc;

use wire::request::{Args, Batch, Parser, ProtocolError, RequestLimits, Sender};

/// The requests of an input, and the error at its end.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

const CLIENT: RequestLimits = RequestLimits { sender: Sender::Client, bulk_size_max: 512 * 1024 * 1024 };
const UNAUTHENTICATED: RequestLimits = RequestLimits { sender: Sender::Unauthenticated, ..CLIENT };
const PRIMARY: RequestLimits = RequestLimits { sender: Sender::Primary, ..CLIENT };

/// A connection's input side: a buffer, the parser, and the requests so far.
#[derive(Default)]
struct Session {
    buffer: Vec<u8>,
    parser: Parser,
    batch: Batch,
    outcome: Outcome,
    /// The size from which on an argument is received in a buffer of its own, if it is still to arrive.
    detached_size_min: Option<usize>,
    /// Such an argument, and its announced size.
    arriving: Option<(Vec<u8>, usize)>,
    detached_count: usize,
}

impl Session {
    /// Adds `bytes` to an argument with a buffer of its own. Returns the rest.
    fn detach<'a>(&mut self, bytes: &'a [u8], size_min: usize) -> &'a [u8] {
        let announced = self.parser.announced();
        let size = announced.len().saturating_sub(2);
        let is_here = (announced.start..announced.start + size).contains(&self.buffer.len());
        if self.arriving.is_none() && size >= size_min && is_here && !self.parser.has_detached() {
            self.arriving = Some((self.buffer.split_off(announced.start), size));
        }
        let Some((argument, size)) = &mut self.arriving else { return bytes };
        let (part, rest) = bytes.split_at(bytes.len().min(*size - argument.len()));
        argument.extend_from_slice(part);
        if argument.len() == *size {
            self.parser.detach(Arc::new(std::mem::take(argument)));
            self.arriving = None;
            self.detached_count += 1;
        }
        rest
    }

    /// Receives `bytes` and parses all complete requests.
    fn receive(&mut self, bytes: &[u8], limits: &RequestLimits, request_count_max: usize) {
        let bytes = match self.detached_size_min {
            Some(size_min) => self.detach(bytes, size_min),
            None => bytes,
        };
        self.buffer.extend_from_slice(bytes);
        while self.outcome.1.is_none() {
            self.batch.clear();
            let parsed = self.parser.parse(&self.buffer, limits, &mut self.batch, request_count_max);
            for series in self.batch.series() {
                for nth in 0..series.count() {
                    let args = self.batch.args(series, nth, &self.buffer);
                    let range = series.range_of(nth);
                    assert!(!range.is_empty() && range.end <= parsed.consumed);
                    assert_eq!(args.len(), series.argc());
                    let mut rewritten = Vec::new();
                    args.write_multibulk(&mut rewritten);
                    assert_eq!(rewritten.len(), args.wire_size());
                    let is_same = self.buffer[range].ends_with(&rewritten);
                    assert_eq!(args.as_multibulk(), is_same.then_some(&rewritten[..]));
                }
            }
            let owned = |args: Args<'_>| args.iter().map(<[u8]>::to_vec).collect();
            self.outcome.0.extend(self.batch.requests(&self.buffer).map(owned));
            if let Some(need) = parsed.need_hint {
                assert!(need > 0 && parsed.error.is_none());
            }
            self.outcome.1 = parsed.error;
            self.buffer.drain(..parsed.consumed);
            if self.batch.is_empty() {
                break;
            }
        }
    }
}

#[test]
fn a_request_is_taken_as_it_was_received_if_its_form_is_canonical() {
    let long = "v".repeat(1234);
    let long = format!("*2\r\n$4\r\nECHO\r\n$1234\r\n{long}\r\n");
    let cases: [(&str, bool); 8] = [
        ("*1\r\n$4\r\nPING\r\n", true),
        ("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", true),
        ("*2\r\n$4\r\nECHO\r\n$12\r\n12\r\n56789012\r\n", true),
        (&long, true),
        ("*02\r\n$4\r\nECHO\r\n$1\r\nx\r\n", false),
        ("*2\r\n$4\r\nECHO\r\n$01\r\nx\r\n", false),
        ("ECHO     x\r\n", false),
        ("ECHO \"$1\r\nx\"\r\n", false),
    ];
    for (input, is_canonical) in cases {
        let (mut parser, mut batch) = (Parser::new(), Batch::new());
        let parsed = parser.parse(input.as_bytes(), &CLIENT, &mut batch, 1);
        let Some(series) = batch.series().first() else {
            assert!(parsed.error.is_some() && !is_canonical, "{input:?}");
            continue;
        };
        let request = batch.args(series, 0, input.as_bytes()).as_multibulk();
        assert_eq!(request, is_canonical.then_some(input.as_bytes()), "{input:?}");
    }
    let owned: wire::request::ArgsBuf = [&b"GET"[..], b"key"].into_iter().collect();
    assert_eq!(owned.args().as_multibulk(), None);
}

fn parse(input: &[u8], limits: &RequestLimits) -> Outcome {
    let mut session = Session::default();
    session.receive(input, limits, usize::MAX);
    session.outcome
}

/// Parses `input` in pieces that end at `cuts`.
fn parse_cut(input: &[u8], cuts: &[usize], limits: &RequestLimits, request_count_max: usize) -> Outcome {
    let mut session = Session::default();
    let mut start = 0;
    for &end in cuts.iter().chain([&input.len()]) {
        session.receive(&input[start..end], limits, request_count_max);
        start = end;
    }
    session.outcome
}

/// As [`parse_cut`], with arguments in buffers of their own. Returns their number, too.
fn parse_detached(input: &[u8], cuts: &[usize], limits: &RequestLimits) -> (Outcome, usize) {
    let mut session = Session { detached_size_min: Some(1), ..Session::default() };
    let mut start = 0;
    for &end in cuts.iter().chain([&input.len()]) {
        session.receive(&input[start..end], limits, usize::MAX);
        start = end;
    }
    (session.outcome, session.detached_count)
}

/// Checks the outcome of `input`, whole and in single bytes. `requests` has one request a line, arguments
/// separated by blanks.
fn check(limits: &RequestLimits, input: &[u8], requests: &str, error: Option<ProtocolError>) {
    let expected = requests
        .lines()
        .map(|line| line.split(' ').map(|argument| argument.as_bytes().to_vec()).collect())
        .collect::<Vec<Vec<_>>>();
    let shown = &input[..input.len().min(80)].escape_ascii();
    assert_eq!(parse(input, limits), (expected.clone(), error), "{shown}");
    let cuts: Vec<usize> = (0..input.len()).collect();
    assert_eq!(parse_cut(input, &cuts, limits, 1), (expected, error), "in single bytes: {shown}");
}

#[test]
fn requests_are_read() {
    let cases: &[(&[u8], &str)] = &[
        (b"", ""),
        (b"*1\r\n$4\r\nPING\r\n", "PING"),
        (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", "GET a\nPING"),
        (b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "GET "),
        (b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n", "GET key:000000000042"),
        (b"*1\r\n$4\r\nPI", ""),
        (b"*2147483647\r\n", ""),
        (b"*0\r\n*-1\r\n*-10\r\n\r\n\n  \r\n*1\r\n$4\r\nPING\r\n", "PING"),
        (b"PING\r\n", "PING"),
        (b"PING\n", "PING"),
        (b"set \"a\\x41\" 'b'\r\nGET aA\r\n*1\r\n$4\r\nPING\r\n", "set aA b\nGET aA\nPING"),
        (b"$4\r\n", "$4"),
        (b"PING\r\nPI\0NG\r\nPING\r\n", "PING"),
    ];
    for &(input, requests) in cases {
        check(&CLIENT, input, requests, None);
    }
}

#[test]
fn violations_are_reported_after_earlier_requests() {
    use ProtocolError as E;
    let long = |start: &str| [start.as_bytes(), &[b'1'; 64 * 1024 + 1]].concat();
    let cases: &[(&[u8], E)] = &[
        (b"*3000000000\r\n", E::InvalidCount),
        (b"*2147483648\r\n", E::InvalidCount),
        (b"*9223372036854775808\r\n", E::InvalidCount),
        (b"*\r\n", E::InvalidCount),
        (b"*a\r\n", E::InvalidCount),
        (b"*01\r\n", E::InvalidCount),
        (b"*+1\r\n", E::InvalidCount),
        (b"* 1\r\n", E::InvalidCount),
        (b"*-0\r\n", E::InvalidCount),
        (b"*1\n$4\r\n", E::InvalidCount),
        (b"*1\rx", E::InvalidLineEnd),
        (b"*12\rx", E::InvalidLineEnd),
        (b"*1\r\nfoo\r\n", E::ExpectedBulk(b'f')),
        (b"*1\r\n\r\n", E::ExpectedBulk(b'\r')),
        (b"*1\r\n:4\r\n", E::ExpectedBulk(b':')),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", E::ExpectedBulk(b'f')),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n", E::InvalidLength),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", E::InvalidLength),
        (b"*1\r\n$blabla\r\n", E::InvalidLength),
        (b"*1\r\n$\r\n", E::InvalidLength),
        (b"*1\r\n$03\r\nGET\r\n", E::InvalidLength),
        (b"*1\r\n$-1\r\n", E::InvalidLength),
        (b"*1\r\n$1a\r\n", E::InvalidLength),
        (b"*1\r\n$a1\r\n", E::InvalidLength),
        (b"*1\r\n$536870913\r\n", E::InvalidLength),
        (b"*1\r\n$4\rx", E::InvalidLineEnd),
        (b"*1\r\n$5\r\nvaluexx", E::InvalidLineEnd),
        (b"*1\r\n$5\r\nvaluex\n", E::InvalidLineEnd),
        (b"*1\r\n$5\r\nvalue\rx", E::InvalidLineEnd),
        (b"set \"key value\r\n", E::UnbalancedQuotes),
        (b"set 'a\r\n", E::UnbalancedQuotes),
        (&long("*"), E::CountLineTooBig),
        (&long("*1\r\n$"), E::LengthLineTooBig),
        (&long(""), E::InlineTooBig),
        (&long("\0\r\n"), E::InlineTooBig),
    ];
    for &(violation, error) in cases {
        check(&CLIENT, violation, "", Some(error));
        check(&CLIENT, &[b"*1\r\n$4\r\nPING\r\nQUIT\r\n", violation].concat(), "PING\nQUIT", Some(error));
    }
}

#[test]
fn inline_requests_are_limited_to_64_kib() {
    let word = vec![b'a'; 64 * 1024];
    let inline = [&word[..], b"\n"].concat();
    assert_eq!(parse(&inline, &CLIENT), (vec![vec![word.clone()]], None));
    let inline = [&word[..], b"a\n"].concat();
    assert_eq!(parse(&inline, &CLIENT), (vec![], Some(ProtocolError::InlineTooBig)));
}

#[test]
fn unauthenticated_clients_have_stricter_limits() {
    let ten = [b"*10\r\n".to_vec(), b"$1\r\na\r\n".repeat(10)].concat();
    check(&UNAUTHENTICATED, &ten, "a a a a a a a a a a", None);
    check(&UNAUTHENTICATED, b"*11\r\n", "", Some(ProtocolError::UnauthenticatedCount));
    check(&UNAUTHENTICATED, b"*2147483648\r\n", "", Some(ProtocolError::InvalidCount));
    check(&UNAUTHENTICATED, b"*1\r\n$16384\r\n", "", None);
    check(&UNAUTHENTICATED, b"*1\r\n$16385\r\n", "", Some(ProtocolError::UnauthenticatedLength));
    check(&UNAUTHENTICATED, b"*1\r\n$536870913\r\n", "", Some(ProtocolError::InvalidLength));
    // The first request may lift the limits, so the second is not parsed in the same call.
    let mut batch = Batch::new();
    let input = b"*1\r\n$4\r\nAUTH\r\n*11\r\n";
    let parsed = Parser::new().parse(input, &UNAUTHENTICATED, &mut batch, usize::MAX);
    assert_eq!((parsed.consumed, parsed.error, batch.len()), (14, None, 1));
}

#[test]
fn a_primary_has_no_limits_but_sends_no_lines() {
    check(&PRIMARY, b"\n\r\n*1\r\n$4\r\nPING\r\n\n", "PING", None);
    check(&PRIMARY, b"*1\r\n$4\r\nPING\r\nPING\r\n", "PING", Some(ProtocolError::InlineFromPrimary));
    check(&PRIMARY, b"*1\r\n$2000000000\r\n", "", None);
    check(&PRIMARY, b"*1\r\n$4294967295\r\n", "", Some(ProtocolError::RequestTooBig));
    check(&PRIMARY, b"*1\r\n$9223372036854775807\r\n", "", Some(ProtocolError::RequestTooBig));
}

#[test]
fn error_texts_match_redis() {
    use ProtocolError as E;
    let cases = [
        (E::InlineTooBig, "ERR Protocol error: too big inline request"),
        (E::UnbalancedQuotes, "ERR Protocol error: unbalanced quotes in request"),
        (E::CountLineTooBig, "ERR Protocol error: too big mbulk count string"),
        (E::InvalidCount, "ERR Protocol error: invalid multibulk length"),
        (E::UnauthenticatedCount, "ERR Protocol error: unauthenticated multibulk length"),
        (E::ExpectedBulk(b'f'), "ERR Protocol error: expected '$', got 'f'"),
        (E::LengthLineTooBig, "ERR Protocol error: too big bulk count string"),
        (E::InvalidLength, "ERR Protocol error: invalid bulk length"),
        (E::UnauthenticatedLength, "ERR Protocol error: unauthenticated bulk length"),
        (E::InvalidLineEnd, "ERR Protocol error: invalid CRLF in request"),
    ];
    for (error, expected) in cases {
        let mut text = Vec::new();
        error.write_text(&mut text);
        assert_eq!(text, expected.as_bytes());
        assert_eq!(error.to_string(), expected.strip_prefix("ERR Protocol error: ").unwrap());
    }
    assert_eq!(E::ExpectedBulk(b'\r').to_string(), r"expected '$', got '\r'");
}

#[test]
fn the_missing_size_of_a_large_argument_is_reported() {
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    let start = b"*1\r\n$1\r\na\r\n*2\r\n$3\r\nSET\r\n$100000\r\nabc".to_vec();
    let parsed = parser.parse(&start, &CLIENT, &mut batch, 10);
    assert_eq!((parsed.consumed, parsed.need_hint), (11, Some(99_999)));
    assert!(parser.is_mid_request());
    let rest = [&start[11..], &[b'x'; 99_997], b"\r"].concat();
    let parsed = parser.parse(&rest, &CLIENT, &mut batch, 10);
    assert_eq!((parsed.consumed, parsed.need_hint), (0, Some(1)));
    batch.clear();
    let rest = [&rest[..], b"\n*1\r\n$4\r\nPING\r\n*"].concat();
    let parsed = parser.parse(&rest, &CLIENT, &mut batch, 10);
    assert_eq!((parsed.consumed, parsed.need_hint), (rest.len() - 1, None));
    assert_eq!(batch.len(), 2);
    let sizes: Vec<usize> = batch.requests(&rest).map(|args| args.at(args.len() - 1).len()).collect();
    assert_eq!(sizes, [100_000, 4]);
}

#[test]
fn a_batch_ends_at_its_maximum() {
    let input = b"PING\r\n\r\n*1\r\n$1\r\na\r\n*0\r\n*1\r\n$1\r\nb\r\n";
    let mut batch = Batch::new();
    let mut parser = Parser::new();
    assert_eq!(parser.parse(input, &CLIENT, &mut batch, 0).consumed, 0);
    assert_eq!(parser.parse(input, &CLIENT, &mut batch, 2).consumed, 19);
    assert_eq!(batch.len(), 2);
    batch.clear();
    assert_eq!(parser.parse(&input[19..], &CLIENT, &mut batch, 2).consumed, 15);
    assert!(batch.requests(&input[19..]).map(Args::name).eq([b"b"]));
}

/// A small generator of repeatable random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// Protocol-like bytes: whole requests, and sometimes malformed ones.
    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.below(12) {
            match self.below(12) {
                0 => input.extend_from_slice(b"*0\r\n\r\n"),
                1 => input.extend_from_slice(b"set k \"a\\x00 b\" 'c'\r\n"),
                2 => input.extend_from_slice(b"*12\r\n"),
                _ => {
                    let argc = 1 + self.below(4);
                    input.extend_from_slice(format!("*{argc}\r\n").as_bytes());
                    for _ in 0..argc {
                        let size = match self.below(6) {
                            0 => self.below(12_000),
                            1 => self.below(1000),
                            _ => self.below(20),
                        };
                        input.extend_from_slice(format!("${size}\r\n").as_bytes());
                        input.extend((0..size).map(|_| b"\r\n*$0aZ\0"[self.below(8)]));
                        input.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
        if self.below(2) == 0 {
            for _ in 0..1 + self.below(3) {
                let at = self.below(input.len() + 1);
                match self.below(3) {
                    0 => input.truncate(at),
                    1 => input.insert(at, b"\r\n*$0-9a\"' "[self.below(11)]),
                    _ if at < input.len() => input[at] = self.below(256) as u8,
                    _ => {}
                }
            }
        }
        input
    }
}

#[test]
fn split_input_parses_equally() {
    for seed in 1..1500u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let input = random.input();
        let limits = [CLIENT, UNAUTHENTICATED, PRIMARY][random.below(3)];
        let expected = parse(&input, &limits);
        for _ in 0..4 {
            let mut cuts: Vec<usize> = (0..random.below(10)).map(|_| random.below(input.len() + 1)).collect();
            cuts.sort_unstable();
            let request_count_max = 1 + random.below(5);
            assert_eq!(
                parse_cut(&input, &cuts, &limits, request_count_max),
                expected,
                "seed {seed}, cuts {cuts:?}: {}",
                input.escape_ascii()
            );
        }
    }
}

#[test]
fn arguments_in_buffers_of_their_own_parse_equally() {
    let mut count = 0;
    for seed in 1..1500u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let input = random.input();
        let limits = [CLIENT, UNAUTHENTICATED, PRIMARY][random.below(3)];
        let mut cuts: Vec<usize> = (0..random.below(20)).map(|_| random.below(input.len() + 1)).collect();
        cuts.sort_unstable();
        let (outcome, detached_count) = parse_detached(&input, &cuts, &limits);
        assert_eq!(outcome, parse(&input, &limits), "seed {seed}, cuts {cuts:?}: {}", input.escape_ascii());
        count += detached_count;
    }
    assert!(count > 500, "{count} arguments");
}

#[test]
fn random_bytes_cause_no_panic() {
    let alphabet = b"\r\r\r\n\n\n***$$$$0123456789--\"'\\x \0a\xff";
    for seed in 1..20_000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let input: Vec<u8> = (0..random.below(200)).map(|_| alphabet[random.below(alphabet.len())]).collect();
        let cut = random.below(input.len() + 1);
        assert_eq!(parse_cut(&input, &[cut], &CLIENT, 8), parse(&input, &CLIENT), "seed {seed}");
    }
}

#[test]
fn a_large_request_in_small_pieces_is_read_once() {
    // Quadratic behaviour would take minutes here.
    let argument_count = 200_000;
    let mut input = format!("*{argument_count}\r\n").into_bytes();
    for index in 0..argument_count {
        let text = index.to_string();
        input.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    for end in (0..input.len()).step_by(100) {
        let parsed = parser.parse(&input[..end], &CLIENT, &mut batch, 10);
        assert_eq!((parsed.consumed, parsed.error), (0, None));
    }
    let parsed = parser.parse(&input, &CLIENT, &mut batch, 10);
    assert_eq!(parsed.consumed, input.len());
    let args = batch.args(&batch.series()[0], 0, &input);
    assert_eq!(args.len(), argument_count);
    assert!(args.iter().enumerate().all(|(index, argument)| argument == index.to_string().as_bytes()));
}

//! Replies as read by a client, of both protocol versions, whole and in pieces.

use wire::number;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Batch, Parser, RequestLimits};
use wire::response::{Reply, ResponseError, encode_command, skip_reply};

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

/// Checks that `input` is exactly this reply, and that no shorter prefix is a reply or an error.
fn check(input: &str, expected: &Reply) {
    let bytes = [input.as_bytes(), b"+next\r\n"].concat();
    let (reply, len) = Reply::parse(&bytes).expect("a reply").expect("whole");
    assert_eq!((&reply, len), (expected, input.len()), "{input:?}");
    let skipped = skip_reply(&bytes).expect("a reply").expect("whole");
    assert_eq!((skipped.len, skipped.is_error), (len, reply.is_error()), "{input:?}");
    assert_eq!(skipped.is_push, matches!(reply, Reply::Push(_)));
    for end in 0..input.len() {
        assert_eq!(Reply::parse(&bytes[..end]), Ok(None), "{:?}", &input[..end]);
        assert_eq!(skip_reply(&bytes[..end]), Ok(None), "{:?}", &input[..end]);
    }
}

#[test]
fn replies_are_read() {
    let cases = [
        ("+OK\r\n", Reply::Simple(b"OK".to_vec())),
        ("+\r\n", Reply::Simple(vec![])),
        ("-ERR no\r\n", Reply::Error(b"ERR no".to_vec())),
        ("!6\r\nERR\r\na\r\n", Reply::Error(b"ERR\r\na".to_vec())),
        (":0\r\n", Reply::Integer(0)),
        (":+7\r\n", Reply::Integer(7)),
        (":-9223372036854775808\r\n", Reply::Integer(i64::MIN)),
        ("$0\r\n\r\n", bulk("")),
        ("$5\r\na\r\nbc\r\n", bulk("a\r\nbc")),
        ("$?\r\n;2\r\nab\r\n;1\r\nc\r\n;0\r\n", bulk("abc")),
        ("$-1\r\n", Reply::NullBulk),
        ("*-1\r\n", Reply::NullArray),
        ("_\r\n", Reply::Null),
        (",1.5\r\n", Reply::Double(1.5)),
        (",-inf\r\n", Reply::Double(f64::NEG_INFINITY)),
        ("#t\r\n", Reply::Boolean(true)),
        ("#f\r\n", Reply::Boolean(false)),
        ("(-12345678901234567890\r\n", Reply::BigNumber(b"-12345678901234567890".to_vec())),
        ("=6\r\ntxt:hi\r\n", Reply::Verbatim(*b"txt", b"hi".to_vec())),
        ("*0\r\n", Reply::Array(vec![])),
        (
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            Reply::Array(vec![bulk("a"), Reply::Array(vec![Reply::Integer(1)])]),
        ),
        ("*1\r\n-ERR in\r\n", Reply::Array(vec![Reply::Error(b"ERR in".to_vec())])),
        ("~1\r\n+a\r\n", Reply::Set(vec![Reply::Simple(b"a".to_vec())])),
        (">2\r\n+a\r\n:1\r\n", Reply::Push(vec![Reply::Simple(b"a".to_vec()), Reply::Integer(1)])),
        ("%1\r\n$1\r\nk\r\n*0\r\n", Reply::Map(vec![(bulk("k"), Reply::Array(vec![]))])),
        (
            "*?\r\n:1\r\n*?\r\n.\r\n%?\r\n:2\r\n*2\r\n:3\r\n:4\r\n.\r\n.\r\n",
            Reply::Array(vec![
                Reply::Integer(1),
                Reply::Array(vec![]),
                Reply::Map(vec![(
                    Reply::Integer(2),
                    Reply::Array(vec![Reply::Integer(3), Reply::Integer(4)]),
                )]),
            ]),
        ),
        (
            "|1\r\n+ttl\r\n:9\r\n-ERR x\r\n",
            Reply::Attributed(
                vec![(Reply::Simple(b"ttl".to_vec()), Reply::Integer(9))],
                Box::new(Reply::Error(b"ERR x".to_vec())),
            ),
        ),
        (
            "*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n",
            Reply::Array(vec![
                Reply::Attributed(
                    vec![(Reply::Simple(b"a".to_vec()), Reply::Array(vec![Reply::Integer(1)]))],
                    Box::new(Reply::Integer(2)),
                ),
                Reply::Integer(3),
            ]),
        ),
    ];
    for (input, expected) in &cases {
        check(input, expected);
    }
}

#[test]
fn malformed_replies_are_refused() {
    use ResponseError as E;
    let cases: &[(&[u8], E)] = &[
        (b"x\r\n", E::UnknownType(b'x')),
        (b"\r\n", E::UnknownType(b'\r')),
        (b".\r\n", E::UnknownType(b'.')),
        (b"+a\rb", E::InvalidLineEnd),
        (b"$1\r\nabc", E::InvalidLineEnd),
        (b"$\r\n", E::Malformed(b'$')),
        (b"$-2\r\n", E::Malformed(b'$')),
        (b"$99999999999999999999\r\n", E::Malformed(b'$')),
        (b"*a\r\n", E::Malformed(b'*')),
        (b"*1\r\n.\r\n", E::Malformed(b'.')),
        (b"%9999999999999999999\r\n", E::Malformed(b'%')),
        (b"|?\r\n", E::Malformed(b'|')),
        (b"$?\r\n+a\r\n", E::UnknownType(b'+')),
    ];
    for &(input, error) in cases {
        assert_eq!(skip_reply(input), Err(error), "{}", input.escape_ascii());
        assert_eq!(Reply::parse(input), Err(error), "{}", input.escape_ascii());
    }
    // An error inside a reply does not affect where it ends.
    let whole_but_wrong: &[&[u8]] =
        &[b":x\r\n", b"#x\r\n", b",x\r\n", b"_x\r\n", b"=2\r\nab\r\n", b"~-1\r\n"];
    for input in whole_but_wrong {
        assert_eq!(skip_reply(input).unwrap().unwrap().len, input.len());
        assert_eq!(Reply::parse(input), Err(E::Malformed(input[0])));
    }
    let deep = [b"*1\r\n".repeat(100_000), b":1\r\n".to_vec()].concat();
    assert_eq!(skip_reply(&deep).unwrap().unwrap().len, deep.len());
    assert_eq!(Reply::parse(&deep), Err(E::NestedTooDeeply));
}

#[test]
fn random_bytes_cause_no_panic() {
    let alphabet = b"\r\n\r\n\r\n\r\n+-:$$**%~>|_,#(=!?;.0011234t";
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % limit
    };
    for _ in 0..100_000 {
        let mut input: Vec<u8> = Vec::new();
        for _ in 0..below(40) {
            match below(3) {
                0 => input.extend_from_slice(b"\r\n"),
                _ => input.push(alphabet[below(alphabet.len())]),
            }
        }
        let skipped = skip_reply(&input);
        match Reply::parse(&input) {
            Ok(None) => assert_eq!(skipped, Ok(None)),
            Ok(Some((reply, len))) => {
                let skipped = skipped.unwrap().unwrap();
                assert_eq!((skipped.len, skipped.is_error), (len, reply.is_error()));
            }
            Err(_) => {}
        }
    }
}

#[test]
fn encoded_requests_are_parsed() {
    let mut input = Vec::new();
    encode_command(&["SET", "key", ""], &mut input);
    assert_eq!(input, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    let long = vec![b'x'; 1234];
    encode_command(&[&b"ECHO"[..], &long], &mut input);
    let mut batch = Batch::new();
    let parsed = Parser::new().parse(&input, &RequestLimits::default(), &mut batch, 10);
    assert_eq!((parsed.consumed, batch.len()), (input.len(), 2));
    assert_eq!(batch.args(&batch.series()[1], 0, &input).at(1), long);
}

#[test]
fn a_long_string_reserves_its_exact_size() {
    let mut out = Vec::new();
    ReplyBuffer::new(&mut out, Protocol::Resp2).bulk(&[b'x'; 100_000]);
    assert!(out.capacity() < 100_100, "{}", out.capacity());
}

#[test]
fn written_replies_are_parsed() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut out = Vec::new();
        let mut reply = ReplyBuffer::new(&mut out, protocol);
        reply.array(8);
        reply.map(1);
        reply.bulk(b"key");
        reply.double(1e21);
        reply.set(1);
        reply.boolean(true);
        reply.null();
        reply.null_array();
        reply.verbatim(b"txt", b"text");
        reply.big_number(b"123");
        reply.push(1);
        reply.error("ERR a\r\nb");
        let deferred = reply.deferred_array();
        for value in 0..100 {
            reply.integer(value * value);
        }
        reply.set_len(deferred, 100);
        let (read, len) = Reply::parse(&out).unwrap().unwrap();
        assert_eq!(len, out.len());
        let elements = read.elements().unwrap();
        assert_eq!(elements.len(), 8);
        assert_eq!(elements[7].elements().unwrap()[99], Reply::Integer(99 * 99));
        if protocol == Protocol::Resp3 {
            assert_eq!(elements[0], Reply::Map(vec![(bulk("key"), Reply::Double(1e21))]));
            assert_eq!(elements[5], Reply::BigNumber(b"123".to_vec()));
        } else {
            assert_eq!(elements[0], Reply::Array(vec![bulk("key"), bulk("1e+21")]));
            assert_eq!(elements[2], Reply::NullBulk);
        }
        assert_eq!(elements[6].elements().unwrap()[0].text(), Some(&b"ERR a  b"[..]));
    }
    assert_eq!(number::parse_f64(b"1e+21"), Some(1e21));
}

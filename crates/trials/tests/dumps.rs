//! Values in the payload of `DUMP` round-trip from each server through each other that can read them.
//!
//! A server refuses payloads of a version that is newer than its own, and field expiries need a version that Redis does
//! not read here: refused values are listed.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::io;

use trials::connection::Connection;
use trials::reply::Reply;
use trials::server::{Program, Server, peers_or_skip};

/// A key and the requests that make it.
struct Sample {
    key: &'static str,
    requests: Vec<Vec<String>>,
}

fn sample(key: &'static str, requests: impl IntoIterator<Item = Vec<String>>) -> Sample {
    Sample { key, requests: requests.into_iter().collect() }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A request with as many elements: `element` makes the words of each.
fn many(head: &str, count: usize, element: impl Fn(usize) -> String) -> Vec<String> {
    words(head).into_iter().chain((0..count).flat_map(|n| words(&element(n)))).collect()
}

const FAR: &str = "4102444800000";

/// Every type in every encoding, small and large.
fn samples() -> Vec<Sample> {
    let long = "x".repeat(20_000);
    vec![
        sample("string", [words("SET string hello")]),
        sample("empty", [words("SET empty ")]),
        sample("int", [words("SET int -12345678901")]),
        sample("small-int", [words("SET small-int 77")]),
        sample("long", [vec!["SET".into(), "long".into(), long.clone()]]),
        sample("list", [words("RPUSH list a 1 -70000 b c")]),
        sample("long-list", [many("RPUSH long-list", 3000, |n| format!("element-{n}"))]),
        sample(
            "list-of-long",
            [words("RPUSH list-of-long a"), vec!["RPUSH".into(), "list-of-long".into(), long]],
        ),
        sample("intset", [words("SADD intset 1 -2 70000 1099511627776")]),
        sample("set", [words("SADD set a b 3")]),
        sample("large-set", [many("SADD large-set", 3000, |n| format!("member-{n}"))]),
        sample("large-int-set", [many("SADD large-int-set", 3000, |n| format!("{n}"))]),
        sample("zset", [words("ZADD zset 1 a -2.5 b inf c -inf d 0.1 e 17 5")]),
        sample("large-zset", [many("ZADD large-zset", 3000, |n| format!("{}.25 member-{n}", n % 97))]),
        sample("hash", [words("HSET hash a 1 b two 3 c")]),
        sample("large-hash", [many("HSET large-hash", 3000, |n| format!("field-{n} value-{n}"))]),
        sample(
            EXPIRING,
            [
                words("HSET expiring-hash a 1 b 2 c 3"),
                words(&format!("HPEXPIREAT expiring-hash {FAR} FIELDS 2 a b")),
            ],
        ),
        sample("hll", [many("PFADD hll", 200, |n| format!("element-{n}"))]),
        sample("stream", stream("stream", 300)),
        sample("small-stream", stream("small-stream", 3)),
        sample("empty-stream", [words("XADD empty-stream 1-1 a b"), words("XDEL empty-stream 1-1")]),
    ]
}

const EXPIRING: &str = "expiring-hash";

fn stream(key: &str, len: usize) -> Vec<Vec<String>> {
    let add = |n: usize| words(&format!("XADD {key} {}-{} name value-{n} same {n}", 1000 + n / 3, n % 3 + 1));
    let requests = [
        format!("XADD {key} 5000-1 other x"),
        format!("XADD {key} 5000-2 other y another z"),
        format!("XDEL {key} 1000-2"),
        format!("XGROUP CREATE {key} group 0"),
        format!("XREADGROUP GROUP group reader COUNT 2 STREAMS {key} >"),
        format!("XREADGROUP GROUP group other COUNT 1 STREAMS {key} >"),
        format!("XACK {key} group 1000-1"),
        format!("XGROUP CREATECONSUMER {key} group idle"),
        format!("XGROUP CREATE {key} second $"),
    ];
    (0..len).map(add).chain(requests.iter().map(|request| words(request))).collect()
}

fn call(connection: &mut Connection, request: &[&[u8]]) -> Reply {
    connection.call(request).unwrap().reply
}

fn fill(connection: &mut Connection) {
    for sample in samples() {
        for request in &sample.requests {
            let reply = connection.call(request).unwrap().reply;
            assert!(!matches!(reply, Reply::Error(_)), "{}: {reply:?}", request[0]);
        }
    }
}

fn dump(connection: &mut Connection, key: &str) -> Vec<u8> {
    match call(connection, &[b"DUMP", key.as_bytes()]) {
        Reply::Bulk(payload) => payload,
        other => panic!("DUMP {key}: {other:?}"),
    }
}

/// The contents of a key as clients read them, in an order that does not depend on the server.
fn content(connection: &mut Connection, key: &str) -> Vec<Reply> {
    let name = key.as_bytes();
    let mut reply = |request: &[&[u8]]| call(connection, request);
    let kind = reply(&[b"TYPE", name]);
    let Reply::Simple(kind_name) = &kind else { panic!("{kind:?}") };
    let elements = match kind_name.as_slice() {
        b"string" => vec![reply(&[b"GET", name])],
        b"list" => vec![reply(&[b"LRANGE", name, b"0", b"-1"])],
        b"set" => vec![sorted(reply(&[b"SMEMBERS", name]), 1)],
        b"zset" => vec![reply(&[b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"])],
        b"hash" => vec![sorted(reply(&[b"HGETALL", name]), 2)],
        b"stream" => {
            // Idle times advance: the pending entries are compared without them.
            let groups = [&b"group"[..], b"second"];
            let pending = groups.map(|group| match reply(&[b"XPENDING", name, group, b"-", b"+", b"1000"]) {
                Reply::List(_, entries) => entries.into_iter().map(without_idle_time).collect(),
                other => vec![other],
            });
            let info = [&[b"XINFO", &b"STREAM"[..], name][..], &[b"XINFO", b"GROUPS", name]].map(&mut reply);
            let info = info.map(without_internals);
            let range = reply(&[b"XRANGE", name, b"-", b"+"]);
            [range].into_iter().chain(info).chain(pending.into_iter().flatten()).collect()
        }
        other => panic!("{other:?}"),
    };
    let expiries = match key {
        EXPIRING => reply(&[b"HPEXPIRETIME", name, b"FIELDS", b"3", b"a", b"b", b"c"]),
        _ => Reply::Null,
    };
    [kind].into_iter().chain(elements).chain([expiries]).collect()
}

fn sorted(reply: Reply, chunk_len: usize) -> Reply {
    let Reply::List(kind, items) = reply else { panic!("{reply:?}") };
    let mut chunks: Vec<Vec<Reply>> = items.chunks(chunk_len).map(<[Reply]>::to_vec).collect();
    chunks.sort();
    Reply::List(kind, chunks.concat())
}

fn without_idle_time(entry: Reply) -> Reply {
    match entry {
        Reply::List(kind, mut parts) if parts.len() == 4 => {
            parts.remove(2);
            Reply::List(kind, parts)
        }
        other => other,
    }
}

/// The properties of a reply that do not depend on the server's implementation.
fn without_internals(info: Reply) -> Reply {
    const NAMES: &[&[u8]] = &[
        b"length",
        b"last-generated-id",
        b"max-deleted-entry-id",
        b"entries-added",
        b"recorded-first-entry-id",
        b"groups",
        b"name",
        b"consumers",
        b"pending",
        b"last-delivered-id",
        b"entries-read",
        b"lag",
    ];
    let is_kept = |name: &Reply| matches!(name, Reply::Bulk(name) if NAMES.contains(&name.as_slice()));
    match info {
        Reply::List(kind, items) if matches!(items.first(), Some(Reply::List(..))) => {
            Reply::List(kind, items.into_iter().map(without_internals).collect())
        }
        Reply::List(kind, items) => {
            let pairs = items.chunks(2).filter(|pair| is_kept(&pair[0]));
            Reply::List(kind, pairs.flatten().cloned().collect())
        }
        other => other,
    }
}

fn digest(connection: &mut Connection, key: &str) -> Reply {
    call(connection, &[b"DEBUG", b"DIGEST-VALUE", key.as_bytes()])
}

/// Copies every sample that is not refused. Returns the names of the refused ones.
fn transfer(from: &mut Connection, to: &mut Connection) -> Vec<&'static str> {
    call(to, &[b"FLUSHALL"]);
    let mut refused = Vec::new();
    for Sample { key, .. } in samples() {
        let payload = dump(from, key);
        match call(to, &[b"RESTORE", key.as_bytes(), b"0", &payload]) {
            Reply::Simple(_) => assert_eq!(content(to, key), content(from, key), "{key}"),
            Reply::Error(text) if text.starts_with(b"ERR DUMP payload version") => refused.push(key),
            other => panic!("RESTORE {key}: {other:?}"),
        }
    }
    refused
}

fn start(program: &Program) -> io::Result<(Server, Connection)> {
    let server = Server::start(&program.clone().with_arguments(&["--enable-debug-command", "yes"]))?;
    let connection = server.connect()?;
    Ok((server, connection))
}

#[test]
fn values_round_trip_through_every_server() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    for peer in peers {
        let (_ours, mut here) = start(&ours).unwrap();
        let (peer_server, mut there) = start(&peer).unwrap();
        fill(&mut here);
        let refused = transfer(&mut here, &mut there);
        let expected: &[&str] = if peer_server.name() == "valkey" { &[] } else { &[EXPIRING] };
        assert_eq!(refused, expected, "{}", peer_server.name());

        // The digest of a stream depends on how its entries are spread over nodes.
        let digests = |here: &mut Connection| {
            let samples = samples().into_iter().filter(|sample| !sample.key.contains("stream"));
            samples.map(|sample| (sample.key, digest(here, sample.key))).collect::<Vec<_>>()
        };
        let before = digests(&mut here);
        for Sample { key, .. } in samples().into_iter().filter(|sample| !refused.contains(&sample.key)) {
            let payload = dump(&mut there, key);
            let reply = call(&mut here, &[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"]);
            assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "{} {key}", peer_server.name());
            assert_eq!(content(&mut here, key), content(&mut there, key), "{} {key}", peer_server.name());
        }
        assert_eq!(digests(&mut here), before, "{}", peer_server.name());
    }
}

#[test]
fn values_of_every_server_are_read() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let (_ours, mut here) = start(&ours).unwrap();
    for peer in peers {
        let (peer_server, mut there) = start(&peer).unwrap();
        fill(&mut there);
        assert_eq!(transfer(&mut there, &mut here), Vec::<&str>::new(), "{}", peer_server.name());
    }
}

/// The file of a server's dump.
fn dump_path(connection: &mut Connection) -> std::path::PathBuf {
    match call(connection, &[b"CONFIG", b"GET", b"dir"]) {
        Reply::List(_, pair) => match &pair[..] {
            [_, Reply::Bulk(dir)] => std::path::Path::new(std::str::from_utf8(dir).unwrap()).join("dump.rdb"),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn expect_ok(connection: &mut Connection, request: &[&[u8]]) {
    assert_eq!(call(connection, request), Reply::Simple(b"OK".to_vec()), "{request:?}");
}

#[test]
fn files_round_trip_through_every_server() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    for peer in peers {
        let (_ours, mut here) = start(&ours).unwrap();
        let (peer_server, mut there) = start(&peer).unwrap();
        fill(&mut here);
        expect_ok(&mut here, &[b"SELECT", b"5"]);
        fill(&mut here);
        let expiry = call(&mut here, &[b"PEXPIREAT", b"string", FAR.as_bytes()]);
        assert_eq!(expiry, Reply::Integer(1));
        let version: &[u8] = if peer_server.name() == "valkey" { b"auto" } else { b"12" };
        expect_ok(&mut here, &[b"CONFIG", b"SET", b"rdb-version", version]);
        expect_ok(&mut here, &[b"SAVE"]);
        let (path_here, path_there) = (dump_path(&mut here), dump_path(&mut there));
        let before = call(&mut here, &[b"DEBUG", b"DIGEST"]);

        std::fs::copy(&path_here, &path_there).unwrap();
        expect_ok(&mut there, &[b"DEBUG", b"RELOAD", b"NOSAVE"]);
        for db in [b"0", b"5"] {
            for connection in [&mut here, &mut there] {
                expect_ok(connection, &[b"SELECT", db]);
            }
            for Sample { key, .. } in samples() {
                assert_eq!(content(&mut there, key), content(&mut here, key), "{} {key}", peer_server.name());
            }
        }

        expect_ok(&mut there, &[b"SAVE"]);
        std::fs::copy(&path_there, &path_here).unwrap();
        expect_ok(&mut here, &[b"DEBUG", b"RELOAD", b"NOSAVE"]);
        assert_eq!(call(&mut here, &[b"DEBUG", b"DIGEST"]), before, "{}", peer_server.name());
    }
}

/// The directory in which a server has its files.
fn data_dir(connection: &mut Connection) -> std::path::PathBuf {
    dump_path(connection).parent().unwrap().to_owned()
}

/// Waits until an append-only file that was switched on has its base: a write that follows is not durable before.
fn await_base(connection: &mut Connection) {
    expect_ok(connection, &[b"SET", b"written", b"later"]);
    assert_eq!(call(connection, &[b"DEL", b"written"]), Reply::Integer(1));
    let reply = call(connection, &[b"WAITAOF", b"1", b"0", b"20000"]);
    assert!(matches!(&reply, Reply::List(_, counts) if counts[0] == Reply::Integer(1)), "{reply:?}");
}

/// Copies the append-only directory of one server into that of another.
fn copy_append_only(from: &std::path::Path, to: &std::path::Path) {
    let (from, to) = (from.join("appendonlydir"), to.join("appendonlydir"));
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(&from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Fills one server with data in the base and in the increment of its append-only file, and loads the files in the other.
fn transfer_append_only(from: &mut Connection, to: &mut Connection, preamble: &[u8]) {
    expect_ok(from, &[b"CONFIG", b"SET", b"aof-use-rdb-preamble", preamble]);
    expect_ok(from, &[b"CONFIG", b"SET", b"appendfsync", b"always"]);
    fill(from);
    let expiry = call(from, &[b"PEXPIREAT", b"string", FAR.as_bytes()]);
    assert_eq!(expiry, Reply::Integer(1));
    expect_ok(from, &[b"CONFIG", b"SET", b"appendonly", b"yes"]);
    await_base(from);
    expect_ok(from, &[b"SELECT", b"5"]);
    fill(from);
    copy_append_only(&data_dir(from), &data_dir(to));
    expect_ok(to, &[b"DEBUG", b"LOADAOF"]);
    for db in [b"0", b"5"] {
        expect_ok(from, &[b"SELECT", db]);
        expect_ok(to, &[b"SELECT", db]);
        for Sample { key, .. } in samples() {
            assert_eq!(content(to, key), content(from, key), "{key}");
        }
        let key = b"string";
        assert_eq!(call(to, &[b"PEXPIRETIME", key]), call(from, &[b"PEXPIRETIME", key]));
    }
}

#[test]
fn append_only_files_go_to_every_server_and_come_back() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    for peer in peers {
        for preamble in [&b"yes"[..], b"no"] {
            let (_ours, mut here) = start(&ours).unwrap();
            let (peer_server, mut there) = start(&peer).unwrap();
            eprintln!("{}, preamble {}", peer_server.name(), preamble.escape_ascii());
            let version: &[u8] = if peer_server.name() == "valkey" { b"auto" } else { b"12" };
            expect_ok(&mut here, &[b"CONFIG", b"SET", b"rdb-version", version]);
            transfer_append_only(&mut here, &mut there, preamble);

            let (_ours, mut here) = start(&ours).unwrap();
            let (_peer, mut there) = start(&peer).unwrap();
            transfer_append_only(&mut there, &mut here, preamble);
        }
    }
}

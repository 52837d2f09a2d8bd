//! Damaged files through the whole path of loading: cut and with flipped bits at every offset. The load fails with offset and
//! reason, or gives other data; the server stays.

use std::path::Path;

use crate::support::directory::Directory;
use crate::support::{self, Client, Server};

/// Enters a small value of every type and encoding.
fn enter_values(client: &mut Client) {
    let requests: &[&[&str]] = &[
        &["SET", "text", "some text"],
        &["SET", "packed", &"x".repeat(60)],
        &["SET", "number", "-12345"],
        &["SET", "volatile", "value", "PXAT", "4102444800123"],
        &["RPUSH", "list", "a", "1", "long element of a list"],
        &["SADD", "ints", "1", "2", "70000"],
        &["SADD", "words", "a", "b"],
        &["SADD", "long-words", &"y".repeat(70)],
        &["ZADD", "scores", "1.5", "a", "-inf", "b"],
        &["ZADD", "long-scores", "1.5", &"z".repeat(70)],
        &["HSET", "hash", "a", "1", "b", "two"],
        &["HSET", "long-hash", "a", &"w".repeat(70)],
        &["HSET", "expiring", "a", "1", "b", "2"],
        &["HPEXPIREAT", "expiring", "4102444800000", "FIELDS", "1", "a"],
        &["XADD", "stream", "1-1", "field", "value"],
        &["XADD", "stream", "1-2", "field", "value", "other", "x"],
        &["XGROUP", "CREATE", "stream", "group", "0"],
        &["XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">"],
        &["SELECT", "3"],
        &["PFADD", "sketch", "a", "b"],
        &["SELECT", "0"],
    ];
    for request in requests {
        let reply = client.text(request);
        assert!(!reply.contains("ERR"), "{request:?}: {reply}");
    }
}

/// Loads each variant of a file. The server must survive all of them, and report the reason when it refuses one.
fn try_all(server: &Server, path: &Path, whole: &[u8], load: &[&str], error: &str) -> (usize, usize) {
    let mut client = server.client();
    let (mut loaded, mut refused) = (0, 0);
    let mut attempt = |bytes: &[u8], what: String| {
        std::fs::write(path, bytes).unwrap();
        client.send(load);
        let reply = client.receive().unwrap_or_else(|| panic!("{what}: the server is gone"));
        match support::shown(&reply).as_str() {
            "OK" => loaded += 1,
            text if text.starts_with("ERR Error trying to load") => refused += 1,
            text => panic!("{what}: {text}"),
        }
        // What was loaded can be read.
        assert_eq!(client.text(&["DEBUG", "DIGEST"]).len(), 40, "{what}");
    };
    for size in 0..whole.len() {
        attempt(&whole[..size], format!("cut at {size}"));
    }
    for offset in 0..whole.len() {
        let bit = offset % 8;
        let mut bytes = whole.to_vec();
        bytes[offset] ^= 1 << bit;
        attempt(&bytes, format!("bit {bit} of byte {offset}"));
    }
    assert!(server.has_logged(error), "{error}");
    assert!(!server.has_logged("panicked"));
    (loaded, refused)
}

fn options<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--enable-debug-command", "yes", "--dir", path], more].concat()
}

#[test]
fn every_damage_of_a_dump_is_survived() {
    let directory = Directory::new("damaged-dump");
    let path = directory.path("");
    // Without the checksum every value is decoded as it is.
    let server = Server::start(&options(&path, &["--rdbchecksum", "no"]));
    let mut client = server.client();
    enter_values(&mut client);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let file = directory.0.join("dump.rdb");
    let whole = std::fs::read(&file).unwrap();
    assert!(whole.len() < 2000, "{}", whole.len());
    let load = ["DEBUG", "RELOAD", "NOSAVE"];
    let (loaded, refused) = try_all(&server, &file, &whole, &load, "Internal error in RDB reading offset");
    assert!(refused > whole.len() && loaded > 50, "{refused} {loaded}");
}

#[test]
fn with_the_checksum_no_change_of_a_dump_is_accepted() {
    let directory = Directory::new("changed-dump");
    let path = directory.path("");
    let server = Server::start(&options(&path, &[]));
    let mut client = server.client();
    enter_values(&mut client);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let digest = client.text(&["DEBUG", "DIGEST"]);
    let file = directory.0.join("dump.rdb");
    let whole = std::fs::read(&file).unwrap();
    let load = ["DEBUG", "RELOAD", "NOSAVE"];
    for offset in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[offset] ^= 4;
        std::fs::write(&file, &bytes).unwrap();
        let reply = client.text(&load);
        assert!(reply.starts_with("ERR Error trying to load"), "byte {offset}: {reply}");
        if offset < 9 {
            // A file without the header of a known version replaces nothing.
            assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
        }
    }
}

#[test]
fn every_damage_of_an_append_only_file_is_survived() {
    let directory = Directory::new("damaged-log");
    let path = directory.path("");
    let server = Server::start(&options(&path, &["--appendonly", "yes", "--appendfsync", "always"]));
    let mut client = server.client();
    enter_values(&mut client);
    let written = directory.0.join("appendonlydir/appendonly.aof.1.incr.aof");
    let whole = std::fs::read(&written).unwrap();
    drop(client);
    drop(server);
    let server = Server::start(&options(&path, &["--aof-load-truncated", "no"]));
    let load = ["DEBUG", "LOADAOF"];
    let (loaded, refused) = try_all(&server, &written, &whole, &load, "valid up to offset");
    assert!(refused > whole.len() / 2 && loaded > 50, "{refused} {loaded}");
}

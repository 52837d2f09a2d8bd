//! Loading of RDB files: a loaded file has the stored data, clients get an error during the load, and a
//! file that is not valid ends the server with the reason.

use std::process::{Command, Output};

use crate::support::directory::Directory;
use crate::support::rdb_file::RdbFile;
use crate::support::{Client, Server, wait_for};
use rdb::Version;

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// The options of a server that loads from a directory.
fn loading_from<'a>(directory: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&DEBUG, ["--dir", directory].as_slice(), options].concat()
}

/// Runs a server that can't start. Returns its log.
fn expect_failed_start(directory: &Directory, options: &[&str]) -> String {
    let (path, socket) = (directory.path(""), directory.path("socket"));
    let Output { status, stdout, .. } = Command::new(env!("CARGO_BIN_EXE_broadloom"))
        .args(["--port", "0", "--unixsocket", &socket, "--dir", &path])
        .args(options)
        .output()
        .unwrap();
    let log = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(!log.contains("Ready to accept"), "{log}");
    log
}

/// Enters values of every type and encoding in two databases.
fn enter_values(client: &mut Client) {
    let long = "x".repeat(200);
    let requests: &[&[&str]] = &[
        &["SET", "text", "some text"],
        &["SET", "number", "-12345678901"],
        &["SET", "long", &long.repeat(100)],
        &["SET", "volatile", "value", "PXAT", "4102444800123"],
        &["RPUSH", "list", "a", "1", &long],
        &["SADD", "ints", "1", "2", "3"],
        &["SADD", "words", "a", "b"],
        &["SADD", "long-words", &long, "b"],
        &["ZADD", "scores", "1.5", "a", "-inf", "b"],
        &["ZADD", "long-scores", "1.5", &long, "2", "b"],
        &["HSET", "hash", "a", "1", "b", "two"],
        &["HSET", "long-hash", "a", &long],
        &["XADD", "stream", "1-1", "field", "value"],
        &["XGROUP", "CREATE", "stream", "group", "0"],
        &["XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">"],
        &["SELECT", "3"],
        &["SET", "text", "other"],
        &["HSET", "hash", "x", "y"],
        &["HPEXPIREAT", "hash", "4102444800000", "FIELDS", "1", "x"],
    ];
    for request in requests {
        let reply = client.text(request);
        assert!(!reply.contains("ERR"), "{request:?}: {reply}");
    }
    for number in 0..3000 {
        let (name, value) = (format!("key:{number}"), format!("value {number}"));
        assert_eq!(client.text(&["SET", &name, &value]), "OK");
    }
    assert_eq!(client.text(&["SELECT", "0"]), "OK");
}

#[test]
fn a_loaded_file_has_the_stored_data() {
    let directory = Directory::new("loading");
    let source = Server::start(&DEBUG);
    let mut client = source.client();
    enter_values(&mut client);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    let file = RdbFile::new(Version::V80).property("valkey-ver", "9.0.1").property("ctime", "1700000000");
    let file = file.all_keys(&mut client).select(5).key(
        "expired",
        Some(1),
        &[0, 1, b'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    directory.write("data.rdb", file.finish());
    let path = directory.path("");
    for threads in ["1", "3"] {
        let options = ["--dbfilename", "data.rdb", "--io-threads", threads];
        let server = Server::start(&loading_from(&path, &options));
        let mut client = server.client();
        assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
        assert_eq!(client.text(&["PEXPIRETIME", "volatile"]), "4102444800123");
        server.log_line("Loading RDB produced by Valkey version 9.0.1");
        server.log_line("Done loading RDB, keys loaded: 3015, keys expired: 1.");
        server.log_line("DB loaded from disk: ");
        for (field, value) in [
            ("loading", "0"),
            ("rdb_last_load_keys_loaded", "3015"),
            ("rdb_last_load_keys_expired", "1"),
            ("rdb_changes_since_last_save", "0"),
        ] {
            assert_eq!(server.info(&mut client, field), value, "{field}");
        }
    }
}

/// A file of so many keys that several threads load it.
fn large_file(key_count: usize) -> RdbFile {
    let mut file = RdbFile::new(Version::V11).select(0);
    let payload = [[0, 32].as_slice(), &[b'v'; 32], &[0; 10]].concat();
    for number in 0..key_count {
        file = file.key(&format!("key:{number}"), None, &payload);
    }
    file
}

#[test]
fn threads_share_a_large_file() {
    let directory = Directory::new("large");
    directory.write("dump.rdb", large_file(60_000).finish());
    let path = directory.path("");
    let server = Server::start(&loading_from(&path, &[]));
    let mut client = server.client();
    assert_eq!(client.text(&["DBSIZE"]), "60000");
    assert_eq!(client.text(&["GET", "key:59999"]), "v".repeat(32));
    assert_eq!(server.info(&mut client, "rdb_last_load_keys_loaded"), "60000");
}

/// Bytes of the string of [`a_long_string_is_read_into_its_place`].
const LONG_SIZE: usize = 64 << 20;

#[test]
fn a_long_string_is_read_into_its_place() {
    let directory = Directory::new("long");
    let text: Vec<u8> = (0..LONG_SIZE as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    let file = RdbFile::new(Version::V11).select(0).key("before", None, b"\x00\x01xaaaaaaaaaa");
    // A length of four bytes; one that expired in the past, one that stays.
    let head = |name: &str| {
        [&[0, name.len() as u8][..], name.as_bytes(), &[0x80], &(LONG_SIZE as u32).to_be_bytes()].concat()
    };
    let expired = [&[252][..], &1_i64.to_le_bytes(), &head("expired")].concat();
    let file = file.raw(&expired).raw(&text).raw(&head("long")).raw(&text);
    let file = file.key("behind", None, b"\x00\x01yaaaaaaaaaa").finish();
    directory.write("dump.rdb", &file);
    let path = directory.path("");
    let server = Server::start(&loading_from(&path, &[]));
    let mut client = server.client();
    assert_eq!(client.text(&["MGET", "before", "behind"]), "x\ny");
    assert_eq!(client.text(&["STRLEN", "long"]), LONG_SIZE.to_string());
    assert!(client.bytes(&["GETRANGE", "long", "50000000", "50009999"]) == text[50_000_000..50_010_000]);
    assert_eq!(server.info(&mut client, "rdb_last_load_keys_expired"), "1");
    let peak_kib = peak_memory_kib(&server);
    assert!(peak_kib < LONG_SIZE / 1024 * 3 / 2, "{peak_kib} KiB at the peak");
    // A file that ends within the text is not valid, and its length reserves nothing.
    directory.write("dump.rdb", &file[..file.len() - LONG_SIZE / 2]);
    let log = expect_failed_start(&directory, &[]);
    assert!(log.contains("Short read or OOM"), "{log}");
}

/// The largest memory that a server has used.
fn peak_memory_kib(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn clients_get_a_loading_error() {
    let directory = Directory::new("slow");
    directory.write("dump.rdb", large_file(20_000).finish());
    let path = directory.path("");
    let mut server = Server::start_loading(&loading_from(&path, &["--key-load-delay", "500"]));
    let mut client =
        wait_for(|| std::net::TcpStream::connect(("127.0.0.1", server.port)).ok().map(|_| server.client()));
    let refusal = "LOADING Valkey is loading the dataset in memory";
    for request in [&["GET", "key:1"][..], &["SET", "a", "b"], &["FLUSHALL"], &["DBSIZE"]] {
        assert_eq!(client.text(request), refusal);
    }
    assert_eq!(client.text(&["CONFIG", "SET", "dir", "/tmp"]).split(' ').next(), Some("ERR"));
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["GET", "a"]), refusal);
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    assert_eq!(server.info(&mut client, "loading"), "1");
    assert_eq!(server.info(&mut client, "async_loading"), "0");
    let loaded = |server: &Server, client: &mut Client| -> u64 {
        server.info(client, "loading_loaded_bytes").parse().unwrap()
    };
    wait_for(|| (loaded(&server, &mut client) > 0).then_some(()));
    let total: u64 = server.info(&mut client, "loading_total_bytes").parse().unwrap();
    assert!(loaded(&server, &mut client) < total);
    assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    server.log_line("Ready to accept connections");
    assert_eq!(client.text(&["DBSIZE"]), "20000");
    assert!(!client.text(&["INFO", "persistence"]).contains("loading_start_time"));
    server.signal("TERM");
    assert!(server.wait());
}

#[test]
fn clients_wait_for_a_short_load() {
    let directory = Directory::new("short");
    directory.write("dump.rdb", large_file(20).finish());
    let path = directory.path("");
    let server = Server::start_loading(&loading_from(&path, &["--key-load-delay", "1000"]));
    let mut client =
        wait_for(|| std::net::TcpStream::connect(("127.0.0.1", server.port)).ok().map(|_| server.client()));
    assert_eq!(client.text(&["DBSIZE"]), "20");
}

#[test]
fn a_load_ends_with_the_server() {
    let directory = Directory::new("ended");
    directory.write("dump.rdb", large_file(1000).finish());
    let path = directory.path("");
    let options = loading_from(&path, &["--key-load-delay", "10000000"]);
    let mut server = Server::start_loading(&options);
    server.log_line("I/O backend");
    server.signal("TERM");
    assert!(server.wait());
    assert!(!server.has_logged("Ready to accept"));
    let mut server = Server::start_loading(&options);
    server.log_line("I/O backend");
    server.client().send(&["SHUTDOWN"]);
    assert!(server.wait());
}

#[test]
fn a_file_that_is_not_valid_ends_the_server() {
    let directory = Directory::new("invalid");
    let valid = large_file(50_000).finish();
    let check = |name: &str, bytes: &[u8], expected: &[&str]| {
        directory.write("dump.rdb", bytes);
        let log = expect_failed_start(&directory, &[]);
        for expected in expected.iter().chain(&["Fatal error loading the DB, check server logs. Exiting."]) {
            assert!(log.contains(expected), "{name}: no {expected} in {log}");
        }
    };
    check("truncated", &valid[..valid.len() / 2], &["Short read or OOM", "Unexpected EOF reading RDB file"]);
    let mut wrong = valid.clone();
    *wrong.last_mut().unwrap() ^= 1;
    check("checksum", &wrong, &["RDB CRC error"]);
    let mut wrong = valid.clone();
    wrong[20] = 70;
    check("type", &wrong, &["Internal error in RDB reading offset"]);
    check("magic", b"RADIS0011 and so on", &["Wrong signature trying to load DB from file"]);
    check("version", b"REDIS0099 and so on", &["Can't handle RDB format version 99"]);
    check("empty", b"", &["Unexpected EOF"]);
    let payload = [0, 1, b'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let twice = large_file(40_000).key("key:7", None, &payload).finish();
    check("duplicate", &twice, &["key \"key:7\"", "Duplicated key found in RDB file"]);
    let beyond = RdbFile::new(Version::V11).select(16).key("a", None, &payload).finish();
    check("database", &beyond, &["configured to handle more than 16 databases"]);
    let module = RdbFile::new(Version::V11).select(0).raw(&[7, 1, b'm']).raw(&[0x81; 9]).raw(&[0]).finish();
    check("module", &module, &["The RDB file contains module data I can't load", "key \"m\""]);
    // An intset with a wrong length, behind keys that are valid.
    let corrupt =
        large_file(40_000).key("bad", None, &[11, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).finish();
    check("value", &corrupt, &["key \"bad\"", "Intset integrity check failed"]);
}

#[test]
fn every_damaged_byte_is_reported_or_harmless() {
    let directory = Directory::new("damaged");
    let source = Server::start(&DEBUG);
    let mut client = source.client();
    assert_eq!(client.text(&["ZADD", "scores", "1.5", "a", "2", "b"]), "2");
    let valid = RdbFile::new(Version::V11).all_keys(&mut client).finish();
    for cut in (9..valid.len()).step_by(5) {
        directory.write("dump.rdb", &valid[..cut]);
        assert!(expect_failed_start(&directory, &[]).contains("Unexpected EOF"), "cut at {cut}");
    }
    for place in (9..valid.len() - 8).step_by(7) {
        let mut damaged = valid.clone();
        damaged[place] ^= 0x41;
        directory.write("dump.rdb", &damaged);
        let log = expect_failed_start(&directory, &[]);
        assert!(log.contains("Fatal error loading the DB") && !log.contains("panicked"), "{place}: {log}");
    }
}

#[test]
fn missing_files_are_empty_and_unreadable_ones_are_errors() {
    let directory = Directory::new("missing");
    let path = directory.path("");
    let server = Server::start(&loading_from(&path, &["--dbfilename", "missing.rdb"]));
    assert_eq!(server.client().text(&["DBSIZE"]), "0");
    std::fs::create_dir(directory.path("dump.rdb")).unwrap();
    let log = expect_failed_start(&directory, &[]);
    assert!(log.contains("Fatal error loading the DB"), "{log}");
}

#[test]
fn a_file_of_a_newer_version_is_loaded_if_that_is_allowed() {
    let directory = Directory::new("newer");
    let mut bytes = large_file(10).finish();
    bytes[..9].copy_from_slice(b"REDIS0987");
    // No checksum.
    let end = bytes.len();
    bytes[end - 8..].fill(0);
    directory.write("dump.rdb", bytes);
    assert!(expect_failed_start(&directory, &[]).contains("Can't handle RDB format version 987"));
    let path = directory.path("");
    let server = Server::start(&loading_from(&path, &["--rdb-version-check", "relaxed"]));
    assert_eq!(server.client().text(&["DBSIZE"]), "10");
    server.log_line("RDB file was saved with checksum disabled: no check performed.");
}

//! `repl-diskless-load`: a snapshot that is loaded while it is received, in place of the data or beside them, from a primary
//! that a test plays; and from a server of this kind under load.

use crate::support::peer::Peer;
use crate::support::primary::{ID, Link, Played, SNAPSHOT};
use crate::support::synchronising::expect_synchronised;
use crate::support::{Client, Server, request, wait_for, wait_for_replication_field as expect_field};

const MARK: &str = "abcdefghijabcdefghijabcdefghijabcdefghij";
const OTHER_ID: &str = "9876543210987654321098765432109876543210";

fn server(mode: &str, options: &[&str]) -> Server {
    Server::start(&[&["--repl-diskless-load", mode, "--enable-debug-command", "yes"], options].concat())
}

/// A library with a function of its name, which a replica runs.
fn library(name: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function{{function_name='{name}', callback=function() return 1 end, flags={{'no-writes'}}}}"
    )
}

/// A snapshot with a function and this many keys of 10,000 bytes.
fn large_snapshot(key_count: usize) -> Vec<u8> {
    let text = |text: &[u8], bytes: &mut Vec<u8>| {
        bytes.extend([0x40 | (text.len() >> 8) as u8, text.len() as u8]);
        bytes.extend(text);
    };
    let mut bytes = b"REDIS0011\xf5".to_vec();
    text(library("new").as_bytes(), &mut bytes);
    bytes.extend(b"\xfe\x00");
    for number in 0..key_count {
        bytes.push(0);
        text(format!("key:{number}").as_bytes(), &mut bytes);
        text(&[b'x'; 10_000], &mut bytes);
    }
    bytes.extend(b"\xff\0\0\0\0\0\0\0\0");
    bytes
}

/// The connection of a replica that is told to synchronise in full, with this id at offset 100.
fn begin(played: &Played, id: &str, head: &str) -> Link {
    let (mut link, _) = played.accept();
    link.0.send(&format!("+FULLRESYNC {id} 100\r\n{head}\r\n"));
    link
}

fn send(peer: &mut Peer, bytes: &[u8]) {
    // A replica that does not want it has closed the connection.
    let _ = std::io::Write::write_all(&mut peer.0, bytes);
}

fn used_memory(server: &Server, client: &mut Client) -> i64 {
    server.info(client, "used_memory").parse().unwrap()
}

fn add_function(client: &mut Client) {
    assert_eq!(client.text(&["FUNCTION", "LOAD", &library("old")]), "old");
}

#[test]
fn in_place_of_the_data() {
    for (mode, has_data, is_marked) in [
        ("on-empty-db", false, true),
        ("on-empty-db", false, false),
        ("flush-before-load", true, true),
        ("flush-before-load", true, false),
    ] {
        let server = server(mode, &[]);
        let mut client = server.client();
        if has_data {
            client.text(&["SET", "old", "1"]);
            add_function(&mut client);
        }
        let played = Played::new();
        played.is_followed_by(&server);
        let snapshot = large_snapshot(10);
        let head = if is_marked { format!("$EOF:{MARK}") } else { format!("${}", snapshot.len()) };
        let mut link = begin(&played, ID, &head);
        send(&mut link.0, &snapshot[..50_000]);
        server.log_line(if is_marked { "with EOF to parser" } else { "bytes from primary to parser" });
        server.log_line("Loading DB in memory");
        wait_for(|| client.text(&["GET", "old"]).starts_with("LOADING").then_some(()));
        assert_eq!(server.info(&mut client, "loading"), "1");
        assert_eq!(server.info(&mut client, "async_loading"), "0");
        send(&mut link.0, &snapshot[50_000..]);
        if is_marked {
            send(&mut link.0, MARK.as_bytes());
        }
        let change = request(&["SET", "after", "2"]);
        link.0.send(&change);
        link.expect_acknowledged(100 + change.len());
        assert_eq!(client.text(&["MGET", "old", "after"]), "\n2");
        assert_eq!(client.text(&["STRLEN", "key:9"]), "10000");
        assert_eq!(client.text(&["FCALL", "new", "0"]), "1");
        assert!(client.text(&["FCALL", "old", "0"]).starts_with("ERR"));
    }
}

#[test]
fn data_are_kept_until_a_file_is_complete_if_only_an_empty_server_loads_from_the_socket() {
    let server = server("on-empty-db", &[]);
    let mut client = server.client();
    client.text(&["SET", "old", "1"]);
    let played = Played::new();
    played.is_followed_by(&server);
    let mut link = begin(&played, ID, &format!("${}", SNAPSHOT.len()));
    server.log_line("bytes from primary to disk");
    assert_eq!(client.text(&["GET", "old"]), "1");
    send(&mut link.0, SNAPSHOT);
    link.expect_acknowledged(100);
    assert_eq!(client.text(&["MGET", "old", "k"]), "\nv");
}

#[test]
fn a_lost_connection_leaves_no_data_in_their_place() {
    for threads in ["1", "2"] {
        let server = server("flush-before-load", &["--io-threads", threads]);
        let mut client = server.client();
        let played = Played::new();
        played.is_followed_by(&server);
        // The write log, which has a buffer, is on from here on.
        drop(played.synchronise(ID));
        let before = used_memory(&server, &mut client);
        let snapshot = large_snapshot(2_000);
        for _ in 0..3 {
            let mut link = begin(&played, ID, &format!("$EOF:{MARK}"));
            send(&mut link.0, &snapshot[..19_000_000]);
            wait_for(|| (used_memory(&server, &mut client) > before + 15_000_000).then_some(()));
            drop(link);
            wait_for(|| (server.info(&mut client, "loading") == "0").then_some(()));
            assert_eq!(
                (client.text(&["DBSIZE"]), client.text(&["FUNCTION", "LIST"])),
                ("0".into(), "".into())
            );
            wait_for(|| (used_memory(&server, &mut client) < before + 3_000_000).then_some(()));
        }
        server.log_line("Failed trying to load the PRIMARY synchronization DB from socket");
        server.log_line("Internal error in RDB reading offset");
        server.log_line("Discarding the half-loaded data");
        // The next attempt asks for all data.
        let (mut link, words) = played.accept();
        assert!(words.ends_with("PSYNC ? -1 "), "{words}");
        link.0.send(&format!("+FULLRESYNC {ID} 100\r\n${}\r\n", snapshot.len()));
        send(&mut link.0, &snapshot);
        link.expect_acknowledged(100);
        assert_eq!(client.text(&["DBSIZE"]), "2000");
        assert!(client.text(&["FUNCTION", "LIST"]).contains("new"));
    }
}

#[test]
fn a_snapshot_that_is_not_valid_is_refused() {
    let future = [&b"REDIS9999 from the future"[..], &[0; 100]].concat();
    let invalid = [&b"REDIS0011\xfe\x00\x00\x01k\x01v"[..], &[200; 100], &[0; 100]].concat();
    for (bytes, mode, expected) in [
        (&future, "flush-before-load", "1"),
        (&invalid, "flush-before-load", ""),
        (&future, "swapdb", "1"),
        (&invalid, "swapdb", "1"),
    ] {
        let server = server(mode, &[]);
        let mut client = server.client();
        client.text(&["SET", "old", "1"]);
        let played = Played::new();
        played.is_followed_by(&server);
        let mut link = begin(&played, ID, &format!("$EOF:{MARK}"));
        send(&mut link.0, bytes);
        server.log_line("Failed trying to load the PRIMARY synchronization DB from socket");
        wait_for(|| (server.info(&mut client, "loading") == "0").then_some(()));
        assert_eq!(client.text(&["GET", "old"]), expected, "{mode}");
    }
}

#[test]
fn beside_data_of_another_history() {
    let server = server("swapdb", &[]);
    let mut client = server.client();
    client.text(&["SET", "old", "1"]);
    add_function(&mut client);
    let before = used_memory(&server, &mut client);
    let played = Played::new();
    played.is_followed_by(&server);
    let snapshot = large_snapshot(2_000);
    // Three losses, of which nothing is left.
    for _ in 0..3 {
        let mut link = begin(&played, ID, &format!("$EOF:{MARK}"));
        send(&mut link.0, &snapshot[..19_000_000]);
        wait_for(|| (used_memory(&server, &mut client) > before + 15_000_000).then_some(()));
        assert!(client.text(&["GET", "old"]).starts_with("LOADING"));
        assert_eq!(server.info(&mut client, "loading"), "1");
        drop(link);
        wait_for(|| (server.info(&mut client, "loading") == "0").then_some(()));
        assert_eq!(client.text(&["GET", "old"]), "1");
        assert_eq!(client.text(&["FCALL", "old", "0"]), "1");
        assert_eq!(client.text(&["DBSIZE"]), "1");
        wait_for(|| (used_memory(&server, &mut client) < before + 3_000_000).then_some(()));
    }
    server.log_line("Discarding temporary DB in background");
    let mut link = begin(&played, ID, &format!("${}", snapshot.len()));
    send(&mut link.0, &snapshot);
    link.expect_acknowledged(100);
    assert_eq!((client.text(&["DBSIZE"]), client.text(&["EXISTS", "old"])), ("2000".into(), "0".into()));
    assert_eq!(client.text(&["FCALL", "new", "0"]), "1");
    assert!(client.text(&["FCALL", "old", "0"]).starts_with("ERR"));
    assert_eq!(client.text(&["STRLEN", "key:1999"]), "10000");
}

#[test]
fn beside_data_of_the_same_history() {
    for options in [&["--appendonly", "no"], &["--appendonly", "yes"]] {
        let server = server("swapdb", options);
        let mut client = server.client();
        let played = Played::new();
        played.is_followed_by(&server);
        let link = played.synchronise(ID);
        drop(link);
        let snapshot = large_snapshot(2_000);
        let mut watching = server.client();
        watching.text(&["WATCH", "k"]);
        watching.text(&["MULTI"]);
        watching.text(&["GET", "k"]);
        for is_lost in [true, false] {
            let (mut link, words) = played.accept();
            // Whatever was lost before, the data are those at this offset.
            assert!(words.ends_with(&format!("PSYNC {ID} 101 ")), "{words}");
            link.0.send(&format!("+FULLRESYNC {ID} 200\r\n$EOF:{MARK}\r\n"));
            send(&mut link.0, &snapshot[..19_000_000]);
            wait_for(|| (server.info(&mut client, "async_loading") == "1").then_some(()));
            assert_eq!(server.info(&mut client, "loading"), "0");
            assert_eq!(client.text(&["GET", "k"]), "v");
            assert_eq!(client.text(&["DBSIZE"]), "1");
            assert!(client.text(&["SET", "k", "w"]).starts_with("READONLY"));
            assert!(client.text(&["CONFIG", "SET", "repl-diskless-load", "disabled"]).starts_with("LOADING"));
            assert!(client.text(&["REPLICAOF", "NO", "ONE"]).starts_with("LOADING"));
            client.text(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
            assert!(client.text(&["GET", "k"]).starts_with("MASTERDOWN"));
            client.text(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
            if is_lost {
                drop(link);
                wait_for(|| (server.info(&mut client, "async_loading") == "0").then_some(()));
                assert_eq!(client.text(&["MGET", "k", "key:1"]), "v\n");
                continue;
            }
            send(&mut link.0, &snapshot[19_000_000..]);
            send(&mut link.0, MARK.as_bytes());
            link.expect_acknowledged(200);
            assert_eq!(server.info(&mut client, "async_loading"), "0");
            assert_eq!(
                (client.text(&["DBSIZE"]), client.text(&["EXISTS", "k"])),
                ("2000".into(), "0".into())
            );
            assert_eq!(watching.text(&["EXEC"]), "");
            // The data continue from there.
            drop(link);
            let (_, words) = played.accept();
            assert!(words.ends_with(&format!("PSYNC {ID} 201 ")), "{words}");
        }
    }
}

#[test]
fn replicas_of_the_replica_synchronise_anew() {
    let server = server("swapdb", &["--repl-diskless-sync-delay", "0"]);
    let mut client = server.client();
    let played = Played::new();
    played.is_followed_by(&server);
    let link = played.synchronise(ID);
    let (mut chained, id, offset) = Peer::synchronised(&server);
    assert_eq!((id.as_str(), offset), (ID, 100));
    drop(link);
    let _link = played.synchronise(OTHER_ID);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut chained.0, &mut rest).unwrap();
    expect_field(&mut client, "master_replid", OTHER_ID);
    let (_, id, _) = Peer::synchronised(&server);
    assert_eq!(id, OTHER_ID);
}

#[test]
fn a_connection_that_is_reset_during_the_load_is_replaced_by_one_that_continues() {
    for mode in ["disabled", "flush-before-load", "swapdb"] {
        // For each key a while, in microseconds.
        let server = server(mode, &["--key-load-delay", "1000000"]);
        let played = Played::new();
        played.is_followed_by(&server);
        let mut link = begin(&played, ID, &format!("${}", SNAPSHOT.len()));
        send(&mut link.0, SNAPSHOT);
        server.log_line("Loading DB in memory");
        // With a line end that nobody has read, the connection is reset.
        link.0.0.peek(&mut [0]).unwrap();
        drop(link);
        let (mut link, words) = played.accept();
        assert!(words.ends_with(&format!("PSYNC {ID} 101 ")), "{mode}: {words}");
        link.0.send("+CONTINUE\r\n");
        link.expect_acknowledged(100);
    }
}

#[test]
fn under_load_by_one_connection_and_by_two() {
    let both = |mode: &'static str, form: &[&'static str]| {
        [
            &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"],
            form,
            &["--repl-diskless-load", mode],
        ]
        .concat()
    };
    for mode in ["on-empty-db", "flush-before-load", "swapdb"] {
        for form in [
            &[][..],
            &["--dual-channel-replication-enabled", "yes"],
            &["--repl-rdb-channel", "yes"],
            &["--repl-diskless-sync", "no"],
        ] {
            let options = both(mode, form);
            let (primary, replica) = (Server::start(&options), Server::start(&options));
            expect_synchronised(&primary, primary.port, &replica);
            replica.log_line("to parser");
        }
    }
}

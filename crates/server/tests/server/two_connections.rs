//! Full synchronisation with a connection for the snapshot and one for the stream, in Valkey's form and in Redis's: with a
//! replica and a primary that a test plays, and with real servers under load in each direction.

use std::io::{Read, Write};
use std::time::Duration;

use crate::support::peer::{Peer, SELECT};
use crate::support::primary::{ID, Link, Played, SNAPSHOT};
use crate::support::synchronising::expect_synchronised;
use crate::support::{
    self, Server, replication_field as field, request, wait_for, wait_for_replication_field as expect_field,
};

const REDIS_FORM: &[&str] = &["--repl-rdb-channel", "yes"];
/// What begins a channel in Redis's form; the number of the other connection's client follows.
const REDIS_CHANNEL: &str = "REPLCONF capa eof rdb-only 1 rdb-channel 1 main-ch-client-id";
const BOTH_FORMS: &[&str] = &["--dual-channel-replication-enabled", "yes", "--repl-rdb-channel", "yes"];

/// A primary that answers at once, with keys whose snapshot takes a while.
fn primary(options: &[&str]) -> Server {
    let all = [&["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "20kb"], options].concat();
    let server = Server::start(&all);
    server.client().text(&["SET", "before", "1"]);
    server
}

/// A connection for the stream, and the answer to its `PSYNC`.
fn introduced(server: &Server, capability: &str) -> (Peer, String) {
    let mut main = Peer::connect(server);
    assert_eq!(main.ask(&format!("REPLCONF capa eof capa psync2 capa {capability}")), "+OK");
    let answer = main.ask("PSYNC ? -1");
    (main, answer)
}

#[test]
fn a_replica_in_the_form_of_valkey() {
    let server = primary(BOTH_FORMS);
    let mut client = server.client();
    let (mut main, answer) = introduced(&server, "dual-channel");
    assert_eq!(answer, "+DUALCHANNELSYNC");
    assert_eq!(field(&mut client, "connected_slaves"), "0");
    let mut channel = Peer::connect(&server);
    let options = "REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 1234 version 9.1.0";
    assert_eq!(channel.ask(options), "+OK");
    let answer = channel.ask("SYNC");
    let words: Vec<_> = answer.split(' ').collect();
    let offset: u64 = words[0].strip_prefix("$ENDOFF:").unwrap().parse().unwrap();
    let (id, client_id) = (words[1], words[3]);
    assert_eq!((words.len(), id.len(), words[2]), (4, 40, "0"));
    assert_eq!(field(&mut client, "replicas_waiting_psync"), "1");
    // The stream is kept, however long it becomes.
    let value = "x".repeat(1000);
    for number in 0..100 {
        client.text(&["SET", &format!("k{number}"), &value]);
    }
    assert_eq!(main.ask("REPLCONF set-rdb-client-id 99999"), "-ERR Unrecognized RDB client id 99999");
    assert_eq!(main.ask(&format!("REPLCONF set-rdb-client-id {client_id}")), "+OK");
    assert_eq!(main.ask(&format!("PSYNC {id} {}", offset + 1)), format!("+CONTINUE {id}"));
    main.expect(SELECT);
    main.expect(&request(&["SET", "k0", &value]));
    let text = client.text(&["INFO", "replication"]);
    assert!(text.contains("state=bg_transfer,") && text.contains("type=main-channel\r"), "{text}");
    assert!(text.contains("replicas_waiting_psync:0\r"), "{text}");
    let snapshot = channel.last_snapshot();
    assert!(snapshot.windows(6).any(|part| part == b"before"));
    main.acknowledge(offset);
    wait_for(|| client.text(&["INFO", "replication"]).contains("state=online,offset").then_some(()));
    let stats = client.text(&["INFO", "stats"]);
    assert!(stats.contains("sync_full:1\r") && stats.contains("sync_partial_ok:1\r"), "{stats}");
    expect_field(&mut client, "connected_slaves", "1");
    // Nothing keeps the stream any more, as soon as the replica has it.
    for number in 1..100 {
        main.expect(&request(&["SET", &format!("k{number}"), &value]));
    }
    wait_for(|| {
        (field(&mut client, "repl_backlog_histlen").parse::<u64>().unwrap() <= 20 << 10).then_some(())
    });
}

#[test]
fn a_replica_in_the_form_of_redis() {
    let server = primary(&[BOTH_FORMS, &["--rdb-key-save-delay", "300000"]].concat());
    let mut client = server.client();
    let (mut main, answer) = introduced(&server, "rdb-channel-repl");
    let client_id = answer.strip_prefix("+RDBCHANNELSYNC ").unwrap();
    let text = client.text(&["INFO", "replication"]);
    assert!(text.contains("connected_slaves:1\r") && text.contains("state=wait_bgsave,"), "{text}");
    let mut channel = Peer::connect(&server);
    assert_eq!(channel.ask("REPLCONF main-ch-client-id 99999"), "-ERR Unrecognized RDB client id: 99999");
    assert_eq!(channel.ask(&format!("{REDIS_CHANNEL} {client_id} listening-port 1234")), "+OK");
    let answer = channel.ask("PSYNC ? -1");
    let words: Vec<_> = answer.split(' ').collect();
    assert_eq!((words[0], words[1].len()), ("+FULLRESYNC", 40));
    let offset: u64 = words[2].parse().unwrap();
    client.text(&["SET", "k", "v"]);
    main.expect(SELECT);
    main.expect(&request(&["SET", "k", "v"]));
    let text = client.text(&["INFO", "replication"]);
    assert!(text.contains("connected_slaves:1\r") && text.contains("state=send_bulk_and_stream,"), "{text}");
    let list = client.text(&["CLIENT", "LIST", "TYPE", "replica"]);
    assert!(list.contains(" flags=S ") && list.contains(" flags=SC "), "{list}");
    assert_eq!(server.info(&mut client, "rdb_bgsave_in_progress"), "1");
    server.log_line("target: replicas sockets (rdb-channel)");
    let snapshot = channel.last_snapshot();
    assert!(snapshot.windows(6).any(|part| part == b"before"));
    main.acknowledge(offset);
    wait_for(|| client.text(&["INFO", "replication"]).contains("state=online,offset").then_some(()));
    assert_eq!(field(&mut client, "connected_slaves"), "1");
}

/// Receives the snapshot for a connection that was given this answer, on another one.
fn receive_by_channel(server: &Server, answer: &str) {
    let mut channel = Peer::connect(server);
    let client_id = answer.strip_prefix("+RDBCHANNELSYNC ").unwrap();
    assert_eq!(channel.ask(&format!("{REDIS_CHANNEL} {client_id}")), "+OK");
    channel.ask("PSYNC ? -1");
    channel.last_snapshot();
}

#[test]
fn a_replica_that_is_silent_after_its_snapshot_is_left() {
    let server = primary(&[REDIS_FORM, &["--repl-timeout", "1"]].concat());
    let (mut main, answer) = introduced(&server, "rdb-channel-repl");
    receive_by_channel(&server, &answer);
    main.0.read_to_end(&mut Vec::new()).unwrap();
    server.log_line("Disconnecting timedout replica (streaming sync)");
}

/// While it receives a long snapshot, it sends nothing on either connection.
#[test]
fn a_replica_is_not_silent_while_it_receives_its_snapshot() {
    let server = primary(&[REDIS_FORM, &["--repl-timeout", "1", "--rdb-key-save-delay", "100000"]].concat());
    let mut client = server.client();
    for number in 0..25 {
        client.text(&["SET", &format!("k{number}"), "v"]);
    }
    let (mut main, answer) = introduced(&server, "rdb-channel-repl");
    receive_by_channel(&server, &answer);
    main.0.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    assert_eq!(main.0.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it is open");
    main.acknowledge(0);
    wait_for(|| client.text(&["INFO", "replication"]).contains("state=online,offset").then_some(()));
}

#[test]
fn a_primary_without_the_forms_sends_both_on_one_connection() {
    for (options, capability) in [
        (&["--dual-channel-replication-enabled", "no"][..], "dual-channel"),
        (&["--repl-rdb-channel", "no"], "rdb-channel-repl"),
        (&["--dual-channel-replication-enabled", "yes", "--repl-diskless-sync", "no"], "dual-channel"),
        (&["--repl-diskless-sync", "no"], "rdb-channel-repl"),
    ] {
        let server = primary(options);
        let (_, answer) = introduced(&server, capability);
        assert!(answer.starts_with("+FULLRESYNC "), "{options:?}: {answer}");
    }
}

#[test]
fn a_stream_that_nobody_asks_for_is_dropped_beyond_the_limit() {
    let limit = ["--client-output-buffer-limit", "replica 1mb 0 0"];
    let server = primary(&[BOTH_FORMS, &limit].concat());
    let mut client = server.client();
    let mut channel = Peer::connect(&server);
    assert_eq!(channel.ask("REPLCONF capa eof rdb-only 1 rdb-channel 1 version 9.1.0"), "+OK");
    assert!(channel.ask("SYNC").starts_with("$ENDOFF:"));
    assert_eq!(field(&mut client, "replicas_waiting_psync"), "1");
    let value = "x".repeat(100_000);
    for _ in 0..30 {
        client.text(&["SET", "k", &value]);
    }
    expect_field(&mut client, "replicas_waiting_psync", "0");
}

/// The options of a real server that make it use its form, if it has one.
fn options_of(program: &str) -> &'static [&'static str] {
    match program.contains("valkey") {
        true => &["--dual-channel-replication-enabled", "yes"],
        false => &["--repl-rdb-channel", "yes"],
    }
}

const DEBUG: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];

#[test]
fn real_replicas_follow() {
    for path in support::peers() {
        let path = path.to_str().unwrap();
        let replica = Server::start_program(path, &[], &[DEBUG, options_of(path)].concat());
        let server = Server::start(&[DEBUG, BOTH_FORMS].concat());
        expect_synchronised(&server, server.port, &replica);
        server.log_line("gets its snapshot on a connection of its own");
    }
}

#[test]
fn real_primaries_are_followed() {
    for path in support::peers() {
        let path = path.to_str().unwrap();
        let primary = Server::start_program(path, &[], &[DEBUG, options_of(path)].concat());
        let server = Server::start(&[DEBUG, BOTH_FORMS].concat());
        expect_synchronised(&primary, primary.port, &server);
        primary.log_line("ull sync will continue with dedicated");
    }
}

#[test]
fn servers_of_this_kind_use_both_forms() {
    for (form, of_valkey, of_redis) in [("dual-channel", "yes", "no"), ("rdb-channel-repl", "no", "yes")] {
        let options = ["--dual-channel-replication-enabled", of_valkey, "--repl-rdb-channel", of_redis];
        let options = [DEBUG, &options].concat();
        let (primary, replica) = (Server::start(&options), Server::start(&options));
        expect_synchronised(&primary, primary.port, &replica);
        primary.log_line("gets its snapshot on a connection of its own");
        let partial = if form == "dual-channel" { "1" } else { "0" };
        assert_eq!(primary.info(&mut primary.client(), "sync_partial_ok"), partial, "{form}");
    }
}

#[test]
fn the_stream_is_kept_until_the_snapshot_is_loaded() {
    let server = Server::start(&["--replica-full-sync-buffer-limit", "1mb", "--repl-rdb-channel", "yes"]);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let (mut main, mut channel) = played.begin();
    let stream = request(&["SET", "kept", "1"]);
    main.0.send(&stream);
    expect_field(&mut client, "replicas_repl_buffer_size", &stream.len().to_string());
    // The channel tells its offset on another connection.
    expect_field(&mut client, "master_sync_in_progress", "1");
    // Beyond the limit nothing is received, and nothing is lost.
    let value = "x".repeat(100_000);
    let mut sender = Peer(main.0.0.try_clone().unwrap());
    let large = request(&["APPEND", "large", &value]);
    let size = stream.len() + 100 * large.len();
    let thread = std::thread::spawn(move || (0..100).for_each(|_| sender.send(&large)));
    server.log_line("Replication buffer limit has been reached (1048576 bytes)");
    let kept: usize = field(&mut client, "replicas_repl_buffer_size").parse().unwrap();
    assert!((1 << 20..4 << 20).contains(&kept), "{kept}");
    channel.0.write_all(SNAPSHOT).unwrap();
    thread.join().unwrap();
    main.expect_acknowledged(100 + size);
    // The stream goes on with the database of the snapshot.
    assert_eq!(client.text(&["GET", "k"]), "v");
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["MGET", "kept", "k"]), "1\n");
    assert_eq!(client.text(&["STRLEN", "large"]), "10000000");
    assert_eq!(field(&mut client, "replicas_repl_buffer_size"), "0");
    let peak: usize = field(&mut client, "replicas_repl_buffer_peak").parse().unwrap();
    assert!(peak >= kept);
}

#[test]
fn a_lost_channel_ends_the_attempt() {
    let server = Server::start(REDIS_FORM);
    server.client().text(&["SET", "old", "1"]);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    for loses_channel in [true, false] {
        let (mut main, mut channel) = played.begin();
        // Whichever is lost, the replica closes the other one.
        match loses_channel {
            true => {
                drop(channel);
                while main.request().is_some() {}
            }
            false => {
                main.0.0.shutdown(std::net::Shutdown::Both).unwrap();
                assert_eq!(channel.0.read(&mut [0; 64]).unwrap_or(0), 0);
            }
        }
        assert_eq!(client.text(&["GET", "old"]), "1");
    }
    let (mut main, mut channel) = played.begin();
    channel.0.write_all(SNAPSHOT).unwrap();
    main.expect_acknowledged(100);
    assert_eq!(client.text(&["MGET", "old", "k"]), "\nv");
}

#[test]
fn a_stream_that_ends_while_it_is_not_received_is_read_to_its_end() {
    let server = Server::start(&["--replica-full-sync-buffer-limit", "1mb", "--repl-rdb-channel", "yes"]);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let (mut main, mut channel) = played.begin();
    let large = request(&["SET", "large", &"x".repeat(1_200_000)]);
    main.0.send(&large);
    server.log_line("Replication buffer limit has been reached");
    let last = request(&["SET", "kept", "1"]);
    main.0.send(&last);
    main.0.0.shutdown(std::net::Shutdown::Write).unwrap();
    channel.0.write_all(SNAPSHOT).unwrap();
    let (_, words) = played.accept();
    assert!(words.ends_with(&format!("PSYNC {ID} {} ", 101 + large.len() + last.len())), "{words}");
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["GET", "kept"]), "1");
}

#[test]
fn a_stream_that_is_lost_during_the_load_is_continued() {
    // For each key a while, in microseconds.
    let server = Server::start(&["--key-load-delay", "1000000", "--repl-rdb-channel", "yes"]);
    let played = Played::new();
    played.is_followed_by(&server);
    let (main, mut channel) = played.begin();
    channel.0.write_all(SNAPSHOT).unwrap();
    server.log_line("Flushing old data");
    drop(main);
    let (mut main, words) = played.accept();
    assert!(words.ends_with(&format!("PSYNC {ID} 101 ")), "{words}");
    main.0.send("+CONTINUE\r\n");
    main.0.send(&request(&["SET", "continued", "1"]));
    main.expect_acknowledged(100 + request(&["SET", "continued", "1"]).len());
}

#[test]
fn a_primary_in_the_form_of_valkey() {
    let server = Server::start(&["--dual-channel-replication-enabled", "yes"]);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let (mut main, words) = played.accept();
    assert!(words.contains("capa dual-channel"), "{words}");
    main.0.send("+DUALCHANNELSYNC\r\n");
    let (Link(mut channel, _), words) = played.accept();
    assert!(words.contains("rdb-only 1 rdb-channel 1 ") && words.ends_with(" SYNC "), "{words}");
    channel.send(&format!("$ENDOFF:100 {ID} 0 42\r\n"));
    channel.send(&format!("${}\r\n", SNAPSHOT.len()));
    assert_eq!(main.request().unwrap(), "REPLCONF set-rdb-client-id 42");
    main.0.send("+OK\r\n");
    assert_eq!(main.request().unwrap(), format!("PSYNC {ID} 101"));
    // The snapshot may be loaded before the stream comes.
    channel.0.write_all(SNAPSHOT).unwrap();
    server.log_line("Done loading RDB");
    let stream = request(&["SET", "kept", "1"]);
    main.0.send(&format!("+CONTINUE {ID}\r\n{stream}"));
    main.expect_acknowledged(100 + stream.len());
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["GET", "kept"]), "1");
}

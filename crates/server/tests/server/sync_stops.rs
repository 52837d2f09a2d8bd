//! A process that stops itself in a full synchronisation, as `DEBUG` demands, and what the other server finds then.

use std::io::Write;

use crate::support::peer::Peer;
use crate::support::primary::{Link, Played, SNAPSHOT};
use crate::support::{self, Server, request, wait_for, wait_for_replication_field as expect_field};

const DEBUG: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
const REDIS_FORM: &[&str] = &["--repl-rdb-channel", "yes"];
const VALKEY_FORM: &[&str] = &["--dual-channel-replication-enabled", "yes"];

/// Waits until the process has stopped itself.
fn expect_stopped(server: &Server) {
    let path = format!("/proc/{}/stat", server.id());
    // The state follows the name of the program, which is in parentheses.
    wait_for(|| std::fs::read_to_string(&path).unwrap().contains(") T ").then_some(()));
}

#[test]
fn a_primary_stops_when_its_snapshot_is_sent() {
    let server = Server::start(&[DEBUG, VALKEY_FORM].concat());
    let mut client = server.client();
    client.text(&["SET", "before", "1"]);
    assert_eq!(client.text(&["DEBUG", "PAUSE-AFTER-FORK", "1"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DELAY-RDB-CLIENT-FREE-SECONDS", "0"]), "OK");
    let mut channel = Peer::connect(&server);
    assert_eq!(channel.ask("REPLCONF capa eof rdb-only 1 rdb-channel 1 version 9.1.0"), "+OK");
    assert!(channel.ask("SYNC").starts_with("$ENDOFF:"));
    // Nothing is replied to from the cut on.
    client.send(&["GET", "before"]);
    let snapshot = channel.snapshot();
    assert!(snapshot.windows(6).any(|part| part == b"before"));
    expect_stopped(&server);
    drop(channel);
    server.signal("CONT");
    assert_eq!(support::shown(&client.receive().unwrap()), "1");
    server.log_line("Replica main channel failed to establish PSYNC within the grace period");
    expect_field(&mut client, "replicas_waiting_psync", "0");
    assert_eq!(server.info(&mut client, "total_forks"), "1");
    assert_eq!(client.text(&["CONFIG", "RESETSTAT"]), "OK");
    assert_eq!(server.info(&mut client, "total_forks"), "0");
}

#[test]
fn a_replica_stops_before_it_asks() {
    let points = [("REPL-PAUSE", "before-rdb-channel", REDIS_FORM), ("PAUSE-AFTER-FORK", "1", VALKEY_FORM)];
    for (command, point, form) in points {
        let server = Server::start(&[DEBUG, form].concat());
        assert_eq!(server.client().text(&["DEBUG", command, point]), "OK");
        let played = Played::new();
        played.is_followed_by(&server);
        let (mut main, _) = played.accept();
        let stopped = |next: &mut Link, answer: &str| {
            next.0.send(answer);
            expect_stopped(&server);
            server.signal("CONT");
            assert!(next.request().unwrap().starts_with("PSYNC "), "{command}");
        };
        if form == REDIS_FORM {
            main.0.send("+RDBCHANNELSYNC 7\r\n");
            let mut channel = played.accept_silently();
            assert!(channel.request().unwrap().contains("main-ch-client-id 7"));
            stopped(&mut channel, "+OK\r\n");
        } else {
            main.0.send("+DUALCHANNELSYNC\r\n");
            let (Link(mut channel, _), _) = played.accept();
            channel.send(&format!("$ENDOFF:100 {} 0 42\r\n", support::primary::ID));
            assert_eq!(main.request().unwrap(), "REPLCONF set-rdb-client-id 42");
            stopped(&mut main, "+OK\r\n");
        }
    }
}

#[test]
fn a_primary_is_lost_while_its_kept_stream_is_applied() {
    let server = Server::start(&[DEBUG, REDIS_FORM].concat());
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    assert_eq!(client.text(&["DEBUG", "REPL-PAUSE", "on-streaming-repl-buf"]), "OK");
    let (mut main, mut channel) = played.begin();
    let stream = request(&["INCR", "kept"]).repeat(200_000);
    main.0.send(&stream);
    expect_field(&mut client, "replica_full_sync_buffer_size", &stream.len().to_string());
    let total = server.info(&mut client, "mem_total_replication_buffers").parse::<usize>().unwrap();
    assert!(total >= stream.len(), "{total}");
    channel.0.write_all(SNAPSHOT).unwrap();
    expect_stopped(&server);
    client.send(&["CLIENT", "KILL", "TYPE", "master"]);
    client.send(&["DEBUG", "REPL-PAUSE", "clear"]);
    server.signal("CONT");
    assert_eq!(support::shown(&client.receive().unwrap()), "1");
    server.log_line("Master client was freed while streaming");
    // It asks for what it has not applied.
    let (_, words) = played.accept();
    let offset: usize = words.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!((101..100 + stream.len()).contains(&offset), "{words}");
}

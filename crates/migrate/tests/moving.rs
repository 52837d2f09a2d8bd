//! Moves between real servers, as the program makes them: under a writer, with passwords, back again, and refusals.
//!
//! Each move by replication is made to every target that accepts `REPLICAOF`.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

mod support;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use support::{Move, call, fill, replicas, text, valkey};
use trials::connection::Connection;
use trials::server::Program;

/// Increments a counter and changes keys until a write is refused or `is_over`. Returns the refusal.
fn write(mut connection: Connection, count: &AtomicU64, is_over: &AtomicBool) -> String {
    while !is_over.load(Ordering::Relaxed) {
        let reply = call(&mut connection, &["INCR", "counter"]);
        let Ok(number) = reply.parse::<u64>() else { return reply };
        count.store(number, Ordering::Relaxed);
        let key = format!("written:{}", number % 1_000);
        for words in [vec!["DEL", &key], vec!["RPUSH", &key, "a", "b"]] {
            let reply = call(&mut connection, &words);
            if reply.parse::<u64>().is_err() {
                return reply;
            }
        }
    }
    String::new()
}

/// Ends a writer also if a step fails, which would otherwise wait for it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_server_moves_under_a_writer_and_back() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let mut servers = Move::new(&valkey, &target);
        servers.fill_and_protect();
        let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _over = Over(&is_over);
            let writer = scope.spawn(|| write(servers.source(), &count, &is_over));
            servers.step("", "it is safe to switch");
            servers.step("--switch --reverse", "is its replica now");
            let refusal = writer.join().unwrap();
            assert!(refusal.starts_with("READONLY") || refusal.starts_with("NOREPLICAS"), "{refusal}");
        });
        let counted = count.load(Ordering::Relaxed).to_string();
        assert_eq!(
            call(&mut servers.target(), &["GET", "counter"]),
            counted,
            "every acknowledged write is there"
        );
        assert_eq!(
            call(&mut servers.target(), &["INCR", "counter"]).parse::<u64>().ok(),
            counted.parse::<u64>().ok().map(|n| n + 1)
        );
        servers.step("--undo", "clients are to be pointed to the source");
        assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
        assert!(call(&mut servers.source(), &["INCR", "counter"]).parse::<u64>().is_ok());
        servers.step("--undo", "restored");
        assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
        servers.step("--undo", "nothing to undo");
    }
}

#[test]
fn an_attached_target_is_detached_and_a_switched_one_needs_consent() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let servers = Move::new(&valkey, &target);
        fill(&mut servers.source());
        servers.step("", "it is safe to switch");
        servers.step("--undo", "is detached");
        assert_eq!(call(&mut servers.target(), &["SET", "own", "1"]), "OK");
        servers.refused("", 1, "is not empty");
        servers.step("--overwrite --switch", "switched: clients are to be pointed to the target");
        assert_eq!(call(&mut servers.target(), &["EXISTS", "own"]), "0");
        assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
        servers.refused("--undo", 1, "--discard");
        servers.step("--undo --discard", "accepts writes again");
        assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
    }
}

#[test]
fn a_copy_by_scan_has_changes_that_are_made_meanwhile() {
    let Some(valkey) = valkey() else { return };
    for target in [Some(valkey.clone()), Program::broadloom()].into_iter().flatten() {
        let servers = Move::new(&valkey, &target);
        fill(&mut servers.source());
        let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _over = Over(&is_over);
            let writer = scope.spawn(|| write(servers.source(), &count, &is_over));
            servers.step("--by-scan --switch", "switched");
            assert!(writer.join().unwrap().starts_with("NOREPLICAS"));
        });
        let counted = count.load(Ordering::Relaxed).to_string();
        assert_eq!(call(&mut servers.target(), &["GET", "counter"]), counted);
        assert_eq!(
            call(&mut servers.target(), &["LRANGE", "written:1", "0", "-1"]),
            call(&mut servers.source(), &["LRANGE", "written:1", "0", "-1"])
        );
        assert_eq!(
            call(&mut servers.source(), &["CONFIG", "GET", "notify-keyspace-events"]).matches("[]").count(),
            1
        );
    }
}

#[test]
fn a_copy_by_scan_deletes_what_the_source_does_not_have() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    fill(&mut servers.source());
    call(&mut servers.target(), &["SET", "own", "1"]);
    servers.refused("--by-scan", 1, "is not empty");
    servers.step("--by-scan --overwrite --no-events", "copied");
    assert_eq!(call(&mut servers.target(), &["EXISTS", "own"]), "0");
    assert_eq!(call(&mut servers.target(), &["DBSIZE"]), call(&mut servers.source(), &["DBSIZE"]));
}

#[test]
fn what_can_not_work_is_refused_by_name() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    let (source, target) = (servers.source.address(), servers.target.address());
    let run = |from: String, to: String| {
        let output = Command::new(env!("CARGO_BIN_EXE_broadloom-migrate"))
            .args(["--from", &from, "--to", &to])
            .output();
        let output = output.unwrap();
        (output.status.code(), text(&output))
    };
    let expect = |from: String, to: String, status: i32, words: &str| {
        let (code, text) = run(from, to);
        assert!(code == Some(status) && text.contains(words), "{code:?}: {text}");
    };
    let redis = |address: &dyn std::fmt::Display| format!("redis://{address}");
    expect(format!("http://{source}"), redis(&target), 2, "unknown scheme 'http'");
    expect("redis://127.0.0.1:1".into(), redis(&target), 1, "the source 127.0.0.1:1: Connection refused");
    expect(redis(&source), redis(&source), 2, "are the same server");
    expect(redis(&source), format!("redis://localhost:{}", source.port()), 2, "are the same server");
    expect(format!("rediss://{source}"), redis(&target), 2, "--cacert");
    call(&mut servers.source(), &["CONFIG", "SET", "requirepass", "secret"]);
    expect(redis(&source), redis(&target), 1, "NOAUTH");
    expect(
        format!("redis://:wrong@{source}"),
        redis(&target),
        1,
        "the login of the user 'default' is refused: WRONGPASS",
    );
    let mut replica = servers.target();
    call(&mut replica, &["REPLICAOF", "127.0.0.1", "1"]);
    expect(format!("redis://:secret@{source}"), redis(&target), 1, "is a replica of 127.0.0.1:1");
    expect(redis(&target), format!("redis://:secret@{source}"), 1, "is itself a replica, of 127.0.0.1:1");
}

//! What keeps a move safe: a comparison that finds planted differences, TLS on every connection, and Ctrl-C, which leaves both
//! servers usable.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

#[path = "../../tls/tests/support/mod.rs"]
mod certificates;
mod support;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use certificates::{Authority, Files};
use support::{Move, call, fill, replicas, valkey};
use trials::server::Program;

/// All pairs of which the source is a primary and the target accepts `REPLICAOF`, one of them a Valkey.
fn pairs(valkey: &Program) -> Vec<(Program, Program)> {
    let mut pairs: Vec<_> = replicas(valkey).into_iter().map(|target| (valkey.clone(), target)).collect();
    pairs.extend(Program::broadloom().map(|ours| (ours, valkey.clone())));
    pairs
}

#[test]
fn planted_differences_are_found() {
    let Some(valkey) = valkey() else { return };
    for (source, target) in pairs(&valkey) {
        for (plant, repair, words) in [
            (&["DEL", "set"][..], &["SADD", "set", "a", "b", "3"][..], "set': missing in the target (set)"),
            (&["SET", "own", "1"], &["DEL", "own"], "own': not in the source, but in the target (string)"),
            (
                &["SETRANGE", "string", "4", "0"],
                &["SETRANGE", "string", "4", "o"],
                "string': the values differ",
            ),
            (&["RPUSH", "list", "c"], &["RPOP", "list"], "list': the values differ (list)"),
            (
                &["HSET", "hash", "b", "three"],
                &["HSET", "hash", "b", "two"],
                "hash': the values differ (hash)",
            ),
            (&["EXPIRE", "string", "10000"], &["PERSIST", "string"], "string': expiry none in the source"),
        ] {
            let servers = Move::new(&source, &target);
            fill(&mut servers.source());
            servers.step("", "it is safe to switch");
            let mut there = servers.target();
            assert_eq!(call(&mut there, &["CONFIG", "SET", "replica-read-only", "no"]), "OK");
            call(&mut there, plant);
            for options in ["--sample 100000", "--sample 100000 --switch"] {
                let output = servers.run(options);
                let text = support::text(&output);
                assert_eq!(output.status.code(), Some(1), "{text}");
                assert!(text.contains("DIFFERENT ") && text.contains(words), "{words}: {text}");
                assert!(text.contains("it is not safe to switch") && !text.contains("it is safe"), "{text}");
                assert!(text.contains("is its replica") && text.contains("undo:"), "{text}");
            }
            // Nothing was switched: the source accepts writes, which the target gets.
            assert_eq!(call(&mut servers.source(), &["SET", "later", "1"]), "OK");
            call(&mut there, repair);
            servers.step("--sample 100000 --switch", "switched: clients are to be pointed to the target");
            assert_eq!(call(&mut there, &["GET", "later"]), "1");
        }
    }
}

/// A Sentinel would undo the change of a role. It subscribes to this channel on each server that it watches.
#[test]
fn a_server_that_a_sentinel_watches_does_not_change_its_role() {
    const CHANNEL: &str = "__sentinel__:hello";
    let Some(valkey) = valkey() else { return };
    for (source, target) in pairs(&valkey) {
        let servers = Move::new(&source, &target);
        fill(&mut servers.source());
        let end = |mut sentinel, mut client| {
            call(&mut sentinel, &["UNSUBSCRIBE"]);
            let count = call(&mut client, &["PUBSUB", "NUMSUB", CHANNEL]);
            assert!(count.contains("Integer(0)"), "{count}");
        };
        let mut sentinel = servers.target();
        call(&mut sentinel, &["SUBSCRIBE", CHANNEL]);
        servers.refused("", 1, "1 Sentinels watch the target");
        end(sentinel, servers.target());

        let mut sentinel = servers.source();
        call(&mut sentinel, &["SUBSCRIBE", CHANNEL]);
        servers.step("", "warning: 1 Sentinels watch the source");
        servers.refused("--switch", 1, "SENTINEL REMOVE");
        assert_eq!(call(&mut servers.source(), &["SET", "later", "1"]), "OK");
        end(sentinel, servers.source());
        servers.step("--switch", "switched: clients are to be pointed to the target");
        assert_eq!(call(&mut servers.target(), &["GET", "later"]), "1");
    }
}

/// A program that also serves a TLS port, on which clients need a certificate.
fn secured(program: &Program, files: &Files) -> (Program, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (certificate, key, ca) = (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
    let own = ["--tls-port", &port.to_string(), "--tls-auth-clients", "yes"];
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    (program.clone().with_arguments(&[&own[..], &files].concat()), port)
}

#[test]
fn all_connections_are_encrypted() {
    let Some(valkey) = valkey() else { return };
    let authority = Authority::new("authority");
    let files = Files::new("migrate", &authority);
    files.put("tool", &authority.issue("tool", &[]));
    for (source, target) in pairs(&valkey) {
        let ((source, from), (target, to)) = (secured(&source, &files), secured(&target, &files));
        let mut servers = Move::new(&source, &target);
        servers.fill_and_protect();
        let options = |names: &[&str]| -> Vec<String> {
            let file = |name: &&str| match *name {
                "--cacert" => files.path("ca.crt"),
                "--cert" => files.path("tool.crt"),
                _ => files.path("tool.key"),
            };
            names.iter().flat_map(|name| [(*name).to_owned(), file(name)]).collect()
        };
        servers.tls = Some((from, to, options(&["--cacert"])));
        servers.refused("", 1, "the source 127.0.0.1:");
        servers.tls = Some((from, to, options(&["--cacert", "--cert", "--key"])));
        servers.step("", "it is safe to switch");
        let mut there = servers.target();
        assert!(call(&mut there, &["INFO", "replication"]).contains(&format!("master_port:{from}\r")));
        servers.step("--switch --reverse", "is its replica now");
        assert_eq!(call(&mut there, &["SET", "later", "1"]), "OK");
        assert_eq!(call(&mut there, &["WAIT", "1", "20000"]), "1");
        assert!(
            call(&mut servers.source(), &["INFO", "replication"]).contains(&format!("master_port:{to}\r"))
        );
        servers.step("--undo", "clients are to be pointed to the source");
        assert_eq!(call(&mut servers.source(), &["GET", "later"]), "1");
        assert_eq!(call(&mut servers.source(), &["SET", "later", "2"]), "OK");
    }
}

/// A replica refuses `REPLICAOF`, and `PING`, while it loads a snapshot.
#[test]
fn a_target_that_loads_its_snapshot_can_be_detached() {
    let Some(valkey) = valkey() else { return };
    let slow = ["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"];
    let servers = Move::new(&valkey, &valkey.clone().with_arguments(&slow));
    fill(&mut servers.source());
    interrupted(&servers, "", "the target loads the snapshot");
    assert!(call(&mut servers.target(), &["PING"]).starts_with("LOADING"));
    servers.step("--undo", "is detached");
    assert_eq!(call(&mut servers.target(), &["SET", "own", "1"]), "OK");
}

/// Runs a step until it prints `words`, and interrupts it. Returns all that it prints.
fn interrupted(servers: &Move, options: &str, words: &str) -> String {
    let mut child = servers.command(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    while !text.contains(words) {
        let line = lines.next().unwrap_or_else(|| panic!("'{words}' is not printed: {text}")).unwrap();
        text.push_str(&format!("{line}\n"));
    }
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    lines.map_while(Result::ok).for_each(|line| text.push_str(&format!("{line}\n")));
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    text
}

#[test]
fn an_interruption_leaves_both_servers_usable() {
    let Some(valkey) = valkey() else { return };
    for (source, target) in pairs(&valkey) {
        let servers = Move::new(&source, &target);
        fill(&mut servers.source());
        let (mut here, mut there) = (servers.source(), servers.target());
        call(&mut here, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        // A full synchronisation of several seconds.
        assert_eq!(call(&mut here, &["CONFIG", "SET", "rdb-key-save-delay", "1000"]), "OK");
        let text = interrupted(&servers, "", "full synchronisation: the target receives");
        assert!(text.contains("interrupted") && text.contains("is its replica (link down)"), "{text}");
        assert!(text.contains("go on: the same command") && text.contains("--undo"), "{text}");
        assert_eq!(call(&mut here, &["INCR", "counter"]), "1");
        assert_eq!(call(&mut there, &["PING"]), "PONG");
        assert_eq!(call(&mut here, &["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
        servers.step("", "it is safe to switch");
        assert_eq!(call(&mut there, &["GET", "counter"]), "1");
        let text = interrupted(&servers, "--follow", "streaming: the target receives each change");
        assert!(text.contains("is its replica (link up)") && text.contains("go on:"), "{text}");
        assert_eq!(call(&mut here, &["INCR", "counter"]), "2");
        // Undone, both are primaries, and their settings are as before.
        servers.step("--undo", "is detached");
        assert_eq!(call(&mut there, &["INCR", "counter"]), "3");
        assert_eq!(call(&mut here, &["INCR", "counter"]), "3");
        let text = interrupted(&servers, "--by-scan --overwrite --follow", "copying ");
        assert!(text.contains("replicates from the other") && text.contains("--overwrite"), "{text}");
        assert_eq!(call(&mut here, &["INCR", "counter"]), "4");
        assert_eq!(call(&mut there, &["SET", "own", "1"]), "OK");
        servers.step("--by-scan --overwrite --switch", "switched");
        assert_eq!(call(&mut there, &["GET", "counter"]), "4");
    }
}

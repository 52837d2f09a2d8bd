//! Servers that do not reply, or are gone: each wait ends in time, and what can be undone without the source is undone.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

mod support;

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Move, call, proxy, replicas, signal, text, valkey};

/// Time in which a run must end whose `--timeout` is much longer.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_silent_source_is_given_up_after_the_timeout() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    // The kernel accepts connections.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    servers.proxy = Some(address);
    servers.timeout = "0.1";
    servers.refused("", 1, &format!("the source {address}: no reply within 5.0 s"));
}

#[test]
fn a_target_is_detached_from_a_dead_source() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let mut servers = Move::new(&valkey, &target);
        servers.fill_and_protect();
        servers.step("", "it is safe to switch");
        servers.source.kill().unwrap();
        let output = servers.run("--undo");
        let text = text(&output);
        assert!(output.status.success() && text.contains("the source could not be reached"), "{text}");
        assert!(text.contains("is detached, with the "), "{text}");
        assert!(text.contains("no settings of the source remain to be restored"), "{text}");
        let mut there = servers.target();
        assert_eq!(call(&mut there, &["SET", "own", "1"]), "OK");
        assert!(!call(&mut there, &["CONFIG", "GET", "masterauth"]).contains("secret"));
        assert!(!servers.state().exists());
        // Now the source is needed to tell the state.
        let refused = format!("the source {}: Connection refused", servers.source.address());
        servers.refused("--undo", 1, &refused);
        call(&mut there, &["REPLICAOF", "127.0.0.1", "1"]);
        servers.refused("--undo", 1, &refused);
        assert!(call(&mut there, &["INFO", "replication"]).contains("master_port:1\r"));
    }
}

#[test]
fn settings_of_a_silent_source_are_restored_once_it_replies() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    servers.step("", "it is safe to switch");
    // As if the tool had been killed after the source was fenced.
    let name = "min-replicas-to-write";
    assert_eq!(call(&mut servers.source(), &["CONFIG", "SET", name, "1000000"]), "OK");
    let mut record: Value = serde_json::from_slice(&fs::read(servers.state()).unwrap()).unwrap();
    record["settings"].as_array_mut().unwrap().push(json!({"side": "Source", "name": name, "value": "0"}));
    fs::write(servers.state(), record.to_string()).unwrap();
    servers.timeout = "0.1";
    signal(servers.source.process_id(), "STOP");
    servers.step("--undo", &format!("remain to be restored ({name}): --undo once more"));
    assert_eq!(call(&mut servers.target(), &["SET", "own", "1"]), "OK");
    signal(servers.source.process_id(), "CONT");
    assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
    servers.step("--undo", "restored");
    assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
    assert!(!servers.state().exists());
}

/// Both a pause of writes and, for servers that can't pause them, a fence in its place.
#[test]
fn a_target_that_stops_while_writes_are_held_back_does_not_hold_them_longer() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        for can_pause in [true, false] {
            let mut servers = Move::new(&valkey, &target);
            let id = servers.target.process_id();
            let has_stopped = AtomicBool::new(false);
            servers.proxy = Some(proxy(servers.source.address(), move |request| {
                let find = |words: &[u8]| request.windows(words.len()).position(|found| found == words);
                let Some(at) = find(b"\r\nPAUSE\r\n") else { return };
                if has_stopped.swap(true, Ordering::Relaxed) {
                    return;
                }
                signal(id, "STOP");
                if !can_pause {
                    request[at + 2] = b'X';
                }
            }));
            servers.step("", "it is safe to switch");
            servers.timeout = "600";
            let begin = Instant::now();
            let output = servers.run("--switch --pause-max 2");
            let text = text(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(begin.elapsed() < SOON, "{text}");
            assert_eq!(text.contains("refuses them instead"), !can_pause, "{text}");
            let reason = format!("--pause-max): the target {}: no reply within 1.", servers.target.address());
            assert!(text.contains(&reason) && text.contains("accepts writes as before"), "{text}");
            assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
            signal(id, "CONT");
            servers.step("--switch", "switched: clients are to be pointed to the target");
            assert_eq!(call(&mut servers.target(), &["GET", "a"]), "b");
        }
    }
}

//! What happens around a switch: a pause that ends too early, servers that restart or change their roles, other addresses,
//! fences of earlier moves.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

mod support;

use std::fs::File;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::{Move, call, fill, has, proxy, proxy_to, replicas, text, valkey};
use trials::connection::Connection;
use trials::server::{Program, Server, programs_or_skip};

const FENCE: &str = "min-replicas-to-write";

/// A move whose target is attached. `change` sees each later request to the source, and another connection to it.
fn attached_through(
    source: &Program,
    target: &Program,
    change: impl Fn(&mut Vec<u8>, &mut dyn FnMut() -> Connection) + Send + Sync + 'static,
) -> Move {
    let mut servers = Move::new(source, target);
    fill(&mut servers.source());
    let address = servers.source.address();
    servers.proxy = Some(proxy(address, move |request| {
        change(request, &mut || Connection::open(address).unwrap());
    }));
    servers.step("", "it is safe to switch");
    servers
}

/// Expects that a switch is refused with these words, and that the source is the primary and accepts writes.
fn expect_not_switched(servers: &Move, options: &str, words: &str) {
    let output = servers.run(&format!("--switch {options}"));
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(words) && text.contains("accepts writes as before"), "{text}");
    assert!(!text.contains("is the primary now") && !text.contains("refuses writes\n"), "{text}");
    assert_eq!(call(&mut servers.source(), &["SET", "later", "1"]), "OK");
}

#[test]
fn a_fence_that_comes_after_the_pause_is_taken_back() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let is_first = AtomicBool::new(true);
        let servers = attached_through(&valkey, &target, move |request, other| {
            if has(request, FENCE) && has(request, "1000000") && is_first.swap(false, Ordering::Relaxed) {
                // Is delayed until the pause ends.
                assert_eq!(call(&mut other(), &["SET", "between", "1"]), "OK");
            }
        });
        expect_not_switched(&servers, "--pause-max 1", "it took longer than the pause of writes (1.0 s");
        servers.step("--switch", "switched");
        assert_eq!(call(&mut servers.target(), &["GET", "between"]), "1");
    }
}

#[test]
fn a_lost_connection_while_writes_are_held_back_ends_the_switch() {
    let Some(valkey) = valkey() else { return };
    let (is_paused, is_killed) = (AtomicBool::new(false), AtomicBool::new(false));
    let servers = attached_through(&valkey, &valkey, move |request, other| {
        if has(request, "PAUSE") {
            is_paused.store(true, Ordering::Relaxed);
        } else if is_paused.load(Ordering::Relaxed) && !is_killed.swap(true, Ordering::Relaxed) {
            // As a restart does.
            let mut other = other();
            call(&mut other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            assert_eq!(call(&mut other, &["CLIENT", "UNPAUSE"]), "OK");
        }
    });
    expect_not_switched(&servers, "", &format!("the source {}", servers.proxy.unwrap()));
    servers.step("--switch", "switched");
}

#[test]
fn a_target_that_is_detached_while_writes_are_held_back_ends_the_switch() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let mut servers = Move::new(&valkey, &target);
        fill(&mut servers.source());
        servers.step("", "it is safe to switch");
        let there = servers.target.address();
        servers.proxy = Some(proxy(servers.source.address(), move |request| {
            if has(request, "PAUSE") {
                let mut there = Connection::open(there).unwrap();
                assert_eq!(call(&mut there, &["REPLICAOF", "NO", "ONE"]), "OK");
            }
        }));
        // The record is of the move without a proxy.
        std::fs::remove_file(servers.state()).unwrap();
        expect_not_switched(&servers, "", "it is not a replica any more");
        // A fence that was there before stays.
        let port = servers.source.address().port().to_string();
        assert_eq!(call(&mut servers.target(), &["REPLICAOF", "127.0.0.1", &port]), "OK");
        call(&mut servers.source(), &["CONFIG", "SET", FENCE, "1000000"]);
        servers.refused("--switch", 1, "it is not a replica any more");
        assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
    }
}

#[test]
fn a_fence_in_place_of_a_pause_is_taken_back_if_its_reply_is_lost() {
    let Some(valkey) = valkey() else { return };
    let is_first = AtomicBool::new(true);
    let servers = attached_through(&valkey, &valkey, move |request, other| {
        if let Some(at) = request.windows(9).position(|found| found == b"\r\nPAUSE\r\n") {
            request[at + 2] = b'X';
        }
        if has(request, FENCE) && has(request, "1000000") && is_first.swap(false, Ordering::Relaxed) {
            let mut other = other();
            assert_eq!(call(&mut other, &["CONFIG", "SET", FENCE, "1000000"]), "OK");
            call(&mut other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        }
    });
    expect_not_switched(&servers, "", &format!("the source {}", servers.proxy.unwrap()));
}

#[test]
fn the_way_out_lifts_the_fence_of_the_way_in() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let mut servers = Move::new(&valkey, &target);
        servers.step("--switch", "refuses writes only until it restarts");
        assert_eq!(call(&mut servers.target(), &["SET", "newer", "1"]), "OK");
        // Once more, it would delete what the target has got since then.
        servers.refused("--switch --overwrite", 1, "is complete");
        // Without its record, the fence does not go unnoticed.
        std::fs::remove_file(servers.state()).unwrap();
        servers.refused("--undo", 1, "refuses writes, as after a switch");
        std::mem::swap(&mut servers.source, &mut servers.target);
        servers.step("--overwrite --switch", "the fence of an earlier move is lifted");
        assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
        assert_eq!(call(&mut servers.target(), &["GET", "newer"]), "1");
        assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
        std::fs::remove_file(servers.state()).unwrap();
        servers.step("--undo --discard", "accepts writes again");
        assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
        assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
        std::fs::remove_file(servers.state()).unwrap();
        servers.step("--undo", "both servers accept writes");
        assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
    }
}

#[test]
fn a_source_is_not_made_a_replica_of_another_server() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    fill(&mut servers.source());
    let other = Server::start(&valkey).unwrap();
    servers.step("", "it is safe to switch");
    let reverse = |address| format!("--switch --reverse --to-as {address}");
    servers.refused(&reverse(other.address()), 1, "is another server than the target");
    assert_eq!(call(&mut servers.source(), &["SET", "later", "1"]), "OK");
    // What this tool can't tell is noticed afterwards: the first connection is its own.
    let (count, there, other) = (AtomicUsize::new(0), servers.target.address(), other.address());
    let next = move || if count.fetch_add(1, Ordering::Relaxed) == 0 { there } else { other };
    servers.refused(&reverse(proxy_to(next, |_| ())), 1, "replicates from another server");
    assert_eq!(call(&mut servers.target(), &["GET", "later"]), "1");
    assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
    servers.step("--switch --reverse", "only the reversal is left");
    assert_eq!(call(&mut servers.source(), &["GET", "later"]), "1");
    assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("READONLY"));
    servers.step("--undo", "clients are to be pointed to the source");
    assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
}

#[test]
fn a_reversal_without_a_link_can_be_finished_or_undone() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        let mut servers = Move::new(&valkey, &target);
        fill(&mut servers.source());
        servers.step("", "it is safe to switch");
        // A port that nobody listens on.
        let reverse = "--switch --reverse --to-as 127.0.0.1:1";
        servers.timeout = "0.1";
        servers.refused(reverse, 1, "has had no link to its primary");
        servers.timeout = "20";
        assert_eq!(call(&mut servers.target(), &["SET", "newer", "1"]), "OK");
        let port = servers.target.address().port().to_string();
        assert_eq!(call(&mut servers.source(), &["REPLICAOF", "127.0.0.1", &port]), "OK");
        servers.step(reverse, "only its fence is to be lifted");
        assert!(!call(&mut servers.source(), &["CONFIG", "GET", FENCE]).contains("1000000"));
        assert_eq!(call(&mut servers.source(), &["GET", "newer"]), "1");
        // With its recorded stage, the tool may end what it has begun, but no replication from a third server.
        assert_eq!(call(&mut servers.source(), &["REPLICAOF", "127.0.0.1", "1"]), "OK");
        servers.refused("--undo", 1, "--discard");
        servers.step("--undo --discard", "accepts writes again");
        assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
        assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
        servers.step("--undo", "restored");
        servers.step("--overwrite --switch", "switched");
        assert_eq!(call(&mut servers.source(), &["REPLICAOF", "127.0.0.1", "1"]), "OK");
        servers.refused("--undo --discard", 1, "is a replica of 127.0.0.1:1, by something else");
        assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
    }
}

#[test]
fn a_source_is_opened_without_its_dead_target() {
    let Some(valkey) = valkey() else { return };
    for options in ["--switch", "--switch --reverse"] {
        let mut servers = Move::new(&valkey, &valkey);
        servers.fill_and_protect();
        servers.step(options, "switched");
        servers.target.kill().unwrap();
        servers.refused("--undo", 1, "--undo --discard lets it accept writes");
        servers.step("--undo --discard", "the target could not be reached");
        assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK", "{options}");
    }
}

#[test]
fn a_fenced_target_is_opened_without_its_dead_source() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    servers.step("--switch", "switched");
    servers.step("--undo --discard", "accepts writes again");
    servers.source.kill().unwrap();
    servers.refused("--undo", 1, "--undo --discard lets it accept them");
    servers.step("--undo --discard", "the source could not be reached");
    assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
}

#[test]
fn what_would_end_badly_is_refused() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey.clone().with_arguments(&["--databases", "20"]), &valkey);
    servers.refused("", 1, "has 20 databases, but the target");
    let servers = Move::new(&valkey, &valkey.clone().with_arguments(&["--databases", "20"]));
    servers.refused("--switch --reverse", 1, "has 20 databases, but the source");
    let servers = Move::new(&valkey, &valkey);
    call(&mut servers.target(), &["CONFIG", "SET", FENCE, "1"]);
    servers.step("", "the target refuses writes while it has fewer than 1 replicas");
    servers.refused("--switch", 1, "the target refuses writes while it has fewer than 1 replicas");
    servers.refused("--by-scan --switch", 1, "switch without --by-scan");
    call(&mut servers.target(), &["CONFIG", "SET", "replica-read-only", "no"]);
    call(&mut servers.target(), &["CONFIG", "SET", FENCE, "0"]);
    call(&mut servers.target(), &["SET", "own", "1"]);
    servers.refused("--follow", 1, "not in the source, but in the target");
    let lock = File::options().write(true).open(servers.state().with_extension("json.lock")).unwrap();
    lock.lock().unwrap();
    servers.refused("--undo", 1, "another run works on this move");
}

/// Starts a server again, without its data, at the same address.
fn restart(server: &Server) {
    let start = |connection: &mut Connection| {
        let info = call(connection, &["INFO", "server"]);
        info.lines().find(|line| line.starts_with("run_id:")).map(str::to_owned)
    };
    let mut connection = server.connect().unwrap();
    let before = start(&mut connection);
    // The connection ends without a reply.
    drop(connection.call(&["DEBUG", "RESTART"]));
    while !server
        .connect()
        .and_then(|mut connection| connection.call(&["PING"]).map(|_| connection))
        .is_ok_and(|mut connection| start(&mut connection) != before)
    {
        thread::yield_now();
    }
}

#[test]
fn a_source_is_not_made_a_replica_of_a_target_that_has_restarted() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    fill(&mut servers.source());
    servers.step("--switch", "switched");
    restart(&servers.target);
    servers.refused("--switch --reverse", 1, "has restarted or changed its role since the switch");
    assert_eq!(call(&mut servers.source(), &["GET", "string"]), "hello");
    servers.step("--undo --discard", "accepts writes again");
    assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
}

#[test]
fn an_undo_whose_promotion_has_no_reply_is_finished_by_the_same_command() {
    let Some(valkey) = valkey() else { return };
    for target in replicas(&valkey) {
        for restarts in [false, true] {
            let servers = attached_through(&valkey, &target, |request, other| {
                if has(request, "REPLICAOF") && has(request, "ONE") {
                    let mut other = other();
                    assert_eq!(call(&mut other, &["REPLICAOF", "NO", "ONE"]), "OK");
                    call(&mut other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                }
            });
            servers.step("--switch --reverse", "is its replica now");
            servers.refused("--undo", 1, "the primary again by --undo, which has not ended");
            if restarts {
                // As after a restart of the target.
                call(&mut servers.target(), &["CONFIG", "SET", FENCE, "0"]);
                servers.refused("--undo", 1, "may lack writes to the target");
                call(&mut servers.target(), &["CONFIG", "SET", FENCE, "1000000"]);
                restart(&servers.source);
                servers.refused("--undo", 1, "may lack writes to the target");
            } else {
                servers.step("--undo", "clients are to be pointed to the source");
                assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
            }
            assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
            assert_eq!(call(&mut servers.target(), &["GET", "string"]), "hello");
            if !restarts {
                servers.step("--undo", "restored");
                assert_eq!(call(&mut servers.target(), &["SET", "a", "b"]), "OK");
            }
        }
    }
}

#[test]
fn an_undo_leaves_the_fence_of_another_move() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    servers.step("--switch", "switched");
    std::fs::remove_file(servers.state()).unwrap();
    std::mem::swap(&mut servers.source, &mut servers.target);
    servers.step("--overwrite", "it is safe to switch");
    servers.step("--undo", "it has the fence of another move");
    assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("NOREPLICAS"));
}

#[test]
fn a_replica_without_a_link_that_refuses_to_be_read_is_opened() {
    let Some(valkey) = valkey() else { return };
    for source in [Some(valkey.clone()), Program::broadloom()].into_iter().flatten() {
        let source = source.with_arguments(&["--replica-serve-stale-data", "no"]);
        let mut servers = Move::new(&source, &valkey);
        let port = servers.target.address().port();
        servers
            .step("--switch --reverse", &format!("set replicaof 127.0.0.1 {port} in its configuration file"));
        servers.target.kill().unwrap();
        while !call(&mut servers.source(), &["PING"]).starts_with("MASTERDOWN") {
            thread::yield_now();
        }
        servers.refused("--undo", 1, "--undo --discard lets it accept writes");
        servers.step("--undo --discard", "the target could not be reached");
        assert_eq!(call(&mut servers.source(), &["SET", "a", "b"]), "OK");
    }
}

#[test]
fn a_record_that_can_not_be_written_ends_a_switch_before_the_promotion() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    let new = servers.state().with_extension("json.new");
    servers.proxy = Some(proxy(servers.source.address(), move |request| {
        if has(request, FENCE) && has(request, "1000000") {
            std::fs::create_dir(&new).unwrap();
        }
    }));
    servers.refused("--switch", 1, "state.json (--state selects another file)");
    assert_eq!(call(&mut servers.source(), &["SET", "later", "1"]), "OK");
    std::fs::remove_dir(servers.state().with_extension("json.new")).unwrap();
    servers.proxy = None;
    assert!(call(&mut servers.target(), &["SET", "a", "b"]).starts_with("READONLY"));
}

#[test]
fn a_record_that_is_out_of_date_is_named() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    servers.step("--switch --reverse", "switched");
    let record = std::fs::read(servers.state()).unwrap();
    servers.step("--undo", "undone");
    servers.step("--undo", "undone");
    std::fs::write(servers.state(), record).unwrap();
    servers.refused("--undo", 1, "remove the record");
}

#[test]
fn own_modules_of_a_server_cause_no_warning() {
    let Some([redis]) = programs_or_skip([("redis-next", Program::newest_redis())]) else { return };
    let servers = Move::new(&redis, &redis);
    let output = servers.run("");
    assert!(output.status.success() && !text(&output).contains("modules"), "{}", text(&output));
}

#[test]
fn a_switch_goes_on_if_nobody_reads_its_output() {
    let Some(valkey) = valkey() else { return };
    let servers = Move::new(&valkey, &valkey);
    let mut child =
        servers.command("--switch --reverse").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success());
    assert!(call(&mut servers.source(), &["SET", "a", "b"]).starts_with("READONLY"));
}

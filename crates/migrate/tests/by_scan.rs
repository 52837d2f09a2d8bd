//! `--by-scan`: what the source changes, or refuses, at a bad moment does not get lost without a word.
//!
//! A proxy before the source makes these moments: it sees each request of the tool.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use support::{Move, call, proxy, valkey};
use trials::connection::Connection;
use trials::server::Program;

const EVENTS: &str = "notify-keyspace-events";

/// No key is compared by value, so what was not copied is not found by chance.
const SWITCH: &str = "--by-scan --switch --sample 0";

/// The value that fences the source.
const FENCE: &str = "\r\n1000000\r\n";

/// The request that begins a switch.
const PAUSE: &str = "\r\nPAUSE\r\n";

fn position(request: &[u8], words: &str) -> Option<usize> {
    request.windows(words.len()).position(|found| found == words.as_bytes())
}

/// Replaces words of a request by others of the same length.
fn replace(request: &mut [u8], words: &str, others: &str) {
    assert_eq!(words.len(), others.len());
    while let Some(at) = position(request, words) {
        request[at..at + words.len()].copy_from_slice(others.as_bytes());
    }
}

/// Changes each request of the tool to the source.
fn with_requests(servers: &mut Move, change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) {
    servers.proxy = Some(proxy(servers.source.address(), change));
}

/// Runs these requests on the source before the tool's first request with these words.
fn at_first(servers: &mut Move, words: &'static str, requests: &'static [&'static str]) {
    let (has_run, source) = (AtomicBool::new(false), servers.source.address());
    with_requests(servers, move |request| {
        if position(request, words).is_some() && !has_run.swap(true, Ordering::SeqCst) {
            run(&mut Connection::open(source).unwrap(), requests);
        }
    });
}

fn run(connection: &mut Connection, requests: &[&str]) {
    for request in requests {
        let reply = call(connection, &request.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with("ERR"), "{request}: {reply}");
    }
}

#[test]
fn a_key_that_the_target_refuses_while_writes_are_paused_prevents_the_switch() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    run(&mut servers.source(), &["SET bad old"]);
    let (is_paused, source) = (AtomicBool::new(false), servers.source.address());
    with_requests(&mut servers, move |request| {
        if position(request, PAUSE).is_some() && !is_paused.swap(true, Ordering::SeqCst) {
            run(&mut Connection::open(source).unwrap(), &["SET bad new"]);
        }
        if is_paused.load(Ordering::SeqCst) {
            // The name of the key instead of a payload.
            replace(request, "DUMP\r\n$3\r\nbad", "ECHO\r\n$3\r\nbad");
        }
    });
    servers.refused(SWITCH, 1, "REFUSED by the target: 1 keys, the first is db0 'bad'");
    run(&mut servers.source(), &["SET later 1"]);
    servers.proxy = None;
    servers.step("--by-scan --switch --overwrite", "switched");
    assert_eq!(call(&mut servers.target(), &["GET", "bad"]), "new");
}

/// `XREADGROUP` and `XACK` have no keyspace events.
#[test]
fn consumer_groups_are_copied_while_writes_are_paused() {
    let Some(valkey) = valkey() else { return };
    for target in [Some(valkey.clone()), Program::broadloom()].into_iter().flatten() {
        // While keys are compared, before writes are paused, and in the last moment, if another client ends the pause.
        for (moment, options) in [("\r\nXINFO\r\n", "--by-scan --switch"), (PAUSE, SWITCH), (FENCE, SWITCH)] {
            let mut servers = Move::new(&valkey, &target);
            run(
                &mut servers.source(),
                &[
                    "XADD stream 1-1 a b",
                    "XADD stream 2-1 a b",
                    "XGROUP CREATE stream group 0",
                    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
                ],
            );
            at_first(
                &mut servers,
                moment,
                &[
                    "CLIENT UNPAUSE",
                    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
                    "XACK stream group 1-1",
                ],
            );
            let pending =
                |mut connection: Connection| call(&mut connection, &["XPENDING", "stream", "group"]);
            let before = pending(servers.source());
            servers.step(options, "switched");
            assert_eq!(pending(servers.target()), pending(servers.source()));
            assert_ne!(pending(servers.target()), before);
        }
    }
}

#[test]
fn events_that_another_client_switches_off_are_missed_with_an_error() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    run(&mut servers.source(), &["SET key old"]);
    at_first(&mut servers, PAUSE, &["CONFIG SET notify-keyspace-events Egx", "SET key new"]);
    servers.refused(SWITCH, 1, "another client has changed notify-keyspace-events");
    run(&mut servers.source(), &["SET later 1"]);
    // The other client's value stays.
    assert!(call(&mut servers.source(), &["CONFIG", "GET", EVENTS]).contains(&format!("{:?}", b"gxE")));
}

#[test]
fn expiries_that_can_not_be_read_end_the_copy() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    run(&mut servers.source(), &["SET expiring soon EX 10000"]);
    with_requests(&mut servers, |request| replace(request, "\r\nPEXPIRETIME\r\n", "\r\nPEXPIRETIMX\r\n"));
    servers.refused("--by-scan", 1, "PEXPIRETIME: ERR unknown command");
    // As Redis before 7.
    with_requests(&mut servers, |request| replace(request, "pexpiretime", "pexpiretimx"));
    servers.step("--by-scan", "copied");
    assert!(call(&mut servers.target(), &["TTL", "expiring"]).parse::<u64>().unwrap() > 9_000);
    with_requests(&mut servers, |request| {
        replace(request, "pexpiretime", "pexpiretimx");
        replace(request, "\r\nTIME\r\n", "\r\nTIMX\r\n");
    });
    servers.refused("--by-scan --overwrite", 1, "TIME: ERR unknown command");
}

#[test]
fn expiries_are_compared_without_the_clocks() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    run(&mut servers.source(), &["SET expiring soon EX 10000"]);
    with_requests(&mut servers, |request| replace(request, "\r\nTIME\r\n", "\r\nTIMX\r\n"));
    servers.step("", "a server refuses TIME");
    run(&mut servers.target(), &["CONFIG SET replica-read-only no", "EXPIRE expiring 5000"]);
    servers.refused("", 1, "expiring': expiry in ");
}

#[test]
fn functions_that_are_not_copied_are_a_difference() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    let library = "#!lua name=library\nserver.register_function('one', function() return 1 end)";
    assert_eq!(call(&mut servers.source(), &["FUNCTION", "LOAD", library]), "library");
    with_requests(&mut servers, |request| {
        replace(request, "FUNCTION\r\n$4\r\nDUMP", "FUNCTION\r\n$4\r\nDUMX")
    });
    servers.refused("--by-scan --switch", 1, "functions are not copied: the source ");
    with_requests(&mut servers, |request| {
        replace(request, "FUNCTION\r\n$4\r\nLIST", "FUNCTION\r\n$4\r\nLISX")
    });
    servers.step("--by-scan", "warning: the source ");
    servers.proxy = None;
    servers.step("--by-scan --switch", "switched");
    assert_eq!(call(&mut servers.target(), &["FCALL", "one", "0"]), "1");
}

#[test]
fn an_overwritten_target_has_no_other_keys_whatever_their_number_is() {
    let Some(valkey) = valkey() else { return };
    let mut servers = Move::new(&valkey, &valkey);
    run(&mut servers.source(), &["SET first 1"]);
    run(&mut servers.target(), &["SET own 1"]);
    // After the copy, when both have two keys.
    let (reading_count, source) = (AtomicUsize::new(0), servers.source.address());
    with_requests(&mut servers, move |request| {
        let is_reading = position(request, "\r\nkeyspace\r\n").is_some();
        if is_reading && reading_count.fetch_add(1, Ordering::SeqCst) == 1 {
            run(&mut Connection::open(source).unwrap(), &["SET second 1"]);
        }
    });
    servers.step("--by-scan --overwrite --no-events --sample 0", "copied");
    assert_eq!(call(&mut servers.target(), &["EXISTS", "own"]), "0");
    assert_eq!(call(&mut servers.target(), &["EXISTS", "second"]), "1");
}

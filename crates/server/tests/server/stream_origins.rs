//! Which changes belong to the stream of a replica: those of its primary only, whatever else happens at the same time.

use crate::support::peer::Peer;
use crate::support::primary::{ID, Link, Played};
use crate::support::{self, Client, Server, replication_field as field, request, wait_for};

const DEBUG: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
const WRITABLE: &[&str] = &["--replica-read-only", "no"];

/// A replica with these options, its client, its primary, and the link between them. The offset is 100.
fn replica(options: &[&str]) -> (Server, Client, Played, Link) {
    let server = Server::start(&[DEBUG, options].concat());
    let played = Played::new();
    let client = played.is_followed_by(&server);
    let link = played.synchronise(ID);
    (server, client, played, link)
}

/// Sends changes of the primary, and waits until they are applied. Returns the offset.
fn send_and_await(link: &mut Link, offset: usize, requests: &[&[&str]]) -> usize {
    let bytes: String = requests.iter().copied().map(request).collect();
    link.0.send(&bytes);
    link.expect_acknowledged(offset + bytes.len());
    offset + bytes.len()
}

#[test]
fn local_changes_do_not_move_the_offset() {
    let (_server, mut client, _played, mut link) = replica(WRITABLE);
    // The database of the client is selected, so that no other request begins the unit.
    let offset = send_and_await(&mut link, 100, &[&["SELECT", "0"], &["SET", "p", "1"]]);
    for script in [
        "redis.set_repl(redis.REPL_REPLICA) redis.call('set','x','1')",
        "redis.call('set','y','1') redis.set_repl(redis.REPL_REPLICA) redis.call('set','y','2')",
    ] {
        assert_eq!(client.text(&["EVAL", script, "0"]), "");
    }
    client.text(&["DEBUG", "REPLICATE", "replica", "set", "x", "2"]);
    client.text(&["PUBLISH", "channel", "message"]);
    assert_eq!(field(&mut client, "master_repl_offset"), offset.to_string());
}

#[test]
fn nor_do_those_beside_a_script_that_pauses() {
    let (server, mut client, _played, _link) = replica(&[WRITABLE, &["--io-threads", "1"]].concat());
    let [mut sleeping, mut long, mut other] = [(); 3].map(|()| server.client());
    for connection in [&mut sleeping, &mut long, &mut other] {
        connection.text(&["PING"]);
    }
    let script = "local i = 0 while i < 3000000 do i = i + 1 end";
    // The requests that arrive meanwhile are run in one turn. A busy machine may take some time to send them.
    sleeping.send(&["DEBUG", "SLEEP", "0.2"]);
    long.send(&["EVAL", script, "0"]);
    other.send(&["SET", "x", "1"]);
    for connection in [&mut sleeping, &mut long, &mut other] {
        connection.receive().unwrap();
    }
    assert_eq!(field(&mut client, "master_repl_offset"), "100");
}

#[test]
fn what_a_waiter_pops_is_a_local_change() {
    let (server, mut client, _played, mut link) = replica(&[WRITABLE, &["--appendonly", "yes"]].concat());
    let mut waiter = server.client();
    waiter.send(&["BLPOP", "l", "0"]);
    wait_for(|| (server.info(&mut client, "blocked_clients") == "1").then_some(()));
    let offset = send_and_await(&mut link, 100, &[&["SELECT", "0"], &["RPUSH", "l", "1"]]);
    assert_eq!(support::shown(&waiter.receive().unwrap()), "l\n1");
    assert_eq!(field(&mut client, "master_repl_offset"), offset.to_string());
    wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(client.text(&["LLEN", "l"]), "0");
}

#[test]
fn a_waiter_that_may_not_write_any_more_is_refused() {
    let (server, mut client, _played, mut link) = replica(WRITABLE);
    let mut waiter = server.client();
    waiter.send(&["BLPOP", "l", "0"]);
    wait_for(|| (server.info(&mut client, "blocked_clients") == "1").then_some(()));
    client.text(&["CONFIG", "SET", "replica-read-only", "yes"]);
    send_and_await(&mut link, 100, &[&["SELECT", "0"], &["RPUSH", "l", "1"]]);
    assert!(support::shown(&waiter.receive().unwrap()).starts_with("READONLY"));
    assert_eq!(client.text(&["LLEN", "l"]), "1");
}

#[test]
fn evictions_beside_the_stream_are_local_changes() {
    let (server, mut client, _played, mut link) = replica(&[
        "--replica-ignore-maxmemory",
        "no",
        "--maxmemory",
        "4mb",
        "--maxmemory-policy",
        "allkeys-random",
        "--appendonly",
        "yes",
    ]);
    wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
    let value = "x".repeat(10_000);
    let names: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    let requests: Vec<[&str; 3]> = names.iter().map(|name| ["SET", name, &value]).collect();
    let requests: Vec<&[&str]> = requests.iter().map(|words| &words[..]).collect();
    let offset = send_and_await(&mut link, 100, &[&["SELECT", "0"]]);
    send_and_await(&mut link, offset, &requests);
    let kept: u64 = client.text(&["DBSIZE"]).parse().unwrap();
    assert!(kept < 900, "{kept} keys are left");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert!(client.text(&["DBSIZE"]).parse::<u64>().unwrap() <= kept);
}

#[test]
fn the_primary_does_not_know_the_new_names_of_commands() {
    let (server, mut client, _played, mut link) =
        replica(&["--rename-command", "FLUSHALL", "secret", "--rename-command", "PUBLISH", "tell"]);
    send_and_await(&mut link, 100, &[&["SET", "k", "2"], &["FLUSHALL"]]);
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["DBSIZE"]), "0");
    // Nor do replicas.
    client.text(&["REPLICAOF", "NO", "ONE"]);
    let (mut replica, _, _) = Peer::synchronised(&server);
    client.text(&["tell", "channel", "message"]);
    replica.expect(&request(&["SELECT", "2"]));
    replica.expect(&request(&["publish", "channel", "message"]));
}

#[test]
fn many_waits_ask_once_for_acknowledgements() {
    let server =
        Server::start(&[DEBUG, &["--io-threads", "1", "--repl-ping-replica-period", "1000"]].concat());
    let (mut replica, _, offset) = Peer::synchronised(&server);
    let mut sleeping = server.client();
    let mut waiting = [(); 3].map(|()| server.client());
    for (number, client) in waiting.iter_mut().enumerate() {
        client.text(&["SET", &format!("k{number}"), "1"]);
    }
    // The requests that arrive meanwhile are run in one turn. A busy machine may take some time to send them.
    sleeping.send(&["DEBUG", "SLEEP", "1.5"]);
    waiting.iter_mut().for_each(|client| client.send(&["WAIT", "1", "0"]));
    let sets: String = (0..3).map(|number| request(&["SET", &format!("k{number}"), "1"])).collect();
    let all = format!("{}{sets}{}", support::peer::SELECT, request(&["REPLCONF", "GETACK", "*"]));
    replica.expect(&all);
    replica.acknowledge(offset + all.len() as u64);
    for client in &mut waiting {
        assert_eq!(support::shown(&client.receive().unwrap()), "1");
    }
    sleeping.text(&["SET", "after", "1"]);
    replica.expect(&request(&["SET", "after", "1"]));
}

#[test]
fn wait_includes_what_a_waiter_was_served() {
    let server = Server::start(DEBUG);
    let (mut replica, _, offset) = Peer::synchronised(&server);
    let [mut waiter, mut client] = [(); 2].map(|()| server.client());
    waiter.send(&["BLPOP", "l", "0"]);
    wait_for(|| (server.info(&mut client, "blocked_clients") == "1").then_some(()));
    client.text(&["RPUSH", "l", "1"]);
    assert_eq!(support::shown(&waiter.receive().unwrap()), "l\n1");
    assert_eq!(waiter.text(&["WAIT", "1", "50"]), "0");
    let end = field(&mut client, "master_repl_offset").parse::<u64>().unwrap();
    assert!(end > offset);
    replica.acknowledge(end);
    assert_eq!(waiter.text(&["WAIT", "1", "0"]), "1");
}

#[test]
fn wait_includes_the_writes_before_it_in_one_piece() {
    let server = Server::start(DEBUG);
    let (_replica, _, _) = Peer::synchronised(&server);
    let mut client = server.client();
    let write = request(&["SET", "k", "1"]);
    let script = request(&["EVAL", "return redis.call('set', KEYS[1], '1')", "1", "k"]);
    let counted = request(&["EVAL", "return redis.call('wait', 1, 0)", "0"]);
    for (write, wait, expected) in [
        (&write, &request(&["WAIT", "1", "50"]), "0"),
        (&script, &request(&["WAIT", "1", "50"]), "0"),
        (&write, &request(&["WAITAOF", "0", "1", "50"]), "0\n0"),
        (&write, &counted, "0"),
    ] {
        client.send_raw(format!("{write}{wait}").as_bytes());
        assert_eq!(support::shown(&client.receive().unwrap()), "OK");
        assert_eq!(support::shown(&client.receive().unwrap()), expected, "{wait}");
        client = server.client();
    }
}

#[test]
fn a_reader_that_waits_on_a_replica_sees_each_entry() {
    let (server, mut client, _played, mut link) = replica(&[]);
    let mut waiter = server.client();
    waiter.send(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
    wait_for(|| (server.info(&mut client, "blocked_clients") == "1").then_some(()));
    send_and_await(
        &mut link,
        100,
        &[&["SELECT", "0"], &["XADD", "s", "1-1", "f", "v"], &["XDEL", "s", "1-1"]],
    );
    assert_eq!(support::shown(&waiter.receive().unwrap()), "s\n1-1\nf\nv");
}

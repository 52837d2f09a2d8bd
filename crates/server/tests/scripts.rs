//! Scripts that run long, and scripts within transactions.

#![allow(clippy::unwrap_used)] // Whatever fails here fails the test.

mod support;

use support::{Client, Server, on_each_backend, shown, wait_for};

const ONE_WORKER: &[&str] = &["--io-threads", "1", "--save", "", "--busy-reply-threshold", "100"];

/// Accesses only the key that it declares, and does not end.
const ENDLESS: &str = "redis.call('GET', KEYS[1]) while true do end";

/// Waits until requests for the key are refused because a script holds it.
fn wait_until_busy(client: &mut Client, key: &str) {
    wait_for(|| Some(client.text(&["GET", key])).filter(|reply| reply.starts_with("BUSY")));
}

fn receive(client: &mut Client) -> String {
    shown(&client.receive().unwrap())
}

#[test]
fn a_long_script_in_a_transaction_is_killed_from_another_connection_of_its_worker() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut runner, mut other) = (server.client(), server.client());
        runner.text(&["MULTI"]);
        runner.text(&["SET", "before", "1"]);
        runner.text(&["EVAL", ENDLESS, "1", "k"]);
        runner.text(&["SET", "after", "1"]);
        runner.send(&["EXEC"]);
        wait_until_busy(&mut other, "k");
        // The transaction keeps all its latches, and no other ones.
        assert!(other.text(&["GET", "before"]).starts_with("BUSY"));
        assert!(other.text(&["GET", "after"]).starts_with("BUSY"));
        assert_eq!(other.text(&["SET", "other", "1"]), "OK");
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        let reply = receive(&mut runner);
        let parts: Vec<&str> = reply.lines().collect();
        assert_eq!((parts[0], parts.last()), ("OK", Some(&"OK")), "{reply}");
        assert!(parts[1].contains("Script killed by user"), "{reply}");
        assert_eq!(other.text(&["MGET", "before", "after"]), "1\n1");
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "NOTBUSY No scripts in execution right now.");
    });
}

#[test]
fn a_transaction_that_pauses_replies_as_one() {
    let options = &[ONE_WORKER, &["--appendonly", "yes", "--enable-debug-command", "yes"]].concat();
    on_each_backend(options, |server| {
        let (mut runner, mut other) = (server.client(), server.client());
        other.text(&["FLUSHALL"]);
        let count = "local n = 0 while n < 3000000 do n = n + 1 end return {n, redis.call('INCR', KEYS[1])}";
        for request in [&["MULTI"][..], &["INCR", "k"], &["EVAL", count, "1", "k"], &["INCR", "k"]] {
            runner.text(request);
        }
        runner.text(&["EVAL", count, "1", "k"]);
        runner.send(&["EXEC"]);
        runner.send(&["PING"]);
        assert_eq!(other.text(&["PING"]), "PONG");
        assert_eq!(receive(&mut runner), "1\n3000000\n2\n3\n3000000\n4");
        assert_eq!(receive(&mut runner), "PONG");
        assert_eq!(other.text(&["GET", "k"]), "4");
        let calls = server.info(&mut other, "cmdstat_eval");
        assert!(calls.starts_with("calls=2,"), "{calls}");
        assert!(server.info(&mut other, "cmdstat_exec").starts_with("calls=1,"));
        assert_eq!(other.text(&["DEBUG", "LOADAOF"]), "OK");
        assert_eq!(other.text(&["GET", "k"]), "4");
    });
}

#[test]
fn a_transaction_is_completed_when_its_client_is_gone() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut runner, mut other) = (server.client(), server.client());
        let id = runner.text(&["CLIENT", "ID"]);
        let script = "while not redis.call('GET', KEYS[1]) do redis.call('GET', KEYS[1]) end";
        for request in [&["MULTI"][..], &["SET", "before", "1"], &["EVAL", script, "1", "k"]] {
            runner.text(request);
        }
        runner.text(&["SET", "after", "1"]);
        runner.send(&["EXEC"]);
        wait_until_busy(&mut other, "k");
        assert_eq!(other.text(&["CLIENT", "KILL", "ID", &id]), "1");
        assert!(other.text(&["GET", "before"]).starts_with("BUSY"));
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        wait_for(|| Some(other.text(&["GET", "after"])).filter(|reply| reply == "1"));
        assert_eq!(other.text(&["GET", "before"]), "1");
    });
}

#[test]
fn a_read_only_script_in_a_transaction_reads_undeclared_keys() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    client.text(&["MSET", "a", "1", "b", "2"]);
    client.text(&["MULTI"]);
    client.text(&["EVAL_RO", "return #redis.call('KEYS', '*')", "0"]);
    client.text(&["EVAL_RO", "return redis.call('GET', 'b')", "1", "a"]);
    client.text(&["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"]);
    assert_eq!(client.text(&["EXEC"]), "2\n2\nNOSCRIPT No matching script.");
    assert_eq!(client.text(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"]), "1");
}

#[test]
fn a_request_that_waits_for_a_long_script_is_refused() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut runner, mut first, mut second) = (server.client(), server.client(), server.client());
        runner.send(&["EVAL", ENDLESS, "1", "k"]);
        wait_for(|| second.text(&["CLIENT", "LIST"]).contains("cmd=eval").then_some(()));
        // Both wait before the script is busy; the transaction holds the latch of `free` meanwhile.
        first.send(&["GET", "k"]);
        second.send_raw(b"MULTI\r\nSET free 1\r\nSET k 1\r\nEXEC\r\n");
        assert!(receive(&mut first).starts_with("BUSY"));
        assert_eq!(
            [receive(&mut second), receive(&mut second), receive(&mut second)],
            ["OK", "QUEUED", "QUEUED"]
        );
        let reply = receive(&mut second);
        assert!(reply.contains("BUSY"), "{reply}");
        assert_eq!(first.text(&["SET", "free", "2"]), "OK");
        assert_eq!(first.text(&["SCRIPT", "KILL"]), "OK");
        assert!(receive(&mut runner).contains("Script killed by user"));
        assert_eq!(second.text(&["SET", "k", "2"]), "OK");
    });
}

#[test]
fn requests_for_keys_that_a_script_reaches_late_are_refused() {
    let server = Server::start(&["--io-threads", "2", "--save", "", "--busy-reply-threshold", "100"]);
    let (mut runner, mut other) = (server.client(), server.client());
    let script = "for n = 1, 1000000 do end redis.call('GET', 'late' .. 1) while true do end";
    runner.send(&["EVAL", script, "0"]);
    wait_until_busy(&mut other, "late1");
    assert_eq!(other.text(&["GET", "else"]), "");
    assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
    assert!(receive(&mut runner).contains("Script killed by user"));
}

#[test]
fn functions_are_found_in_any_case() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    let library = "#!lua name=\"shapes\"\nredis.register_function('Area', function() return 3 end)";
    assert_eq!(client.text(&["FUNCTION", "LOAD", library]), "shapes");
    assert_eq!(client.text(&["FCALL", "AREA", "0"]), "3");
    assert_eq!(
        client.text(&["FCALL_RO", "area", "0"]),
        "ERR Can not execute a script with write flag using *_ro command."
    );
    let second = "#!lua name=other\nredis.register_function('AREA', function() return 4 end)";
    assert_eq!(client.text(&["FUNCTION", "LOAD", second]), "ERR Function AREA already exists");
    client.text(&["FUNCTION", "DELETE", "shapes"]);
    assert_eq!(client.text(&["FCALL", "Area", "0"]), "ERR Function not found");
}

#[test]
fn scripts_run_again_when_the_memory_limit_is_lifted() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    let write = ["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k"];
    client.text(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(client.text(&write).starts_with("OOM command not allowed"));
    client.text(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(client.text(&write), "OK");
}

#[test]
fn commands_of_scripts_are_logged_with_the_client_of_the_script() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    client.text(&["CLIENT", "SETNAME", "caller"]);
    client.text(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.text(&["EVAL", "return redis.call('ECHO', 'word')", "0"]);
    client.text(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    let log = client.text(&["SLOWLOG", "GET"]);
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("no {text} in {log}"));
    assert!(at("EVAL") < at("ECHO\nword"), "{log}");
    assert_eq!(log.matches("caller").count(), 3, "{log}");
}

#[test]
fn time_does_not_pass_while_a_script_runs() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    let script = "local first = redis.call('TIME') for n = 1, 1000000 do end local second = redis.call('TIME') \
                  return first[1] == second[1] and first[2] == second[2]";
    assert_eq!(client.text(&["EVAL", script, "0"]), "1");
}

#[test]
fn a_denial_in_a_script_keeps_the_name_of_the_client() {
    let server = Server::start(ONE_WORKER);
    let (mut client, mut admin) = (server.client(), server.client());
    admin.text(&["ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@read", "+eval", "+client"]);
    client.text(&["AUTH", "reader", "x"]);
    client.text(&["CLIENT", "SETNAME", "caller"]);
    assert!(
        client
            .text(&["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "k"])
            .contains("ACL failure in script")
    );
    let log = admin.text(&["ACL", "LOG"]);
    assert!(log.contains("\nlua\n") && log.contains("name=caller") && log.contains("cmd=eval"), "{log}");
}

#[test]
fn functions_are_in_the_requests_of_a_rewritten_append_only_file() {
    let options = [
        "--appendonly",
        "yes",
        "--aof-use-rdb-preamble",
        "no",
        "--enable-debug-command",
        "yes",
        "--save",
        "",
    ];
    let server = Server::start(&options);
    let mut client = server.client();
    client.text(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=one\nredis.register_function('one', function() return 1 end)",
    ]);
    client.text(&["SET", "k", "v"]);
    wait_for(|| Some(server.info(&mut client, "aof_rewrite_in_progress")).filter(|number| number == "0"));
    client.text(&["BGREWRITEAOF"]);
    wait_for(|| {
        let fields = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        Some(()).filter(|()| fields.iter().all(|field| server.info(&mut client, field) == "0"))
    });
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(client.text(&["FCALL", "one", "0"]), "1");
    assert_eq!(client.text(&["GET", "k"]), "v");
}

#[test]
fn a_script_is_in_the_cache_from_its_first_run_on() {
    const ONE: &str = "return 1";
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    let sha = client.text(&["SCRIPT", "LOAD", ONE]);
    client.text(&["SCRIPT", "FLUSH"]);
    let exists = |client: &mut Client| client.text(&["SCRIPT", "EXISTS", &sha]);
    for key_count in ["x", "-1", "2"] {
        assert!(client.text(&["EVAL", ONE, key_count, "k"]).starts_with("ERR"));
    }
    assert_eq!(exists(&mut client), "0");
    client.text(&["MULTI"]);
    client.text(&["EVAL", ONE, "0"]);
    client.text(&["DISCARD"]);
    assert_eq!(exists(&mut client), "0");
    client.text(&["MULTI"]);
    client.text(&["EVAL", ONE, "0"]);
    client.text(&["SCRIPT", "EXISTS", &sha]);
    assert_eq!(client.text(&["EXEC"]), "1\n1");
    client.text(&["SCRIPT", "FLUSH"]);
    assert_eq!(client.text(&["EVALSHA", &sha, "0"]), "NOSCRIPT No matching script.");
    assert_eq!(client.text(&["EVAL", ONE, "0"]), "1");
    assert_eq!(client.text(&["EVALSHA", &sha, "0"]), "1");
}

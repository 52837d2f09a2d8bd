//! Scripts that run long, and scripts within transactions.

use crate::support::{Client, Server, on_each_backend, shown, wait_for};

/// One worker, and a seed with which no two keys of a test are in one slot.
const ONE_WORKER: &[&str] =
    &["--io-threads", "1", "--save", "", "--busy-reply-threshold", "100", "--hash-seed", "distinct slots"];

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
    // The time goes on for a script that runs longer than the threshold.
    let server = Server::start(&["--io-threads", "1", "--busy-reply-threshold", "20000"]);
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

#[test]
fn many_scripts_that_pause_on_one_worker_are_not_refused() {
    let options = &["--io-threads", "1", "--busy-reply-threshold", "20000"];
    on_each_backend(options, |server| {
        let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
        let script =
            "redis.call('SET', KEYS[1], 1) for i = 1, 1000000 do end return redis.call('INCR', KEYS[1])";
        for (number, client) in clients.iter_mut().enumerate() {
            let key = format!("k{number}");
            if number % 2 == 0 {
                client.send(&["EVAL", script, "1", &key]);
            } else {
                for request in [&["MULTI"][..], &["EVAL", script, "1", &key], &["EXEC"]] {
                    client.send(request);
                }
            }
        }
        for (number, client) in clients.iter_mut().enumerate() {
            for _ in 0..2 * (number % 2) {
                receive(client);
            }
            assert_eq!(receive(client), "2");
        }
    });
}

#[test]
fn further_scripts_are_refused_when_all_that_are_paused_run_too_long() {
    on_each_backend(ONE_WORKER, |server| {
        let mut runners: Vec<Client> = (0..16).map(|_| server.client()).collect();
        let mut other = server.client();
        // One after the other: the first is the one that has run longest.
        for (number, runner) in runners.iter_mut().enumerate() {
            let key = format!("k{number}");
            runner.send(&["EVAL", ENDLESS, "1", &key]);
            wait_until_busy(&mut other, &key);
        }
        let reply = other.text(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "other"]);
        assert!(reply.starts_with("BUSY"), "{reply}");
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        assert!(receive(&mut runners[0]).contains("Script killed by user"));
        assert_eq!(other.text(&["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "other"]), "OK");
    });
}

#[test]
fn one_kill_ends_the_script_that_has_run_longest() {
    on_each_backend(ONE_WORKER, |server| {
        let mut other = server.client();
        let mut runners: Vec<Client> = (0..3).map(|_| server.client()).collect();
        for (number, runner) in runners.iter_mut().enumerate() {
            let key = format!("k{number}");
            runner.send(&["EVAL", ENDLESS, "1", &key]);
            wait_until_busy(&mut other, &key);
        }
        for (number, runner) in runners.iter_mut().enumerate() {
            assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
            assert!(receive(runner).contains("Script killed by user"));
            for later in number + 1..3 {
                assert!(other.text(&["GET", &format!("k{later}")]).starts_with("BUSY"), "{later}");
            }
        }
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "NOTBUSY No scripts in execution right now.");
    });
}

/// Permissions change while a script waits within a call for a key that another script holds.
#[test]
fn a_command_that_has_waited_for_a_key_has_the_permissions_of_now() {
    on_each_backend(&["--io-threads", "1", "--busy-reply-threshold", "20000"], |server| {
        let (mut admin, mut holder, mut waiter) = (server.client(), server.client(), server.client());
        assert_eq!(admin.text(&["ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~*"]), "OK");
        assert_eq!(waiter.text(&["AUTH", "alice", "x"]), "OK");
        holder.send(&["EVAL", &format!("redis.log(redis.LOG_WARNING, 'holds') {ENDLESS}"), "1", "key"]);
        server.log_line("holds");
        let write = "redis.log(redis.LOG_WARNING, 'waits') return redis.call('SET', ARGV[1], 1)";
        waiter.send(&["EVAL", write, "0", "key"]);
        server.log_line("waits");
        assert_eq!(admin.text(&["ACL", "SETUSER", "alice", "-set"]), "OK");
        assert_eq!(admin.text(&["SCRIPT", "KILL"]), "OK");
        assert!(receive(&mut holder).contains("Script killed by user"));
        let reply = receive(&mut waiter);
        assert!(reply.contains("ACL failure in script"), "{reply}");
        assert_eq!(admin.text(&["EXISTS", "key"]), "0");
    });
}

#[test]
fn a_read_only_script_that_met_a_busy_slot_takes_no_further_latches_later() {
    let options = &["--io-threads", "1", "--busy-reply-threshold", "20000"];
    on_each_backend(options, |server| {
        let (mut writer, mut reader, mut other) = (server.client(), server.client(), server.client());
        let get = |key: &'static str| ["EVAL_RO", "return redis.call('MGET', 'k1', ARGV[1])", "0", key];
        let script = "for i = 1, 5000000 do end return redis.call('INCR', KEYS[1])";
        writer.send(&["EVAL", script, "1", "k2"]);
        reader.send(&get("k2"));
        assert_eq!(receive(&mut writer), "1");
        assert_eq!(receive(&mut reader), "\n1");
        assert_eq!(server.info(&mut other, "scripts_run_again"), "1");
        assert_eq!(reader.text(&get("k3")), "\n");
        assert_eq!(server.info(&mut other, "scripts_with_all_latches"), "0");
    });
}

#[test]
fn all_latches_are_taken_as_long_as_a_script_needs_them() {
    on_each_backend(ONE_WORKER, |server| {
        let mut client = server.client();
        let script =
            "if ARGV[1] == 'all' then return #redis.call('KEYS', '*') end return redis.call('GET', 'k')";
        let mut counts = |argument: &str| {
            client.text(&["EVAL", script, "0", argument]);
            let of = |client: &mut Client, name| server.info(client, name);
            (of(&mut client, "scripts_run_again"), of(&mut client, "scripts_with_all_latches"))
        };
        let pair = |again: &str, all: &str| (again.to_owned(), all.to_owned());
        assert_eq!(counts("one"), pair("0", "0"));
        assert_eq!(counts("all"), pair("1", "1"));
        assert_eq!(counts("all"), pair("1", "2"));
        assert_eq!(counts("one"), pair("1", "3"));
        // Forgotten.
        assert_eq!(counts("one"), pair("1", "3"));
    });
}

#[test]
fn functions_whose_code_proves_their_keys_run_in_parallel() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut first, mut second) = (server.client(), server.client());
        let code = "#!lua name=lib\nredis.register_function('endless', function(keys) redis.call('GET', keys[1]) while true do end end) \
                    redis.register_function('get', function(keys) return redis.call('GET', keys[1]) end)";
        assert_eq!(second.text(&["FUNCTION", "LOAD", code]), "lib");
        second.text(&["SET", "b", "1"]);
        first.send(&["FCALL", "endless", "1", "a"]);
        wait_until_busy(&mut second, "a");
        assert_eq!(second.text(&["FCALL", "get", "1", "b"]), "1");
        assert!(second.text(&["FCALL", "get", "1", "a"]).starts_with("BUSY"));
        assert_eq!(second.text(&["FUNCTION", "KILL"]), "OK");
        assert!(receive(&mut first).contains("Script killed by user"));
        // So do those whose keys pass through other functions.
        let code = "#!lua name=helpers\nlocal function touch(key) return redis.call('GET', key) end \
                    local function spin(keys) touch(keys[1]) while true do end end \
                    redis.register_function('spin', function(keys) return spin(keys) end) \
                    redis.register_function('touch', function(keys) return touch(keys[1]) end) \
                    redis.register_function('other', function(keys, args) return redis.call('GET', args[1]) end)";
        assert_eq!(second.text(&["FUNCTION", "LOAD", code]), "helpers");
        first.send(&["FCALL", "spin", "1", "a"]);
        wait_until_busy(&mut second, "a");
        assert_eq!(second.text(&["FCALL", "touch", "1", "b"]), "1");
        assert_eq!(server.info(&mut second, "scripts_with_undeclared_keys"), "0");
        // One that may access other keys is latched with more care, and is caught when it does.
        assert_eq!(second.text(&["FCALL", "other", "1", "c", "b"]), "1");
        assert_eq!(server.info(&mut second, "scripts_with_undeclared_keys"), "1");
        assert!(second.text(&["FCALL", "other", "1", "c", "a"]).contains("BUSY"));
        assert_eq!(second.text(&["FUNCTION", "KILL"]), "OK");
        assert!(receive(&mut first).contains("Script killed by user"));
        // The present code of a function counts.
        let other = "#!lua name=lib\nredis.register_function('get', function(keys) return redis.call('GET', 'b') end)";
        assert_eq!(second.text(&["FUNCTION", "LOAD", "REPLACE", other]), "lib");
        assert_eq!(second.text(&["FCALL", "get", "1", "a"]), "1");
        assert_eq!(server.info(&mut second, "scripts_with_undeclared_keys"), "3");
    });
}

#[test]
fn changes_of_libraries_wait_for_no_command_on_keys() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut first, mut second) = (server.client(), server.client());
        let code = |name: &str, result: &str| {
            format!("#!lua name={name}\nredis.register_function('{name}', function(keys) {result} end)")
        };
        let endless = code("endless", "redis.call('GET', keys[1]) while true do end");
        assert_eq!(second.text(&["FUNCTION", "LOAD", &endless]), "endless");
        assert_ne!(server.info(&mut second, "used_memory_vm_functions"), "0");
        first.send(&["FCALL", "endless", "1", "a"]);
        wait_until_busy(&mut second, "a");
        assert_eq!(second.text(&["FUNCTION", "LOAD", &code("one", "return 1")]), "one");
        assert_eq!(second.text(&["FCALL", "one", "0"]), "1");
        second.text(&["SET", "b", "3"]);
        // The plan of a request that is refused is not that of the transaction after it.
        assert!(second.text(&["FCALL", "one", "1", "a"]).starts_with("BUSY"));
        assert_eq!(second.text(&["FUNCTION", "LOAD", "REPLACE", &code("one", "return 2")]), "one");
        // A transaction with a function holds the script token, and its keys.
        for request in [&["MULTI"][..], &["FCALL", "one", "1", "b"], &["GET", "b"]] {
            second.text(request);
        }
        assert_eq!(second.text(&["EXEC"]), "2\n3");
        assert_eq!(second.text(&["FCALL", "one", "0"]), "2");
        assert_eq!(second.text(&["FUNCTION", "DELETE", "one"]), "OK");
        assert_eq!(second.text(&["FUNCTION", "KILL"]), "OK");
        assert!(receive(&mut first).contains("Script killed by user"));
        assert_eq!(server.info(&mut second, "scripts_with_all_latches"), "0");
        // What a transaction loads may access any key.
        second.text(&["MULTI"]);
        second.text(&["FUNCTION", "LOAD", &code("other", "return redis.call('GET', 'b')")]);
        second.text(&["FCALL", "other", "0"]);
        assert_eq!(second.text(&["EXEC"]), "other\n3");
        assert_eq!(server.info(&mut second, "scripts_with_all_latches"), "1");
        // What is forgotten frees its memory, although no function runs any more.
        assert_ne!(server.info(&mut second, "used_memory_vm_functions"), "0");
        assert_eq!(second.text(&["FUNCTION", "FLUSH"]), "OK");
        wait_for(|| (server.info(&mut second, "used_memory_vm_functions") == "0").then_some(()));
    });
}

//! The server as a process: operations on it while it runs, on both I/O backends.

use std::time::{Duration, Instant};

use crate::support::{Client, Server, on_each_backend, shown, wait_for};

#[test]
fn values_unsupported_by_the_system_are_refused() {
    let server = Server::start(&[]);
    let mut admin = server.client();
    let mut refused = |name, value| admin.text(&["CONFIG", "SET", name, value]);
    assert!(refused("locale-collate", "xx_YY").ends_with("Invalid locale name"));
    assert_eq!(refused("locale-collate", "C"), "OK");
    assert!(refused("rdma-port", "1").ends_with("No RDMA building support."));
    assert!(refused("rdma-bind", "").ends_with("No RDMA building support."));
}

#[test]
fn clients_are_killed_paused_and_silenced() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut admin, mut other) = (server.client(), server.client());
        let id = other.text(&["CLIENT", "ID"]);
        assert_eq!(admin.text(&["CLIENT", "KILL", "ID", &id]), "1");
        assert!(other.receive().is_none());
        assert_eq!(admin.text(&["CLIENT", "KILL", "ID", &id]), "0");

        let mut writer = server.client();
        assert_eq!(admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
        writer.send(&["SET", "key", "value"]);
        wait_for(|| (server.info(&mut admin, "blocked_clients") == "1").then_some(()));
        assert_eq!(admin.text(&["GET", "key"]), "");
        assert_eq!(server.info(&mut admin, "paused_actions"), "write");
        let writer_id = field_of_blocked(&mut admin, "id");
        assert_eq!(admin.text(&["CLIENT", "UNBLOCK", &writer_id]), "0");
        assert_eq!(admin.text(&["CLIENT", "UNPAUSE"]), "OK");
        assert_eq!(shown(&writer.receive().unwrap()), "OK");
        assert_eq!(admin.text(&["GET", "key"]), "value");

        writer.send(&["CLIENT", "REPLY", "OFF"]);
        writer.send(&["PING"]);
        assert_eq!(writer.text(&["CLIENT", "REPLY", "ON"]), "OK");
        writer.send(&["CLIENT", "REPLY", "SKIP"]);
        writer.send(&["PING"]);
        assert_eq!(writer.text(&["ECHO", "heard"]), "heard");

        let own_id = admin.text(&["CLIENT", "ID"]);
        assert_eq!(admin.text(&["CLIENT", "KILL", "ID", &own_id, "SKIPME", "no"]), "1");
        assert!(admin.receive().is_none());
    });
}

#[test]
fn the_maxima_of_a_turn_last_until_they_are_reset() {
    let server = Server::start(&[]);
    let mut admin = server.client();
    let mut maxima = |commands: &[&[&str]]| {
        commands.iter().for_each(|command| drop(admin.text(command)));
        let text = admin.text(&["INFO", "debug"]);
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.expect("the field").parse::<u64>().expect("a number")
        };
        (field("eventloop_duration_max"), field("eventloop_cmd_per_cycle_max"))
    };
    let transaction = [&[&["MULTI"][..]][..], &[&["PING"][..]; 40], &[&["EXEC"]]].concat();
    let (duration, count) = maxima(&transaction);
    assert!(count >= 40, "{count}");
    let (later_duration, later_count) = maxima(&[&["PING"][..]; 10]);
    assert!(later_duration >= duration && later_count >= count);
    let (_, reset_count) = maxima(&[&["CONFIG", "RESETSTAT"], &["PING"]]);
    assert!(reset_count < 40, "{reset_count}");
}

/// A field of the blocked connection's line of `CLIENT LIST`.
fn field_of_blocked(admin: &mut Client, field: &str) -> String {
    let list = admin.text(&["CLIENT", "LIST", "FLAGS", "b"]);
    let value = list.split(' ').find_map(|part| part.strip_prefix(field)?.strip_prefix('='));
    value.expect("a blocked connection").to_owned()
}

#[test]
fn no_key_expires_while_writes_are_paused() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = server.client();
        client.send_raw(b"MULTI\r\nSET key value PX 1\r\nCLIENT PAUSE 100000 WRITE\r\nEXEC\r\n");
        (0..4).for_each(|_| assert!(client.receive().is_some()));
        wait_for(|| client.text(&["GET", "key"]).is_empty().then_some(()));
        assert_eq!(client.text(&["DBSIZE"]), "1");
        // The only key is expired.
        assert_eq!(client.text(&["RANDOMKEY"]), "key");
        assert_eq!(server.info(&mut client, "expired_keys"), "0");
        assert_eq!(client.text(&["CLIENT", "UNPAUSE"]), "OK");
        wait_for(|| (server.info(&mut client, "expired_keys") == "1").then_some(()));
    });
}

#[test]
fn pushes_of_a_command_follow_its_reply() {
    on_each_backend(&["--enable-debug-command", "yes"], |server| {
        let mut client = server.client();
        client.text(&["HELLO", "3"]);
        assert_eq!(client.text(&["DEBUG", "PROTOCOL", "push"]), "Some real reply following the push reply");
        assert!(matches!(client.receive(), Some(wire::response::Reply::Push(_))));
    });
}

#[test]
fn unauthenticated_clients_get_no_details() {
    on_each_backend(&["--requirepass", "secret"], |server| {
        let mut unauthenticated = server.client();
        for request in [&["NOPE"][..], &["GET"], &["GET", "key"], &["CLIENT", "NOPE"]] {
            assert_eq!(unauthenticated.text(request), "NOAUTH Authentication required.", "{request:?}");
        }
        assert_eq!(unauthenticated.text(&["AUTH"]), "ERR wrong number of arguments for 'auth' command");
        assert_eq!(unauthenticated.text(&["AUTH", "secret"]), "OK");
        assert!(unauthenticated.text(&["NOPE"]).starts_with("ERR unknown command"));
    });
}

#[test]
fn removing_the_password_authenticates_all_clients() {
    on_each_backend(&["--requirepass", "secret"], |server| {
        let (mut admin, mut unauthenticated) = (server.client(), server.client());
        assert_eq!(unauthenticated.text(&["GET", "key"]), "NOAUTH Authentication required.");
        assert_eq!(admin.text(&["AUTH", "secret"]), "OK");
        assert_eq!(admin.text(&["CONFIG", "SET", "requirepass", ""]), "OK");
        // Longer than an unauthenticated client may send.
        let value = "x".repeat(1 << 20);
        assert_eq!(unauthenticated.text(&["SET", "key", &value]), "OK");
        assert_eq!(unauthenticated.text(&["GET", "key"]), value);
    });
}

#[test]
fn debug_is_restricted_to_allowed_clients() {
    on_each_backend(&["--enable-debug-command", "local"], |server| {
        let mut client = server.client();
        client.text(&["SADD", "small", "a"]);
        (0..200).for_each(|member| drop(client.text(&["SADD", "large", &format!("m{member}")])));
        assert!(client.text(&["DEBUG", "HTSTATS-KEY", "large"]).contains("number of entries: 200\n"));
        assert!(
            client.text(&["DEBUG", "HTSTATS-KEY", "small"]).contains("not represented using an hash table")
        );
        assert_eq!(client.text(&["DEBUG", "HASHTABLE-CAN-ABORT-SHRINK", "1"]), "OK");
        assert_eq!(client.text(&["DEBUG", "REPLYBUFFER", "RESIZING", "0"]), "OK");
        let numbers: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
        let push: Vec<&str> =
            ["RPUSH", "list"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        assert_eq!(client.text(&push), "3000");
        assert_eq!(client.text(&["CONFIG", "SET", "list-compress-depth", "12"]), "OK");
        let shown = client.text(&["DEBUG", "OBJECT", "list"]);
        assert!(
            shown.contains("encoding:quicklist ") && shown.contains(" ql_listpack_max:-2 ql_compressed:1 "),
            "{shown}"
        );
        // A number with a line end, as in hiredis' tests.
        assert_eq!(client.text(&["DEBUG", "SLEEP", "0\r\n"]), "OK");
        let lengths = [("hello", 6), ("-128", 2), ("128", 3), ("-100000", 5), ("99999999999", 12)];
        for (value, length) in lengths {
            client.text(&["SET", "key", value]);
            let shown = client.text(&["DEBUG", "OBJECT", "key"]);
            assert!(shown.contains(&format!("serializedlength:{length} ")), "{shown}");
        }
    });
    on_each_backend(&[], |server| {
        let mut client = server.client();
        for request in
            [&["DEBUG", "HELP"][..], &["DEBUG", "NOPE"], &["DEBUG", "SLEEP"], &["DEBUG", "SLEEP", "0"]]
        {
            assert!(client.text(request).starts_with("ERR DEBUG command not allowed."), "{request:?}");
        }
        assert_eq!(client.text(&["DEBUG"]), "ERR wrong number of arguments for 'debug' command");
    });
}

#[test]
fn the_server_listens_on_each_available_address() {
    // Addresses with a minus may be missing.
    let options = ["--bind", "127.0.0.1 -::1 -192.0.2.1"];
    on_each_backend(&options, |server| {
        let mut addresses = vec!["127.0.0.1"];
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            addresses.push("::1");
        }
        for address in addresses {
            let mut client = Client::connect_to(address, server.port);
            let own = client.text(&["CLIENT", "INFO"]);
            let shown = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            assert!(own.contains(&format!(" laddr={shown}:{} ", server.port)), "{own}");
        }
    });
}

#[test]
fn a_waiting_client_is_unblocked() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut admin, mut waiting) = (server.client(), server.client());
        let id = waiting.text(&["CLIENT", "ID"]);
        waiting.send(&["WAIT", "1", "0"]);
        wait_for(|| (admin.text(&["CLIENT", "UNBLOCK", &id, "ERROR"]) == "1").then_some(()));
        assert!(shown(&waiting.receive().unwrap()).starts_with("UNBLOCKED"));
        assert_eq!(waiting.text(&["PING"]), "PONG");
    });
}

#[test]
fn a_monitor_sees_commands_but_no_secrets() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut monitor, mut client) = (server.client(), server.client());
        assert_eq!(monitor.text(&["MONITOR"]), "OK");
        // A second request is not answered.
        monitor.send(&["MONITOR"]);
        client.text(&["SET", "a\"b", "c\n"]);
        client.text(&["AUTH", "password"]);
        let set = shown(&monitor.receive().unwrap());
        assert!(set.ends_with(r#"] "SET" "a\"b" "c\n""#), "{set}");
        let auth = shown(&monitor.receive().unwrap());
        assert!(auth.ends_with(r#""AUTH" "(redacted)""#), "{auth}");
        drop(monitor);
        let mut other = server.client();
        wait_for(|| (other.text(&["CLIENT", "LIST", "FLAGS", "O"]).is_empty()).then_some(()));
    });
}

#[test]
fn clients_above_maxclients_get_an_error() {
    on_each_backend(&["--maxclients", "3"], |server| {
        let mut kept: Vec<Client> = (0..3).map(|_| server.client()).collect();
        for client in &mut kept {
            assert_eq!(client.text(&["PING"]), "PONG");
        }
        let mut extra = server.client();
        assert_eq!(shown(&extra.receive().unwrap()), "ERR max number of clients reached");
        assert!(extra.receive().is_none());
        assert_eq!(server.info(&mut kept[0], "rejected_connections"), "1");
        assert_eq!(kept[0].text(&["CONFIG", "SET", "maxclients", "4"]), "OK");
        assert_eq!(server.client().text(&["PING"]), "PONG");
    });
}

#[test]
fn http_connections_are_closed() {
    on_each_backend(&[], |server| {
        for line in ["POST / HTTP/1.1", "host: example.org"] {
            let mut client = server.client();
            client.send_raw(format!("{line}\r\nSET k v\r\n").as_bytes());
            assert!(client.receive().is_none());
        }
        assert_eq!(server.client().text(&["EXISTS", "k"]), "0");
        server.log_line("HTTP request");
    });
}

#[test]
fn idle_clients_are_closed_after_their_time() {
    on_each_backend(&["--timeout", "1"], |server| {
        let start = Instant::now();
        let mut idle = server.client();
        assert_eq!(idle.text(&["PING"]), "PONG");
        assert!(idle.receive().is_none());
        assert!(start.elapsed() >= Duration::from_millis(900));
    });
}

#[test]
fn a_slow_reader_is_closed_at_its_output_limit() {
    let options = ["--client-output-buffer-limit", "normal 4mb 0 0", "--io-threads", "1"];
    on_each_backend(&options, |server| {
        let (mut slow, mut other) = (server.client(), server.client());
        assert_eq!(other.text(&["SET", "large", &"x".repeat(1 << 20)]), "OK");
        // In one piece: the connection is closed before a hundredth request could be sent.
        slow.send_raw(&b"GET large\r\n".repeat(100));
        wait_for(|| {
            let closed = server.info(&mut other, "client_output_buffer_limit_disconnections");
            (closed == "1").then_some(())
        });
        assert_eq!(other.text(&["PING"]), "PONG");
        // Large replies in the turn that reaches the limit: it is counted once, too.
        assert_eq!(other.text(&["SET", "large", &"x".repeat(10 << 20)]), "OK");
        let mut slow = server.client();
        slow.send_raw(&b"GET large\r\n".repeat(4));
        let closed = wait_for(|| {
            let closed = server.info(&mut other, "client_output_buffer_limit_disconnections");
            (closed != "1").then_some(closed)
        });
        assert_eq!(closed, "2");
    });
}

#[test]
fn a_thousand_idle_connections_use_almost_no_cpu() {
    on_each_backend(&["--io-threads", "2", "--maxclients", "2000"], |server| {
        let mut clients: Vec<Client> = (0..1000).map(|_| server.client()).collect();
        let (first, rest) = clients.split_first_mut().unwrap();
        rest.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        let before = server.cpu_time();
        let start = Instant::now();
        // Nothing arrives in these three seconds, so the read times out.
        first.expect_no_data(Duration::from_secs(3));
        let used = server.cpu_time() - before;
        // 0.5 % of one core, and the resolution of the CPU time clock.
        let allowed = start.elapsed() / 200 + Duration::from_millis(20);
        assert!(used <= allowed, "{used:?} of {:?}", start.elapsed());
    });
}

#[test]
fn the_listening_port_changes_at_run_time() {
    on_each_backend(&["--io-threads", "2"], |mut server| {
        let mut admin = server.client();
        let other_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other_port.local_addr().unwrap().port().to_string();
        let refused = admin.text(&["CONFIG", "SET", "port", &taken]);
        assert!(refused.contains("Unable to listen on this port"), "{refused}");
        assert_eq!(server.client().text(&["PING"]), "PONG");
        drop(other_port);
        assert_eq!(admin.text(&["CONFIG", "SET", "port", &taken]), "OK");
        let old_port = std::mem::replace(&mut server.port, taken.parse().unwrap());
        assert_eq!(server.client().text(&["PING"]), "PONG");
        wait_for(|| std::net::TcpStream::connect(("127.0.0.1", old_port)).is_err().then_some(()));
        assert_eq!(admin.text(&["PING"]), "PONG");
    });
}

#[test]
fn sigterm_shuts_the_server_down() {
    on_each_backend(&["--io-threads", "2"], |mut server| {
        let mut client = server.client();
        assert_eq!(client.text(&["PING"]), "PONG");
        server.signal("TERM");
        assert!(client.receive().is_none());
        assert!(server.wait());
        server.log_line("bye bye");
    });
}

#[test]
fn fatal_signals_leave_a_crash_report() {
    for (signal, number) in [("SEGV", 11), ("ABRT", 6)] {
        let mut server = Server::start(&["--io-threads", "2", "--debug-context", "as it was"]);
        assert_eq!(server.client().text(&["ECHO", "x"]), "x");
        server.signal(signal);
        assert!(!server.wait());
        server.log_line(&format!("crashed by signal: {number}"));
        server.log_line("STACK TRACE DONE");
        server.log_line("worker.rs");
        server.log_line("as it was");
        server.log_line("used_memory");
        server.log_line("BUG REPORT END");
    }
    let mut server = Server::start(&["--enable-debug-command", "yes", "--io-threads", "2"]);
    server.client().send(&["DEBUG", "SEGFAULT"]);
    assert!(!server.wait());
    server.log_line("Accessing address: 0x8");
    server.log_line("provoke");
    server.log_line("broadloom-io-");
    server.log_line(": debug");
    server.log_line("BUG REPORT END");
}

#[test]
fn stacks_are_logged_on_request_without_stopping() {
    on_each_backend(&["--enable-debug-command", "yes", "--io-threads", "2"], |server| {
        let mut client = server.client();
        assert_eq!(client.text(&["PING"]), "PONG");
        server.signal("ALRM");
        server.log_line("Received SIGALRM");
        server.log_line("STACK TRACE DONE");
        assert_eq!(client.text(&["CONFIG", "SET", "watchdog-period", "200"]), "OK");
        assert_eq!(client.text(&["DEBUG", "SLEEP", "0.6"]), "OK");
        server.log_line("WATCHDOG TIMER EXPIRED");
        assert_eq!(client.text(&["PING"]), "PONG");
    });
}

#[test]
fn a_panic_leaves_a_crash_report() {
    let mut server = Server::start(&["--enable-debug-command", "yes", "--io-threads", "2"]);
    let mut client = server.client();
    client.send(&["DEBUG", "PANIC"]);
    assert!(client.receive().is_none());
    assert!(!server.wait());
    server.log_line("BUG REPORT START");
    server.log_line("debug");
    server.log_line("used_memory");
    server.log_line("BUG REPORT END");
}

#[test]
fn writes_are_refused_without_the_required_replicas() {
    on_each_backend(&["--io-threads", "2", "--min-replicas-to-write", "1"], |server| {
        let mut client = server.client();
        assert_eq!(client.text(&["SET", "key", "value"]), "NOREPLICAS Not enough good replicas to write.");
        assert_eq!(client.text(&["GET", "key"]), "");
        assert_eq!(server.info(&mut client, "min_slaves_good_slaves"), "0");
        assert_eq!(client.text(&["MULTI"]), "OK");
        assert!(client.text(&["SET", "key", "value"]).starts_with("NOREPLICAS"));
        assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
        assert_eq!(client.text(&["CONFIG", "SET", "min-replicas-max-lag", "0"]), "OK");
        assert_eq!(client.text(&["SET", "key", "value"]), "OK");
    });
}

#[test]
fn memory_is_within_its_limit_at_the_first_request() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        for key in ["a", "b", "c"] {
            admin.text(&["SET", key, &"x".repeat(100_000)]);
        }
        admin.text(&[
            "CONFIG",
            "SET",
            "maxmemory-policy",
            "allkeys-lru",
            "maxmemory-eviction-tenacity",
            "100",
        ]);
        admin.text(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(admin.text(&["DBSIZE"]), "0");
        assert_eq!(server.info(&mut admin, "evicted_keys"), "3");
    });
}

#[test]
fn reads_and_writes_are_counted_by_thread() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut client = server.client();
        client.text(&["CONFIG", "RESETSTAT"]);
        (0..10).for_each(|_| drop(client.text(&["SET", "key", "value"])));
        let line = server.info(&mut client, "io_thread_0");
        assert!(line.starts_with("clients=1,reads=11,writes=11,commands="), "{line}");
        assert_eq!(server.info(&mut client, "total_reads_processed"), "12");
    });
}

#[test]
fn durations_are_recorded_only_if_configured() {
    let server = Server::start(&["--io-threads", "2", "--latency-tracking", "no"]);
    let mut admin = server.client();
    admin.text(&["ECHO", "x"]);
    admin.text(&["CONFIG", "SET", "latency-tracking", "yes"]);
    admin.text(&["PING"]);
    let shown = admin.text(&["INFO", "latencystats"]);
    assert!(shown.contains("_usec_ping:") && !shown.contains("_usec_echo:"), "{shown}");
    assert!(admin.text(&["INFO", "commandstats"]).contains("cmdstat_echo:calls=1,"));
}

#[test]
fn slow_commands_of_a_pipeline_are_logged_one_by_one() {
    on_each_backend(&["--io-threads", "1", "--slowlog-log-slower-than", "0"], |server| {
        let mut client = server.client();
        client.text(&["SLOWLOG", "RESET"]);
        client.send_raw(&b"GET a\r\nSET a b\r\n".repeat(20));
        (0..40).for_each(|_| drop(client.receive()));
        // The first entry is that of the reset itself.
        assert_eq!(client.text(&["SLOWLOG", "LEN"]), "41");
    });
}

#[test]
fn memory_of_a_large_request_is_freed() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut client = server.client();
        let memory = |client: &mut Client| {
            let line = client.text(&["CLIENT", "INFO"]);
            let size = line.split(" tot-mem=").nth(1).unwrap();
            size.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let before = memory(&mut client);
        let words: Vec<String> = (0..50_000).map(|number| format!("member:{number}")).collect();
        let mut request = vec!["SADD", "s"];
        request.extend(words.iter().map(String::as_str));
        assert_eq!(client.text(&request), "50000");
        assert_eq!(memory(&mut client), before);
    });
}

#[test]
fn expired_keys_stay_during_an_import() {
    let options = ["--io-threads", "2", "--import-mode", "yes", "--hz", "500"];
    on_each_backend(&options, |server| {
        let (mut client, mut source) = (server.client(), server.client());
        assert_eq!(source.text(&["CLIENT", "IMPORT-SOURCE", "ON"]), "OK");
        assert_eq!(source.text(&["SET", "key", "value", "PX", "1"]), "OK");
        wait_for(|| client.text(&["GET", "key"]).is_empty().then_some(()));
        assert_eq!(source.text(&["GET", "key"]), "value");
        assert_eq!(client.text(&["DBSIZE"]), "1");
        assert_eq!(client.text(&["CONFIG", "SET", "import-mode", "no"]), "OK");
        wait_for(|| (client.text(&["DBSIZE"]) == "0").then_some(()));
    });
}

#[test]
fn unread_replies_are_bounded_and_late_readers_get_all() {
    let options = ["--io-threads", "1", "--min-string-size-avoid-copy-reply-threaded", "0"];
    on_each_backend(&options, |server| {
        let (mut greedy, mut other) = (server.client(), server.client());
        assert_eq!(other.text(&["SET", "large", &"x".repeat(1 << 20)]), "OK");
        // 700 MiB of replies, all requested before the first is read.
        greedy.send_raw("GET large\r\n".repeat(700).as_bytes());
        let used = |other: &mut Client| server.info(other, "used_memory").parse::<u64>().unwrap();
        wait_for(|| (used(&mut other) > 256 << 20).then_some(()));
        for _ in 0..50 {
            let now = used(&mut other);
            assert!(now < 400 << 20, "{now}");
        }
        for _ in 0..700 {
            assert_eq!(shown(&greedy.receive().unwrap()).len(), 1 << 20);
        }
        assert_eq!(greedy.text(&["PING"]), "PONG");
        greedy.send_raw("GET large\r\n".repeat(700).as_bytes());
        wait_for(|| (used(&mut other) > 256 << 20).then_some(()));
        drop(greedy);
        wait_for(|| (server.info(&mut other, "connected_clients") == "1").then_some(()));
        wait_for(|| (used(&mut other) < 32 << 20).then_some(()));
    });
}

#[test]
fn memory_of_deleted_values_returns_to_the_system() {
    const MIB: u64 = 1 << 20;
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--save", ""];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        let resident = |client: &mut Client| server.info(client, "used_memory_rss").parse::<u64>().unwrap();
        let before = resident(&mut client);
        for purges in [false, false, true] {
            assert_eq!(client.text(&["DEBUG", "POPULATE", "30000", "key", "2000"]), "OK");
            assert!(resident(&mut client) > before + 40 * MIB);
            assert_eq!(client.text(&["FLUSHALL", "SYNC"]), "OK");
            if purges {
                assert_eq!(client.text(&["MEMORY", "PURGE"]), "OK");
            }
            wait_for(|| (resident(&mut client) < before + 25 * MIB).then_some(()));
        }
    });
}

#[test]
fn idle_and_used_databases_and_workers_are_distinguished() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = server.client();
        assert!(!client.text(&["MEMORY", "STATS"]).contains("db.5"));
        client.text(&["SELECT", "5"]);
        assert!(client.text(&["MEMORY", "STATS"]).contains("db.5"), "a connection has selected it");
        client.text(&["CONFIG", "SET", "io-threads-always-active", "yes"]);
        assert_eq!(server.info(&mut client, "io_threads_active"), "1");
        client.text(&["CONFIG", "SET", "io-threads-always-active", "no"]);
        wait_for(|| (server.info(&mut client, "io_threads_active") == "0").then_some(()));
        client.text(&["CONFIG", "SET", "io-threads", "4"]);
        assert_ne!(server.info(&mut client, "used_active_time_io_thread_3"), "");
    });
}

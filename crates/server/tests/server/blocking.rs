//! Blocked clients of a running server with several threads: which are served, in which order, and the remaining data.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Client, Server, shown, wait_for};

fn server() -> Server {
    Server::start(&["--io-threads", "4"])
}

/// Waits until this many clients are blocked.
fn wait_until_blocked(server: &Server, admin: &mut Client, count: usize) {
    wait_for(|| (server.info(admin, "blocked_clients") == count.to_string()).then_some(()));
}

fn receive(client: &mut Client) -> String {
    shown(&client.receive().expect("the server stays"))
}

fn assert_no_blocked_clients(server: &Server, admin: &mut Client) {
    wait_for(|| {
        let left = ["blocked_clients", "clients_in_timeout_table", "total_blocking_keys"];
        left.iter().all(|field| server.info(admin, field) == "0").then_some(())
    });
}

#[test]
fn first_come_first_served() {
    let server = server();
    let mut admin = server.client();
    let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(&["BLPOP", "none", "queue", "0"]);
        wait_until_blocked(&server, &mut admin, index + 1);
    }
    assert_eq!(server.info(&mut admin, "total_blocking_keys"), "2");
    for number in 0..20 {
        admin.text(&["RPUSH", "queue", &number.to_string()]);
    }
    let several: Vec<String> = (20..40).map(|number| number.to_string()).collect();
    let mut push = vec!["RPUSH", "queue"];
    push.extend(several.iter().map(String::as_str));
    admin.text(&push);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(receive(client), format!("queue\n{number}"));
    }
    assert_no_blocked_clients(&server, &mut admin);
    assert_eq!(admin.text(&["EXISTS", "queue"]), "0");
}

#[test]
fn an_earlier_key_of_another_type_fails_the_wait() {
    let server = server();
    let (mut admin, mut client) = (server.client(), server.client());
    client.send(&["BLPOP", "set", "list", "0"]);
    wait_until_blocked(&server, &mut admin, 1);
    admin.text(&["SADD", "set", "member"]);
    admin.text(&["RPUSH", "list", "element"]);
    assert!(receive(&mut client).starts_with("WRONGTYPE"));
    assert_eq!(admin.text(&["LLEN", "list"]), "1");
    assert_no_blocked_clients(&server, &mut admin);
}

#[test]
fn elements_are_delivered_exactly_once() {
    const ELEMENTS: usize = 4000;
    let server = server();
    let consumers: Vec<_> = (0..16)
        .map(|number| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                loop {
                    let reply = match number % 4 {
                        0 => client.text(&["BLMOVE", "queue", "done", "RIGHT", "LEFT", "0"]),
                        1 => client.text(&["BLMPOP", "0", "2", "other", "queue", "RIGHT"]),
                        2 => client.text(&["BRPOP", "other", "queue", "0"]),
                        _ => client.text(&["BRPOP", "queue", "0"]),
                    };
                    let element = reply.lines().last().unwrap().to_owned();
                    if element == "end" {
                        return taken;
                    }
                    taken.push(element);
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..4)
        .map(|number| {
            let mut client = server.client();
            std::thread::spawn(move || {
                for element in (number..ELEMENTS).step_by(4) {
                    let key = if element % 7 == 0 { "other" } else { "queue" };
                    client.text(&["LPUSH", key, &format!("e{element}")]);
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    let mut admin = server.client();
    // The consumers of `queue` alone leave the elements of `other` to the rest.
    wait_for(|| (admin.text(&["EXISTS", "queue", "other"]) == "0").then_some(()));
    for _ in 0..consumers.len() {
        admin.text(&["LPUSH", "queue", "end"]);
    }
    let mut seen = HashSet::new();
    for consumer in consumers {
        for element in consumer.join().unwrap() {
            assert!(seen.insert(element.clone()), "{element} is delivered twice");
        }
    }
    assert_eq!(seen.len(), ELEMENTS);
    assert_no_blocked_clients(&server, &mut admin);
}

#[test]
fn waits_are_served_within_the_satisfying_write() {
    let server = server();
    let (mut waiter, mut admin) = (server.client(), server.client());
    let mut served = |request: &[&str], pipeline: &[u8], replies: &[&str], reply: &str| {
        waiter.send(request);
        wait_until_blocked(&server, &mut admin, 1);
        admin.send_raw(pipeline);
        for expected in replies {
            assert_eq!(receive(&mut admin), *expected, "{request:?}");
        }
        assert_eq!(receive(&mut waiter), reply, "{request:?}");
        admin.text(&["FLUSHALL"]);
    };
    let pop = &["BLPOP", "k", "0"];
    let got = "k\nx";
    served(pop, b"LPUSH k x\r\nLLEN k\r\n", &["1", "0"], got);
    served(
        pop,
        b"MULTI\r\nLPUSH k x\r\nLLEN k\r\nEXEC\r\nEXISTS k\r\n",
        &["OK", "QUEUED", "QUEUED", "1\n1", "0"],
        got,
    );
    served(
        pop,
        b"MULTI\r\nRPUSH k y\r\nDEL k\r\nRPUSH k x\r\nEXEC\r\n",
        &["OK", "QUEUED", "QUEUED", "QUEUED", "1\n1\n1"],
        got,
    );
    served(pop, b"RPUSH l x\r\nRENAME l k\r\nEXISTS k\r\n", &["1", "OK", "0"], got);
    served(pop, b"RPUSH l x\r\nCOPY l k\r\nEXISTS k l\r\n", &["1", "1", "1"], got);
    served(pop, b"SET k 1\r\nDEL k\r\nRPUSH k x\r\n", &["OK", "1", "1"], got);
    served(pop, b"SELECT 1\r\nRPUSH k x\r\nMOVE k 0\r\nSELECT 0\r\n", &["OK", "1", "1", "OK"], got);
    served(pop, b"SELECT 1\r\nRPUSH k x\r\nSWAPDB 0 1\r\nSELECT 0\r\n", &["OK", "1", "OK", "OK"], got);
    served(&["BLMOVE", "k", "m", "LEFT", "RIGHT", "0"], b"RPUSH k x\r\nLRANGE m 0 -1\r\n", &["1", "x"], "x");
    served(&["BZPOPMIN", "k", "0"], b"ZADD k 1 a 2 b\r\nZCARD k\r\n", &["2", "1"], "k\na\n1");
}

#[test]
fn moves_are_chained() {
    let server = server();
    let mut admin = server.client();
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let (from, to) = (format!("l{index}"), format!("l{}", index + 1));
        client.send(&["BRPOPLPUSH", &from, &to, "0"]);
    }
    wait_until_blocked(&server, &mut admin, 20);
    admin.send_raw(b"LPUSH l0 x\r\nLRANGE l20 0 -1\r\n");
    assert_eq!(receive(&mut admin), "1");
    assert_eq!(receive(&mut admin), "x");
    for client in &mut clients {
        assert_eq!(receive(client), "x");
    }
    assert_no_blocked_clients(&server, &mut admin);
}

#[test]
fn waits_end_by_timeout_command_and_disconnection() {
    let server = server();
    let mut admin = server.client();
    let mut waiter = server.client();
    let id = waiter.text(&["CLIENT", "ID"]);
    let started = Instant::now();
    assert_eq!(waiter.text(&["BLPOP", "k", "0.05"]), "");
    assert!(started.elapsed() >= Duration::from_millis(50));

    for (how, reply) in [("TIMEOUT", ""), ("ERROR", "UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        waiter.send(&["BLPOP", "k", "j", "100"]);
        wait_until_blocked(&server, &mut admin, 1);
        assert_eq!(server.info(&mut admin, "clients_in_timeout_table"), "1");
        assert!(admin.text(&["CLIENT", "LIST", "ID", &id]).contains(" flags=b "));
        assert_eq!(admin.text(&["CLIENT", "UNBLOCK", &id, how]), "1");
        assert_eq!(receive(&mut waiter), reply);
        assert_eq!(admin.text(&["CLIENT", "UNBLOCK", &id]), "0");
    }
    assert_no_blocked_clients(&server, &mut admin);

    waiter.send(&["BLPOP", "k", "0"]);
    wait_until_blocked(&server, &mut admin, 1);
    assert_eq!(admin.text(&["CLIENT", "KILL", "ID", &id]), "1");
    assert_eq!(admin.text(&["RPUSH", "k", "kept"]), "1");
    assert_eq!(admin.text(&["LPOP", "k"]), "kept");
    assert!(waiter.receive().is_none());

    let mut waiter = server.client();
    waiter.send(&["BLPOP", "k", "0"]);
    wait_until_blocked(&server, &mut admin, 1);
    drop(waiter);
    assert_no_blocked_clients(&server, &mut admin);
    assert_eq!(admin.text(&["RPUSH", "k", "kept"]), "1");
    assert_eq!(admin.text(&["LLEN", "k"]), "1");
}

/// The `INFO` line of a command, without its times.
fn calls_of(server: &Server, admin: &mut Client, command: &str) -> String {
    let figures = server.info(admin, &format!("cmdstat_{command}"));
    let counts: Vec<&str> = figures.split(',').filter(|figure| !figure.starts_with("usec")).collect();
    counts.join(",")
}

#[test]
fn blocked_commands_are_counted_and_logged_at_their_end() {
    let server = server();
    let (mut admin, mut waiter) = (server.client(), server.client());
    let id = waiter.text(&["CLIENT", "ID"]);
    admin.text(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let logged = |admin: &mut Client| admin.text(&["SLOWLOG", "GET", "-1"]).matches("BLPOP").count();
    let commands_of = |admin: &mut Client| {
        let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
        let count = line.split(" tot-cmds=").nth(1).unwrap();
        count.split_ascii_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    let before = commands_of(&mut admin);

    waiter.send(&["BLPOP", "k", "0"]);
    wait_until_blocked(&server, &mut admin, 1);
    assert!(!admin.text(&["INFO", "commandstats"]).contains("cmdstat_blpop"));
    assert_eq!((logged(&mut admin), commands_of(&mut admin)), (0, before));
    admin.text(&["RPUSH", "k", "x"]);
    assert_eq!(logged(&mut admin), 1);
    assert_eq!(calls_of(&server, &mut admin, "blpop"), "calls=1,rejected_calls=0,failed_calls=0");
    assert_eq!(receive(&mut waiter), "k\nx");
    wait_for(|| (commands_of(&mut admin) == before + 1).then_some(()));

    waiter.text(&["BLPOP", "k", "0.01"]);
    assert_eq!(logged(&mut admin), 2);
    assert_eq!(calls_of(&server, &mut admin, "blpop"), "calls=2,rejected_calls=0,failed_calls=0");

    for (count, rejected_count) in (3..40).zip(1..) {
        waiter.send(&["BLPOP", "k", "0"]);
        wait_until_blocked(&server, &mut admin, 1);
        admin.text(&["CLIENT", "UNBLOCK", &id, "ERROR"]);
        // Before the client has read its reply.
        let expected = format!("calls={count},rejected_calls={rejected_count},failed_calls=0");
        assert_eq!(calls_of(&server, &mut admin, "blpop"), expected);
        assert_eq!(server.info(&mut admin, "errorstat_UNBLOCKED"), format!("count={rejected_count}"));
        assert_eq!(receive(&mut waiter), "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    }

    admin.text(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"]);
    waiter.send(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]);
    wait_until_blocked(&server, &mut admin, 1);
    admin.text(&["XGROUP", "DESTROY", "s", "g"]);
    assert!(receive(&mut waiter).starts_with("NOGROUP"));
    assert_eq!(server.info(&mut admin, "errorstat_NOGROUP"), "count=1");
    assert_eq!(calls_of(&server, &mut admin, "xreadgroup"), "calls=1,rejected_calls=0,failed_calls=1");
    assert_eq!(server.info(&mut admin, "total_error_replies"), "38");
}

#[test]
fn a_key_that_expires_before_the_serve_serves_no_client() {
    let server = Server::start(&["--io-threads", "4", "--enable-debug-command", "yes"]);
    let (mut admin, mut waiter) = (server.client(), server.client());
    waiter.send(&["BLPOP", "k", "0"]);
    wait_until_blocked(&server, &mut admin, 1);
    admin.send_raw(b"MULTI\r\nRPUSH k x\r\nPEXPIRE k 20\r\nDEBUG SLEEP 0.05\r\nEXEC\r\n");
    for expected in ["OK", "QUEUED", "QUEUED", "QUEUED", "1\n1\nOK"] {
        assert_eq!(receive(&mut admin), expected);
    }
    wait_until_blocked(&server, &mut admin, 1);
    admin.text(&["RPUSH", "k", "y"]);
    assert_eq!(receive(&mut waiter), "k\ny");
}

#[test]
fn blocked_clients_move_to_other_threads() {
    let server = server();
    let mut admin = server.client();
    let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(&["BLPOP", "k", "1000"]);
    }
    wait_until_blocked(&server, &mut admin, 40);
    for count in [1, 4, 2] {
        admin.set_thread_count(count);
        for element in ["x", "y", "z"] {
            admin.text(&["RPUSH", "k", element]);
        }
    }
    wait_until_blocked(&server, &mut admin, 31);
    assert_eq!(admin.text(&["EXISTS", "k"]), "0");
    drop(clients);
    assert_no_blocked_clients(&server, &mut admin);
}

#[test]
fn a_thousand_blocked_clients_use_no_cpu() {
    const COUNT: usize = 1000;
    let server = Server::start(&["--io-threads", "4", "--maxclients", "2000"]);
    let mut admin = server.client();
    let used = |admin: &mut Client| server.info(admin, "used_memory").parse::<usize>().unwrap();
    let mut clients: Vec<Client> = (0..COUNT).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
    let before = used(&mut admin);
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(&["BLPOP", &format!("key:{index}"), "10000"]);
    }
    wait_until_blocked(&server, &mut admin, COUNT);
    assert_eq!(server.info(&mut admin, "total_blocking_keys"), COUNT.to_string());
    assert_eq!(server.info(&mut admin, "clients_in_timeout_table"), COUNT.to_string());
    let grown = used(&mut admin) - before;
    assert!((COUNT * 100..COUNT * 4000).contains(&grown), "a wait takes {} bytes", grown / COUNT);
    let (cpu_before, start) = (server.cpu_time(), Instant::now());
    // Nothing arrives, so the read times out.
    clients[0].expect_no_data(Duration::from_secs(2));
    let cpu = server.cpu_time() - cpu_before;
    assert!(cpu <= start.elapsed() / 200 + Duration::from_millis(20), "{cpu:?} of {:?}", start.elapsed());
    let pushes: String = (0..COUNT).rev().map(|index| format!("RPUSH key:{index} {index}\r\n")).collect();
    admin.send_raw(pushes.as_bytes());
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(receive(client), format!("key:{index}\n{index}"));
    }
    for _ in 0..COUNT {
        assert_eq!(receive(&mut admin), "1");
    }
    assert_no_blocked_clients(&server, &mut admin);
    assert_eq!(admin.text(&["DBSIZE"]), "0");
}

#[test]
fn ten_thousand_requests_wait_for_one_key() {
    let server = server();
    let mut admin = server.client();
    let mut clients: Vec<Client> = (0..300).map(|_| server.client()).collect();
    // Each client blocks again after a serve, so that 10,000 waits end.
    for client in &mut clients {
        client.send_raw("BLPOP k 0\r\n".repeat(40).as_bytes());
    }
    wait_until_blocked(&server, &mut admin, 300);
    for _ in 0..120 {
        admin.send_raw("RPUSH k x\r\n".repeat(100).as_bytes());
    }
    for client in &mut clients {
        for _ in 0..40 {
            assert_eq!(receive(client), "k\nx");
        }
    }
    for _ in 0..12_000 {
        receive(&mut admin);
    }
    assert_no_blocked_clients(&server, &mut admin);
    assert_eq!(admin.text(&["EXISTS", "k"]), "0");
}

/// Each push to a key whose waiter needs a latch that is not free defers a serve: there is one at a time.
#[test]
fn deferred_serves_of_one_key_do_not_pile_up() {
    const ENDLESS: &str = "redis.call('GET', KEYS[1]) while true do end";
    /// Among so many keys, one has its destination in a lower slot. Then its first serve waits without holding the key.
    const KEY_COUNT: usize = 20;
    const BATCH_SIZE: usize = 100;
    const BATCH_COUNT: usize = 50;
    // With this seed, no two of the keys are in one slot: a push would be refused while the script holds it.
    let seed = ["--hash-seed", "distinct slots"];
    let options = ["--io-threads", "2", "--busy-reply-threshold", "10", "--save", ""];
    let server = Server::start(&[&options[..], &seed].concat());
    let (mut admin, mut runner) = (server.client(), server.client());
    let mut waiters: Vec<Client> = (0..KEY_COUNT).map(|_| server.client()).collect();
    for (index, waiter) in waiters.iter_mut().enumerate() {
        let (from, to) = (format!("from:{index}"), format!("to:{index}"));
        waiter.send(&["BLMOVE", &from, &to, "LEFT", "LEFT", "0"]);
        wait_until_blocked(&server, &mut admin, index + 1);
    }
    let (count, keys) = (KEY_COUNT.to_string(), (0..KEY_COUNT).map(|index| format!("to:{index}")));
    let keys: Vec<String> = keys.collect();
    runner.send(
        &[&["EVAL", ENDLESS, &count], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(),
    );
    wait_for(|| Some(()).filter(|()| admin.text(&["GET", "to:0"]).starts_with("BUSY")));
    let used = |admin: &mut Client| server.info(admin, "used_memory").parse::<usize>().unwrap();
    let before = used(&mut admin);
    let counts: Arc<Vec<AtomicUsize>> = Arc::new((0..KEY_COUNT).map(|_| AtomicUsize::new(0)).collect());
    let pushers = (0..KEY_COUNT).map(|index| {
        let (mut client, counts) = (server.client(), Arc::clone(&counts));
        std::thread::spawn(move || {
            for _ in 0..BATCH_COUNT {
                (0..BATCH_SIZE).for_each(|_| client.send(&["RPUSH", &format!("from:{index}"), "x"]));
                (0..BATCH_SIZE).for_each(|_| drop(receive(&mut client)));
                counts[index].fetch_add(BATCH_SIZE, Ordering::SeqCst);
            }
        })
    });
    let pushers: Vec<_> = pushers.collect();
    let count = |index: usize| counts[index].load(Ordering::SeqCst);
    wait_for(|| (0..KEY_COUNT).any(|index| count(index) == BATCH_SIZE * BATCH_COUNT).then_some(()));
    let (grown, pushed) = (used(&mut admin).saturating_sub(before), (0..KEY_COUNT).map(count).sum::<usize>());
    assert!(grown < 1_000_000 + pushed * 16, "{grown} bytes for {pushed} elements of a byte");
    assert_eq!(admin.text(&["SCRIPT", "KILL"]), "OK");
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    waiters.iter_mut().for_each(|waiter| assert_eq!(receive(waiter), "x"));
    assert_no_blocked_clients(&server, &mut admin);
}

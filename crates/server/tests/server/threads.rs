//! The number of threads, and how they share the CPUs, on both I/O backends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{self, Server, on_each_backend, shown, wait_for};

#[test]
fn changing_the_thread_count_drops_no_connection() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let (stop, mut client) = (Arc::clone(&stop), server.client());
                std::thread::spawn(move || {
                    let key = format!("counter:{worker}");
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        count += 1;
                        assert_eq!(client.text(&["INCR", &key]), count.to_string());
                    }
                    count
                })
            })
            .collect();
        let mut admin = server.client();
        for count in [4, 2, 3, 1, 4, 1] {
            admin.set_thread_count(count);
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            assert!(worker.join().unwrap() > 0);
        }
    });
}

#[test]
fn surplus_threads_use_batch_scheduling() {
    const NORMAL: i64 = 0;
    const BATCH: i64 = 3;
    on_each_backend(&["--io-threads", "2", "--server-cpulist", "0"], |server| {
        let mut admin = server.client();
        for policies in [&[BATCH, BATCH] as &[i64], &[NORMAL], &[BATCH, BATCH, BATCH]] {
            admin.set_thread_count(policies.len());
            wait_for(|| (server.scheduling_policies() == policies).then_some(()));
        }
        server.log_line("3 threads share the time of 1 CPU(s)");
    });
}

#[test]
fn threads_that_outlive_a_full_synchronisation_have_the_ordinary_priority() {
    const NICE: usize = 19;
    let primary = Server::start(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
    // So many that decoders need further memory, which the thread `pages` prepares.
    primary.client().text(&["DEBUG", "POPULATE", "200000", "key", "100"]);
    let replica = Server::start(&[]);
    let mut client = replica.client();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]), "OK");
    support::wait_for_replication_field(&mut client, "master_link_status", "up");
    let all = replica.thread_fields(NICE);
    assert!(all.iter().any(|(name, _)| name == "pages"), "{all:?}");
    let ordinary = all[0].1;
    assert!(all.iter().all(|(_, nice)| *nice == ordinary), "{all:?}");
}

#[test]
fn automatic_thread_count_ignores_thread_affinity() {
    let count = std::thread::available_parallelism().unwrap().get();
    let server = Server::start(&["--io-threads", "1", "--server-thread-affinity", "yes"]);
    let mut admin = server.client();
    assert_eq!(admin.text(&["CONFIG", "SET", "io-threads", "0"]), "OK");
    wait_for(|| (server.scheduling_policies().len() == count).then_some(()));
}

/// The limit of open files of a running process.
fn limit_descriptors(server: &Server, most: usize) {
    let status = std::process::Command::new("prlimit")
        .args([format!("--pid={}", server.id()), format!("--nofile={most}:{most}")])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn threads_without_descriptors_are_refused_and_change_nothing() {
    on_each_backend(&["--io-threads", "2", "--maxclients", "200"], |server| {
        let mut admin = server.client();
        let mut clients: Vec<_> = (0..95).map(|_| server.client()).collect();
        limit_descriptors(&server, 128);
        let serves = |clients: &mut Vec<support::Client>, admin: &mut support::Client| {
            clients.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
            assert_eq!(admin.text(&["CONFIG", "GET", "io-threads"]), "io-threads\n2");
            wait_for(|| (server.scheduling_policies().len() == 2).then_some(()));
        };
        // The descriptors do not suffice with the configured `maxclients`.
        let refusal = admin.text(&["CONFIG", "SET", "io-threads", "16"]);
        assert!(refusal.contains("open files more than the operating system allows"), "{refusal}");
        serves(&mut clients, &mut admin);
        // They suffice for the lower `maxclients`, but more clients are connected: some threads get no event loop.
        let refusal = admin.text(&["CONFIG", "SET", "maxclients", "40", "io-threads", "16"]);
        assert!(refusal.starts_with("ERR CONFIG SET failed"), "{refusal}");
        serves(&mut clients, &mut admin);
        clients.clear();
        wait_for(|| {
            (admin.text(&["CONFIG", "SET", "maxclients", "40", "io-threads", "16"]) == "OK").then_some(())
        });
    });
}

#[test]
fn connections_gather_on_one_thread_until_it_has_too_much_work() {
    // A busy machine grants the thread little time.
    let few = ["--io-threads-grow-percent", "10"];
    let options = [&["--io-threads", "2", "--io-threads-always-active", "no"], &few[..]].concat();
    on_each_backend(&options, |server| {
        let mut admin = server.client();
        let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        assert_eq!(client_counts(&server, &mut admin), ["clients=5", "clients=0"]);
        assert_eq!(server.info(&mut admin, "io_threads_active_count"), "1");
        let stop = Arc::new(AtomicBool::new(false));
        let floods = clients.into_iter().map(|mut client| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                client.text(&["SETRANGE", "bits", "10000", "x"]);
                let requests = b"*2\r\n$8\r\nBITCOUNT\r\n$4\r\nbits\r\n".repeat(100);
                while !stop.load(Ordering::Relaxed) {
                    client.send_raw(&requests);
                    (0..100).for_each(|_| drop(client.receive().unwrap()));
                }
                client
            })
        });
        let floods: Vec<_> = floods.collect();
        wait_for(|| (server.info(&mut admin, "io_threads_active_count") == "2").then_some(()));
        wait_for(|| (client_counts(&server, &mut admin)[1] != "clients=0").then_some(()));
        stop.store(true, Ordering::Relaxed);
        let mut clients: Vec<_> = floods.into_iter().map(|flood| flood.join().unwrap()).collect();
        wait_for(|| (server.info(&mut admin, "io_threads_active_count") == "1").then_some(()));
        // A connection leaves the dormant thread after its next request.
        clients.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        wait_for(|| (client_counts(&server, &mut admin) == ["clients=5", "clients=0"]).then_some(()));
    });
}

#[test]
fn a_client_with_a_long_command_leaves_the_others() {
    let options = ["--io-threads", "2", "--io-threads-always-active", "no", "--enable-debug-command", "yes"];
    on_each_backend(&options, |server| {
        let (mut admin, mut slow) = (server.client(), server.client());
        wait_for(|| {
            assert_eq!(slow.text(&["DEBUG", "SLEEP", "0.005"]), "OK");
            (client_counts(&server, &mut admin) == ["clients=1", "clients=1"]).then_some(())
        });
        assert_eq!(server.info(&mut admin, "io_threads_active_count"), "2");
    });
}

#[test]
fn a_client_leaves_the_others_before_a_command_on_all_keys() {
    let options = ["--io-threads", "2", "--io-threads-always-active", "no", "--enable-debug-command", "yes"];
    on_each_backend(&options, |server| {
        let (mut admin, mut slow) = (server.client(), server.client());
        assert_eq!(slow.text(&["KEYS", "nothing"]), "");
        assert_eq!(client_counts(&server, &mut admin), ["clients=2", "clients=0"], "there are few keys");
        assert_eq!(admin.text(&["DEBUG", "POPULATE", "20000"]), "OK");
        wait_for(|| {
            // That may have been a long command itself.
            assert_eq!(admin.text(&["CONFIG", "SET", "io-threads", "1"]), "OK");
            assert_eq!(admin.text(&["CONFIG", "SET", "io-threads", "2"]), "OK");
            (client_counts(&server, &mut admin) == ["clients=2", "clients=0"]).then_some(())
        });
        slow.send_raw(b"*2\r\n$4\r\nKEYS\r\n$7\r\nnothing\r\n*1\r\n$4\r\nPING\r\n");
        assert!(slow.receive().is_some());
        assert_eq!(slow.receive().unwrap().text().unwrap(), b"PONG");
        assert_eq!(client_counts(&server, &mut admin), ["clients=1", "clients=1"]);
    });
}

#[test]
fn the_least_number_of_serving_threads_is_configured() {
    on_each_backend(&["--io-threads", "3", "--io-threads-always-active", "no"], |server| {
        let mut admin = server.client();
        for (directive, value, expected) in [
            ("io-threads-min", "2", "2"),
            ("io-threads-always-active", "yes", "3"),
            ("io-threads-always-active", "no", "2"),
            ("io-threads-min", "64", "3"),
            ("io-threads-min", "1", "1"),
        ] {
            assert_eq!(admin.text(&["CONFIG", "SET", directive, value]), "OK");
            assert_eq!(server.info(&mut admin, "io_threads_active_count"), expected, "{directive} {value}");
        }
        let refusal = admin.text(&["CONFIG", "SET", "io-threads-min", "0"]);
        assert!(refusal.contains("argument must be between 1 and"), "{refusal}");
    });
}

/// The number of clients of each of two threads.
fn client_counts(server: &Server, admin: &mut support::Client) -> Vec<String> {
    let count = |line: String| line.split(',').next().unwrap().to_owned();
    ["io_thread_0", "io_thread_1"].map(|field| count(server.info(admin, field))).to_vec()
}

#[test]
fn two_busy_connections_get_a_thread_each() {
    on_each_backend(&["--io-threads", "2", "--save", ""], |server| {
        let mut clients = server.six_clients();
        clients.truncate(3);
        let (first, mut admin, second) = (clients.remove(0), clients.remove(0), clients.remove(0));
        wait_for(|| (client_counts(&server, &mut admin) == ["clients=2", "clients=1"]).then_some(()));
        let stop = Arc::new(AtomicBool::new(false));
        let floods = [first, second].map(|mut client| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                client.text(&["SETRANGE", "bits", "100000", "x"]);
                let requests = b"*2\r\n$8\r\nBITCOUNT\r\n$4\r\nbits\r\n".repeat(100);
                while !stop.load(Ordering::Relaxed) {
                    client.send_raw(&requests);
                    (0..100).for_each(|_| drop(client.receive().unwrap()));
                }
            })
        });
        wait_for(|| (client_counts(&server, &mut admin) == ["clients=1", "clients=2"]).then_some(()));
        stop.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().unwrap());
    });
}

#[test]
fn many_subscriptions_move_when_their_thread_ends_and_not_before() {
    on_each_backend(&["--io-threads", "2", "--io-threads-always-active", "yes"], |server| {
        let mut admin = server.client();
        let names: Vec<String> = (0..10_001).map(|number| format!("channel:{number}")).collect();
        let request: Vec<&str> = ["SUBSCRIBE"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut subscribers: Vec<_> = (0..3).map(|_| server.client()).collect();
        for subscriber in &mut subscribers {
            subscriber.send(&request);
            names.iter().for_each(|_| drop(subscriber.receive().unwrap()));
        }
        let counts = client_counts(&server, &mut admin);
        assert!(counts.iter().all(|count| count != "clients=0"), "{counts:?}");
        // The threads need no second one, but the subscriptions stay.
        admin.text(&["CONFIG", "SET", "io-threads-always-active", "no"]);
        wait_for(|| (server.info(&mut admin, "io_threads_active_count") == "1").then_some(()));
        assert_eq!(admin.text(&["PUBLISH", "channel:0", "one"]), "3");
        subscribers.iter_mut().for_each(|subscriber| drop(subscriber.receive().unwrap()));
        assert_ne!(client_counts(&server, &mut admin)[1], "clients=0");
        admin.set_thread_count(1);
        assert_eq!(admin.text(&["PUBLISH", "channel:10000", "two"]), "3");
        for subscriber in &mut subscribers {
            assert!(shown(&subscriber.receive().unwrap()).contains("two"));
        }
    });
}

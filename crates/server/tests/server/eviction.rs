//! A full cache: how much memory is used, which requests are rejected, and which keys are evicted.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Client, Server, on_each_backend, shown, wait_for};

/// The next reply.
fn next(client: &mut Client) -> String {
    shown(&client.receive().expect("a reply"))
}

fn number(server: &Server, client: &mut Client, field: &str) -> u64 {
    server.info(client, field).parse().unwrap()
}

/// `SET` requests for keys from `start` on, as one piece of input.
fn sets(start: usize, count: usize, value: &str) -> Vec<u8> {
    let mut input = Vec::new();
    for number in start..start + count {
        input.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:{number:08}\r\n").as_bytes());
        input.extend_from_slice(format!("${}\r\n{value}\r\n", value.len()).as_bytes());
    }
    input
}

#[test]
fn memory_stays_within_its_limit_under_parallel_writes() {
    const THREAD_COUNT: usize = 4;
    const BATCH_LEN: usize = 32;
    const BATCH_COUNT: usize = 150;
    for (policy, value_size) in
        [("allkeys-lru", 200), ("allkeys-random", 1000), ("allkeys-lfu", 10_000), ("allkeys-lrm", 500)]
    {
        let count = THREAD_COUNT.to_string();
        let server = Server::start(&["--io-threads", &count, "--maxmemory-policy", policy]);
        let mut admin = server.client();
        let limit: u64 = 12 << 20;
        admin.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        let is_done = AtomicBool::new(false);
        let value = "x".repeat(value_size);
        let batch_size = sets(0, BATCH_LEN, &value).len() as u64;
        // For each thread: its grant, its batch as input and as entries, and buffers of the same size again.
        let bound = THREAD_COUNT as u64 * ((64 << 10) + 4 * batch_size);
        let most = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..THREAD_COUNT)
                .map(|writer| {
                    let (server, value) = (&server, &value);
                    scope.spawn(move || {
                        let mut client = server.client();
                        for batch in 0..BATCH_COUNT * 2000 / value_size.max(400) {
                            let start = (writer << 20) + batch * BATCH_LEN;
                            client.send_raw(&sets(start, BATCH_LEN, value));
                            (0..BATCH_LEN).for_each(|_| assert_eq!(next(&mut client), "OK"));
                        }
                    })
                })
                .collect();
            let (server, is_done) = (&server, &is_done);
            let watcher = scope.spawn(move || {
                let (mut admin, mut most) = (server.client(), 0);
                while !is_done.load(Ordering::Relaxed) {
                    most = number(server, &mut admin, "used_memory").max(most);
                }
                most
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        });
        assert!(most <= limit + bound, "{policy}: {most} of {limit}, {} too many", most - limit - bound);
        let evicted = number(&server, &mut admin, "evicted_keys");
        assert!(evicted > 0, "{policy}: at most {most} of {limit}, {}", admin.text(&["DBSIZE"]));
        // Not much less than the limit, either.
        let used = number(&server, &mut admin, "used_memory");
        assert!(used + (1 << 20) > limit, "{policy}: {used} of {limit}");
    }
}

#[test]
fn input_about_to_be_executed_evicts_no_keys() {
    const BATCH_LEN: usize = 48;
    on_each_backend(&["--io-threads", "1", "--maxmemory-policy", "allkeys-lru"], |server| {
        let mut admin = server.client();
        let limit = number(&server, &mut admin, "used_memory") + (6 << 20);
        admin.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        let value = "x".repeat(10_000);
        let mut writer = server.client();
        for batch in 0..40 {
            writer.send_raw(&sets(batch * BATCH_LEN, BATCH_LEN, &value));
            (0..BATCH_LEN).for_each(|_| assert_eq!(next(&mut writer), "OK"));
        }
        assert!(number(&server, &mut admin, "evicted_keys") > 0);
        drop(writer);
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 1).then_some(()));
        // The reserve and the room for some requests, but not the buffer for a batch.
        let used = number(&server, &mut admin, "used_memory");
        assert!(used + (160 << 10) > limit, "{used} of {limit}");
    });
}

#[test]
fn noeviction_refuses_writes_but_not_reads_or_deletions() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut client = server.client();
        for name in ["a", "b", "c"] {
            assert_eq!(client.text(&["SET", name, &"x".repeat(50_000)]), "OK");
        }
        let used = number(&server, &mut client, "used_memory");
        client.text(&["CONFIG", "SET", "maxmemory", &(used - 20_000).to_string()]);
        client.send_raw(
            b"EXISTS a\r\nSET d 1\r\nSTRLEN b\r\nAPPEND a x\r\nDEL a b\r\nSET d 1\r\nEXISTS a b c d\r\n",
        );
        let refusal = "OOM command not allowed when used memory > 'maxmemory'.";
        for expected in ["1", refusal, "50000", refusal, "2", "OK", "2"] {
            assert_eq!(next(&mut client), expected);
        }
    });
}

#[test]
fn small_requests_for_large_values_are_refused_over_the_limit() {
    on_each_backend(&["--io-threads", "1", "--maxmemory", "32mb"], |server| {
        let mut client = server.client();
        let request = |number| format!("SETRANGE key:{number} 1000000 x\r\n");
        client.send_raw((0..100).map(request).collect::<String>().as_bytes());
        let replies: Vec<_> = (0..100).map(|_| next(&mut client)).collect();
        let count = replies.iter().filter(|reply| *reply == "1000001").count();
        assert!((5..34).contains(&count), "{count} of them had room");
        assert!(replies[count..].iter().all(|reply| reply.starts_with("OOM")), "{replies:?}");
    });
}

#[test]
fn volatile_policies_evict_only_volatile_keys() {
    for policy in ["volatile-lru", "volatile-lrm", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let server = Server::start(&["--io-threads", "2", "--maxmemory-policy", policy]);
        let mut client = server.client();
        let value = "x".repeat(1000);
        for db in ["0", "7"] {
            client.text(&["SELECT", db]);
            for number in 0..100 {
                client.text(&["SET", &format!("lasting:{number}"), &value]);
                client.text(&["SET", &format!("volatile:{number}"), &value, "EX", "1000"]);
            }
        }
        let used = number(&server, &mut client, "used_memory");
        client.text(&["CONFIG", "SET", "maxmemory-eviction-tenacity", "100"]);
        client.text(&["CONFIG", "SET", "maxmemory", &(used - 150_000).to_string()]);
        let size: u64 = client.text(&["DBSIZE"]).parse().unwrap();
        assert!((100..200).contains(&size), "{policy}: {size} keys are left");
        client.text(&["CONFIG", "SET", "maxmemory", "1"]);
        for db in ["7", "0"] {
            client.text(&["SELECT", db]);
            assert_eq!(client.text(&["DBSIZE"]), "100", "{policy}");
            assert_eq!(client.text(&["EXISTS", "lasting:0", "lasting:99"]), "2");
        }
        assert!(client.text(&["SET", "more", "1"]).starts_with("OOM"));
        assert_eq!(server.info(&mut client, "evicted_keys"), "200");
    }
}

#[test]
fn large_collections_are_evicted_alone() {
    on_each_backend(&["--io-threads", "1", "--maxmemory-policy", "volatile-ttl"], |server| {
        let mut client = server.client();
        // At least as many as there are keys.
        client.text(&["CONFIG", "SET", "maxmemory-samples", "64"]);
        for number in 0..60_000 {
            client.send(&["SADD", "large", &format!("member:{number}")]);
        }
        (0..60_000).for_each(|_| assert_eq!(next(&mut client), "1"));
        client.text(&["EXPIRE", "large", "100"]);
        for number in 0..40 {
            client.text(&["SET", &format!("small:{number}"), &"x".repeat(500), "EX", "10000"]);
        }
        let used = number(&server, &mut client, "used_memory");
        client.text(&["CONFIG", "SET", "maxmemory", &(used - 400_000).to_string()]);
        client.text(&["SET", "another", "1"]);
        assert_eq!(client.text(&["EXISTS", "large"]), "0");
        // The set is larger than the requested memory, though it is freed later and on another thread.
        assert_eq!(server.info(&mut client, "evicted_keys"), "1");
    });
}

/// A list whose estimated size is seven times its real size: its first elements are large.
fn push_uneven_list(client: &mut Client, name: &str) {
    let (large, small) = ("x".repeat(50_000), "y".repeat(1_000));
    (0..8).for_each(|_| client.send(&["RPUSH", name, &large]));
    (0..400).for_each(|_| client.send(&["RPUSH", name, &small]));
    (1..=408).for_each(|len| assert_eq!(next(client), len.to_string()));
}

#[test]
fn eviction_meets_the_limit_under_every_policy() {
    const DB_COUNT: usize = 10;
    for order in ["lru", "lfu", "random", "ttl"] {
        for victims in ["allkeys", "volatile"] {
            if (order, victims) == ("ttl", "allkeys") {
                continue;
            }
            let policy = format!("{victims}-{order}");
            let server = Server::start(&["--io-threads", "1", "--maxmemory-policy", &policy]);
            let mut client = server.client();
            for (name, value) in [("maxmemory-eviction-tenacity", "100"), ("lazyfree-lazy-eviction", "no")] {
                assert_eq!(client.text(&["CONFIG", "SET", name, value]), "OK");
            }
            for db in 0..DB_COUNT {
                client.text(&["SELECT", &db.to_string()]);
                push_uneven_list(&mut client, "list");
                client.text(&["EXPIRE", "list", "1000"]);
                for number in 0..10 {
                    let name = format!("text:{number}");
                    client.text(&["SET", &name, &"z".repeat(10_000), "EX", "1000"]);
                }
            }
            let limit = number(&server, &mut client, "used_memory") - (4 << 20);
            // The evicting request is followed by the report of memory use in one batch.
            client.send_raw(format!("CONFIG SET maxmemory {limit}\r\nINFO memory\r\n").as_bytes());
            assert_eq!(next(&mut client), "OK");
            let info = next(&mut client);
            let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
            let used: u64 = used.trim_end().parse().unwrap();
            assert!(used <= limit + (64 << 10), "{policy}: {used} of {limit}");
            assert!(used + (3 << 20) > limit, "{policy}: {used} of {limit}");
        }
    }
}

#[test]
fn eviction_uses_its_time_limit_once_a_turn() {
    const PING_COUNT: usize = 300;
    let options = ["--io-threads", "1", "--maxmemory-policy", "allkeys-random"];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        let limit = number(&server, &mut client, "used_memory") + 500_000;
        client.send_raw(&sets(0, 20_000, &"x".repeat(100)));
        (0..20_000).for_each(|_| assert_eq!(next(&mut client), "OK"));
        // Each eviction ends with its first group of keys.
        assert_eq!(client.text(&["CONFIG", "SET", "maxmemory-eviction-tenacity", "0"]), "OK");
        let pings = "PING\r\n".repeat(PING_COUNT);
        client.send_raw(format!("CONFIG SET maxmemory {limit}\r\n{pings}INFO stats\r\n").as_bytes());
        (0..=PING_COUNT).for_each(|_| drop(next(&mut client)));
        let info = next(&mut client);
        let evicted = info.lines().find_map(|line| line.strip_prefix("evicted_keys:")).unwrap();
        let evicted: usize = evicted.trim_end().parse().unwrap();
        // The victims of a few turns, and not of each request.
        assert!((1..16 * PING_COUNT / 4).contains(&evicted), "{evicted} keys were evicted");
        // Requests that add data still evict for themselves.
        client.send_raw(&sets(100_000, 100, &"x".repeat(1000)));
        (0..100).for_each(|_| assert_eq!(next(&mut client), "OK"));
        wait_for(|| (number(&server, &mut client, "used_memory") <= limit).then_some(()));
    });
}

#[test]
fn buffers_of_the_append_only_file_neither_evict_nor_refuse() {
    // The log's buffer alone is larger than the limit.
    let server = Server::start(&["--maxmemory", "30mb", "--appendonly", "yes"]);
    assert_eq!(server.client().text(&["SET", "a", "1"]), "OK");
    drop(server);

    let server = Server::start(&["--io-threads", "2", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    client.send_raw(&sets(0, 5000, &"x".repeat(900)));
    (0..5000).for_each(|_| assert_eq!(next(&mut client), "OK"));
    assert_eq!(number(&server, &mut client, "mem_not_counted_for_evict"), 0);
    let limit = number(&server, &mut client, "used_memory") + (6 << 20);
    client.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    client.text(&["CONFIG", "SET", "appendonly", "yes"]);
    wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
    client.send_raw(&sets(5000, 1000, &"x".repeat(900)));
    (0..1000).for_each(|_| assert_eq!(next(&mut client), "OK"));
    assert_eq!(client.text(&["DBSIZE"]), "6000");
    assert_eq!(number(&server, &mut client, "evicted_keys"), 0);
    let buffer = number(&server, &mut client, "mem_aof_buffer");
    assert!(buffer >= 32 << 20 && number(&server, &mut client, "mem_not_counted_for_evict") >= buffer);
    assert!(number(&server, &mut client, "used_memory") > limit, "used memory has all of it");
}

#[test]
fn what_a_save_keeps_of_evicted_keys_evicts_no_others() {
    const COUNT: usize = 12;
    let server = Server::start(&["--io-threads", "1", "--maxmemory-policy", "allkeys-random"]);
    let mut client = server.client();
    client.send_raw(&sets(0, 1000, "x"));
    (0..1000).for_each(|_| assert_eq!(next(&mut client), "OK"));
    for number in 0..COUNT {
        let members = (0..5000).map(|member| format!("m{member:0100}")).collect::<Vec<_>>();
        let mut request = vec!["SADD".to_owned(), format!("set:{number}")];
        request.extend(members);
        assert_eq!(client.text(&request.iter().map(String::as_str).collect::<Vec<_>>()), "5000");
    }
    // The save does not reach its end meanwhile.
    client.text(&["CONFIG", "SET", "rdb-key-save-delay", "10000000"]);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    let limit = number(&server, &mut client, "used_memory") - (1 << 20);
    client.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    wait_for(|| (number(&server, &mut client, "evicted_keys") > 0).then_some(()));
    for number in 0..100 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), "x"]), "OK");
    }
    let sets = (0..COUNT).filter(|number| client.text(&["EXISTS", &format!("set:{number}")]) == "1");
    assert!(sets.count() > COUNT / 2, "{}", server.info(&mut client, "evicted_keys"));
    assert!(number(&server, &mut client, "mem_not_counted_for_evict") > 1 << 19, "contents of evicted sets");
    assert_eq!(client.text(&["BGSAVE", "CANCEL"]), "Background saving cancelled");
    wait_for(|| (number(&server, &mut client, "mem_not_counted_for_evict") == 0).then_some(()));
}

/// What a library keeps in its variables is limited by `lua-memory-limit`, and frees nothing when keys are evicted.
#[test]
fn interpreters_evict_no_keys() {
    let server = Server::start(&["--io-threads", "1", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    let limit = number(&server, &mut client, "used_memory") + (4 << 20);
    client.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    client.send_raw(&sets(0, 1000, "x"));
    (0..1000).for_each(|_| assert_eq!(next(&mut client), "OK"));
    let code = "#!lua name=large\nlocal kept = {} for number = 1, 200000 do kept[number] = 'text' .. number end \
                redis.register_function('size', function() return #kept end)";
    assert_eq!(client.text(&["FUNCTION", "LOAD", code]), "large");
    assert!(number(&server, &mut client, "used_memory") > limit);
    client.send_raw(&sets(1000, 1000, "x"));
    (0..1000).for_each(|_| assert_eq!(next(&mut client), "OK"));
    assert_eq!(client.text(&["FCALL", "size", "0"]), "200000");
    assert_eq!(client.text(&["DBSIZE"]), "2000");
    assert_eq!(server.info(&mut client, "evicted_keys"), "0");
}

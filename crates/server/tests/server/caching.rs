//! Client-side caching over several threads, on both I/O backends: no client keeps an outdated key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Client, Server, on_each_backend, shown, wait_for};
use wire::response::Reply;

/// A RESP3 connection with tracking.
fn tracker(server: &Server, options: &[&str]) -> Client {
    let mut client = server.client();
    client.text(&["HELLO", "3"]);
    let words: Vec<&str> = ["CLIENT", "TRACKING", "ON"].iter().chain(options).copied().collect();
    assert_eq!(client.text(&words), "OK");
    client
}

/// The next message: `!` and the keys of an invalidation, or a reply.
fn next(client: &mut Client) -> String {
    match client.receive().expect("the server stays") {
        Reply::Push(items) | Reply::Array(items) => {
            format!("!{}", items.last().map(shown).unwrap_or_default().replace('\n', " "))
        }
        other => shown(&other),
    }
}

#[test]
fn reads_after_invalidations_are_newer_and_none_is_missed() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut writer) = (Arc::clone(&stop), server.client());
        let writing = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                writer.text(&["INCR", "k"]);
            }
            writer.text(&["GET", "k"])
        });
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut client = tracker(&server, &[]);
                std::thread::spawn(move || {
                    let mut kept: u64 = 0;
                    for round in 0..200 {
                        client.send(&["GET", "k"]);
                        let value: u64 = next(&mut client).parse().unwrap_or(0);
                        assert!(round == 0 || value > kept, "{value} after {kept}");
                        kept = value;
                        // The writer continues: the value is outdated soon.
                        assert_eq!(next(&mut client), "!k");
                    }
                    client
                })
            })
            .collect();
        let mut admin = server.client();
        for count in ["1", "3", "2", "3"].iter().cycle().take(12) {
            assert_eq!(admin.text(&["CONFIG", "SET", "io-threads", count]), "OK");
        }
        let mut readers: Vec<Client> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        let last = writing.join().unwrap();
        for client in &mut readers {
            client.send(&["GET", "k"]);
            assert_eq!(next(client), last);
        }
        assert_eq!(server.info(&mut admin, "tracking_total_items"), "4");
        admin.text(&["SET", "k", "0"]);
        for client in &mut readers {
            assert_eq!(next(client), "!k");
        }
        assert_eq!(server.info(&mut admin, "tracking_total_keys"), "0");
    });
}

#[test]
fn own_changes_are_reported_after_the_reply() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = tracker(&server, &[]);
        for words in
            [&["GET", "k"][..], &["SET", "k", "1"], &["PING"], &["GET", "k"], &["FLUSHALL"], &["PING"]]
        {
            client.send(words);
        }
        for expected in ["", "OK", "!k", "PONG", "1", "OK", "!", "PONG"] {
            assert_eq!(next(&mut client), expected);
        }
    });
}

#[test]
fn a_flush_notifies_clients_tracking_at_that_moment() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = server.client();
        client.text(&["HELLO", "3"]);
        client.send_raw(b"FLUSHALL\r\nCLIENT TRACKING ON\r\nPING\r\n");
        client.send_raw(b"MULTI\r\nFLUSHALL\r\nCLIENT TRACKING OFF\r\nEXEC\r\nPING\r\n");
        client.send_raw(b"MULTI\r\nFLUSHALL\r\nCLIENT TRACKING ON\r\nEXEC\r\nPING\r\n");
        let transaction = ["OK", "QUEUED", "QUEUED", "!OK"];
        let expected = [&["OK", "OK", "PONG"][..], &transaction, &["!", "PONG"], &transaction, &["PONG"]];
        for expected in expected.concat() {
            assert_eq!(next(&mut client), expected);
        }
    });
}

#[test]
fn changes_by_serves_are_reported_after_the_reply() {
    on_each_backend(&["--io-threads", "4"], |server| {
        let mut admin = server.client();
        admin.text(&["RPUSH", "to", "a"]);
        let mut waiters: Vec<Client> = (0..8).map(|_| tracker(&server, &[])).collect();
        let mut quiet = tracker(&server, &["NOLOOP"]);
        for waiter in waiters.iter_mut().chain([&mut quiet]) {
            assert_eq!(waiter.text(&["LRANGE", "to", "0", "-1"]), "a");
            waiter.send(&["BLMOVE", "from", "to", "LEFT", "LEFT", "0"]);
            wait_for(|| (server.info(&mut admin, "blocked_clients") == "1").then_some(()));
            admin.text(&["RPUSH", "from", "foo"]);
            assert_eq!(shown(&waiter.receive().unwrap()), "foo");
            admin.text(&["LPOP", "to"]);
        }
        for waiter in &mut waiters {
            assert_eq!(next(waiter), "!to");
        }
        // The connection made the change itself.
        assert_eq!(quiet.text(&["PING"]), "PONG");
    });
}

#[test]
fn expiry_eviction_and_flushing_invalidate() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let (mut client, mut other) = (tracker(&server, &[]), server.client());
        other.text(&["SET", "short", "1", "PX", "50"]);
        client.send(&["GET", "short"]);
        assert!(["1", ""].contains(&next(&mut client).as_str()));
        assert_eq!(next(&mut client), "!short");
        client.text(&["GET", "k"]);
        other.text(&["FLUSHDB"]);
        assert_eq!(next(&mut client), "!");
        let value = "x".repeat(2_000_000);
        other.text(&["SET", "large", &value]);
        client.text(&["STRLEN", "large"]);
        other.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        other.text(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(next(&mut client), "!large");
        other.text(&["CONFIG", "SET", "maxmemory", "0"]);
    });
}

#[test]
fn broadcast_mode_groups_the_changes_of_a_turn() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let mut listeners: Vec<Client> =
            (0..5).map(|_| tracker(&server, &["BCAST", "PREFIX", "a", "PREFIX", "b"])).collect();
        let mut writer = server.client();
        writer.text(&["MSET", "a2", "1", "b1", "1", "c1", "1", "a1", "1"]);
        for client in &mut listeners {
            assert_eq!([next(client), next(client)], ["!a1 a2", "!b1"]);
        }
        assert_eq!(server.info(&mut writer, "tracking_total_prefixes"), "2");
        assert_eq!(server.info(&mut writer, "tracking_clients"), "5");
        drop(listeners);
        wait_for(|| (server.info(&mut writer, "tracking_total_prefixes") == "0").then_some(()));
        assert_eq!(writer.text(&["SET", "a1", "2"]), "OK");
    });
}

#[test]
fn redirection_and_its_end() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let (mut target, mut other) = (server.client(), server.client());
        let id = target.text(&["CLIENT", "ID"]);
        target.text(&["SUBSCRIBE", "__redis__:invalidate"]);
        let mut client = tracker(&server, &["REDIRECT", &id]);
        assert_eq!(client.text(&["CLIENT", "GETREDIR"]), id);
        client.text(&["GET", "k"]);
        other.text(&["SET", "k", "1"]);
        assert_eq!(next(&mut target), "!k");
        client.text(&["GET", "k"]);
        drop(target);
        let lines = |client: &mut Client| client.text(&["CLIENT", "LIST"]);
        wait_for(|| (!lines(&mut other).contains(&format!("id={id} "))).then_some(()));
        other.text(&["SET", "k", "2"]);
        assert_eq!(next(&mut client), format!("!{id}"));
        client.send(&["PING"]);
        assert_eq!(next(&mut client), "PONG");
        wait_for(|| lines(&mut other).contains("flags=tR ").then_some(()));
    });
}

#[test]
fn clients_are_removed_before_the_quit_reply() {
    on_each_backend(&["--io-threads", "4"], |server| {
        let mut writer = server.client();
        for _ in 0..50 {
            let mut target = server.client();
            let id = target.text(&["CLIENT", "ID"]);
            let mut reader = tracker(&server, &["REDIRECT", &id]);
            reader.text(&["GET", "k"]);
            assert_eq!(target.text(&["QUIT"]), "OK");
            writer.text(&["INCR", "k"]);
            assert_eq!(next(&mut reader), format!("!{id}"));
            assert_eq!(writer.text(&["CLIENT", "LIST", "ID", &id]), "");
        }
    });
}

#[test]
fn keys_above_the_tracking_limit_are_invalidated() {
    let options = ["--io-threads", "2", "--tracking-table-max-keys", "10"];
    on_each_backend(&options, |server| {
        let mut client = tracker(&server, &[]);
        let mut invalidated = 0;
        for index in 0..50 {
            client.send(&["GET", &format!("key:{index}")]);
            while next(&mut client).starts_with('!') {
                invalidated += 1;
            }
        }
        let mut admin = server.client();
        wait_for(|| (server.info(&mut admin, "tracking_total_keys") == "10").then_some(()));
        client.send(&["PING"]);
        while next(&mut client) != "PONG" {
            invalidated += 1;
        }
        assert_eq!(invalidated, 40);
        admin.text(&["FLUSHALL"]);
        assert_eq!(server.info(&mut admin, "tracking_total_items"), "0");
    });
}

#[test]
fn blocked_reads_are_tracked_when_served() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut reader, mut writer) = (tracker(&server, &[]), server.client());
        reader.send(&["XREAD", "BLOCK", "0", "STREAMS", "s", "0"]);
        wait_for(|| (server.info(&mut writer, "blocked_clients") == "1").then_some(()));
        writer.text(&["XADD", "s", "1-1", "f", "v"]);
        // The missing key was read, so its creation invalidates it before the reply.
        assert_eq!(next(&mut reader), "!s");
        assert!(matches!(reader.receive(), Some(Reply::Map(_))));
        writer.text(&["XADD", "s", "1-2", "f", "v"]);
        assert_eq!(next(&mut reader), "!s");
    });
}

#[test]
fn seeing_an_expired_key_causes_no_invalidation() {
    on_each_backend(&["--io-threads", "2", "--enable-debug-command", "yes"], |server| {
        let (mut reader, mut writer) = (tracker(&server, &[]), server.client());
        writer.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        writer.text(&["SET", "k", "v", "PX", "1"]);
        reader.expect_no_data(Duration::from_millis(5));
        assert_eq!(reader.text(&["EXISTS", "k"]), "0");
        assert_eq!(reader.text(&["PING"]), "PONG");
        writer.text(&["SET", "k", "new"]);
        assert_eq!(next(&mut reader), "!k");
    });
}

#[test]
fn tracking_begins_within_a_pipeline() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = tracker(&server, &[]);
        client.text(&["CLIENT", "TRACKING", "OFF"]);
        client.send_raw(b"CLIENT TRACKING ON BCAST\r\nSET k v\r\n");
        assert_eq!([next(&mut client), next(&mut client), next(&mut client)], ["OK", "OK", "!k"]);
    });
}

#[test]
fn invalidations_do_not_amplify_a_small_eviction() {
    on_each_backend(&["--io-threads", "1", "--maxmemory-policy", "allkeys-lru"], |server| {
        let mut admin = server.client();
        let mut caches: Vec<Client> = (0..10).map(|_| server.client()).collect();
        for cache in &mut caches {
            cache.text(&["HELLO", "3"]);
            assert_eq!(cache.text(&["CLIENT", "TRACKING", "ON"]), "OK");
        }
        for number in 0..300 {
            let key = format!("{number}{}", "k".repeat(1000));
            assert_eq!(admin.text(&["SET", &key, "v"]), "OK");
            for cache in &mut caches {
                assert_eq!(cache.text(&["GET", &key]), "v");
            }
        }
        let used = |client: &mut Client| server.info(client, "used_memory").parse::<u64>().unwrap();
        let limit = used(&mut admin) - 40_000;
        assert_eq!(admin.text(&["CONFIG", "SET", "maxmemory", &limit.to_string()]), "OK");
        // Without the reply that reports it.
        wait_for(|| (used(&mut admin) <= limit + 16_384).then_some(()));
        let left: u64 = admin.text(&["DBSIZE"]).parse().unwrap();
        assert!((200..300).contains(&left), "{left} keys are left");
    });
}

/// Accesses only the key that it declares, and does not end.
const ENDLESS: &str = "redis.call('GET', KEYS[1]) while true do end";

/// Begins a script that holds only the key `held`, and waits until it is paused.
fn begin_script(client: &mut Client, admin: &mut Client) {
    client.send(&["EVAL", ENDLESS, "1", "held"]);
    wait_for(|| Some(admin.text(&["GET", "held"])).filter(|reply| reply.starts_with("BUSY")));
}

/// The modes of tracking, with the option that has the target's id as its value.
const MODES: &[&[&str]] = &[
    &[],
    &["NOLOOP"],
    &["BCAST"],
    &["BCAST", "PREFIX", "k", "NOLOOP"],
    &["REDIRECT"],
    &["NOLOOP", "REDIRECT"],
    &["BCAST", "REDIRECT"],
    &["BCAST", "PREFIX", "k", "NOLOOP", "REDIRECT"],
];

const SHORT_THRESHOLD: &[&str] = &["--busy-reply-threshold", "20", "--save", ""];

#[test]
fn invalidations_arrive_while_the_own_script_is_paused() {
    on_each_backend(&[SHORT_THRESHOLD, &["--io-threads", "2"]].concat(), |server| {
        let mut other = server.client();
        for mode in MODES {
            let mut target = server.client();
            target.text(&["HELLO", "3"]);
            let id = target.text(&["CLIENT", "ID"]);
            let redirects = mode.last() == Some(&"REDIRECT");
            let options = if redirects { [mode, &[id.as_str()][..]].concat() } else { mode.to_vec() };
            let mut client = tracker(&server, &options);
            client.text(&["GET", "k1"]);
            begin_script(&mut client, &mut other);
            assert_eq!(other.text(&["SET", "k1", "x"]), "OK");
            let receiver = if redirects { &mut target } else { &mut client };
            assert_eq!(next(receiver), "!k1", "{mode:?}");
            assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
            assert!(next(&mut client).contains("killed by user"), "{mode:?}");
            // Tracking continues.
            client.text(&["GET", "k2"]);
            assert_eq!(other.text(&["SET", "k2", "x"]), "OK");
            let receiver = if redirects { &mut target } else { &mut client };
            assert_eq!(next(receiver), "!k2", "{mode:?}");
        }
    });
}

/// Changes in the turns in which a script of another client begins and ends.
#[test]
fn broadcasts_do_not_wait_for_scripts() {
    on_each_backend(&[SHORT_THRESHOLD, &["--io-threads", "1"]].concat(), |server| {
        let (mut other, mut client) = (server.client(), tracker(&server, &["BCAST"]));
        other.send_raw(format!("SET k1 x\r\nEVAL \"{ENDLESS}\" 1 held\r\n").as_bytes());
        assert_eq!(next(&mut client), "!k1");
        assert_eq!(next(&mut other), "OK");
        let mut killer = server.client();
        wait_for(|| Some(killer.text(&["GET", "held"])).filter(|reply| reply.starts_with("BUSY")));
        killer.send_raw(b"SET k2 x\r\nSCRIPT KILL\r\nSET k3 x\r\n");
        assert_eq!(next(&mut client), "!k2 k3");
        assert!(next(&mut other).contains("killed by user"));
    });
}

#[test]
fn a_client_killed_during_its_script_leaves_no_redirection() {
    on_each_backend(&[SHORT_THRESHOLD, &["--io-threads", "2"]].concat(), |server| {
        let mut other = server.client();
        for mode in MODES.iter().filter(|mode| mode.last() == Some(&"REDIRECT")) {
            let mut target = server.client();
            target.text(&["HELLO", "3"]);
            let id = target.text(&["CLIENT", "ID"]);
            let mut client = tracker(&server, &[mode, &[id.as_str()][..]].concat());
            let client_id = client.text(&["CLIENT", "ID"]);
            client.text(&["GET", "k1"]);
            begin_script(&mut client, &mut other);
            assert_eq!(other.text(&["CLIENT", "KILL", "ID", &client_id]), "1");
            wait_for(|| (server.info(&mut other, "tracking_clients") == "0").then_some(()));
            wait_for(|| Some(()).filter(|()| !other.text(&["GET", "held"]).starts_with("BUSY")));
            assert_eq!(other.text(&["SET", "k1", "x"]), "OK");
            target.send(&["PING"]);
            assert_eq!(next(&mut target), "PONG", "{mode:?}");
            assert_eq!(server.info(&mut other, "tracking_total_prefixes"), "0");
        }
    });
}

#[test]
fn own_changes_of_a_paused_script_are_reported_after_its_reply() {
    const SLOW: &str = "local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1])
        for _ = 1, 3000000 do end return 'done'";
    on_each_backend(&["--io-threads", "2", "--save", ""], |server| {
        let mut quiet = tracker(&server, &["NOLOOP"]);
        let mut client = tracker(&server, &[]);
        for value in ["1", "2"] {
            client.send(&["EVAL", SLOW, "1", "k", value]);
            assert_eq!([next(&mut client), next(&mut client)], ["done", "!k"]);
            client.send(&["MULTI"]);
            client.send(&["EVAL", SLOW, "1", "k", value]);
            client.send(&["EXEC"]);
            let replies = ["OK", "QUEUED", "!done", "!k"];
            assert_eq!([(); 4].map(|()| next(&mut client)), replies);
            assert_eq!(quiet.text(&["EVAL", SLOW, "1", "k", value]), "done");
            assert_eq!(quiet.text(&["PING"]), "PONG");
        }
    });
}

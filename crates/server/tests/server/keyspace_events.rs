//! Keyspace events as clients receive them, on both I/O backends.

use std::time::Duration;

use crate::support::{self, Client, Server, backends, shown};
use wire::response::Reply;

/// Runs a test on each backend, with a server that publishes these events, and a client that receives them.
fn with_events(events: &str, pattern: &str, test: impl Fn(&Server, &mut Client)) {
    for backend in backends() {
        let mut options = vec!["--io-backend", backend, "--io-threads", "3", "--enable-debug-command", "yes"];
        options.extend(["--notify-keyspace-events", events]);
        let server = Server::start(&options);
        let mut listener = server.client();
        listener.text(&["PSUBSCRIBE", pattern]);
        test(&server, &mut listener);
    }
}

/// The next message, as channel and text.
fn next(listener: &mut Client) -> String {
    match listener.receive().expect("the server stays") {
        Reply::Array(items) | Reply::Push(items) => {
            let [.., channel, text] = &items[..] else { panic!("no message") };
            format!("{} {}", shown(channel), shown(text))
        }
        other => shown(&other),
    }
}

fn assert_next(listener: &mut Client, expected: &[&str]) {
    for message in expected {
        assert_eq!(next(listener), *message);
    }
}

#[test]
fn events_are_published_by_key_and_event_in_order() {
    with_events("KEA", "__key*__:*", |server, listener| {
        let mut client = server.client();
        client.text(&["MULTI"]);
        client.text(&["SET", "k", "1", "EX", "100"]);
        client.text(&["SELECT", "3"]);
        client.text(&["PUBLISH", "__key__:own", "in between"]);
        client.text(&["INCR", "k"]);
        client.text(&["EXEC"]);
        assert_next(
            listener,
            &[
                "__keyspace@0__:k set",
                "__keyevent@0__:set k",
                "__keyspace@0__:k expire",
                "__keyevent@0__:expire k",
                "__key__:own in between",
                "__keyspace@3__:k incrby",
                "__keyevent@3__:incrby k",
            ],
        );
    });
}

#[test]
fn new_keys_and_key_misses() {
    with_events("EAnm", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        for words in [&["GET", "k"][..], &["SET", "k", "1"], &["SET", "k", "2"], &["RENAME", "k", "l"]] {
            client.text(words);
        }
        assert_next(
            listener,
            &[
                "__keyevent@0__:keymiss k",
                "__keyevent@0__:new k",
                "__keyevent@0__:set k",
                "__keyevent@0__:set k",
                "__keyevent@0__:new l",
                "__keyevent@0__:rename_from k",
                "__keyevent@0__:rename_to l",
            ],
        );
    });
}

#[test]
fn expired_and_failed_writes_publish_the_events_of_valkey() {
    with_events("AEn", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        // A hash whose only field is expired when it is set is new, and deleted.
        client.text(&["HSETEX", "h", "EXAT", "1", "FIELDS", "1", "a", "b"]);
        // A string extended for an operation that fails is new, but not written to.
        client.text(&["BITFIELD", "b", "OVERFLOW", "FAIL", "INCRBY", "u8", "80", "300"]);
        client.text(&["BITFIELD", "b", "OVERFLOW", "FAIL", "INCRBY", "u8", "160", "300"]);
        client.text(&["DEL", "b"]);
        let events = ["new h", "hset h", "hexpire h", "hexpired h", "del h", "new b", "del b"];
        assert_next(
            listener,
            &events.map(|event| format!("__keyevent@0__:{event}")).each_ref().map(String::as_str),
        );
    });
}

#[test]
fn every_lookup_of_a_missing_stream_is_an_event() {
    with_events("EAnm", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        client.text(&["XREAD", "STREAMS", "twice", "0"]);
        client.text(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "read", ">"]);
        client.text(&["XACK", "acknowledged", "g", "1-1"]);
        client.text(&["XCLAIM", "claimed", "g", "c", "0", "1-1"]);
        client.text(&["XAUTOCLAIM", "badly", "g", "c", "0", "0", "nonsense"]);
        client.text(&["LCS", "a", "b"]);
        let keys = ["twice", "twice", "read", "acknowledged", "claimed", "badly", "a", "b"];
        let expected = keys.map(|key| format!("__keyevent@0__:keymiss {key}"));
        assert_next(listener, &expected.each_ref().map(String::as_str));
    });
}

#[test]
fn expired_sources_are_published_before_the_result() {
    with_events("EAm", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        for request in [
            "SUNIONSTORE to from",
            "SINTERSTORE to from from",
            "SDIFFSTORE to from",
            "ZUNIONSTORE to 1 from",
            "ZINTERSTORE to 1 from",
            "ZDIFFSTORE to 1 from",
            "ZRANGESTORE to from 0 -1",
            "BITOP OR to from",
            "SORT from STORE to",
            "GEORADIUS from 0 0 1 m STORE to",
            "GEOSEARCHSTORE to from FROMLONLAT 0 0 BYRADIUS 1 m",
        ] {
            // An expired destination changes nothing.
            client.text(&["SET", "to", "x", "PX", "1"]);
            client.text(&["SET", "from", "v", "PX", "1"]);
            client.expect_no_data(Duration::from_millis(5));
            assert_eq!(client.text(&request.split(' ').collect::<Vec<_>>()), "0", "{request}");
            let mut expected = vec![
                "set to",
                "expire to",
                "set from",
                "expire from",
                "expired from",
                "keymiss from",
                "del to",
            ];
            if request.starts_with("SINTER") {
                expected.insert(6, "keymiss from");
            }
            let expected: Vec<String> = expected.into_iter().map(by_event).collect();
            assert_next(listener, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        }
    });
}

#[test]
fn expiry_events_of_a_pipeline_keep_its_order() {
    with_events("Exm", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        client.text(&["SET", "k", "v", "PX", "1"]);
        client.expect_no_data(Duration::from_millis(5));
        client.send_raw(b"GET a\r\nGET k\r\nGET b\r\n");
        assert_next(
            listener,
            &["keymiss a", "expired k", "keymiss k", "keymiss b"]
                .map(by_event)
                .each_ref()
                .map(String::as_str),
        );
    });
}

fn by_event(event_and_key: &str) -> String {
    format!("__keyevent@0__:{event_and_key}")
}

#[test]
fn keys_expire_actively_and_on_access() {
    with_events("Exm", "__keyevent@*", |server, listener| {
        let mut client = server.client();
        client.text(&["SELECT", "5"]);
        client.text(&["SET", "alone", "1", "PX", "1"]);
        assert_next(listener, &["__keyevent@5__:expired alone"]);
        client.text(&["SET", "gone", "1"]);
        client.text(&["EXPIRE", "gone", "-1"]);
        assert_next(listener, &["__keyevent@5__:expired gone"]);
    });
}

#[test]
fn evicted_keys() {
    with_events("Ee", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        let value = "x".repeat(100_000);
        for index in 0..20 {
            client.text(&["SET", &format!("key:{index}"), &value]);
        }
        let used: u64 = server.info(&mut client, "used_memory").parse().unwrap();
        client.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        client.text(&["CONFIG", "SET", "maxmemory", &(used - 500_000).to_string()]);
        client.text(&["SET", "another", "1"]);
        assert!(next(listener).starts_with("__keyevent@0__:evicted "));
    });
}

#[test]
fn replies_precede_events_of_own_changes() {
    with_events("K$g", "nothing", |server, _| {
        let mut client = server.client();
        client.text(&["HELLO", "3"]);
        client.text(&["PSUBSCRIBE", "*"]);
        for words in [&["SET", "k", "1"][..], &["GET", "k"], &["DEL", "k"], &["PING"]] {
            client.send(words);
        }
        let expected = ["OK", "__keyspace@0__:k set", "1", "1", "__keyspace@0__:k del", "PONG"];
        assert_next(&mut client, &expected);
    });
}

#[test]
fn events_that_are_not_configured_are_not_published() {
    with_events("", "*", |server, listener| {
        let mut client = server.client();
        let publish_end = |client: &mut Client| client.text(&["PUBLISH", "end", ""]);
        for events in ["A", "K", "KEl", "E$"] {
            assert_eq!(client.text(&["CONFIG", "SET", "notify-keyspace-events", events]), "OK");
            client.text(&["SET", "k", "1"]);
            client.text(&["DEL", "k"]);
            publish_end(&mut client);
        }
        assert_next(listener, &["end ", "end ", "end ", "__keyevent@0__:set k", "end "]);
    });
}

/// Runs a test with a key `old` that is expired, and that nothing deletes in the background.
fn with_expired_key(test: impl Fn(&mut Client, &mut Client)) {
    with_events("", "__keyevent@0__:*", |server, listener| {
        let mut client = server.client();
        client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        client.text(&["SET", "old", "1", "PX", "1"]);
        let millis = |client: &mut Client| {
            client.send(&["TIME"]);
            let Some(Reply::Array(parts)) = client.receive() else { panic!("no time") };
            shown(&parts[0]).parse::<u64>().unwrap() * 1000 + shown(&parts[1]).parse::<u64>().unwrap() / 1000
        };
        let expiry = millis(&mut client) + 2;
        support::wait_for(|| (millis(&mut client) > expiry).then_some(()));
        client.text(&["CONFIG", "SET", "notify-keyspace-events", "Exm$g"]);
        test(&mut client, listener);
    });
}

/// Sends a pipeline of inline requests, and receives the last reply.
fn last_reply(client: &mut Client, requests: &str) -> String {
    client.send_raw(requests.as_bytes());
    let replies: Vec<String> = requests.lines().map(|_| shown(&client.receive().unwrap())).collect();
    replies.last().unwrap().clone()
}

#[test]
fn a_read_of_a_transaction_deletes_an_expired_key_before_the_next_command() {
    let expired = ["__keyevent@0__:expired old", "__keyevent@0__:keymiss old"];
    let then_set = [&expired[..], &["__keyevent@0__:set other"]].concat();
    // As one batch, in parts, and through a script.
    for requests in [
        "MULTI\r\nGET old\r\nSET other 1\r\nEXEC\r\n",
        "MULTI\r\nGET old\r\nECHO x\r\nSET other 1\r\nEXEC\r\n",
        "MULTI\r\nEVAL \"redis.call('get', KEYS[1]) redis.call('set', 'other', 1)\" 1 old\r\nEXEC\r\n",
        "MULTI\r\nEVAL \"redis.call('get', 'old') redis.call('set', 'other', 1)\" 0\r\nEXEC\r\n",
        "EVAL \"redis.call('get', KEYS[1]) redis.call('set', 'other', 1)\" 1 old\r\n",
        "EVAL \"redis.call('get', 'old') redis.call('set', 'other', 1)\" 0\r\n",
    ] {
        with_expired_key(|client, listener| {
            last_reply(client, requests);
            assert_next(listener, &then_set);
            assert_eq!(client.text(&["DBSIZE"]), "1", "{requests}");
        });
    }
    // Transactions and scripts that only read.
    for requests in [
        "MULTI\r\nGET old\r\nEXEC\r\n",
        "MULTI\r\nGET old\r\nECHO x\r\nEXEC\r\n",
        "EVAL_RO \"return redis.call('get', 'old')\" 0\r\n",
        "EVAL_RO \"return redis.call('get', KEYS[1])\" 1 old\r\n",
    ] {
        with_expired_key(|client, listener| {
            last_reply(client, requests);
            assert_next(listener, &expired);
            assert_eq!(client.text(&["DBSIZE"]), "0", "{requests}");
        });
    }
    with_expired_key(|client, _| {
        assert_eq!(last_reply(client, "MULTI\r\nGET old\r\nDBSIZE\r\nEXEC\r\n"), "\n0");
    });
}

#[test]
fn an_expired_key_that_randomkey_meets_is_deleted() {
    with_expired_key(|client, listener| {
        assert_eq!(client.text(&["RANDOMKEY"]), "");
        assert_next(listener, &["__keyevent@0__:expired old"]);
        assert_eq!(client.text(&["DBSIZE"]), "0");
    });
}

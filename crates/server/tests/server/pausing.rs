//! `CLIENT PAUSE` as a barrier: after its reply, nothing is written by any thread until the pause ends.

use crate::support::{Client, Server, on_each_backend, shown, wait_for};

/// Connections of a server with two threads: a writer on one of them, the others on the other one. The second
/// of these subscribes to `begun`.
struct Threads {
    writer: Client,
    admin: Client,
    listener: Client,
    parked: Client,
}

const OPTIONS: &[&str] = &["--io-threads", "2", "--enable-debug-command", "yes"];

/// A transaction that publishes its beginning, takes some time, and then writes.
const SLOW_WRITE: &[&[&str]] =
    &[&["MULTI"], &["PUBLISH", "begun", ""], &["DEBUG", "SLEEP", "0.3"], &["SET", "key", "slow"], &["EXEC"]];

impl Threads {
    fn new(server: &Server) -> Self {
        let mut clients = server.six_clients();
        let parked = clients.remove(5);
        let mut listener = clients.remove(3);
        let admin = clients.remove(1);
        let writer = clients.remove(0);
        assert_eq!(listener.text(&["SUBSCRIBE", "begun"]), "subscribe\nbegun\n1");
        Self { writer, admin, listener, parked }
    }

    /// Sends the slow write, and returns when it has begun.
    fn begin_slow_write(&mut self) {
        SLOW_WRITE.iter().for_each(|request| self.writer.send(request));
        assert_eq!(shown(&self.listener.receive().unwrap()), "message\nbegun\n");
    }
}

#[test]
fn running_writes_end_before_the_reply_of_a_pause() {
    on_each_backend(OPTIONS, |server| {
        let mut threads = Threads::new(&server);
        threads.begin_slow_write();
        assert_eq!(threads.admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
        // Takes no latch, so it does not wait for the write.
        assert_eq!(threads.admin.text(&["DBSIZE"]), "1");
        // Later writes wait.
        threads.parked.send(&["SET", "other", "value"]);
        wait_for(|| (server.info(&mut threads.admin, "blocked_clients") == "1").then_some(()));
        assert_eq!(threads.admin.text(&["CLIENT", "UNPAUSE"]), "OK");
        assert_eq!(shown(&threads.parked.receive().unwrap()), "OK");
    });
}

#[test]
fn parked_writes_wait_for_the_end_of_a_pause() {
    on_each_backend(OPTIONS, |server| {
        let mut threads = Threads::new(&server);
        threads.begin_slow_write();
        // A request with several keys, which holds one latch while it waits for the other.
        threads.parked.send(&["MSET", "another", "parked", "key", "parked"]);
        wait_for(|| (server.info(&mut threads.admin, "sessions_parked") != "0").then_some(()));
        assert_eq!(threads.admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
        assert_eq!(threads.admin.text(&["GET", "key"]), "slow");
        assert_eq!(threads.admin.text(&["EXISTS", "another"]), "0");
        wait_for(|| (server.info(&mut threads.admin, "blocked_clients") == "1").then_some(()));
        assert_eq!(threads.admin.text(&["GET", "key"]), "slow");
        assert_eq!(threads.admin.text(&["CLIENT", "UNPAUSE"]), "OK");
        assert_eq!(shown(&threads.parked.receive().unwrap()), "OK");
        assert_eq!(threads.admin.text(&["MGET", "another", "key"]), "parked\nparked");
    });
}

#[test]
fn a_pause_within_a_transaction_is_a_barrier_too() {
    on_each_backend(OPTIONS, |server| {
        let mut threads = Threads::new(&server);
        threads.begin_slow_write();
        let admin = &mut threads.admin;
        for request in [&["MULTI"][..], &["CLIENT", "PAUSE", "100000", "WRITE"], &["EXEC"], &["DBSIZE"]] {
            admin.send(request);
        }
        let replies: Vec<String> = (0..4).map(|_| shown(&admin.receive().unwrap())).collect();
        assert_eq!(replies, ["OK", "QUEUED", "OK", "1"]);
        assert_eq!(admin.text(&["CLIENT", "UNPAUSE"]), "OK");
    });
}

#[test]
fn half_closed_clients_get_the_reply_of_a_pause() {
    on_each_backend(OPTIONS, |server| {
        let mut threads = Threads::new(&server);
        threads.begin_slow_write();
        threads.admin.send(&["CLIENT", "PAUSE", "1", "WRITE"]);
        threads.admin.shut_down_writing();
        assert_eq!(shown(&threads.admin.receive().unwrap()), "OK");
        assert!(threads.admin.receive().is_none());
    });
}

/// Publishes its beginning, writes if `ARGV` says so, takes some time, and writes.
const SLOW_SCRIPT: &str = "redis.call('PUBLISH', 'begun', '') if ARGV[1] == 'writes' then redis.call('SET', KEYS[1], 'half') end \
                           local n = 0 for i = 1, 20000000 do n = n + 1 end redis.call('SET', KEYS[1], n) return 'done'";

#[test]
fn a_script_that_has_begun_ends_before_the_reply_of_a_pause() {
    for thread_count in ["1", "2"] {
        on_each_backend(&["--io-threads", thread_count], |server| {
            for (first, kind) in [("writes", "WRITE"), ("waits", "WRITE"), ("writes", "ALL")] {
                let mut threads = Threads::new(&server);
                threads.writer.send(&["EVAL", SLOW_SCRIPT, "1", "key", first]);
                assert_eq!(shown(&threads.listener.receive().unwrap()), "message\nbegun\n");
                let duration_ms = if kind == "ALL" { "300" } else { "100000" };
                assert_eq!(threads.admin.text(&["CLIENT", "PAUSE", duration_ms, kind]), "OK");
                assert_eq!(shown(&threads.writer.receive().unwrap()), "done");
                if kind == "ALL" {
                    // Only its end ends this pause.
                    assert_eq!(threads.admin.text(&["GET", "key"]), "20000000");
                    continue;
                }
                assert_eq!(threads.admin.text(&["GET", "key"]), "20000000");
                // A script that begins later waits.
                threads.parked.send(&["EVAL", "return redis.call('SET', KEYS[1], 'later')", "1", "key"]);
                wait_for(|| (server.info(&mut threads.admin, "blocked_clients") == "1").then_some(()));
                assert_eq!(threads.admin.text(&["CLIENT", "UNPAUSE"]), "OK");
                assert_eq!(shown(&threads.parked.receive().unwrap()), "OK");
                assert_eq!(threads.admin.text(&["GET", "key"]), "later");
            }
        });
    }
}

#[test]
fn a_pause_is_refused_beside_a_script_that_runs_too_long_and_may_write() {
    const BUSY: &str =
        "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    on_each_backend(&["--io-threads", "2", "--busy-reply-threshold", "50"], |server| {
        let mut threads = Threads::new(&server);
        for (script, reply) in
            [("while true do end", BUSY), ("#!lua flags=no-writes\nwhile true do end", "OK")]
        {
            threads.writer.send(&["EVAL", script, "1", "key"]);
            // Refused once the script counts as one that runs too long.
            wait_for(|| (threads.admin.text(&["SET", "key", "v"]) == BUSY).then_some(()));
            assert_eq!(threads.admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), reply);
            assert_eq!(threads.admin.text(&["CLIENT", "UNPAUSE"]), "OK");
            assert_eq!(threads.admin.text(&["SCRIPT", "KILL"]), "OK");
            assert!(shown(&threads.writer.receive().unwrap()).contains("killed by user"));
            assert_eq!(threads.admin.text(&["SET", "key", "v"]), "OK");
        }
    });
}

#[test]
fn a_transaction_with_a_script_that_has_begun_ends_before_the_reply_of_a_pause() {
    for thread_count in ["1", "2"] {
        on_each_backend(&["--io-threads", thread_count], |server| {
            let mut threads = Threads::new(&server);
            let count =
                "local n = 0 for i = 1, 20000000 do n = n + 1 end return redis.call('EXISTS', KEYS[1])";
            let transaction: &[&[&str]] = &[
                &["MULTI"],
                &["PUBLISH", "begun", ""],
                &["EVAL_RO", count, "1", "key"],
                &["SET", "key", "behind"],
                &["EXEC"],
            ];
            transaction.iter().for_each(|request| threads.writer.send(request));
            assert_eq!(shown(&threads.listener.receive().unwrap()), "message\nbegun\n");
            assert_eq!(threads.admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
            assert_eq!(threads.admin.text(&["GET", "key"]), "behind");
            assert_eq!(threads.admin.text(&["CLIENT", "UNPAUSE"]), "OK");
        });
    }
}

//! Commands that run long enough to matter to other connections.
use std::time::{Duration, Instant};

use crate::support::{self, Client, on_each_backend, shown, wait_for};

const KEY_COUNT: &str = "300000";

#[test]
fn other_connections_are_served_while_keys_are_created() {
    let options = ["--io-threads", "1", "--enable-debug-command", "yes", "--save", ""];
    on_each_backend(&options, |server| {
        let (mut creator, mut other) = (server.client(), server.client());
        creator.send(&["DEBUG", "POPULATE", KEY_COUNT]);
        creator.send(&["DBSIZE"]);
        let key_count = |text: String| text.parse::<usize>().unwrap();
        let seen = wait_for(|| Some(key_count(other.text(&["DBSIZE"]))).filter(|count| *count > 0));
        assert!(seen < key_count(KEY_COUNT.to_owned()), "{seen} keys were created in one part");
        assert_eq!(other.text(&["SET", "other", "value"]), "OK");
        assert_eq!(support::shown(&creator.receive().unwrap()), "OK");
        // A request behind it in the pipeline runs when it has ended, and sees all keys.
        assert_eq!(support::shown(&creator.receive().unwrap()), "300001");
        let statistics = server.info(&mut other, "cmdstat_debug");
        assert!(statistics.starts_with("calls=1,"), "{statistics}");
    });
}

#[test]
fn a_transaction_creates_its_keys_in_one_part() {
    let options = ["--io-threads", "1", "--enable-debug-command", "yes", "--save", ""];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        assert_eq!(client.text(&["MULTI"]), "OK");
        assert_eq!(client.text(&["DEBUG", "POPULATE", "10000"]), "QUEUED");
        assert_eq!(client.text(&["DBSIZE"]), "QUEUED");
        assert_eq!(client.text(&["EXEC"]), "OK\n10000");
        assert_eq!(client.text(&["DBSIZE"]), "10000");
    });
}

#[test]
fn clients_connect_while_the_first_thread_is_in_a_long_command() {
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--unixsocket", "socket"];
    on_each_backend(&options, |server| {
        let mut clients = server.six_clients();
        let mut listener = clients.remove(1);
        // On the thread that accepts connections.
        let mut sleeper = clients.remove(0);
        assert_eq!(listener.text(&["SUBSCRIBE", "begun"]), "subscribe\nbegun\n1");
        let transaction: &[&[&str]] = &[
            &["MULTI"],
            &["PUBLISH", "begun", ""],
            &["DEBUG", "SLEEP", "3"],
            &["SET", "key", "1"],
            &["EXEC"],
        ];
        transaction.iter().for_each(|request| sleeper.send(request));
        assert_eq!(shown(&listener.receive().unwrap()), "message\nbegun\n");
        let mut arrived: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for client in &mut arrived {
            // Takes no latch, and shows that the transaction has not ended.
            assert_eq!(client.text(&["DBSIZE"]), "0");
        }
        assert_eq!(arrived[0].text(&["SCRIPT", "KILL"]), "NOTBUSY No scripts in execution right now.");
        let replies: Vec<String> = (0..5).map(|_| shown(&sleeper.receive().unwrap())).collect();
        assert_eq!(replies[4], "1\nOK\nOK", "{replies:?}");
        assert_eq!(server.client().text(&["DBSIZE"]), "1");
    });
}

#[test]
fn a_sleep_outside_of_a_transaction_stalls_every_thread() {
    let options = ["--io-threads", "2", "--enable-debug-command", "yes"];
    on_each_backend(&options, |server| {
        let mut clients = server.six_clients();
        let (sleepers, others) = clients.split_at_mut(1);
        // The next connection is on the other thread, which may serve it before the sleep begins.
        wait_for(|| {
            sleepers[0].send(&["DEBUG", "SLEEP", "0.2"]);
            let begun = Instant::now();
            assert_eq!(others[0].text(&["PING"]), "PONG");
            let is_stalled = begun.elapsed() > Duration::from_millis(100);
            assert_eq!(shown(&sleepers[0].receive().unwrap()), "OK");
            is_stalled.then_some(())
        });
    });
}

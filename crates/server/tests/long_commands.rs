//! Commands that run long enough to matter to other connections.
#![allow(clippy::unwrap_used)]

mod support;

use support::{on_each_backend, wait_for};

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

//! Synchronisation under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Client, Server, replication_field as field, wait_for_replication_field as expect_field};

/// Writes changes of several types until it is dropped.
pub struct Load {
    must_end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    pub fn begin(port: u16) -> Self {
        let must_end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&must_end);
        let body = move || {
            let mut client = Client::connect(port);
            let mut number = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                number += 1;
                let (key, text) = (format!("key:{}", number % 3000), number.to_string());
                client.text(&["SELECT", if number % 100 < 50 { "0" } else { "3" }]);
                for words in [
                    &["SET", key.as_str(), text.as_str()][..],
                    &["INCR", "counter"],
                    &["MULTI"],
                    &["HSET", "hash", &key, &text],
                    &["ZADD", "scores", &text, &key],
                    &["EXEC"],
                    &["LPUSH", "list", &text],
                    &["LTRIM", "list", "0", "99"],
                ] {
                    client.text(words);
                }
            }
        };
        Self { must_end, thread: Some(std::thread::spawn(body)) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// All that [`Load`] and `DEBUG POPULATE` write, in an order that does not depend on the server.
pub fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in ["0", "3"] {
        client.text(&["SELECT", db]);
        let keys = client.text(&["KEYS", "*"]);
        let mut keys: Vec<_> = keys.lines().collect();
        keys.sort_unstable();
        for part in keys.chunks(1000) {
            all.push(client.text(&[&["MGET"], part].concat()));
        }
        let fields = client.text(&["HKEYS", "hash"]);
        let mut fields: Vec<_> = fields.lines().collect();
        fields.sort_unstable();
        if !fields.is_empty() {
            all.push(client.text(&[&["HMGET", "hash"], fields.as_slice()].concat()));
        }
        all.push(client.text(&["ZRANGE", "scores", "0", "-1", "WITHSCORES"]));
        all.push(client.text(&["LRANGE", "list", "0", "-1"]));
        all.extend(keys.into_iter().chain(fields).map(str::to_owned));
    }
    all
}

/// Synchronises a replica under load with a primary, whose replicas connect to this port, and compares the data.
pub fn expect_synchronised(primary: &Server, port: u16, replica: &Server) {
    let (mut there, mut here) = (primary.client(), replica.client());
    there.text(&["DEBUG", "POPULATE", "20000", "key", "40"]);
    let load = Load::begin(primary.port);
    assert_eq!(here.text(&["REPLICAOF", "127.0.0.1", &port.to_string()]), "OK");
    expect_field(&mut here, "master_link_status", "up");
    let at_link: u64 = field(&mut here, "slave_repl_offset").parse().unwrap();
    while field(&mut here, "slave_repl_offset").parse::<u64>().unwrap() < at_link + 10_000 {
        std::thread::yield_now();
    }
    drop(load);
    there.text(&["SET", "end", "1"]);
    assert_eq!(there.text(&["WAIT", "1", "20000"]), "1");
    assert_eq!(field(&mut here, "slave_repl_offset"), field(&mut there, "master_repl_offset"));
    assert!(contents(&mut here) == contents(&mut there));
    let stats = there.text(&["INFO", "stats"]);
    assert!(stats.contains("sync_full:1\r"), "{stats}");
}

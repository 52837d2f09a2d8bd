//! Saving: files, their contents at the cut, failures, and the end of the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dump::{Dump, read_dump};
use crate::support::{self, Client, Server, shown, wait_for};

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("broadloom-saving-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn dump(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(directory: &Directory, options: &[&str]) -> (Server, Client) {
    let mut all = vec!["--dir", directory.path()];
    all.extend_from_slice(options);
    let server = Server::start(&all);
    let client = server.client();
    (server, client)
}

fn wait_until_saved(server: &Server, client: &mut Client) {
    wait_for(|| (server.info(client, "rdb_bgsave_in_progress") == "0").then_some(()));
}

/// Takes a snapshot while clients go on.
fn save_in_background(server: &Server, client: &mut Client, directory: &Directory) -> Dump {
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    wait_until_saved(server, client);
    assert_eq!(server.info(client, "rdb_last_bgsave_status"), "ok");
    read_dump(&directory.dump())
}

/// Sets a flag when it is dropped, by a failed assertion, too: the threads of a scope end then.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random numbers below a bound, another sequence for each thread.
fn random_below(thread: usize) -> impl FnMut(usize) -> usize {
    let mut random = thread as u64 + 1;
    move |bound| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    }
}

#[test]
fn a_save_has_all_keys_and_leaves_no_other_files() {
    let directory = Directory::new("all");
    let (server, mut client) = start(&directory, &[]);
    let before: i64 = client.text(&["LASTSAVE"]).parse().unwrap();
    for number in 0..300 {
        client.text(&["SET", &format!("key:{number}"), &number.to_string()]);
    }
    client.text(&["PEXPIREAT", "key:1", "99999999999999"]);
    client.text(&["SELECT", "9"]);
    client.text(&["HSET", "hash", "field", "value"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let dump = read_dump(&directory.dump());
    assert_eq!((dump.version, dump.strings.len(), dump.volatile_count), (11, 300, 1));
    assert_eq!(dump.strings[&(0, "key:299".to_owned())], "299");
    assert_eq!(dump.hashes[&(9, "hash".to_owned())]["field"], "value");
    assert_eq!(dump.properties["aof-base"], "0");
    assert_eq!(directory.names(), ["dump.rdb"]);
    assert!(client.text(&["LASTSAVE"]).parse::<i64>().unwrap() >= before);
    assert_eq!(server.info(&mut client, "rdb_changes_since_last_save"), "0");
    client.text(&["HEXPIRE", "hash", "1000", "FIELDS", "1", "field"]);
    assert_eq!(server.info(&mut client, "rdb_changes_since_last_save"), "1");
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    wait_until_saved(&server, &mut client);
    assert_eq!(read_dump(&directory.dump()).version, 80);
    assert_eq!(server.info(&mut client, "rdb_saves"), "2");
    server.log_line("Background saving terminated with success");
}

#[test]
fn a_save_under_load_has_the_state_of_one_instant() {
    const ACCOUNTS: u64 = 200;
    let directory = Directory::new("transfers");
    let (server, mut client) = start(&directory, &["--io-threads", "2", "--snapshot-threads", "2"]);
    let account = |number: u64| format!("account:{number}");
    for number in 0..ACCOUNTS {
        client.text(&["SET", &account(number), "1000"]);
        client.text(&["HSET", "all", &account(number), "1000"]);
        client.text(&["HSET", &format!("few:{}", number / 5), &account(number), "1000"]);
    }
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = SetAtEnd(&stops);
        for thread in 0..3_u64 {
            let (mut client, stops) = (server.client(), &stops);
            scope.spawn(move || {
                let mut random = thread + 1;
                let mut below = |bound: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) % bound
                };
                while !stops.load(Ordering::Relaxed) {
                    let (from, to) = (account(below(ACCOUNTS)), account(below(ACCOUNTS)));
                    let few = below(ACCOUNTS / 5);
                    let (of_few, to_few) = (account(5 * few + below(5)), account(5 * few + below(5)));
                    let few = format!("few:{few}");
                    let amount = below(100).to_string();
                    let debit = format!("-{amount}");
                    for request in [
                        &["MULTI"][..],
                        &["DECRBY", &from, &amount],
                        &["INCRBY", &to, &amount],
                        &["HINCRBY", "all", &from, &debit],
                        &["HINCRBY", "all", &to, &amount],
                        &["HINCRBY", &few, &of_few, &debit],
                        &["HINCRBY", &few, &to_few, &amount],
                        &["EXEC"],
                    ] {
                        client.text(request);
                    }
                }
            });
        }
        let mut seen = Vec::new();
        for _ in 0..60 {
            assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
            wait_until_saved(&server, &mut client);
            let dump = read_dump(&directory.dump());
            let sum = |values: &mut dyn Iterator<Item = &String>| -> i64 {
                values.map(|value| value.parse::<i64>().unwrap()).sum()
            };
            let expected = 1000 * ACCOUNTS as i64;
            assert_eq!(dump.strings.len() as u64, ACCOUNTS);
            assert_eq!(sum(&mut dump.strings.values()), expected);
            let all = &dump.hashes[&(0, "all".to_owned())];
            assert_eq!(sum(&mut all.values()), expected);
            // The same instant for all keys.
            for (key, value) in &dump.strings {
                assert_eq!(&all[&key.1], value);
            }
            for (key, fields) in dump.hashes.iter().filter(|(key, _)| key.1 != "all") {
                assert_eq!(sum(&mut fields.values()), 5000, "{key:?}");
            }
            seen.push(dump.strings);
        }
        drop(stopping);
        seen.dedup();
        assert!(seen.len() > 30, "{} different states", seen.len());
    });
}

/// Elements of a collection that is saved in portions.
const LARGE_LEN: usize = 5000;

/// Sends a request with an argument, or two, for each element.
fn fill(client: &mut Client, command: &[&str], of_element: impl Fn(usize) -> Vec<String>) {
    for first in (0..LARGE_LEN).step_by(500) {
        let elements: Vec<String> = (first..first + 500).flat_map(&of_element).collect();
        let words: Vec<&str> = command.iter().copied().chain(elements.iter().map(String::as_str)).collect();
        client.text(&words);
    }
}

#[test]
fn large_collections_are_saved_in_portions_as_they_were_at_the_cut() {
    let directory = Directory::new("large");
    let (server, mut client) = start(&directory, &["--io-threads", "2", "--snapshot-threads", "2"]);
    let member = |number: usize| format!("member:{number}");
    fill(&mut client, &["HSET", "hash"], |number| vec![member(number), "1000".to_owned()]);
    fill(&mut client, &["ZADD", "scores"], |number| vec!["1000".to_owned(), member(number)]);
    fill(&mut client, &["SADD", "left"], |number| vec![member(2 * number)]);
    fill(&mut client, &["SADD", "right"], |number| vec![member(2 * number + 1)]);
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = SetAtEnd(&stops);
        for thread in 0..3_usize {
            let (mut client, stops) = (server.client(), &stops);
            scope.spawn(move || {
                let mut below = random_below(thread);
                while !stops.load(Ordering::Relaxed) {
                    let (from, to) = (member(below(LARGE_LEN)), member(below(LARGE_LEN)));
                    let (moved, amount) = (member(below(2 * LARGE_LEN)), below(100).to_string());
                    let debit = format!("-{amount}");
                    for request in [
                        &["MULTI"][..],
                        &["HINCRBY", "hash", &from, &debit],
                        &["HINCRBY", "hash", &to, &amount],
                        &["ZINCRBY", "scores", &debit, &from],
                        &["ZINCRBY", "scores", &amount, &to],
                        &["HDEL", "hash", "temporary"],
                        &["RENAME", "scores", "other"],
                        &["RENAME", "other", "scores"],
                        &["EXEC"],
                        &["SMOVE", "left", "right", &moved],
                        &["SMOVE", "right", "left", &from],
                    ] {
                        client.text(request);
                    }
                }
            });
        }
        let mut seen = Vec::new();
        for _ in 0..100 {
            let mut dump = save_in_background(&server, &mut client, &directory);
            let mut take = |key: &str| dump.hashes.remove(&(0, key.to_owned())).expect("a collection");
            let [hash, scores, mut left, right] = ["hash", "scores", "left", "right"].map(&mut take);
            let sum: i64 = hash.values().map(|value| value.parse::<i64>().unwrap()).sum();
            assert_eq!((hash.len(), sum), (LARGE_LEN, 1000 * LARGE_LEN as i64));
            // The same instant for both.
            assert!(hash == scores);
            left.extend(right);
            assert_eq!(left.len(), 2 * LARGE_LEN);
            seen.push(hash);
        }
        drop(stopping);
        seen.dedup();
        assert!(seen.len() > 50, "{} different states", seen.len());
    });
}

#[test]
fn large_lists_and_streams_are_saved_in_portions_as_they_were_at_the_cut() {
    let directory = Directory::new("ordered");
    let (server, mut client) = start(&directory, &["--io-threads", "2", "--snapshot-threads", "2"]);
    let item = |number: usize| format!("item:{number:05}");
    for list in ["ring", "left", "right"] {
        let offset = if list == "right" { LARGE_LEN } else { 0 };
        fill(&mut client, &["RPUSH", list], |number| vec![item(number + offset)]);
    }
    for number in 0..LARGE_LEN {
        client.text(&["XADD", "stream", "*", "number", &number.to_string()]);
    }
    client.text(&["SET", "added", &LARGE_LEN.to_string()]);
    client.text(&["XGROUP", "CREATE", "stream", "group", "$"]);
    let (stops, len) = (AtomicBool::new(false), LARGE_LEN.to_string());
    std::thread::scope(|scope| {
        let stopping = SetAtEnd(&stops);
        for thread in 0..3_usize {
            let (mut client, stops, len) = (server.client(), &stops, &len);
            scope.spawn(move || {
                let mut below = random_below(thread);
                while !stops.load(Ordering::Relaxed) {
                    let place = below(LARGE_LEN).to_string();
                    let turned: &[&str] = match below(2) {
                        0 => &["LMOVE", "ring", "ring", "LEFT", "RIGHT"],
                        _ => &["LMOVE", "ring", "ring", "RIGHT", "LEFT"],
                    };
                    let moved = client.text(&["LINDEX", "left", &place]);
                    let pivot = client.text(&["LINDEX", "right", &place]);
                    let is_there = |reply: &str| reply.starts_with("item:");
                    // Another thread may have moved it: each transaction is void then, as its first request finds nothing.
                    if is_there(&moved) && is_there(&pivot) {
                        let script = "if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 then \
                                      if redis.call('LINSERT', KEYS[2], 'BEFORE', ARGV[2], ARGV[1]) < 0 then \
                                      redis.call('RPUSH', KEYS[2], ARGV[1]) end end";
                        client.text(&["EVAL", script, "2", "left", "right", &moved, &pivot]);
                        client.text(&["EVAL", script, "2", "right", "left", &pivot, &moved]);
                    }
                    for request in [
                        turned,
                        &["LMOVE", "left", "right", "LEFT", "RIGHT"],
                        &["LMOVE", "right", "left", "RIGHT", "LEFT"],
                        &["MULTI"],
                        &["INCR", "added"],
                        &["XADD", "stream", "MAXLEN", len, "*", "thread", "again"],
                        &["EXEC"],
                    ] {
                        client.text(request);
                    }
                }
            });
        }
        let mut seen = Vec::new();
        for _ in 0..100 {
            let mut dump = save_in_background(&server, &mut client, &directory);
            let mut take = |key: &str| dump.lists.remove(&(0, key.to_owned())).expect("a collection");
            let [mut ring, mut left, right, stream] = ["ring", "left", "right", "stream"].map(&mut take);
            let first = ring.iter().position(|own| *own == item(0)).expect("it is there");
            ring.rotate_left(first);
            assert!(ring.iter().enumerate().all(|(number, own)| *own == item(number)));
            left.extend(right);
            left.sort();
            assert_eq!(left.len(), 2 * LARGE_LEN);
            assert!(left.iter().enumerate().all(|(number, own)| *own == item(number)));
            assert_eq!(stream.len(), LARGE_LEN);
            assert!(stream.is_sorted());
            // The same instant for both.
            let added = &dump.strings[&(0, "added".to_owned())];
            assert_eq!(dump.entries_added["stream"].to_string(), *added);
            seen.push(added.clone());
        }
        drop(stopping);
        seen.dedup();
        assert!(seen.len() > 50, "{} different states", seen.len());
    });
}

#[test]
fn flushed_and_swapped_databases_are_saved_as_at_the_cut() {
    let directory = Directory::new("flush");
    // So long that the requests below end before the save does, on a busy machine, too.
    let (server, mut client) = start(&directory, &["--rdb-key-save-delay", "3000"]);
    for number in 0..1000 {
        client.text(&["SET", &format!("key:{number}"), "zero"]);
    }
    let field = |number: usize| vec![format!("field:{number}"), "zero".to_owned()];
    for key in ["changed", "deleted", "flushed", "replaced"] {
        fill(&mut client, &["HSET", key], field);
    }
    client.text(&["SELECT", "1"]);
    for number in 0..1000 {
        client.text(&["SET", &format!("key:{number}"), "one"]);
    }
    fill(&mut client, &["HSET", "moved"], field);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    client.text(&["HDEL", "moved", "field:1"]);
    assert_eq!(client.text(&["MOVE", "moved", "2"]), "1");
    assert_eq!(client.text(&["BGSAVE"]), "ERR Background save already in progress");
    assert_eq!(client.text(&["SWAPDB", "0", "1"]), "OK");
    for number in (0..1000).step_by(7) {
        client.text(&["SET", &format!("key:{number}"), "new"]);
        client.text(&["RENAME", &format!("key:{}", number + 1), &format!("other:{number}")]);
    }
    client.text(&["HSET", "changed", "field:1", "new", "field:new", "new"]);
    client.text(&["DEL", "deleted"]);
    client.text(&["SET", "replaced", "new"]);
    assert_eq!(client.text(&["FLUSHDB"]), "OK");
    client.text(&["SET", "key:1", "newest"]);
    assert_eq!(server.info(&mut client, "rdb_bgsave_in_progress"), "1");
    wait_until_saved(&server, &mut client);
    let dump = read_dump(&directory.dump());
    assert_eq!(dump.strings.len(), 2000);
    let right = |((db, _), value): (&(u64, String), &String)| value == ["zero", "one"][*db as usize];
    assert!(dump.strings.iter().all(right));
    let expected: BTreeMap<_, _> =
        (0..LARGE_LEN).map(|number| (format!("field:{number}"), "zero".to_owned())).collect();
    assert_eq!(dump.hashes.len(), 5);
    assert!(dump.hashes.values().all(|fields| *fields == expected));
    assert!(dump.hashes.contains_key(&(1, "moved".to_owned())));
}

#[test]
fn a_save_is_cancelled_and_scheduled() {
    let directory = Directory::new("cancel");
    let (server, mut client) = start(&directory, &["--rdb-key-save-delay", "100000"]);
    for number in 0..1000 {
        client.text(&["SET", &format!("key:{number}"), "x"]);
    }
    let nothing = "ERR Background saving is currently not in progress or scheduled";
    assert_eq!(client.text(&["BGSAVE", "CANCEL"]), nothing);
    assert_eq!(client.text(&["BGSAVE", "FORKLESS"]), "Background saving started");
    assert_eq!(client.text(&["SAVE"]), "ERR Background save already in progress");
    assert_eq!(client.text(&["BGSAVE", "CANCEL"]), "Background saving cancelled");
    wait_until_saved(&server, &mut client);
    assert_eq!(server.info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(directory.names().is_empty());
    assert_eq!(client.text(&["BGSAVE", "WRONG"]), "ERR syntax error");
    client.text(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
    client.text(&["MULTI"]);
    client.text(&["BGSAVE"]);
    assert_eq!(client.text(&["EXEC"]), "Background saving scheduled");
    wait_for(|| directory.dump().exists().then_some(()));
    assert_eq!(read_dump(&directory.dump()).strings.len(), 1000);
}

/// The thread that rewrites needs a moment to begin its snapshot.
#[test]
fn a_save_waits_for_a_rewrite_that_is_about_to_begin() {
    let directory = Directory::new("rewrite-first");
    let (server, mut client) = start(&directory, &["--rdb-key-save-delay", "1000000"]);
    for number in 0..100 {
        client.text(&["SET", &format!("key:{number}"), "x"]);
    }
    client.send_raw(b"BGREWRITEAOF\r\nBGSAVE\r\nBGSAVE SCHEDULE\r\nBGSAVE CANCEL\r\n");
    let mut reply = || shown(&client.receive().unwrap());
    assert_eq!(reply(), "Background append only file rewriting started");
    let refused = reply();
    assert!(refused.starts_with("ERR Another child process is active (AOF?)"), "{refused}");
    assert_eq!(reply(), "Background saving scheduled");
    assert_eq!(reply(), "Scheduled background saving cancelled");
    assert_eq!(server.info(&mut client, "aof_rewrite_in_progress"), "1");
}

#[test]
fn a_failed_save_refuses_writes_until_one_succeeds() {
    let directory = Directory::new("failing");
    let (server, mut client) = start(&directory, &[]);
    assert_eq!(client.text(&["CONFIG", "SET", "save", "3600 1"]), "OK");
    client.text(&["SET", "key", "value"]);
    std::fs::remove_dir_all(&directory.0).unwrap();
    // Only a failure in the background refuses writes.
    assert_eq!(client.text(&["SAVE"]), "ERR");
    assert_eq!(server.info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    wait_until_saved(&server, &mut client);
    assert_eq!(server.info(&mut client, "rdb_last_bgsave_status"), "err");
    let refused = client.text(&["SET", "key", "other"]);
    assert!(refused.starts_with("MISCONF Valkey is configured to save RDB snapshots"), "{refused}");
    assert!(client.text(&["PING"]).starts_with("MISCONF"));
    assert_eq!(client.text(&["GET", "key"]), "value");
    assert_eq!(client.text(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]), "OK");
    assert_eq!(client.text(&["SET", "key", "other"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"]), "OK");
    assert!(client.text(&["SET", "key", "again"]).starts_with("MISCONF"));
    assert_eq!(client.text(&["SHUTDOWN"]), "ERR Errors trying to SHUTDOWN. Check logs.");
    server.log_line("can't exit");
    std::fs::create_dir_all(&directory.0).unwrap();
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    wait_until_saved(&server, &mut client);
    assert_eq!(client.text(&["SET", "key", "again"]), "OK");
    assert_eq!(directory.names(), ["dump.rdb"]);
    assert_eq!(client.text(&["CONFIG", "SET", "rdb-version", "11"]), "OK");
    client.text(&["HSET", "hash", "field", "value"]);
    client.text(&["HEXPIRE", "hash", "1000", "FIELDS", "1", "field"]);
    assert_eq!(client.text(&["SAVE"]), "ERR");
    server.log_line("rdb-version 11 can't hold the expiries of hash fields");
    assert_eq!(directory.names(), ["dump.rdb"]);
}

#[test]
fn changes_wait_when_a_save_falls_behind() {
    let directory = Directory::new("behind");
    // The save waits long after its first keys.
    let options =
        ["--rdb-key-save-delay", "100000000", "--rdbcompression", "no", "--snapshot-buffer-size", "32mb"];
    let (server, mut client) = start(&directory, &options);
    let value = "x".repeat(1 << 20);
    for number in 0..60 {
        client.text(&["SET", &format!("key:{number}"), &value]);
    }
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    let mut other = server.client();
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for number in 0..60 {
                assert_eq!(client.text(&["SET", &format!("key:{number}"), "short"]), "OK");
            }
        });
        let kept = wait_for(|| {
            let size: usize = server.info(&mut other, "current_cow_size").parse().unwrap();
            (size >= 32 << 20).then_some(size)
        });
        assert!(kept < 34 << 20, "{kept} bytes are kept");
        // Reads do not wait.
        assert_eq!(other.text(&["GET", "key:0"]), "short");
        assert_eq!(other.text(&["STRLEN", "key:59"]), (1 << 20).to_string());
        assert!(!changing.is_finished());
        assert_eq!(other.text(&["BGSAVE", "CANCEL"]), "Background saving cancelled");
        changing.join().unwrap();
    });
    wait_until_saved(&server, &mut other);
    assert_eq!(server.info(&mut other, "current_cow_size"), "0");
    assert!(directory.names().is_empty());
}

#[test]
fn save_points_save() {
    let directory = Directory::new("points");
    let (server, mut client) = start(&directory, &[]);
    assert_eq!(client.text(&["CONFIG", "SET", "save", "1 3"]), "OK");
    for number in 0..3 {
        client.text(&["SET", &format!("key:{number}"), "x"]);
    }
    server.log_line("3 changes in 1 seconds. Saving...");
    wait_for(|| directory.dump().exists().then_some(()));
    assert_eq!(read_dump(&directory.dump()).strings.len(), 3);
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    wait_for(|| read_dump(&directory.dump()).strings.is_empty().then_some(()));
}

#[test]
fn a_shutdown_saves_acknowledged_writes() {
    for how in ["SAVE", "NOSAVE", "SIGTERM", "SIGTERM under load"] {
        let directory = Directory::new("shutdown");
        let (mut server, mut client) = start(&directory, &["--rdb-key-save-delay", "20"]);
        for number in 0..2000 {
            client.text(&["SET", &format!("key:{number}"), "x"]);
        }
        let mut acknowledged = 0;
        match how {
            "SAVE" | "NOSAVE" => {
                client.send(&["SHUTDOWN", how]);
                assert_eq!(client.receive(), None);
            }
            "SIGTERM" => {
                client.text(&["CONFIG", "SET", "save", "3600 1"]);
                server.signal("TERM");
            }
            _ => {
                client.text(&["CONFIG", "SET", "save", "3600 1"]);
                server.signal("TERM");
                loop {
                    client.send_raw_if_open(b"*3\r\n$3\r\nSET\r\n$5\r\ncount\r\n$1\r\n1\r\n");
                    client.send_raw_if_open(b"*2\r\n$4\r\nINCR\r\n$5\r\ntotal\r\n");
                    let (Some(_), Some(total)) = (client.receive(), client.receive()) else { break };
                    acknowledged = support::shown(&total).parse().unwrap();
                }
            }
        }
        assert!(server.wait());
        if how == "NOSAVE" {
            assert!(directory.names().is_empty());
            continue;
        }
        assert_eq!(directory.names(), ["dump.rdb"], "{how}");
        let dump = read_dump(&directory.dump());
        assert!(dump.strings.len() >= 2000, "{how}");
        let total = dump.strings.get(&(0, "total".to_owned())).map_or(0, |total| total.parse().unwrap());
        assert!(total >= acknowledged, "{how}: {total} of {acknowledged}");
    }
}

#[test]
fn a_pending_shutdown_is_aborted() {
    let directory = Directory::new("abort");
    let (server, mut client) = start(&directory, &["--rdb-key-save-delay", "100000"]);
    for number in 0..1000 {
        client.text(&["SET", &format!("key:{number}"), "x"]);
    }
    assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "ERR No shutdown in progress.");
    let mut other = server.client();
    other.send(&["SHUTDOWN", "SAVE"]);
    server.log_line("Saving the final RDB snapshot before exiting.");
    wait_for(|| (client.text(&["SHUTDOWN", "ABORT"]) == "OK").then_some(()));
    assert_eq!(
        other.receive().map(|reply| support::shown(&reply)).as_deref(),
        Some("ERR Errors trying to SHUTDOWN. Check logs.")
    );
    assert_eq!(client.text(&["SET", "key", "value"]), "OK");
    wait_until_saved(&server, &mut client);
    assert!(directory.names().is_empty());
}

#[test]
fn a_save_says_what_its_version_leaves_out() {
    let directory = Directory::new("left-out");
    let (server, mut client) = start(&directory, &["--rdb-version", "9"]);
    client.text(&["XADD", "whole", "1-1", "a", "1"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    assert!(!server.has_logged("rdb-version 9 has no place"));
    for request in
        ["XADD deleted 1-1 a 1", "XADD deleted 2-1 a 1", "XDEL deleted 2-1", "XADD grouped 1-1 a 1"]
    {
        client.text(&request.split(' ').collect::<Vec<_>>());
    }
    client.text(&["XGROUP", "CREATE", "grouped", "group", "0"]);
    client.text(&["XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "grouped", ">"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    server.log_line("rdb-version 9 has no place for parts of 2 streams");
    // The expiries of fields are not left out.
    client.text(&["HSET", "hash", "a", "1"]);
    client.text(&["HEXPIRE", "hash", "1000", "FIELDS", "1", "a"]);
    assert!(client.text(&["SAVE"]).starts_with("ERR"));
    client.text(&["CONFIG", "SET", "rdb-version", "auto"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
}

#[test]
fn a_delay_of_keys_may_be_less_than_a_millisecond() {
    let directory = Directory::new("short-delay");
    let (_server, mut client) = start(&directory, &["--rdb-key-save-delay", "900"]);
    (0..200).for_each(|key| drop(client.text(&["SET", &key.to_string(), ""])));
    let begun = std::time::Instant::now();
    assert_eq!(client.text(&["SAVE"]), "OK");
    assert!(begun.elapsed().as_micros() >= 200 * 900);
}

//! The append-only file of a running server: it contains acknowledged writes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::directory::Directory;
use crate::support::{Client, Server, shown, wait_for};

const CLIENT_COUNT: usize = 4;

fn increment(directory: &Directory) -> Vec<u8> {
    std::fs::read(directory.path("appendonlydir/appendonly.aof.1.incr.aof")).unwrap()
}

/// The names of a directory in order, without the file that locks it.
fn without_lock(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// The keys of the `SET` requests in a file.
fn keys_in(file: &[u8]) -> HashSet<String> {
    let text = String::from_utf8(file.to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let mut keys = HashSet::new();
    while let Some(line) = lines.next() {
        if line == "SET" {
            keys.insert(lines.nth(1).unwrap_or_default().to_owned());
        }
    }
    keys
}

#[test]
fn requests_are_in_the_file_in_their_order() {
    let directory = Directory::new("aof-order");
    let mut server = Server::start(&["--dir", &directory.path(""), "--appendonly", "yes"]);
    let mut client = server.client();
    for words in [&["SELECT", "3"][..], &["SET", "a", "1", "EX", "100"], &["GET", "a"], &["SELECT", "0"]] {
        client.text(words);
    }
    client.send_raw(b"MULTI\r\nINCR b\r\nSPOP none\r\nINCR b\r\nEXEC\r\nRPUSH l x\r\n");
    (0..6).for_each(|_| drop(client.receive().unwrap()));
    server.signal("TERM");
    assert!(server.wait());
    let file = String::from_utf8(increment(&directory)).unwrap();
    let words: Vec<&str> = file.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
    let text = words.join(" ");
    let (before, behind) = text.split_once(" PXAT ").unwrap();
    assert_eq!(before, "SELECT 3 SET a 1");
    let behind = behind.split_once(' ').unwrap().1;
    assert_eq!(behind, "SELECT 0 MULTI INCR b INCR b EXEC RPUSH l x ");
}

/// Kills a server and starts it again on its files. Returns it with the digest of the data before.
fn restart(mut server: Server, options: &[&str]) -> (Server, String) {
    let digest = server.client().text(&["DEBUG", "DIGEST"]);
    server.signal("KILL");
    server.wait();
    (Server::start(options), digest)
}

#[test]
fn a_restarted_server_has_the_data() {
    let directory = Directory::new("aof-restart");
    let dir = directory.path("");
    let options =
        ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let mut server = Server::start(&options);
    for round in 0..3 {
        let mut client = server.client();
        for words in [
            &["INCR", "rounds"][..],
            &["RPUSH", "l", "a", "b", "c"],
            &["LPOP", "l"],
            &["SADD", "s", "1", "2", "3", "x"],
            &["SPOP", "s", "2"],
            &["XADD", "x", "*", "f", "v"],
            &["HSET", "h", "f", "1", "g", "2"],
            &["HPEXPIRE", "h", "100000", "FIELDS", "1", "f"],
            &["ZADD", "z", "1.5", "m"],
            &["SET", "volatile", "1", "PX", "100000"],
        ] {
            client.text(words);
        }
        if round == 1 {
            assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
            server.log_line("Background AOF rewrite finished successfully");
        }
        let (next, digest) = restart(server, &options);
        server = next;
        let mut client = server.client();
        assert_eq!(client.text(&["GET", "rounds"]), (round + 1).to_string());
        assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest, "round {round}");
    }
}

#[test]
fn a_rewrite_that_is_ordered_while_the_file_is_being_switched_off_is_done() {
    let directory = Directory::new("aof-ending");
    let server = Server::start(&["--dir", &directory.path(""), "--enable-debug-command", "yes"]);
    let mut client = server.client();
    for round in ["1", "2", "3"] {
        assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
        client.text(&["WAITAOF", "1", "0", "0"]);
        // A rewrite that takes long, whose end takes time.
        client.text(&["CONFIG", "SET", "rdb-key-save-delay", "10000000"]);
        client.text(&["BGREWRITEAOF"]);
        client.send_raw(b"CONFIG SET appendonly no\r\nCONFIG SET rdb-key-save-delay 0\r\n");
        client.send_raw(format!("SET key {round}\r\nBGREWRITEAOF\r\n").as_bytes());
        assert_eq!([(); 3].map(|()| shown(&client.receive().unwrap())), ["OK"; 3]);
        let reply = shown(&client.receive().unwrap());
        if reply.contains("in progress") {
            // The former rewrite has not ended yet.
            wait_for(|| (!client.text(&["BGREWRITEAOF"]).contains("in progress")).then_some(()));
        }
        wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
        assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
        assert_eq!(client.text(&["GET", "key"]), round);
    }
}

#[test]
fn replaced_files_stay_until_the_directive_lets_them_go() {
    let directory = Directory::new("aof-history");
    let dir = directory.path("");
    let server = Server::start(&["--dir", &dir, "--appendonly", "yes", "--aof-disable-auto-gc", "yes"]);
    let mut client = server.client();
    client.text(&["BGREWRITEAOF"]);
    wait_for(|| (server.info(&mut client, "aof_rewrites") == "1").then_some(()));
    let files = || {
        let names = std::fs::read_dir(directory.path("appendonlydir")).unwrap();
        without_lock(names.map(|entry| entry.unwrap().file_name().into_string().unwrap()))
    };
    let current = ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"];
    let former = ["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof"];
    assert_eq!(files(), [&former[..], &current].concat());
    let manifest = std::fs::read_to_string(directory.path("appendonlydir/appendonly.aof.manifest")).unwrap();
    assert_eq!(manifest.lines().filter(|line| line.ends_with("type h")).count(), 2, "{manifest}");
    assert_eq!(client.text(&["CONFIG", "SET", "aof-disable-auto-gc", "no"]), "OK");
    wait_for(|| (files() == current).then_some(()));
}

#[test]
fn the_append_only_file_is_switched_on_and_off() {
    let directory = Directory::new("aof-switch");
    let dir = directory.path("");
    let debug = ["--dir", &dir, "--enable-debug-command", "yes"];
    let server = Server::start(&debug);
    let mut client = server.client();
    assert_eq!(client.text(&["SET", "before", "1"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!(client.text(&["SET", "during", "2"]), "OK");
    server.log_line("Background AOF rewrite finished successfully");
    assert_eq!(client.text(&["SET", "after", "3"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SET", "behind", "4"]), "OK");
    assert!(client.text(&["WAITAOF", "1", "0", "0"]).contains("appendonly is disabled"));
    let options = [&debug[..], &["--appendonly", "yes"]].concat();
    let (server, _) = restart(server, &options);
    let found = server.client().text(&["MGET", "before", "during", "after", "behind"]);
    assert_eq!(found, "1\n2\n3\n");
}

#[test]
fn waits_end_when_the_file_is_switched_off() {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "no"]);
    let mut client = server.client();
    client.text(&["SET", "k", "1"]);
    client.send(&["WAITAOF", "1", "0", "0"]);
    client.expect_no_data(std::time::Duration::from_millis(50));
    assert_eq!(server.client().text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert!(shown(&client.receive().unwrap()).contains("appendonly is disabled"));
}

#[test]
fn a_snapshot_follows_a_change_of_its_delay() {
    let server = Server::start(&["--rdb-key-save-delay", "100000000"]);
    let mut client = server.client();
    client.text(&["SET", "k", "1"]);
    client.text(&["BGSAVE"]);
    assert_eq!(client.text(&["CONFIG", "SET", "rdb-key-save-delay", "0"]), "OK");
    server.log_line("Background saving terminated with success");
}

/// As in Valkey.
#[test]
fn a_rewrite_of_a_file_that_is_switched_off_writes_a_base_only() {
    let directory = Directory::new("aof-base-only");
    let dir = directory.path("");
    let options = ["--dir", &dir, "--enable-debug-command", "yes"];
    let server = Server::start(&options);
    let mut client = server.client();
    let files = || {
        let entries = std::fs::read_dir(directory.path("appendonlydir")).unwrap();
        without_lock(entries.map(|it| it.unwrap().file_name().into_string().unwrap()))
    };
    for (number, form) in [("1", "base.rdb"), ("2", "base.aof"), ("3", "base.rdb")] {
        assert_eq!(client.text(&["SET", "key", number]), "OK");
        let is_rdb = if form == "base.rdb" { "yes" } else { "no" };
        assert_eq!(client.text(&["CONFIG", "SET", "aof-use-rdb-preamble", is_rdb]), "OK");
        assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
        wait_for(|| (server.info(&mut client, "aof_rewrites") == number).then_some(()));
        wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
        let base = format!("appendonly.aof.{number}.{form}");
        assert_eq!(files(), [base, "appendonly.aof.manifest".to_owned()]);
    }
    let (server, _) = restart(server, &[&options[..], &["--appendonly", "yes"]].concat());
    assert_eq!(server.client().text(&["GET", "key"]), "3");
}

#[test]
fn expiries_are_recorded_in_the_file() {
    let directory = Directory::new("aof-expiry");
    let server = Server::start(&["--dir", &directory.path(""), "--appendonly", "yes"]);
    let mut client = server.client();
    for words in [
        &["SET", "key", "1", "PX", "1"][..],
        &["HSET", "hash", "gone", "1", "stays", "2"],
        &["HPEXPIRE", "hash", "1", "FIELDS", "1", "gone"],
    ] {
        client.text(words);
    }
    wait_for(|| {
        let file = String::from_utf8(increment(&directory)).unwrap();
        let has = |text: &str| file.contains(text);
        (has("\r\nUNLINK\r\n$3\r\nkey\r\n") && has("\r\nHDEL\r\n$4\r\nhash\r\n$4\r\ngone\r\n")).then_some(())
    });
}

#[test]
fn switching_off_during_the_start_leaves_no_files() {
    let directory = Directory::new("aof-flip");
    let server = Server::start(&["--dir", &directory.path("")]);
    let mut client = server.client();
    for _ in 0..20 {
        client.send_raw(b"CONFIG SET appendonly yes\r\nSET a 1\r\nCONFIG SET appendonly no\r\n");
        (0..3).for_each(|_| assert_eq!(shown(&client.receive().unwrap()), "OK"));
    }
    assert_eq!(server.info(&mut client, "aof_enabled"), "0");
    assert_eq!(client.text(&["GET", "a"]), "1");
}

#[test]
fn acknowledged_writes_survive_a_killed_server() {
    let directory = Directory::new("aof-kill");
    let dir = directory.path("");
    let options = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "always", "--io-threads", "2"];
    let server = Server::start(&options);
    let is_over = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENT_COUNT)
            .map(|number| {
                let (mut client, is_over) = (server.client(), &is_over);
                scope.spawn(move || set_until_closed(&mut client, number, is_over))
            })
            .collect();
        wait_for(|| (increment(&directory).len() > 20_000).then_some(()));
        server.signal("KILL");
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let keys = keys_in(&increment(&directory));
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    let missing: Vec<_> = acknowledged.iter().filter(|key| !keys.contains(*key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Sets keys, two at a time, until the connection ends. Returns the acknowledged ones.
fn set_until_closed(client: &mut Client, number: usize, is_over: &AtomicBool) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for nth in 0.. {
        let keys = [0, 1].map(|of_pair| format!("key:{number}:{nth}:{of_pair}"));
        let requests =
            keys.each_ref().map(|key| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nx\r\n", key.len()));
        client.send_raw_if_open(requests.concat().as_bytes());
        for key in keys {
            match client.receive() {
                Some(_) => acknowledged.push(key),
                None => {
                    assert!(is_over.load(Ordering::Relaxed), "the server stays until it is killed");
                    return acknowledged;
                }
            }
        }
    }
    acknowledged
}

#[test]
fn the_wait_for_the_disk_includes_the_first_base() {
    let directory = Directory::new("aof-first-base");
    let options = ["--dir", &directory.path(""), "--enable-debug-command", "yes"];
    let server = Server::start(&options);
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "500"]);
    assert_eq!(client.text(&["CONFIG", "SET", "rdb-key-save-delay", "1000"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    // Until a change is behind the cut: it is synchronised with the end of the base, before a sync is due.
    while server.info(&mut client, "aof_current_size") == "0" {
        client.text(&["SET", "key", "value"]);
    }
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    assert_eq!(server.info(&mut client, "aof_rewrites"), "1");
    let (server, digest) = restart(server, &[&options[..], &["--appendonly", "yes"]].concat());
    assert_eq!(server.client().text(&["DEBUG", "DIGEST"]), digest);
}

/// The number of threads of a server that write an append-only file.
fn writer_count(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    // A thread may end in the meantime.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name == "append-only\n").count()
}

#[test]
fn one_thread_at_a_time_writes_the_file_however_it_is_switched() {
    let directory = Directory::new("aof-switching");
    let server = Server::start(&["--dir", &directory.path(""), "--io-threads", "2"]);
    let mut client = server.client();
    client.text(&["SET", "k", "v"]);
    std::thread::scope(|scope| {
        let switching = scope.spawn(|| {
            let mut client = server.client();
            for _ in 0..200 {
                assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
                assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
            }
        });
        while !switching.is_finished() {
            client.text(&["BGREWRITEAOF"]);
        }
    });
    wait_for(|| (writer_count(&server) == 0).then_some(()));
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
    client.text(&["SET", "k", "w"]);
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    assert_eq!(writer_count(&server), 1);
}

//! Servers of a replication that start again from their append-only files: their data have a position in the stream, so no
//! transfer of all data follows, and both have the same data.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rdb::Version;

use crate::support::directory::Directory;
use crate::support::rdb_file::RdbFile;
use crate::support::{self, Client, Server, info_field as field, wait_for};

/// Options of a primary without a file.
const PRIMARY: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];

/// Options of a server with an append-only file.
fn options<'a>(directory: &'a str, policy: &'a str) -> Vec<&'a str> {
    vec![
        "--dir",
        directory,
        "--appendonly",
        "yes",
        "--appendfsync",
        policy,
        "--enable-debug-command",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
    ]
}

/// Options of a server with an append-only file that replicates a server on this port.
fn options_of_replica<'a>(directory: &'a str, policy: &'a str, port: &'a str) -> Vec<&'a str> {
    [options(directory, policy), vec!["--replicaof", "127.0.0.1", port]].concat()
}

fn await_link(replica: &mut Client) {
    wait_for(|| (field(replica, "replication", "master_link_status") == "up").then_some(()));
}

/// The numbers of full and partial synchronisations of a primary.
fn synchronisations(primary: &mut Client) -> (u64, u64) {
    let count = |client: &mut Client, name| field(client, "stats", name).parse().unwrap();
    (count(primary, "sync_full"), count(primary, "sync_partial_ok"))
}

fn expect_equal(primary: &mut Client, replica: &mut Client) {
    primary.text(&["SET", "last", "1"]);
    assert_eq!(primary.text(&["WAIT", "1", "20000"]), "1");
    assert_eq!(primary.text(&["DEBUG", "DIGEST"]), replica.text(&["DEBUG", "DIGEST"]));
}

/// Changes data in several databases, once.
fn change(client: &mut Client, number: u64) {
    client.text(&["SELECT", &(number % 3).to_string()]);
    client.text(&["SET", &format!("key:{}", number % 500), &number.to_string()]);
    client.text(&["INCR", "count"]);
    client.send_raw(b"MULTI\r\nRPUSH list x\r\nSELECT 5\r\nINCR count\r\nEXEC\r\n");
    (0..5).for_each(|_| drop(client.receive().unwrap()));
    if number.is_multiple_of(7) {
        client.text(&["PUBLISH", "channel", "message"]);
    }
}

/// What changes have left.
fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in ["0", "1", "2", "5"] {
        client.text(&["SELECT", db]);
        all.extend([&["DBSIZE"][..], &["GET", "count"], &["LLEN", "list"]].map(|words| client.text(words)));
    }
    client.text(&["SELECT", "0"]);
    all
}

/// Runs `body` while a client of a server changes data.
fn under_load<T>(server: &Server, body: impl FnOnce(&AtomicU64) -> T) -> T {
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                change(&mut client, count.fetch_add(1, Ordering::Relaxed));
            }
        });
        let result = body(&count);
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// The file with the changes.
fn increment(directory: &Directory) -> std::path::PathBuf {
    let files = std::fs::read_dir(directory.path("appendonlydir")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_str().unwrap().ends_with(".incr.aof")).unwrap()
}

fn end(server: &mut Server, signal: &str) {
    server.signal(signal);
    server.wait();
}

#[test]
fn a_replica_continues_from_its_append_only_file() {
    for policy in ["always", "everysec"] {
        let directory = Directory::new(&format!("replica-restarts-{policy}"));
        let dir = directory.path("");
        let primary = Server::start(PRIMARY);
        let (mut there, port) = (primary.client(), primary.port.to_string());
        let options = options_of_replica(&dir, policy, &port);
        there.text(&["DEBUG", "POPULATE", "1000"]);
        let mut replica = Server::start(&options);
        let mut here = replica.client();
        await_link(&mut here);
        wait_for(|| (field(&mut here, "persistence", "aof_rewrite_in_progress") == "0").then_some(()));
        wait_for(|| (field(&mut here, "persistence", "aof_rewrites") != "0").then_some(()));
        let kinds = ["KILL", "TERM", "KILL", "KILL", "TERM"];
        under_load(&primary, |count| {
            for (restart, kind) in kinds.into_iter().enumerate() {
                let from = count.load(Ordering::Relaxed);
                wait_for(|| (count.load(Ordering::Relaxed) > from + 100).then_some(()));
                if restart == 3 {
                    // The file continues behind another base.
                    here.text(&["BGREWRITEAOF"]);
                    wait_for(|| (field(&mut here, "persistence", "aof_rewrites") == "1").then_some(()));
                }
                end(&mut replica, kind);
                replica = Server::start(&options);
                here = replica.client();
                await_link(&mut here);
            }
        });
        expect_equal(&mut there, &mut here);
        assert_eq!(synchronisations(&mut there), (1, kinds.len() as u64), "{policy}");
        // Idle, and without the last bytes.
        end(&mut replica, "KILL");
        let file = std::fs::OpenOptions::new().write(true).open(increment(&directory)).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(size - 10).unwrap();
        let replica = Server::start(&options);
        let mut here = replica.client();
        await_link(&mut here);
        expect_equal(&mut there, &mut here);
        assert_eq!(synchronisations(&mut there).0, 2, "{policy}");
    }
}

#[test]
fn the_replicas_of_a_restarted_primary_continue() {
    for policy in ["always", "everysec"] {
        let directory = Directory::new(&format!("primary-restarts-{policy}"));
        let dir = directory.path("");
        let mut primary = Server::start(&options(&dir, policy));
        let replica = Server::start(&["--enable-debug-command", "yes"]);
        let (mut there, mut here) = (primary.client(), replica.client());
        here.text(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
        await_link(&mut here);
        for (restart, kind) in ["TERM", "KILL", "TERM", "KILL"].into_iter().enumerate() {
            under_load(&primary, |count| {
                wait_for(|| (count.load(Ordering::Relaxed) > 100).then_some(()));
            });
            if restart == 1 {
                there.text(&["BGREWRITEAOF"]);
                wait_for(|| (field(&mut there, "persistence", "aof_rewrites") == "1").then_some(()));
            }
            there.text(&["PUBLISH", "channel", "only for replicas"]);
            let offset = field(&mut there, "replication", "master_repl_offset");
            let id = field(&mut there, "replication", "master_replid");
            wait_for(|| (field(&mut here, "replication", "slave_repl_offset") == offset).then_some(()));
            if kind == "KILL" {
                // Until the file has the position of the message.
                let name = directory.path("appendonlydir");
                let line = format!("#REPL:{id} {offset} 0\r\n").into_bytes();
                wait_for(|| {
                    std::fs::read_dir(&name).unwrap().find_map(|entry| {
                        let file = std::fs::read(entry.unwrap().path()).unwrap();
                        file.ends_with(&line).then_some(())
                    })
                });
            }
            end(&mut primary, kind);
            primary = Server::start(&options(&dir, policy));
            there = primary.client();
            assert_eq!(field(&mut there, "replication", "master_replid2"), id);
            assert_eq!(field(&mut there, "replication", "master_repl_offset"), offset);
            here.text(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
            await_link(&mut here);
            expect_equal(&mut there, &mut here);
            assert_eq!(synchronisations(&mut there), (0, 1), "{policy} {restart}");
        }
    }
}

/// Another server that has appended to the file has left no position behind its changes.
#[test]
fn changes_of_other_servers_have_no_position() {
    for program in support::peers() {
        let directory = Directory::new("replica-elsewhere");
        let dir = directory.path("");
        let primary = Server::start(PRIMARY);
        let (mut there, port) = (primary.client(), primary.port.to_string());
        let of_replica = options_of_replica(&dir, "always", &port);
        let mut replica = Server::start(&of_replica);
        let mut here = replica.client();
        await_link(&mut here);
        wait_for(|| (field(&mut here, "persistence", "aof_rewrites") == "1").then_some(()));
        (0..10).for_each(|number| change(&mut there, number));
        expect_equal(&mut there, &mut here);
        let expected = contents(&mut there);
        end(&mut replica, "KILL");
        let mut other = Server::start_program(program.to_str().unwrap(), &[], &options(&dir, "always"));
        let mut client = other.client();
        assert_eq!(contents(&mut client), expected, "{program:?} reads the file");
        client.text(&["SET", "own", "1"]);
        end(&mut other, "KILL");
        let replica = Server::start(&of_replica);
        let mut here = replica.client();
        await_link(&mut here);
        expect_equal(&mut there, &mut here);
        assert_eq!(synchronisations(&mut there), (2, 0));
    }
}

/// A primary with an append-only file, and its replica.
struct Pair {
    options: Vec<String>,
    primary: Server,
    replica: Server,
}

impl Pair {
    fn start(directory: &Directory) -> Self {
        let options: Vec<String> =
            options(&directory.path(""), "always").into_iter().map(str::to_owned).collect();
        let primary = Server::start(&words(&options));
        let replica = Server::start(&["--enable-debug-command", "yes"]);
        let mut pair = Self { options, primary, replica };
        pair.follow();
        pair
    }

    /// Makes the replica follow the primary, wherever that is now.
    fn follow(&mut self) {
        let mut here = self.replica.client();
        here.text(&["REPLICAOF", "127.0.0.1", &self.primary.port.to_string()]);
        await_link(&mut here);
    }

    /// Ends the primary, and starts it again after `body`. Returns its full and partial synchronisations, when the replica has the
    /// same data.
    fn restart(&mut self, body: impl FnOnce()) -> (u64, u64) {
        end(&mut self.primary, "TERM");
        body();
        self.primary = Server::start(&words(&self.options));
        self.follow();
        let mut there = self.primary.client();
        expect_equal(&mut there, &mut self.replica.client());
        synchronisations(&mut there)
    }
}

fn words(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// The data of the file are others than those that replicas have, until it is rewritten.
#[test]
fn a_file_without_what_replicas_have_has_no_position() {
    let directory = Directory::new("primary-lacks");
    let mut pair = Pair::start(&directory);
    let mut there = pair.primary.client();
    there.text(&["SET", "a", "1"]);
    let script =
        "redis.set_repl(redis.REPL_REPLICA);redis.call('set',KEYS[1],2);redis.set_repl(redis.REPL_ALL)";
    there.text(&["EVAL", script, "1", "a"]);
    there.text(&["SET", "b", "1"]);
    assert_eq!(pair.restart(|| ()), (1, 0));
    let mut there = pair.primary.client();
    assert_eq!(there.text(&["GET", "a"]), "1");
    there.text(&["EVAL", script, "1", "a"]);
    there.text(&["BGREWRITEAOF"]);
    wait_for(|| (field(&mut there, "persistence", "aof_rewrites") == "1").then_some(()));
    there.text(&["SET", "b", "2"]);
    assert_eq!(pair.restart(|| ()), (0, 1));
    assert_eq!(pair.primary.client().text(&["GET", "a"]), "2");
}

/// They are deleted in the stream after the restart, as replicas have them.
#[test]
fn keys_that_expire_while_the_primary_is_down_are_deleted_by_it() {
    let directory = Directory::new("primary-expires");
    let mut pair = Pair::start(&directory);
    let (mut there, mut here) = (pair.primary.client(), pair.replica.client());
    for words in
        ["DEBUG SET-ACTIVE-EXPIRE 0", "SET text v PX 50", "HSET hash a 1 b 2", "HPEXPIRE hash 50 FIELDS 1 a"]
    {
        there.text(&words.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(there.text(&["WAIT", "1", "20000"]), "1");
    end(&mut pair.primary, "TERM");
    wait_for(|| (here.text(&["EXISTS", "text"]) == "0").then_some(()));
    wait_for(|| here.text(&["HGET", "hash", "a"]).is_empty().then_some(()));
    assert_eq!(here.text(&["DBSIZE"]), "2");
    pair.primary = Server::start(&words(&pair.options));
    pair.follow();
    let mut there = pair.primary.client();
    wait_for(|| (here.text(&["DBSIZE"]) == "1" && here.text(&["HLEN", "hash"]) == "1").then_some(()));
    expect_equal(&mut there, &mut here);
    assert_eq!(synchronisations(&mut there), (0, 1));
}

/// The usual way to take an accidental `FLUSHALL` back.
#[test]
fn an_edited_file_has_no_position() {
    let directory = Directory::new("primary-edited");
    let mut pair = Pair::start(&directory);
    let mut there = pair.primary.client();
    there.text(&["SET", "a", "1"]);
    there.text(&["FLUSHALL"]);
    let edit = || {
        let request = b"*1\r\n$8\r\nFLUSHALL\r\n";
        let name = increment(&directory);
        let mut file = std::fs::read(&name).unwrap();
        let place = file.windows(request.len()).position(|part| part == request).unwrap();
        file.drain(place..place + request.len());
        std::fs::write(name, file).unwrap();
    };
    assert_eq!(pair.restart(edit), (1, 0));
    assert_eq!(pair.replica.client().text(&["GET", "a"]), "1");
}

/// Changes by clients of a writable replica are in its file, and may have selected another database there.
#[test]
fn a_file_with_local_changes_has_no_position() {
    let directory = Directory::new("replica-writable");
    let dir = directory.path("");
    let primary = Server::start(PRIMARY);
    let (mut there, port) = (primary.client(), primary.port.to_string());
    let options = options_of_replica(&dir, "always", &port);
    let mut replica = Server::start(&options);
    for (writes, expected) in [(false, (1, 1)), (true, (2, 1)), (false, (2, 2))] {
        let mut here = replica.client();
        await_link(&mut here);
        wait_for(|| (field(&mut here, "persistence", "aof_rewrite_in_progress") == "0").then_some(()));
        there.text(&["SET", "a", "1"]);
        assert_eq!(there.text(&["WAIT", "1", "20000"]), "1");
        if writes {
            here.text(&["CONFIG", "SET", "replica-read-only", "no"]);
            here.text(&["SELECT", "7"]);
            here.text(&["SET", "local", "1"]);
            here.text(&["CONFIG", "SET", "replica-read-only", "yes"]);
        }
        end(&mut replica, "TERM");
        replica = Server::start(&options);
        let mut here = replica.client();
        await_link(&mut here);
        expect_equal(&mut there, &mut here);
        assert_eq!(synchronisations(&mut there), expected, "{writes}");
    }
}

#[test]
fn a_position_at_the_end_of_all_numbers_is_not_taken_up() {
    for offset in [i64::MAX as u64, u64::MAX] {
        let directory = Directory::new("restart-offset");
        let file = RdbFile::new(Version::V11)
            .property("repl-id", &"1".repeat(40))
            .property("repl-offset", &offset.to_string());
        std::fs::write(directory.path("dump.rdb"), file.finish()).unwrap();
        let server = Server::start(&["--dir", &directory.path("")]);
        let mut client = server.client();
        assert_eq!(field(&mut client, "replication", "second_repl_offset"), "-1");
        assert_eq!(field(&mut client, "replication", "master_repl_offset"), "0");
    }
}

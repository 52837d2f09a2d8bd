//! A whole server on a disk that fails: a library in front of the C library lets system calls fail
//! (`support/failing_disk.c`).

use std::process::Command;

use crate::support::directory::Directory;
use crate::support::{self, Client, Server, wait_for};

/// A disk whose failures a test decides.
struct Disk {
    directory: Directory,
}

impl Disk {
    fn new(name: &str) -> Self {
        let directory = Directory::new(name);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/failing_disk.c");
        let library = directory.path("failing_disk.so");
        let status =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source, "-ldl"]).status();
        assert!(status.unwrap().success());
        std::fs::create_dir(directory.path("data")).unwrap();
        Self { directory }
    }

    /// From now on calls fail as this word says.
    fn set(&self, word: &str) {
        let next = self.directory.path("next");
        std::fs::write(&next, word).unwrap();
        std::fs::rename(&next, self.directory.path("word")).unwrap();
    }

    fn start(&self, options: &[&str]) -> Server {
        let (library, word) = (self.directory.path("failing_disk.so"), self.directory.path("word"));
        let data = self.directory.path("data");
        let options = [&["--dir", &data, "--enable-debug-command", "yes"], options].concat();
        Server::start_in(&[("LD_PRELOAD", &library), ("DISK_WORD", &word)], &options)
    }
}

/// Waits until a write has failed: from then on changes are refused.
fn await_failure(client: &mut Client) {
    let is_failing = |text: String| text.contains("aof_last_write_status:err");
    wait_for(|| is_failing(client.text(&["INFO", "persistence"])).then_some(()));
}

fn await_reply(client: &mut Client, words: &[&str], start: &str) {
    wait_for(|| client.text(words).starts_with(start).then_some(()));
}

/// A replica that can't write the changes of its primary ends, unless it may ignore that.
#[test]
fn a_replica_does_not_apply_what_it_can_not_write() {
    for ignores in [true, false] {
        let disk = Disk::new(&format!("disk-replica-{ignores}"));
        let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
        let (mut there, port) = (primary.client(), primary.port.to_string());
        let ignore = if ignores { "yes" } else { "no" };
        let options = ["--replica-ignore-disk-write-errors", ignore, "--replicaof", "127.0.0.1", &port];
        let mut replica =
            disk.start(&[&options[..], &["--appendonly", "yes", "--appendfsync", "everysec"]].concat());
        let mut here = replica.client();
        support::wait_for_replication_field(&mut here, "master_link_status", "up");
        wait_for(|| (replica.info(&mut here, "aof_rewrites") == "1").then_some(()));
        disk.set("full");
        there.text(&["SET", "a", "1"]);
        await_failure(&mut here);
        assert_eq!(here.text(&["GET", "a"]), "1");
        there.text(&["SET", "b", "1"]);
        match ignores {
            true => await_reply(&mut here, &["GET", "b"], "1"),
            false => assert!(!replica.wait(), "the exit status shows it"),
        }
    }
}

/// Acknowledged while a save suspended synchronisation, then a synchronisation fails once the save has ended.
#[test]
fn nothing_is_lost_when_a_suspended_synchronisation_fails() {
    let disk = Disk::new("disk-suspended");
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"];
    let mut server = disk.start(&options);
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "100"]);
    assert_eq!(client.text(&["CONFIG", "SET", "rdb-key-save-delay", "1000000"]), "OK");
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    disk.set("sync");
    for number in 0..20 {
        assert_eq!(client.text(&["SET", &format!("suspended:{number}"), "x"]), "OK");
    }
    assert_eq!(client.text(&["WAITAOF", "1", "0", "50"]), "0\n0", "released, and not synchronised");
    client.text(&["BGSAVE", "CANCEL"]);
    let mut other = server.client();
    wait_for(|| (server.info(&mut other, "aof_last_write_status") == "err").then_some(()));
    assert!(other.text(&["SET", "refused", "x"]).starts_with("MISCONF"));
    disk.set("none");
    await_reply(&mut other, &["SET", "later", "x"], "OK");
    assert_eq!(other.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    server.signal("KILL");
    server.wait();
    let server = disk.start(&options);
    assert_eq!(server.client().text(&["DBSIZE"]), "121");
}

/// The base is complete, and its directory can't be synchronised.
#[test]
fn a_file_that_is_switched_on_waits_for_its_directory() {
    let disk = Disk::new("disk-directory");
    let mut server = disk.start(&[]);
    let mut client = server.client();
    assert_eq!(client.text(&["SET", "before", "1"]), "OK");
    disk.set("directory");
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    server.log_line("Background AOF rewrite terminated by error");
    assert_eq!(client.text(&["SET", "during", "2"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "50"]), "0\n0");
    disk.set("none");
    server.log_line("Background AOF rewrite finished successfully");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    server.signal("KILL");
    server.wait();
    let server = disk.start(&["--appendonly", "yes"]);
    assert_eq!(server.client().text(&["MGET", "before", "during"]), "1\n2");
}

#[test]
fn the_status_of_a_server_whose_file_lacks_changes_is_not_zero() {
    for word in ["none", "full", "sync"] {
        let disk = Disk::new(&format!("disk-status-{word}"));
        let mut server = disk.start(&["--appendonly", "yes"]);
        let mut client = server.client();
        disk.set(word);
        assert_eq!(client.text(&["SET", "key", "value"]), "OK");
        server.signal("TERM");
        assert_eq!(server.wait(), word == "none", "{word}");
    }
}

/// A thread that hangs in a synchronisation delays nobody who switches the file off and on.
#[test]
fn no_worker_waits_for_a_file_that_is_ending() {
    let disk = Disk::new("disk-hang");
    let mut server = disk.start(&["--appendonly", "yes", "--io-threads", "1"]);
    let mut client = server.client();
    disk.set("hang");
    assert_eq!(client.text(&["SET", "before", "1"]), "OK");
    for value in ["no", "yes", "no", "yes"] {
        assert_eq!(client.text(&["CONFIG", "SET", "appendonly", value]), "OK");
    }
    assert_eq!(client.text(&["SET", "during", "2"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "50"]), "0\n0");
    disk.set("none");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    server.signal("KILL");
    server.wait();
    let server = disk.start(&["--appendonly", "yes"]);
    assert_eq!(server.client().text(&["MGET", "before", "during"]), "1\n2");
}

/// A disk hangs until the log is full, and then is full itself.
#[test]
fn requests_that_wait_for_the_log_are_refused_when_the_disk_is_full() {
    let disk = Disk::new("disk-full");
    let server = disk.start(&["--appendonly", "yes", "--appendfsync", "always", "--write-log-size", "64kb"]);
    // A pipeline of plain requests would be executed as a whole.
    let mut clients: Vec<Client> = (0..12).map(|_| server.client()).collect();
    let mut observer = server.client();
    disk.set("hang");
    let value = "x".repeat(30_000);
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&["SET", &format!("key:{number}"), &value]);
    }
    wait_for(|| {
        // Sections that show data wait for the disk.
        let text = observer.text(&["INFO", "persistence"]);
        let length = text.lines().find_map(|line| line.strip_prefix("aof_buffer_length:")).unwrap();
        (length.parse::<u64>().unwrap() > 60_000).then_some(())
    });
    disk.set("full");
    wait_for(|| observer.text(&["INFO", "errorstats"]).contains("errorstat_MISCONF").then_some(()));
    assert!(observer.text(&["SET", "key", &value]).starts_with("MISCONF"));
    disk.set("none");
    let replies: Vec<String> =
        clients.iter_mut().map(|client| support::shown(&client.receive().unwrap())).collect();
    let count_of = |start| replies.iter().filter(|reply| reply.starts_with(start)).count();
    assert!(count_of("OK") > 0 && count_of("MISCONF") > 0, "{replies:?}");
    assert_eq!(count_of("OK") + count_of("MISCONF"), 12, "{replies:?}");
    await_reply(&mut observer, &["SET", "later", "x"], "OK");
}

/// After a failure growth causes the next rewrite a minute later, and an order at once.
#[test]
fn an_ordered_rewrite_does_not_wait_after_a_failed_one() {
    let disk = Disk::new("disk-rewrite");
    let server = disk.start(&["--appendonly", "yes"]);
    let mut client = server.client();
    disk.set("directory");
    client.text(&["BGREWRITEAOF"]);
    server.log_line("Background AOF rewrite terminated by error");
    disk.set("none");
    await_reply(&mut client, &["BGREWRITEAOF"], "Background append only file rewriting started");
    server.log_line("Background AOF rewrite finished successfully");
}

/// What was written under another policy is synchronised before the reply.
#[test]
fn always_begins_with_a_synchronisation() {
    let disk = Disk::new("disk-always");
    let server = disk.start(&["--appendonly", "yes", "--appendfsync", "no"]);
    let mut client = server.client();
    assert_eq!(client.text(&["SET", "key", "value"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "20"]), "0\n0");
    assert_eq!(client.text(&["CONFIG", "SET", "appendfsync", "always"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "1"]), "1\n0");
}

/// Who looks why writes are refused gets an answer.
#[test]
fn figures_are_shown_while_writing_fails() {
    let disk = Disk::new("disk-figures");
    let server = disk.start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut client, mut observer) = (server.client(), server.client());
    disk.set("full");
    client.send(&["SET", "waits", "value"]);
    await_failure(&mut observer);
    assert!(observer.text(&["SET", "refused", "value"]).starts_with("MISCONF"));
    assert!(observer.text(&["INFO"]).contains("aof_last_write_status:err"));
    assert!(observer.text(&["MEMORY", "STATS"]).contains("keys.count"));
    // Data waits.
    let mut reader = server.client();
    reader.send(&["GET", "waits"]);
    assert_eq!(observer.text(&["ECHO", "x"]), "x");
    disk.set("none");
    assert_eq!(support::shown(&client.receive().unwrap()), "OK");
    assert_eq!(support::shown(&reader.receive().unwrap()), "value");
}

/// The directory of the files is on a full disk: with `CONFIG SET dir` and `BGREWRITEAOF` they begin elsewhere. In the same
/// directory a rewrite is refused.
#[test]
fn a_rewrite_leaves_a_full_disk() {
    for policy in ["always", "everysec"] {
        let disk = Disk::new(&format!("disk-elsewhere-{policy}"));
        let elsewhere = disk.directory.path("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let options = ["--appendonly", "yes", "--enable-protected-configs", "yes", "--appendfsync", policy];
        let mut server = disk.start(&options);
        let mut client = server.client();
        assert_eq!(client.text(&["SET", "before", "1"]), "OK");
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
        disk.set("full-data");
        let mut writer = server.client();
        writer.send(&["SET", "during", "2"]);
        await_failure(&mut client);
        assert!(client.text(&["SET", "refused", "3"]).starts_with("MISCONF"));
        assert!(client.text(&["BGREWRITEAOF"]).starts_with("ERR Can't execute an AOF background rewriting"));
        assert_eq!(server.info(&mut client, "aof_last_bgrewrite_status"), "err");
        assert_eq!(server.info(&mut client, "aof_rewrite_in_progress"), "0");
        assert_eq!(client.text(&["CONFIG", "SET", "dir", &elsewhere]), "OK");
        assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
        assert_eq!(support::shown(&writer.receive().unwrap()), "OK");
        await_reply(&mut client, &["SET", "after", "4"], "OK");
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
        assert_eq!(server.info(&mut client, "aof_last_bgrewrite_status"), "ok");
        server.signal("KILL");
        server.wait();
        let server = disk.start(&[&["--dir", &elsewhere], &options[..]].concat());
        let values = server.client().text(&["MGET", "before", "during", "refused", "after"]);
        assert_eq!(values, "1\n2\n\n4", "{policy}");
    }
}

//! `FLUSHALL` and `FLUSHDB`: when their replies come.

use crate::support::directory::Directory;
use crate::support::{Client, Server, on_each_backend, shown};

#[test]
fn what_flushall_sync_removes_is_freed_before_its_reply() {
    let directory = Directory::new("flushall");
    let path = directory.path(".");
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--save", "900 1", "--dir", &path];
    on_each_backend(&options, |server| {
        let mut client = server.client();
        let used = |client: &mut Client| server.info(client, "used_memory").parse::<u64>().unwrap();
        let before = used(&mut client);
        let flush = &["FLUSHALL", "SYNC"][..];
        let no_save = &["CONFIG", "SET", "save", ""][..];
        for commands in [&[flush][..], &[no_save, flush], &[&["MULTI"], &["FLUSHDB", "SYNC"], &["EXEC"]]] {
            client.text(&["DEBUG", "POPULATE", "300000", "key", "100"]);
            assert!(used(&mut client) > before + (30 << 20));
            commands.iter().for_each(|words| assert!(!client.text(words).starts_with("ERR")));
            assert!(used(&mut client) < before + (10 << 20), "{commands:?}");
            assert_eq!(server.info(&mut client, "lazyfreed_objects"), "0");
        }
        assert!(client.text(&["INFO", "commandstats"]).contains("cmdstat_flushall:calls=2,"));
    });
}

#[test]
fn requests_behind_a_flush_are_carried_out_for_a_client_that_sends_no_more() {
    let directory = Directory::new("half-closed");
    for save in ["", "900 1"] {
        let server = Server::start(&["--save", save, "--dir", &directory.path(".")]);
        let mut client = server.client();
        client.text(&["SET", "k", "1"]);
        client.send_raw(b"FLUSHALL SYNC\r\nSET k 2\r\n");
        client.shut_down_writing();
        assert_eq!([client.receive(), client.receive()].map(|reply| shown(&reply.unwrap())), ["OK", "OK"]);
        assert_eq!(server.client().text(&["GET", "k"]), "2");
    }
}

#[test]
fn flushed_data_do_not_count_while_they_are_freed() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    let used = |client: &mut Client| server.info(client, "used_memory").parse::<i64>().unwrap();
    let mut flushed_uses = Vec::new();
    for round in 0..4 {
        client.text(&["DEBUG", "POPULATE", "300000", "key", "100"]);
        let full = used(&mut client);
        // Freeing takes longer than these two replies.
        client.send(&["FLUSHALL", "ASYNC"]);
        client.send(&["INFO", "memory"]);
        assert_eq!(client.receive().map(|reply| shown(&reply)), Some("OK".to_owned()));
        let info = shown(&client.receive().unwrap());
        let flushed = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        let flushed: i64 = flushed.parse().unwrap();
        assert!(full - flushed > 30 << 20, "round {round}: {full} -> {flushed}");
        flushed_uses.push(flushed);
    }
    // Nor do they count as freed twice.
    assert!(flushed_uses.iter().all(|used| *used > 0), "{flushed_uses:?}");
}

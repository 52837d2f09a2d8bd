//! What follows from a change of the role: for scripts that run, for clients, and for the settings in force.

use std::io::Read;
use std::path::Path;

use crate::support::directory::Directory;
use crate::support::peer::{Peer, SELECT};
use crate::support::primary::{ID, Played};
use crate::support::{Server, request, shown, wait_for, wait_for_replication_field as expect_field};

const DEBUG: &[&str] = &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];

#[test]
fn a_script_that_began_before_a_promotion_changes_the_replicas_too() {
    let server = Server::start(DEBUG);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let _link = played.synchronise(ID);
    let mut running = server.client();
    running.text(&["PING"]);
    let script = "repeat local reply = redis.pcall('set', KEYS[1], '1') until reply.ok";
    running.send(&["EVAL", script, "1", "x"]);
    wait_for(|| client.text(&["CLIENT", "LIST"]).contains("cmd=eval").then_some(()));
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(shown(&running.receive().unwrap()), "");
    // One that has what came from the former primary.
    let mut replica = Peer::introduced(&server);
    assert!(replica.ask(&format!("PSYNC {ID} 101")).starts_with("+CONTINUE "));
    replica.expect(&format!("{SELECT}{}", request(&["set", "x", "1"])));
}

#[test]
fn the_log_has_the_letter_of_the_role() {
    let server = Server::start(&[]);
    assert!(server.log_line("Ready to accept").contains(":M "));
    let nobody = crate::support::free_port().to_string();
    server.client().text(&["REPLICAOF", "127.0.0.1", &nobody]);
    wait_for(|| server.log_line("Error condition on socket for SYNC").contains(":S ").then_some(()));
}

#[test]
fn writes_succeed_after_the_reply_to_a_promotion() {
    let server = Server::start(&[DEBUG, &["--io-threads", "4"]].concat());
    let mut clients = server.six_clients();
    let changes: String = (0..100).map(|number| request(&["SET", &format!("key:{number}"), "1"])).collect();
    for round in 0..50 {
        let played = Played::new();
        drop(played.is_followed_by(&server));
        let mut link = played.synchronise(ID);
        // The stream is applied while the server is promoted.
        link.0.send(&changes.repeat(20));
        let promoted = clients[round % 6].text(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(promoted, "OK");
        for client in &mut clients {
            assert_eq!(client.text(&["SET", "k", "1"]), "OK", "in round {round}");
        }
    }
}

#[test]
fn writes_succeed_when_a_failover_is_complete() {
    let server = Server::start(&[DEBUG, &["--io-threads", "4"]].concat());
    let mut clients = server.six_clients();
    let changes: String = (0..100).map(|number| request(&["SET", &format!("key:{number}"), "1"])).collect();
    for round in 0..30 {
        let played = Played::new();
        drop(played.is_followed_by(&server));
        let mut link = played.synchronise(ID);
        link.0.send(&changes.repeat(20));
        let mut former = Peer::introduced(&server);
        assert!(former.ask(&format!("PSYNC {ID} 101 FAILOVER")).starts_with("+CONTINUE "));
        for client in &mut clients {
            assert_eq!(client.text(&["SET", "k", "1"]), "OK", "in round {round}");
        }
    }
}

#[test]
fn a_promoted_server_has_a_memory_limit() {
    let server = Server::start(&[DEBUG, &["--maxmemory", "40mb", "--io-threads", "2"]].concat());
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let mut link = played.synchronise(ID);
    let value = "x".repeat(10_000_000);
    let changes: String = (0..6).map(|number| request(&["SET", &format!("key:{number}"), &value])).collect();
    link.0.send(&changes);
    link.expect_acknowledged(100 + changes.len());
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    for mut client in server.six_clients() {
        assert!(client.text(&["SET", "k", "1"]).starts_with("OOM"));
    }
}

#[test]
fn a_replica_refuses_writes_by_its_role_alone() {
    let server = Server::start(&[DEBUG, &["--min-replicas-to-write", "1"]].concat());
    let mut client = server.client();
    assert!(client.text(&["SET", "k", "1"]).starts_with("NOREPLICAS"));
    let played = Played::new();
    drop(played.is_followed_by(&server));
    let _link = played.synchronise(ID);
    assert!(client.text(&["SET", "k", "1"]).starts_with("READONLY"));
    client.text(&["CONFIG", "SET", "replica-read-only", "no"]);
    assert_eq!(client.text(&["SET", "k", "1"]), "OK");
    client.text(&["REPLICAOF", "NO", "ONE"]);
    assert!(client.text(&["SET", "k", "1"]).starts_with("NOREPLICAS"));
}

#[test]
fn a_transaction_in_one_piece_is_refused_on_a_replica() {
    let server = Server::start(DEBUG);
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let _link = played.synchronise(ID);
    let parts = [&["WATCH", "other"][..], &["MULTI"], &["SET", "new", "1"], &["EXEC"]];
    for parts in [&parts[..], &parts[1..]] {
        client.send_raw(parts.iter().copied().map(request).collect::<String>().as_bytes());
        let replies: Vec<String> = parts.iter().map(|_| shown(&client.receive().unwrap())).collect();
        assert!(replies[parts.len() - 2].starts_with("READONLY"), "{replies:?}");
        assert!(replies[parts.len() - 1].starts_with("EXECABORT"), "{replies:?}");
    }
    assert_eq!(client.text(&["EXISTS", "new"]), "0");
}

#[test]
fn a_reload_interrupts_the_stream() {
    for words in [&["DEBUG", "RELOAD"][..], &["DEBUG", "LOADAOF"]] {
        let server = Server::start(&[DEBUG, &["--appendonly", "yes", "--io-threads", "2"]].concat());
        let played = Played::new();
        let mut client = played.is_followed_by(&server);
        let mut link = played.synchronise(ID);
        wait_for(|| (server.info(&mut client, "aof_rewrite_in_progress") == "0").then_some(()));
        let changes: String =
            (0..1000).map(|number| request(&["SET", &format!("key:{number}"), "1"])).collect();
        link.0.send(&changes);
        assert_eq!(client.text(words), "OK");
        let (mut link, words) = played.accept();
        let asked = words.trim_end().rsplit(' ').next().unwrap().parse::<usize>().unwrap();
        assert!(words.contains(&format!("PSYNC {ID} ")), "{words}");
        link.0.send("+CONTINUE\r\n");
        // What is asked for again is what is not among the loaded data.
        link.0.send(&changes[asked - 101..]);
        link.expect_acknowledged(100 + changes.len());
        client.text(&["SELECT", "2"]);
        assert_eq!(client.text(&["DBSIZE"]), "1000");
        expect_field(&mut client, "master_link_status", "up");
    }
}

#[test]
fn a_load_without_a_file_ends() {
    let server = Server::start(DEBUG);
    let (_replica, _, _) = Peer::synchronised(&server);
    let mut client = server.client();
    client.text(&["SET", "k", "1"]);
    client.text(&["DEBUG", "LOADAOF"]);
    assert_eq!(client.text(&["PING"]), "PONG");
    assert_eq!(server.info(&mut client, "loading"), "0");
}

#[test]
fn a_backlog_may_be_kept_for_ever() {
    let server = Server::start(&[DEBUG, &["--repl-backlog-ttl", &i64::MAX.to_string()]].concat());
    drop(Peer::synchronised(&server));
    let mut client = server.client();
    expect_field(&mut client, "connected_slaves", "0");
    let uptime = server.info(&mut client, "uptime_in_seconds");
    wait_for(|| (server.info(&mut client, "uptime_in_seconds") != uptime).then_some(()));
    expect_field(&mut client, "repl_backlog_active", "1");
}

#[test]
fn replicas_are_sent_what_was_acknowledged_before_a_demotion() {
    let server = Server::start(&[DEBUG, &["--io-threads", "4"]].concat());
    let mut clients = server.six_clients();
    let large = request(&["SET", "large", &"x".repeat(2_000)]).repeat(200);
    let demotion = ["REPLICAOF", "127.0.0.1", "1"];
    let in_transaction = [&["MULTI"][..], &["SET", "k", "2"], &demotion, &["EXEC"]].map(request).concat();
    let ends =
        [("", request(&demotion), 2), (large.as_str(), request(&demotion), 202), ("", in_transaction, 5)];
    for round in 0..30 {
        let (mut replica, ..) = Peer::synchronised(&server);
        let client = &mut clients[round % 6];
        wait_for(|| client.text(&["INFO", "replication"]).contains("state=online").then_some(()));
        let (changes, end, reply_count) = &ends[round % 3];
        let change = request(&["SET", "k", "1"]);
        client.send_raw(format!("{changes}{change}{end}").as_bytes());
        replica.expect(&format!("{SELECT}{changes}{change}"));
        assert_eq!(replica.0.read(&mut [0]).unwrap(), 0, "in round {round}");
        let replies = (0..*reply_count).map(|_| shown(&client.receive().unwrap()));
        assert!(replies.last().unwrap().ends_with("OK"));
        assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    }
}

#[test]
fn the_stream_waits_for_no_save_and_gets_no_reply() {
    let directory = Directory::new("stream-save");
    let (path, dump) = (directory.path("."), directory.path("dump.rdb"));
    let options = ["--dir", &path, "--save", "900 100", "--rdb-key-save-delay", "100"];
    let server = Server::start(&[DEBUG, &options].concat());
    let played = Played::new();
    let mut client = played.is_followed_by(&server);
    let mut link = played.synchronise(ID);
    let changes =
        ["FLUSHALL", "FLUSHALL SYNC", "SET k 1"].map(|text| request(&text.split(' ').collect::<Vec<_>>()));
    link.0.send(&changes.concat());
    let offset = 100 + changes.concat().len();
    link.expect_acknowledged(offset);
    wait_for(|| Path::new(&dump).exists().then_some(()));
    // A reply would be in front of this.
    let change = request(&["SET", "other", "1"]);
    link.0.send(&change);
    link.expect_acknowledged(offset + change.len());
    assert!(client.text(&["INFO", "keyspace"]).contains("db2:keys=2,"));
}

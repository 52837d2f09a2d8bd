//! A primary: snapshots, the stream, the backlog, acknowledgements and slow replicas, with replicas that a test plays, and with
//! real ones.

use std::io::Read;
use std::time::Duration;

use crate::support::directory::Directory;
use crate::support::peer::{Peer, SELECT};
use crate::support::{self, Client, PATIENCE, Server, replication_field as field, request, wait_for};

const OPTIONS: &[&str] =
    &["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "20kb", "--repl-ping-replica-period", "1000"];

fn offset_of(client: &mut Client) -> u64 {
    field(client, "master_repl_offset").parse().unwrap()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn the_stream_follows_the_snapshot_once_it_is_acknowledged() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    client.text(&["SET", "before", "1"]);
    let mut replica = Peer::introduced(&server);
    replica.send("PSYNC ? -1\r\n");
    let (id, offset) = replica.full_answer();
    let snapshot = replica.snapshot();
    assert!(has(&snapshot, b"before") && has(&snapshot, b"repl-offset") && has(&snapshot, id.as_bytes()));
    client.text(&["SET", "k", "v"]);
    // The mark must be the last that a receiver has, until it has seen it.
    replica.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(replica.0.read(&mut [0]).is_err());
    replica.0.set_read_timeout(Some(PATIENCE)).unwrap();
    replica.acknowledge(offset);
    replica.expect(SELECT);
    replica.expect(&request(&["SET", "k", "v"]));
    assert!(client.text(&["INFO", "replication"]).contains("slave0:ip=127.0.0.1,port=1234,state=online"));
    assert!(client.text(&["CLIENT", "LIST", "TYPE", "replica"]).contains(" flags=S "));
    assert!(client.text(&["ROLE"]).contains("127.0.0.1\n1234"));
    replica.send("GET k\r\n");
    // There is no place for a reply in the stream.
    assert_eq!(replica.0.read(&mut [0]).unwrap(), 0);
    server.log_line("Replica generated a reply to command 'get', disconnecting it");
}

#[test]
fn units_and_databases_are_in_the_stream() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let (mut replica, ..) = Peer::synchronised(&server);
    for words in [&["MULTI"][..], &["SET", "a", "1"], &["INCR", "a"], &["EXEC"], &["SELECT", "3"]] {
        client.text(words);
    }
    client.text(&["SET", "b", "2"]);
    client.text(&["PUBLISH", "channel", "text"]);
    let unit = [&["MULTI"][..], &["SET", "a", "1"], &["INCR", "a"], &["EXEC"], &["SELECT", "3"]];
    replica.expect(SELECT);
    unit.iter().for_each(|words| replica.expect(&request(words)));
    replica.expect(&request(&["SET", "b", "2"]));
    replica.expect(&request(&["PUBLISH", "channel", "text"]));
}

/// As with Redis and Valkey.
#[test]
fn a_getset_is_a_set_in_the_stream_and_populated_keys_are_not_in_it() {
    let server = Server::start(&[OPTIONS, &["--enable-debug-command", "yes"]].concat());
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "3"]);
    let (mut replica, ..) = Peer::synchronised(&server);
    client.text(&["INCR", "a"]);
    client.text(&["GETSET", "a", "1"]);
    client.text(&["DEBUG", "POPULATE", "6"]);
    client.text(&["GETSET", "a", "2"]);
    replica.expect(SELECT);
    replica.expect(&request(&["INCR", "a"]));
    replica.expect(&request(&["SET", "a", "1"]));
    let mut stream = Vec::new();
    while !stream.ends_with(request(&["SET", "a", "2"]).as_bytes()) {
        stream.extend(replica.exact(1));
    }
    assert!(!has(&stream, b"key:"));
    assert_eq!(client.text(&["DBSIZE"]), "7");
}

#[test]
fn a_snapshot_ends_with_its_last_replica() {
    for diskless in ["yes", "no"] {
        let options = ["--repl-diskless-sync", diskless, "--rdb-key-save-delay", "10000000"];
        let server = Server::start(&[OPTIONS, &options].concat());
        let mut client = server.client();
        for key in ["a", "b", "c"] {
            client.text(&["SET", key, "1"]);
        }
        let mut replica = Peer::introduced(&server);
        replica.send("PSYNC ? -1\r\n");
        replica.full_answer();
        assert_eq!(server.info(&mut client, "rdb_bgsave_in_progress"), "1");
        drop(replica);
        // Long before the next key is written.
        wait_for(|| (server.info(&mut client, "rdb_bgsave_in_progress") == "0").then_some(()));
    }
}

#[test]
fn each_replica_that_waits_for_another_snapshot_is_in_the_log() {
    let server = Server::start(&[OPTIONS, &["--rdb-key-save-delay", "10000000"]].concat());
    let mut client = server.client();
    client.text(&["MSET", "a", "1", "b", "2"]);
    client.text(&["BGSAVE"]);
    for count in 1..=2 {
        let mut replica = Peer::introduced(&server);
        replica.send("PSYNC ? -1\r\n");
        let line = "begins when the snapshot that is being taken is complete";
        wait_for(|| (server.count_logged(line) == count).then_some(()));
        drop(replica);
        wait_for(|| (field(&mut client, "connected_slaves") == "0").then_some(()));
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_snapshot_that_nothing_follows() {
    let options = ["--rdb-key-save-delay", "10000000"];
    let server = Server::start(&[OPTIONS, &options].concat());
    let mut client = server.client();
    client.text(&["SET", "key", "1"]);
    let mut replica = Peer::introduced(&server);
    replica.send("PSYNC ? -1\r\n");
    replica.full_answer();
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert!(client.receive().is_none());
    assert!(!server.has_logged("Waiting for replicas before shutting down."));
}

#[test]
fn a_replica_without_marks_receives_a_size() {
    for options in [&[][..], &["--repl-diskless-sync", "no"]] {
        let server = Server::start(&[OPTIONS, options].concat());
        let mut client = server.client();
        client.text(&["SET", "before", "1"]);
        let mut replica = match options.is_empty() {
            true => Peer::connect(&server),
            false => Peer::introduced(&server),
        };
        replica.send("SYNC\r\n");
        let size = replica.line().strip_prefix('$').unwrap().parse().unwrap();
        let snapshot = replica.exact(size);
        assert!(snapshot.starts_with(b"REDIS") && has(&snapshot, b"before"));
        client.text(&["SET", "k", "v"]);
        replica.expect(SELECT);
        replica.expect(&request(&["SET", "k", "v"]));
    }
}

#[test]
fn a_snapshot_names_the_server_that_its_reader_knows() {
    let server = Server::start(OPTIONS);
    for (version, property) in [("", "redis-ver"), (" version 9.1.0", "valkey-ver")] {
        let mut replica = Peer::connect(&server);
        assert_eq!(replica.ask(&format!("REPLCONF capa eof capa psync2{version}")), "+OK");
        replica.send("PSYNC ? -1\r\n");
        replica.full_answer();
        assert!(has(&replica.snapshot(), property.as_bytes()));
    }
}

#[test]
fn replicas_that_come_together_share_a_snapshot() {
    let options = ["--repl-diskless-sync-delay", "100", "--repl-diskless-sync-max-replicas", "2"];
    let server = Server::start(&options);
    let mut client = server.client();
    client.text(&["SET", "before", "1"]);
    let mut replicas = [Peer::introduced(&server), Peer::introduced(&server)];
    replicas[0].send("PSYNC ? -1\r\n");
    wait_for(|| client.text(&["INFO", "replication"]).contains("state=wait_bgsave").then_some(()));
    replicas[1].send("PSYNC ? -1\r\n");
    let answers = replicas.each_mut().map(Peer::full_answer);
    assert_eq!(answers[0], answers[1]);
    let snapshots = replicas.each_mut().map(Peer::snapshot);
    assert!(snapshots[0] == snapshots[1]);
    server.log_line("target: replicas sockets");
    server.log_line("2 replicas share the snapshot");
}

#[test]
fn the_window_has_exactly_its_size() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let (replica, id, _) = Peer::synchronised(&server);
    drop(replica);
    let value = "x".repeat(1000);
    for _ in 0..30 {
        client.text(&["SET", "k", &value]);
    }
    let end = offset_of(&mut client);
    assert_eq!(field(&mut client, "repl_backlog_histlen"), "20480");
    assert_eq!(field(&mut client, "repl_backlog_first_byte_offset"), (end - 20_480 + 1).to_string());
    let ask = |first: u64| {
        let mut replica = Peer::introduced(&server);
        replica.send(&format!("PSYNC {id} {first}\r\n"));
        let line = replica.line();
        (replica, line)
    };
    let (mut replica, line) = ask(end - 20_480 + 1);
    assert_eq!(line, format!("+CONTINUE {id}"));
    assert!(replica.exact(20_480).ends_with(format!("{value}\r\n").as_bytes()));
    let (_, line) = ask(end + 1);
    assert_eq!(line, format!("+CONTINUE {id}"));
    for first in [end - 20_480, end + 2] {
        let (_, line) = ask(first);
        assert!(line.starts_with("+FULLRESYNC "), "{first} of {end}: {line}");
    }
    let text = client.text(&["INFO", "stats"]);
    assert!(text.contains("sync_full:3\r") && text.contains("sync_partial_ok:2\r"), "{text}");
}

#[test]
fn wait_counts_what_replicas_acknowledge() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    assert_eq!(client.text(&["WAIT", "1", "10"]), "0");
    let (mut replica, _, offset) = Peer::synchronised(&server);
    client.text(&["SET", "k", "v"]);
    let change = format!("{SELECT}{}", request(&["SET", "k", "v"]));
    replica.expect(&change);
    assert_eq!(client.text(&["WAIT", "1", "10"]), "0");
    let asked = request(&["REPLCONF", "GETACK", "*"]);
    replica.expect(&asked);
    let applied = offset + change.len() as u64;
    client.send(&["WAIT", "1", "0"]);
    replica.expect(&asked);
    replica.acknowledge(applied - 1);
    client.expect_no_data(Duration::from_millis(100));
    replica.acknowledge(applied);
    assert_eq!(support::shown(&client.receive().unwrap()), "1");
    assert_eq!(client.text(&["WAITAOF", "0", "1", "10"]), "0\n0");
    replica.send(&request(&["REPLCONF", "ACK", &applied.to_string(), "FACK", &applied.to_string()]));
    assert_eq!(client.text(&["WAITAOF", "0", "1", "0"]), "0\n1");
}

#[test]
fn acknowledgements_go_on_while_clients_are_paused() {
    let server = Server::start(OPTIONS);
    let (mut client, mut admin) = (server.client(), server.client());
    let (mut replica, _, offset) = Peer::synchronised(&server);
    client.text(&["SET", "k", "v"]);
    client.send(&["WAIT", "1", "0"]);
    let change = format!("{SELECT}{}", request(&["SET", "k", "v"]));
    replica.expect(&change);
    replica.expect(&request(&["REPLCONF", "GETACK", "*"]));
    assert_eq!(admin.text(&["CLIENT", "PAUSE", "100000", "ALL"]), "OK");
    replica.acknowledge(offset + change.len() as u64);
    assert_eq!(support::shown(&client.receive().unwrap()), "1");
}

#[test]
fn a_sync_that_was_refused_has_no_effect_on_a_later_psync() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let mut replica = Peer::introduced(&server);
    assert_eq!(replica.ask("SYNC"), "-NOMASTERLINK Can't SYNC while not connected with my master");
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    replica.send("PSYNC ? -1\r\n");
    replica.full_answer();
}

/// The snapshot is sent before the replica has loaded it, and a change from before the stream began has no offset above 0.
#[test]
fn wait_counts_no_replica_that_has_acknowledged_nothing() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    client.text(&["SET", "k", "v"]);
    let mut replica = Peer::introduced(&server);
    replica.send("PSYNC ? -1\r\n");
    let (_, offset) = replica.full_answer();
    replica.snapshot();
    assert_eq!(offset, 0);
    wait_for(|| field(&mut client, "slave0").contains("state=online").then_some(()));
    assert_eq!(client.text(&["WAIT", "1", "50"]), "0");
    replica.acknowledge(offset);
    assert_eq!(client.text(&["WAIT", "1", "0"]), "1");
    assert_eq!(client.text(&["WAITAOF", "0", "1", "50"]), "0\n0");
}

#[test]
fn a_replica_without_an_append_only_file_has_nothing_durable() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let (mut replica, _, offset) = Peer::synchronised(&server);
    assert_eq!(offset, 0);
    assert_eq!(client.text(&["WAITAOF", "0", "1", "10"]), "0\n0");
    replica.send(&request(&["REPLCONF", "ACK", "0", "FACK", "0"]));
    assert_eq!(client.text(&["WAITAOF", "0", "1", "0"]), "0\n1");
}

#[test]
fn scripts_wait_for_the_writes_of_their_connection() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let (mut replica, _, offset) = Peer::synchronised(&server);
    let script = ["EVAL", "return redis.call('WAIT', '1', '0')", "0"];
    wait_for(|| (client.text(&script) == "1").then_some(()));
    client.text(&["SET", "k", "v"]);
    assert_eq!(client.text(&script), "0");
    let change = format!("{SELECT}{}", request(&["SET", "k", "v"]));
    replica.expect(&change);
    replica.acknowledge(offset + change.len() as u64);
    wait_for(|| (client.text(&script) == "1").then_some(()));
}

#[test]
fn a_snapshot_without_keys_has_the_libraries_alone() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    client.text(&["SET", "key", "1"]);
    let library = "#!lua name=numbers\nredis.register_function('one', function() return 1 end)";
    client.text(&["FUNCTION", "LOAD", library]);
    for (filter, has_library) in [("functions", true), ("", false)] {
        let mut replica = Peer::introduced(&server);
        replica.send(&request(&["REPLCONF", "rdb-only", "1", "rdb-filter-only", filter]));
        assert_eq!(replica.line(), "+OK");
        replica.send("SYNC\r\n");
        let size = replica.line().strip_prefix('$').unwrap().parse().unwrap();
        let snapshot = replica.exact(size);
        assert_eq!((has(&snapshot, b"numbers"), has(&snapshot, b"key")), (has_library, false), "{filter}");
    }
}

#[test]
fn a_reset_of_the_statistics_includes_the_bytes_of_replicas() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let (mut replica, ..) = Peer::synchronised(&server);
    client.text(&["SET", "k", "v"]);
    replica.expect(SELECT);
    assert_ne!(server.info(&mut client, "total_net_repl_output_bytes"), "0");
    client.text(&["CONFIG", "RESETSTAT"]);
    assert_eq!(server.info(&mut client, "total_net_repl_output_bytes"), "0");
}

#[test]
fn a_replica_that_reads_nothing_is_dropped_and_writers_continue() {
    for has_acknowledged in [true, false] {
        let limit = ["--client-output-buffer-limit", "replica 1mb 0 0"];
        let server = Server::start(&[OPTIONS, &limit].concat());
        let mut client = server.client();
        let mut replica = Peer::introduced(&server);
        replica.send("PSYNC ? -1\r\n");
        let (_, offset) = replica.full_answer();
        replica.snapshot();
        if has_acknowledged {
            replica.acknowledge(offset);
        }
        let value = "x".repeat(100_000);
        wait_for(|| {
            assert_eq!(client.text(&["SET", "k", &value]), "OK");
            (field(&mut client, "connected_slaves") == "0").then_some(())
        });
        server.log_line("closed for overcoming of output buffer limits");
        let kept: u64 = server.info(&mut client, "mem_total_replication_buffers").parse().unwrap();
        assert!(kept < 2 << 20, "{kept}");
    }
}

#[test]
fn a_monitor_becomes_no_replica() {
    let server = Server::start(OPTIONS);
    let mut monitor = Peer::introduced(&server);
    monitor.send("MONITOR\r\n");
    assert_eq!(monitor.line(), "+OK");
    monitor.send("PSYNC ? -1\r\nSYNC\r\n");
    monitor.send("ECHO last\r\n");
    let shown: Vec<_> = std::iter::repeat_with(|| monitor.line()).take_while(|line| line != "last").collect();
    assert!(shown.iter().all(|line| !line.starts_with("+FULLRESYNC")), "{shown:?}");
    assert_eq!(field(&mut server.client(), "connected_slaves"), "0");
}

#[test]
fn a_replica_that_reads_nothing_of_its_snapshot_delays_no_writer() {
    let limit = ["--snapshot-buffer-size", "1mb", "--rdbcompression", "no", "--enable-debug-command", "yes"];
    let server = Server::start(&[OPTIONS, &limit].concat());
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "60000", "key", "1000"]);
    let mut replica = Peer::introduced(&server);
    replica.send("PSYNC ? -1\r\n");
    replica.full_answer();
    let value = "x".repeat(1000);
    let mut number = 0;
    wait_for(|| {
        for _ in 0..1000 {
            number = (number + 1) % 60_000;
            assert_eq!(client.text(&["SET", &format!("key:{number}"), &value]), "OK");
        }
        (field(&mut client, "connected_slaves") == "0").then_some(())
    });
}

#[test]
fn real_replicas_follow() {
    let servers: Vec<_> =
        support::peers().iter().map(|path| Server::start_program(path.to_str().unwrap(), &[], &[])).collect();
    if servers.is_empty() {
        return;
    }
    let server = Server::start(&["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.text(&["DEBUG", "POPULATE", "30000", "key", "40"]);
    client.text(&["RPUSH", "list", "a", "b"]);
    let count = servers.len().to_string();
    let mut replicas: Vec<_> = servers.iter().map(Server::client).collect();
    for replica in &mut replicas {
        assert_eq!(replica.text(&["REPLICAOF", "127.0.0.1", &server.port.to_string()]), "OK");
    }
    // Writes during the snapshots.
    let mut number = 0;
    wait_for(|| {
        number += 1;
        client.text(&["SET", &format!("key:{number}"), "changed"]);
        client.text(&["INCR", "counter"]);
        let text = client.text(&["INFO", "replication"]);
        (text.matches("state=online").count() == servers.len()).then_some(())
    });
    let mut expect_equal = |client: &mut Client, replicas: &mut Vec<Client>| {
        number += 1;
        client.text(&["SET", "number", &number.to_string()]);
        assert_eq!(client.text(&["WAIT", &count, "20000"]), count);
        for words in [
            &["DBSIZE"][..],
            &["GET", "number"],
            &["GET", "counter"],
            &["LRANGE", "list", "0", "-1"],
            &["GET", "key:1"],
        ] {
            let expected = client.text(words);
            replicas.iter_mut().for_each(|replica| assert_eq!(replica.text(words), expected, "{words:?}"));
        }
    };
    expect_equal(&mut client, &mut replicas);
    assert_eq!(client.text(&["CLIENT", "KILL", "TYPE", "replica"]), count);
    client.text(&["INCR", "counter"]);
    expect_equal(&mut client, &mut replicas);
    assert_eq!(server.info(&mut client, "sync_partial_ok"), count);
    // Threads that end hand their replicas over.
    client.set_thread_count(3);
    client.set_thread_count(1);
    client.text(&["INCR", "counter"]);
    expect_equal(&mut client, &mut replicas);
}

/// The connection ends in the turn in which the replica asks, or soon after.
#[test]
fn a_replica_that_ends_as_it_asks_is_forgotten() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    for round in 0..60 {
        let mut replica = Peer::introduced(&server);
        let ending = ["QUIT\r\n", "CLIENT KILL TYPE replica\r\nSYNC\r\n", "RESET\r\nSYNC\r\n"][round % 3];
        let sync = ["SYNC\r\n", "PSYNC ? -1\r\n"][round % 2];
        replica.send(&format!("{sync}{ending}"));
    }
    wait_for(|| client.text(&["INFO", "replication"]).contains("connected_slaves:0\r").then_some(()));
    wait_for(|| client.text(&["INFO", "clients"]).contains("connected_clients:1\r").then_some(()));
}

/// A load acquires the latches before the cut, or after it: the replica gets all data or nothing.
#[test]
fn a_snapshot_is_not_cut_in_the_middle_of_a_load() {
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--key-load-delay", "500"];
    let server = Server::start(&[OPTIONS, &options].concat());
    let [mut writer, mut admin, _, mut listener, _, replica] =
        <[Client; 6]>::try_from(server.six_clients()).ok().unwrap();
    admin.text(&["DEBUG", "POPULATE", "2000"]);
    assert_eq!(admin.text(&["SAVE"]), "OK");
    assert_eq!(listener.text(&["SUBSCRIBE", "begun"]), "subscribe\nbegun\n1");
    let mut replica = replica.into_peer();
    assert_eq!(replica.ask("REPLCONF capa eof capa psync2"), "+OK");
    // Meanwhile another thread holds a latch.
    writer.send_raw(b"MULTI\r\nPUBLISH begun x\r\nDEBUG SLEEP 0.5\r\nSET k v\r\nEXEC\r\n");
    listener.receive().unwrap();
    replica.send("PSYNC ? -1\r\n");
    server.log_line("Starting BGSAVE for SYNC");
    assert_eq!(admin.text(&["DEBUG", "RELOAD", "NOSAVE"]), "OK");
    assert_eq!(admin.text(&["DBSIZE"]), "2000");
    let mut byte = [b'\n'];
    while byte == [b'\n'] {
        // Nothing if it is closed.
        match replica.0.peek(&mut byte).unwrap_or(0) {
            0 => return,
            _ if byte == [b'\n'] => drop(replica.exact(1)),
            _ => {}
        }
    }
    replica.full_answer();
    let snapshot = replica.snapshot();
    assert!((0..2000).all(|number| has(&snapshot, format!("key:{number}").as_bytes())));
}

#[test]
fn data_are_not_loaded_while_a_shutdown_waits() {
    let server = Server::start(&[OPTIONS, &["--enable-debug-command", "yes"]].concat());
    let (mut client, mut other) = (server.client(), server.client());
    let (_replica, ..) = Peer::synchronised(&server);
    client.text(&["SET", "k", "v"]);
    other.send(&["SHUTDOWN", "SAVE"]);
    server.log_line("Waiting for replicas before shutting down.");
    let error = client.text(&["DEBUG", "RELOAD", "NOSAVE"]);
    assert!(error.contains("SHUTDOWN ABORT"), "{error}");
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "OK");
}

#[test]
fn replicas_that_must_know_the_size_share_a_file_without_a_name() {
    let directory = Directory::new("replicas-file");
    let options = ["--repl-diskless-sync", "no", "--dir", &directory.path("")];
    let server = Server::start(&[OPTIONS, &options].concat());
    let mut client = server.client();
    for number in 0..20 {
        client.text(&["SET", &format!("key:{number}"), "v"]);
    }
    // For each key a while, in microseconds.
    client.text(&["CONFIG", "SET", "rdb-key-save-delay", "20000"]);
    client.text(&["BGSAVE"]);
    let mut replicas = [Peer::introduced(&server), Peer::introduced(&server)];
    replicas.iter_mut().for_each(|replica| replica.send("PSYNC ? -1\r\n"));
    wait_for(|| (field(&mut client, "connected_slaves") == "2").then_some(()));
    server.log_line("2 replicas share the snapshot");
    wait_for(|| {
        let names = std::fs::read_dir(directory.path("")).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.all(|name| !name.starts_with("temp-replica")));
        (server.count_logged("Snapshot for replica") == 2).then_some(())
    });
    let [first, second] = replicas.each_mut().map(|replica| {
        replica.full_answer();
        let size = replica.line().strip_prefix('$').unwrap().parse().unwrap();
        replica.exact(size)
    });
    assert!(first == second && has(&first, b"key:19"));
}

#[test]
fn a_replica_is_not_closed_for_the_memory_of_clients() {
    let server =
        Server::start(&[OPTIONS, &["--maxmemory-clients", "1mb", "--rdbcompression", "no"]].concat());
    let mut client = server.client();
    for number in 0..200 {
        client.text(&["SET", &format!("key:{number}"), &"x".repeat(100_000)]);
    }
    // It does not read, so that more waits for it than for any client.
    let mut replica = Peer::introduced(&server);
    replica.send("PSYNC ? -1\r\n");
    let memory = |line: &str| -> Option<usize> {
        line.split(' ').find_map(|word| word.strip_prefix("tot-mem="))?.parse().ok()
    };
    let list = &["CLIENT", "LIST", "TYPE", "replica"];
    wait_for(|| memory(&client.text(list)).filter(|size| *size > 200_000));
    let part = [&b"*2\r\n$4\r\nECHO\r\n$150000\r\n"[..], &[b'x'; 100_000]].concat();
    let _clients = [(); 12].map(|()| {
        let mut client = server.client();
        client.send_raw_if_open(&part);
        client
    });
    wait_for(|| (server.info(&mut client, "evicted_clients") != "0").then_some(()));
    assert!(memory(&client.text(list)).is_some());
}

//! `FAILOVER`: the roles of a primary and a replica change, without the loss of a write that was acknowledged.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    self, Client, PATIENCE, Server, replication_field as field, wait_for,
    wait_for_replication_field as wait_for_field,
};

const OPTIONS: &[&str] = &["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

/// Makes a server a replica, and waits until it receives the stream.
fn follow(replica: &mut Client, primary: &Server) {
    let reply = replica.text(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    assert!(reply.starts_with("OK"), "{reply}");
    wait_for_field(replica, "master_link_status", "up");
}

fn wait_until_online(primary: &mut Client, count: usize) {
    wait_for(|| {
        (primary.text(&["INFO", "replication"]).matches("state=online").count() == count).then_some(())
    });
}

/// A replica that a test plays: it has its snapshot, and acknowledges what the test says.
struct Silent {
    stream: TcpStream,
    listener: TcpListener,
}

impl Silent {
    fn synchronised(server: &Server, primary: &mut Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut replica = Self { stream, listener };
        replica.send(&format!("REPLCONF listening-port {port} capa psync2\r\nPSYNC ? -1\r\n"));
        wait_until_online(primary, 1);
        replica
    }

    fn port(&self) -> String {
        self.listener.local_addr().unwrap().port().to_string()
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Accepts the connection of the former primary, and replies to its requests up to `PSYNC`, which it returns.
    fn accept_until_psync(&self) -> (TcpStream, String) {
        let (mut link, _) = self.listener.accept().unwrap();
        link.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = String::new();
        let mut answered = 0;
        while !text.contains("FAILOVER") {
            let mut part = [0; 1000];
            let size = link.read(&mut part).unwrap();
            assert_ne!(size, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&part[..size]));
            let requests = text.matches('*').count();
            for _ in answered..requests - usize::from(text.contains("PSYNC")) {
                link.write_all(b"+OK\r\n").unwrap();
            }
            answered = requests;
        }
        (link, text)
    }
}

#[test]
fn errors() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let no_replicas = "ERR FAILOVER requires connected replicas.";
    for (words, expected) in [
        (&["FAILOVER", "ABORT"][..], "ERR No failover in progress."),
        (&["FAILOVER"], no_replicas),
        (&["FAILOVER", "TO", "127.0.0.1", "1", "TIMEOUT", "10", "FORCE"], no_replicas),
        (&["FAILOVER", "TIMEOUT", "0"], "ERR FAILOVER timeout must be greater than 0"),
        (&["FAILOVER", "TIMEOUT", "x"], "ERR value is not an integer or out of range"),
        (&["FAILOVER", "TO", "127.0.0.1", "x"], "ERR value is not an integer or out of range"),
        (&["FAILOVER", "ABORT", "FORCE"], "ERR syntax error"),
        (&["PSYNC", "x", "1", "FAILOVER"], "ERR PSYNC FAILOVER can't be sent to a master."),
    ] {
        assert_eq!(client.text(words), expected, "{words:?}");
    }
    let other = Server::start(OPTIONS);
    let mut replica = other.client();
    follow(&mut replica, &server);
    wait_until_online(&mut client, 1);
    let port = other.port.to_string();
    let force = "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
    for (words, expected) in [
        (&["FAILOVER", "FORCE", "TIMEOUT", "10"][..], force),
        (&["FAILOVER", "TO", "127.0.0.1", &port, "FORCE"], force),
        (&["FAILOVER", "TO", "nowhere", &port], "ERR FAILOVER target HOST and PORT is not a replica."),
        (&["FAILOVER", "TO", "127.0.0.1", "1"], "ERR FAILOVER target HOST and PORT is not a replica."),
    ] {
        assert_eq!(client.text(words), expected, "{words:?}");
    }
    assert_eq!(replica.text(&["FAILOVER"]), "ERR FAILOVER is not valid when server is a replica.");
    let id = "0".repeat(40);
    let wrong = "ERR PSYNC FAILOVER replid must match my replid.";
    assert_eq!(replica.text(&["PSYNC", &id, "1", "FAILOVER"]), wrong);
    assert_eq!(field(&mut client, "master_failover_state"), "no-failover");
}

/// Clients write all the time, and count what was acknowledged. After each of several failovers between three servers, all
/// have the same data, with all of these writes.
#[test]
fn acknowledged_writes_survive_failovers_under_load() {
    const WRITER_COUNT: usize = 4;
    let servers = [0; 3].map(|_| Server::start(OPTIONS));
    let mut clients = servers.each_ref().map(Server::client);
    for (at, client) in clients.iter_mut().enumerate() {
        client.set_thread_count(2);
        if at > 0 {
            follow(client, &servers[0]);
        }
    }
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let at_end = EndWriters(&ends);
        let writers: Vec<_> = (0..WRITER_COUNT)
            .map(|writer| {
                let (ports, ends) = (servers.each_ref().map(|server| server.port), &ends);
                scope.spawn(move || write(writer, &ports, ends))
            })
            .collect();
        let mut primary = 0;
        for round in 0..4 {
            let target = (primary + 1) % 3;
            wait_until_online(&mut clients[primary], 2);
            let offset = |client: &mut Client| field(client, "master_repl_offset").parse::<u64>().unwrap();
            let begun = offset(&mut clients[primary]);
            while offset(&mut clients[primary]) < begun + 100_000 {
                thread::yield_now();
            }
            let port = servers[target].port.to_string();
            let to_any = ["FAILOVER", "TIMEOUT", "20000"];
            let to_one = ["FAILOVER", "TO", "127.0.0.1", &port];
            let words = if round == 2 { &to_any[..] } else { &to_one[..] };
            assert_eq!(clients[primary].text(words), "OK");
            let former = primary;
            wait_for_field(&mut clients[former], "master_failover_state", "no-failover");
            primary = (0..3).find(|at| field(&mut clients[*at], "role") == "master").unwrap();
            assert_ne!(primary, former);
            for (at, client) in clients.iter_mut().enumerate() {
                if at != primary {
                    follow(client, &servers[primary]);
                }
            }
        }
        drop(at_end);
        let counts: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        wait_until_online(&mut clients[primary], 2);
        clients[primary].text(&["SET", "last", "1"]);
        assert_eq!(clients[primary].text(&["WAIT", "2", "20000"]), "2");
        let digest = clients[primary].text(&["DEBUG", "DIGEST"]);
        for client in &mut clients {
            assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
            for (writer, count) in counts.iter().enumerate() {
                assert!(*count > 0);
                assert_eq!(client.text(&["GET", &format!("counter:{writer}")]), count.to_string());
            }
        }
        // No failover needed another transfer of the data.
        for (server, client) in servers.iter().zip(&mut clients).skip(1) {
            assert_eq!(server.info(client, "sync_full"), "0");
        }
        assert_eq!(servers[0].info(&mut clients[0], "sync_full"), "2");
    });
}

/// Ends the writers, even if the test fails.
struct EndWriters<'a>(&'a AtomicBool);

impl Drop for EndWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Increments a counter until the end, on whichever server is the primary. Each reply must be the next number: none was lost,
/// and none was applied twice. Returns the last one.
fn write(writer: usize, ports: &[u16], ends: &AtomicBool) -> u64 {
    let mut clients: Vec<_> = ports.iter().map(|port| Client::connect(*port)).collect();
    let key = format!("counter:{writer}");
    let (mut at, mut count) = (0, 0);
    while !ends.load(Ordering::Relaxed) {
        let reply = clients[at].text(&["INCR", &key]);
        match reply.parse::<u64>() {
            Ok(number) => {
                count += 1;
                assert_eq!(number, count);
            }
            Err(_) => {
                assert!(reply.starts_with("READONLY"), "{reply}");
                at = (at + 1) % clients.len();
            }
        }
    }
    count
}

#[test]
fn writes_wait_for_a_replica_and_an_abort_lets_them_run() {
    let server = Server::start(OPTIONS);
    let (mut client, mut writer) = (server.client(), server.client());
    let silent = Silent::synchronised(&server, &mut client);
    client.text(&["SET", "k", "1"]);
    assert_eq!(client.text(&["FAILOVER", "TO", "127.0.0.1", &silent.port(), "TIMEOUT", "60000"]), "OK");
    assert_eq!(field(&mut client, "master_failover_state"), "waiting-for-sync");
    let clients = client.text(&["INFO", "clients"]);
    assert!(clients.contains("paused_reason:failover_in_progress\r\npaused_actions:write\r\n"), "{clients}");
    writer.send(&["SET", "k", "2"]);
    writer.expect_no_data(Duration::from_millis(100));
    // Neither the end of another pause nor another command ends that of the failover.
    assert_eq!(client.text(&["CLIENT", "PAUSE", "10"]), "OK");
    assert_eq!(client.text(&["CLIENT", "UNPAUSE"]), "OK");
    writer.expect_no_data(Duration::from_millis(300));
    assert_eq!(client.text(&["GET", "k"]), "1");
    assert_eq!(client.text(&["FAILOVER"]), "ERR FAILOVER already in progress.");
    let refused = "ERR REPLICAOF not allowed while failing over.";
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", "1"]), refused);
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), refused);
    let mut late = server.client();
    assert_eq!(late.text(&["PSYNC", "?", "-1"]), "NOMASTERLINK Can't SYNC while failing over");
    assert_eq!(client.text(&["FAILOVER", "ABORT"]), "OK");
    assert_eq!(support::shown(&writer.receive().unwrap()), "OK");
    assert_eq!(field(&mut client, "master_failover_state"), "no-failover");
    server.log_line("aborted: Failover manually aborted");
    // The time is over.
    assert_eq!(client.text(&["FAILOVER", "TIMEOUT", "100"]), "OK");
    assert_eq!(client.text(&["SET", "k", "3"]), "OK");
    server.log_line("FAILOVER to any replica aborted: Replica never caught up before timeout");
    assert_eq!(field(&mut client, "role"), "master");
}

#[test]
fn the_server_is_a_primary_again_if_the_target_does_not_become_one() {
    for refuses in [true, false] {
        let server = Server::start(OPTIONS);
        let (mut client, mut writer) = (server.client(), server.client());
        let mut silent = Silent::synchronised(&server, &mut client);
        client.text(&["SET", "k", "1"]);
        let end = field(&mut client, "master_repl_offset");
        let mut blocked = server.client();
        blocked.send(&["BLPOP", "list", "0"]);
        wait_for(|| (server.info(&mut client, "blocked_clients") == "1").then_some(()));
        assert_eq!(client.text(&["FAILOVER"]), "OK");
        writer.send(&["RPUSH", "list", "a"]);
        // Later ones would be refused.
        wait_for(|| (server.info(&mut client, "blocked_clients") == "2").then_some(()));
        assert_eq!(field(&mut client, "role"), "master");
        silent.send(&format!("REPLCONF ACK {end}\r\n"));
        let (mut link, request) = silent.accept_until_psync();
        let next = end.parse::<u64>().unwrap() + 1;
        assert!(request.contains(&format!("{next}\r\n$8\r\nFAILOVER\r\n")), "{request}");
        assert_eq!(field(&mut client, "master_failover_state"), "failover-in-progress");
        assert_eq!(field(&mut client, "role"), "slave");
        assert!(client.text(&["SET", "k", "2"]).starts_with("READONLY"));
        blocked.expect_no_data(Duration::from_millis(50));
        if refuses {
            link.write_all(b"-ERR no\r\n").unwrap();
        }
        drop(link);
        assert_eq!(support::shown(&writer.receive().unwrap()), "1");
        assert_eq!(support::shown(&blocked.receive().unwrap()), "list\na");
        assert_eq!(field(&mut client, "role"), "master");
        assert_eq!(client.text(&["SET", "k", "2"]), "OK");
        server.log_line("aborted: Failover target rejected psync request");
    }
}

#[test]
fn a_target_that_can_not_be_reached_is_tried_until_the_abort() {
    let server = Server::start(OPTIONS);
    let mut client = server.client();
    let silent = Silent::synchronised(&server, &mut client);
    let port = silent.port();
    drop(silent.listener);
    client.text(&["SET", "k", "1"]);
    assert_eq!(client.text(&["FAILOVER", "TO", "127.0.0.1", &port, "FORCE", "TIMEOUT", "50"]), "OK");
    wait_for_field(&mut client, "master_failover_state", "failover-in-progress");
    server.log_line("time out exceeded, failing over.");
    server.log_line("Error condition on socket for SYNC");
    assert_eq!(field(&mut client, "role"), "slave");
    assert_eq!(client.text(&["FAILOVER", "ABORT"]), "OK");
    assert_eq!(client.text(&["SET", "k", "2"]), "OK");
    assert_eq!(field(&mut client, "role"), "master");
}

#[test]
fn clients_that_wait_are_redirected_or_end() {
    let servers = [0; 2].map(|_| Server::start(OPTIONS));
    let [mut primary, mut replica] = servers.each_ref().map(Server::client);
    follow(&mut replica, &servers[0]);
    wait_until_online(&mut primary, 1);
    let mut waiting = [0; 4].map(|_| servers[0].client());
    for client in &mut waiting[1..3] {
        assert_eq!(client.text(&["CLIENT", "CAPA", "redirect"]), "OK");
    }
    for client in &mut waiting[2..] {
        assert_eq!(client.text(&["READONLY"]), "OK");
    }
    waiting[0].send(&["BLPOP", "list", "0"]);
    waiting[1].send(&["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]);
    waiting[2].send(&["BLPOP", "list", "0"]);
    waiting[3].send(&["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]);
    wait_for(|| (servers[0].info(&mut primary, "blocked_clients") == "4").then_some(()));
    assert_eq!(primary.text(&["FAILOVER"]), "OK");
    wait_for_field(&mut primary, "master_link_status", "up");
    let redirect = format!("REDIRECT 127.0.0.1:{}", servers[1].port);
    assert!(support::shown(&waiting[0].receive().unwrap()).starts_with("UNBLOCKED "));
    assert!(waiting[0].receive().is_none());
    assert_eq!(support::shown(&waiting[1].receive().unwrap()), redirect);
    assert_eq!(support::shown(&waiting[2].receive().unwrap()), redirect);
    assert_eq!(waiting[2].text(&["SET", "k", "v"]), redirect);
    // It accepts what a replica has.
    assert_eq!(replica.text(&["XADD", "stream", "1-1", "a", "b"]), "1-1");
    assert!(support::shown(&waiting[3].receive().unwrap()).contains("1-1"));
}

/// With each of the other servers as the target, and as the one that fails over.
#[test]
fn other_servers_take_part() {
    for path in support::peers() {
        let servers = [Server::start(OPTIONS), Server::start_program(path.to_str().unwrap(), &[], &[])];
        let mut clients = servers.each_ref().map(Server::client);
        follow(&mut clients[1], &servers[0]);
        wait_until_online(&mut clients[0], 1);
        for round in 0..2 {
            let (primary, target) = (round, 1 - round);
            clients[primary].text(&["INCR", "k"]);
            assert_eq!(clients[primary].text(&["FAILOVER"]), "OK");
            wait_for_field(&mut clients[primary], "role", "slave");
            wait_for_field(&mut clients[primary], "master_link_status", "up");
            assert_eq!(field(&mut clients[target], "role"), "master");
            assert_eq!(clients[target].text(&["GET", "k"]), (round + 1).to_string());
            assert_eq!(
                servers[target].info(&mut clients[target], "sync_full"),
                if target == 1 { "0" } else { "1" }
            );
        }
    }
}

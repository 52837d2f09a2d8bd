//! The time limit of TLS handshakes, in virtual time. The handshakes themselves use random numbers of the cryptography,
//! which no seed repeats, so TLS is no part of the loads under seeds.
#![allow(clippy::unwrap_used)]

#[path = "../../tls/tests/support/mod.rs"]
mod certificates;

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use certificates::{Authority, Files};
use reactor::simulated::{Network, Peer, Settings};
use rustls::{ClientConfig, ClientConnection};
use server::simulated::Server;
use sim::connection::{Connection, now_us};
use sync::simulation::{FreedMemory, Scheduler, SchedulerOptions};

const PLAIN: ([u8; 4], u16) = ([127, 0, 0, 1], 6379);
const ENCRYPTED: ([u8; 4], u16) = ([127, 0, 0, 1], 6380);

/// The limit, and the time in which the server checks all connections once, in seconds.
const LIMIT_S: u64 = 30;
const CHECK_S: u64 = 2;

const SECOND_US: u64 = 1_000_000;

/// The beginning of a record of 512 bytes with a ClientHello.
const HELLO: [u8; 6] = [0x16, 3, 1, 2, 0, 1];

/// Reads until this time. `None`: the connection is closed.
fn read(peer: &mut Peer, deadline_us: u64) -> Option<Vec<u8>> {
    let mut buffer = [0; 4096];
    match peer.read(&mut buffer, deadline_us) {
        Ok(0) => None,
        Ok(size) => Some(buffer[..size].to_vec()),
        Err(error) if error.kind() == ErrorKind::TimedOut => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Passes bytes between the client and the server until the condition holds.
fn exchange(client: &mut ClientConnection, peer: &mut Peer, is_done: impl Fn(&mut ClientConnection) -> bool) {
    loop {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        peer.write_all(&sent, now_us() + SECOND_US).unwrap();
        if is_done(client) {
            return;
        }
        let received = read(peer, now_us() + 10 * SECOND_US).expect("the server keeps the connection");
        assert!(!received.is_empty(), "the server replies");
        let mut rest = &received[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
}

fn serve(config: &Arc<ClientConfig>, directives: &[(&str, String)]) {
    let text = format!("bind 127.0.0.1\nport {}\nio-threads 2\nsave \"\"\n", PLAIN.1);
    let server = Server::start(&text).unwrap_or_else(|error| panic!("the server does not start: {error}"));
    let mut admin = Connection::open(SocketAddr::from(PLAIN), "admin");
    let port = ENCRYPTED.1.to_string();
    let mut set = vec!["CONFIG", "SET", "tls-port", &port];
    set.extend(directives.iter().flat_map(|(name, value)| [*name, value.as_str()]));
    admin.expect_ok(&set);

    let connect = || Peer::connect(SocketAddr::from(ENCRYPTED)).unwrap();
    let began_us = now_us();
    let (mut silent, mut slow, mut complete) = (connect(), connect(), connect());
    let mut client = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
    exchange(&mut client, &mut complete, |client| !client.is_handshaking());

    // One byte a second: each makes the connection active.
    slow.write_all(&HELLO, now_us() + SECOND_US).unwrap();
    while read(&mut slow, now_us() + SECOND_US).is_some() {
        assert!(
            now_us() - began_us < (LIMIT_S + CHECK_S) * SECOND_US,
            "a slow handshake continues after its limit"
        );
        // The server may close in the meantime, which the next read finds.
        let _ = slow.write_all(&[0], now_us() + SECOND_US);
    }
    assert!(now_us() - began_us >= LIMIT_S * SECOND_US, "a handshake has less time than its limit");
    assert_eq!(read(&mut silent, now_us() + CHECK_S * SECOND_US), None, "a silent client stays");

    // A connection whose handshake is done has no limit.
    client.writer().write_all(b"PING\r\n").unwrap();
    exchange(&mut client, &mut complete, |client| {
        let mut reply = [0; 7];
        client.reader().read(&mut reply).is_ok_and(|size| &reply[..size] == b"+PONG\r\n")
    });
    let stats = admin.text(&["INFO", "tls"]);
    assert!(stats.contains("tls_failed_handshakes:2\r\n"), "{stats}");

    drop((silent, slow, complete));
    admin.send(&[vec!["SHUTDOWN".to_owned(), "NOSAVE".to_owned()]]).unwrap();
    assert!(admin.receive().is_err(), "SHUTDOWN has no reply");
    drop(admin);
    server.wait();
}

#[test]
fn a_handshake_is_closed_after_its_limit() {
    let authority = Authority::new("authority");
    let files = Files::new("sim-handshakes", &authority);
    let directives = [
        ("tls-cert-file", files.path("server.crt")),
        ("tls-key-file", files.path("server.key")),
        ("tls-auth-clients", "no".to_owned()),
    ];
    let config = authority.client(None);
    let scheduler = Scheduler::new(1, SchedulerOptions::default());
    scheduler.set_extension(Network::new(1, Settings::default()));
    scheduler.set_extension(Arc::new(FreedMemory::default()));
    let outcome = scheduler.run(move || serve(&config, &directives));
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
}

//! Connections that a reactor opens, on each backend: one function per behaviour, one line in the table at the end.
// The lint's exemption for tests covers only functions marked as tests.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "most of it is for the other test crates")]
mod support;

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpListener};

use reactor::{CloseMode, CloseReason, ConnectionId, Event, Listener, PeerAddress, ReusePort};
use support::mixer::Mixer;
use support::{Backend, Fixture, is_available, on_each_backend, read_all, read_some};

/// Expects that connecting succeeds, and nothing before.
fn expect_connected(fixture: &mut Fixture, connection: ConnectionId) {
    fixture.until(|event| match event {
        Event::Connected { connection: which, token: 1 } => {
            assert_eq!(which, connection);
            Some(())
        }
        other => panic!("unexpected {other:?}"),
    });
}

fn connects_and_exchanges_bytes(backend: Backend) {
    let mut fixture = Fixture::new(backend);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = "127.0.0.2".parse().unwrap();
    let connection = fixture.reactor.connect(address, Some(source), 1).unwrap();
    // What is queued before is sent once the connection is established.
    fixture.reactor.send(connection, b"early ".to_vec());
    assert_eq!(fixture.reactor.connection_count(), 1);
    expect_connected(&mut fixture, connection);
    assert_eq!(fixture.reactor.peer_address(connection), Some(PeerAddress::Tcp(address)));
    let (mut peer, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), source);
    fixture.reactor.send(connection, b"late".to_vec());
    fixture.expect_sent(2);
    assert_eq!(read_some(&mut peer, 10), b"early late");
    peer.write_all(b"reply").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    fixture.until(|event| match event {
        Event::Received { token: 1, data, .. } => {
            received.extend_from_slice(&data);
            None
        }
        Event::Eof { token: 1, .. } => Some(()),
        other => panic!("unexpected {other:?}"),
    });
    assert_eq!(received, b"reply");
    fixture.reactor.close(connection, CloseMode::AfterSends);
    fixture.expect_closed(connection);
    assert_eq!(read_all(&mut peer), b"");
}

fn a_refused_connection_is_reported(backend: Backend) {
    let mut fixture = Fixture::new(backend);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for mode in [None, Some(CloseMode::AfterSends)] {
        let connection = fixture.reactor.connect(address, None, 1).unwrap();
        fixture.reactor.send(connection, b"lost".to_vec());
        if let Some(mode) = mode {
            fixture.reactor.close(connection, mode);
        }
        fixture.until(|event| match event {
            Event::Closed { connection: which, token: 1, reason: CloseReason::NotConnected(error) } => {
                assert_eq!((which, error.kind()), (connection, ErrorKind::ConnectionRefused));
                Some(())
            }
            other => panic!("unexpected {other:?}"),
        });
        assert_eq!(fixture.reactor.connection_count(), 0);
    }
    let source = "::1".parse().unwrap();
    fixture.reactor.connect(address, Some(source), 1).unwrap_err();
    assert_eq!(fixture.reactor.connection_count(), 0);
}

/// Connections to a listener whose queue is full stay in the attempt. They can be closed in it, and are not detached.
fn connecting_can_be_ended(backend: Backend) {
    const COUNT: usize = 8;
    let mut fixture = Fixture::new(backend);
    let full = Listener::tcp("127.0.0.1:0".parse().unwrap(), 1, ReusePort::No).unwrap();
    let address = full.local_address().unwrap().tcp().unwrap();
    let connections: Vec<_> =
        (0..COUNT).map(|_| fixture.reactor.connect(address, None, 1).unwrap()).collect();
    let mut connected = Vec::new();
    fixture.until(|event| {
        let Event::Connected { connection, .. } = event else { panic!("unexpected {event:?}") };
        connected.push(connection);
        (connected.len() == 2).then_some(())
    });
    let waiting: Vec<_> = connections.iter().filter(|one| !connected.contains(one)).copied().collect();
    for (number, connection) in waiting.iter().enumerate() {
        fixture.reactor.pause_receive(*connection);
        fixture.reactor.detach(*connection);
        if number % 2 == 0 {
            fixture.reactor.send(*connection, b"never sent".to_vec());
        }
    }
    fixture.turn();
    assert_eq!(fixture.reactor.connection_count(), COUNT);
    // One is closed before its first turn, and one is left to the end of the reactor.
    let fresh = fixture.reactor.connect(address, None, 1).unwrap();
    fixture.reactor.close(fresh, CloseMode::Now);
    for connection in &waiting[1..] {
        fixture.reactor.close(*connection, CloseMode::Now);
        fixture.reactor.close(*connection, CloseMode::Now);
    }
    let mut closed = Vec::new();
    fixture.until(|event| {
        let Event::Closed { connection, reason: CloseReason::Requested, .. } = event else {
            panic!("unexpected {event:?}")
        };
        closed.push(connection);
        (closed.len() == waiting.len()).then_some(())
    });
    assert!(closed.contains(&fresh) && waiting[1..].iter().all(|one| closed.contains(one)));
    fixture.drain_events();
    assert_eq!(fixture.reactor.connection_count(), 3);
}

fn a_connected_peer_takes_large_output(backend: Backend) {
    const SIZE: usize = 8 << 20;
    let mut fixture = Fixture::new(backend);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echoing = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut output = peer.try_clone().unwrap();
        std::io::copy(&mut peer, &mut output).unwrap();
    });
    let connection = fixture.reactor.connect(address, None, 1).unwrap();
    let mut mixer = Mixer::new(5);
    for _ in 0..SIZE >> 20 {
        fixture.reactor.send(connection, mixer.bytes(1 << 20));
    }
    fixture.reactor.shutdown_write(connection);
    let (mut mixer, mut received_size, mut connected_count) = (Mixer::new(5), 0, 0);
    fixture.until(|event| {
        match event {
            Event::Connected { .. } => connected_count += 1,
            Event::Received { data, .. } => {
                assert!(*data == mixer.bytes(data.len()), "bytes differ");
                received_size += data.len();
            }
            Event::Eof { .. } => return Some(()),
            Event::Sent { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
        None
    });
    assert_eq!((received_size, connected_count), (SIZE, 1));
    echoing.join().unwrap();
}

/// An established connection moves as an accepted one does.
fn a_connected_socket_can_be_detached(backend: Backend) {
    let mut fixture = Fixture::new(backend);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = fixture.reactor.connect(listener.local_addr().unwrap(), None, 1).unwrap();
    expect_connected(&mut fixture, connection);
    let (mut peer, _) = listener.accept().unwrap();
    fixture.reactor.detach(connection);
    let socket = fixture.until(|event| match event {
        Event::Detached { token: 1, socket, .. } => Some(socket),
        other => panic!("unexpected {other:?}"),
    });
    let connection = fixture.reactor.adopt(socket, 2);
    fixture.reactor.send(connection, b"moved".to_vec());
    fixture.expect_sent(1);
    assert_eq!(read_some(&mut peer, 5), b"moved");
}

on_each_backend! {
    connects_and_exchanges_bytes,
    a_refused_connection_is_reported,
    connecting_can_be_ended,
    a_connected_peer_takes_large_output,
    a_connected_socket_can_be_detached,
}

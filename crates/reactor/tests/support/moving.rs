//! Live connections that move from thread to thread.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock, mpsc};

use reactor::{CloseMode, Event, Listener, Reactor, ReactorOptions, ReusePort, Socket, Waker};

use super::mixer::Mixer;
use super::{Backend, Fixture, PATIENCE, read_all, read_some};

/// A live connection on its way between two threads.
struct Handover {
    socket: Socket,
    unsent: Vec<Vec<u8>>,
    unread: Vec<u8>,
}

/// State shared by the two echo threads.
struct Table {
    wakers: [OnceLock<Waker>; 2],
    is_over: AtomicBool,
}

/// Runs two echo threads, each of which moves connections to the other after a few receives. Meanwhile 8
/// clients stream random bytes through and check the echo, `message_count` messages per client.
pub fn move_connections(backends: [Backend; 2], message_count: usize) {
    const CLIENT_COUNT: usize = 8;
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 511, ReusePort::No).unwrap();
    let address = listener.local_address().unwrap().tcp().unwrap();
    let table = Table { wakers: [OnceLock::new(), OnceLock::new()], is_over: AtomicBool::new(false) };
    let both_ready = Barrier::new(2);
    let (left_sender, left_inbox) = mpsc::channel();
    let (right_sender, right_inbox) = mpsc::channel();
    let sides = [(left_inbox, right_sender, Some(listener)), (right_inbox, left_sender, None)];
    let moved_count: usize = std::thread::scope(|scope| {
        let mut movers = Vec::new();
        for (index, (inbox, outbox, listener)) in sides.into_iter().enumerate() {
            let (table, both_ready) = (&table, &both_ready);
            movers.push(scope.spawn(move || {
                let (mut reactor, waker) = backends[index].reactor(ReactorOptions::default()).unwrap();
                if let Some(listener) = listener {
                    reactor.listen(listener, Fixture::LISTENER).unwrap();
                }
                table.wakers[index].set(waker).unwrap();
                both_ready.wait();
                let partner = table.wakers[1 - index].get().unwrap();
                mover(&mut reactor, &inbox, &outbox, partner, &table.is_over)
            }));
        }
        let clients: Vec<_> = (0..CLIENT_COUNT as u64)
            .map(|seed| scope.spawn(move || moved_client(address, seed, message_count)))
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        table.is_over.store(true, Ordering::Release);
        table.wakers.iter().flat_map(OnceLock::get).for_each(Waker::wake);
        movers.into_iter().map(|mover| mover.join().unwrap()).sum()
    });
    assert!(moved_count > CLIENT_COUNT * 10, "only {moved_count} moves");
}

fn mover(
    reactor: &mut Reactor,
    inbox: &mpsc::Receiver<Handover>,
    outbox: &mpsc::Sender<Handover>,
    partner: &Waker,
    is_over: &AtomicBool,
) -> usize {
    let mut mixer = Mixer::new(11);
    let mut moved_count = 0;
    while !is_over.load(Ordering::Acquire) {
        reactor.wait(Some(PATIENCE)).unwrap();
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Accepted { socket, .. } => drop(reactor.adopt(socket, 0)),
                Event::Received { connection, data, .. } => {
                    reactor.send(connection, data.to_vec());
                    if mixer.below(2) == 0 {
                        reactor.detach(connection);
                    }
                }
                Event::Detached { socket, unsent, unread, .. } => {
                    moved_count += 1;
                    // The partner may have ended already; then the clients have ended too.
                    let _ = outbox.send(Handover { socket, unsent, unread });
                    partner.wake();
                }
                Event::Eof { connection, .. } => reactor.close(connection, CloseMode::AfterSends),
                Event::Woken => {
                    for Handover { socket, unsent, unread } in inbox.try_iter() {
                        let connection = reactor.adopt(socket, 0);
                        unsent.into_iter().for_each(|bytes| reactor.send(connection, bytes));
                        reactor.send(connection, unread);
                    }
                }
                Event::Connected { .. }
                | Event::Sent { .. }
                | Event::Closed { .. }
                | Event::HungUp { .. } => {}
                Event::AcceptError { error, .. } => panic!("{error}"),
            }
        }
    }
    moved_count
}

fn moved_client(address: SocketAddr, seed: u64, message_count: usize) {
    let messages = move || {
        let mut mixer = Mixer::new(seed);
        (0..message_count).map(move |_| {
            let size = 1 + if mixer.below(10) == 0 { mixer.below(100_000) } else { mixer.below(300) };
            mixer.bytes(size as usize)
        })
    };
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = client.try_clone().unwrap();
    // A bounded number of messages in flight, as otherwise all would arrive in a few large pieces.
    let (in_flight, arrived) = mpsc::sync_channel(8);
    let writing = std::thread::spawn(move || {
        for message in messages() {
            in_flight.send(()).unwrap();
            writer.write_all(&message).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    for message in messages() {
        assert!(read_some(&mut client, message.len()) == message, "bytes differ");
        arrived.recv().unwrap();
    }
    assert_eq!(read_all(&mut client), b"");
    writing.join().unwrap();
}

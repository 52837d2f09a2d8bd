//! The reactor's contract on the simulated network: the io_uring backend on a simulated kernel, under seeds.
//!
//! Two echo threads move connections to each other while clients stream random bytes through and check the
//! echo. Where the seed's queues are tiny, completions overflow constantly.
#![cfg(feature = "simulation")]
// The lint's exemption for tests covers only functions marked as tests.
#![allow(clippy::unwrap_used)]

#[path = "support/mixer.rs"]
mod mixer;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mixer::Mixer;
use reactor::faults;
use reactor::simulated::{Network, Peer, Settings};
use reactor::{
    BackendChoice, CloseMode, CloseReason, Event, Listener, ListenerToken, Reactor, ReactorOptions,
    ReusePort, Socket, Waker,
};
use sync::simulation::{self, Fault, Scheduler, SimulationOutcome, Task};

const CLIENT_COUNT: usize = 16;
const MESSAGE_COUNT: usize = 15;
/// Virtual time after which a client's wait fails.
const PATIENCE_US: u64 = 60_000_000;

/// A live connection on its way between two threads.
struct Handover {
    socket: Socket,
    unsent: Vec<Vec<u8>>,
    unread: Vec<u8>,
}

/// State shared by the echo threads. Its locks are not held at a scheduling point.
#[derive(Default)]
struct Table {
    wakers: Mutex<Vec<Waker>>,
    mail: [Mutex<VecDeque<Handover>>; 2],
    done_count: AtomicUsize,
}

fn address() -> SocketAddr {
    "127.0.0.1:6379".parse().unwrap()
}

fn deadline_us() -> u64 {
    simulation::monotonic_ns().unwrap() / 1000 + PATIENCE_US
}

/// Echoes, and moves every connection after a few receives.
fn echo(table: &Table, index: usize, listener: Option<Listener>) {
    let (mut reactor, waker) = Reactor::new(BackendChoice::Auto, ReactorOptions::default()).unwrap();
    table.wakers.lock().unwrap().push(waker);
    simulation::wait_until(None, || table.wakers.lock().unwrap().len() == 2);
    if let Some(listener) = listener {
        reactor.listen(listener, ListenerToken(1)).unwrap();
    }
    let mut random = Mixer::new(index as u64);
    while table.done_count.load(Ordering::Relaxed) < CLIENT_COUNT || reactor.connection_count() > 0 {
        reactor.wait(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Accepted { socket, .. } => drop(reactor.adopt(socket, 0)),
                Event::Received { connection, data, .. } => {
                    reactor.send(connection, data.to_vec());
                    if reactor.pending_send_bytes(connection) > 4 << 10 {
                        reactor.pause_receive(connection);
                    } else if random.below(16) == 0 {
                        reactor.detach(connection);
                    }
                }
                Event::Sent { connection, .. } if reactor.pending_send_bytes(connection) == 0 => {
                    reactor.resume_receive(connection);
                }
                Event::Eof { connection, .. } => reactor.close(connection, CloseMode::AfterSends),
                Event::Detached { socket, unsent, unread, .. } => {
                    table.mail[1 - index].lock().unwrap().push_back(Handover { socket, unsent, unread });
                    let waker = table.wakers.lock().unwrap()[1 - index].clone();
                    waker.wake();
                }
                Event::Closed { reason, .. } => simulation::trace(|| format!("closed: {reason:?}")),
                _ => {}
            }
        }
        loop {
            let Some(moved) = table.mail[index].lock().unwrap().pop_front() else { break };
            let connection = reactor.adopt(moved.socket, 0);
            moved.unsent.into_iter().for_each(|bytes| reactor.send(connection, bytes));
            reactor.send(connection, moved.unread);
        }
    }
}

/// Streams random bytes, and checks that exactly these are echoed.
fn client(seed: u64) {
    let mut peer = Peer::connect(address()).unwrap();
    let mut random = Mixer::new(seed);
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut buffer = [0; 4096];
    for _ in 0..MESSAGE_COUNT {
        let size = 1 + usize::from(random.bytes(1)[0]) * 4;
        let message = random.bytes(size);
        peer.write_all(&message, deadline_us()).unwrap();
        sent.extend(message);
        // Sometimes ahead of the replies, but by no more than the smallest buffers hold.
        while received.len() + 256 < sent.len() {
            let size = peer.read(&mut buffer, deadline_us()).unwrap();
            assert!(size > 0, "the server closed the connection");
            received.extend_from_slice(&buffer[..size]);
        }
    }
    peer.shut_write();
    loop {
        match peer.read(&mut buffer, deadline_us()).unwrap() {
            0 => break,
            size => received.extend_from_slice(&buffer[..size]),
        }
    }
    assert_eq!(received.len(), sent.len(), "bytes are missing");
    assert!(received == sent, "bytes differ");
}

fn run(seed: u64, faults: Vec<Fault>) -> SimulationOutcome {
    let options = simulation::SchedulerOptions {
        faults,
        steps_max: 50_000_000,
        ..simulation::SchedulerOptions::default()
    };
    let scheduler = Scheduler::new(seed, options);
    scheduler.set_extension(Network::new(seed, Settings::draw(seed)));
    scheduler.run(move || {
        let listener = Listener::tcp(address(), 511, ReusePort::No).unwrap();
        let table = Arc::new(Table::default());
        let mut listener = Some(listener);
        let servers: Vec<Task> = (0..2)
            .map(|index| {
                let (table, listener) = (Arc::clone(&table), listener.take());
                simulation::spawn(&format!("echo {index}"), move || echo(&table, index, listener)).unwrap()
            })
            .collect();
        let clients: Vec<Task> = (0..CLIENT_COUNT as u64)
            .map(|number| {
                let table = Arc::clone(&table);
                let body = move || {
                    client(seed * 100 + number);
                    table.done_count.fetch_add(1, Ordering::Relaxed);
                };
                simulation::spawn(&format!("client {number}"), body).unwrap()
            })
            .collect();
        clients.iter().chain(&servers).for_each(Task::join);
        let network = Network::current().unwrap();
        // Left are the standard streams, and the eventfds of wakers that are still held.
        drop(listener);
        table.wakers.lock().unwrap().clear();
        assert_eq!(network.descriptor_count(), 3, "a descriptor is left");
    })
}

#[test]
fn no_byte_is_lost_or_duplicated_on_any_network() {
    for seed in 0..30 {
        let outcome = run(seed, Vec::new());
        assert_eq!(outcome.failure, None, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..3 {
        let outcome = run(seed, Vec::new());
        assert_eq!(outcome, run(seed, Vec::new()));
    }
}

/// If sends are considered complete while completions wait in the kernel's list, bytes are lost within this
/// many seeds.
#[test]
fn sends_completed_too_early_are_found() {
    const SEED_COUNT_MAX: u64 = 20;
    let found = (0..SEED_COUNT_MAX).find(|seed| run(*seed, vec![faults::EARLY_SETTLE]).failure.is_some());
    eprintln!("found by seed {found:?}");
    assert!(found.is_some(), "not found in {SEED_COUNT_MAX} seeds");
}

/// Streams bytes to an echo server over a connection of a reactor, after a connection that is refused.
fn connect_and_check(seed: u64) {
    let (mut reactor, _) = Reactor::new(BackendChoice::Auto, ReactorOptions::default()).unwrap();
    let bytes = Mixer::new(seed).bytes(20_000);
    let refused = reactor.connect("127.0.0.1:1".parse().unwrap(), None, 1).unwrap();
    let connection = reactor.connect(address(), None, 2).unwrap();
    bytes.chunks(1000).for_each(|part| reactor.send(connection, part.to_vec()));
    reactor.shutdown_write(connection);
    let (mut received, mut connected_count, mut refused_count) = (Vec::new(), 0, 0);
    while reactor.connection_count() > 0 {
        reactor.wait(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Connected { token: 2, .. } => connected_count += 1,
                Event::Received { token: 2, data, .. } => received.extend_from_slice(&data),
                Event::Eof { token: 2, .. } => reactor.close(connection, CloseMode::Now),
                Event::Closed { connection, token: 1, reason } => {
                    assert!(connection == refused && matches!(reason, CloseReason::NotConnected(_)));
                    refused_count += 1;
                }
                Event::Closed { token: 2, reason, .. } => {
                    assert!(matches!(reason, CloseReason::Requested), "{reason:?}");
                }
                Event::Sent { token: 2, .. } | Event::HungUp { token: 2, .. } => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    assert_eq!((connected_count, refused_count), (1, 1));
    assert!(received == bytes, "bytes differ");
}

#[test]
fn reactors_connect_on_any_network() {
    for seed in 0..30 {
        let options = simulation::SchedulerOptions { steps_max: 50_000_000, ..Default::default() };
        let scheduler = Scheduler::new(seed, options);
        scheduler.set_extension(Network::new(seed, Settings::draw(seed)));
        let outcome = scheduler.run(move || {
            let listener = Listener::tcp(address(), 511, ReusePort::No).unwrap();
            let server = simulation::spawn("server", move || serve_one(listener)).unwrap();
            let client = simulation::spawn("client", move || connect_and_check(seed)).unwrap();
            [client, server].iter().for_each(Task::join);
        });
        assert_eq!(outcome.failure, None, "seed {seed}: {outcome:?}");
    }
}

/// Echoes to one connection until it ends.
fn serve_one(listener: Listener) {
    let (mut reactor, _) = Reactor::new(BackendChoice::Auto, ReactorOptions::default()).unwrap();
    reactor.listen(listener, ListenerToken(1)).unwrap();
    loop {
        reactor.wait(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Accepted { socket, .. } => drop(reactor.adopt(socket, 0)),
                Event::Received { connection, data, .. } => reactor.send(connection, data.to_vec()),
                Event::Eof { connection, .. } => reactor.close(connection, CloseMode::AfterSends),
                Event::Closed { .. } => return,
                _ => {}
            }
        }
    }
}

//! Real threads with as many collisions as possible. Miri also runs this, with smaller numbers.

#![cfg(not(loom))]
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use sync::epoch::Domain;
use sync::{Claim, Guard, LatchTable, Mailbox, Mode, Parked};

const THREAD_COUNT: usize = 4;
const SESSION_COUNT: usize = 3;
const SLOT_COUNT: usize = 4;
const COMMAND_COUNT: usize = if cfg!(miri) { 15 } else { 20_000 };
const MESSAGE_COUNT: usize = if cfg!(miri) { 40 } else { 100_000 };
const PIECE_COUNT: usize = if cfg!(miri) { 30 } else { 30_000 };

/// A thread's mailbox and its wake-up handle.
#[derive(Default)]
struct Server {
    mailbox: Mailbox<usize>,
    thread: OnceLock<Thread>,
}

impl Server {
    fn post(&self, message: usize) {
        if self.mailbox.post(message).expect("the mailbox is open") {
            self.thread.get().expect("a sleeping server has started").unpark();
        }
    }

    fn sleep(&self) {
        if self.mailbox.prepare_sleep() {
            thread::park();
            self.mailbox.awake();
        }
    }
}

type Table = LatchTable<(), u64>;

/// A client that sends one command after another; each moves 1 from one slot to another, or computes a sum.
struct Session<'t> {
    token: usize,
    commands_left: usize,
    wanted: Vec<usize>,
    mode: Mode,
    held: Vec<Guard<'t, (), u64>>,
}

impl<'t> Session<'t> {
    fn new(token: usize) -> Self {
        Session {
            token,
            commands_left: COMMAND_COUNT,
            wanted: Vec::new(),
            mode: Mode::Read,
            held: Vec::new(),
        }
    }

    /// Runs until the command is complete (true) or must wait (false).
    fn run(&mut self, table: &'t Table) -> bool {
        while self.commands_left > 0 {
            while let Some(&slot) = self.wanted.last() {
                let guard = match table.try_latch(slot, self.mode) {
                    Some(guard) => guard,
                    None => match table.park(slot, self.mode, self.token as u64) {
                        Parked::Acquired(guard) => guard,
                        Parked::Waiting => return false,
                    },
                };
                self.has(guard);
            }
            self.execute();
            self.next_command();
        }
        self.wanted.clear();
        true
    }

    fn resume(&mut self, table: &'t Table) -> bool {
        let slot = *self.wanted.last().expect("the session waits for a slot");
        match table.claim(slot, self.token as u64) {
            Claim::Acquired(guard) => {
                self.has(guard);
                self.run(table)
            }
            Claim::Pending => false,
            Claim::NotWaiting => panic!("session {} is lost", self.token),
        }
    }

    fn has(&mut self, guard: Guard<'t, (), u64>) {
        self.wanted.pop();
        self.held.push(guard);
    }

    fn execute(&mut self) {
        match &mut self.held[..] {
            [] => {}
            [one] if self.mode == Mode::Read => assert!(**one < 1_000_000),
            [from, to] if self.mode == Mode::Write => {
                *from.as_mut().expect("held to write") -= 1;
                *to.as_mut().expect("held to write") += 1;
            }
            all => assert_eq!(all.iter().map(|guard| **guard).sum::<u64>(), 500_000 * SLOT_COUNT as u64),
        }
        self.held.clear();
    }

    fn next_command(&mut self) {
        self.commands_left -= 1;
        let choice = (self.commands_left + self.token) % 7;
        self.mode = if choice < 3 { Mode::Write } else { Mode::Read };
        self.wanted = match choice {
            0..3 => vec![choice + 1, choice],
            3..6 => vec![choice - 3],
            _ => (0..SLOT_COUNT).rev().collect(),
        };
    }
}

/// Two-slot writes, one-slot reads and reads of all slots, with more sessions than threads and more threads
/// than cores.
#[test]
fn transfers_between_slots_keep_the_sum() {
    let servers: Arc<[Server]> = (0..THREAD_COUNT).map(|_| Server::default()).collect();
    let post = servers.clone();
    let table = Table::new(
        SLOT_COUNT,
        |_| ((), 500_000),
        move |token| post[token as usize / SESSION_COUNT].post(token as usize),
    );
    thread::scope(|scope| {
        for (index, server) in servers.iter().enumerate() {
            let table = &table;
            scope.spawn(move || {
                server.thread.get_or_init(thread::current);
                let first = index * SESSION_COUNT;
                let mut sessions: Vec<_> = (first..first + SESSION_COUNT).map(Session::new).collect();
                let mut done_count =
                    sessions.iter_mut().filter_map(|session| session.run(table).then_some(())).count();
                let mut messages = Vec::new();
                while done_count < SESSION_COUNT {
                    server.mailbox.drain(&mut messages);
                    for token in messages.drain(..) {
                        done_count += usize::from(sessions[token - first].resume(table));
                    }
                    if done_count < SESSION_COUNT {
                        server.sleep();
                    }
                }
            });
        }
    });
    let all: Vec<_> =
        (0..SLOT_COUNT).map(|slot| table.try_write_now(slot).expect("all guards are dropped")).collect();
    assert!(all.iter().all(|guard| !guard.is_wanted()));
    assert_eq!(all.iter().map(|guard| **guard).sum::<u64>(), 500_000 * SLOT_COUNT as u64);
}

#[test]
fn mailbox_delivers_all_in_the_order_of_each_producer() {
    let owner = Server::default();
    owner.thread.get_or_init(thread::current);
    thread::scope(|scope| {
        for producer in 0..THREAD_COUNT {
            let owner = &owner;
            scope.spawn(move || {
                (0..MESSAGE_COUNT).for_each(|message| owner.post(message * THREAD_COUNT + producer));
            });
        }
        let mut expected = [0; THREAD_COUNT];
        let mut messages = Vec::new();
        while expected.iter().sum::<usize>() < MESSAGE_COUNT * THREAD_COUNT {
            owner.mailbox.drain(&mut messages);
            if messages.is_empty() {
                owner.sleep();
            }
            for message in messages.drain(..) {
                assert_eq!(message / THREAD_COUNT, expected[message % THREAD_COUNT]);
                expected[message % THREAD_COUNT] += 1;
            }
        }
    });
    assert_eq!(owner.mailbox.unread_count(), 0);
}

/// An unlinked box.
struct Garbage(*mut usize);

// SAFETY: the owner may drop the box on any thread.
unsafe impl Send for Garbage {}

impl Drop for Garbage {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and unlinked; all participants have been quiescent, so there are no
        // readers.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Readers that follow a pointer without a latch; they sleep, wake, deregister and register again.
#[test]
fn garbage_outlives_its_readers() {
    let domain = Domain::new();
    let current = AtomicPtr::new(Box::into_raw(Box::new(0)));
    let readers_left = AtomicUsize::new(THREAD_COUNT - 1);
    thread::scope(|scope| {
        for _ in 0..THREAD_COUNT - 1 {
            scope.spawn(|| {
                let mut latest = 0;
                let mut participant = domain.register().expect("a place is vacant");
                for turn in 0.. {
                    // SAFETY: unlinked boxes are kept until this thread is quiescent or offline.
                    let piece = unsafe { &*current.load(Ordering::Acquire) };
                    assert!(latest <= *piece && *piece <= PIECE_COUNT, "{latest} {piece}");
                    latest = *piece;
                    if latest == PIECE_COUNT {
                        break;
                    }
                    match turn % 64 {
                        7 => {
                            drop(participant);
                            participant = domain.register().expect("a place is vacant");
                        }
                        11 | 47 => {
                            participant.offline();
                            thread::yield_now();
                            participant.online();
                        }
                        _ => participant.quiescent(),
                    }
                }
                readers_left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut freed_count = 0;
        let mut garbage = Vec::new();
        for number in 1..=PIECE_COUNT {
            let piece = Box::into_raw(Box::new(number));
            domain.retire(Garbage(current.swap(piece, Ordering::AcqRel)));
            domain.collect(&mut garbage);
            freed_count += garbage.drain(..).count();
        }
        while readers_left.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        while freed_count < PIECE_COUNT {
            domain.collect(&mut garbage);
            freed_count += garbage.drain(..).count();
        }
    });
    assert_eq!(domain.garbage_count(), 0);
    drop(Garbage(current.into_inner()));
}

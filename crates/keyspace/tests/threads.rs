//! Threads that move amounts between keys under the latches of one or several slots: every reader finds the
//! same sum.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use base::{DbIndex, Millis, Slot};
use collections::{ExpiryChange, NewValue, ValueRef};
use keyspace::{Busy, Key, Keyspace, Latching, Random};
use sync::Mode;

const THREAD_COUNT: usize = 4;
const KEY_COUNT: u64 = 12;
const ROUND_COUNT: usize = 4_000;
const AMOUNT: i64 = 1000;

/// A session that waits for its latches as in the server: parked, until it is woken and claims its latch.
struct Session<'k> {
    latching: Latching<'k>,
    token: u64,
    wake_ups: Receiver<()>,
    /// Receives a message each time it is parked.
    parked: Sender<()>,
}

impl Session<'_> {
    /// Repeats `try_latch` until everything is held.
    fn hold(&mut self, mode: Mode, try_latch: impl Fn(&mut Latching<'_>) -> Result<(), Busy>) {
        while let Err(busy) = try_latch(&mut self.latching) {
            if self.latching.park(busy, mode, self.token) {
                continue;
            }
            self.parked.send(()).expect("the test outlives its sessions");
            loop {
                self.wake_ups.recv().expect("the release of the latch wakes this session");
                if self.latching.claim(busy, self.token) {
                    break;
                }
            }
        }
    }

    fn hold_keys(&mut self, keys: &[Key<'_>], mode: Mode) {
        let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        match slots[..] {
            [slot] => {
                self.hold(
                    mode,
                    |latching| if latching.holds_nothing() { latching.latch(slot, mode) } else { Ok(()) },
                );
            }
            _ => self.hold(mode, |latching| latching.latch_several(slots.iter().copied(), mode)),
        }
    }
}

fn balance(latching: &Latching<'_>, key: Key<'_>) -> i64 {
    match latching.peek(key).expect("accounts are never deleted").value() {
        ValueRef::Int(value) => value,
        other => panic!("not an amount: {other:?}"),
    }
}

fn sum(latching: &Latching<'_>) -> i64 {
    let mut sum = 0;
    latching.for_each(DbIndex(0), |entry| match entry.value() {
        ValueRef::Int(value) => sum += value,
        other => panic!("not an amount: {other:?}"),
    });
    sum
}

/// Moves a random part of each key's amount to the next of some keys.
fn transfer(session: &mut Session<'_>, random: &Random) {
    let names: Vec<String> = (0..=random.below(4)).map(|_| random.below(KEY_COUNT).to_string()).collect();
    let hasher = session.latching.keyspace().hasher();
    let keys: Vec<Key<'_>> = names.iter().map(|name| Key::new(hasher, name.as_bytes(), DbIndex(0))).collect();
    session.hold_keys(&keys, Mode::Write);
    for (from, to) in keys.iter().zip(keys.iter().skip(1)) {
        let amount = random.below(100) as i64;
        let left = balance(&session.latching, *from) - amount;
        session.latching.edit(*from, |entry| drop(entry.set_int(left)));
        let gained = balance(&session.latching, *to) + amount;
        session.latching.edit(*to, |entry| drop(entry.set_int(gained)));
    }
    session.latching.release();
}

fn run(session: &mut Session<'_>) {
    let random = Random::new(7 + session.token);
    for _ in 0..ROUND_COUNT {
        match random.below(100) {
            0 => {
                session.hold(Mode::Read, |latching| latching.latch_all(Mode::Read));
                assert_eq!(sum(&session.latching), KEY_COUNT as i64 * AMOUNT);
                session.latching.release();
            }
            1..20 => {
                let name = random.below(KEY_COUNT).to_string();
                let key = Key::new(session.latching.keyspace().hasher(), name.as_bytes(), DbIndex(0));
                session.hold_keys(&[key], Mode::Read);
                balance(&session.latching, key);
                session.latching.release();
            }
            _ => transfer(session, &random),
        }
    }
}

#[test]
fn transfers_between_random_slots_keep_the_sum() {
    let (senders, receivers): (Vec<Sender<()>>, Vec<Receiver<()>>) =
        (0..THREAD_COUNT).map(|_| mpsc::channel()).unzip();
    let senders = Mutex::new(senders);
    let wake = move |token: u64| {
        let senders = senders.lock().expect("no panic occurs under the lock");
        senders[token as usize].send(()).expect("sessions outlive their waits");
    };
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
    let mut latching = Latching::new(&keyspace, THREAD_COUNT, 1);
    latching.mode.now = Millis(1);
    for number in 0..KEY_COUNT {
        let name = number.to_string();
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0));
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        latching.set(key, NewValue::Int(AMOUNT), ExpiryChange::Clear);
        latching.release();
    }
    let (parked, parkings) = mpsc::channel();
    latching.latch_all(Mode::Write).expect("no other session holds a latch");
    std::thread::scope(|scope| {
        for (number, wake_ups) in receivers.into_iter().enumerate() {
            let (keyspace, parked) = (&keyspace, parked.clone());
            scope.spawn(move || {
                let mut latching = Latching::new(keyspace, number, number as u64);
                latching.mode.now = Millis(1);
                let mut session = Session { latching, token: number as u64, wake_ups, parked };
                run(&mut session);
            });
        }
        // Each of them has to wait at first.
        parkings.iter().take(THREAD_COUNT).for_each(drop);
        latching.release();
    });
    latching.latch_all(Mode::Read).expect("all sessions have ended");
    assert_eq!(sum(&latching), KEY_COUNT as i64 * AMOUNT);
    latching.release();
    assert_eq!(keyspace.counters.population(0).keys, KEY_COUNT);
}

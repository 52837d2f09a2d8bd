//! Sessions that latch several slots each, wait, are woken, and disconnect. One thread plays all of them in a
//! seeded order and checks each outcome against the permitted ones.

#![cfg(not(loom))]

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use sync::{Claim, Guard, LatchTable, Mode, Parked};

const SLOT_COUNT: usize = 3;
const SESSION_COUNT: usize = 8;
const SEED_COUNT: u64 = if cfg!(miri) { 2 } else { 400 };
const STEP_COUNT: usize = if cfg!(miri) { 150 } else { 1_500 };

/// A small pseudorandom generator (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}

#[derive(Default)]
struct Session<'t> {
    /// The slots still to acquire, in descending order.
    wanted: Vec<(usize, Mode)>,
    held: Vec<(Mode, Guard<'t, (), u64>)>,
    wait: Option<Wait>,
}

/// The session's wait for the last of its wanted slots.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wait {
    arrival: u64,
    woken: bool,
    /// A claim has failed: this session has priority over newcomers.
    is_due: bool,
}

struct World<'t> {
    table: &'t LatchTable<(), u64>,
    calls: Receiver<u64>,
    sessions: Vec<Session<'t>>,
    random: Random,
    arrival_count: u64,
    written: [u64; SLOT_COUNT],
}

impl<'t> World<'t> {
    fn step(&mut self) {
        let index = self.random.below(SESSION_COUNT);
        match self.sessions[index].wait {
            Some(wait) if wait.woken => self.claim(index),
            Some(_) if self.random.below(40) == 0 => self.cut_off(index),
            Some(_) => {}
            None if self.sessions[index].wanted.is_empty() => {
                if self.sessions[index].held.is_empty() {
                    self.begin(index);
                } else {
                    self.release_one(index);
                }
            }
            None => self.acquire(index),
        }
        self.check();
    }

    /// Gives the session a command with one to three slots.
    fn begin(&mut self, index: usize) {
        let slots: BTreeSet<_> =
            (0..1 + self.random.below(3)).map(|_| self.random.below(SLOT_COUNT)).collect();
        for slot in slots.into_iter().rev() {
            let mode = if self.random.below(2) == 0 { Mode::Read } else { Mode::Write };
            self.sessions[index].wanted.push((slot, mode));
        }
    }

    fn acquire(&mut self, index: usize) {
        let &(slot, mode) = self.sessions[index].wanted.last().expect("the session wants a slot");
        let free = self.could_have(slot, mode);
        if let Some(guard) = self.table.try_latch(slot, mode) {
            assert!(free, "a newcomer acquired a slot that is held or reserved for a waiter");
            return self.acquired(index, guard);
        }
        match self.table.park(slot, mode, index as u64) {
            Parked::Acquired(_) => panic!("acquired an unavailable slot without a release"),
            Parked::Waiting => {
                self.arrival_count += 1;
                let wait = Wait { arrival: self.arrival_count, woken: false, is_due: false };
                self.sessions[index].wait = Some(wait);
            }
        }
    }

    fn claim(&mut self, index: usize) {
        let &(slot, mode) = self.sessions[index].wanted.last().expect("the session wants a slot");
        let wait = self.sessions[index].wait.expect("the session waits");
        match self.table.claim(slot, index as u64) {
            Claim::Acquired(guard) => {
                assert!(self.is_compatible(slot, mode));
                self.sessions[index].wait = None;
                // A pending session may have been granted the slot before the other one became pending.
                let first_due = self.waiters(slot).filter(|(_, other)| other.is_due && !other.woken);
                let first_due = first_due.map(|(_, other)| other.arrival).min();
                let in_turn = wait.is_due || first_due.is_none_or(|due| wait.arrival < due);
                assert!(in_turn, "overtook a pending waiter");
                self.acquired(index, guard);
            }
            Claim::Pending => {
                assert!(!wait.is_due, "the claim failed after a second wake-up");
                self.sessions[index].wait = Some(Wait { woken: false, is_due: true, ..wait });
            }
            Claim::NotWaiting => panic!("a waiter is lost"),
        }
        self.drain_wake_ups();
    }

    fn acquired(&mut self, index: usize, mut guard: Guard<'t, (), u64>) {
        let session = &mut self.sessions[index];
        let (slot, mode) = session.wanted.pop().expect("the session has just acquired a wanted slot");
        assert_eq!((guard.slot(), *guard), (slot, self.written[slot]));
        if let Some(data) = guard.as_mut() {
            *data += 1;
            self.written[slot] += 1;
        }
        session.held.push((mode, guard));
    }

    fn release_one(&mut self, index: usize) {
        let position = self.random.below(self.sessions[index].held.len());
        drop(self.sessions[index].held.swap_remove(position));
        self.drain_wake_ups();
    }

    /// Disconnects the client: cancels its wait and drops all its guards.
    fn cut_off(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        if session.wait.is_some() {
            let &(slot, _) = session.wanted.last().expect("the session wants a slot");
            self.table.cancel(slot, index as u64);
        }
        *session = Session::default();
        self.drain_wake_ups();
    }

    fn drain_wake_ups(&mut self) {
        for token in self.calls.try_iter() {
            let wait = self.sessions[token as usize]
                .wait
                .as_mut()
                .expect("a wake-up for a session that does not wait");
            assert!(!wait.woken, "woken twice for one claim");
            wait.woken = true;
        }
    }

    fn holders(&self, slot: usize) -> Vec<Mode> {
        let guards = self.sessions.iter().flat_map(|session| &session.held);
        guards.filter(|(_, guard)| guard.slot() == slot).map(|&(mode, _)| mode).collect()
    }

    fn waiters(&self, slot: usize) -> impl Iterator<Item = (Mode, Wait)> {
        let waits = self.sessions.iter().filter_map(|session| Some((session.wanted.last()?, session.wait?)));
        waits.filter(move |((wanted, _), _)| *wanted == slot).map(|(&(_, mode), wait)| (mode, wait))
    }

    fn is_compatible(&self, slot: usize, mode: Mode) -> bool {
        let holders = self.holders(slot);
        holders.is_empty() || (mode == Mode::Read && !holders.contains(&Mode::Write))
    }

    /// Whether a newcomer may acquire the slot. A pending session that was woken already holds it, before its
    /// claim.
    fn could_have(&self, slot: usize, mode: Mode) -> bool {
        self.is_compatible(slot, mode)
            && self
                .waiters(slot)
                .filter(|(_, wait)| wait.is_due)
                .all(|(granted, wait)| wait.woken && granted == Mode::Read && mode == Mode::Read)
    }

    /// Asserts that each waiting session waits for a holder or a woken session.
    fn check(&self) {
        for slot in 0..SLOT_COUNT {
            let holders = self.holders(slot);
            assert!(holders.len() <= 1 || !holders.contains(&Mode::Write), "slot {slot}: {holders:?}");
            let idle = holders.is_empty() && self.waiters(slot).all(|(_, wait)| !wait.woken);
            assert!(
                !idle || self.waiters(slot).next().is_none(),
                "slot {slot}: all sessions wait for a free slot"
            );
        }
    }

    /// Without new commands, all sessions finish.
    fn finish(&mut self) {
        while let Some(index) = (0..SESSION_COUNT).find(|&index| self.can_go_on(index)) {
            match self.sessions[index].wait {
                Some(_) => self.claim(index),
                None if self.sessions[index].wanted.is_empty() => self.release_one(index),
                None => self.acquire(index),
            }
            self.check();
        }
        assert!(self.sessions.iter().all(|session| session.wait.is_none()), "deadlock");
        for slot in 0..SLOT_COUNT {
            let guard = self.table.try_write_now(slot).expect("all guards are dropped");
            assert!(!guard.is_wanted());
            assert_eq!(*guard, self.written[slot]);
        }
    }

    fn can_go_on(&self, index: usize) -> bool {
        let session = &self.sessions[index];
        match session.wait {
            Some(wait) => wait.woken,
            None => !(session.wanted.is_empty() && session.held.is_empty()),
        }
    }
}

#[test]
fn all_sessions_complete_in_any_order_of_events() {
    for seed in 1..=SEED_COUNT {
        let (sender, calls) = channel();
        let table = LatchTable::new(SLOT_COUNT, |_| ((), 0), move |token| _ = sender.send(token));
        let mut world = World {
            table: &table,
            calls,
            sessions: (0..SESSION_COUNT).map(|_| Session::default()).collect(),
            arrival_count: 0,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            written: [0; SLOT_COUNT],
        };
        for _ in 0..STEP_COUNT {
            world.step();
        }
        world.finish();
    }
}

//! The parking lot: for each slot that somebody waits for, the queue of those who wait.
//!
//! Owns the queues, and the bits `WAITERS` and `FAIR` of the latches. Touched only under contention: by who could
//! not have a latch, and by who releases one that has `WAITERS`. A waiter is a token; what it stands for, and how
//! it is told, is the business of the `wake` function, which is called outside the lock.
//!
//! | FROM | TO | step |
//! |---|---|---|
//! | - | `Waiting` | [`Lot::park`]: the latch can't be had |
//! | `Waiting` | `Called` | [`Queue::serve`]: the latch could be had; woken. Newcomers may be faster |
//! | `Waiting`, `Called` | gone | [`Lot::claim`]: has the latch |
//! | `Waiting`, `Called` | `HandoffPending` | [`Lot::claim`]: came too late; from now on newcomers keep out |
//! | `HandoffPending` | `Granted` | [`Queue::serve`]: the latch is handed over; woken |
//! | `Granted` | gone | [`Lot::claim`]: has the latch |
//! | any | gone | [`Lot::cancel`]: the turn is passed on, and a granted latch released |
//!
//! Calling before granting keeps a hot slot fast when threads are more than cores: the latch is never kept for
//! a thread that is not known to run. Granting after the first vain claim makes sure that everybody has it in
//! the end, in the order of the queue. Between a `serve` that wakes a waiter and its `claim`, nobody wakes it again.
//!
//! Invariants, whenever the shard is not locked: (1) `waiting_count` and `handoff_pending_count` are the numbers of waiters in
//! these states; (2) `WAITERS` is set if and only if one of them is not 0, `FAIR` if and only if `handoff_pending_count` is not;
//! (3) no queue is empty; (4) somebody will go on: if anybody is `Waiting` or `HandoffPending`, the latch is held, or a waiter has been
//! woken that has not claimed yet.

use crate::counter::Padded;
use crate::latch::{Announced, Latch, Mode, Released};
use crate::shim::{Mutex, lock};
use std::collections::VecDeque;

/// Enough that two contended slots rarely share a lock.
#[cfg(not(loom))]
const SHARD_COUNT: usize = 64;
#[cfg(loom)]
const SHARD_COUNT: usize = 2;

/// Tells whoever `token` stands for to claim.
pub(crate) type Wake = Box<dyn Fn(u64) + Send + Sync>;

/// What a claim came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Acquired(Mode),
    Pending,
    NotWaiting,
}

pub(crate) struct Lot {
    shards: Box<[Padded<Mutex<Shard>>]>,
    wake: Wake,
}

/// The queues of the slots `shard, shard + SHARD_COUNT, ...`; none where nobody waits.
type Shard = Box<[Option<Box<Queue>>]>;

impl Lot {
    pub(crate) fn new(slot_count: usize, wake: Wake) -> Self {
        let queue_count = slot_count.div_ceil(SHARD_COUNT);
        let shard = |_| Padded(Mutex::new((0..queue_count).map(|_| None).collect()));
        Lot { shards: (0..SHARD_COUNT).map(shard).collect(), wake }
    }

    /// Acquires, or else queues a waiter: in one step, as the holder sees it.
    pub(crate) fn park(&self, latch: &Latch, slot: usize, mode: Mode, token: u64) -> Announced {
        let mut shard = lock(&self.shards[slot % SHARD_COUNT]);
        let announced = latch.acquire_or_announce(mode);
        if announced == Announced::Waiting {
            let queue = shard[slot / SHARD_COUNT].get_or_insert_default();
            debug_assert!(queue.position(token).is_none(), "token {token} waits for slot {slot} already");
            queue.waiters.push_back(Waiter { token, mode, turn: Turn::Waiting });
            queue.waiting_count += 1;
            queue.update_latch(latch);
        }
        announced
    }

    /// Acquires for a waiter that has been woken, or else makes sure that it comes first next time.
    pub(crate) fn claim(&self, latch: &Latch, slot: usize, token: u64) -> Claimed {
        self.with_queue(latch, slot, |queue, calls| queue.claim(latch, token, calls))
            .unwrap_or(Claimed::NotWaiting)
    }

    /// Takes a waiter out, wherever it has got to.
    pub(crate) fn cancel(&self, latch: &Latch, slot: usize, token: u64) {
        self.with_queue(latch, slot, |queue, calls| queue.cancel(latch, token, calls));
    }

    /// Does what a release has left to do.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_waiters(&self, latch: &Latch, slot: usize) {
        self.with_queue(latch, slot, |queue, calls| queue.serve(latch, calls));
    }

    /// Runs `step` on the slot's queue, if there is one, and wakes who has been called.
    fn with_queue<R>(
        &self,
        latch: &Latch,
        slot: usize,
        step: impl FnOnce(&mut Queue, &mut Calls) -> R,
    ) -> Option<R> {
        let mut calls = Calls::default();
        let mut shard = lock(&self.shards[slot % SHARD_COUNT]);
        let place = &mut shard[slot / SHARD_COUNT];
        let queue = place.as_mut()?;
        let outcome = step(queue, &mut calls);
        queue.update_latch(latch);
        if queue.waiters.is_empty() {
            *place = None;
        }
        drop(shard);
        calls.into_tokens().for_each(&self.wake);
        Some(outcome)
    }
}

/// Who waits for one slot, in order of arrival.
#[derive(Default)]
struct Queue {
    waiters: VecDeque<Waiter>,
    waiting_count: usize,
    handoff_pending_count: usize,
}

#[derive(Clone, Copy)]
struct Waiter {
    token: u64,
    mode: Mode,
    turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Waiting,
    Called,
    HandoffPending,
    Granted,
}

impl Queue {
    fn claim(&mut self, latch: &Latch, token: u64, calls: &mut Calls) -> Claimed {
        let Some(position) = self.position(token) else { return Claimed::NotWaiting };
        let Waiter { mode, turn, .. } = self.waiters[position];
        let has_it = match turn {
            Turn::Granted => true,
            Turn::HandoffPending => false,
            // Those who came too late before go first.
            Turn::Waiting | Turn::Called => self.handoff_pending_count == 0 && latch.try_grant(mode),
        };
        if has_it {
            // Nobody else can be served: who might have come along has been called with this one, or by a release since.
            self.remove(position);
            return Claimed::Acquired(mode);
        }
        if turn != Turn::HandoffPending {
            self.turn(position, Turn::HandoffPending);
            latch.block_newcomers();
            self.serve(latch, calls);
            // It may have been released just now; then there is no need to wake oneself.
            if self.waiters[position].turn == Turn::Granted {
                calls.forget(token);
                self.remove(position);
                return Claimed::Acquired(mode);
            }
        }
        Claimed::Pending
    }

    fn cancel(&mut self, latch: &Latch, token: u64, calls: &mut Calls) {
        let Some(position) = self.position(token) else { return };
        let Waiter { mode, turn, .. } = self.remove(position);
        if turn == Turn::Granted {
            // Whatever it says, the others are served below.
            let (Released::Done | Released::CallWaiters) = latch.release(mode);
        }
        self.serve(latch, calls);
    }

    /// Hands the latch to those who are due, as far as it goes; if none is left, calls whoever is next.
    fn serve(&mut self, latch: &Latch, calls: &mut Calls) {
        if self.handoff_pending_count > 0 {
            self.grant_due(latch, calls);
        }
        if self.handoff_pending_count == 0 && self.waiting_count > 0 {
            self.call_next(latch, calls);
        }
    }

    fn grant_due(&mut self, latch: &Latch, calls: &mut Calls) {
        for position in 0..self.waiters.len() {
            let Waiter { token, mode, turn } = self.waiters[position];
            if turn == Turn::HandoffPending {
                if !latch.try_grant(mode) {
                    break;
                }
                self.turn(position, Turn::Granted);
                calls.add(token);
            }
            if self.handoff_pending_count == 0 {
                break;
            }
        }
    }

    /// Calls the first that has not been called: a writer alone, or all readers up to the next writer.
    fn call_next(&mut self, latch: &Latch, calls: &mut Calls) {
        let mut is_first = true;
        for position in 0..self.waiters.len() {
            let Waiter { token, mode, turn } = self.waiters[position];
            if turn != Turn::Waiting {
                continue;
            }
            if !(is_first || mode == Mode::Read) || !latch.would_grant(mode) {
                break;
            }
            self.turn(position, Turn::Called);
            calls.add(token);
            latch.forgive_overtaking();
            if mode == Mode::Write || self.waiting_count == 0 {
                break;
            }
            is_first = false;
        }
    }

    fn position(&self, token: u64) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.token == token)
    }

    fn turn(&mut self, position: usize, turn: Turn) {
        self.count(self.waiters[position].turn, |count| *count -= 1);
        self.waiters[position].turn = turn;
        self.count(turn, |count| *count += 1);
    }

    fn remove(&mut self, position: usize) -> Waiter {
        let waiter = self.waiters.remove(position).expect("a position that was just found");
        self.count(waiter.turn, |count| *count -= 1);
        waiter
    }

    fn count(&mut self, turn: Turn, step: impl FnOnce(&mut usize)) {
        match turn {
            Turn::Waiting => step(&mut self.waiting_count),
            Turn::HandoffPending => step(&mut self.handoff_pending_count),
            Turn::Called | Turn::Granted => {}
        }
    }

    fn update_latch(&self, latch: &Latch) {
        latch.update_waiter_bits(self.waiting_count, self.handoff_pending_count);
        #[cfg(any(test, debug_assertions))]
        self.check(latch);
    }

    #[cfg(any(test, debug_assertions))]
    fn check(&self, latch: &Latch) {
        let count = |turn| self.waiters.iter().filter(|waiter| waiter.turn == turn).count();
        assert_eq!(
            (self.waiting_count, self.handoff_pending_count),
            (count(Turn::Waiting), count(Turn::HandoffPending)),
            "(1)"
        );
        latch.check(self.waiting_count, self.handoff_pending_count);
    }
}

/// Who is to be woken once the shard is unlocked. Most often one, for which nothing is allocated.
#[derive(Default)]
struct Calls {
    first: Option<u64>,
    more: Vec<u64>,
}

impl Calls {
    fn add(&mut self, token: u64) {
        match self.first {
            None => self.first = Some(token),
            Some(_) => self.more.push(token),
        }
    }

    fn forget(&mut self, token: u64) {
        self.more.retain(|&other| other != token);
        if self.first == Some(token) {
            self.first = None;
        }
    }

    fn into_tokens(self) -> impl Iterator<Item = u64> {
        self.first.into_iter().chain(self.more)
    }
}

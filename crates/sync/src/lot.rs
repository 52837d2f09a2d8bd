//! The parking lot: a queue of waiters for each contended slot.
//!
//! Owns the queues, and the bits `WAITERS` and `FAIR` of the latches. Used only under contention: after a
//! failed acquisition, and by the release of a latch that has `WAITERS`. A waiter is a token. The `wake`
//! function gives the token its meaning; it is called outside the lock.
//!
//! | FROM | TO | step |
//! |---|---|---|
//! | - | `Waiting` | [`Lot::park`]: the latch is not available |
//! | `Waiting` | `Woken` | [`Queue::serve`]: the latch is available; woken. Newcomers may be faster |
//! | `Waiting`, `Woken` | removed | [`Lot::claim`]: acquired the latch |
//! | `Waiting`, `Woken` | `HandoffPending` | [`Lot::claim`]: too late; newcomers are kept out from now on |
//! | `HandoffPending` | `Granted` | [`Queue::serve`]: the latch is handed over; woken |
//! | `Granted`, `Overdue` | removed | [`Lot::claim`]: holds the latch |
//! | `Granted` | `Overdue` | [`Lot::take_back`]: holds the latch, and has not claimed yet |
//! | `Overdue` | `Woken` | [`Lot::take_back`]: the latch is released, and the other waiters are served |
//! | any | removed | [`Lot::cancel`]: the next waiter is served, and a granted latch released |
//!
//! Waking before granting keeps a hot slot fast when threads outnumber cores: the latch is never reserved for a
//! thread that may not be running. Granting after the first failed claim ensures that every waiter acquires the
//! latch eventually, in queue order. A grant to a session whose thread is busy for long is taken back, so that the others
//! don't wait for that thread; the waiter keeps its place. Any thread may look; a grant is taken back [`OVERDUE_US`] after
//! the first look that has found it, however many threads look meanwhile. Each time that a waiter loses its grant, it has
//! four times as long to claim the next one, up to 25 milliseconds, so that a session whose thread has shorter turns acquires the
//! latch eventually. Between a `serve` that wakes a waiter and its `claim`, the waiter is not woken again.
//!
//! Invariants, whenever the shard is not locked: (1) `waiting_count` and `handoff_pending_count` are the
//! numbers of waiters in these states; (2) `WAITERS` is set if and only if one of them is not 0, `FAIR` if and
//! only if `handoff_pending_count` is not 0; (3) no queue is empty; (4) progress: if any waiter is `Waiting` or
//! `HandoffPending`, the latch is held, or a woken waiter has not claimed yet.

use crate::counter::Padded;
use crate::latch::{Announced, Latch, Mode, Released};
use crate::shim::{Mutex, lock};
use std::collections::VecDeque;

/// Enough that two contended slots rarely share a lock.
#[cfg(not(loom))]
const SHARD_COUNT: usize = 64;
#[cfg(loom)]
const SHARD_COUNT: usize = 2;

/// How long a waiter has from the first look that finds its first grant unclaimed, in microseconds.
const OVERDUE_US: i64 = 100;
/// From this number of lost grants on, the time to claim does not grow: it is 25 milliseconds then.
const LOST_COUNT_MAX: u8 = 4;

/// Wakes the session of a token, so that it claims.
pub(crate) type Wake = Box<dyn Fn(u64) + Send + Sync>;

/// Outcome of a claim.
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

/// The queues of the slots `shard, shard + SHARD_COUNT, ...`; `None` for a slot without waiters.
type Shard = Box<[Option<Box<Queue>>]>;

impl Lot {
    pub(crate) fn new(slot_count: usize, wake: Wake) -> Self {
        let queue_count = slot_count.div_ceil(SHARD_COUNT);
        let shard = |_| Padded(Mutex::new((0..queue_count).map(|_| None).collect()));
        Lot { shards: (0..SHARD_COUNT).map(shard).collect(), wake }
    }

    /// Acquires, or else queues a waiter. This is one step with respect to the holder.
    pub(crate) fn park(&self, latch: &Latch, slot: usize, mode: Mode, token: u64) -> Announced {
        let mut shard = lock(&self.shards[slot % SHARD_COUNT]);
        let announced = latch.acquire_or_announce(mode);
        if announced == Announced::Waiting {
            let queue = shard[slot / SHARD_COUNT].get_or_insert_default();
            debug_assert!(queue.position(token).is_none(), "token {token} waits for slot {slot} already");
            queue.waiters.push_back(Waiter { token, mode, state: WaiterState::Waiting, lost_count: 0 });
            queue.waiting_count += 1;
            queue.update_latch(latch);
        }
        announced
    }

    /// Acquires for a woken waiter. On failure the waiter is next in line.
    pub(crate) fn claim(&self, latch: &Latch, slot: usize, token: u64) -> Claimed {
        self.with_queue(latch, slot, |queue, wake_list| queue.claim(latch, token, wake_list))
            .unwrap_or(Claimed::NotWaiting)
    }

    /// Removes a waiter in any state.
    pub(crate) fn cancel(&self, latch: &Latch, slot: usize, token: u64) {
        self.with_queue(latch, slot, |queue, wake_list| queue.cancel(latch, token, wake_list));
    }

    /// Takes the latch back from waiters that have not claimed for a while since an earlier call. Returns whether there are
    /// grants that are not claimed, so that another call is due.
    pub(crate) fn take_back(&self, latch: &Latch, slot: usize, now_us: i64) -> bool {
        let outcome =
            self.with_queue(latch, slot, |queue, wake_list| queue.take_back(latch, now_us, wake_list));
        outcome.unwrap_or(false)
    }

    /// Serves the queue after a release.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_waiters(&self, latch: &Latch, slot: usize) {
        self.with_queue(latch, slot, |queue, wake_list| queue.serve(latch, wake_list));
    }

    /// Runs `step` on the slot's queue, if there is one, then wakes the collected tokens.
    fn with_queue<R>(
        &self,
        latch: &Latch,
        slot: usize,
        step: impl FnOnce(&mut Queue, &mut WakeList) -> R,
    ) -> Option<R> {
        let mut wake_list = WakeList::default();
        let mut shard = lock(&self.shards[slot % SHARD_COUNT]);
        let place = &mut shard[slot / SHARD_COUNT];
        let queue = place.as_mut()?;
        let outcome = step(queue, &mut wake_list);
        queue.update_latch(latch);
        if queue.waiters.is_empty() {
            *place = None;
        }
        drop(shard);
        wake_list.into_tokens().for_each(&self.wake);
        Some(outcome)
    }
}

/// The waiters for one slot, in order of arrival.
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
    state: WaiterState,
    /// How many grants were taken back from it.
    lost_count: u8,
}

impl Waiter {
    /// How long it has from the first look that finds its grant unclaimed, in microseconds.
    fn claim_us(&self) -> i64 {
        OVERDUE_US << (2 * self.lost_count.min(LOST_COUNT_MAX))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    Waiting,
    Woken,
    HandoffPending,
    Granted,
    /// Granted, and found so by a look at this time.
    Overdue {
        since_us: i64,
    },
}

impl Queue {
    fn claim(&mut self, latch: &Latch, token: u64, wake_list: &mut WakeList) -> Claimed {
        let Some(position) = self.position(token) else { return Claimed::NotWaiting };
        let Waiter { mode, state, .. } = self.waiters[position];
        let is_acquired = match state {
            WaiterState::Granted | WaiterState::Overdue { .. } => true,
            WaiterState::HandoffPending => false,
            // Waiters that failed a claim earlier go first.
            WaiterState::Waiting | WaiterState::Woken => {
                self.handoff_pending_count == 0 && latch.try_grant(mode)
            }
        };
        if is_acquired {
            // No other waiter can be served here: any compatible waiter was woken with this one, or by a later
            // release.
            self.remove(position);
            return Claimed::Acquired(mode);
        }
        if state != WaiterState::HandoffPending {
            self.set_state(position, WaiterState::HandoffPending);
            latch.block_newcomers();
            self.serve(latch, wake_list);
            // The latch may just have been released; then this waiter needs no wake-up.
            if self.waiters[position].state == WaiterState::Granted {
                wake_list.remove(token);
                self.remove(position);
                return Claimed::Acquired(mode);
            }
        }
        Claimed::Pending
    }

    fn cancel(&mut self, latch: &Latch, token: u64, wake_list: &mut WakeList) {
        let Some(position) = self.position(token) else { return };
        let Waiter { mode, state, .. } = self.remove(position);
        if matches!(state, WaiterState::Granted | WaiterState::Overdue { .. }) {
            // The result is ignored: the other waiters are served below.
            let (Released::Done | Released::WakeWaiters) = latch.release(mode);
        }
        self.serve(latch, wake_list);
    }

    fn take_back(&mut self, latch: &Latch, now_us: i64, wake_list: &mut WakeList) -> bool {
        let mut has_released = false;
        for position in 0..self.waiters.len() {
            let waiter = self.waiters[position];
            match waiter.state {
                WaiterState::Granted => {
                    self.set_state(position, WaiterState::Overdue { since_us: now_us });
                }
                WaiterState::Overdue { since_us } if now_us - since_us < waiter.claim_us() => {}
                WaiterState::Overdue { .. } => {
                    // The result is ignored: the other waiters are served below.
                    let (Released::Done | Released::WakeWaiters) = latch.release(waiter.mode);
                    self.waiters[position].lost_count = waiter.lost_count.saturating_add(1);
                    self.set_state(position, WaiterState::Woken);
                    has_released = true;
                }
                WaiterState::Waiting | WaiterState::Woken | WaiterState::HandoffPending => {}
            }
        }
        if has_released {
            self.serve(latch, wake_list);
        }
        let is_unclaimed = |state| matches!(state, WaiterState::Granted | WaiterState::Overdue { .. });
        self.waiters.iter().any(|waiter| is_unclaimed(waiter.state))
    }

    /// Grants the latch to as many pending waiters as possible; if none is left, wakes the next waiters in
    /// line.
    fn serve(&mut self, latch: &Latch, wake_list: &mut WakeList) {
        if self.handoff_pending_count > 0 {
            self.grant_due(latch, wake_list);
        }
        if self.handoff_pending_count == 0 && self.waiting_count > 0 {
            self.wake_next(latch, wake_list);
        }
    }

    fn grant_due(&mut self, latch: &Latch, wake_list: &mut WakeList) {
        for position in 0..self.waiters.len() {
            let Waiter { token, mode, state, .. } = self.waiters[position];
            if state == WaiterState::HandoffPending {
                if !latch.try_grant(mode) {
                    break;
                }
                self.set_state(position, WaiterState::Granted);
                wake_list.add(token);
            }
            if self.handoff_pending_count == 0 {
                break;
            }
        }
    }

    /// Wakes the first `Waiting` waiter: a writer alone, or all readers up to the next writer.
    fn wake_next(&mut self, latch: &Latch, wake_list: &mut WakeList) {
        let mut is_first = true;
        for position in 0..self.waiters.len() {
            let Waiter { token, mode, state, .. } = self.waiters[position];
            if state != WaiterState::Waiting {
                continue;
            }
            if !(is_first || mode == Mode::Read) || !latch.would_grant(mode) {
                break;
            }
            self.set_state(position, WaiterState::Woken);
            wake_list.add(token);
            latch.reset_overtaking();
            if mode == Mode::Write || self.waiting_count == 0 {
                break;
            }
            is_first = false;
        }
    }

    fn position(&self, token: u64) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.token == token)
    }

    fn set_state(&mut self, position: usize, state: WaiterState) {
        self.count(self.waiters[position].state, |count| *count -= 1);
        self.waiters[position].state = state;
        self.count(state, |count| *count += 1);
    }

    fn remove(&mut self, position: usize) -> Waiter {
        let waiter = self.waiters.remove(position).expect("a position that was just found");
        self.count(waiter.state, |count| *count -= 1);
        waiter
    }

    fn count(&mut self, state: WaiterState, step: impl FnOnce(&mut usize)) {
        match state {
            WaiterState::Waiting => step(&mut self.waiting_count),
            WaiterState::HandoffPending => step(&mut self.handoff_pending_count),
            WaiterState::Woken | WaiterState::Granted | WaiterState::Overdue { .. } => {}
        }
    }

    fn update_latch(&self, latch: &Latch) {
        latch.update_waiter_bits(self.waiting_count, self.handoff_pending_count);
        #[cfg(any(test, debug_assertions))]
        self.check(latch);
    }

    #[cfg(any(test, debug_assertions))]
    fn check(&self, latch: &Latch) {
        let count = |state| self.waiters.iter().filter(|waiter| waiter.state == state).count();
        assert_eq!(
            (self.waiting_count, self.handoff_pending_count),
            (count(WaiterState::Waiting), count(WaiterState::HandoffPending)),
            "(1)"
        );
        latch.check(self.waiting_count, self.handoff_pending_count);
    }
}

/// The tokens to wake once the shard is unlocked. Usually one, which needs no allocation.
#[derive(Default)]
struct WakeList {
    first: Option<u64>,
    more: Vec<u64>,
}

impl WakeList {
    fn add(&mut self, token: u64) {
        match self.first {
            None => self.first = Some(token),
            Some(_) => self.more.push(token),
        }
    }

    fn remove(&mut self, token: u64) {
        self.more.retain(|&other| other != token);
        if self.first == Some(token) {
            self.first = None;
        }
    }

    fn into_tokens(self) -> impl Iterator<Item = u64> {
        self.first.into_iter().chain(self.more)
    }
}

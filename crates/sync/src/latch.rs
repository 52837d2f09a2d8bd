//! One slot's reader/writer latch: a single word, a step at a time, never a wait.
//!
//! The word, from the top:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 31 | `WRITER` | one writer has the latch |
//! | 30 | `WAITERS` | somebody in the slot's queue waits to be called: who frees the latch goes to the lot |
//! | 29 | `FAIR` | somebody in the queue was called and came too late: newcomers keep out |
//! | 23-28 | `OVERTAKEN` | readers that joined other readers past the queue since the last call |
//! | 0-22 | `READERS` | how many readers have the latch |
//!
//! `0` is free with nobody waiting: the state that the fast path expects, without looking first.
//!
//! | FROM | TO | step | who |
//! |---|---|---|---|
//! | no `WRITER`, no `FAIR`, not overtaken too often | `READERS` + 1, `OVERTAKEN` + 1 if it passes waiters | [`Latch::try_read`] | newcomer |
//! | no `WRITER`, no `READERS`, no `FAIR` | + `WRITER` | [`Latch::try_write`] | newcomer |
//! | `READERS` > 0 | `READERS` - 1; the last one calls if `WAITERS` | [`Latch::release_read`] | a reader |
//! | `WRITER` | - `WRITER`; calls if `WAITERS` | [`Latch::release_write`] | the writer |
//! | not to be had | + `WAITERS` | [`Latch::acquire_or_announce`] | lot |
//! | any | + `WAITERS` + `FAIR` | [`Latch::block_newcomers`] | lot |
//! | no `WRITER` (and, to write, no `READERS`) | as `try_read`, `try_write`, but past `FAIR` | [`Latch::try_grant`] | lot |
//! | any | `OVERTAKEN` = 0; - `FAIR`, - `WAITERS` when nobody needs them | [`Latch::settle`] | lot |
//!
//! "lot" is who holds the lock of the slot's shard in the parking lot (`lot.rs`); only they change `WAITERS`
//! and `FAIR`.
//!
//! Invariants: (1) never `WRITER` and `READERS`; (2) `FAIR` only with `WAITERS`; (3) `OVERTAKEN` only with `WAITERS`.
//!
//! Ordering: whoever acquires reads-with-`Acquire` the word that the releases before it wrote with `Release`;
//! in between are only read-modify-writes, which keep the release sequences of all earlier holders going.

use crate::shim::{AtomicU32, Ordering, spin_loop};

const WRITER: u32 = 1 << 31;
const WAITERS: u32 = 1 << 30;
const FAIR: u32 = 1 << 29;
const OVERTAKEN_ONE: u32 = 1 << 23;
const OVERTAKEN: u32 = FAIR - OVERTAKEN_ONE;
const READERS: u32 = OVERTAKEN_ONE - 1;
const FREE: u32 = 0;

/// How often a newcomer looks again before it gives up: in all some 0.5 us (a pause is 26 ns on Zen 3, twice that on
/// other processors), several times as long as a command has a latch. Longer would only be waiting for a holder that
/// is itself parked or not running; parking and resuming costs less than a microsecond more.
#[cfg(not(any(loom, miri)))]
const SPIN_COUNT_MAX: u32 = 20;
#[cfg(any(loom, miri))]
const SPIN_COUNT_MAX: u32 = 1;

const _: () = assert!(WRITER | WAITERS | FAIR | OVERTAKEN | READERS == u32::MAX);

/// What a latch is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To read, together with other readers.
    Read,
    /// To write, alone.
    Write,
}

/// What is left to do for whoever released a latch.
#[must_use = "waiters that are not called wait for ever"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    Done,
    CallWaiters,
}

/// How [`Latch::acquire_or_announce`] ended.
#[must_use = "the latch may now be held"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    Acquired,
    Waiting,
}

/// The latch of one slot.
pub(crate) struct Latch(AtomicU32);

impl Latch {
    pub(crate) fn new() -> Self {
        Latch(AtomicU32::new(FREE))
    }

    /// Acquires to read, at once or not at all.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_read(&self) -> bool {
        // Blindly, not load-then-swap: a load would first fetch the cache line shared, then again to own it.
        // Acquire pairs with the Release of `release_write`.
        match self.0.compare_exchange(FREE, 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => self.try_read_from(word),
        }
    }

    /// Acquires to write, at once or not at all.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_write(&self) -> bool {
        // Acquire pairs with the Release of `release_write` and `release_read`.
        match self.0.compare_exchange(FREE, WRITER, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => self.try_write_from(word),
        }
    }

    #[inline(never)]
    fn try_read_from(&self, mut word: u32) -> bool {
        while Self::is_open_to(Mode::Read, word) {
            match self.0.compare_exchange_weak(
                word,
                Self::with_newcomer(Mode::Read, word),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    #[inline(never)]
    fn try_write_from(&self, mut word: u32) -> bool {
        while Self::is_open_to(Mode::Write, word) {
            match self.0.compare_exchange_weak(word, word | WRITER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Goes on trying for a bounded, short time, unless the latch is reserved for waiters.
    #[cold]
    #[must_use]
    pub(crate) fn spin(&self, mode: Mode) -> bool {
        for _ in 0..SPIN_COUNT_MAX {
            spin_loop();
            let word = self.0.load(Ordering::Relaxed);
            if word & FAIR != 0 {
                return false;
            }
            let acquired = match mode {
                Mode::Read => self.try_read_from(word),
                Mode::Write => self.try_write_from(word),
            };
            if acquired {
                return true;
            }
        }
        false
    }

    /// Gives back what a successful read acquisition took.
    #[inline(always)]
    pub(crate) fn release_read(&self) -> Released {
        // Release pairs with the Acquire of the next writer.
        let word = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(
            word & READERS != 0 && word & WRITER == 0,
            "released to read, not held to read: {word:#x}"
        );
        if word & (WAITERS | READERS) == WAITERS | 1 { Released::CallWaiters } else { Released::Done }
    }

    /// Gives back what a successful write acquisition took.
    #[inline(always)]
    pub(crate) fn release_write(&self) -> Released {
        // Release pairs with the Acquire of the next holder.
        let word = self.0.fetch_sub(WRITER, Ordering::Release);
        debug_assert!(
            word & WRITER != 0 && word & READERS == 0,
            "released to write, not held to write: {word:#x}"
        );
        if word & WAITERS != 0 { Released::CallWaiters } else { Released::Done }
    }

    /// Gives back what an acquisition in `mode` took.
    pub(crate) fn release(&self, mode: Mode) -> Released {
        match mode {
            Mode::Read => self.release_read(),
            Mode::Write => self.release_write(),
        }
    }

    /// Whether somebody waits to be called when the latch is released.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITERS != 0
    }

    /// Acquires as a newcomer, or else announces a waiter. Lot only.
    ///
    /// In one step: a holder either released before, and the latch is acquired, or sees `WAITERS` when it does.
    pub(crate) fn acquire_or_announce(&self, mode: Mode) -> Announced {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (next, outcome) = if Self::is_open_to(mode, word) {
                (Self::with_newcomer(mode, word), Announced::Acquired)
            } else {
                (word | WAITERS, Announced::Waiting)
            };
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return outcome,
                Err(seen) => word = seen,
            }
        }
    }

    /// Keeps newcomers out until [`Latch::settle`] lets them in. Lot only.
    ///
    /// A release after this one calls the lot; one before is seen by a [`Latch::try_grant`] that follows.
    pub(crate) fn block_newcomers(&self) {
        self.0.fetch_or(WAITERS | FAIR, Ordering::Relaxed);
    }

    /// Acquires for a waiter, past `FAIR`. Lot only.
    #[must_use]
    pub(crate) fn try_grant(&self, mode: Mode) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while Self::is_compatible(mode, word) {
            // Acquire pairs with the releases of the holders before; the lot's lock passes it on to the waiter.
            match self.0.compare_exchange_weak(
                word,
                Self::with_holder(mode, word),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Whether a waiter called now would find the latch to be had, if nobody is faster. Lot only.
    pub(crate) fn would_grant(&self, mode: Mode) -> bool {
        Self::is_compatible(mode, self.0.load(Ordering::Relaxed))
    }

    /// Takes down what the waiters that are left don't need. Lot only.
    ///
    /// `waiting_count` wait for their first call, `handoff_pending_count` came too late once.
    pub(crate) fn update_waiter_bits(&self, waiting_count: usize, handoff_pending_count: usize) {
        let obsolete = match (waiting_count, handoff_pending_count) {
            (0, 0) => WAITERS | FAIR | OVERTAKEN,
            (_, 0) => FAIR,
            _ => 0,
        };
        if self.0.load(Ordering::Relaxed) & obsolete != 0 {
            self.0.fetch_and(!obsolete, Ordering::Relaxed);
        }
    }

    /// Lets readers join readers again, as a waiter has been called. Lot only.
    pub(crate) fn forgive_overtaking(&self) {
        if self.0.load(Ordering::Relaxed) & OVERTAKEN != 0 {
            self.0.fetch_and(!OVERTAKEN, Ordering::Relaxed);
        }
    }

    /// Whether the holders that `word` shows, if any, leave room for one more in `mode`.
    #[inline(always)]
    fn is_compatible(mode: Mode, word: u32) -> bool {
        match mode {
            Mode::Read => word & WRITER == 0,
            Mode::Write => word & (WRITER | READERS) == 0,
        }
    }

    /// Whether somebody who has not waited may have the latch.
    #[inline(always)]
    fn is_open_to(mode: Mode, word: u32) -> bool {
        Self::is_compatible(mode, word)
            && word & FAIR == 0
            && (word & READERS == 0 || word & OVERTAKEN != OVERTAKEN)
    }

    #[inline(always)]
    fn with_newcomer(mode: Mode, word: u32) -> u32 {
        // While readers have the latch nobody calls a waiting writer: count those who make it wait longer.
        let overtakes = mode == Mode::Read && word & WAITERS != 0 && word & READERS != 0;
        Self::with_holder(mode, word) + if overtakes { OVERTAKEN_ONE } else { 0 }
    }

    #[inline(always)]
    fn with_holder(mode: Mode, word: u32) -> u32 {
        match mode {
            Mode::Read => {
                assert!(word & READERS != READERS, "eight million readers of one slot");
                word + 1
            }
            Mode::Write => word | WRITER,
        }
    }

    /// Asserts the invariants, given what the lot knows of the slot's queue. Lot only.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, waiting_count: usize, handoff_pending_count: usize) {
        let word = self.0.load(Ordering::Relaxed);
        assert!(word & WRITER == 0 || word & READERS == 0, "(1) {word:#x}");
        assert!(word & FAIR == 0 || word & WAITERS != 0, "(2) {word:#x}");
        assert!(word & OVERTAKEN == 0 || word & WAITERS != 0, "(3) {word:#x}");
        assert_eq!(word & WAITERS != 0, waiting_count + handoff_pending_count > 0, "WAITERS {word:#x}");
        assert_eq!(word & FAIR != 0, handoff_pending_count > 0, "FAIR {word:#x}");
    }
}

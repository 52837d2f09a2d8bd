//! One slot's reader/writer latch: a single atomic word with non-blocking transitions.
//!
//! The word, from the most significant bit:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 31 | `WRITER` | one writer holds the latch |
//! | 30 | `WAITERS` | the slot's queue has waiters to wake: the releasing thread runs the lot |
//! | 29 | `FAIR` | a woken waiter failed to claim: newcomers are kept out |
//! | 23-28 | `OVERTAKEN` | readers that joined other readers past the queue since the last wake-up |
//! | 0-22 | `READERS` | the number of readers that hold the latch |
//!
//! `0` is free without waiters: the state that the fast path assumes without loading the word first.
//! A newcomer is a session that requests the latch without having been queued for it.
//!
//! | FROM | TO | step | by |
//! |---|---|---|---|
//! | no `WRITER`, no `FAIR`, `OVERTAKEN` below its maximum | `READERS` + 1, `OVERTAKEN` + 1 if it passes waiters | [`Latch::try_read`] | newcomer |
//! | no `WRITER`, no `READERS`, no `FAIR` | + `WRITER` | [`Latch::try_write`] | newcomer |
//! | `READERS` > 0 | `READERS` - 1; the last reader runs the lot if `WAITERS` | [`Latch::release_read`] | reader |
//! | `WRITER` | - `WRITER`; runs the lot if `WAITERS` | [`Latch::release_write`] | writer |
//! | not available | + `WAITERS` | [`Latch::acquire_or_announce`] | lot |
//! | any | + `WAITERS` + `FAIR` | [`Latch::block_newcomers`] | lot |
//! | no `WRITER` (and, to write, no `READERS`) | as `try_read`, `try_write`, but past `FAIR` | [`Latch::try_grant`] | lot |
//! | any | - `FAIR`, - `WAITERS`, `OVERTAKEN` = 0 when no waiter needs them | [`Latch::update_waiter_bits`] | lot |
//! | any | `OVERTAKEN` = 0 | [`Latch::reset_overtaking`] | lot |
//!
//! "lot" is the thread that holds the lock of the slot's shard in the parking lot (`lot.rs`). Only it changes
//! `WAITERS` and `FAIR`.
//!
//! Invariants: (1) never `WRITER` and `READERS`; (2) `FAIR` only with `WAITERS`; (3) `OVERTAKEN` only with `WAITERS`.
//!
//! Ordering: an acquisition reads the word with `Acquire`, which pairs with the `Release` of earlier releases.
//! All writes in between are read-modify-writes, so they continue the release sequences of all earlier holders.

use crate::shim::{AtomicU32, Ordering, spin_loop};

const WRITER: u32 = 1 << 31;
const WAITERS: u32 = 1 << 30;
const FAIR: u32 = 1 << 29;
const OVERTAKEN_ONE: u32 = 1 << 23;
const OVERTAKEN: u32 = FAIR - OVERTAKEN_ONE;
const READERS: u32 = OVERTAKEN_ONE - 1;
const FREE: u32 = 0;

/// Number of retries by a newcomer before it parks: about 0.5 us in total, several times as long as a command
/// holds a latch. A pause takes 26 ns on Zen 3, twice that on other processors. Spinning longer would mean
/// waiting for a holder that is itself parked or not running. Parking and resuming costs less than a
/// microsecond more.
#[cfg(not(any(loom, miri)))]
const SPIN_COUNT_MAX: u32 = 20;
#[cfg(any(loom, miri))]
const SPIN_COUNT_MAX: u32 = 1;

const _: () = assert!(WRITER | WAITERS | FAIR | OVERTAKEN | READERS == u32::MAX);

/// The access for which a latch is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

/// The work left for the releasing thread.
#[must_use = "waiters that are not woken wait for ever"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    Done,
    WakeWaiters,
}

/// Outcome of [`Latch::acquire_or_announce`].
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

    /// Tries to acquire for reading, without waiting.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_read(&self) -> bool {
        // Compare-exchange without a prior load: a load would fetch the cache line as shared first, then again
        // as exclusive. Acquire pairs with the Release of `release_write`.
        match self.0.compare_exchange(FREE, 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => self.try_read_from(word),
        }
    }

    /// Tries to acquire for writing, without waiting.
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

    /// Retries for a short, bounded time. Stops at once if the latch is reserved for waiters.
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

    /// Releases a read acquisition.
    #[inline(always)]
    pub(crate) fn release_read(&self) -> Released {
        // Release pairs with the Acquire of the next writer.
        let word = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(
            word & READERS != 0 && word & WRITER == 0,
            "read release without a read holder: {word:#x}"
        );
        if word & (WAITERS | READERS) == WAITERS | 1 { Released::WakeWaiters } else { Released::Done }
    }

    /// Releases a write acquisition.
    #[inline(always)]
    pub(crate) fn release_write(&self) -> Released {
        // Release pairs with the Acquire of the next holder.
        let word = self.0.fetch_sub(WRITER, Ordering::Release);
        debug_assert!(word & WRITER != 0 && word & READERS == 0, "write release without a writer: {word:#x}");
        if word & WAITERS != 0 { Released::WakeWaiters } else { Released::Done }
    }

    /// Releases an acquisition in `mode`.
    pub(crate) fn release(&self, mode: Mode) -> Released {
        match mode {
            Mode::Read => self.release_read(),
            Mode::Write => self.release_write(),
        }
    }

    /// Whether a waiter must be woken when the latch is released.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITERS != 0
    }

    /// Acquires as a newcomer, or else announces a waiter. Lot only.
    ///
    /// One atomic step: either the holder has already released and the latch is acquired, or the holder sees
    /// `WAITERS` when it releases.
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

    /// Keeps newcomers out until [`Latch::update_waiter_bits`] admits them again. Lot only.
    ///
    /// A later release runs the lot; an earlier one is seen by a following [`Latch::try_grant`].
    pub(crate) fn block_newcomers(&self) {
        self.0.fetch_or(WAITERS | FAIR, Ordering::Relaxed);
    }

    /// Acquires for a waiter, ignoring `FAIR`. Lot only.
    #[must_use]
    pub(crate) fn try_grant(&self, mode: Mode) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while Self::is_compatible(mode, word) {
            // Acquire pairs with the releases of earlier holders; the lot's lock passes it on to the waiter.
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

    /// Whether a waiter woken now could acquire the latch, unless a newcomer is faster. Lot only.
    pub(crate) fn would_grant(&self, mode: Mode) -> bool {
        Self::is_compatible(mode, self.0.load(Ordering::Relaxed))
    }

    /// Clears the bits that the remaining waiters do not need. Lot only.
    ///
    /// `waiting_count` waiters have not been woken yet; `handoff_pending_count` have failed a claim.
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

    /// Allows readers to join readers again, after a waiter was woken. Lot only.
    pub(crate) fn reset_overtaking(&self) {
        if self.0.load(Ordering::Relaxed) & OVERTAKEN != 0 {
            self.0.fetch_and(!OVERTAKEN, Ordering::Relaxed);
        }
    }

    /// Whether the holders in `word`, if any, permit another one in `mode`.
    #[inline(always)]
    fn is_compatible(mode: Mode, word: u32) -> bool {
        match mode {
            Mode::Read => word & WRITER == 0,
            Mode::Write => word & (WRITER | READERS) == 0,
        }
    }

    /// Whether a newcomer may acquire the latch.
    #[inline(always)]
    fn is_open_to(mode: Mode, word: u32) -> bool {
        Self::is_compatible(mode, word)
            && word & FAIR == 0
            && (word & READERS == 0 || word & OVERTAKEN != OVERTAKEN)
    }

    #[inline(always)]
    fn with_newcomer(mode: Mode, word: u32) -> u32 {
        // A waiting writer is not woken while readers hold the latch: count the readers that prolong its wait.
        let overtakes = mode == Mode::Read && word & WAITERS != 0 && word & READERS != 0;
        Self::with_holder(mode, word) + if overtakes { OVERTAKEN_ONE } else { 0 }
    }

    #[inline(always)]
    fn with_holder(mode: Mode, word: u32) -> u32 {
        match mode {
            Mode::Read => {
                assert!(word & READERS != READERS, "more than eight million readers of one slot");
                word + 1
            }
            Mode::Write => word | WRITER,
        }
    }

    /// Asserts the invariants against the lot's counts for the slot's queue. Lot only.
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

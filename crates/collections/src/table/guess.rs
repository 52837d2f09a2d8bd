//! A guess: the bucket and index in its segment where a prefetch found an entry.
//!
//! A lookup compares the key under the latch, since the table may have changed. So any guess, even a wrong
//! one, is only the first place to read.

use sync::atomic::{AtomicU32, Ordering};

/// A bucket of a segment and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess(u32);

impl Guess {
    /// No entry was found: the place is in no segment.
    pub const NONE: Self = Self(u32::MAX);

    /// Bits of the index.
    const INDEX_BITS: u32 = 3;

    #[inline(always)]
    pub(crate) fn new(bucket_index: u32, index: usize) -> Self {
        Self(bucket_index << Self::INDEX_BITS | index as u32)
    }

    #[inline(always)]
    pub(crate) fn bucket_index(self) -> usize {
        (self.0 >> Self::INDEX_BITS) as usize
    }

    /// The index in the bucket, which may be out of its range.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 % (1 << Self::INDEX_BITS)) as usize
    }
}

impl Default for Guess {
    fn default() -> Self {
        Self::NONE
    }
}

/// The last guess about an entry, kept with the plan of its key. Atomic, as any worker may serve a waiting
/// request; one thread at a time sets it.
#[derive(Debug)]
pub struct LastGuess(AtomicU32);

impl LastGuess {
    /// No guess yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(AtomicU32::new(Guess::NONE.0))
    }

    /// The guess.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> Guess {
        Guess(self.0.load(Ordering::Relaxed))
    }

    /// Sets the guess.
    #[inline(always)]
    pub fn set(&self, guess: Guess) {
        self.0.store(guess.0, Ordering::Relaxed);
    }
}

impl Clone for LastGuess {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.get().0))
    }
}

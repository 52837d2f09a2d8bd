//! Numbers that one thread writes and all may read, and the padding that keeps them apart.

use crate::shim::{AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};

/// A value alone on its cache lines: two of them, as processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A counter of one thread: only that thread writes it, all may read it at any time.
///
/// Adding costs what adding to a plain integer costs. Were two threads to write it, additions would be lost, no
/// more. Put a thread's counters together into one [`Padded`].
#[derive(Debug, Default)]
pub struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    /// A counter that stands at zero.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `amount`, wrapping around. Only for the thread that owns the counter.
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        self.set(self.value().wrapping_add(amount));
    }

    /// Subtracts `amount`, wrapping around: the sum over all threads may still be right where one counter is not.
    /// Only for the thread that owns the counter.
    #[inline(always)]
    pub fn subtract(&self, amount: u64) {
        self.set(self.value().wrapping_sub(amount));
    }

    /// Sets the counter. Only for the thread that owns it.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it stands at: exactly for its owner, a moment ago for others.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Padded, ThreadCounter};

    #[test]
    fn counts_and_wraps() {
        let counters = [ThreadCounter::new(), ThreadCounter::new()];
        counters[0].add(5);
        counters[1].subtract(3);
        assert_eq!(counters.iter().map(ThreadCounter::value).fold(0, u64::wrapping_add), 2);
        counters[0].set(7);
        assert_eq!(counters[0].value(), 7);
    }

    #[test]
    fn padded_values_share_no_line() {
        assert_eq!(size_of::<[Padded<u8>; 2]>(), 256);
        let mut padded = Padded(1);
        *padded += 1;
        assert_eq!(*padded, 2);
    }
}

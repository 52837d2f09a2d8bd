//! Counters that one thread writes and all may read, and padding against false sharing.

use crate::shim::{AtomicU64, Ordering, fence};
use std::ops::{Deref, DerefMut};

/// A value alone on its two cache lines, which processors fetch in pairs.
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

/// A counter that one thread writes and any thread may read at any time.
///
/// An addition costs as much as on a plain integer. Single writer: a second writer would lose additions,
/// without memory unsafety. Group a thread's counters in one [`Padded`].
#[derive(Debug, Default)]
pub struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    /// Creates a counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `amount`, wrapping around. For the owning thread only.
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        self.set(self.value().wrapping_add(amount));
    }

    /// Subtracts `amount`, wrapping around: the sum over all threads may be correct even if one counter is not.
    /// For the owning thread only.
    #[inline(always)]
    pub fn subtract(&self, amount: u64) {
        self.set(self.value().wrapping_sub(amount));
    }

    /// Sets the counter. For the owning thread only.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets the counter to `value` if that is larger. For the owning thread only.
    #[inline(always)]
    pub fn raise(&self, value: u64) {
        if value > self.value() {
            self.set(value);
        }
    }

    /// Returns the value: exact for the owner, slightly stale for other threads.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Marks the time in which one thread changes counters that belong together, so that other threads can read the
/// counters of several threads as they are at one instant.
///
/// | state | number |
/// |---|---|
/// | settled | even |
/// | changing | odd, from `begin` to `end` |
///
/// Each change has its own number, so two equal sums of `settled` over all threads mean that no thread began a change
/// in between.
#[derive(Debug, Default)]
pub struct ChangeMark(AtomicU64);

impl ChangeMark {
    /// Creates a mark without a change.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a change, before its first counter is set, unless one is under way. For the owning thread only.
    #[inline(always)]
    pub fn begin(&self) {
        let number = self.0.load(Ordering::Relaxed);
        if number.is_multiple_of(2) {
            self.0.store(number + 1, Ordering::Relaxed);
            // Pairs with the fence in `has_read`: a reader that sees a counter of this change sees the mark.
            fence(Ordering::Release);
        }
    }

    /// As [`Self::begin`], and what this thread reads afterwards is not older than the mark: of two threads that announce a
    /// change and then read each other's marks, one sees the other.
    pub fn announce(&self) {
        self.begin();
        fence(Ordering::SeqCst);
    }

    /// Ends the change that is under way, if there is one. For the owning thread only.
    #[inline(always)]
    pub fn end(&self) {
        let number = self.0.load(Ordering::Relaxed);
        if !number.is_multiple_of(2) {
            // Pairs with the load in `settled`: a reader of the new number sees all counters of this change.
            self.0.store(number + 1, Ordering::Release);
        }
    }

    /// The number of the mark; `None` while there is a change.
    #[must_use]
    pub fn settled(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|number| number.is_multiple_of(2))
    }

    /// To be called between reading counters and reading the marks again.
    pub fn has_read() {
        fence(Ordering::Acquire);
    }
}

/// A number that changes hardly ever, and may be read at any time.
///
/// A change excludes the readers that need the new value, by a latch; other readers tolerate the old one. Reading is
/// therefore no scheduling point of a simulation.
#[derive(Debug, Default)]
pub struct SettledNumber(std::sync::atomic::AtomicU32);

impl SettledNumber {
    /// Creates it with this value.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self(std::sync::atomic::AtomicU32::new(value))
    }

    /// Sets the number. One thread at a time.
    pub fn set(&self, value: u32) {
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the number.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
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

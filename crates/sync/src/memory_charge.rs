//! A memory_charge: what something counts for in a sum that others watch, until anybody takes it out of the sum.

use crate::shim::{AtomicU64, Ordering};

/// The number that stands for "taken out".
const GIVEN_UP: u64 = u64::MAX;

/// A number that its owner sets and all may read, and that anybody may take out of the sum, once and for ever.
///
/// Each step tells by how much the sum has grown (wrapping), and all those add up to the number in force, whoever took
/// the steps and however they met: a sum that is kept by adding them is never off for good.
///
/// | from | to | step |
/// |---|---|---|
/// | in the sum with `a` | in the sum with `b` | [`MemoryCharge::set`], by the owner |
/// | in the sum with `a` | given up | [`MemoryCharge::release`], by anybody |
#[derive(Debug)]
pub struct MemoryCharge(AtomicU64);

impl Default for MemoryCharge {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryCharge {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets it, if it was not given up. By how much it has grown, wrapping. Only for the owner.
    #[inline]
    #[must_use]
    pub fn set(&self, amount: u64) -> u64 {
        debug_assert_ne!(amount, GIVEN_UP);
        let before = self.0.load(Ordering::Relaxed);
        if before == amount || before == GIVEN_UP {
            return 0;
        }
        // Only giving up can come in between, and then there is nothing to set any more.
        match self.0.compare_exchange(before, amount, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => amount.wrapping_sub(before),
            Err(_) => 0,
        }
    }

    /// Takes it out of the sum for ever. What it was; 0 for all but the first who does.
    pub fn release(&self) -> u64 {
        // Pairs with the load in `is_given_up`.
        match self.0.swap(GIVEN_UP, Ordering::AcqRel) {
            GIVEN_UP => 0,
            amount => amount,
        }
    }

    /// Whether somebody gave it up.
    #[inline]
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == GIVEN_UP
    }

    /// What it counts for.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            GIVEN_UP => 0,
            amount => amount,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::MemoryCharge;

    #[test]
    fn steps_add_up() {
        let memory_charge = MemoryCharge::new();
        let grown = [memory_charge.set(7), memory_charge.set(7), memory_charge.set(3)];
        assert_eq!(grown.into_iter().fold(0, u64::wrapping_add), 3);
        assert_eq!(memory_charge.value(), 3);
        assert!(!memory_charge.is_given_up());
        assert_eq!(memory_charge.release(), 3);
        assert_eq!([memory_charge.release(), memory_charge.set(9), memory_charge.value()], [0, 0, 0]);
        assert!(memory_charge.is_given_up());
    }
}

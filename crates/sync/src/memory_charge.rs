//! A memory charge: one item's contribution to a shared sum, which any thread can remove.

use crate::faults;
use crate::shim::{AtomicU64, Ordering};
use crate::simulation::planted;

/// The value of a released charge.
const RELEASED: u64 = u64::MAX;

/// A number that its owner sets and any thread may read. Any thread may remove it from the sum, permanently.
///
/// Each step returns the (wrapping) change of the sum. The changes add up to the current number, in any
/// interleaving of the steps, so a sum maintained by adding them is eventually exact.
///
/// | from | to | step |
/// |---|---|---|
/// | in the sum with `a` | in the sum with `b` | [`MemoryCharge::set`], by the owner |
/// | in the sum with `a` | released | [`MemoryCharge::release`], by any thread |
#[derive(Debug)]
pub struct MemoryCharge(AtomicU64);

impl Default for MemoryCharge {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryCharge {
    /// Creates a charge of 0.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets the charge unless it was released. Returns the change, wrapping. For the owner only.
    #[inline]
    #[must_use]
    pub fn set(&self, amount: u64) -> u64 {
        debug_assert_ne!(amount, RELEASED);
        let before = self.0.load(Ordering::Relaxed);
        if before == amount || before == RELEASED {
            return 0;
        }
        // Only a release can intervene; then no value is set.
        match self.0.compare_exchange(before, amount, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => amount.wrapping_sub(before),
            Err(_) => 0,
        }
    }

    /// Removes the charge from the sum permanently. Returns its value to the first caller, and 0 to later ones.
    pub fn release(&self) -> u64 {
        // Pairs with the load in `is_released`.
        match self.0.swap(RELEASED, Ordering::AcqRel) {
            _ if planted(faults::KEPT_CHARGE) => 0,
            RELEASED => 0,
            amount => amount,
        }
    }

    /// Whether the charge was released.
    #[inline]
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.0.load(Ordering::Acquire) == RELEASED
    }

    /// The current value; 0 once released.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            RELEASED => 0,
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
        assert!(!memory_charge.is_released());
        assert_eq!(memory_charge.release(), 3);
        assert_eq!([memory_charge.release(), memory_charge.set(9), memory_charge.value()], [0, 0, 0]);
        assert!(memory_charge.is_released());
    }
}

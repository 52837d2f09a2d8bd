//! A one-way flag that records an event for its owner.

use crate::shim::{AtomicU32, Ordering};

/// A flag that any thread may set and its owner reads. It is never cleared.
#[derive(Debug, Default)]
pub struct DirtyFlag(AtomicU32);

impl DirtyFlag {
    /// Creates a flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sets the flag. A thread that finds it set also sees all writes made before.
    #[inline]
    pub fn set(&self) {
        // Pairs with the load in `is_set`.
        self.0.store(1, Ordering::Release);
    }

    /// Whether the flag is set.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Pairs with the store in `set`.
        self.0.load(Ordering::Acquire) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::DirtyFlag;

    #[test]
    fn stays_set() {
        let mark = DirtyFlag::new();
        assert!(!mark.is_set());
        mark.set();
        mark.set();
        assert!(mark.is_set());
    }
}

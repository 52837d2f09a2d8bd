//! A mark: something that happened, for its owner to find.

use crate::shim::{AtomicU32, Ordering};

/// A flag that any thread may set, once and for ever, and its owner looks at.
#[derive(Debug, Default)]
pub struct DirtyFlag(AtomicU32);

impl DirtyFlag {
    /// A mark that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sets it. What was written before is seen by whoever finds it set.
    #[inline]
    pub fn set(&self) {
        // Pairs with the load in `is_set`.
        self.0.store(1, Ordering::Release);
    }

    /// Whether it is set.
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

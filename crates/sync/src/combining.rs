//! A lock whose holder also does the work that other threads request meanwhile, so that a request never waits.
//!
//! No request is lost: a thread notes its request before it tries the lock, and a holder looks for requests after it has
//! released the lock. A sequentially consistent fence in between on both sides lets one of them see the other.

use crate::shim::{AtomicU32, Mutex, MutexGuard, Ordering, fence, lock};
use std::fmt;

/// Data, and work on them.
pub struct CombiningLock<T> {
    data: Mutex<T>,
    /// 1 if work is requested.
    requested: AtomicU32,
    work: fn(&mut T),
    #[cfg(any(test, loom))]
    forgets_requests: bool,
}

impl<T> CombiningLock<T> {
    /// `work` is what a request asks for. A run of it covers every request before it.
    #[must_use]
    pub fn new(data: T, work: fn(&mut T)) -> Self {
        Self {
            data: Mutex::new(data),
            requested: AtomicU32::new(0),
            work,
            #[cfg(any(test, loom))]
            forgets_requests: false,
        }
    }

    /// Plants a fault: a holder does not look for requests.
    #[doc(hidden)]
    #[cfg(any(test, loom))]
    #[must_use]
    pub fn forgetting_requests(self) -> Self {
        Self { forgets_requests: true, ..self }
    }

    /// Does the work, or lets the thread that holds the lock do it. Never blocks.
    pub fn request(&self) {
        // Release pairs with the Acquire of the holder that finds the request: the work sees what came before it. An exchange,
        // as it continues the release sequence of a request that it finds.
        self.requested.swap(1, Ordering::Release);
        // Pairs with the fence in `has_request`.
        fence(Ordering::SeqCst);
        self.work_as_requested();
    }

    /// Runs `act` on the data, and then does the work that was requested meanwhile. Blocks while another thread holds the
    /// lock; `act` and the work must be brief.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let result = act(&mut lock(&self.data));
        if self.has_request() {
            self.work_as_requested();
        }
        result
    }

    fn work_as_requested(&self) {
        loop {
            let Some(mut data) = self.try_lock() else { return };
            // Acquire: see `request`. A request that is removed here is done now.
            self.requested.swap(0, Ordering::Acquire);
            (self.work)(&mut data);
            drop(data);
            if !self.has_request() {
                return;
            }
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        use std::sync::TryLockError;
        match self.data.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether work was requested by a thread that may have found the lock held.
    fn has_request(&self) -> bool {
        #[cfg(any(test, loom))]
        if self.forgets_requests {
            return false;
        }
        // Pairs with the fence in `request`.
        fence(Ordering::SeqCst);
        self.requested.load(Ordering::Relaxed) != 0
    }
}

impl<T> fmt::Debug for CombiningLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CombiningLock").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_requested_under_the_lock_is_done_after_it() {
        let counted = CombiningLock::new(0, |count| *count += 1);
        counted.request();
        let seen = counted.with(|count| {
            counted.request();
            *count
        });
        assert_eq!((seen, counted.with(|count| *count)), (1, 2));
        let forgetting = CombiningLock::new(0, |count| *count += 1).forgetting_requests();
        forgetting.with(|_| forgetting.request());
        assert_eq!(forgetting.with(|count| *count), 0);
    }
}

//! The LSN up to which the write log is durable, and the threads that wait for it to grow.
//!
//! The thread that writes the log to disk advances it. A thread with work that depends on an LSN requests a
//! wake-up and then loads the LSN again. The next advance wakes it, once; then it repeats both if the LSN is too low.
//! No wake-up is lost: between request and load, as between advancing and waking, is a sequentially consistent fence,
//! so that either the thread sees the new LSN or the advancing thread sees that it waits.

use crate::counter::Padded;
use crate::shim::{AtomicU32, AtomicU64, Ordering, fence};
use base::Lsn;
use std::fmt;

/// See the module documentation.
pub struct DurableLsn {
    lsn: Padded<AtomicU64>,
    /// 1 for each thread that waits.
    waiting: Box<[AtomicU32]>,
    #[cfg(any(test, loom))]
    wakes_first: bool,
}

impl DurableLsn {
    /// Everything before `start` is durable. `thread_count` threads may wait.
    #[must_use]
    pub fn new(start: Lsn, thread_count: usize) -> Self {
        DurableLsn {
            lsn: Padded(AtomicU64::new(start.0)),
            waiting: (0..thread_count).map(|_| AtomicU32::new(0)).collect(),
            #[cfg(any(test, loom))]
            wakes_first: false,
        }
    }

    /// Plants a fault: the waiting threads are woken before the LSN advances.
    #[doc(hidden)]
    #[cfg(any(test, loom))]
    #[must_use]
    pub fn waking_first(self) -> Self {
        DurableLsn { wakes_first: true, ..self }
    }

    /// The LSN of the first byte that may not be durable.
    #[inline]
    #[must_use]
    pub fn end(&self) -> Lsn {
        // Acquire pairs with the Release in `advance`: the sync of the bytes happens before it.
        Lsn(self.lsn.load(Ordering::Acquire))
    }

    /// Requests a wake-up of `thread` by the next advance. Returns the present end: bytes below it need no
    /// waiting. A wake-up may come nevertheless.
    #[must_use = "a durable LSN needs no wake-up, and may get none"]
    pub fn request_wake(&self, thread: usize) -> Lsn {
        self.waiting[thread].store(1, Ordering::Relaxed);
        // Pairs with the fence in `advance`.
        fence(Ordering::SeqCst);
        self.end()
    }

    /// Moves the end to `end`, and calls `wake` for each thread that waits. Called by one thread only.
    pub fn advance(&self, end: Lsn, mut wake: impl FnMut(usize)) {
        #[cfg(any(test, loom))]
        if self.wakes_first {
            self.wake(&mut wake);
            return self.lsn.store(end.0, Ordering::Release);
        }
        self.lsn.store(end.0, Ordering::Release);
        // Pairs with the fence in `request_wake`.
        fence(Ordering::SeqCst);
        self.wake(&mut wake);
    }

    fn wake(&self, wake: &mut impl FnMut(usize)) {
        for (thread, waiting) in self.waiting.iter().enumerate() {
            if waiting.load(Ordering::Relaxed) != 0 {
                // A thread that requests a wake-up after this store sees the new end.
                waiting.store(0, Ordering::Relaxed);
                wake(thread);
            }
        }
    }
}

impl fmt::Debug for DurableLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableLsn({})", self.end().0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_advance_wakes_threads_waiting_since_the_last_one() {
        let durable = DurableLsn::new(Lsn(5), 3);
        let advance = |end| {
            let mut woken = Vec::new();
            durable.advance(Lsn(end), |thread| woken.push(thread));
            woken
        };
        assert_eq!(advance(6), []);
        assert_eq!((durable.request_wake(2), durable.request_wake(0)), (Lsn(6), Lsn(6)));
        assert_eq!(advance(9), [0, 2]);
        assert_eq!((advance(10), durable.end()), (vec![], Lsn(10)));
    }
}

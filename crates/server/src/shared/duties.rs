//! The periodic work of the whole server: the first worker does it each tick, and another worker while the first one is in
//! a long turn.
//!
//! Invariant: at most one worker does it at a time.

use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The interval in milliseconds at which free memory is returned to the system.
const TRIM_MS: i64 = 1000;

/// Which worker does the periodic work, and when it was done.
#[derive(Default)]
pub struct Duties {
    is_busy: AtomicBool,
    /// When it last began, in milliseconds of the monotonic clock.
    began_ms: AtomicI64,
    /// When memory was last trimmed, likewise.
    trimmed_ms: AtomicI64,
}

impl Duties {
    /// Begins the work, unless another worker does it, or did it less than an interval ago.
    #[must_use]
    pub fn try_begin(&self, now: Uptime, interval_ms: i64) -> bool {
        if self.is_busy.swap(true, Ordering::Acquire) {
            return false;
        }
        let is_due = now.to_raw() - self.began_ms.load(Ordering::Relaxed) >= interval_ms;
        if is_due {
            self.began_ms.store(now.to_raw(), Ordering::Relaxed);
        } else {
            self.end();
        }
        is_due
    }

    /// Ends the work.
    pub fn end(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    /// Whether memory is to be trimmed now. For the worker that does the work.
    #[must_use]
    pub fn is_trim_due(&self, now: Uptime) -> bool {
        let is_due = now.to_raw() - self.trimmed_ms.load(Ordering::Relaxed) >= TRIM_MS;
        if is_due {
            self.trimmed_ms.store(now.to_raw(), Ordering::Relaxed);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_at_a_time_and_once_an_interval() {
        let duties = Duties::default();
        assert!(duties.try_begin(Uptime::from_raw(100), 0));
        assert!(!duties.try_begin(Uptime::from_raw(300), 100));
        duties.end();
        assert!(!duties.try_begin(Uptime::from_raw(150), 100), "it was done just now");
        assert!(duties.try_begin(Uptime::from_raw(150), 0), "the first worker has its own interval");
        duties.end();
        assert!(duties.try_begin(Uptime::from_raw(250), 100));
    }
}

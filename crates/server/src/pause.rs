//! `CLIENT PAUSE`: until when clients are paused, and which.
//!
//! Owns the end of the pause, and sets its flags in [`Attention`]. Requests read both without a lock.
//! Invariants:
//! 1. All changes are made under the lock, so that the end of one pause never ends a later one.
//! 2. While a flag of a pause is set, `until_ms` is its end.
//!
//! A pause is in force for all threads only when each of them has ended the turn in which it began: what runs or is being
//! served does not look at the flags again. So the reply to `CLIENT PAUSE` waits for these turns, see
//! [`Executor::begin_barrier`](crate::executor::Executor::begin_barrier).

use reactor::clock::Uptime;
use sync::atomic::{AtomicI64, Ordering};
use sync::{Mutex, MutexGuard};

use crate::shared::Attention;

/// The pause that is in force, if one is.
#[derive(Default)]
pub struct Pause {
    /// A millisecond of the monotonic clock; 0: none.
    until_ms: AtomicI64,
    changing: Mutex<()>,
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// When it ends.
    #[must_use]
    pub fn until(&self) -> Uptime {
        Uptime::from_raw(self.until_ms.load(Ordering::Acquire))
    }

    /// Begins one. If one is in force already, the later end and the stricter kind hold, as in Valkey.
    pub fn begin(&self, attention: &Attention, now: Uptime, until: Uptime, writes_only: bool) {
        let _changing = self.lock();
        let last = self.until();
        if last <= now {
            attention.set(Attention::ANY_PAUSE, false);
        }
        // Before the flags, as those who see a flag read it.
        self.until_ms.store(last.max(until).to_raw(), Ordering::Release);
        attention.set(if writes_only { Attention::PAUSED_WRITES } else { Attention::PAUSED }, true);
    }

    /// Ends whichever is in force.
    pub fn end(&self, attention: &Attention) {
        let _changing = self.lock();
        self.clear(attention);
    }

    /// Ends the one in force if its time is over; whether it did.
    pub fn end_if_over(&self, attention: &Attention, now: Uptime) -> bool {
        if self.until() == Uptime::default() || self.until() > now {
            return false;
        }
        let _changing = self.lock();
        // Another one may have begun since.
        let is_over = self.until() != Uptime::default() && self.until() <= now;
        if is_over {
            self.clear(attention);
        }
        is_over
    }

    fn clear(&self, attention: &Attention) {
        self.until_ms.store(0, Ordering::Release);
        attention.set(Attention::ANY_PAUSE, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Uptime {
        Uptime::from_raw(ms)
    }

    fn check(attention: &Attention, expected: u32) {
        assert_eq!(attention.load() & Attention::ANY_PAUSE, expected);
    }

    #[test]
    fn the_end_of_a_pause_does_not_end_the_next_one() {
        let (pause, attention) = (Pause::default(), Attention::default());
        pause.begin(&attention, at(0), at(100), true);
        pause.begin(&attention, at(100), at(200), true);
        assert!(!pause.end_if_over(&attention, at(100)));
        check(&attention, Attention::PAUSED_WRITES);
        assert!(pause.end_if_over(&attention, at(200)));
        assert!(!pause.end_if_over(&attention, at(200)));
        check(&attention, 0);
    }

    #[test]
    fn the_later_end_and_the_stricter_kind_hold() {
        let (pause, attention) = (Pause::default(), Attention::default());
        pause.begin(&attention, at(0), at(100), false);
        pause.begin(&attention, at(0), at(50), true);
        assert_eq!(pause.until(), at(100));
        check(&attention, Attention::ANY_PAUSE);
        // Nothing of one that is over stays.
        pause.begin(&attention, at(100), at(150), true);
        check(&attention, Attention::PAUSED_WRITES);
        pause.end(&attention);
        check(&attention, 0);
        assert_eq!(pause.until(), at(0));
    }
}

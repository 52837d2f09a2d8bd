//! `CLIENT PAUSE`: its end, and whether it applies to all requests or to writes only.
//!
//! Owns the end of the pause, and sets its flags in [`GlobalFlags`]. Requests read both without a lock.
//! Invariants:
//! 1. All changes are made under the lock, so that the end of one pause never ends a later one.
//! 2. While a flag of a pause is set, `until_ms` is its end.
//!
//! A pause is in force for all workers only when each of them has ended the turn in which it began: running and
//! served requests do not test the flags again. So the reply to `CLIENT PAUSE` waits for these turns, see
//! [`Executor::begin_barrier`](crate::executor::Executor::begin_barrier).

use os::clock::Uptime;
use sync::atomic::{AtomicI64, Ordering};
use sync::{Mutex, MutexGuard};

use crate::shared::modes::GlobalFlags;

/// The pause in force, if there is one.
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

    /// The end of the pause.
    #[must_use]
    pub fn until(&self) -> Uptime {
        Uptime::from_raw(self.until_ms.load(Ordering::Acquire))
    }

    /// Begins a pause. If one is in force already, the later end and the stricter kind hold, as in Valkey.
    pub fn begin(&self, global_flags: &GlobalFlags, now: Uptime, until: Uptime, writes_only: bool) {
        let _changing = self.lock();
        let last = self.until();
        if last <= now {
            global_flags.set(GlobalFlags::ANY_PAUSE, false);
        }
        // Before the flags, as a thread that sees a flag reads it.
        self.until_ms.store(last.max(until).to_raw(), Ordering::Release);
        global_flags.set(if writes_only { GlobalFlags::PAUSED_WRITES } else { GlobalFlags::PAUSED }, true);
    }

    /// Ends the pause in force.
    pub fn end(&self, global_flags: &GlobalFlags) {
        let _changing = self.lock();
        self.clear(global_flags);
    }

    /// Ends the pause in force if its end has passed. Returns whether it did.
    pub fn end_if_over(&self, global_flags: &GlobalFlags, now: Uptime) -> bool {
        if self.until() == Uptime::default() || self.until() > now {
            return false;
        }
        let _changing = self.lock();
        // Another pause may have begun since.
        let is_over = self.until() != Uptime::default() && self.until() <= now;
        if is_over {
            self.clear(global_flags);
        }
        is_over
    }

    fn clear(&self, global_flags: &GlobalFlags) {
        self.until_ms.store(0, Ordering::Release);
        global_flags.set(GlobalFlags::ANY_PAUSE, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Uptime {
        Uptime::from_raw(ms)
    }

    fn check(global_flags: &GlobalFlags, expected: u32) {
        assert_eq!(global_flags.load() & GlobalFlags::ANY_PAUSE, expected);
    }

    #[test]
    fn the_end_of_a_pause_does_not_end_the_next_one() {
        let (pause, global_flags) = (Pause::default(), GlobalFlags::default());
        pause.begin(&global_flags, at(0), at(100), true);
        pause.begin(&global_flags, at(100), at(200), true);
        assert!(!pause.end_if_over(&global_flags, at(100)));
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        assert!(pause.end_if_over(&global_flags, at(200)));
        assert!(!pause.end_if_over(&global_flags, at(200)));
        check(&global_flags, 0);
    }

    #[test]
    fn overlapping_pauses_take_the_later_end_and_stricter_kind() {
        let (pause, global_flags) = (Pause::default(), GlobalFlags::default());
        pause.begin(&global_flags, at(0), at(100), false);
        pause.begin(&global_flags, at(0), at(50), true);
        assert_eq!(pause.until(), at(100));
        check(&global_flags, GlobalFlags::ANY_PAUSE);
        // Nothing remains of a pause that has ended.
        pause.begin(&global_flags, at(100), at(150), true);
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        pause.end(&global_flags);
        check(&global_flags, 0);
        assert_eq!(pause.until(), at(0));
    }
}

//! Pauses of clients: of `CLIENT PAUSE`, of a shutdown, of a failover and for tests, each with its own end. Each applies to all requests or
//! to writes only.
//!
//! Owns the ends of the pauses, and sets their flags in [`GlobalFlags`]. Requests read the latest end and the flags without a
//! lock.
//! Invariants:
//! 1. All changes are made under the lock, so that the end of one pause never ends another one.
//! 2. While a flag of a pause is set, `until_ms` is the latest end.
//! 3. A flag that a pause needs is never clear in between, when another pause ends.
//!
//! A pause is in force for all workers only when each of them has ended the turn in which it began: running and
//! served requests do not test the flags again. So the reply to `CLIENT PAUSE` waits for these turns, see
//! [`Executor::begin_barrier`](crate::executor::Executor::begin_barrier).

use os::clock::Uptime;
use sync::atomic::{AtomicI64, Ordering};
use sync::{Mutex, MutexGuard};

use crate::shared::modes::GlobalFlags;

/// What pauses clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// `CLIENT PAUSE`
    Command,
    /// The end of the server.
    Shutdown,
    /// `FAILOVER`
    Failover,
    /// The process is about to stop itself, see `sync_stops.rs`.
    Stop,
}

/// The time in milliseconds of a pause that does not end by itself.
pub const ENDLESS_MS: i64 = i64::MAX / 4;

const REASONS: [PauseReason; 4] =
    [PauseReason::Command, PauseReason::Shutdown, PauseReason::Failover, PauseReason::Stop];

/// The pauses in force.
#[derive(Default)]
pub struct Pause {
    /// The latest end, a millisecond of the monotonic clock; 0: there is no pause.
    until_ms: AtomicI64,
    /// For each reason.
    parts: Mutex<[Part; REASONS.len()]>,
}

/// One pause. Its end has passed if there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    until: Uptime,
    /// Of [`GlobalFlags`].
    flags: u32,
}

impl PauseReason {
    /// Its word in `INFO`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "client_pause",
            Self::Shutdown => "shutdown_in_progress",
            Self::Failover => "failover_in_progress",
            Self::Stop => "debug",
        }
    }
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, [Part; REASONS.len()]> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The latest end of a pause.
    #[must_use]
    pub fn until(&self) -> Uptime {
        Uptime::from_raw(self.until_ms.load(Ordering::Acquire))
    }

    /// Begins a pause. If one for the same reason is in force already, the later end and the stricter kind hold, as in Valkey.
    pub fn begin(
        &self,
        global_flags: &GlobalFlags,
        reason: PauseReason,
        now: Uptime,
        until: Uptime,
        writes_only: bool,
    ) {
        let mut parts = self.lock();
        let part = &mut parts[reason as usize];
        if part.until <= now {
            *part = Part::default();
        }
        part.until = part.until.max(until);
        part.flags |= if writes_only { GlobalFlags::PAUSED_WRITES } else { GlobalFlags::PAUSED };
        self.show(&mut *parts, global_flags, now);
    }

    /// Ends the pause for a reason.
    pub fn end(&self, global_flags: &GlobalFlags, reason: PauseReason, now: Uptime) {
        let mut parts = self.lock();
        parts[reason as usize] = Part::default();
        self.show(&mut *parts, global_flags, now);
    }

    /// Ends the pauses whose end has passed. Returns whether there was one.
    pub fn end_if_over(&self, global_flags: &GlobalFlags, now: Uptime) -> bool {
        if self.until() == Uptime::default() {
            return false;
        }
        let mut parts = self.lock();
        let is_over = parts.iter().any(|part| part.flags != 0 && part.until <= now);
        if is_over {
            self.show(&mut *parts, global_flags, now);
        }
        is_over
    }

    /// The pause of the strictest kind in force that ends last: its reason, whether it applies to writes only, and its end.
    #[must_use]
    pub fn shown(&self, now: Uptime) -> Option<(PauseReason, bool, Uptime)> {
        let parts = self.lock();
        let in_force = REASONS.into_iter().map(|reason| (reason, parts[reason as usize]));
        let in_force = in_force.filter(|(_, part)| part.flags != 0 && part.until > now);
        let is_for_all = |part: Part| part.flags & GlobalFlags::PAUSED != 0;
        let (reason, part) = in_force.max_by_key(|(_, part)| (is_for_all(*part), part.until))?;
        Some((reason, !is_for_all(part), part.until))
    }

    /// Removes pauses whose end has passed, and shows what remains.
    fn show(&self, parts: &mut [Part], global_flags: &GlobalFlags, now: Uptime) {
        for part in parts.iter_mut().filter(|part| part.until <= now) {
            *part = Part::default();
        }
        let until = parts.iter().map(|part| part.until).max().unwrap_or_default();
        let flags = parts.iter().fold(0, |flags, part| flags | part.flags);
        // Before the flags, as a thread that sees a flag reads it.
        self.until_ms.store(until.to_raw(), Ordering::Release);
        global_flags.set(flags, true);
        global_flags.set(GlobalFlags::ANY_PAUSE & !flags, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Uptime {
        Uptime::from_raw(ms)
    }

    fn begin(pause: &Pause, global_flags: &GlobalFlags, now: Uptime, until: Uptime, writes_only: bool) {
        pause.begin(global_flags, PauseReason::Command, now, until, writes_only);
    }

    fn check(global_flags: &GlobalFlags, expected: u32) {
        assert_eq!(global_flags.load() & GlobalFlags::ANY_PAUSE, expected);
    }

    #[test]
    fn the_end_of_a_pause_does_not_end_the_next_one() {
        let (pause, global_flags) = (Pause::default(), GlobalFlags::default());
        begin(&pause, &global_flags, at(0), at(100), true);
        begin(&pause, &global_flags, at(100), at(200), true);
        assert!(!pause.end_if_over(&global_flags, at(100)));
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        assert!(pause.end_if_over(&global_flags, at(200)));
        assert!(!pause.end_if_over(&global_flags, at(200)));
        check(&global_flags, 0);
    }

    #[test]
    fn overlapping_pauses_take_the_later_end_and_stricter_kind() {
        let (pause, global_flags) = (Pause::default(), GlobalFlags::default());
        begin(&pause, &global_flags, at(0), at(100), false);
        begin(&pause, &global_flags, at(0), at(50), true);
        assert_eq!(pause.until(), at(100));
        check(&global_flags, GlobalFlags::ANY_PAUSE);
        // Nothing remains of a pause that has ended.
        begin(&pause, &global_flags, at(100), at(150), true);
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        pause.end(&global_flags, PauseReason::Command, at(100));
        check(&global_flags, 0);
        assert_eq!(pause.until(), at(0));
    }

    #[test]
    fn pauses_of_different_reasons_end_on_their_own() {
        let (pause, global_flags) = (Pause::default(), GlobalFlags::default());
        pause.begin(&global_flags, PauseReason::Failover, at(0), at(ENDLESS_MS), true);
        assert_eq!(pause.shown(at(0)), Some((PauseReason::Failover, true, at(ENDLESS_MS))));
        begin(&pause, &global_flags, at(0), at(100), false);
        assert_eq!(pause.shown(at(0)), Some((PauseReason::Command, false, at(100))));
        check(&global_flags, GlobalFlags::ANY_PAUSE);
        assert!(!pause.end_if_over(&global_flags, at(99)));
        assert!(pause.end_if_over(&global_flags, at(100)));
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        begin(&pause, &global_flags, at(100), at(200), false);
        pause.end(&global_flags, PauseReason::Command, at(100));
        check(&global_flags, GlobalFlags::PAUSED_WRITES);
        assert_eq!(pause.until(), at(ENDLESS_MS));
        pause.end(&global_flags, PauseReason::Failover, at(100));
        check(&global_flags, 0);
        assert_eq!((pause.until(), pause.shown(at(100))), (at(0), None));
    }
}

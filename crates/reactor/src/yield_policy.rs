//! Letting others run before going to sleep.
//!
//! Where a thread shares its CPU with its clients, or with other threads of the server, sleeping as soon as there is nothing
//! to do is dear: the first request that somebody sends next wakes the thread, which then handles that one and sleeps again.
//! If it lets the others run once and looks again, it finds what all of them have sent meanwhile, and nobody had to wake it.
//!
//! Where it has a CPU for itself that is a system call or two for nothing, and where somebody computes on the same one, it
//! costs a whole time slice. So an attempt that finds nobody is followed by ever more waits without one, and where most
//! attempts take long, by a rest of many times as long.

use std::time::Duration;

use crate::sys;
use os::clock::Ticks;

/// Below, nobody else has run on this CPU, in nanoseconds: switching to another thread and back takes longer.
const ALONE_NS: u64 = 2_000;

/// Most waits without an attempt after attempts that found nobody.
const SKIP_MAX: u32 = 15;

/// From here on an attempt took long, in nanoseconds: who answers or sends requests rarely needs so much at once.
const LONG_NS: u64 = 2_000_000;

/// How many more long attempts than short ones, in which others have run, are followed by a rest.
const DEBT_MAX: u32 = 8;

/// How many times as long as the last attempt the first rest is; every further one is twice as long as it would be.
const REST_FACTOR: u64 = 64;

/// How often that is doubled at most.
const DOUBLING_MAX: u32 = 6;

/// When to let others run.
#[derive(Default)]
pub(crate) struct YieldPolicy {
    /// Waits to come without an attempt.
    waits_left: u32,
    /// How many there were after the last attempt; 0 if others have run.
    skip: u32,
    /// Short attempts, in which others have run, that would make up for the long ones.
    debt: u32,
    /// Rests since there was no debt.
    rest_count: u32,
    /// When the last of them ends.
    rest_end: Ticks,
}

impl YieldPolicy {
    /// To be asked at every wait that may block: whether others should run first.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.waits_left > 0 {
            self.waits_left -= 1;
            return false;
        }
        self.rest_count == 0 || Ticks::now() >= self.rest_end
    }

    /// Lets others run on this CPU, until they sleep or their share is over. Returns what that leaves of a time to wait.
    #[inline]
    pub(crate) fn yield_once(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let started = Ticks::now();
        sys::yield_cpu();
        let ns = Ticks::now().ns_since(started);
        self.note(ns);
        timeout.map(|timeout| timeout.saturating_sub(Duration::from_nanos(ns)))
    }

    /// Learns from an attempt that took `ns`.
    #[inline]
    fn note(&mut self, ns: u64) {
        if ns < ALONE_NS {
            self.skip = (2 * self.skip + 1).min(SKIP_MAX);
        } else {
            self.skip = 0;
            self.note_others(ns);
        }
        self.waits_left = self.skip;
    }

    /// Others have run for `ns`: if that is long too often, they compute.
    fn note_others(&mut self, ns: u64) {
        if ns < LONG_NS {
            self.debt = self.debt.saturating_sub(1);
            if self.debt == 0 {
                self.rest_count = 0;
            }
            return;
        }
        self.debt += 1;
        if self.debt == DEBT_MAX {
            self.rest_end = Ticks::now().plus_ns((ns * REST_FACTOR) << self.rest_count);
            self.rest_count = (self.rest_count + 1).min(DOUBLING_MAX);
            self.debt = DEBT_MAX / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALONE_NS, LONG_NS, SKIP_MAX, YieldPolicy};
    use os::clock::Ticks;

    /// Waits until the next attempt.
    fn skipped_by(yield_policy: &mut YieldPolicy) -> u32 {
        (0..).take_while(|_| !yield_policy.is_due()).count() as u32
    }

    #[test]
    fn goes_on_as_long_as_others_run() {
        let mut yield_policy = YieldPolicy::default();
        for _ in 0..10 {
            assert_eq!(skipped_by(&mut yield_policy), 0);
            yield_policy.note(ALONE_NS);
        }
    }

    #[test]
    fn skips_more_the_more_often_it_is_alone() {
        let mut yield_policy = YieldPolicy::default();
        let skipped: Vec<u32> = (0..9)
            .map(|_| {
                yield_policy.note(ALONE_NS - 1);
                skipped_by(&mut yield_policy)
            })
            .collect();
        assert_eq!(skipped, [1, 3, 7, SKIP_MAX, SKIP_MAX, SKIP_MAX, SKIP_MAX, SKIP_MAX, SKIP_MAX]);
        yield_policy.note(ALONE_NS);
        assert_eq!(skipped_by(&mut yield_policy), 0);
    }

    #[test]
    fn rests_when_most_attempts_take_long() {
        let mut yield_policy = YieldPolicy::default();
        for _ in 0..100 {
            // So long that the rest would still be going on, however slowly this runs.
            yield_policy.note(1_000 * LONG_NS);
            assert!(yield_policy.is_due(), "as many short ones make up for it");
            yield_policy.note(LONG_NS - 1);
        }
        let mut rests = [0; 2];
        for rest in &mut rests {
            let at = Ticks::now();
            while yield_policy.is_due() {
                yield_policy.note(1_000 * LONG_NS);
            }
            *rest = yield_policy.rest_end.ns_since(at);
            assert!((0..1_000).all(|_| !yield_policy.is_due()));
            yield_policy.rest_end = Ticks::default();
        }
        assert!(rests[1] > rests[0] / 2 * 3, "the next one is twice as long");
    }
}

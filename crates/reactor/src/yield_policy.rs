//! Yielding the CPU before sleeping.
//!
//! A thread may share its CPU with clients, or with other threads of the server. Then sleeping as soon as it is
//! idle is expensive: the next request wakes the thread, which handles only that one and sleeps again. If the
//! thread yields once and polls again, it finds the requests sent by all others in the meantime, without a
//! wake-up.
//!
//! With a CPU of its own, yielding wastes a system call or two. Beside a compute-bound thread it costs a whole
//! time slice. So after each attempt in which no other thread ran, more waits follow without one. If most
//! attempts take long, yielding is suspended for many times their length.

use std::time::Duration;

use crate::sys;
use os::clock::Ticks;

/// Below this, in nanoseconds, no other thread has run on this CPU: switching to another thread and back takes
/// longer.
const ALONE_NS: u64 = 2_000;

/// Maximum number of waits without an attempt, after attempts in which no other thread ran.
const SKIP_MAX: u32 = 15;

/// From this duration in nanoseconds an attempt is long: clients and server threads rarely need as much at
/// once.
const LONG_NS: u64 = 2_000_000;

/// Excess of long attempts over short ones, in which others ran, that suspends yielding.
const LONG_EXCESS_MAX: u32 = 8;

/// Length of the first suspension as a multiple of the last attempt; each later one doubles the factor.
const SUSPENSION_FACTOR: u64 = 64;

/// Maximum number of doublings.
const DOUBLING_MAX: u32 = 6;

/// Decides when to yield.
#[derive(Default)]
pub(crate) struct YieldPolicy {
    /// Remaining waits without an attempt.
    waits_left: u32,
    /// The initial value of `waits_left` after the last attempt; 0 if others ran.
    skip: u32,
    /// The excess of long attempts over short ones in which others ran.
    long_excess: u32,
    /// Number of suspensions since `long_excess` was last 0.
    suspension_count: u32,
    /// The end of the last suspension.
    suspension_end: Ticks,
}

impl YieldPolicy {
    /// Whether to yield first. Called at every wait that may block.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.waits_left > 0 {
            self.waits_left -= 1;
            return false;
        }
        self.suspension_count == 0 || Ticks::now() >= self.suspension_end
    }

    /// Yields this CPU to others until they sleep or their share is used up. Returns the rest of the waiting
    /// time.
    #[inline]
    pub(crate) fn yield_once(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let started = Ticks::now();
        sys::yield_cpu();
        let ns = Ticks::now().ns_since(started);
        self.note(ns);
        timeout.map(|timeout| timeout.saturating_sub(Duration::from_nanos(ns)))
    }

    /// Records an attempt that took `ns`.
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

    /// Records that others ran for `ns`. If that is often long, they are compute-bound.
    fn note_others(&mut self, ns: u64) {
        if ns < LONG_NS {
            self.long_excess = self.long_excess.saturating_sub(1);
            if self.long_excess == 0 {
                self.suspension_count = 0;
            }
            return;
        }
        self.long_excess += 1;
        if self.long_excess == LONG_EXCESS_MAX {
            self.suspension_end = Ticks::now().plus_ns((ns * SUSPENSION_FACTOR) << self.suspension_count);
            self.suspension_count = (self.suspension_count + 1).min(DOUBLING_MAX);
            self.long_excess = LONG_EXCESS_MAX / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALONE_NS, LONG_NS, SKIP_MAX, YieldPolicy};
    use os::clock::Ticks;

    /// Returns the number of waits until the next attempt.
    fn skipped_by(yield_policy: &mut YieldPolicy) -> u32 {
        (0..).take_while(|_| !yield_policy.is_due()).count() as u32
    }

    #[test]
    fn yields_while_other_threads_run() {
        let mut yield_policy = YieldPolicy::default();
        for _ in 0..10 {
            assert_eq!(skipped_by(&mut yield_policy), 0);
            yield_policy.note(ALONE_NS);
        }
    }

    #[test]
    fn skips_grow_while_no_other_thread_runs() {
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
    fn pauses_when_most_attempts_take_long() {
        let mut yield_policy = YieldPolicy::default();
        for _ in 0..100 {
            // Long enough that the suspension is still in progress, however slow this test is.
            yield_policy.note(1_000 * LONG_NS);
            assert!(yield_policy.is_due(), "an equal number of short attempts cancels the excess");
            yield_policy.note(LONG_NS - 1);
        }
        let mut suspensions = [0; 2];
        for suspension in &mut suspensions {
            let at = Ticks::now();
            while yield_policy.is_due() {
                yield_policy.note(1_000 * LONG_NS);
            }
            *suspension = yield_policy.suspension_end.ns_since(at);
            assert!((0..1_000).all(|_| !yield_policy.is_due()));
            yield_policy.suspension_end = Ticks::default();
        }
        assert!(suspensions[1] > suspensions[0] / 2 * 3, "the next suspension is twice as long");
    }
}

//! The number of active workers: those that serve connections. It follows the load, because a request costs least where all
//! requests are served by one worker: it wakes up less often, and serves more of them in a turn.
//!
//! The others are dormant. They do all the work of a worker, but connections that have something to do leave them, and
//! no others come.
//!
//! Invariants:
//! 1. Active are the workers with the lowest indices: at least one, and as many as `io-threads-min`; with
//!    `io-threads-always-active` all.
//! 2. The number grows by a worker that is overloaded ([`ActiveWorkers::grow`]), and falls when the load of all would have
//!    fitted into fewer for half a second, and no command was long for five seconds ([`ActiveWorkers::shrink`]).
//! 3. If it grows again soon after it has fallen, the load must be low for twice as long before it falls the next time.

use base::limits::THREAD_COUNT_MAX;
use config::Config;
use os::clock::Uptime;
use sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// How long the load must be low before the number falls, in milliseconds: at first, and at most.
const LOW_MS_MIN: i64 = 500;
const LOW_MS_MAX: i64 = 32_000;

/// If the number has grown within so many milliseconds after it has fallen, the load was not low for long enough; if not
/// within so many milliseconds, it was.
const SOON_MS: i64 = 5000;
const LATE_MS: i64 = 60_000;

/// How long the number does not fall after a command that took long, in milliseconds.
const LONG_COMMAND_MS: i64 = 5000;

/// How many workers are active.
#[derive(Default)]
pub struct ActiveWorkers {
    count: AtomicUsize,
    count_min: AtomicUsize,
    /// Since when the load has been low, in milliseconds of the monotonic clock; 0: it is not.
    low_since_ms: AtomicI64,
    /// When the number has last fallen, likewise; 0: it has grown since.
    fallen_ms: AtomicI64,
    /// How long the load must be low, besides [`LOW_MS_MIN`].
    longer_ms: AtomicI64,
    /// When a command last took long, in milliseconds of the monotonic clock; 0: none did.
    long_command_ms: AtomicI64,
}

impl ActiveWorkers {
    /// Returns the least number that the configuration allows.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let active = Self::default();
        active.follow_config(config);
        active
    }

    /// Applies the directives.
    pub fn follow_config(&self, config: &Config) {
        let count_min =
            if config.io_threads_always_active { THREAD_COUNT_MAX } else { config.io_threads_min as usize };
        self.count_min.store(count_min.max(1), Ordering::Relaxed);
    }

    /// The number, of so many workers.
    #[inline]
    #[must_use]
    pub fn count(&self, workers: usize) -> usize {
        self.count.load(Ordering::Relaxed).max(self.count_min.load(Ordering::Relaxed)).min(workers)
    }

    /// Whether the number can change, with so many workers.
    #[must_use]
    pub fn can_change(&self, workers: usize) -> bool {
        self.count_min.load(Ordering::Relaxed) < workers
    }

    /// Makes one more of so many workers active. Returns its index, or `None` if all are.
    #[must_use]
    pub fn grow(&self, workers: usize, now: Uptime) -> Option<usize> {
        let before = self.count.load(Ordering::Relaxed);
        let active = self.count(workers);
        self.low_since_ms.store(0, Ordering::Relaxed);
        let has_grown = active < workers
            && self.count.compare_exchange(before, active + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Once for each time that it has fallen.
        let fallen_ms = if has_grown { self.fallen_ms.swap(0, Ordering::Relaxed) } else { 0 };
        if fallen_ms != 0 {
            let longer_ms = self.longer_ms.load(Ordering::Relaxed);
            let longer_ms = match now.to_raw() - fallen_ms {
                ..SOON_MS => (2 * longer_ms + LOW_MS_MIN).min(LOW_MS_MAX),
                LATE_MS.. => 0,
                _ => longer_ms,
            };
            self.longer_ms.store(longer_ms, Ordering::Relaxed);
        }
        has_grown.then_some(active)
    }

    /// Records that a command took long.
    pub fn note_long_command(&self, now: Uptime) {
        self.long_command_ms.store(now.to_raw(), Ordering::Relaxed);
    }

    /// Makes some of so many workers dormant, at most half of the active ones, if `load`, the sum of what they need, would have
    /// fitted into fewer for long, each with at most `load_max`.
    pub fn shrink(&self, workers: usize, load: u64, load_max: u64, now: Uptime) {
        let (before, active) = (self.count.load(Ordering::Relaxed), self.count(workers));
        let needed = load.div_ceil(load_max.max(1)) as usize;
        let needed = needed.max(self.count_min.load(Ordering::Relaxed)).max(1);
        let is_low = load_max > 0 && needed < active;
        if !is_low || self.low_since_ms.load(Ordering::Relaxed) == 0 {
            self.low_since_ms.store(if is_low { now.to_raw() } else { 0 }, Ordering::Relaxed);
            return;
        }
        let passed_ms = |since_ms: &AtomicI64| match since_ms.load(Ordering::Relaxed) {
            0 => i64::MAX,
            since_ms => now.to_raw() - since_ms,
        };
        // The number falls by halves, and the first one has taken longer.
        let is_falling = passed_ms(&self.fallen_ms) < 2 * LOW_MS_MIN;
        let longer_ms = if is_falling { 0 } else { self.longer_ms.load(Ordering::Relaxed) };
        if passed_ms(&self.low_since_ms) < LOW_MS_MIN + longer_ms
            || passed_ms(&self.long_command_ms) < LONG_COMMAND_MS
        {
            return;
        }
        self.low_since_ms.store(now.to_raw(), Ordering::Relaxed);
        let fewer = needed.max(active.div_ceil(2));
        // Otherwise it has grown meanwhile.
        if self.count.compare_exchange(before, fewer, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.fallen_ms.store(now.to_raw(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn active(count_min: u32) -> ActiveWorkers {
        ActiveWorkers::new(&Config { io_threads_min: count_min, ..Config::default() })
    }

    fn at(ms: i64) -> Uptime {
        Uptime::from_raw(ms)
    }

    #[test]
    fn the_number_grows_to_that_of_the_workers() {
        let active = active(1);
        assert_eq!(active.count(3), 1);
        assert_eq!([(); 3].map(|()| active.grow(3, at(0))), [Some(1), Some(2), None]);
        assert_eq!((active.count(3), active.count(2), active.count(8)), (3, 2, 3));
    }

    #[test]
    fn it_follows_the_directives() {
        let active = active(2);
        assert_eq!((active.count(1), active.count(4)), (1, 2));
        assert_eq!(active.grow(4, at(0)), Some(2));
        active.follow_config(&Config { io_threads_always_active: true, ..Config::default() });
        assert!(active.count(4) == 4 && !active.can_change(4) && active.grow(4, at(0)).is_none());
        active.follow_config(&Config::default());
        assert!(active.count(4) == 3 && active.can_change(4));
    }

    #[test]
    fn it_falls_after_half_a_second_of_low_load() {
        let active = active(1);
        assert_eq!([(); 7].map(|()| active.grow(8, at(100_000))).last(), Some(&Some(7)));
        assert_eq!(active.count(8), 8);
        let ms = Cell::new(101_000);
        let after = |active: &ActiveWorkers, load: u64, passed: i64| {
            ms.set(ms.get() + passed);
            active.shrink(8, load, 450, at(ms.get()));
            active.count(8)
        };
        assert_eq!(after(&active, 100, 0), 8);
        assert_eq!(after(&active, 3500, 400), 8, "the load is not low");
        assert_eq!(after(&active, 100, 100), 8);
        assert_eq!(after(&active, 100, 499), 8);
        assert_eq!(after(&active, 100, 1), 4, "at most half at once");
        assert_eq!(after(&active, 1300, 500), 3, "as many as the load needs");
        assert_eq!(after(&active, 100, 500), 2);
        active.note_long_command(at(ms.get()));
        assert_eq!(after(&active, 0, 4999), 2);
        assert_eq!(after(&active, 0, 1), 1);
        assert_eq!(after(&active, 0, 5000), 1);
    }

    #[test]
    fn it_falls_later_if_it_has_grown_again_soon() {
        let active = active(1);
        let mut ms = 100_000;
        let mut low_ms = |pause_ms: i64| {
            ms += pause_ms;
            assert_eq!(active.grow(2, at(ms)), Some(1));
            let began = ms;
            while active.count(2) == 2 {
                active.shrink(2, 0, 450, at(ms));
                ms += 100;
            }
            ms -= 100;
            ms - began
        };
        assert_eq!([low_ms(0), low_ms(4000), low_ms(4000)], [500, 1000, 2000]);
        assert_eq!([low_ms(10_000), low_ms(60_000), low_ms(4000)], [2000, 500, 1000]);
    }

    #[test]
    fn several_workers_that_become_active_are_one_growth() {
        let active = active(2);
        let mut ms = 100_000;
        for expected_ms in [1000, 1500, 2500] {
            (2..8).for_each(|index| assert_eq!(active.grow(8, at(ms)), Some(index)));
            let began = ms;
            while active.count(8) > 2 {
                active.shrink(8, 0, 450, at(ms));
                ms += 100;
            }
            assert_eq!(ms - 100 - began, expected_ms);
            // It can't fall below the least number.
            (0..20).for_each(|tick| active.shrink(8, 0, 450, at(ms + 100 * tick)));
            ms += 2000;
        }
    }

    #[test]
    fn it_does_not_fall_with_a_limit_of_zero() {
        let active = active(1);
        let _ = active.grow(2, at(0));
        [1000, 2000, 3000].iter().for_each(|ms| active.shrink(2, 0, 0, at(*ms)));
        assert_eq!(active.count(2), 2);
    }
}

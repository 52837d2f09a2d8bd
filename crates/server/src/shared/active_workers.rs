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

use base::limits::THREAD_COUNT_MAX;
use config::Config;
use os::clock::Uptime;
use sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// How long the load must be low before the number falls, in milliseconds.
const LOW_MS: i64 = 500;

/// How long the number does not fall after a command that took long, in milliseconds.
const LONG_COMMAND_MS: i64 = 5000;

/// How many workers are active.
#[derive(Default)]
pub struct ActiveWorkers {
    count: AtomicUsize,
    count_min: AtomicUsize,
    /// Since when the load has been low, in milliseconds of the monotonic clock; 0: it is not.
    low_since_ms: AtomicI64,
    /// When a command last took long, likewise.
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
    pub fn grow(&self, workers: usize) -> Option<usize> {
        let before = self.count.load(Ordering::Relaxed);
        let active = self.count(workers);
        self.low_since_ms.store(0, Ordering::Relaxed);
        let has_grown = active < workers
            && self.count.compare_exchange(before, active + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
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
        let needed = load.div_ceil(load_max.max(1)).max(1) as usize;
        let is_low = load_max > 0 && needed < active && self.can_change(workers);
        let since = self.low_since_ms.load(Ordering::Relaxed);
        if !is_low || since == 0 {
            self.low_since_ms.store(if is_low { now.to_raw() } else { 0 }, Ordering::Relaxed);
            return;
        }
        let long_command = Uptime::from_raw(self.long_command_ms.load(Ordering::Relaxed));
        if now.ms_since(Uptime::from_raw(since)) < LOW_MS
            || (long_command.to_raw() != 0 && now.ms_since(long_command) < LONG_COMMAND_MS)
        {
            return;
        }
        self.low_since_ms.store(now.to_raw(), Ordering::Relaxed);
        let fewer = needed.max(active.div_ceil(2)).min(active - 1);
        // It has grown meanwhile.
        let _ = self.count.compare_exchange(before, fewer, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(lines: &str) -> ActiveWorkers {
        let mut config = Config::default();
        config.io_threads_always_active = lines == "always";
        config.io_threads_min = lines.parse().unwrap_or(1);
        ActiveWorkers::new(&config)
    }

    fn at(ms: i64) -> Uptime {
        Uptime::from_raw(ms)
    }

    #[test]
    fn the_number_grows_to_that_of_the_workers() {
        let active = active("");
        assert_eq!(active.count(3), 1);
        assert_eq!([active.grow(3), active.grow(3), active.grow(3)], [Some(1), Some(2), None]);
        assert_eq!((active.count(3), active.count(2), active.count(8)), (3, 2, 3));
    }

    #[test]
    fn it_follows_the_directives() {
        let active = active("2");
        assert_eq!((active.count(1), active.count(4)), (1, 2));
        assert_eq!(active.grow(4), Some(2));
        let mut config = Config::default();
        config.io_threads_always_active = true;
        active.follow_config(&config);
        assert!(active.count(4) == 4 && !active.can_change(4) && active.grow(4).is_none());
        active.follow_config(&Config::default());
        assert!(active.count(4) == 3 && active.can_change(4));
    }

    #[test]
    fn it_falls_after_half_a_second_of_low_load() {
        let active = active("");
        (0..7).for_each(|_| drop(active.grow(8)));
        assert_eq!(active.count(8), 8);
        let mut ms = 1000;
        let mut after = |active: &ActiveWorkers, load: u64, passed: i64| {
            ms += passed;
            active.shrink(8, load, 450, at(ms));
            active.count(8)
        };
        assert_eq!(after(&active, 100, 0), 8);
        assert_eq!(after(&active, 3500, 400), 8, "the load is not low");
        assert_eq!(after(&active, 100, 100), 8);
        assert_eq!(after(&active, 100, 499), 8);
        assert_eq!(after(&active, 100, 1), 4, "at most half at once");
        assert_eq!(after(&active, 1300, 500), 3, "as many as the load needs");
        assert_eq!(after(&active, 100, 500), 2);
        active.note_long_command(at(ms));
        assert_eq!(after(&active, 0, 4999), 2);
        assert_eq!(after(&active, 0, 1), 1);
        assert_eq!(after(&active, 0, 5000), 1);
    }

    #[test]
    fn it_does_not_fall_with_a_limit_of_zero() {
        let active = active("");
        let _ = active.grow(2);
        [1000, 2000, 3000].iter().for_each(|ms| active.shrink(2, 0, 0, at(*ms)));
        assert_eq!(active.count(2), 2);
    }
}

//! Intended send times at a fixed rate.
//!
//! Open-loop latency counts from these times instead of the actual send times, so a server stall shows in
//! every request due during it. The backlog is computed, not queued.

/// Evenly spaced points in time, one for each request.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    first_ns: f64,
    interval_ns: f64,
}

impl Schedule {
    /// Creates the share `index` of `count` threads of a total of `rate` requests per second, starting at
    /// time 0. The shares interleave.
    #[must_use]
    pub fn new(rate: f64, index: usize, count: usize) -> Self {
        let spacing_ns = 1e9 / rate;
        Self { first_ns: spacing_ns * index as f64, interval_ns: spacing_ns * count as f64 }
    }

    /// Returns the time at which request `index` is due.
    #[must_use]
    pub fn intended_ns(&self, index: u64) -> u64 {
        (self.first_ns + self.interval_ns * index as f64) as u64
    }

    /// Returns the number of requests due by `now_ns`.
    #[must_use]
    pub fn due_count(&self, now_ns: u64) -> u64 {
        let since_first = now_ns as f64 - self.first_ns;
        if since_first < 0.0 { 0 } else { (since_first / self.interval_ns) as u64 + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_evenly_spaced() {
        let schedule = Schedule::new(1_000.0, 0, 1);
        assert_eq!([0, 1, 5].map(|index| schedule.intended_ns(index)), [0, 1_000_000, 5_000_000]);
        assert_eq!(schedule.due_count(0), 1);
        assert_eq!(schedule.due_count(999_999), 1);
        assert_eq!(schedule.due_count(1_000_000), 2);
        assert_eq!(schedule.due_count(1_000_000_000), 1_001);
    }

    #[test]
    fn threads_interleave() {
        let threads: Vec<Schedule> = (0..4).map(|index| Schedule::new(1_000.0, index, 4)).collect();
        let mut all: Vec<u64> =
            threads.iter().flat_map(|s| (0..3).map(|index| s.intended_ns(index))).collect();
        all.sort_unstable();
        assert_eq!(all, (0..12).map(|index| index * 1_000_000).collect::<Vec<u64>>());
        assert_eq!(threads[3].due_count(2_999_999), 0);
        assert_eq!(threads.iter().map(|s| s.due_count(999_999_999)).sum::<u64>(), 1_000);
    }

    #[test]
    fn due_and_intended_agree_at_odd_rates() {
        let schedule = Schedule::new(333_333.3, 1, 3);
        for index in (0..10_000_000).step_by(99_991) {
            let intended = schedule.intended_ns(index);
            assert!((index..=index + 1).contains(&schedule.due_count(intended)), "{index}");
            assert_eq!(schedule.due_count(intended + 1), index + 1);
        }
    }
}

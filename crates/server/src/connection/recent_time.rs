//! The time that a connection's requests have taken recently, by which workers share the load.

use os::clock::Ticks;

/// The binary logarithm of a period in ticks of the clock: 45 to 130 ms.
const PERIOD_BITS: u32 = 27;

/// The ticks from which on a batch is of interest to [`RecentTime::take_longest`]: less than a millisecond.
const LONG_TICKS: u64 = 1 << 19;

/// Time in ticks of the clock, of which half is forgotten in each period.
#[derive(Debug, Default)]
pub struct RecentTime {
    ticks: u64,
    /// The period in which it was counted last.
    period: u64,
    /// When the batch began that took the most, and when it ended, since the last call of [`Self::take_longest`].
    longest: (u64, u64),
}

impl RecentTime {
    /// Adds the time of a batch of requests.
    #[inline]
    pub fn add(&mut self, began: Ticks, ended: Ticks) {
        let (began, ended) = (began.to_raw(), ended.to_raw());
        let spent = ended.saturating_sub(began);
        self.ticks = halved(self.ticks, self.period, ended) + spent;
        self.period = ended >> PERIOD_BITS;
        if spent >= LONG_TICKS && spent > self.longest.1 - self.longest.0 {
            self.longest = (began, ended);
        }
    }

    /// The time until now, in ticks of the clock.
    #[must_use]
    pub fn at(&self, now: Ticks) -> u64 {
        halved(self.ticks, self.period, now.to_raw())
    }

    /// The nanoseconds of the longest batch since the last call; 0 if none took about a millisecond.
    #[inline]
    pub fn take_longest(&mut self) -> u64 {
        let (began, ended) = std::mem::take(&mut self.longest);
        Ticks::from_raw(ended).ns_since(Ticks::from_raw(began))
    }
}

/// The rest of a time that was counted in a period, at a moment.
#[inline]
fn halved(ticks: u64, period: u64, now: u64) -> u64 {
    let passed = (now >> PERIOD_BITS).saturating_sub(period);
    if passed < u64::from(u64::BITS) { ticks >> passed } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 1 << PERIOD_BITS;

    fn at(raw: u64) -> Ticks {
        Ticks::from_raw(raw)
    }

    #[test]
    fn half_is_forgotten_in_each_period() {
        let mut time = RecentTime::default();
        time.add(at(PERIOD), at(PERIOD + 1000));
        time.add(at(PERIOD + 2000), at(PERIOD + 2024));
        assert_eq!(time.at(at(PERIOD + 5000)), 1024);
        assert_eq!(time.at(at(2 * PERIOD)), 512);
        time.add(at(2 * PERIOD), at(2 * PERIOD + 100));
        assert_eq!(time.at(at(3 * PERIOD)), 306);
        assert_eq!(time.at(at(100 * PERIOD)), 0);
    }

    #[test]
    fn the_longest_batch_is_known_once() {
        let mut time = RecentTime::default();
        time.add(at(10), at(LONG_TICKS));
        assert_eq!(time.take_longest(), 0);
        for (began, ended) in [(10, 20 + LONG_TICKS), (100, 5 * LONG_TICKS), (6000, 6100 + LONG_TICKS)] {
            time.add(at(began), at(ended));
        }
        assert_eq!(time.take_longest(), at(5 * LONG_TICKS).ns_since(at(100)));
        assert_eq!(time.take_longest(), 0);
    }
}

//! The choice of the next thread: schedules, and the random numbers that drive them.

use super::Gap;

/// The policy for choosing threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Picks any runnable thread, after a random number of points.
    RandomWalk {
        /// Mean number of points between two decisions.
        points_mean: u32,
    },
    /// Picks the thread with the highest priority, as in "probabilistic concurrency testing". Priorities are
    /// random; the running thread is demoted to the lowest one at random moments, or when it yields.
    Priorities {
        /// Mean number of points between two demotions.
        points_mean: u32,
    },
    /// A random walk in which a thread is occasionally not scheduled for a long span of virtual time.
    Stalls {
        /// Mean number of points between two decisions.
        points_mean: u32,
        /// Longest stall, in microseconds.
        stall_us_max: u64,
    },
}

impl Schedule {
    /// Draws the schedule of a seed.
    pub(super) fn draw(random: &mut Random) -> Self {
        const MEANS: [u32; 6] = [4, 20, 60, 200, 1000, 5000];
        let points_mean = MEANS[random.below(MEANS.len() as u64) as usize];
        match random.below(5) {
            0 | 1 => Schedule::RandomWalk { points_mean },
            2 | 3 => Schedule::Priorities { points_mean: points_mean.max(20) },
            _ => Schedule::Stalls { points_mean, stall_us_max: 100 << random.below(15) },
        }
    }

    pub(super) fn points_mean(self) -> u32 {
        match self {
            Schedule::RandomWalk { points_mean }
            | Schedule::Priorities { points_mean }
            | Schedule::Stalls { points_mean, .. } => points_mean,
        }
    }
}

/// Stalls in selected gaps, independent of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapStalls {
    /// The percentage of passes through each gap that stall.
    pub percents: Vec<(Gap, u64)>,
    /// Longest stall, in microseconds.
    pub stall_us_max: u64,
}

impl GapStalls {
    /// Draws the length of a stall in `gap`, in microseconds; `None` for no stall.
    pub(super) fn draw(&self, gap: Gap, random: &mut Random) -> Option<u64> {
        let (_, percent) = self.percents.iter().find(|(chosen, _)| *chosen == gap)?;
        (random.below(100) < *percent).then(|| 1 + random.below(self.stall_us_max))
    }
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "never returns an Option")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

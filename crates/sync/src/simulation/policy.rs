//! Which thread runs next: the schedules, and the random numbers they are drawn from.

use super::Gap;

/// How threads are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Any thread that can run, after a random number of points.
    RandomWalk {
        /// Mean number of points between two decisions.
        points_mean: u32,
    },
    /// The thread with the highest priority, as in "probabilistic concurrency testing": random priorities, and the
    /// running thread falls to the lowest one at random moments, or when it yields.
    Priorities {
        /// Mean number of points between two falls.
        points_mean: u32,
    },
    /// A random walk in which threads are now and then not scheduled for a long span of virtual time.
    Stalls {
        /// Mean number of points between two decisions.
        points_mean: u32,
        /// Longest stall, in microseconds.
        stall_us_max: u64,
    },
}

impl Schedule {
    /// The schedule of a seed.
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

/// Stalls of the threads that are in some gaps, whatever the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapStalls {
    /// In how many percent of its passes a gap stalls.
    pub percents: Vec<(Gap, u64)>,
    /// Longest stall, in microseconds.
    pub stall_us_max: u64,
}

impl GapStalls {
    /// For how long a thread in a gap is stalled, if it is.
    pub(super) fn draw(&self, gap: Gap, random: &mut Random) -> Option<u64> {
        let (_, percent) = self.percents.iter().find(|(chosen, _)| *chosen == gap)?;
        (random.below(100) < *percent).then(|| 1 + random.below(self.stall_us_max))
    }
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "there is always one")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Whether something of this probability is the case.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

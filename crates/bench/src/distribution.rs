//! Key distributions: uniform, Zipf, one hot key, or sequential.

use std::fmt;
use std::str::FromStr;

use rand::Rng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Zipf};

use crate::error::BenchError;

/// How requests are distributed over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All keys with equal probability.
    Uniform,
    /// The n-th most popular key with probability proportional to 1 / n^exponent. Popular keys are
    /// scattered over the key numbers.
    Zipf {
        /// Exponent; YCSB uses 0.99.
        exponent: f64,
    },
    /// One key gets this share of the requests; the rest is uniform.
    Hot {
        /// Share of the hot key, 0 to 1.
        share: f64,
    },
    /// Keys in ascending order, repeated; each thread covers its own residue class.
    Sequential,
}

impl FromStr for Distribution {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => {
                let number = parameter.parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.ok_or_else(|| {
                    BenchError::usage(format!(
                        "in the distribution '{text}', '{parameter}' is not a finite number"
                    ))
                })?;
                (name, Some(number))
            }
            None => (text, None),
        };
        match (name, parameter) {
            ("uniform", None) => Ok(Self::Uniform),
            ("sequential", None) => Ok(Self::Sequential),
            ("zipf", exponent) if exponent.is_none_or(|exponent| exponent >= 0.0) => {
                Ok(Self::Zipf { exponent: exponent.unwrap_or(0.99) })
            }
            ("hot", share) if share.is_none_or(|share| (0.0..=1.0).contains(&share)) => {
                Ok(Self::Hot { share: share.unwrap_or(1.0) })
            }
            _ => Err(BenchError::usage(format!(
                "invalid distribution '{text}'; valid: uniform, zipf, zipf:EXPONENT (at least 0), hot, hot:SHARE (0 to 1), sequential"
            ))),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Self::Hot { share } if *share >= 1.0 => f.write_str("hot"),
            Self::Hot { share } => write!(f, "hot:{share}"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

/// The residue class of key numbers that one of several threads covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the thread, below `count`.
    pub index: u64,
    /// Number of threads.
    pub count: u64,
}

impl Share {
    /// Returns how many of `total` items belong to this share.
    #[must_use]
    pub const fn of(self, total: u64) -> u64 {
        total / self.count + (self.index < total % self.count) as u64
    }
}

/// Draws key numbers below a count.
#[derive(Clone, Debug)]
pub struct KeyPicker {
    count: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform,
    Zipf { ranks: Zipf<f64>, scatter: u64 },
    Hot { threshold: u64 },
    Sequential { next: u64, share: Share },
}

impl KeyPicker {
    /// Draws from the first `count` key numbers; `share` matters for [`Distribution::Sequential`] only.
    pub fn new(distribution: Distribution, count: u64, share: Share) -> Result<Self, BenchError> {
        let kind = match distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Zipf { exponent } => {
                let ranks = Zipf::new(count as f64, exponent)
                    .map_err(|error| BenchError::usage(format!("zipf:{exponent}: {error}")))?;
                Kind::Zipf { ranks, scatter: scatter_step(count) }
            }
            Distribution::Hot { share } => Kind::Hot { threshold: (share * 2f64.powi(64)) as u64 },
            Distribution::Sequential => Kind::Sequential { next: share.index % count, share },
        };
        Ok(Self { count, kind })
    }

    /// Returns the next key number.
    #[inline]
    pub fn pick(&mut self, rng: &mut SmallRng) -> u64 {
        match &mut self.kind {
            Kind::Uniform => below(self.count, rng),
            Kind::Zipf { ranks, scatter } => {
                let rank = (ranks.sample(rng) as u64).clamp(1, self.count) - 1;
                rank * *scatter % self.count
            }
            Kind::Hot { threshold } => {
                // A share of 1 saturates the threshold; the one draw in 2^64 above it is negligible.
                if rng.next_u64() <= *threshold { 0 } else { below(self.count, rng) }
            }
            Kind::Sequential { next, share } => {
                let picked = *next;
                *next += share.count;
                if *next >= self.count {
                    *next = share.index % self.count;
                }
                picked
            }
        }
    }
}

/// Returns a number below `count` (which is below 2^32). Multiplies instead of dividing, with a bias below
/// 2^-32.
#[inline]
pub fn below(count: u64, rng: &mut SmallRng) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as u64
}

/// Returns a step near the golden section of `count` and coprime to it: multiplying ranks by it visits each
/// key once.
fn scatter_step(count: u64) -> u64 {
    let mut step = (count as f64 * 0.618_033_988_75) as u64 | 1;
    while greatest_common_divisor(step, count) != 1 {
        step += 2;
    }
    step
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counts(distribution: &str, keys: u64, draws: u64) -> Vec<u64> {
        let mut picker =
            KeyPicker::new(distribution.parse().unwrap(), keys, Share { index: 0, count: 1 }).unwrap();
        let mut rng = SmallRng::seed_from_u64(7);
        let mut counts = vec![0; keys as usize];
        for _ in 0..draws {
            counts[picker.pick(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_passes_a_chi_square_test() {
        let (keys, draws) = (1_000, 1_000_000);
        let expected = draws as f64 / keys as f64;
        let chi_square: f64 =
            counts("uniform", keys, draws).iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // 999 degrees of freedom: mean 999, standard deviation 44.7.
        assert!((999.0 - 4.0 * 44.7..999.0 + 4.0 * 44.7).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn zipf_frequencies_follow_the_power_law() {
        let (keys, draws, exponent) = (1_000u64, 1_000_000u64, 0.99);
        let mut by_popularity = counts("zipf:0.99", keys, draws);
        by_popularity.sort_unstable_by(|a, b| b.cmp(a));
        let normaliser: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
        for rank in [1u64, 2, 3, 10, 50] {
            let expected = draws as f64 * (rank as f64).powf(-exponent) / normaliser;
            let found = by_popularity[rank as usize - 1] as f64;
            assert!((found / expected - 1.0).abs() < 0.05, "rank {rank}: {found} for {expected}");
        }
    }

    #[test]
    fn zipf_scatters_over_all_keys() {
        for keys in [1, 2, 3, 10, 1_000, 1_000_000] {
            assert_eq!(greatest_common_divisor(scatter_step(keys), keys), 1);
        }
        assert!(counts("zipf:0", 100, 100_000).iter().all(|&n| n > 800));
    }

    #[test]
    fn hot_draws_its_share_from_one_key() {
        assert_eq!(counts("hot", 100, 10_000)[0], 10_000);
        let counts = counts("hot:0.9", 100, 100_000);
        assert!((89_500..90_700).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[1..].iter().all(|&n| n > 0));
    }

    #[test]
    fn sequential_shares_cover_each_key_once() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut seen = vec![0; 10];
        for index in 0..3 {
            let share = Share { index, count: 3 };
            let mut picker = KeyPicker::new(Distribution::Sequential, 10, share).unwrap();
            for _ in 0..share.of(10) {
                seen[picker.pick(&mut rng) as usize] += 1;
            }
            assert_eq!(picker.pick(&mut rng), index, "then it starts over");
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn names_round_trip_and_invalid_ones_are_refused() {
        for name in ["uniform", "zipf:0.99", "hot", "hot:0.5", "sequential"] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        for name in ["", "zipf:-1", "zipf:x", "hot:2", "uniform:1", "pareto"] {
            assert!(name.parse::<Distribution>().is_err(), "{name}");
        }
    }
}

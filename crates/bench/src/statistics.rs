//! Medians with bootstrap confidence intervals.
//!
//! Percentile bootstrap: the median of many resamples with replacement, and the range of the middle 95 % of
//! them. With few rounds this is close to the observed range, as it should be. Ratios are computed round by
//! round before that: the servers of one round ran under equal conditions, so machine drift cancels out.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;

use crate::distribution::below;

/// Number of resamples: enough for two stable digits of the interval's bounds.
const RESAMPLE_COUNT: usize = 4_000;

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median of the samples.
    pub median: f64,
    /// Lower bound of the interval.
    pub low: f64,
    /// Upper bound of the interval.
    pub high: f64,
}

impl Estimate {
    /// Estimates the median of the distribution of `samples`; `None` without samples. Deterministic.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let median = median(samples)?;
        let mut rng = SmallRng::seed_from_u64(0x95);
        let mut resample = samples.to_vec();
        let mut medians: Vec<f64> = Vec::with_capacity(RESAMPLE_COUNT);
        for _ in 0..RESAMPLE_COUNT {
            for place in &mut resample {
                *place = samples[below(samples.len() as u64, &mut rng) as usize];
            }
            medians.extend(self::median(&resample));
        }
        medians.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
        Some(Self { median, low: at(0.025), high: at(0.975) })
    }

    /// Estimates the ratio of two paired series; pairs with a zero divisor are excluded.
    #[must_use]
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Option<Self> {
        let pairs = above.iter().zip(below).filter(|(_, below)| **below > 0.0);
        Self::of(&pairs.map(|(above, below)| above / below).collect::<Vec<f64>>())
    }
}

/// Returns the middle value, or the mean of the two middle values.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 })
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn no_spread_gives_no_interval() {
        assert_eq!(Estimate::of(&[2.0; 5]), Some(Estimate { median: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_interval_holds_the_true_median_about_95_times_in_100() {
        let mut rng = SmallRng::seed_from_u64(11);
        let mut hit_count = 0;
        for _ in 0..200 {
            // Sums of uniform draws: symmetric around 6.
            let mut draw = || (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>();
            let samples: Vec<f64> = (0..25).map(|_| draw()).collect();
            let estimate = Estimate::of(&samples).unwrap();
            assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
            hit_count += u32::from((estimate.low..=estimate.high).contains(&6.0));
        }
        assert!((180..=199).contains(&hit_count), "{hit_count}");
    }

    #[test]
    fn ratios_cancel_a_common_drift() {
        let (ours, theirs) = ([1.0, 2.0, 3.0, 10.0], [2.0, 4.0, 6.0, 20.0]);
        assert_eq!(Estimate::of_ratios(&ours, &theirs), Some(Estimate { median: 0.5, low: 0.5, high: 0.5 }));
        assert_eq!(Estimate::of_ratios(&ours, &[0.0; 4]), None);
    }
}

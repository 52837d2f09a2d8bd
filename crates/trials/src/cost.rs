//! The cost audit: the cost of commands that take a count, a range or many keys, with N and with 4N elements.
//!
//! A case (`cost/cases.rs`) is a request as text, with its preparation. It is measured on our server and on
//! Valkey, as CPU time of the server's busiest thread. Two values are limited: the growth of the cost from N
//! to 4N, and its ratio to Valkey's cost.
//! Owns: the servers of an audit. Invariant: a case is over its limit only if the low quartiles of several
//! attempts together are, because other processes share the caches and processors and add to costs. The
//! attempts are spread over time: a case over a limit is measured again after all other cases.
//! Start reading at [`audit`], then `cases.rs`.

pub mod cases;
pub mod coverage;
pub mod meter;
pub mod report;
pub mod template;

use std::collections::BTreeSet;
use std::io;

use crate::server::Program;
use cases::Case;
use meter::Meter;

/// Ratio of the larger to the smaller size.
pub const SIZE_FACTOR: usize = 4;

/// Maximum growth of a cost from N to 4N if it is linear, or N log N.
pub const LINEAR_GROWTH_MAX: f64 = 8.0;

/// Maximum growth of a cost that is documented as a product of two lengths.
pub const SQUARE_GROWTH_MAX: f64 = 32.0;

/// Maximum ratio to Valkey's cost.
pub const RATIO_MAX: f64 = 2.0;

/// Costs below this value count as this value: they consist mostly of connection overhead and noise.
const COST_MS_MIN: f64 = 0.15;

/// Number of measurements of a case before it counts as over its limit.
const ATTEMPTS_MAX: usize = 8;

/// Options of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whether to use small sizes, for a short test.
    pub is_quick: bool,
    /// Measurements of each size in an attempt.
    pub rounds: usize,
    /// Allowance above the limits.
    pub allowance: Allowance,
}

/// Factors by which costs may exceed the limits of their cases.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Factor on the growth from N to 4N.
    pub growth: f64,
    /// Factor on the ratio to Valkey's cost.
    pub ratio: f64,
}

impl Allowance {
    /// No allowance.
    pub const NONE: Allowance = Allowance { growth: 1.0, ratio: 1.0 };
}

/// Costs of a case on one server, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Cost with N.
    pub small: f64,
    /// Cost with 4N.
    pub large: f64,
    /// Cost with 16N, measured if the growth from N to 4N is over its limit.
    pub largest: Option<f64>,
}

/// Result of a case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: &'static Case,
    /// N.
    pub size: usize,
    /// Whether N is that of a short test.
    pub is_quick: bool,
    /// Our costs.
    pub ours: Costs,
    /// Valkey's costs; `None` if it does not implement the command.
    pub peer: Option<Costs>,
    /// Allowance above the limits of the case.
    pub allowance: Allowance,
}

impl Costs {
    /// Returns the growth from N to 4N, or from 4N to 16N if that is less. Outgrowing a cache causes high
    /// growth in only one of these steps; quadratic time causes it in both.
    pub fn growth(self) -> f64 {
        let growth = |from: f64, to: f64| to.max(COST_MS_MIN) / from.max(COST_MS_MIN);
        let first = growth(self.small, self.large);
        self.largest.map_or(first, |largest| first.min(growth(self.large, largest)))
    }
}

impl Finding {
    /// Returns the ratio of our cost to Valkey's: the worse of both sizes.
    pub fn ratio(&self) -> Option<f64> {
        let of = |ours: f64, peer: f64| ours.max(COST_MS_MIN) / peer.max(COST_MS_MIN);
        self.peer.map(|peer| of(self.ours.small, peer.small).max(of(self.ours.large, peer.large)))
    }

    /// Describes the exceeded limits; empty if there are none.
    pub fn complaint(&self) -> String {
        let mut complaints = Vec::new();
        let growth_max = self.growth_max();
        if self.grows_too_much() {
            complaints.push(format!("grows {:.1}x, at most {growth_max}x allowed", self.ours.growth()));
        }
        let ratio_max = self.case.ratio_max(self.is_quick) * self.allowance.ratio;
        if let Some(ratio) = self.ratio().filter(|ratio| *ratio > ratio_max) {
            complaints.push(format!("{ratio:.1}x Valkey's time, at most {ratio_max}x allowed"));
        }
        complaints.join("; ")
    }

    fn growth_max(&self) -> f64 {
        self.case.growth_max * self.allowance.growth
    }

    fn grows_too_much(&self) -> bool {
        self.ours.growth() > self.growth_max()
    }

    /// Whether the case is within its limits.
    pub fn is_within(&self) -> bool {
        self.complaint().is_empty()
    }
}

/// The measurements of a case so far.
struct Trial {
    /// The case's number in the table.
    number: usize,
    case: &'static Case,
    ours: Samples,
    /// `None` if Valkey does not implement the command.
    peer: Option<Samples>,
}

/// Costs of all attempts, in milliseconds: with N, 4N and 16N.
#[derive(Default)]
struct Samples([Vec<f64>; 3]);

impl Samples {
    fn costs(&self) -> Costs {
        let [small, large, largest] = &self.0;
        let largest = (!largest.is_empty()).then(|| low_quartile(largest));
        Costs { small: low_quartile(small), large: low_quartile(large), largest }
    }
}

/// Measures the cases for which `wanted(number, case)` is true, and passes each finding to `report`.
pub fn audit(
    ours: &Program,
    peer: &Program,
    plan: Plan,
    wanted: impl Fn(usize, &Case) -> bool,
    mut report: impl FnMut(&Finding),
) -> io::Result<Vec<Finding>> {
    let (mut ours, mut peer) = (Meter::start(ours)?, Meter::start(peer)?);
    let readers = ours.readonly_commands()?;
    let (mut findings, mut errors) = (Vec::new(), Vec::new());
    let cases = cases::all().enumerate().filter(|(number, case)| wanted(*number, case));
    let mut trials: Vec<Trial> = cases.map(|(number, case)| Trial::new(number, case)).collect();
    for attempt in 1..=ATTEMPTS_MAX {
        trials.retain_mut(|trial| {
            if let Err(error) = trial.measure(&mut ours, &mut peer, plan, &readers) {
                errors.push(error.to_string());
                return false;
            }
            let finding = trial.finding(plan);
            let is_over = !finding.is_within() && attempt < ATTEMPTS_MAX;
            if !is_over {
                report(&finding);
                findings.push((trial.number, finding));
            }
            is_over
        });
    }
    if !errors.is_empty() {
        return Err(io::Error::other(errors.join("\n")));
    }
    findings.sort_by_key(|(number, _)| *number);
    Ok(findings.into_iter().map(|(_, finding)| finding).collect())
}

impl Trial {
    fn new(number: usize, case: &'static Case) -> Self {
        Self { number, case, ours: Samples::default(), peer: Some(Samples::default()) }
    }

    /// Runs one more attempt: rounds alternate between both servers, and one with 16N runs on ours if it may
    /// excuse its growth.
    fn measure(
        &mut self,
        ours: &mut Meter,
        peer: &mut Meter,
        plan: Plan,
        readers: &BTreeSet<String>,
    ) -> io::Result<()> {
        let case = self.case;
        let small = case.scale.size(plan.is_quick);
        let large = small * SIZE_FACTOR;
        let only_reads = case.commands().all(|name| readers.contains(&name));
        // A read-only case is set up once for all rounds.
        let (set_up_count, rounds) = if only_reads { (1, plan.rounds) } else { (plan.rounds, 1) };
        let not_known = || case.error("unknown command");
        for _ in 0..set_up_count {
            for (place, size) in [small, large].into_iter().enumerate() {
                let sample = ours.sample(case, size, rounds, only_reads)?;
                self.ours.0[place].extend(sample.ok_or_else(not_known)?);
                let Some(samples) = &mut self.peer else { continue };
                match peer.sample(case, size, rounds, only_reads)? {
                    Some(sample) => samples.0[place].extend(sample),
                    None => self.peer = None,
                }
            }
        }
        if self.finding(plan).grows_too_much() {
            let sample = ours.sample(case, large * SIZE_FACTOR, rounds, only_reads)?;
            self.ours.0[2].extend(sample.ok_or_else(not_known)?);
        }
        Ok(())
    }

    fn finding(&self, plan: Plan) -> Finding {
        let (size, ours) = (self.case.scale.size(plan.is_quick), self.ours.costs());
        let peer = self.peer.as_ref().map(Samples::costs);
        let Plan { is_quick, allowance, .. } = plan;
        Finding { case: self.case, size, is_quick, ours, peer, allowance }
    }
}

/// Returns the minimum of a few samples; of many, a quantile that a single outlier can't determine.
fn low_quartile(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(ours: (f64, f64), peer: (f64, f64)) -> Finding {
        let case = cases::all().next().expect("there are cases");
        let costs = |(small, large)| Costs { small, large, largest: None };
        let (ours, peer) = (costs(ours), Some(costs(peer)));
        Finding { case, size: 1000, is_quick: false, ours, peer, allowance: Allowance::NONE }
    }

    #[test]
    fn one_outlier_does_not_change_the_result() {
        assert_eq!(low_quartile(&[3.0, 1.0, 2.0]), 1.0);
        assert_eq!(low_quartile(&[3.0, 0.01, 2.0, 2.0, 9.0, 3.0]), 2.0);
    }

    #[test]
    fn excessive_growth_and_time_are_complaints() {
        assert_eq!(finding((1.0, 4.5), (1.0, 4.0)).complaint(), "");
        assert_eq!(finding((1.0, 16.0), (8.0, 32.0)).complaint(), "grows 16.0x, at most 8x allowed");
        assert_eq!(finding((2.5, 10.0), (1.0, 6.0)).complaint(), "2.5x Valkey's time, at most 2x allowed");
        let outgrows_a_cache = Costs { small: 1.0, large: 16.0, largest: Some(70.0) };
        let finding_16 = Finding { ours: outgrows_a_cache, ..finding((0.0, 0.0), (8.0, 32.0)) };
        assert_eq!(finding_16.complaint(), "");
        let is_quadratic = Costs { largest: Some(250.0), ..outgrows_a_cache };
        assert_eq!(
            Finding { ours: is_quadratic, ..finding_16 }.complaint(),
            "grows 15.6x, at most 8x allowed"
        );
        let allowance = Allowance { growth: 2.0, ratio: 2.0 };
        assert!(Finding { allowance, ..finding((2.5, 25.0), (1.0, 7.0)) }.is_within());
        // Too short to measure.
        assert_eq!(finding((0.001, 0.1), (0.0001, 0.001)).complaint(), "");
    }
}

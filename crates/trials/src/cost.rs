//! The cost audit: what commands cost that take a count, a range or many keys, with N and with 4N elements.
//!
//! A case (`cost/cases.rs`) is a request as text and what must be there before. It is measured on our server and on Valkey, as
//! CPU time of the server's busiest thread. Two things are limited: how the cost grows from N to 4N, and
//! how it compares with Valkey's.
//! Owns: the servers of an audit. Invariant: a case is over its limit only if the low quartiles of several attempts together are,
//! since other processes use the same caches and processors, which adds to costs. The attempts lie apart in time: what is over a
//! limit is measured again after all other cases.
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

/// From the smaller to the larger size.
pub const SIZE_FACTOR: usize = 4;

/// Most that a cost may grow by from N to 4N where it is linear, or N log N.
pub const LINEAR_GROWTH_MAX: f64 = 8.0;

/// Most that a cost may grow by where it is documented as a product of two lengths.
pub const SQUARE_GROWTH_MAX: f64 = 32.0;

/// Most that a cost may be of Valkey's.
pub const RATIO_MAX: f64 = 2.0;

/// Costs below this are as good as this: they are mostly the connection's, and noise.
const COST_MS_MIN: f64 = 0.15;

/// How often a case is measured before it is over its limit.
const ATTEMPTS_MAX: usize = 8;

/// How an audit is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Small sizes, for a test that must not take long.
    pub is_quick: bool,
    /// Measurements of each size in an attempt.
    pub rounds: usize,
    /// What is allowed above the limits.
    pub allowance: Allowance,
}

/// By what factors costs may exceed the limits of their cases.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// The growth from N to 4N.
    pub growth: f64,
    /// The ratio to Valkey's cost.
    pub ratio: f64,
}

impl Allowance {
    /// The limits as they are.
    pub const NONE: Allowance = Allowance { growth: 1.0, ratio: 1.0 };
}

/// Costs of a case on one server, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// With N.
    pub small: f64,
    /// With 4N.
    pub large: f64,
    /// With 16N, where the growth from N to 4N is over its limit.
    pub largest: Option<f64>,
}

/// What was found out about a case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: &'static Case,
    /// N.
    pub size: usize,
    /// Our costs.
    pub ours: Costs,
    /// Valkey's; `None`: it does not have the command.
    pub peer: Option<Costs>,
    /// What is allowed above the limits of the case.
    pub allowance: Allowance,
}

impl Costs {
    /// By what factor the cost grows from N to 4N, or to 16N from there if that is less: what outgrows a cache grows much in one of
    /// these steps, what takes quadratic time in both.
    pub fn growth(self) -> f64 {
        let growth = |from: f64, to: f64| to.max(COST_MS_MIN) / from.max(COST_MS_MIN);
        let first = growth(self.small, self.large);
        self.largest.map_or(first, |largest| first.min(growth(self.large, largest)))
    }
}

impl Finding {
    /// Our cost compared with Valkey's: the worse of both sizes.
    pub fn ratio(&self) -> Option<f64> {
        let of = |ours: f64, peer: f64| ours.max(COST_MS_MIN) / peer.max(COST_MS_MIN);
        self.peer.map(|peer| of(self.ours.small, peer.small).max(of(self.ours.large, peer.large)))
    }

    /// Which limits it is over, in words; empty: none.
    pub fn complaint(&self) -> String {
        let mut complaints = Vec::new();
        let growth_max = self.growth_max();
        if self.grows_too_much() {
            complaints.push(format!("grows {:.1}x, at most {growth_max}x allowed", self.ours.growth()));
        }
        let ratio_max = self.case.ratio_max * self.allowance.ratio;
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

    /// Whether it is within its limits.
    pub fn is_within(&self) -> bool {
        self.complaint().is_empty()
    }
}

/// What was measured of a case so far.
struct Trial {
    /// The number in the table.
    number: usize,
    case: &'static Case,
    ours: Samples,
    /// `None`: it does not have the command.
    peer: Option<Samples>,
}

/// Costs in milliseconds, of all attempts: with N, 4N and 16N.
#[derive(Default)]
struct Samples([Vec<f64>; 3]);

impl Samples {
    fn costs(&self) -> Costs {
        let [small, large, largest] = &self.0;
        let largest = (!largest.is_empty()).then(|| low_quartile(largest));
        Costs { small: low_quartile(small), large: low_quartile(large), largest }
    }
}

/// Measures the cases that are `wanted`, of which it is told the number in the table, too, and shows `report` each.
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

    /// One attempt more: rounds by turns on both servers, and one with 16N on ours if that may excuse its growth.
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
        // A case that changes nothing is set up once for all rounds.
        let (set_up_count, rounds) = if only_reads { (1, plan.rounds) } else { (plan.rounds, 1) };
        let not_known = || case.error("is not known");
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
        Finding { case: self.case, size, ours, peer, allowance: plan.allowance }
    }
}

/// The least of a few samples; of many, one that no single mistake can have made.
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
        Finding { case, size: 1000, ours: costs(ours), peer: Some(costs(peer)), allowance: Allowance::NONE }
    }

    #[test]
    fn one_mistake_among_many_samples_does_not_count() {
        assert_eq!(low_quartile(&[3.0, 1.0, 2.0]), 1.0);
        assert_eq!(low_quartile(&[3.0, 0.01, 2.0, 2.0, 9.0, 3.0]), 2.0);
    }

    #[test]
    fn what_grows_too_much_or_takes_too_long_is_over_its_limit() {
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
        // Too short to be measured.
        assert_eq!(finding((0.001, 0.1), (0.0001, 0.001)).complaint(), "");
    }
}

//! The running servers of a comparison, of which one at a time is under load; and the rounds.

use std::collections::HashSet;

use crate::case::Case;
use crate::control::{Answer, Target};
use crate::error::BenchError;
use crate::load::{self, Live};
use crate::outcome::{CaseOutcome, ServerInfo, ServerOutcome};
use crate::progress::RunProgress;
use crate::sample::{Measure, Sample};
use crate::server::running::{RunningServer, StartOptions};
use crate::server::spec::ServerSpec;
use crate::statistics::Estimate;
use crate::workload::digest;

/// Running servers, each with the fills that it contains.
#[derive(Debug, Default)]
pub struct RunningServers {
    members: Vec<Member>,
    failures: Vec<String>,
}

#[derive(Debug)]
struct Member {
    server: RunningServer,
    filled: HashSet<String>,
    /// Whether the server failed. A failed server isn't measured again.
    has_failed: bool,
}

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct RoundSettings {
    /// Measured runs of each case on each server.
    pub round_count: usize,
    /// Servers that the others are compared with.
    pub baselines: Vec<String>,
    /// Whether a case keeps only the baseline with the lower CPU time.
    pub against_the_better: bool,
    /// Whether servers that were not started by the benchmark may be flushed.
    pub may_flush: bool,
    /// Whether keys are written before cases that need them.
    pub fills: bool,
    /// Whether a progress bar is drawn.
    pub shows_progress: bool,
}

impl RunningServers {
    /// Starts one more server.
    pub fn add(&mut self, spec: &ServerSpec, options: &StartOptions) -> Result<(), BenchError> {
        if self.members.iter().any(|member| member.name() == spec.name) {
            return Err(BenchError::usage(format!("two servers are named '{}'", spec.name)));
        }
        let server = RunningServer::start(spec, options)?;
        self.members.push(Member { server, filled: HashSet::new(), has_failed: false });
        Ok(())
    }

    /// Returns the running servers for the report.
    #[must_use]
    pub fn infos(&self) -> Vec<ServerInfo> {
        self.members.iter().map(|member| member.server.info()).collect()
    }

    /// Returns the connection data of each server.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.members.iter().map(|member| member.server.target())
    }

    /// Whether no server was started.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the failures, once [`RunningServers::compare`] has ended.
    #[must_use]
    pub fn into_failures(self) -> Vec<String> {
        self.failures
    }

    /// Measures each case on each server, round by round. Servers take turns and each round begins with a
    /// different one, so that machine drift affects all of them. A server that fails is excluded from then
    /// on.
    pub fn compare(
        &mut self,
        cases: &[Case],
        rounds: &RoundSettings,
    ) -> Result<Vec<CaseOutcome>, BenchError> {
        let server_count = self.members.len();
        let mut progress =
            RunProgress::new(cases.len() * server_count * rounds.round_count, rounds.shows_progress);
        let mut outcomes = Vec::new();
        for case in cases {
            let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); server_count];
            for round in 0..rounds.round_count {
                for turn in 0..server_count {
                    let index = (round + turn) % server_count;
                    let member = &mut self.members[index];
                    let what =
                        format!("{} · {} · {}/{}", case.name, member.name(), round + 1, rounds.round_count);
                    let show = |live: Live| progress.watch(&what, live);
                    if !member.has_failed {
                        match member.measure(case, round, rounds, &show) {
                            Ok(sample) => samples[index].push(sample),
                            Err(error @ BenchError::Server { .. }) => {
                                member.has_failed = true;
                                self.failures.push(format!("{}, round {}: {error}", case.name, round + 1));
                            }
                            Err(error) => return Err(error),
                        }
                    }
                    progress.finish_run();
                }
            }
            outcomes.push(self.summarise(case, samples, rounds));
        }
        Ok(outcomes)
    }

    fn summarise(&self, case: &Case, samples: Vec<Vec<Sample>>, rounds: &RoundSettings) -> CaseOutcome {
        let names = self.members.iter().map(Member::name);
        let with_samples = names.clone().map(str::to_owned).zip(samples.iter().cloned());
        let mut baseline_samples: Vec<_> =
            with_samples.filter(|(name, _)| rounds.baselines.contains(name)).collect();
        if rounds.against_the_better {
            baseline_samples = the_better(baseline_samples).into_iter().collect();
        }
        let server_outcomes =
            names.zip(samples).map(|(name, samples)| ServerOutcome::new(name, samples, &baseline_samples));
        CaseOutcome {
            name: case.name.clone(),
            settings: case.reported(),
            is_filled: rounds.fills && case.workload.fill.is_some(),
            baselines: baseline_samples.iter().map(|(name, _)| name.clone()).collect(),
            server_outcomes: server_outcomes.collect(),
        }
    }
}

impl Member {
    fn name(&self) -> &str {
        &self.server.target().name
    }

    fn measure(
        &mut self,
        case: &Case,
        round: usize,
        rounds: &RoundSettings,
        show: &dyn Fn(Live),
    ) -> Result<Sample, BenchError> {
        if let Some(script) = case.workload.own.script {
            self.load_script(script)?;
        }
        if case.workload.from_empty {
            self.empty(rounds.may_flush)?;
        } else if rounds.fills {
            if case.workload.own.uses_up.is_some() {
                self.filled.remove(&case.fill_content());
            }
            self.fill(case, show)?;
        }
        let target = self.server.target();
        if let Some(plan) = case.warmup_plan()? {
            load::run(&plan, target, &mut |live| show(Live { done: 0.0, ..live }))?;
        }
        let outcome = load::run(&case.plan(round as u64)?, target, &mut |live| show(live))?;
        // Subscribers come first, but only the publishers have a known latency.
        let flow = &outcome.flows[outcome.flows.len() - 1];
        Ok(Sample::of(round + 1, &outcome, flow))
    }

    fn load_script(&self, script: &str) -> Result<(), BenchError> {
        let target = self.server.target();
        let failed = |reason: String| BenchError::server(&target.name, format!("SCRIPT LOAD: {reason}"));
        match target.send_command(&["SCRIPT", "LOAD", script]) {
            Ok(Answer::Text(sha)) if sha == digest(script) => Ok(()),
            Ok(Answer::Error(text)) => Err(failed(text)),
            Ok(answer) => Err(failed(format!("unexpected reply {answer:?}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the keys that the case reads, unless an earlier case wrote them.
    fn fill(&mut self, case: &Case, show: &dyn Fn(Live)) -> Result<(), BenchError> {
        let Some(plan) = case.fill_plan()? else {
            return Ok(());
        };
        let content = case.fill_content();
        if self.filled.contains(&content) {
            return Ok(());
        }
        fill(&self.server, &plan, show)?;
        self.filled.insert(content);
        Ok(())
    }

    fn empty(&mut self, may_flush: bool) -> Result<(), BenchError> {
        let target = self.server.target();
        if !self.server.is_ours() && !may_flush {
            return Err(BenchError::usage(format!(
                "this workload requires an empty store: --flush allows it to delete all keys on {}",
                target.name
            )));
        }
        match target.send_command(&["FLUSHALL"]) {
            Ok(Answer::Error(text)) => Err(BenchError::server(&target.name, format!("FLUSHALL: {text}"))),
            Ok(_) => {
                self.filled.clear();
                Ok(())
            }
            Err(error) => Err(BenchError::server(&target.name, format!("FLUSHALL: {error}"))),
        }
    }
}

/// Returns the baseline with the lowest CPU time per request, under a name that all cases share.
fn the_better(baselines: Vec<(String, Vec<Sample>)>) -> Option<(String, Vec<Sample>)> {
    let names: Vec<&str> = baselines.iter().map(|(name, _)| name.as_str()).collect();
    let title =
        if names.len() > 1 { format!("the better of {}", names.join(" and ")) } else { names.concat() };
    let cost = |samples: &[Sample]| {
        let costs: Vec<f64> = samples.iter().filter_map(|sample| Measure::ServerCpu.of(sample)).collect();
        Estimate::of(&costs).map_or(f64::INFINITY, |estimate| estimate.median)
    };
    let best = baselines.into_iter().min_by(|(_, a), (_, b)| cost(a).total_cmp(&cost(b)));
    best.map(|(_, samples)| (title, samples))
}

/// Runs a fill. An error reply aborts it, because every later measurement would be wrong.
pub fn fill(server: &RunningServer, plan: &load::Plan, show: &dyn Fn(Live)) -> Result<(), BenchError> {
    let target = server.target();
    let outcome = load::run(plan, target, &mut |live| show(Live { done: 0.0, ..live }))?;
    let tally = &outcome.flows[0].tally;
    match &tally.first_error {
        None => Ok(()),
        Some(error) => Err(BenchError::server(
            &target.name,
            format!("{} of {} requests of the fill failed: {error}", tally.errors, tally.replies),
        )),
    }
}

//! Warnings for readers of the figures: error replies, missing keys, and unreached loads.

use crate::outcome::{CaseOutcome, Findings, ServerOutcome};
use crate::sample::Sample;

/// Share of the requested rate above which it counts as reached.
const RATE_REACHED_SHARE: f64 = 0.98;

/// The load generator is the limit if a load thread is busier, and the server less busy, than these shares.
const CLIENT_BUSY_SHARE: f64 = 0.97;
const SERVER_IDLE_SHARE: f64 = 0.9;

/// Number of busy CPUs above which other processes disturb the figures.
const OTHERS_BUSY_MAX: f64 = 0.15;

/// Returns the remarks on one part of a report.
#[must_use]
pub fn of(findings: &Findings) -> Vec<String> {
    match findings {
        Findings::Comparison(cases) => disturbance(cases).into_iter().chain(of_cases(cases)).collect(),
        Findings::Growth(outcomes) => {
            let failed = outcomes.iter().filter(|outcome| outcome.error_count + outcome.unanswered_count > 0);
            failed
                .map(|outcome| {
                    format!(
                        "growth on {}: {} error replies, {} reads unanswered",
                        outcome.server, outcome.error_count, outcome.unanswered_count
                    )
                })
                .collect()
        }
        Findings::Modes(outcomes) => {
            outcomes.iter().flat_map(|outcome| of_cases(std::slice::from_ref(&outcome.case))).collect()
        }
        Findings::Memory(_) | Findings::Collections(_) | Findings::Stalls(_) => Vec::new(),
    }
}

fn of_cases(cases: &[CaseOutcome]) -> Vec<String> {
    let server_outcomes =
        cases.iter().flat_map(|case| case.server_outcomes.iter().map(move |one| (case, one)));
    server_outcomes.flat_map(|(case, server_outcome)| of_server(case, server_outcome)).collect()
}

/// Returns the error replies in one part of a report.
#[must_use]
pub fn error_count(findings: &Findings) -> u64 {
    match findings {
        Findings::Comparison(cases) => {
            cases.iter().flat_map(|case| &case.server_outcomes).map(ServerOutcome::error_count).sum()
        }
        Findings::Growth(outcomes) => outcomes.iter().map(|outcome| outcome.error_count).sum(),
        Findings::Modes(outcomes) => outcomes
            .iter()
            .flat_map(|outcome| &outcome.case.server_outcomes)
            .map(ServerOutcome::error_count)
            .sum(),
        Findings::Memory(_) | Findings::Collections(_) | Findings::Stalls(_) => 0,
    }
}

/// Reports how busy other processes kept the machine, if above the limit.
fn disturbance(cases: &[CaseOutcome]) -> Option<String> {
    let server_outcomes = cases.iter().flat_map(|case| &case.server_outcomes);
    let busy: Vec<f64> = server_outcomes
        .flat_map(|server_outcome| &server_outcome.samples)
        .filter_map(|sample| sample.others_cpus_busy)
        .collect();
    let mean = mean(&busy).filter(|&mean| mean > OTHERS_BUSY_MAX)?;
    Some(format!(
        "other processes, or the host, kept {mean:.2} CPUs busy: CPU time per request is comparable; throughput \
         and latency are not reliable"
    ))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn of_server(case: &CaseOutcome, server_outcome: &ServerOutcome) -> Vec<String> {
    let what = format!("{} on {}", case.name, server_outcome.server);
    let sum = |count: fn(&Sample) -> u64| server_outcome.samples.iter().map(count).sum::<u64>();
    let mut remarks = Vec::new();
    if server_outcome.error_count() > 0 {
        let text = server_outcome
            .samples
            .iter()
            .find_map(|sample| sample.first_error.as_deref())
            .unwrap_or_default();
        remarks
            .push(format!("ERRORS: {what}: {} error replies, first: {text}", server_outcome.error_count()));
    }
    let null_count = sum(|sample| sample.null_count);
    if case.is_filled && null_count > 0 {
        remarks.push(format!("{what}: {null_count} null replies, though every key was written"));
    }
    let unanswered_count = sum(|sample| sample.unanswered_count);
    if unanswered_count > 0 {
        remarks.push(format!(
            "{what}: {unanswered_count} requests unanswered at the end; latencies include them with the time waited so far"
        ));
    }
    if let Some(rate) = case.settings.rate {
        let slow = server_outcome
            .samples
            .iter()
            .filter(|sample| sample.requests_per_second < rate * RATE_REACHED_SHARE);
        let slow_count = slow.count();
        if slow_count > 0 {
            remarks.push(format!("{what}: {rate} requests/s not reached in {slow_count} rounds"));
        }
    } else {
        remarks.extend(client_limit(case, server_outcome).map(|busy| {
            format!("{what}: the load generator was the limit (server {busy:.2} CPUs busy); throughput is a lower bound")
        }));
    }
    remarks
}

/// Returns how busy the server was, if the load generator was at its limit and the server wasn't.
fn client_limit(case: &CaseOutcome, server_outcome: &ServerOutcome) -> Option<f64> {
    let mean_of = |busy: fn(&Sample) -> Option<f64>| {
        mean(&server_outcome.samples.iter().filter_map(busy).collect::<Vec<f64>>())
    };
    let client = mean_of(|sample| sample.client_cpus_busy)?;
    let server = mean_of(|sample| sample.server_cpus_busy)?;
    let is_limit =
        client > CLIENT_BUSY_SHARE * case.settings.thread_count as f64 && server < SERVER_IDLE_SHARE;
    is_limit.then_some(server)
}

//! A report as CSV: one line per sample, with empty fields where a figure doesn't apply.

use std::io;

use serde::Serialize;

use crate::outcome::{CaseOutcome, Findings, Report};
use crate::sample::LatencySummary;

#[derive(Debug, Default, Serialize)]
struct Row<'a> {
    section: &'a str,
    case: String,
    server: &'a str,
    round: Option<usize>,
    requests: Option<u64>,
    seconds: Option<f64>,
    requests_per_second: Option<f64>,
    server_cpu_ns_per_request: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
    lag_p999_ns: Option<u64>,
    lag_max_ns: Option<u64>,
    errors: Option<u64>,
    nulls: Option<u64>,
    unanswered: Option<u64>,
    resident_size_per_key: Option<f64>,
    slow: Option<u64>,
}

/// Renders the report.
pub fn csv(report: &Report) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for section in &report.sections {
        for row in rows(&section.title, &section.findings) {
            writer.serialize(row)?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn rows<'a>(section: &'a str, findings: &'a Findings) -> Vec<Row<'a>> {
    match findings {
        Findings::Comparison(cases) => cases.iter().flat_map(|case| case_rows(section, case)).collect(),
        Findings::Modes(outcomes) => {
            outcomes.iter().flat_map(|outcome| case_rows(section, &outcome.case)).collect()
        }
        Findings::Stalls(outcomes) => outcomes
            .iter()
            .map(|outcome| {
                Row {
                    section,
                    case: outcome.name.clone(),
                    server: &outcome.server,
                    round: Some(outcome.round),
                    requests: Some(outcome.read_count),
                    slow: Some(outcome.slow_count),
                    ..Row::default()
                }
                .with_latency(Some(outcome.latency), Some(outcome.lag))
            })
            .collect(),
        Findings::Memory(outcomes) => outcomes
            .iter()
            .map(|outcome| Row {
                section,
                case: format!("{} keys, values {}", outcome.key_count, outcome.value_size),
                server: &outcome.server,
                resident_size_per_key: Some(outcome.resident_size_per_key),
                ..Row::default()
            })
            .collect(),
        Findings::Collections(outcomes) => outcomes
            .iter()
            .map(|outcome| Row {
                section,
                case: outcome.name.clone(),
                server: &outcome.server,
                requests: Some(outcome.request_count),
                resident_size_per_key: Some(outcome.growth() as f64 / outcome.request_count.max(1) as f64),
                ..Row::default()
            })
            .collect(),
        Findings::Growth(outcomes) => outcomes
            .iter()
            .map(|outcome| {
                Row {
                    section,
                    case: format!("{} keys, {} reads/s", outcome.key_count, outcome.read_rate),
                    server: &outcome.server,
                    round: Some(outcome.round),
                    seconds: Some(outcome.fill_seconds),
                    errors: Some(outcome.error_count),
                    unanswered: Some(outcome.unanswered_count),
                    ..Row::default()
                }
                .with_latency(Some(outcome.latency), Some(outcome.lag))
            })
            .collect(),
    }
}

fn case_rows<'a>(section: &'a str, case: &'a CaseOutcome) -> impl Iterator<Item = Row<'a>> {
    let samples =
        case.server_outcomes.iter().flat_map(|one| one.samples.iter().map(move |sample| (one, sample)));
    samples.map(move |(server_outcome, sample)| {
        Row {
            section,
            case: case.name.clone(),
            server: &server_outcome.server,
            round: Some(sample.round),
            requests: Some(sample.request_count),
            seconds: Some(sample.seconds),
            requests_per_second: Some(sample.requests_per_second),
            server_cpu_ns_per_request: sample.server_cpu_ns_per_request,
            errors: Some(sample.error_count),
            nulls: Some(sample.null_count),
            unanswered: Some(sample.unanswered_count),
            ..Row::default()
        }
        .with_latency(Some(sample.latency), sample.lag)
    })
}

impl Row<'_> {
    fn with_latency(self, latency: Option<LatencySummary>, lag: Option<LatencySummary>) -> Self {
        Self {
            p50_ns: latency.map(|latency| latency.p50_ns),
            p99_ns: latency.map(|latency| latency.p99_ns),
            p999_ns: latency.map(|latency| latency.p999_ns),
            max_ns: latency.map(|latency| latency.max_ns),
            lag_p999_ns: lag.map(|lag| lag.p999_ns),
            lag_max_ns: lag.map(|lag| lag.max_ns),
            ..self
        }
    }
}

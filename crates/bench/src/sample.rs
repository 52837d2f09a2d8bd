//! What one run yields, and the measures that runs are compared by.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Outcome;
use crate::load::flow::FlowOutcome;

/// Percentiles of a latency, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// Half of all requests took at most this.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    /// All.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Of these nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// One run of one case on one server.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Which round, from 1 on.
    pub round: usize,
    /// Requests answered inside the window.
    pub request_count: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Requests answered in a second.
    pub requests_per_second: f64,
    /// CPU time of the server a request, in nanoseconds; absent for servers elsewhere.
    pub server_cpu_ns_per_request: Option<f64>,
    /// CPUs that the server kept busy.
    pub server_cpus_busy: Option<f64>,
    /// CPUs that the load generator kept busy.
    pub client_cpus_busy: Option<f64>,
    /// CPUs that neither of them kept busy, but others: programs of this machine, or the host.
    pub others_cpus_busy: Option<f64>,
    /// From the sending (open loop: intended sending) to the reply.
    pub latency: LatencySummary,
    /// Open loop: from the intended to the actual sending.
    pub lag: Option<LatencySummary>,
    /// Error replies, warm-up included.
    pub error_count: u64,
    /// The first error's text.
    pub first_error: Option<String>,
    /// Null replies, warm-up included.
    pub null_count: u64,
    /// Requests given up after the window.
    pub unanswered_count: u64,
}

impl Sample {
    /// Of the flow that was measured, within a whole run.
    #[must_use]
    pub fn of(round: usize, outcome: &Outcome, flow: &FlowOutcome) -> Self {
        let seconds = outcome.window.as_secs_f64();
        let busy = |cpu: Option<Duration>| cpu.map(|cpu| cpu.as_secs_f64() / seconds);
        Self {
            round,
            request_count: outcome.replies,
            seconds,
            requests_per_second: outcome.replies as f64 / seconds,
            server_cpu_ns_per_request: outcome
                .server_cpu
                .filter(|_| outcome.replies > 0)
                .map(|cpu| cpu.as_nanos() as f64 / outcome.replies as f64),
            server_cpus_busy: busy(outcome.server_cpu),
            client_cpus_busy: busy(outcome.client_cpu),
            others_cpus_busy: busy(others_cpu(outcome)),
            latency: LatencySummary::of(&flow.latency),
            lag: (!flow.lag.is_empty()).then(|| LatencySummary::of(&flow.lag)),
            error_count: flow.tally.errors,
            first_error: flow.tally.first_error.clone(),
            null_count: flow.tally.nulls,
            unanswered_count: flow.unanswered,
        }
    }
}

fn others_cpu(outcome: &Outcome) -> Option<Duration> {
    Some(outcome.machine_cpu?.saturating_sub(outcome.server_cpu?).saturating_sub(outcome.client_cpu?))
}

/// What samples are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// CPU time of the server a request.
    ServerCpu,
    /// Requests a second.
    Throughput,
    /// Median latency.
    P50,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Longest latency.
    Max,
}

impl Measure {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::ServerCpu, Self::Throughput, Self::P50, Self::P99, Self::P999, Self::Max];

    /// Heading in reports.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ServerCpu => "CPU µs/request",
            Self::Throughput => "requests/s",
            Self::P50 => "p50 µs",
            Self::P99 => "p99 µs",
            Self::P999 => "p99.9 µs",
            Self::Max => "max µs",
        }
    }

    /// Its value in a sample: nanoseconds, or requests a second.
    #[must_use]
    pub fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::ServerCpu => sample.server_cpu_ns_per_request,
            Self::Throughput => Some(sample.requests_per_second),
            Self::P50 => Some(sample.latency.p50_ns as f64),
            Self::P99 => Some(sample.latency.p99_ns as f64),
            Self::P999 => Some(sample.latency.p999_ns as f64),
            Self::Max => Some(sample.latency.max_ns as f64),
        }
    }
}

//! Results of one run, and the measures by which runs are compared.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Outcome;
use crate::load::flow::FlowOutcome;

/// Latency percentiles, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// 50th percentile.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Summarises a histogram of nanoseconds.
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
    /// Round, from 1.
    pub round: usize,
    /// Requests answered inside the window.
    pub request_count: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Requests answered per second.
    pub requests_per_second: f64,
    /// CPU time of the server per request, in nanoseconds; absent for remote servers.
    pub server_cpu_ns_per_request: Option<f64>,
    /// CPUs that the server kept busy.
    pub server_cpus_busy: Option<f64>,
    /// CPUs that the load generator kept busy.
    pub client_cpus_busy: Option<f64>,
    /// CPUs kept busy by other processes of this machine, or by the host.
    pub others_cpus_busy: Option<f64>,
    /// Latency from the send time (open loop: intended send time) to the reply.
    pub latency: LatencySummary,
    /// Open loop: delay from the intended to the actual send time.
    pub lag: Option<LatencySummary>,
    /// Error replies, warm-up included.
    pub error_count: u64,
    /// Text of the first error.
    pub first_error: Option<String>,
    /// Null replies, warm-up included.
    pub null_count: u64,
    /// Requests without a reply at the end.
    pub unanswered_count: u64,
}

impl Sample {
    /// Builds the sample from `flow`, the measured flow of `outcome`.
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

/// Measures by which samples are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// CPU time of the server per request.
    ServerCpu,
    /// Requests per second.
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
    /// All measures, in the order of reports.
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

    /// Returns the value of this measure in a sample: nanoseconds, or requests per second.
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

//! Records of the server's activity: counters, rates, latency events, command logs and the lines of `MONITOR`.
//!
//! Each worker writes its own counters; readers add them up. Never touches a connection, a worker or the keyspace.

pub mod command_log;
pub mod denials;
pub mod error_statistics;
pub mod latency;
pub mod metrics;
pub mod monitor;
pub mod secrets;
pub mod statistics;

use command_log::CommandLogs;
use denials::Denials;
use error_statistics::ErrorStatistics;
use latency::LatencyMonitor;
use metrics::Metrics;
use statistics::Statistics;

/// The records of the server's activity.
#[derive(Default)]
pub struct Monitoring {
    /// The workers' counters.
    pub statistics: Statistics,
    /// Error replies, by code.
    pub errors: ErrorStatistics,
    /// Slow and large commands.
    pub command_logs: CommandLogs,
    /// Denied requests.
    pub denials: Denials,
    /// Latency events.
    pub latency: LatencyMonitor,
    /// Rates.
    pub metrics: Metrics,
}

impl Monitoring {
    /// Resets the counters and rates.
    pub fn reset(&self) {
        self.statistics.reset();
        self.errors.reset();
        self.metrics.reset();
    }
}

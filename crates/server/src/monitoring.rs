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

use commands::error::CommandError;
use commands::table::CommandId;

use command_log::CommandLogs;
use denials::Denials;
use error_statistics::ErrorStatistics;
use latency::LatencyMonitor;
use metrics::Metrics;
use statistics::{Statistics, WorkerStatistics};

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
    /// Counts the error of a command that ran.
    #[cold]
    pub fn count_failed(&self, statistics: &WorkerStatistics, id: CommandId, error: &CommandError) {
        statistics.command(id).failed.add(1);
        self.count_error(statistics, error.code());
    }

    /// Counts the error of a request that was not run.
    #[cold]
    pub fn count_rejected(&self, statistics: &WorkerStatistics, id: CommandId, code: &str) {
        statistics.command(id).rejected.add(1);
        self.count_error(statistics, code);
    }

    /// Counts an error of no command, by its code.
    #[cold]
    pub fn count_error(&self, statistics: &WorkerStatistics, code: &str) {
        statistics.errors.add(1);
        self.errors.count(code);
    }

    /// Resets the counters and rates.
    pub fn reset(&self) {
        self.statistics.reset();
        self.errors.reset();
        self.metrics.reset();
    }
}

//! Statistics, command logs and latencies of the server, as commands read and extend them.

use config::Config;

use crate::error::CommandError;
use crate::session::{Queued, Session};

/// The report of the server's state, and its statistics.
pub trait ServerReport {
    /// `INFO` with these section names (none: the default ones).
    fn info(&self, sections: &[&[u8]]) -> String;
    /// `CONFIG RESETSTAT`
    fn reset_stats(&self);
    /// Called after a command of a transaction has run: it is counted and monitored like a standalone
    /// command.
    fn record_queued_call(
        &self,
        session: &Session,
        config: &Config,
        queued: Queued<'_>,
        cost: QueuedCost,
        error: Option<&CommandError>,
    );
    /// Called after a command of a transaction was denied: its error is counted.
    fn record_queued_denial(&self, error: &CommandError);
    /// Adds or removes a connection that receives `MONITOR`.
    fn monitor(&self, session: &Session, enabled: bool);
}

/// The command logs: slow and large commands.
pub trait CommandLogs {
    /// Returns at most `count` entries of a command log, newest first.
    fn command_log(&self, log: CommandLog, count: usize) -> Vec<LoggedCommand>;
    /// Returns the number of entries of a command log.
    fn command_log_len(&self, log: CommandLog) -> usize;
    /// Deletes all entries of a command log.
    fn command_log_reset(&self, log: CommandLog);
}

/// The latency monitor.
pub trait LatencyEvents {
    /// Returns the latest, highest and recorded latencies by event name, sorted by name.
    fn latency_events(&self) -> Vec<LatencyEvent>;
    /// Deletes the samples of the given events (none: of all). Returns the number of events deleted.
    fn latency_reset(&self, events: &[&[u8]]) -> usize;
    /// Adds a latency sample in milliseconds.
    fn latency_add(&self, event: &'static str, ms: u64);
    /// Returns the calls and cumulative latency histogram by full command name.
    fn latency_histograms(&self) -> Vec<CommandHistogram>;
}

/// The cost of a command in a transaction.
#[derive(Clone, Copy, Debug)]
pub struct QueuedCost {
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Size of the reply in bytes.
    pub reply_size: usize,
}

/// The three command logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CommandLog {
    Slow,
    LargeRequest,
    LargeReply,
}

/// An entry of a command log.
#[derive(Clone, Debug)]
pub struct LoggedCommand {
    /// Ascending.
    pub id: u64,
    /// When it ran, Unix time in seconds.
    pub at_seconds: i64,
    /// Microseconds or bytes, depending on the log.
    pub value: u64,
    /// Arguments, shortened as Redis does.
    pub args: Vec<Vec<u8>>,
    /// Peer address.
    pub peer: String,
    /// Connection name.
    pub name: Vec<u8>,
}

/// The history of a latency event.
#[derive(Clone, Debug)]
pub struct LatencyEvent {
    /// Name, e.g. `command`.
    pub name: &'static str,
    /// Unix time in seconds and milliseconds of each sample, oldest first, at most 160.
    pub samples: Vec<(u32, u64)>,
    /// Highest of all samples since the reset, in milliseconds.
    pub max_ms: u64,
    /// Sum over all samples, in milliseconds.
    pub sum_ms: u64,
    /// Number of all samples.
    pub count: u64,
}

/// The latency histogram of a command.
#[derive(Clone, Debug)]
pub struct CommandHistogram {
    /// Full name, e.g. `config|get`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Upper bound in microseconds (powers of two) and cumulative count, without empty buckets at the ends.
    pub buckets_us: Vec<(u64, u64)>,
}

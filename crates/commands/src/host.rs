//! What commands need from the server: the only interface from `commands` upwards.
//!
//! The server implements [`Host`]; tests implement it minimally. No method blocks or acquires a latch:
//! counters and lists are read from what each worker publishes.

use std::sync::Arc;
use std::time::Duration;

use base::Millis;
use config::Config;
use wire::reply::ReplyBuffer;

pub use crate::connection::client::Criteria;
use crate::error::{CommandError, up_to_nul};
use crate::session::{Queued, Session};
use crate::subscriptions::SubscriptionKind;
use crate::tracking::Redirection;

/// The server, as seen by commands.
pub trait Host {
    /// Returns the current Unix time in microseconds (not the cached time of the batch).
    fn unix_micros(&self) -> i64;
    /// Returns nanoseconds of a monotonic clock, for durations.
    fn uptime_ns(&self) -> u64;
    /// Returns the Unix time when the server started.
    fn started_at(&self) -> Millis;

    /// `INFO` with these section names (none: the default ones).
    fn info(&self, sections: &[&[u8]]) -> String;

    /// `CONFIG GET`: name and value of each directive that matches any pattern.
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)>;
    /// `CONFIG SET` of several directives, names and values alternating: atomic.
    fn config_set(&self, arguments: &[&[u8]], own: &Session) -> Result<(), CommandError>;
    /// `CONFIG REWRITE`; `everything` includes directives at their defaults.
    fn config_rewrite(&self, everything: bool) -> Result<(), CommandError>;
    /// `CONFIG RESETSTAT`
    fn reset_stats(&self);

    /// `CLIENT LIST`: one line, with line end, for each connection that matches the filter, by ascending ID.
    fn client_list(&self, filter: &ClientFilter, own: &Session) -> Vec<u8>;
    /// `CLIENT INFO`: the line of one connection.
    fn client_info(&self, session: &Session) -> String;
    /// Requests that the workers close the connections that match the filter. Returns their number, and
    /// whether the calling session is one of them.
    fn client_kill(&self, filter: &ClientFilter, own: &Session) -> (u64, bool);
    /// `CLIENT UNBLOCK`: returns whether the connection was blocked.
    fn client_unblock(&self, id: u64, with_error: bool) -> bool;
    /// `CLIENT PAUSE`
    fn client_pause(&self, time: Duration, writes_only: bool);
    /// `CLIENT UNPAUSE`
    fn client_unpause(&self);
    /// Whether expired keys stay because writes are paused.
    fn is_expiry_paused(&self) -> bool;

    /// Returns at most `count` entries of a command log, newest first.
    fn command_log(&self, log: CommandLog, count: usize) -> Vec<LoggedCommand>;
    /// Returns the number of entries of a command log.
    fn command_log_len(&self, log: CommandLog) -> usize;
    /// Deletes all entries of a command log.
    fn command_log_reset(&self, log: CommandLog);

    /// Returns the latest, highest and recorded latencies by event name, sorted by name.
    fn latency_events(&self) -> Vec<LatencyEvent>;
    /// Deletes the samples of the given events (none: of all). Returns the number of events deleted.
    fn latency_reset(&self, events: &[&[u8]]) -> usize;
    /// Adds a latency sample in milliseconds.
    fn latency_add(&self, event: &'static str, ms: u64);
    /// Returns the calls and cumulative latency histogram by full command name.
    fn latency_histograms(&self) -> Vec<CommandHistogram>;

    /// `MEMORY STATS` as name and value.
    fn memory_stats(&self) -> Vec<(String, MemoryStat)>;
    /// Returns the memory in use as `used_memory` reports it, in bytes.
    fn used_memory(&self) -> usize;
    /// Returns the statistics of the allocators, as text.
    fn allocator_report(&self) -> String;
    /// Releases unused memory to the operating system.
    fn memory_purge(&self);
    /// Fills `bytes` with cryptographically secure random numbers.
    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError>;

    /// Called after a command of a transaction has run: it is counted and monitored like a standalone
    /// command.
    fn ran_queued(
        &self,
        session: &Session,
        config: &Config,
        queued: Queued<'_>,
        cost: QueuedCost,
        error: Option<&CommandError>,
    );
    /// Runs a function that frees memory in the background; `key_count` is the number of keys it frees.
    fn free_later(&self, key_count: u64, free: Box<dyn FnOnce() + Send>);

    /// `SHUTDOWN`: `Ok` once it has started.
    fn shutdown(&self, options: ShutdownOptions) -> Result<(), CommandError>;
    /// `SHUTDOWN ABORT`
    fn shutdown_abort(&self) -> Result<(), CommandError>;

    /// Turns the active expiry cycle on or off (`DEBUG SET-ACTIVE-EXPIRE`).
    fn set_active_expire(&self, enabled: bool);
    /// Suspends the periodic tasks of all workers (`DEBUG PAUSE-CRON`).
    fn pause_cron(&self, paused: bool);
    /// Changes how reply buffers are reported (`DEBUG REPLYBUFFER`, `DEBUG CLIENT-ENFORCE-REPLY-LIST`).
    fn set_reply_buffers(&self, setting: ReplyBufferSetting);
    /// Blocks this worker for `micros` microseconds (`DEBUG SLEEP`).
    fn sleep(&self, micros: u64);
    /// Writes a line to the log (`DEBUG LOG`).
    fn log(&self, text: &str);
    /// Crashes the process deliberately, with a crash report (`DEBUG PANIC`, `DEBUG ASSERT`, `DEBUG
    /// SEGFAULT`).
    fn crash(&self, how: Crash) -> !;
    /// Adds or removes a connection that receives `MONITOR`.
    fn monitor(&self, session: &Session, enabled: bool);
    /// Subscribes the session to a name. It must not be subscribed yet.
    fn listen(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]);
    /// Unsubscribes the session from a name. Messages published before and not delivered yet are written to
    /// `out` first.
    fn unlisten(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8], out: &mut ReplyBuffer<'_>);
    /// Writes the messages and invalidations published so far that are not delivered to the session yet to
    /// `out`.
    fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>);
    /// Publishes a message to the subscribers of a channel and, unless it is a shard channel, of matching
    /// patterns. Returns the number of deliveries: a session with several matching subscriptions counts for
    /// each.
    fn publish_message(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> u64;
    /// Returns the names that have subscribers.
    fn names(&self, kind: SubscriptionKind) -> Vec<Arc<[u8]>>;
    /// Returns the number of names that have subscribers.
    fn name_count(&self, kind: SubscriptionKind) -> usize;
    /// Returns the number of connections subscribed to this name.
    fn listener_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64;
    /// Whether a connection with this ID exists.
    fn client_exists(&self, id: u64) -> bool;
    /// Sets or clears the redirection of a connection's invalidations. A new redirection is set before pending
    /// invalidations are delivered, and cleared after the session has changed, so that none is lost.
    fn redirect(&self, session: &Session, redirection: Option<Redirection>);
    /// Invalidates the client-side caches of all tracking connections.
    fn invalidate_all(&self);
    /// Called after a handler changed session state that other workers may read.
    fn publish(&self, session: &Session);
}

/// Settings of reply buffers, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBufferSetting {
    /// Milliseconds for which the largest reply is remembered; negative: forever. `None`: the default.
    PeakReset(Option<i64>),
    /// Whether buffer sizes follow the replies.
    Resizing(bool),
    /// Whether each reply counts as a whole output block, however short it is.
    CountsBlocks(bool),
}

/// A kind of deliberate crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A panic.
    Panic,
    /// An access to unmapped memory.
    Segfault,
}

/// The cost of a command in a transaction.
#[derive(Clone, Copy, Debug)]
pub struct QueuedCost {
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Size of the reply in bytes.
    pub reply_size: usize,
}

/// A filter of `CLIENT LIST` or `CLIENT KILL`: matches connections that meet all of `keep` and none of
/// `drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ClientFilter {
    pub keep: Criteria,
    pub drop: Criteria,
    pub idle_seconds_min: Option<u64>,
    pub age_seconds_min: Option<u64>,
    /// Excludes the calling connection.
    pub skip_id: Option<u64>,
}

/// The properties of a connection that filters use.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ClientFacts {
    pub id: u64,
    pub kind: ClientKind,
    pub peer: String,
    pub local: String,
    pub user: String,
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
    pub db: u16,
    pub flags: String,
    pub capa: String,
    pub idle_seconds: u64,
    pub age_seconds: u64,
}

impl ClientFacts {
    /// Whether the peer has this IP address; unix socket connections have none.
    #[must_use]
    pub fn has_ip(&self, ip: &[u8]) -> bool {
        let Some((host, port)) = self.peer.rsplit_once(':') else { return false };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        host.as_bytes() == ip && port != "0"
    }
}

/// Connection classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClientKind {
    Normal,
    Replica,
    Pubsub,
    Primary,
}

impl ClientKind {
    /// Returns the class with this name, in any of its spellings.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match up_to_nul(name).to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"slave" | b"replica" => Some(Self::Replica),
            b"pubsub" => Some(Self::Pubsub),
            b"master" | b"primary" => Some(Self::Primary),
            _ => None,
        }
    }
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

/// A value of `MEMORY STATS`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum MemoryStat {
    Integer(i64),
    Double(f64),
    Text(String),
    Map(Vec<(String, MemoryStat)>),
}

/// Options of `SHUTDOWN`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct ShutdownOptions {
    pub save: Option<bool>,
    pub now: bool,
    pub force: bool,
    pub safe: bool,
    pub failover: bool,
}

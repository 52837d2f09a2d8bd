//! What commands need from the server around them: the one door from `commands` upwards.
//!
//! The server implements [`Host`]; tests implement it with the little they need. No method blocks, and none takes
//! a latch: counters and lists are read from what each thread publishes.

use std::sync::Arc;
use std::time::Duration;

use base::Millis;
use config::Config;
use wire::reply::ReplyBuffer;

pub use crate::connection::client::Criteria;
use crate::error::{CommandError, up_to_nul};
use crate::session::{Queued, Session};
use crate::subscriptions::SubscriptionKind;

/// The server, as commands see it.
pub trait Host {
    /// Unix time in microseconds, read now (not the cached time of the batch).
    fn unix_micros(&self) -> i64;
    /// Nanoseconds of a clock that is never set back, for durations.
    fn uptime_ns(&self) -> u64;
    /// When the server started, Unix time.
    fn started_at(&self) -> Millis;

    /// `INFO` with these section names (none: the default ones).
    fn info(&self, sections: &[&[u8]]) -> String;

    /// `CONFIG GET`: name and value of each directive that matches any pattern.
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)>;
    /// `CONFIG SET` of several directives, names and values in turn: all or none.
    fn config_set(&self, arguments: &[&[u8]], own: &Session) -> Result<(), CommandError>;
    /// `CONFIG REWRITE`; with `everything` also what is at its default.
    fn config_rewrite(&self, everything: bool) -> Result<(), CommandError>;
    /// `CONFIG RESETSTAT`
    fn reset_stats(&self);

    /// `CLIENT LIST`: a line, with its end, for each connection that the filter keeps, ascending by id.
    fn client_list(&self, filter: &ClientFilter, own: &Session) -> Vec<u8>;
    /// The line of one connection; `CLIENT INFO`.
    fn client_info(&self, session: &Session) -> String;
    /// Asks the threads to close the connections that the filter keeps. Returns their number, and whether the asking
    /// session is one of them.
    fn client_kill(&self, filter: &ClientFilter, own: &Session) -> (u64, bool);
    /// `CLIENT UNBLOCK`: whether it was blocked.
    fn client_unblock(&self, id: u64, with_error: bool) -> bool;
    /// `CLIENT PAUSE`
    fn client_pause(&self, time: Duration, writes_only: bool);
    /// `CLIENT UNPAUSE`
    fn client_unpause(&self);
    /// Whether keys stay when their time is over, because writes are paused.
    fn is_expiry_paused(&self) -> bool;

    /// Slow or large commands, newest first; at most `count`.
    fn command_log(&self, log: CommandLog, count: usize) -> Vec<LoggedCommand>;
    /// Number of entries.
    fn command_log_len(&self, log: CommandLog) -> usize;
    /// Forgets them.
    fn command_log_reset(&self, log: CommandLog);

    /// Latest, highest and recorded latencies by event name, sorted by name.
    fn latency_events(&self) -> Vec<LatencyEvent>;
    /// Forgets the named events (none: all). Returns how many there were.
    fn latency_reset(&self, events: &[&[u8]]) -> usize;
    /// Adds a sample in milliseconds.
    fn latency_add(&self, event: &'static str, ms: u64);
    /// Calls and cumulative latency histogram by full command name.
    fn latency_histograms(&self) -> Vec<CommandHistogram>;

    /// `MEMORY STATS` as name and value.
    fn memory_stats(&self) -> Vec<(String, MemoryStat)>;
    /// Memory in use as `used_memory` reports it, in bytes.
    fn used_memory(&self) -> usize;
    /// The allocators' own figures, as text.
    fn allocator_report(&self) -> String;
    /// Gives free memory back to the operating system.
    fn memory_purge(&self);
    /// Fills `bytes` with random numbers that nobody can foretell.
    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError>;

    /// A command of a transaction has run: it is counted and shown as if it had come by itself.
    fn ran_queued(
        &self,
        session: &Session,
        config: &Config,
        queued: Queued<'_>,
        cost: QueuedCost,
        error: Option<&CommandError>,
    );
    /// Runs something that frees memory, where it disturbs nobody; `key_count` keys are in it.
    fn free_later(&self, key_count: u64, free: Box<dyn FnOnce() + Send>);

    /// `SHUTDOWN`: `Ok` when it has begun.
    fn shutdown(&self, options: ShutdownOptions) -> Result<(), CommandError>;
    /// `SHUTDOWN ABORT`
    fn shutdown_abort(&self) -> Result<(), CommandError>;

    /// Makes the active expiry cycle run or not (`DEBUG SET-ACTIVE-EXPIRE`).
    fn set_active_expire(&self, enabled: bool);
    /// Suspends the periodic work of all threads (`DEBUG PAUSE-CRON`).
    fn pause_cron(&self, paused: bool);
    /// Changes how reply buffers are shown (`DEBUG REPLYBUFFER`, `DEBUG CLIENT-ENFORCE-REPLY-LIST`).
    fn set_reply_buffers(&self, setting: ReplyBufferSetting);
    /// Stops this thread for so long (`DEBUG SLEEP`).
    fn sleep(&self, micros: u64);
    /// Writes a line to the log (`DEBUG LOG`).
    fn log(&self, text: &str);
    /// Ends the process by a deliberate fault, with a crash report (`DEBUG PANIC`, `DEBUG ASSERT`, `DEBUG SEGFAULT`).
    fn crash(&self, how: Crash) -> !;
    /// Number of connections that receive `MONITOR`.
    fn monitor(&self, session: &Session, enabled: bool);
    /// The session listens to a name from now on, which it did not before.
    fn listen(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]);
    /// The session listens to this name no longer. What was published until now, and has not reached it yet, is written
    /// to `out` first.
    fn unlisten(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8], out: &mut ReplyBuffer<'_>);
    /// Writes to `out` what was published or became invalid until now and has not reached the session yet.
    fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>);
    /// Sends a message to all who listen to a channel, by its name or, if it is none of a shard, by a pattern. Returns
    /// their number: somebody who listens in several ways counts, and gets it, several times.
    fn publish_message(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> u64;
    /// The names that somebody listens to.
    fn names(&self, kind: SubscriptionKind) -> Vec<Arc<[u8]>>;
    /// Number of names that somebody listens to.
    fn name_count(&self, kind: SubscriptionKind) -> usize;
    /// Number of connections that listen to this name.
    fn listener_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64;
    /// Whether there is a connection with this number.
    fn client_exists(&self, id: u64) -> bool;
    /// Tells all who keep what they have read that nothing of it is valid any more.
    fn invalidate_all(&self);
    /// Called after a handler changed what other threads may read of this session.
    fn publish(&self, session: &Session);
}

/// What tests may want to be different about reply buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBufferSetting {
    /// For how many milliseconds the largest reply is remembered; negative: for ever. `None`: as without it.
    PeakReset(Option<i64>),
    /// Whether their sizes follow the replies.
    Resizing(bool),
    /// Whether each reply counts as a whole block of output, however short it is.
    CountsBlocks(bool),
}

/// A fault to end by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A panic.
    Panic,
    /// Memory that is not there.
    Segfault,
}

/// What a command of a transaction cost.
#[derive(Clone, Copy, Debug)]
pub struct QueuedCost {
    /// Its duration in nanoseconds.
    pub ns: u64,
    /// The size of its reply in bytes.
    pub reply_size: usize,
}

/// Which connections `CLIENT LIST` or `CLIENT KILL` means: those that meet all of `keep` and none of `drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ClientFilter {
    pub keep: Criteria,
    pub drop: Criteria,
    pub idle_seconds_min: Option<u64>,
    pub age_seconds_min: Option<u64>,
    /// Leaves out the asking connection.
    pub skip_id: Option<u64>,
}

/// What is known of a connection to choose it by.
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
    /// Whether its peer address is of this IP address; those of unix sockets have none.
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
    /// The class with this name, in any of its spellings.
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

/// Which of the three command logs.
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
    /// Microseconds or bytes, by the log.
    pub value: u64,
    /// Arguments, shortened as Redis does.
    pub args: Vec<Vec<u8>>,
    /// Peer address.
    pub peer: String,
    /// Connection name.
    pub name: Vec<u8>,
}

/// A latency event's history.
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

/// A command's latency histogram.
#[derive(Clone, Debug)]
pub struct CommandHistogram {
    /// Full name, e.g. `config|get`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Upper bound in microseconds (powers of two) and cumulative count, the empty ends left out.
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

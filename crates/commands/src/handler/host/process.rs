//! The process: its clocks and secrets, its configuration, its end, and its changes by `DEBUG`.

use base::{Lsn, Millis};

use crate::error::CommandError;
use crate::session::Session;

/// The server's clocks.
pub trait Clock {
    /// Returns the current Unix time in microseconds (not the cached time of the batch).
    fn unix_micros(&self) -> i64;
    /// Returns nanoseconds of a monotonic clock, for durations.
    fn uptime_ns(&self) -> u64;
    /// Returns the Unix time when the server started.
    fn started_at(&self) -> Millis;
}

/// Random numbers that cannot be predicted.
pub trait Secrets {
    /// Fills `bytes` with cryptographically secure random numbers.
    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError>;
}

/// Reading and changing the configuration.
pub trait ConfigAdmin {
    /// `CONFIG GET`: name and value of each directive that matches any pattern.
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)>;
    /// `CONFIG SET` of several directives, names and values alternating: atomic. Returns the LSN up to which the log must be
    /// durable before the reply; 0: the reply does not wait.
    fn config_set(&self, arguments: &[&[u8]], own: &Session) -> Result<Lsn, CommandError>;
    /// `CONFIG REWRITE`; `everything` includes directives at their defaults.
    fn config_rewrite(&self, everything: bool) -> Result<(), CommandError>;
}

/// The end of the process.
pub trait Lifecycle {
    /// `SHUTDOWN`: `Ok` once the shutdown has started. Returns whether the session gets a reply if it fails later.
    fn shutdown(&self, options: ShutdownOptions, session: &Session) -> Result<bool, CommandError>;
    /// `SHUTDOWN ABORT`
    fn shutdown_abort(&self) -> Result<(), CommandError>;
}

/// The state that `DEBUG` changes.
pub trait Debugging {
    /// Turns the active expiry cycle on or off (`DEBUG SET-ACTIVE-EXPIRE`).
    fn set_active_expire(&self, enabled: bool);
    /// Suspends the periodic tasks of all workers (`DEBUG PAUSE-CRON`).
    fn pause_cron(&self, paused: bool);
    /// Changes how reply buffers are reported (`DEBUG REPLYBUFFER`, `DEBUG CLIENT-ENFORCE-REPLY-LIST`).
    fn set_reply_buffers(&self, setting: ReplyBufferSetting);
    /// Blocks this worker for `micros` microseconds (`DEBUG SLEEP`).
    fn sleep(&self, micros: u64);
    /// Blocks each other worker from the end of its turn on, until `micros` microseconds from now.
    fn stall_others(&self, micros: u64);
    /// Rejects commands as during a load from now on. The calling connection must then wait for
    /// [`BlockReason::Reload`](crate::session::BlockReason::Reload), which begins the load.
    fn prepare_reload(&self, reload: Reload) -> Result<(), CommandError>;
    /// Sets whether the checksums of dumped values are validated (`DEBUG SET-SKIP-CHECKSUM-VALIDATION`).
    fn set_checksum_validation(&self, enabled: bool);
    /// Whether the checksums of dumped values are validated.
    fn validates_checksums(&self) -> bool;
    /// Sets whether scripts may run every command (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    fn set_scripts_unrestricted(&self, enabled: bool);
    /// Delays each write of the append-only file by `micros` microseconds (`DEBUG AOF-FLUSH-SLEEP`).
    fn delay_append_only(&self, micros: u64);
    /// Sets whether the process stops itself at a point of a full synchronisation (`DEBUG PAUSE-AFTER-FORK`, `DEBUG
    /// REPL-PAUSE`).
    fn stop_at(&self, point: SyncPoint, enabled: bool);
    /// Sets for how many seconds the stream of a replica is kept whose snapshot is sent, until it asks for it (`DEBUG
    /// DELAY-RDB-CLIENT-FREE-SECONDS`).
    fn set_stream_grace(&self, seconds: i64);
    /// Changes the replication ID (`DEBUG CHANGE-REPL-ID`).
    fn change_replication_id(&self);
    /// Writes a line to the server log (`DEBUG LOG`).
    fn write_server_log(&self, text: &str);
    /// Crashes the process deliberately, with a crash report (`DEBUG PANIC`, `DEBUG ASSERT`, `DEBUG
    /// SEGFAULT`).
    fn crash(&self, how: Crash) -> !;
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

/// The source of data that is loaded while the server runs, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The dump file (`DEBUG RELOAD`).
    Dump {
        /// Whether the current data is first saved to this file.
        saves: bool,
        /// Whether the current data is deleted before the load.
        flushes: bool,
        /// Whether keys of the file replace existing keys.
        replaces: bool,
    },
    /// The append-only files (`DEBUG LOADAOF`).
    AppendOnly,
}

/// A point of a full synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPoint {
    /// A primary has begun a snapshot for replicas.
    Snapshot,
    /// A replica is about to request the stream, whose snapshot it receives on another connection (Valkey).
    StreamRequest,
    /// A replica is about to request the snapshot, whose stream it gets on another connection (Redis).
    ChannelRequest,
    /// A replica has applied a part of the stream that it has kept while it loaded the snapshot.
    KeptStream,
}

/// A kind of deliberate crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A panic.
    Panic,
    /// An access to unmapped memory.
    Segfault,
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

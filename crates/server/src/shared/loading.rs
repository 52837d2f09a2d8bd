//! The state of loading: the progress, and the results of the last load.
//!
//! Written by the thread that loads, read by all. Whether a load is under way is [`GlobalFlags::LOADING`], which is
//! tested before every request: commands without the flag `LOADING` are refused meanwhile, and nothing is expired, evicted
//! or moved. During a load beside the present data, [`GlobalFlags::ASYNC_LOADING`], only commands with the flag
//! `NO_ASYNC_LOADING` are refused.

use std::sync::Arc;

use base::DbIndex;
use commands::error::CommandError;
use commands::host::Reload;
use keyspace::Waiter;
use os::clock;
use replication::ReplicationId;
use sync::OnceLock;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::Shared;
use super::modes::GlobalFlags;

/// The progress of the load under way, and the results of the last one.
#[derive(Default)]
pub struct Loading {
    /// When it began, Unix time in seconds.
    started_at: AtomicI64,
    /// The size of all its files, in bytes.
    total_bytes: AtomicU64,
    /// The bytes that are loaded.
    loaded_bytes: AtomicU64,
    /// The memory that the writer of the file used, if the file has it.
    pub written_memory: AtomicU64,
    /// Keys of RDB files that were loaded.
    pub loaded_key_count: AtomicU64,
    /// Keys of RDB files that were already expired, and skipped.
    pub expired_key_count: AtomicU64,
    /// Keys of RDB files without elements, which were skipped.
    pub empty_key_count: AtomicU64,
    /// Whether the load at the start has failed.
    has_failed: AtomicBool,
    /// The database that the replication stream of the last RDB file has selected; -1: it is not named.
    pub stream_db: AtomicI64,
    /// The position of the data that were loaded at the start.
    pub position: OnceLock<StreamPosition>,
    /// The number of error replies to replayed requests.
    pub unexpected_error_count: AtomicU64,
    above: OnceLock<(StartReplay, BeginReload)>,
}

/// The position of data in a replication stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The id of the data.
    pub id: ReplicationId,
    /// The number of bytes of the stream that they include.
    pub offset: u64,
    /// The database that the stream has selected.
    pub db: DbIndex,
}

impl StreamPosition {
    /// The properties of a snapshot that has these data, with their names.
    #[must_use]
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        vec![
            ("repl-stream-db", self.db.0.to_string()),
            ("repl-id", self.id.to_string()),
            ("repl-offset", self.offset.to_string()),
        ]
    }
}

/// Runs the requests of an append-only file.
pub trait Replay {
    /// Runs requests that are complete and whose commands exist. An incomplete transaction is continued by the
    /// next requests.
    fn run(&mut self, requests: &[u8]);
    /// The time of the requests from now on, Unix time in milliseconds.
    fn set_time(&mut self, now: i64);
}

/// Makes a replay on the calling thread. Implemented by a higher layer.
pub type StartReplay = fn(&'static Shared) -> Box<dyn Replay>;

/// Begins to load data while the server runs; the waiter is served at the end. Implemented by a higher layer.
pub type BeginReload = fn(&'static Shared, Reload, Arc<Waiter>);

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// When it began, Unix time in seconds.
    pub started_at: i64,
    /// The size of all its files, in bytes.
    pub total_bytes: u64,
    /// The bytes that are loaded.
    pub loaded_bytes: u64,
    /// The part that is loaded, in hundredths.
    pub percent: f64,
    /// The expected time to its end, in seconds.
    pub left_seconds: i64,
}

impl Loading {
    /// Adds to the bytes that are loaded: their values are decoded, or their requests passed to the replay.
    pub fn note_loaded(&self, size: u64) {
        self.loaded_bytes.fetch_add(size, Ordering::Relaxed);
    }

    /// The bytes that are loaded.
    #[must_use]
    pub fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes.load(Ordering::Relaxed)
    }

    /// The progress of the load at a Unix time in seconds.
    #[must_use]
    pub fn progress(&self, now: i64) -> Progress {
        let started_at = self.started_at.load(Ordering::Relaxed);
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        let loaded_bytes = self.loaded_bytes();
        let percent = if total_bytes == 0 { 0.0 } else { loaded_bytes as f64 / total_bytes as f64 * 100.0 };
        let passed = (now - started_at).max(0);
        // As in Redis: a second, while there is no progress to estimate from.
        let left_seconds = match passed {
            0 => 1,
            _ => {
                (passed as f64 * total_bytes.saturating_sub(loaded_bytes) as f64 / (loaded_bytes + 1) as f64)
                    as i64
            }
        };
        Progress { started_at, total_bytes, loaded_bytes, percent, left_seconds }
    }

    /// Whether the load at the start has failed, so that the process ends with an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Sets the functions of higher layers.
    pub fn with(&self, start_replay: StartReplay, begin_reload: BeginReload) {
        self.above.get_or_init(|| (start_replay, begin_reload));
    }

    /// Makes a replay on the calling thread; at most one at a time.
    #[must_use]
    pub fn start_replay(&self, shared: &'static Shared) -> Box<dyn Replay> {
        (self.above.get().expect("set during start-up").0)(shared)
    }

    /// Begins to refuse commands as during a load.
    ///
    /// # Errors
    /// A load is under way.
    pub fn prepare_reload(flags: &GlobalFlags) -> Result<(), CommandError> {
        match flags.raise(GlobalFlags::LOADING, GlobalFlags::ANY_LOADING) {
            true => Ok(()),
            false => Err(CommandError::new("ERR The data are being loaded already")),
        }
    }

    /// Begins a load beside the data that requests use. Returns whether none was under way.
    #[must_use]
    pub fn prepare_beside(flags: &GlobalFlags) -> bool {
        flags.raise(GlobalFlags::ASYNC_LOADING, GlobalFlags::ANY_LOADING)
    }

    /// Begins a load, after [`Self::prepare_reload`].
    pub fn begin_reload(&self, shared: &'static Shared, reload: Reload, waiter: Arc<Waiter>) {
        (self.above.get().expect("set during start-up").1)(shared, reload, waiter);
    }

    /// Begins a load of files of this size; 0: it is not known.
    pub fn begin(&self, flags: &GlobalFlags, total_bytes: u64) {
        self.started_at.store(clock::unix_millis() / 1000, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        for counter in [
            &self.loaded_bytes,
            &self.written_memory,
            &self.loaded_key_count,
            &self.expired_key_count,
            &self.empty_key_count,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        if !flags.is_set(GlobalFlags::ASYNC_LOADING) {
            flags.set(GlobalFlags::LOADING, true);
        }
    }

    /// Ends a load: all commands are served again.
    pub fn end(flags: &GlobalFlags) {
        flags.set(GlobalFlags::ANY_LOADING, false);
    }

    /// Notes that the data can't be loaded. The caller ends the server.
    pub fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_extrapolated() {
        let loading = Loading::default();
        loading.started_at.store(100, Ordering::Relaxed);
        loading.total_bytes.store(1000, Ordering::Relaxed);
        assert_eq!(loading.progress(100).left_seconds, 1);
        loading.note_loaded(249);
        let progress = loading.progress(110);
        assert_eq!((progress.loaded_bytes, progress.total_bytes, progress.left_seconds), (249, 1000, 30));
        assert!((progress.percent - 24.9).abs() < 1e-9);
    }
}

//! What the thread that writes the append-only file asks of the server.

use std::path::PathBuf;
use std::sync::Arc;

use base::Lsn;
use config::{Appendfsync, Config};
use os::clock::Uptime;
use rdb::Limits;
use sync::atomic::Ordering;
use sync::write_log::WriteLog;

use crate::append_only::AppendOnly;
use crate::snapshots::{Busy, SnapshotId};
use crate::stream::StreamOffset;

/// A server with an append-only file.
pub trait WriterHost: Send + Sync {
    /// The log that the thread reads.
    fn log(&self) -> &Arc<WriteLog>;

    /// The file as the server's other threads see it.
    fn append_only(&self) -> &AppendOnly;

    /// The configuration in force.
    fn config(&self) -> Arc<Config>;

    /// Changes with each configuration. If it is read first, the configuration is not older.
    fn config_generation(&self) -> u64;

    /// The working directory, in which a rewrite puts the files.
    fn working_directory(&self) -> PathBuf;

    /// The limits with which the values of a snapshot are read, where its base has the form of requests.
    fn value_limits(&self) -> Limits;

    /// Begins to refuse commands that change data, those that wait for room in the log too, or ends that.
    fn refuse_writes(&self, are_refused: bool);

    /// Adds a sample to the latency monitor, if it reaches the threshold.
    fn note_latency(&self, event: &'static str, ms: u64);

    /// The position in the replication stream of the data up to an LSN of the log, below which all records are complete; `None`:
    /// they have none, or it is not certain.
    fn stream_offset(&self, lsn: Lsn) -> Option<StreamOffset>;

    /// Whether data are being loaded in place of others, so that there is only a part of them.
    fn is_loading(&self) -> bool;

    /// Whether a snapshot is being taken, of any kind.
    fn has_snapshot(&self) -> bool;

    /// Begins the snapshot that becomes the base of a rewrite.
    ///
    /// # Errors
    /// Another one is being taken.
    fn begin_base(&'static self, request: BaseRequest) -> Result<SnapshotId, Busy>;

    /// Ends this snapshot without a result, if it is still being taken.
    fn cancel_base(&self, id: SnapshotId);
}

/// A request for the snapshot that becomes the base of an append-only file.
pub struct BaseRequest {
    /// The path of the file.
    pub path: PathBuf,
    /// Runs at the cut, under all latches.
    pub at_cut: Box<dyn FnOnce() + Send>,
    /// Runs when the file is complete and synchronised, or with the reason why there is none.
    pub done: Box<dyn FnOnce(Result<(), String>) + Send>,
}

/// Records why writing the append-only file fails, or that it no longer fails. Writes are refused meanwhile.
pub fn note_failure(host: &dyn WriterHost, failure: Option<String>) {
    let has_failed = failure.is_some();
    host.append_only().set_failure(failure);
    host.refuse_writes(has_failed);
}

/// Reports the synchronisation under way if it takes too long. Called regularly, by another thread than the one in it.
pub fn check_sync(host: &dyn WriterHost, now: Uptime) {
    if let Some(delay_ms) = host.append_only().figures.syncing.take_delay(now) {
        report_delayed_sync(host, delay_ms);
    }
}

/// Counts and logs a synchronisation that takes too long.
pub(super) fn report_delayed_sync(host: &dyn WriterHost, delay_ms: i64) {
    host.append_only().figures.delayed_syncs.fetch_add(1, Ordering::Relaxed);
    log::warn!(
        "Asynchronous AOF fsync is taking too long (disk is busy?). Clients wait only if the write log is full, \
         or for replies with appendfsync always."
    );
    let event = sync_event(host.config().appendfsync);
    host.note_latency(event, u64::try_from(delay_ms).unwrap_or(0));
}

/// The latency monitor's event for synchronisations with this policy.
#[must_use]
pub(super) fn sync_event(policy: Appendfsync) -> &'static str {
    match policy {
        Appendfsync::Always => "aof-fsync-always",
        Appendfsync::Everysec | Appendfsync::No => "aof-fsync-everysec",
    }
}

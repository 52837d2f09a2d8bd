//! The thread that writes the append-only file: it reads the write log, writes new bytes, and synchronises the file as
//! `appendfsync` requires.
//!
//! Owns the files and a reader of the log; no other thread writes them. Touches shared state only to publish how far the log
//! is durable and whether writing fails. The thread never waits for a latch while it writes, so the disk delays only
//! replies that wait for it (`always`), and writers when the log's buffer is full.
//!
//! Invariants:
//! 1. The reader advances past bytes that are written (`everysec`, `no`) or synchronised (`always`). Later bytes are
//!    still in the log and can be written again.
//! 2. With `always`, the durable LSN is the end of the bytes that successful syncs cover. A reply that waits for it has
//!    no data that a crash can lose.
//! 3. While writing fails, commands that change data are refused, so the log grows no further.
//!
//! | failure | recovery, tried every second, and once when the file is switched off or the server ends |
//! |---|---|
//! | a write | the file is cut at the last complete write; the log still has the later bytes |
//! | a sync with `always` | the file is cut at its synchronised size; the log still has the later bytes |
//! | a sync otherwise | unsynchronised bytes have left the log: they are lost to this file, and a new history begins with a snapshot |
//!
//! Start reading at [`Writer::turn`]; rewriting is in `writer/rewriting.rs`.

mod grouping;
mod requests;
mod rewriting;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use config::{Appendfsync, Config};
use os::clock::{self, Ticks, Uptime};
use persist::disk::Disk;
use persist::files::{AppendOnlyFiles, FilesError};
use persist::reading::timestamp_annotation;
use sync::atomic::Ordering;
use sync::thread::JoinHandle;
use sync::write_log::LogReader;

use crate::shared::Shared;
use crate::shared::persistence::{Figures, WriterMessage, sync_event};
use grouping::Grouping;
use rewriting::Rewriting;

/// The largest write, in bytes, except with `always`. After each write the log has room again.
const WRITE_SIZE_MAX: usize = 1 << 20;

/// The interval of synchronisations with `everysec`, in milliseconds.
const SYNC_INTERVAL_MS: i64 = 1000;

/// The interval of attempts to recover from a failure, in milliseconds.
const RETRY_INTERVAL_MS: i64 = if cfg!(test) { 1 } else { 1000 };

/// How long changes may wait in the log before they are written, unless with `always`, in which replies wait for them. Under
/// load the thread writes larger pieces, and no worker has to wake it.
const WRITE_DELAY: Duration = Duration::from_millis(1);

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// See the module documentation.
pub struct Writer<D: Disk> {
    shared: &'static Shared,
    files: AppendOnlyFiles<D>,
    /// `None`: the file begins with a snapshot, whose cut is still to come.
    reader: Option<LogReader>,
    rewriting: Rewriting,
    grouping: Grouping,
    config: Arc<Config>,
    generation: u64,
    /// The start of the last sync with `everysec`.
    synced_at: Uptime,
    /// The second of the last annotation.
    annotated_at: i64,
    /// Whether the last write ended between two records.
    is_between_records: bool,
    failure: Option<Failure>,
    is_stopping: bool,
}

/// A failure without a successful recovery yet.
struct Failure {
    /// Whether bytes that have left the log may not be on disk.
    has_lost: bool,
    retry_at: Uptime,
}

impl<D: Disk + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Starts the thread. The files accept appends, and `reader` is at their end. `None`: they begin with a
    /// snapshot, which the thread takes.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start(
        shared: &'static Shared,
        files: AppendOnlyFiles<D>,
        reader: Option<LogReader>,
    ) -> std::io::Result<JoinHandle<()>> {
        let rewriting = Rewriting::new(reader.is_none());
        Self::start_with(shared, files, reader, rewriting)
    }

    /// Starts the thread to take a snapshot that becomes the base, and to end: see [`AppendOnlyFiles::start_base_only`].
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start_base_only(
        shared: &'static Shared,
        files: AppendOnlyFiles<D>,
    ) -> std::io::Result<JoinHandle<()>> {
        Self::start_with(shared, files, None, Rewriting::base_only())
    }

    fn start_with(
        shared: &'static Shared,
        files: AppendOnlyFiles<D>,
        reader: Option<LogReader>,
        rewriting: Rewriting,
    ) -> std::io::Result<JoinHandle<()>> {
        let generation = shared.config.generation();
        let size = files.total_size();
        let mut writer = Self {
            shared,
            files,
            rewriting,
            grouping: Grouping::default(),
            reader,
            config: shared.config.load_full(),
            generation,
            synced_at: Uptime::now(),
            annotated_at: 0,
            is_between_records: true,
            failure: None,
            is_stopping: false,
        };
        let figures = writer.figures();
        figures.size.store(size, Ordering::Relaxed);
        figures.base_size.store(size, Ordering::Relaxed);
        figures.is_on.store(true, Ordering::Relaxed);
        figures.is_ending.store(false, Ordering::Release);
        figures.is_beginning.store(writer.reader.is_none(), Ordering::Relaxed);
        if let Some(reader) = &writer.reader {
            shared.advance_durable(reader.lsn());
        }
        sync::thread::Builder::new().name("append-only".to_owned()).spawn(move || {
            while writer.turn() {}
            writer.end();
        })
    }

    fn figures(&self) -> &'static Figures {
        &self.shared.persistence.append_only.figures
    }

    /// Writes the new bytes of the log, or waits for some. Returns false when the thread must end.
    fn turn(&mut self) -> bool {
        if self.shared.config.generation() != self.generation {
            self.generation = self.shared.config.generation();
            self.config = self.shared.config.load_full();
            self.remove_history();
        }
        while let Some(message) = self.shared.persistence.append_only.take_message() {
            match message {
                WriterMessage::Stop => self.is_stopping = true,
                message => self.handle(message),
            }
        }
        if self.failure.is_some() && !self.recover() {
            // What the log has cannot be written before the next attempt, so it must not end the sleep.
            if !self.is_stopping {
                self.shared.persistence.append_only.wait_for_message(SLEEP_MAX);
            }
            return !self.is_stopping;
        }
        let result = self.write().and_then(|size| self.sync_if_due().map(|()| size));
        self.rewrite();
        let is_idle = match result {
            Ok(size) => {
                self.end_failure();
                size == 0
            }
            Err(error) => {
                let has_failed_before = self.failure.is_some();
                self.fail(&error);
                if self.is_stopping && has_failed_before {
                    return false;
                }
                // The next turn recovers or waits.
                false
            }
        };
        self.publish_figures();
        if !is_idle && self.delays_write() {
            self.shared.persistence.append_only.wait_for_message(WRITE_DELAY);
        }
        !is_idle || self.wait_for_work(self.until_sync().unwrap_or(SLEEP_MAX).min(SLEEP_MAX))
    }

    /// Whether the next write waits for more changes.
    fn delays_write(&mut self) -> bool {
        let is_always = self.policy() == Appendfsync::Always;
        let left = self.reader.as_mut().map_or(0, |reader| reader.complete_end().0 - reader.lsn().0);
        !is_always && !self.is_stopping && self.failure.is_none() && left < WRITE_SIZE_MAX as u64
    }

    /// Waits for work, at most for this time. Returns false if the thread must end.
    fn wait_for_work(&mut self, timeout: Duration) -> bool {
        if !self.is_stopping {
            self.shared.persistence.append_only.wait(self.reader.as_mut(), timeout);
        }
        !self.is_stopping
    }

    /// Writes bytes that the log has now, and synchronises them with `always`. Returns their number.
    fn write(&mut self) -> Result<usize, Failed> {
        let is_always = self.policy() == Appendfsync::Always;
        if is_always {
            self.gather();
        }
        let size = self.append_changes(if is_always { usize::MAX } else { WRITE_SIZE_MAX })?;
        if size == 0 {
            return Ok(0);
        }
        if is_always {
            let before_sync = Ticks::now();
            self.sync_now(sync_event(Appendfsync::Always))?;
            self.grouping.note(size as u64, Ticks::now().ns_since(before_sync));
        }
        if let Some(reader) = &mut self.reader {
            reader.advance(size);
        }
        self.figures().size.fetch_add(size as u64, Ordering::Relaxed);
        // Also where `no-appendfsync-on-rewrite` suspends syncs: replies do not wait for the end of the rewrite.
        if self.config.appendfsync == Appendfsync::Always {
            self.note_durable();
        }
        Ok(size)
    }

    /// Appends bytes that the log has now to the file, at most `size_max`. Returns their number. The reader stays.
    fn append_changes(&mut self, size_max: usize) -> Result<usize, Failed> {
        if self.config.aof_timestamp_enabled && self.is_between_records {
            self.annotate()?;
        }
        let Some(reader) = &mut self.reader else { return Ok(0) };
        // The cut is loaded afterwards, so a cut within the readable bytes is seen.
        let end = reader.complete_end();
        let limit = self.shared.persistence.append_only.cut().unwrap_or(end).min(end);
        let chunk = reader.bytes(limit);
        if chunk.is_empty() {
            return Ok(0);
        }
        self.shared.persistence.append_only.figures.delay_write();
        let [first, second] = chunk.pieces;
        let first = &first[..first.len().min(size_max)];
        let second = &second[..second.len().min(size_max - first.len())];
        let size = first.len() + second.len();
        let is_whole = size == chunk.len();
        let started = Ticks::now();
        self.files.append_pieces(&[first, second]).map_err(Failed::Write)?;
        self.is_between_records = is_whole;
        self.note_latency(started, "aof-write");
        Ok(size)
    }

    /// Writes a timestamp before the first requests of a second.
    fn annotate(&mut self) -> Result<(), Failed> {
        let now = clock::unix_millis() / 1000;
        let has_more = self.reader.as_mut().is_some_and(|reader| reader.complete_end() > reader.lsn());
        if now == self.annotated_at || !has_more {
            return Ok(());
        }
        let annotation = timestamp_annotation(now);
        self.files.append(&annotation).map_err(Failed::Write)?;
        self.annotated_at = now;
        self.figures().size.fetch_add(annotation.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Synchronises the file if a second has passed since the last time.
    fn sync_if_due(&mut self) -> Result<(), Failed> {
        if self.until_sync().is_none_or(|left| !left.is_zero()) {
            return Ok(());
        }
        self.synced_at = Uptime::now();
        self.sync_now(sync_event(Appendfsync::Everysec))?;
        self.note_durable();
        Ok(())
    }

    /// Everything that was written counts as durable.
    fn note_durable(&self) {
        if let Some(reader) = &self.reader {
            self.shared.advance_durable(reader.lsn());
        }
    }

    /// The synchronisation policy in force.
    fn policy(&self) -> Appendfsync {
        match self.config.no_appendfsync_on_rewrite && self.shared.snapshots.is_busy() {
            true => Appendfsync::No,
            false => self.config.appendfsync,
        }
    }

    /// The time until the next sync with `everysec`; `None` if there is nothing to synchronise.
    fn until_sync(&self) -> Option<Duration> {
        let (size, synced_size) = self.files.current_size();
        if self.policy() == Appendfsync::No || size == synced_size {
            return None;
        }
        let left_ms = SYNC_INTERVAL_MS - Uptime::now().ms_since(self.synced_at);
        Some(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)))
    }

    fn sync_now(&mut self, event: &'static str) -> Result<(), Failed> {
        let started = Ticks::now();
        let watch = &self.figures().syncing;
        watch.begin(started.uptime());
        let result = self.files.sync();
        if let Some(delay_ms) = watch.end(Uptime::now()) {
            self.shared.report_delayed_sync(delay_ms);
        }
        result.map_err(Failed::Sync)?;
        self.note_latency(started, event);
        Ok(())
    }

    fn note_latency(&self, started: Ticks, event: &'static str) {
        let ms = Ticks::now().ns_since(started) / 1_000_000;
        self.shared.note_latency(self.config.latency_monitor_threshold, event, ms);
    }

    /// Records a failure: from now on commands that change data are refused. Only the first one of several is logged.
    fn fail(&mut self, failed: &Failed) {
        let is_always = self.config.appendfsync == Appendfsync::Always;
        let (Failed::Write(error) | Failed::Sync(error)) = failed;
        let reason = match error {
            FilesError::Disk { source, .. } => os_text(source),
            other => other.to_string(),
        };
        if self.failure.is_none() {
            log::error!("Error writing to the AOF file: {error}");
        }
        self.shared.note_append_failure(Some(reason));
        let has_lost = matches!(failed, Failed::Sync(_)) && !is_always;
        self.failure = Some(Failure { has_lost, retry_at: Uptime::now().plus_ms(RETRY_INTERVAL_MS) });
    }

    /// Prepares the files for another attempt after a failure, if one is due. Returns whether writing can be tried.
    fn recover(&mut self) -> bool {
        let Some(failure) = &mut self.failure else { return true };
        if Uptime::now() < failure.retry_at && !self.is_stopping {
            return false;
        }
        failure.retry_at = Uptime::now().plus_ms(RETRY_INTERVAL_MS);
        // A failed sync with `always` leaves everything that it did not cover in the log: invariant 1.
        if failure.has_lost {
            return self.begin_new_history();
        }
        let Ok(cut_off) = self.files.undo_append().map(|()| 0).or_else(|_| self.files.rollback()) else {
            return false;
        };
        let (size, synced_size) = self.files.current_size();
        let result = self.files.sync();
        if self.config.appendfsync != Appendfsync::Always
            && (cut_off > 0 || result.is_err() && size > synced_size)
            && let Some(failure) = &mut self.failure
        {
            // The log no longer has these bytes.
            failure.has_lost = true;
            return false;
        }
        result.is_ok()
    }

    /// Ends a failure after a successful write: commands that change data are accepted again.
    fn end_failure(&mut self) {
        if self.failure.take().is_some() {
            log::warn!("AOF write error looks solved. The server can write again.");
            self.shared.note_append_failure(None);
        }
    }

    /// Publishes the state for `INFO`.
    fn publish_figures(&mut self) {
        let (size, synced_size) = self.files.current_size();
        let figures = self.figures();
        figures.is_unsynced.store(size != synced_size, Ordering::Relaxed);
        let end = self.shared.keyspace.log.end();
        let written = self.reader.as_ref().map_or(end, LogReader::lsn);
        figures.written.store(written.0, Ordering::Release);
    }

    /// Ends the thread: synchronises and closes the file. No write is refused because of it any more.
    fn end(mut self) {
        self.abandon_rewrite();
        // A torn write is cut off, if possible.
        let is_whole = self.failure.is_none() || self.files.is_open() && self.files.undo_append().is_ok();
        if self.failure.is_some() {
            log::error!("The AOF file ends without the last changes, because writing fails");
        }
        // A file whose first snapshot is not complete was closed with its rewrite.
        if is_whole
            && self.files.is_open()
            && let Err(error) = self.files.sync()
        {
            log::error!("Error synchronising the AOF file: {error}");
        }
        self.files.close();
        self.figures().is_on.store(false, Ordering::Relaxed);
        self.figures().is_beginning.store(false, Ordering::Relaxed);
        self.figures().forget_rewrites_requested();
        self.shared.note_append_failure(None);
    }
}

/// The step that failed.
enum Failed {
    Write(FilesError),
    Sync(FilesError),
}

/// The text of an error of the operating system, without its number.
fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

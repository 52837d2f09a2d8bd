//! The thread that writes the append-only file: it reads the write log, writes new bytes, and synchronises the file as
//! `appendfsync` requires.
//!
//! Owns the files and a reader of the log; no other thread writes them. What it asks of the server is [`WriterHost`]: it
//! publishes how far the log is durable and whether writing fails. The thread never waits for a latch while it writes, so the disk delays only
//! replies that wait for it (`always`), and writers when the log's buffer is full.
//!
//! Invariants:
//! 1. The reader of the log is at the end of the file. The log keeps the bytes behind the synchronised size, so that they can
//!    be written again, as long as they are few (`retained_size_max`); with `always`, all of them.
//! 2. The durable LSN is the end of the bytes that successful syncs cover, whatever the policy. With `always` a reply that
//!    waits for it has no data that a crash can lose.
//! 3. While writing fails, commands that change data are refused, so the log grows no further.
//!
//! What a failure means follows from positions, and never from the policy of the moment, which may have changed since the
//! bytes were written. See `writer/failing.rs`; rewriting is in `writer/rewriting.rs`.
//!
//! Start reading at [`Writer::turn`].

mod failing;
mod grouping;
mod host;
mod requests;
mod rewriting;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use base::Lsn;
use config::{Appendfsync, Config};
use os::clock::{self, Ticks, Uptime};
use sync::atomic::Ordering;
use sync::simulation::planted;
use sync::write_log::LogReader;

use crate::append_only::{AppendOnly, Figures, WriterControl};
use crate::disk::Disk;
use crate::faults;
use crate::files::{AppendOnlyFiles, FilesError};
use crate::reading::timestamp_annotation;
use crate::stream::{StreamMarks, StreamOffset};
use failing::{Failed, Failure};
use grouping::Grouping;
use host::{report_delayed_sync, sync_event};
use rewriting::Rewriting;

pub use host::{BaseRequest, WriterHost, check_sync, note_failure};

/// The token of the thread's reader of the write log.
pub const READER: u64 = 0;

/// The largest write, in bytes, except with `always`. After each write the log has room again.
const WRITE_SIZE_MAX: usize = 1 << 20;

/// The interval of synchronisations with `everysec`, in milliseconds.
const SYNC_INTERVAL_MS: i64 = if cfg!(test) { 20 } else { 1000 };

/// The interval of attempts to recover from a failure, in milliseconds.
const RETRY_INTERVAL_MS: i64 = if cfg!(test) { 1 } else { 1000 };

/// The part of the log's buffer that written bytes may occupy until they are synchronised.
const RETAINED_SHARE: u64 = 4;

/// How long changes may wait in the log before they are written, unless with `always`, in which replies wait for them. Under
/// load the thread writes larger pieces, and no worker has to wake it.
const WRITE_DELAY: Duration = Duration::from_millis(1);

/// The interval of positions in the replication stream that follow no requests, in milliseconds.
const MARK_INTERVAL_MS: i64 = 1000;

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// See the module documentation.
pub struct Writer<D: Disk> {
    host: &'static dyn WriterHost,
    files: AppendOnlyFiles<D>,
    /// `None`: the file begins with a snapshot, whose cut is still to come.
    reader: Option<LogReader>,
    rewriting: Rewriting,
    grouping: Grouping,
    config: Arc<Config>,
    generation: u64,
    /// The start of the last sync with `everysec`.
    synced_at: Uptime,
    /// The end of the bytes in the synchronised part of the file.
    synced: Position,
    /// The second of the last annotation.
    annotated_at: i64,
    /// Whether the last write ended between two records.
    is_between_records: bool,
    /// The positions in the replication stream that the file has.
    marks: StreamMarks,
    /// When the last one was due that follows no requests.
    marked_at: Uptime,
    /// The divergences of the log that the files in effect include; `None`: there is no base yet.
    divergence_count: Option<u64>,
    failure: Option<Failure>,
    /// Whether the former files lack changes, which are on disk only with the base that is being written.
    has_gap: bool,
    is_stopping: bool,
    control: Arc<WriterControl>,
}

/// A place in the log.
#[derive(Clone, Copy)]
struct Position {
    lsn: Lsn,
    is_between_records: bool,
}

/// Why files begin with a snapshot while the server runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The append-only file is switched on.
    SwitchOn,
    /// A base is written, and no increment behind it.
    BaseOnly,
    /// The former files can't be written and lack changes. Changes are refused until the base is complete.
    AfterFailure,
}

impl Purpose {
    /// Begins the files.
    ///
    /// # Errors
    /// Of the file system; then nothing has changed.
    pub fn start<D: Disk>(self, files: &mut AppendOnlyFiles<D>) -> Result<(), FilesError> {
        match self {
            Self::SwitchOn | Self::AfterFailure => files.start(),
            Self::BaseOnly => files.start_base_only(),
        }
    }

    fn rewriting(self) -> Rewriting {
        match self {
            Self::SwitchOn | Self::AfterFailure => Rewriting::new(true),
            Self::BaseOnly => Rewriting::base_only(),
        }
    }
}

impl<D: Disk + Clone + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Starts the thread. The files accept appends, and `reader` is at their end.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start(
        host: &'static dyn WriterHost,
        files: AppendOnlyFiles<D>,
        reader: LogReader,
    ) -> std::io::Result<()> {
        let (size, divergence_count) = (files.total_size(), Some(host.log().divergence_count()));
        let begin = move |control: &_| {
            Some(Self { divergence_count, ..Self::new(host, files, Some(reader), control) })
        };
        Self::start_with(host, (size, false), begin)
    }

    /// Starts the thread, which begins with a snapshot. The files have begun for this purpose.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start_with_snapshot(
        host: &'static dyn WriterHost,
        files: AppendOnlyFiles<D>,
        purpose: Purpose,
    ) -> std::io::Result<()> {
        let size = files.total_size();
        let begin = move |control: &_| Some(Self::beginning(host, files, purpose, control));
        Self::start_with(host, (size, true), begin)
    }

    /// As [`Self::start_with_snapshot`], in the files that `open` returns.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start_later(
        host: &'static dyn WriterHost,
        purpose: Purpose,
        open: impl FnOnce(&WriterControl) -> Option<AppendOnlyFiles<D>> + Send + 'static,
    ) -> std::io::Result<()> {
        Self::start_with(host, (0, true), move |control| {
            let files = open(control)?;
            show_beginning(host, files.total_size(), true);
            Some(Self::beginning(host, files, purpose, control))
        })
    }

    /// Starts the thread of files of this size, of which it is shown whether they have no base yet.
    fn start_with(
        host: &'static dyn WriterHost,
        (size, is_beginning): (u64, bool),
        begin: impl FnOnce(&Arc<WriterControl>) -> Option<Self> + Send + 'static,
    ) -> std::io::Result<()> {
        let show = || show_beginning(host, size, is_beginning);
        host.append_only().start_thread(show, move |control| match begin(control) {
            Some(mut writer) => {
                while writer.turn() {}
                writer.end();
            }
            None => show_end(host, control),
        })
    }

    /// One that begins with a snapshot.
    fn beginning(
        host: &'static dyn WriterHost,
        files: AppendOnlyFiles<D>,
        purpose: Purpose,
        control: &Arc<WriterControl>,
    ) -> Self {
        let has_gap = purpose == Purpose::AfterFailure;
        Self { rewriting: purpose.rewriting(), has_gap, ..Self::new(host, files, None, control) }
    }

    fn new(
        host: &'static dyn WriterHost,
        files: AppendOnlyFiles<D>,
        reader: Option<LogReader>,
        control: &Arc<WriterControl>,
    ) -> Self {
        let generation = host.config_generation();
        let lsn = reader.as_ref().map(LogReader::lsn);
        if let Some(lsn) = lsn {
            host.append_only().advance_durable(lsn);
        }
        let lsn = lsn.unwrap_or_else(|| host.append_only().durable.end());
        host.append_only().set_homes(files.homes());
        Self {
            host,
            files,
            rewriting: Rewriting::new(false),
            grouping: Grouping::default(),
            reader,
            config: host.config(),
            generation,
            synced_at: Uptime::now(),
            synced: Position { lsn, is_between_records: true },
            annotated_at: 0,
            is_between_records: true,
            marks: StreamMarks::default(),
            marked_at: Uptime::now(),
            divergence_count: None,
            failure: None,
            has_gap: false,
            is_stopping: false,
            control: Arc::clone(control),
        }
    }

    fn append_only(&self) -> &'static AppendOnly {
        self.host.append_only()
    }

    fn figures(&self) -> &'static Figures {
        &self.append_only().figures
    }

    /// Writes the new bytes of the log, or waits for some. Returns false when the thread must end.
    fn turn(&mut self) -> bool {
        if self.host.config_generation() != self.generation {
            self.generation = self.host.config_generation();
            self.config = self.host.config();
            self.remove_history();
        }
        self.is_stopping |= self.control.is_stopping();
        while let Some(message) = self.append_only().take_message() {
            self.handle(message);
        }
        let had_failed = self.failure.is_some();
        if had_failed && !self.recover() {
            // What the log has cannot be written before the next attempt, so it must not end the sleep.
            if !self.is_stopping {
                self.append_only().wait_for_message(SLEEP_MAX);
            }
            return !self.is_stopping;
        }
        let is_idle = match self.write().and_then(|size| self.sync_if_due().map(|()| size)) {
            Ok(size) => {
                self.end_failure();
                self.rewrite();
                size == 0 && self.failure.is_none() && !self.awaits_records()
            }
            Err(error) => {
                self.fail(&error);
                if self.is_stopping && had_failed {
                    return false;
                }
                // The next turn recovers or waits.
                false
            }
        };
        self.publish_figures();
        if !is_idle && self.delays_write() {
            self.append_only().wait_for_message(WRITE_DELAY);
        }
        !is_idle || self.wait_for_work(self.until_sync().unwrap_or(SLEEP_MAX).min(SLEEP_MAX))
    }

    /// Whether the thread ends, and records before its end are still being appended to the log. Lets their threads run.
    fn awaits_records(&mut self) -> bool {
        let (is_stopping, end) = (self.control.is_stopping(), self.control.end());
        let awaits = is_stopping && self.reader.as_mut().is_some_and(|reader| reader.complete_end() < end);
        if awaits {
            sync::thread::yield_now();
        }
        awaits
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
            self.append_only().wait(self.reader.as_mut(), timeout);
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
            // What is for replicas only is passed over, and is as durable as what is before it: replicas wait for that.
            if is_always && self.reader.as_ref().is_some_and(|reader| reader.lsn() > self.synced.lsn) {
                self.sync_now(sync_event(Appendfsync::Always))?;
            }
            if Uptime::now().ms_since(self.marked_at) >= MARK_INTERVAL_MS {
                self.marked_at = Uptime::now();
                self.mark_end()?;
            }
            self.release_replies();
            return Ok(0);
        }
        if is_always {
            let before_sync = Ticks::now();
            self.sync_now(sync_event(Appendfsync::Always))?;
            self.grouping.note(size as u64, Ticks::now().ns_since(before_sync));
        } else {
            self.limit_retained();
        }
        self.release_replies();
        Ok(size)
    }

    /// Where `no-appendfsync-on-rewrite` suspends syncs, replies do not wait for the end of the rewrite.
    fn release_replies(&self) {
        if self.config.appendfsync == Appendfsync::Always
            && self.policy() == Appendfsync::No
            && !self.has_gap
            && let Some(reader) = &self.reader
            && reader.lsn() > self.append_only().released.end()
        {
            self.append_only().release_replies(reader.lsn());
        }
    }

    /// Releases written bytes that the log keeps until they are synchronised, if they are many, or can't help any more.
    fn limit_retained(&mut self) {
        let size_max = self.host.log().capacity() / RETAINED_SHARE;
        if let Some(reader) = &mut self.reader
            && (reader.lsn().0 - reader.kept().0 > size_max || self.synced.lsn < reader.kept())
        {
            reader.release(reader.lsn());
        }
    }

    /// Appends bytes that the log has now to the file, at most `size_max`. Returns their number.
    fn append_changes(&mut self, size_max: usize) -> Result<usize, Failed> {
        if self.config.aof_timestamp_enabled && self.is_between_records {
            self.annotate()?;
        }
        if self.marks.are_lost() {
            self.mark_end()?;
        }
        let append_only = self.append_only();
        let Some(reader) = &mut self.reader else { return Ok(0) };
        // The cut is loaded afterwards, so a cut within the readable bytes is seen.
        let end = reader.complete_end().min(self.control.end());
        let limit = append_only.cut().unwrap_or(end).min(end);
        let chunk = reader.bytes(limit);
        if chunk.is_empty() {
            return Ok(0);
        }
        append_only.figures.delay_write();
        let [first, second] = chunk.pieces;
        let first = &first[..first.len().min(size_max)];
        let second = &second[..second.len().min(size_max - first.len())];
        let size = first.len() + second.len();
        let is_whole = size == chunk.len();
        let started = Ticks::now();
        let end = Lsn(chunk.start.0 + size as u64);
        let at = if is_whole { position_at(self.host, self.divergence_count, end) } else { None };
        let mark = self.marks.after(size, at);
        let pieces =
            if planted(faults::EARLY_MARK) { [&mark[..], first, second] } else { [first, second, &mark[..]] };
        self.files.append_pieces(&pieces).map_err(Failed::Write)?;
        reader.pass(size);
        self.is_between_records = is_whole;
        self.figures().size.fetch_add((size + mark.len()) as u64, Ordering::Relaxed);
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

    /// Writes the position of the end, if the file does not have it.
    fn mark_end(&mut self) -> Result<(), Failed> {
        let reader = self.reader.as_ref().filter(|_| self.is_between_records && self.files.is_open());
        let at = reader.and_then(|reader| position_at(self.host, self.divergence_count, reader.lsn()));
        let Some(mark) = self.marks.at_end(at) else { return Ok(()) };
        self.files.append(&mark).map_err(Failed::Write)?;
        self.figures().size.fetch_add(mark.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Synchronises the file if that is due.
    fn sync_if_due(&mut self) -> Result<(), Failed> {
        if self.until_sync().is_none_or(|left| !left.is_zero()) {
            return Ok(());
        }
        self.synced_at = Uptime::now();
        self.sync_now(sync_event(Appendfsync::Everysec))
    }

    /// The synchronisation policy in force.
    fn policy(&self) -> Appendfsync {
        match self.config.no_appendfsync_on_rewrite && self.host.has_snapshot() {
            true => Appendfsync::No,
            false => self.config.appendfsync,
        }
    }

    /// The time until the next sync, apart from those of writes; `None` if there is nothing to synchronise. With `always`,
    /// only bytes that were written before it was in force are left: they are synchronised at once.
    fn until_sync(&self) -> Option<Duration> {
        let (size, synced_size) = self.files.current_size();
        match self.policy() {
            _ if size == synced_size => return None,
            Appendfsync::No => return None,
            Appendfsync::Always => return Some(Duration::ZERO),
            Appendfsync::Everysec => {}
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
            report_delayed_sync(self.host, delay_ms);
        }
        self.note_synced();
        result.map_err(Failed::Sync)?;
        self.note_durable();
        self.note_latency(started, event);
        Ok(())
    }

    /// Notes how far the file is synchronised, after each step that may have synchronised it.
    fn note_synced(&mut self) {
        let (size, synced_size) = self.files.current_size();
        if size == synced_size
            && let Some(reader) = &mut self.reader
        {
            let lsn = reader.lsn();
            self.synced = Position { lsn, is_between_records: self.is_between_records };
            reader.release(lsn);
        }
    }

    /// Publishes how far the log is durable, after a successful synchronisation of the file and its directory. While
    /// the former files lack changes, nothing more is durable before the base is complete.
    fn note_durable(&mut self) {
        if !self.rewriting.is_beginning() {
            self.show_base();
            self.close_gap();
        }
        if !self.has_gap {
            self.append_only().advance_durable(self.synced.lsn);
        }
    }

    /// Shows that the files have a base, unless another thread takes the place of this one: its files have none yet.
    fn show_base(&self) {
        let is_beginning = &self.figures().is_beginning;
        if is_beginning.load(Ordering::Relaxed) {
            let show = || is_beginning.store(false, Ordering::Relaxed);
            self.append_only().at_end_of(&self.control, show);
        }
    }

    fn note_latency(&self, started: Ticks, event: &'static str) {
        let ms = Ticks::now().ns_since(started) / 1_000_000;
        self.host.note_latency(event, ms);
    }

    /// Publishes the state for `INFO`.
    fn publish_figures(&mut self) {
        let (size, synced_size) = self.files.current_size();
        let figures = self.figures();
        figures.is_unsynced.store(size != synced_size, Ordering::Relaxed);
        let end = self.host.log().end();
        let written = self.reader.as_ref().map_or(end, LogReader::lsn);
        figures.written.store(written.0, Ordering::Release);
    }
}

/// The position in the replication stream of the data of a file up to an LSN, which ends a complete record. `divergence_count`: of
/// the files.
fn position_at(host: &dyn WriterHost, divergence_count: Option<u64>, lsn: Lsn) -> Option<StreamOffset> {
    let at = host.stream_offset(lsn)?;
    // Read afterwards: whatever sets another position has noted that before.
    (divergence_count == Some(host.log().divergence_count())).then_some(at)
}

/// Shows that a thread writes the files, or is about to.
pub fn show_beginning(host: &dyn WriterHost, size: u64, is_beginning: bool) {
    let figures = &host.append_only().figures;
    figures.size.store(size, Ordering::Relaxed);
    figures.base_size.store(size, Ordering::Relaxed);
    figures.is_on.store(true, Ordering::Relaxed);
    figures.is_ending.store(false, Ordering::Release);
    figures.is_beginning.store(is_beginning, Ordering::Relaxed);
}

/// Shows that no thread writes the files, unless another one takes the place of this one. No write is refused because of
/// it any more.
fn show_end(host: &dyn WriterHost, control: &Arc<WriterControl>) {
    let append_only = host.append_only();
    append_only.at_end_of(control, || {
        // What no file has waits for none.
        append_only.release_replies(host.log().end());
        append_only.figures.is_on.store(false, Ordering::Relaxed);
        append_only.figures.is_beginning.store(false, Ordering::Relaxed);
        append_only.figures.forget_rewrites_requested();
        note_failure(host, None);
    });
}

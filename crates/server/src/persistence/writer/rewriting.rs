//! Rewriting the append-only file: a snapshot becomes the base, and the log from its cut on the only increment.
//!
//! The snapshot is taken by the snapshots' own threads. At its cut, under all latches, the LSN is noted: this thread writes
//! the log up to it to the former increment, and the rest to a new one. A file that is switched on, or that has lost
//! bytes, begins in the same way: the log is read from the cut on. It is not in effect before the base is complete.
//!
//! | state | to | by |
//! |---|---|---|
//! | idle | wanted | growth, a request, or a file that begins with a snapshot |
//! | wanted | under way | [`Writer::begin_snapshot`], once no other snapshot is being taken |
//! | under way | under way, cut passed | the log is written up to the cut |
//! | under way, cut passed | idle | the base is complete: [`Writer::finish`] |
//! | under way | idle | [`Writer::fail_rewrite`]: the former files stay; a file that must begin with a snapshot tries again |

use std::sync::{Arc, PoisonError};

use config::Appendfsync;
use os::clock::{self, Uptime};
use persist::disk::Disk;
use persist::files::FilesError;
use persist::manifest::BaseFormat;
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Failed, RETRY_INTERVAL_MS, Writer, requests};
use crate::shared::persistence::{WriterMessage, sync_event};
use crate::snapshot::{Request, SaveError, Saved, Target};

/// The time after a failed rewrite before growth causes another one, in milliseconds.
const AUTOMATIC_INTERVAL_MS: i64 = 60_000;

/// Distinguishes the snapshots of all rewrites.
static SNAPSHOT_COUNT: AtomicU64 = AtomicU64::new(0);

/// The state of rewriting.
pub(super) struct Rewriting {
    is_wanted: bool,
    /// The form of the base, if the request for it says so.
    wanted_format: Option<BaseFormat>,
    /// Whether the file begins with the snapshot, and has no history before it.
    is_beginning: bool,
    under_way: Option<UnderWay>,
    /// Whether the thread ends after the rewrite, which has no increment.
    is_base_only: bool,
    /// The earliest time of the next attempt.
    retry_at: Uptime,
    /// Orders that were followed, and are not counted as such yet.
    order_count: u64,
}

struct UnderWay {
    number: u64,
    began: Uptime,
    format: BaseFormat,
    progress: Arc<Progress>,
    /// Whether writes go to the new increment.
    is_past_cut: bool,
    /// Whether the base is complete.
    has_base: bool,
}

/// How far the base of a rewrite is, as the threads that make it see it.
#[derive(Default)]
struct Progress {
    /// Whether the snapshot is no longer being taken.
    has_snapshot: AtomicBool,
    is_cancelled: AtomicBool,
}

/// Held while the base is converted: a cancelled conversion may still be ending when the next one begins.
static CONVERTING: Mutex<()> = Mutex::new(());

impl Rewriting {
    pub(super) fn new(is_beginning: bool) -> Self {
        Self {
            is_wanted: is_beginning,
            wanted_format: None,
            is_beginning,
            under_way: None,
            is_base_only: false,
            retry_at: Uptime::now(),
            order_count: u64::from(is_beginning),
        }
    }

    pub(super) fn base_only() -> Self {
        Self { is_base_only: true, ..Self::new(true) }
    }
}

fn format_of(is_rdb: bool) -> BaseFormat {
    if is_rdb { BaseFormat::Rdb } else { BaseFormat::Requests }
}

impl<D: Disk + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Handles a message that concerns rewriting.
    pub(super) fn handle(&mut self, message: WriterMessage) {
        let is_current = |number| self.rewriting.under_way.as_ref().is_some_and(|it| it.number == number);
        match message {
            WriterMessage::Rewrite { is_rdb } => {
                if self.rewriting.under_way.is_none() {
                    self.rewriting.is_wanted = true;
                    self.rewriting.wanted_format = Some(format_of(is_rdb));
                }
                self.rewriting.order_count += 1;
            }
            WriterMessage::Attached(number, reader) if is_current(number) => {
                self.reader = Some(reader);
                self.is_between_records = true;
                self.note_durable();
            }
            WriterMessage::BaseWritten(number, Ok(())) if is_current(number) => {
                if let Some(under_way) = &mut self.rewriting.under_way {
                    under_way.has_base = true;
                }
            }
            WriterMessage::BaseWritten(number, Err(reason)) if is_current(number) => {
                self.fail_rewrite(&reason)
            }
            // A message of a rewrite that has failed or was abandoned.
            WriterMessage::Attached(..) | WriterMessage::BaseWritten(..) | WriterMessage::Stop => {}
        }
    }

    /// Continues a rewrite, or begins one where it is wanted.
    pub(super) fn rewrite(&mut self) {
        self.pass_cut();
        if self.rewriting.under_way.as_ref().is_some_and(|it| it.has_base && it.is_past_cut) {
            self.finish();
        }
        if self.rewriting.under_way.is_none() && !self.is_stopping {
            self.rewriting.is_wanted |= self.has_grown();
            if self.rewriting.is_wanted && Uptime::now() >= self.rewriting.retry_at {
                self.begin_snapshot();
            }
        }
        let is_scheduled = self.rewriting.is_wanted && self.rewriting.under_way.is_none();
        self.figures().is_rewrite_scheduled.store(is_scheduled, Ordering::Relaxed);
        self.figures().note_rewrites_taken(std::mem::take(&mut self.rewriting.order_count));
    }

    /// Whether the file has grown so much that it is rewritten.
    fn has_grown(&self) -> bool {
        let (percentage, size_min) =
            (self.config.auto_aof_rewrite_percentage, self.config.auto_aof_rewrite_min_size);
        let size = self.figures().size.load(Ordering::Relaxed);
        if percentage == 0 || size <= size_min || Uptime::now() < self.rewriting.retry_at {
            return false;
        }
        let base_size = self.figures().base_size.load(Ordering::Relaxed).max(1);
        let growth = (size * 100 / base_size).saturating_sub(100);
        if growth < u64::from(percentage) {
            return false;
        }
        log::info!("Starting automatic rewriting of AOF on {growth}% growth");
        true
    }

    /// Begins the snapshot. If another one is being taken, the next turn tries again.
    fn begin_snapshot(&mut self) {
        let number = SNAPSHOT_COUNT.fetch_add(1, Ordering::Relaxed);
        let (shared, attaches) = (self.shared, self.reader.is_none());
        let is_base_only = self.rewriting.is_base_only;
        let append_only = &shared.persistence.append_only;
        let begin_reading = move || {
            let log = &shared.keyspace.log;
            if is_base_only {
                // Later changes are not logged.
            } else if !attaches {
                log.forget_database();
                append_only.set_cut(log.end());
            } else if let Some(reader) = log.attach(super::super::append_only::READER) {
                log.forget_database();
                append_only.send(WriterMessage::Attached(number, reader));
            }
        };
        let at_cut = move || append_only.at_cut(number, begin_reading);
        let wanted = self.rewriting.wanted_format;
        let format = wanted.unwrap_or_else(|| format_of(self.config.aof_use_rdb_preamble));
        let progress = Arc::new(Progress::default());
        let request = Request {
            target: Target::Base { path: self.files.base_path() },
            settings: shared.base_settings(),
            at_cut: Box::new(at_cut),
            done: self.after_snapshot(number, format, Arc::clone(&progress)),
        };
        let figures = self.figures();
        figures.is_rewriting.store(true, Ordering::Relaxed);
        append_only.expect_cut(number);
        if shared.snapshots.begin(request).is_err() {
            append_only.clear_cut();
            figures.is_rewriting.store(false, Ordering::Relaxed);
            return;
        }
        log::info!("Background append only file rewriting started");
        self.rewriting.is_wanted = false;
        self.rewriting.wanted_format = None;
        self.rewriting.under_way = Some(UnderWay {
            number,
            began: Uptime::now(),
            format,
            progress,
            is_past_cut: attaches,
            has_base: false,
        });
        figures.rewrite_began.store(clock::unix_millis() / 1000, Ordering::Relaxed);
    }

    /// What is done when the snapshot has ended: it is the base, or is converted to requests.
    fn after_snapshot(
        &self,
        number: u64,
        format: BaseFormat,
        progress: Arc<Progress>,
    ) -> Box<dyn FnOnce(Result<Saved, SaveError>) + Send> {
        let append_only = &self.shared.persistence.append_only;
        let (snapshot, target) = (self.files.base_path(), self.files.requests_path());
        let annotated_at = self.config.aof_timestamp_enabled.then(|| clock::unix_millis() / 1000);
        let written =
            move |result: Result<(), String>| append_only.send(WriterMessage::BaseWritten(number, result));
        Box::new(move |result| {
            progress.has_snapshot.store(true, Ordering::Release);
            let result = result.map(|_| ()).map_err(|error| error.to_string());
            if result.is_err() || format == BaseFormat::Rdb {
                return written(result);
            }
            let body = move || {
                let _alone = CONVERTING.lock().unwrap_or_else(PoisonError::into_inner);
                let result = requests::convert(&snapshot, &target, annotated_at, &progress.is_cancelled);
                written(result.map_err(|error| error.to_string()));
            };
            let started = sync::thread::Builder::new().name("aof-base".to_owned()).spawn(body);
            if let Err(error) = started {
                written(Err(format!("can't start a thread: {error}")));
            }
        })
    }

    /// If the log is written up to the cut, begins the new increment.
    fn pass_cut(&mut self) {
        let append_only = &self.shared.persistence.append_only;
        let cut = append_only.cut();
        if self.failure.is_some() || cut.is_none() || self.reader.as_ref().map(|reader| reader.lsn()) != cut {
            return;
        }
        append_only.clear_cut();
        // Synchronised here and not in `begin_rewrite`, so that a sync that hangs is reported.
        let begun = match self.sync_now(sync_event(Appendfsync::Everysec)) {
            Ok(()) => self.files.begin_rewrite(),
            Err(Failed::Write(error) | Failed::Sync(error)) => Err(error),
        };
        match (begun, &mut self.rewriting.under_way) {
            (Ok(()), Some(under_way)) => {
                under_way.is_past_cut = true;
                self.annotated_at = 0;
                // The former increment was synchronised.
                if self.config.appendfsync != Appendfsync::No {
                    self.note_durable();
                }
            }
            (Ok(()), None) => self.files.abort_rewrite(),
            (Err(error), _) => self.fail_rewrite(&error.to_string()),
        }
    }

    /// Puts the new files in effect.
    fn finish(&mut self) {
        let Some(format) = self.rewriting.under_way.as_ref().map(|it| it.format) else { return };
        if let Err(error) = self.replace_files(format) {
            return self.fail_rewrite(&error.to_string());
        }
        let Some(under_way) = self.rewriting.under_way.take() else { return };
        self.rewriting.is_beginning = false;
        if self.figures().is_beginning.swap(false, Ordering::Relaxed) {
            self.end_beginning();
        }
        log::info!("Background AOF rewrite finished successfully");
        let size = self.files.total_size();
        let figures = self.figures();
        figures.size.store(size, Ordering::Relaxed);
        figures.base_size.store(size, Ordering::Relaxed);
        figures.rewrites.fetch_add(1, Ordering::Relaxed);
        figures.rewrite_failures.store(0, Ordering::Relaxed);
        figures.rewrite_failed.store(false, Ordering::Relaxed);
        self.note_end(under_way.began);
    }

    /// Makes what is on disk count as durable, which it does not before the first base is there.
    fn end_beginning(&mut self) {
        let (size, synced_size) = self.files.current_size();
        // `finish_rewrite` has synchronised the increment. No sync is due before more is written.
        if self.config.appendfsync != Appendfsync::No && size == synced_size {
            return self.note_durable();
        }
        // Wakes the workers with clients that wait for the base.
        self.shared.advance_durable(self.shared.persistence.durable.end());
    }

    fn replace_files(&mut self, format: BaseFormat) -> Result<(), FilesError> {
        if format == BaseFormat::Requests {
            self.files.take_requests()?;
        }
        let base = self.files.open_base()?;
        self.files.finish_rewrite(base, format)?;
        self.remove_history();
        Ok(())
    }

    /// Removes the files that rewrites have replaced, unless they are to stay.
    pub(super) fn remove_history(&mut self) {
        if self.config.aof_disable_auto_gc {
            return;
        }
        if let Err(error) = self.files.remove_history() {
            log::warn!("Former append-only files remain: {error}");
        }
    }

    /// Ends the rewrite under way without a result.
    pub(super) fn fail_rewrite(&mut self, reason: &str) {
        let Some(under_way) = self.rewriting.under_way.take() else { return };
        under_way.progress.is_cancelled.store(true, Ordering::Relaxed);
        log::warn!("Background AOF rewrite terminated by error: {reason}");
        self.shared.persistence.append_only.clear_cut();
        if self.rewriting.is_base_only {
            self.files.abort_rewrite();
        } else if self.rewriting.is_beginning {
            // Bytes written since the cut are useless without the base.
            self.reader = None;
            self.rewriting.is_wanted = true;
            self.restart_files();
        } else {
            self.files.abort_rewrite();
        }
        let figures = self.figures();
        figures.rewrite_failed.store(true, Ordering::Relaxed);
        figures.rewrite_failures.fetch_add(1, Ordering::Relaxed);
        self.note_end(under_way.began);
        let interval_ms = if self.rewriting.is_beginning { RETRY_INTERVAL_MS } else { AUTOMATIC_INTERVAL_MS };
        self.rewriting.retry_at = Uptime::now().plus_ms(interval_ms);
    }

    fn note_end(&mut self, began: Uptime) {
        self.is_stopping |= self.rewriting.is_base_only;
        let figures = self.figures();
        if self.is_stopping {
            figures.is_ending.store(true, Ordering::Release);
        }
        figures.is_rewriting.store(false, Ordering::Relaxed);
        figures.rewrite_seconds.store(Uptime::now().ms_since(began) / 1000, Ordering::Relaxed);
    }

    /// Begins a new history after this one has lost bytes: the present files stay in effect until the snapshot is
    /// complete. Returns whether writing continues.
    pub(super) fn begin_new_history(&mut self) -> bool {
        self.abandon_rewrite();
        self.reader = None;
        self.rewriting = Rewriting::new(true);
        // The log continues at the cut of the snapshot, and what was lost before it is on disk only with the snapshot.
        self.figures().is_beginning.store(true, Ordering::Relaxed);
        if !self.restart_files() {
            return false;
        }
        log::warn!("Starting a new AOF file with a snapshot.");
        self.end_failure();
        true
    }

    /// Begins the files anew. Returns whether that is possible.
    fn restart_files(&mut self) -> bool {
        self.files.close();
        match self.files.start() {
            Ok(()) => true,
            Err(error) => {
                self.fail(&Failed::Sync(error));
                false
            }
        }
    }

    /// Ends the rewrite under way because the file ends, or begins again.
    pub(super) fn abandon_rewrite(&mut self) {
        if let Some(under_way) = self.rewriting.under_way.take() {
            // Valkey's suite and log monitors search for the words "Killing", "AOF" and "child".
            log::info!("Killing the AOF rewrite under way, which is a thread and not a child process");
            under_way.progress.is_cancelled.store(true, Ordering::Relaxed);
            // Otherwise a snapshot that is being taken is another one.
            if !under_way.progress.has_snapshot.load(Ordering::Acquire) {
                self.shared.snapshots.cancel();
            }
            self.shared.persistence.append_only.clear_cut();
            self.files.abort_rewrite();
            self.figures().is_rewriting.store(false, Ordering::Relaxed);
        }
    }
}

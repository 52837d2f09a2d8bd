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
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::write_log::Audience;

use super::failing::Failed;
use super::host::{BaseRequest, sync_event};
use super::{Position, READER, RETRY_INTERVAL_MS, Writer, requests};
use crate::append_only::WriterMessage;
use crate::disk::Disk;
use crate::files::FilesError;
use crate::manifest::BaseFormat;
use crate::snapshots::SnapshotId;

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
    snapshot: SnapshotId,
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
    is_cancelled: AtomicBool,
    /// The divergences of the log at the cut.
    divergence_count: AtomicU64,
}

/// Held while the base is converted: a cancelled conversion may still be ending when the next one begins.
static CONVERTING: Mutex<()> = Mutex::new(());

/// The time after a failed rewrite that is needed for a start to have all changes, in milliseconds. Each attempt takes a
/// snapshot of all data, so the time doubles with each failure since the last success.
fn urgent_interval_ms(failures: u64) -> i64 {
    let doublings = failures.saturating_sub(1).min(u64::from(u16::BITS)) as u32;
    (RETRY_INTERVAL_MS << doublings).min(AUTOMATIC_INTERVAL_MS)
}

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

    /// Whether the files are not in effect yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.is_beginning
    }

    pub(super) fn base_only() -> Self {
        Self { is_base_only: true, ..Self::new(true) }
    }
}

fn format_of(is_rdb: bool) -> BaseFormat {
    if is_rdb { BaseFormat::Rdb } else { BaseFormat::Requests }
}

impl<D: Disk + Clone + Send + 'static> Writer<D>
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
                    // Only automatic attempts wait after a failure.
                    self.rewriting.retry_at = Uptime::now();
                }
                self.rewriting.order_count += 1;
            }
            WriterMessage::Attached(number, reader) if is_current(number) => {
                self.synced = Position { lsn: reader.lsn(), is_between_records: true };
                self.reader = Some(reader);
                self.marks.forget();
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
            WriterMessage::Attached(..) | WriterMessage::BaseWritten(..) => {}
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

    /// Begins the snapshot. If another one is being taken, or data are being loaded, the next turn tries again.
    fn begin_snapshot(&mut self) {
        if self.host.has_snapshot() || self.host.is_loading() {
            return;
        }
        if !self.rewriting.is_beginning
            && let Err(error) = self.files.prepare_rewrite(self.host.working_directory())
        {
            return self.refuse_rewrite(&error);
        }
        self.append_only().set_homes(self.files.homes());
        let number = SNAPSHOT_COUNT.fetch_add(1, Ordering::Relaxed);
        let (host, attaches) = (self.host, self.reader.is_none());
        let is_base_only = self.rewriting.is_base_only;
        let append_only = host.append_only();
        let progress = Arc::new(Progress::default());
        let at_cut = Arc::clone(&progress);
        let begin_reading = move || {
            let log = host.log();
            // A part of the data of a load has no position, whatever follows.
            let count = if host.is_loading() { u64::MAX } else { log.divergence_count() };
            at_cut.divergence_count.store(count, Ordering::Relaxed);
            if is_base_only {
                // Later changes are not logged.
            } else if !attaches {
                let _unlatched = log.hold_unlatched();
                log.forget_database();
                append_only.set_cut(log.end());
            } else if let Some(reader) = log.attach(READER, Audience::File) {
                log.forget_database();
                append_only.send(WriterMessage::Attached(number, reader));
            }
        };
        let at_cut = move || append_only.at_cut(number, begin_reading);
        let wanted = self.rewriting.wanted_format;
        let format = wanted.unwrap_or_else(|| format_of(self.config.aof_use_rdb_preamble));
        let request = BaseRequest {
            path: self.files.base_path(),
            at_cut: Box::new(at_cut),
            done: self.after_snapshot(number, format, Arc::clone(&progress)),
        };
        let figures = self.figures();
        figures.is_rewriting.store(true, Ordering::Relaxed);
        append_only.expect_cut(number);
        let Ok(snapshot) = host.begin_base(request) else {
            append_only.clear_cut();
            figures.is_rewriting.store(false, Ordering::Relaxed);
            return;
        };
        log::info!("Background append only file rewriting started");
        self.rewriting.is_wanted = false;
        self.rewriting.wanted_format = None;
        self.rewriting.under_way = Some(UnderWay {
            number,
            snapshot,
            began: Uptime::now(),
            format,
            progress,
            is_past_cut: attaches,
            has_base: false,
        });
        figures.rewrite_began.store(clock::unix_millis() / 1000, Ordering::Relaxed);
    }

    /// Notes that a rewrite can't begin. Growth, a request or files in two directories cause the next one.
    fn refuse_rewrite(&mut self, error: &FilesError) {
        log::warn!("Background AOF rewrite can't begin: {error}");
        self.rewriting.is_wanted = self.files.is_split();
        self.rewriting.wanted_format = None;
        self.rewriting.retry_at = Uptime::now().plus_ms(AUTOMATIC_INTERVAL_MS);
        let figures = self.figures();
        figures.rewrite_failed.store(true, Ordering::Relaxed);
        figures.rewrite_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// What is done when the snapshot has ended: it is the base, or is converted to requests.
    fn after_snapshot(
        &self,
        number: u64,
        format: BaseFormat,
        progress: Arc<Progress>,
    ) -> Box<dyn FnOnce(Result<(), String>) + Send> {
        let append_only = self.append_only();
        let (snapshot, target) = (self.files.base_path(), self.files.requests_path());
        let (disk, host) = (self.files.disk().clone(), self.host);
        let annotated_at = self.config.aof_timestamp_enabled.then(|| clock::unix_millis() / 1000);
        let written =
            move |result: Result<(), String>| append_only.send(WriterMessage::BaseWritten(number, result));
        Box::new(move |result| {
            if result.is_err() || format == BaseFormat::Rdb {
                return written(result);
            }
            let body = move || {
                let _alone = CONVERTING.lock().unwrap_or_else(PoisonError::into_inner);
                let result = requests::convert(
                    &disk,
                    (&snapshot, &target),
                    host.value_limits(),
                    annotated_at,
                    &progress.is_cancelled,
                );
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
        let append_only = self.append_only();
        let cut = append_only.cut();
        if self.failure.is_some() || cut.is_none() || self.reader.as_ref().map(|reader| reader.lsn()) != cut {
            return;
        }
        append_only.clear_cut();
        // Synchronised here and not in `begin_rewrite`, so that a sync that hangs is reported.
        if let Err(failed) = self.sync_now(sync_event(Appendfsync::Everysec)) {
            let (Failed::Write(error) | Failed::Sync(error)) = &failed;
            self.fail_rewrite(&error.to_string());
            return self.fail(&failed);
        }
        match (self.files.begin_rewrite(), &mut self.rewriting.under_way) {
            (Ok(()), Some(under_way)) => {
                under_way.is_past_cut = true;
                self.marks.forget();
                self.annotated_at = 0;
                self.note_synced();
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
        self.append_only().set_homes(self.files.homes());
        let Some(under_way) = self.rewriting.under_way.take() else { return };
        self.divergence_count = Some(under_way.progress.divergence_count.load(Ordering::Relaxed));
        let is_beginning = std::mem::take(&mut self.rewriting.is_beginning);
        // The first increment of a new history is synchronised by now.
        self.note_synced();
        let settled = self.files.settle();
        let has_new_base = settled.is_ok() && is_beginning;
        if let Err(error) = settled {
            // Nothing counts as durable before the directory is synchronised.
            self.fail(&Failed::Sync(error));
        }
        log::info!("Background AOF rewrite finished successfully");
        self.remove_history();
        let size = self.files.total_size();
        let figures = self.figures();
        figures.size.store(size, Ordering::Relaxed);
        figures.base_size.store(size, Ordering::Relaxed);
        figures.rewrites.fetch_add(1, Ordering::Relaxed);
        figures.rewrite_failures.store(0, Ordering::Relaxed);
        figures.rewrite_failed.store(false, Ordering::Relaxed);
        self.note_end(under_way.began);
        if has_new_base {
            // Clients that waited for it see that the rewrite has ended.
            self.note_durable();
        }
    }

    fn replace_files(&mut self, format: BaseFormat) -> Result<(), FilesError> {
        if format == BaseFormat::Requests {
            self.files.take_requests()?;
        }
        let base = self.files.open_base()?;
        self.files.finish_rewrite(base, format)
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
        self.append_only().clear_cut();
        if self.rewriting.is_base_only {
            self.files.abort_rewrite();
        } else if self.rewriting.is_beginning {
            // Bytes written since the cut are useless without the base.
            self.reader = None;
            self.rewriting.is_wanted = true;
            self.restart_files();
        } else {
            self.files.abort_rewrite();
            // Without a base in the new directory, no start has all changes.
            self.rewriting.is_wanted |= self.files.is_split();
        }
        let figures = self.figures();
        figures.rewrite_failed.store(true, Ordering::Relaxed);
        figures.rewrite_failures.fetch_add(1, Ordering::Relaxed);
        self.note_end(under_way.began);
        let is_urgent = self.rewriting.is_beginning || self.files.is_split();
        let failures = figures.rewrite_failures.load(Ordering::Relaxed);
        let interval_ms = if is_urgent { urgent_interval_ms(failures) } else { AUTOMATIC_INTERVAL_MS };
        self.rewriting.retry_at = Uptime::now().plus_ms(interval_ms);
    }

    fn note_end(&mut self, began: Uptime) {
        self.is_stopping |= self.rewriting.is_base_only;
        let figures = self.figures();
        if self.is_stopping {
            // Not if a successor waits for this thread: it takes messages.
            let append_only = self.append_only();
            append_only.at_end_of(&self.control, || figures.is_ending.store(true, Ordering::Release));
        }
        figures.is_rewriting.store(false, Ordering::Relaxed);
        figures.rewrite_seconds.store(Uptime::now().ms_since(began) / 1000, Ordering::Relaxed);
    }

    /// Wants a snapshot as the first base of new files.
    pub(super) fn begin_anew(&mut self) {
        self.abandon_rewrite();
        self.reader = None;
        self.rewriting = Rewriting::new(true);
        // The log continues at the cut of the snapshot, and what was lost before it is on disk only with the snapshot.
        self.figures().is_beginning.store(true, Ordering::Relaxed);
    }

    /// Ends the rewrite under way because the file ends, or begins again.
    pub(super) fn abandon_rewrite(&mut self) {
        let under_way = self.rewriting.under_way.take();
        if under_way.is_some() || std::mem::take(&mut self.rewriting.is_wanted) {
            // Valkey's suite and log monitors search for the words "Killing", "AOF" and "child".
            log::info!("Killing the AOF rewrite under way, which is a thread and not a child process");
        }
        if let Some(under_way) = under_way {
            under_way.progress.is_cancelled.store(true, Ordering::Relaxed);
            self.host.cancel_base(under_way.snapshot);
            self.append_only().clear_cut();
            self.files.abort_rewrite();
            self.figures().is_rewriting.store(false, Ordering::Relaxed);
        } else if self.rewriting.is_beginning {
            // Files without a base, after a failed attempt.
            self.files.abort_rewrite();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_rewrites_are_tried_again_after_a_growing_time() {
        let times: Vec<i64> =
            (1..6).map(|failures| urgent_interval_ms(failures) / RETRY_INTERVAL_MS).collect();
        assert_eq!(times, [1, 2, 4, 8, 16]);
        assert_eq!(urgent_interval_ms(u64::MAX), AUTOMATIC_INTERVAL_MS);
    }
}

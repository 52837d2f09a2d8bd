//! Failures of the disk: what they mean, how the file recovers from them, and its end.
//!
//! The reader of the log is at the end of the file, and `synced` at the end of its synchronised part. If the log still has
//! everything from there on, a failure costs nothing. Otherwise bytes are lost to this file, and a new history begins with
//! a snapshot. Recovery is tried every second, and when the file is switched off or the server ends.
//!
//! | state after a failure | recovery |
//! |---|---|
//! | a write has failed | the file is cut at the last complete write and synchronised; the log has the later bytes |
//! | a sync has failed, the log has everything behind the synchronised part | the file is cut there and written again |
//! | a sync has failed, the log does not have it | the former files stay as they are, and a new history begins |
//! | the directory can't be synchronised, or the manifest not be written | the synchronisation is repeated |
//! | closed: the files of a new history can't be created | they are created again, and the snapshot follows |
//!
//! Commands that change data are refused until the next write succeeds. After a loss they are refused until the base of the
//! new history is complete: before, a crash would lose what was accepted.

use os::clock::Uptime;
use sync::atomic::Ordering;

use super::host::{note_failure, sync_event};
use super::{RETRY_INTERVAL_MS, Writer, show_end};
use crate::disk::Disk;
use crate::files::FilesError;

/// A failure without a successful recovery yet.
pub(super) struct Failure {
    retry_at: Uptime,
}

/// The step that failed.
pub(super) enum Failed {
    Write(FilesError),
    Sync(FilesError),
}

/// How often the thread tries to complete the file at its end, if that fails.
const END_TRY_COUNT: usize = 2;

impl<D: Disk + Clone + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Records a failure: from now on commands that change data are refused. Only the first one of several is logged.
    pub(super) fn fail(&mut self, failed: &Failed) {
        let (Failed::Write(error) | Failed::Sync(error)) = failed;
        let reason = match error {
            FilesError::Disk { source, .. } => os_text(source),
            other => other.to_string(),
        };
        if self.failure.is_none() {
            log::error!("Error writing to the AOF file: {error}");
        }
        self.failure = Some(Failure { retry_at: Uptime::now().plus_ms(RETRY_INTERVAL_MS) });
        note_failure(self.host, Some(reason));
    }

    /// Prepares the files for another attempt after a failure, if one is due. Returns whether writing can be tried.
    pub(super) fn recover(&mut self) -> bool {
        let Some(failure) = &mut self.failure else { return true };
        self.marks.forget();
        if Uptime::now() < failure.retry_at && !self.is_stopping {
            return false;
        }
        failure.retry_at = Uptime::now().plus_ms(RETRY_INTERVAL_MS);
        if !self.files.is_open() {
            return !self.is_stopping && self.restart_files();
        }
        if self.files.has_failed_sync() {
            if self.reader.as_ref().is_some_and(|reader| self.synced.lsn < reader.kept()) {
                // At the end there is no time for a snapshot. The file may well have these bytes: they are not cut off.
                return !self.is_stopping && self.begin_new_history();
            }
            if !self.roll_back() {
                return false;
            }
        } else if self.files.undo_append().is_err() {
            return false;
        }
        self.sync_now(sync_event(self.config.appendfsync)).is_ok()
    }

    /// Cuts the file at its synchronised size, and returns to that place in the log. Returns whether that was possible.
    fn roll_back(&mut self) -> bool {
        let Ok(cut_off) = self.files.rollback() else { return false };
        self.figures().size.fetch_sub(cut_off, Ordering::Relaxed);
        if let Some(reader) = &mut self.reader {
            reader.return_to(self.synced.lsn);
        }
        self.is_between_records = self.synced.is_between_records;
        self.annotated_at = 0;
        true
    }

    /// Begins a new history after this one has lost bytes: the present files stay in effect until the snapshot is
    /// complete. Returns whether writing continues.
    fn begin_new_history(&mut self) -> bool {
        self.has_gap = true;
        self.begin_anew();
        if !self.restart_files() {
            return false;
        }
        log::warn!("Starting a new AOF file with a snapshot, because the present one lacks changes.");
        true
    }

    /// Begins the files anew. Returns whether that is possible; if not, they are closed and the restart is due.
    pub(super) fn restart_files(&mut self) -> bool {
        self.files.close();
        self.marks.forget();
        match self.files.start() {
            Ok(()) => true,
            Err(error) => {
                self.fail(&Failed::Sync(error));
                false
            }
        }
    }

    /// Ends a failure after a successful write.
    pub(super) fn end_failure(&mut self) {
        if self.failure.take().is_some() && !self.has_gap {
            self.accept_writes();
        }
    }

    /// Notes that the files in effect have all changes.
    pub(super) fn close_gap(&mut self) {
        if std::mem::take(&mut self.has_gap) && self.failure.is_none() {
            self.accept_writes();
        }
    }

    /// Ends the refusal of commands that change data.
    fn accept_writes(&self) {
        log::warn!("AOF write error looks solved. The server can write again.");
        note_failure(self.host, None);
    }

    /// Ends the thread: writes and synchronises the rest, and closes the file.
    pub(super) fn end(mut self) {
        self.abandon_rewrite();
        if !self.completes_file() {
            match self.files.is_split() {
                true => log::error!(
                    "The AOF files are in two directories, because a rewrite in the new one did not end"
                ),
                false => log::error!("The AOF file ends without the last changes, because writing fails"),
            }
            self.control.note_lack();
        }
        // A torn write is cut off, if possible. After a failed synchronisation there is none.
        if self.failure.is_some() && self.files.is_open() {
            let _ = self.files.undo_append();
        }
        self.files.close();
        self.reader = None;
        show_end(self.host, &self.control);
    }

    /// Writes and synchronises everything that the log has now. Returns whether the files have all changes.
    fn completes_file(&mut self) -> bool {
        // A file whose first snapshot is not complete was closed with its rewrite.
        let end = self.reader.as_mut().filter(|_| self.files.is_open()).map(|reader| reader.complete_end());
        for _ in 0..END_TRY_COUNT {
            if self.failure.is_some() && !self.recover() {
                return false;
            }
            let Some(end) = end else { break };
            let written = self.write_to(end).and_then(|()| self.mark_end());
            match written.and_then(|()| self.sync_now(sync_event(self.config.appendfsync))) {
                Ok(()) => {
                    self.failure = None;
                    break;
                }
                Err(error) => self.fail(&error),
            }
        }
        self.failure.is_none() && !self.has_gap && !self.files.is_split()
    }

    fn write_to(&mut self, end: base::Lsn) -> Result<(), Failed> {
        while self.reader.as_ref().is_some_and(|reader| reader.lsn() < end) {
            if self.write()? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// The text of an error of the operating system, without its number.
fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

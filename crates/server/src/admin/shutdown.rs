//! The end of the server: on a signal or by `SHUTDOWN`, after a save if one is requested, every worker sends its output,
//! closes its connections and ends. The last one wakes the process's first thread, which cleans up.

use std::time::Duration;

use commands::error::CommandError;
use commands::host::ShutdownOptions;
use config::ShutdownFlags;
use os::clock::Uptime;
use sync::atomic::Ordering;

use crate::shared::Shared;
use crate::shared::pending_shutdown::Origin;
use crate::snapshot::SaveKind;

/// The origin of a shutdown.
pub enum Cause {
    /// A signal, with the flags of its directive.
    Signal(ShutdownFlags),
    /// `SHUTDOWN` of the client with this id.
    Command(ShutdownOptions, u64),
}

const CANNOT: CommandError = CommandError::new("ERR Errors trying to SHUTDOWN. Check logs.");
const NONE_IN_PROGRESS: CommandError = CommandError::new("ERR No shutdown in progress.");

/// For how long writes are paused while the data is saved. The end of the save ends the pause earlier.
const PAUSE_MS: i64 = i64::MAX / 4;

/// How long the end of the process waits for a cancelled snapshot to remove its file.
const CANCELLED_MS: i64 = 10_000;

impl Shared {
    /// Begins to end the server: at once, or after the data was saved. Returns whether the client, if any, gets a reply
    /// if that fails.
    pub fn shut_down(&'static self, cause: Cause) -> Result<bool, CommandError> {
        let (save, force, client) = match &cause {
            Cause::Signal(flags) if flags.save => (Some(true), flags.force, None),
            Cause::Signal(flags) if flags.nosave => (Some(false), flags.force, None),
            Cause::Signal(flags) => (None, flags.force, None),
            Cause::Command(options, client) => (options.save, options.force, Some(*client)),
        };
        log::warn!("User requested shutdown...");
        if self.is_loading() {
            log::warn!("Received shutdown during loading, exiting now.");
            self.end();
            return Ok(false);
        }
        // Before its first base is complete, the append-only file does not contain the data, but the next start loads it.
        let append_only = &self.persistence.append_only.figures;
        if self.config.load().appendonly && append_only.is_beginning.load(Ordering::Relaxed) {
            if !force {
                log::warn!("Writing initial AOF, can't exit.");
                return Err(CANNOT);
            }
            log::warn!("Writing initial AOF. Exit anyway.");
        }
        if !save.unwrap_or_else(|| !self.config.load().save.0.is_empty()) {
            self.end();
            return Ok(false);
        }
        if !self.modes.shutdown.begin(Origin { client, force }) {
            return Err(CANNOT);
        }
        log::warn!("Saving the final RDB snapshot before exiting.");
        let now = Uptime::now();
        self.modes.pause.begin(&self.modes.flags, now, now.plus_ms(PAUSE_MS), true);
        self.continue_shutdown();
        Ok(true)
    }

    /// Whether a shutdown is pending.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.modes.shutdown.is_pending()
    }

    /// Begins to save for a pending shutdown, when no other snapshot is being taken. Called every tick.
    pub fn continue_shutdown(&'static self) {
        if !self.is_shutting_down() || !self.modes.shutdown.begin_saving() {
            return;
        }
        if self.snapshots.is_busy() {
            self.snapshots.cancel();
            return self.modes.shutdown.save_again();
        }
        let then = |is_ok| self.end_shutdown(is_ok);
        if self.begin_save(SaveKind::Foreground, None, Box::new(then)).is_err() {
            self.modes.shutdown.save_again();
        }
    }

    /// Called when the data was saved for a shutdown, or could not be.
    fn end_shutdown(&self, is_saved: bool) {
        if is_saved && self.unsaved_changes() > 0 {
            // A request that was running when the pause began has changed data.
            return self.modes.shutdown.save_again();
        }
        let Some(origin) = self.modes.shutdown.take() else { return };
        if is_saved || origin.force {
            return self.end();
        }
        log::warn!("Error trying to save the DB, can't exit.");
        self.cancel_shutdown(origin);
    }

    /// `SHUTDOWN ABORT`
    pub fn abort_shutdown(&self) -> Result<(), CommandError> {
        let origin = self.modes.shutdown.take().ok_or(NONE_IN_PROGRESS)?;
        log::warn!("Shutdown manually aborted.");
        self.snapshots.cancel();
        self.cancel_shutdown(origin);
        Ok(())
    }

    fn cancel_shutdown(&self, origin: Origin) {
        self.end_pause();
        if let Some(client) = origin.client {
            self.answer_waiting(client, b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        }
    }

    fn end(&self) {
        self.snapshots.cancel();
        crate::process::supervisor::stopping();
        self.stop();
    }
}

/// Removes the files that the process has created.
pub fn clean_up(shared: &Shared) {
    let wait_deadline = Uptime::now().plus_ms(CANCELLED_MS);
    while shared.snapshots.is_busy() && Uptime::now() < wait_deadline {
        shared.snapshots.cancel();
        sync::thread::sleep(Duration::from_millis(1));
    }
    let config = shared.config.load();
    if let Some(path) = &shared.identity.pid_file {
        log::info!("Removing the pid file.");
        // An error is ignored: the file may be removed already.
        let _ = std::fs::remove_file(path);
    }
    if !config.unixsocket.is_empty() {
        let _ = std::fs::remove_file(&config.unixsocket);
    }
    log::warn!("Broadloom is now ready to exit, bye bye...");
}

//! The end of the server: on a signal or by `SHUTDOWN`, after replicas have all changes and the data was saved, if that is
//! requested, every worker sends its output,
//! closes its connections and ends. The last one wakes the process's first thread, which cleans up.

use std::time::Duration;

use commands::error::CommandError;
use commands::host::ShutdownOptions;
use config::ShutdownFlags;
use os::clock::Uptime;
use persist::snapshots::{SaveError, SaveKind};
use sync::atomic::Ordering;
use sync::simulation;

use crate::connection::token::Token;
use crate::mail::{BarrierRequest, Mail};
use crate::persistence::saving::{self, CutTime};
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;
use crate::shared::pause::{ENDLESS_MS, PauseReason};
use crate::shared::pending_shutdown::{Origin, WaitStep};

/// The origin of a shutdown.
pub enum Cause {
    /// A signal, with the flags of its directive.
    Signal(ShutdownFlags),
    /// `SHUTDOWN` of the client with this id.
    Command(ShutdownOptions, u64),
}

const CANNOT: CommandError = CommandError::new("ERR Errors trying to SHUTDOWN. Check logs.");
const NONE_IN_PROGRESS: CommandError = CommandError::new("ERR No shutdown in progress.");

/// How long the end of the process waits for commands that run: their clients have no reply, and their effects are not
/// logged. Several times as long as the output of clients may take.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the end of the process waits for a cancelled snapshot to remove its file.
const CANCELLED_MS: i64 = 10_000;

impl Shared {
    /// Begins to end the server: at once, or after replicas have all changes and the data was saved. Returns whether the
    /// client, if any, gets a reply if that fails.
    pub fn shut_down(&'static self, cause: Cause) -> Result<bool, CommandError> {
        let (save, force, now, client) = match &cause {
            Cause::Signal(flags) => {
                let save = (flags.save || flags.nosave).then_some(flags.save);
                (save, flags.force, flags.now, None)
            }
            Cause::Command(options, client) => (options.save, options.force, options.now, Some(*client)),
        };
        // A second signal ends a server that can't save its data.
        let force = force || client.is_none() && self.modes.shutdown.has_failed();
        log::warn!("User requested shutdown...");
        if self.modes.flags.is_set(GlobalFlags::LOADING) {
            log::warn!("Received shutdown during loading, exiting now.");
            self.end();
            return Ok(false);
        }
        let _transition = self.modes.shutdown.hold_transition();
        if !now && self.modes.shutdown.join(client) {
            return Ok(true);
        }
        let origin = Origin { clients: client.into_iter().collect(), save, force };
        let timeout_ms = i64::from(self.config.load().shutdown_timeout) * 1000;
        if !now && timeout_ms > 0 && !self.replication.replicas.is_empty() {
            let deadline = Uptime::now().plus_ms(timeout_ms);
            let number = self.modes.shutdown.begin_waiting(origin, deadline).ok_or(CANNOT)?;
            self.pause_writes();
            self.modes.shutdown.await_turns(number, self.workers.occupied());
            self.request_turns_for_shutdown();
            return Ok(true);
        }
        self.save_and_end(origin)
    }

    /// Requests the ends of the turns that are awaited.
    fn request_turns_for_shutdown(&self) {
        let exists = |worker| self.workers.handle(worker).is_occupied();
        let Some((number, workers)) = self.modes.shutdown.awaited_turns(exists) else { return };
        let request = BarrierRequest { connection: Token::SHUTDOWN, number };
        self.workers.request_turns(workers, Mail::PauseRequest, request);
    }

    /// Notes that a worker has ended a turn since a shutdown began to wait for replicas, and the scripts that may write.
    pub fn note_turn_for_shutdown(&'static self, number: u64, worker: usize) {
        if self.modes.shutdown.note_turn(number, worker) {
            self.continue_waiting();
        }
    }

    /// Whether each replica has acknowledged everything. One that receives a snapshot is not awaited while nothing follows it.
    fn have_replicas_all(&self) -> bool {
        let end = self.stream_end();
        self.replication.replicas.all().iter().all(|replica| replica.applied() >= end)
    }

    /// The end of the stream, with everything that is in the log.
    fn stream_end(&self) -> u64 {
        let _unlatched = self.keyspace.log.hold_unlatched();
        self.replication.feed.move_now()
    }

    fn pause_writes(&self) {
        let now = Uptime::now();
        let until = now.plus_ms(ENDLESS_MS);
        self.modes.pause.begin(&self.modes.flags, PauseReason::Shutdown, now, until, true);
    }

    /// Continues with a shutdown that waits for replicas, if they have everything or the time is over.
    fn continue_waiting(&'static self) {
        match self.modes.shutdown.continue_wait(Uptime::now(), || self.have_replicas_all()) {
            WaitStep::Wait => return,
            WaitStep::Begun => return log::info!("Waiting for replicas before shutting down."),
            WaitStep::Over => {}
        }
        let _transition = self.modes.shutdown.hold_transition();
        let Some(origin) = self.modes.shutdown.take_waiting() else { return };
        let clients = origin.clients.clone();
        if self.save_and_end(origin).is_err() {
            log::warn!("Errors trying to shut down the server. Check the logs for more information.");
            self.refuse_shutdown(&clients);
        }
    }

    /// Logs which replicas do not have everything.
    fn log_replicas(&self) {
        let replicas = self.replication.replicas.all();
        if replicas.is_empty() {
            return;
        }
        let (end, mut count) = (self.stream_end(), 0);
        for replica in &replicas {
            let offset = replica.applied();
            if offset >= end {
                count += 1;
                continue;
            }
            log::warn!(
                "Lagging replica {}:{} reported offset {offset}, {} behind the primary, state={}.",
                replica.address(),
                replica.declared.port,
                end - offset,
                replica.state_word()
            );
        }
        log::info!("{count} of {} replicas are in sync when shutting down.", replicas.len());
    }

    /// Ends the server at once, or after the data was saved.
    fn save_and_end(&'static self, origin: Origin) -> Result<bool, CommandError> {
        let is_signal = origin.clients.is_empty();
        self.log_replicas();
        // Before its first base is complete, the append-only file does not contain the data, but the next start loads it.
        let append_only = &self.persistence.append_only.figures;
        if self.config.load().appendonly && append_only.is_beginning.load(Ordering::Relaxed) {
            if !origin.force {
                log::warn!("Writing initial AOF, can't exit.");
                if is_signal {
                    self.note_signal_failure();
                }
                return Err(CANNOT);
            }
            log::warn!("Writing initial AOF. Exit anyway.");
            log::error!(
                "The append-only file has no base yet: the next start loads what was there before it was switched on, and the \
                 data of this server are LOST to it."
            );
            if is_signal {
                self.modes.shutdown.note_loss();
            }
        }
        if !origin.save.unwrap_or_else(|| !self.config.load().save.0.is_empty()) {
            self.end();
            return Ok(false);
        }
        if !self.modes.shutdown.begin(origin) {
            return Err(CANNOT);
        }
        log::warn!("Saving the final RDB snapshot before exiting.");
        self.pause_writes();
        self.continue_shutdown();
        Ok(true)
    }

    /// Continues with a pending shutdown: begins to save when no other snapshot is being taken. Called every tick.
    pub fn continue_shutdown(&'static self) {
        if !self.modes.shutdown.is_pending() {
            return;
        }
        // Their turns are awaited, and they hold latches that the snapshot needs.
        self.scripts.running.end_all(self.config.load().busy_reply_threshold);
        if self.modes.shutdown.deadline().is_some() {
            self.request_turns_for_shutdown();
            return self.continue_waiting();
        }
        // A load that began as the shutdown did: there is only a part of the data.
        if self.modes.flags.is_set(GlobalFlags::LOADING) {
            return;
        }
        let Some(number) = self.modes.shutdown.begin_saving() else { return };
        if self.snapshots.is_busy() {
            self.snapshots.cancel();
            return self.modes.shutdown.save_again(number);
        }
        let then = move |result| self.end_shutdown(number, result);
        if saving::begin(self, SaveKind::Foreground, CutTime::Soon, Box::new(then)).is_err() {
            self.modes.shutdown.save_again(number);
        }
    }

    /// Called when the data was saved for the shutdown with this number, or could not be.
    fn end_shutdown(&'static self, number: u64, result: Result<(), SaveError>) {
        if matches!(result, Err(SaveError::Cancelled)) {
            // By a load or a flush, whose request was running when the pause began.
            return self.modes.shutdown.save_again(number);
        }
        let is_saved = result.is_ok();
        if is_saved && saving::unsaved_changes(self) > 0 {
            // A request that was running when the pause began has changed data.
            return self.modes.shutdown.save_again(number);
        }
        let _transition = self.modes.shutdown.hold_transition();
        let Some(origin) = self.modes.shutdown.origin(number) else { return };
        let is_signal = origin.clients.is_empty();
        if !is_saved && origin.force {
            self.log_loss();
            if is_signal {
                self.modes.shutdown.note_loss();
            }
        }
        if is_saved || origin.force {
            // Before it is not pending any more: nothing may follow the position of the save.
            self.end();
            self.modes.shutdown.take();
            return;
        }
        self.modes.shutdown.take();
        log::warn!("Error trying to save the DB, can't exit.");
        if is_signal {
            self.note_signal_failure();
        }
        self.refuse_shutdown(&origin.clients);
    }

    fn note_signal_failure(&self) {
        self.modes.shutdown.note_failure();
        log::warn!("Another SIGTERM or SIGINT ends the server even if the data can't be saved.");
    }

    /// Ends a pending shutdown whose save is not awaited: the process exits.
    pub fn give_up_saving(&self) {
        // The end of its save then logs nothing more.
        if self.modes.shutdown.take().is_some() {
            self.log_loss();
        }
    }

    /// Logs what the end of the process loses.
    fn log_loss(&self) {
        let (changes, last_save) = (saving::unsaved_changes(self), self.snapshots.status.figures().last_save);
        let name = &self.config.load().dbfilename;
        if self.config.load().appendonly {
            log::warn!("{name} does not have the last {changes} changes, which are in the append-only file.");
        } else {
            log::warn!("The {changes} changes since {name} was saved at Unix time {last_save} are LOST.");
        }
    }

    /// `SHUTDOWN ABORT`
    pub fn abort_shutdown(&self) -> Result<(), CommandError> {
        let _transition = self.modes.shutdown.hold_transition();
        let (origin, is_saving) = self.modes.shutdown.take_with_save().ok_or(NONE_IN_PROGRESS)?;
        log::warn!("Shutdown manually aborted.");
        if is_saving {
            self.snapshots.cancel_dump();
        }
        self.refuse_shutdown(&origin.clients);
        Ok(())
    }

    fn refuse_shutdown(&self, clients: &[u64]) {
        self.end_pause(PauseReason::Shutdown);
        for client in clients {
            self.workers.answer(&self.clients, *client, b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        }
    }

    fn end(&'static self) {
        self.snapshots.cancel();
        crate::process::supervisor::stopping();
        self.stop();
        if simulation::is_simulated() {
            return;
        }
        let body = || {
            sync::thread::sleep(END_TIME_MAX);
            if self.pool.running() == 0 {
                return;
            }
            log::warn!("{} threads are still running a command. Exiting without them.", self.pool.running());
            self.pool.give_up();
        };
        // Without this thread the process ends with the last command.
        if let Err(error) = sync::thread::Builder::new().name("shutdown".to_owned()).spawn(body) {
            log::debug!("Can't limit the time of the shutdown: {error}");
        }
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

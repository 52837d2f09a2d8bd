//! `SAVE`, `BGSAVE`, save points, and the refusal of writes when saving fails.
//!
//! Snapshots themselves are in `snapshot.rs`.

use std::path::PathBuf;

use commands::error::CommandError;
use commands::session::{Session, SessionFlags};
use config::{Config, SavePoint};
use keyspace::Latched;
use os::clock;

use crate::mail::Mail;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;
use crate::snapshot::{Busy, Request, SaveError, SaveKind, Saved, Settings, Target};

/// Seconds after a failed save before save points are tried again.
const RETRY_SECONDS: i64 = 5;

const IN_PROGRESS: CommandError = CommandError::new("ERR Background save already in progress");
const OTHER_IN_PROGRESS: CommandError = CommandError::new(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a \
     BGSAVE whenever possible.",
);
const NOTHING_TO_CANCEL: CommandError =
    CommandError::new("ERR Background saving is currently not in progress or scheduled");

/// The function that receives the result of a save.
type Then = Box<dyn FnOnce(bool) + Send>;

impl Shared {
    /// The settings of a snapshot that begins now.
    #[must_use]
    pub fn snapshot_settings(&self) -> Settings {
        Settings::of(&self.config.load(), clock::unix_millis(), self.memory_of_snapshots())
    }

    /// The settings of the base of an append-only file that begins now.
    #[must_use]
    pub fn base_settings(&self) -> Settings {
        Settings::of_base(&self.config.load(), clock::unix_millis(), self.memory_of_snapshots())
    }

    /// The memory in use, and that of the machine.
    fn memory_of_snapshots(&self) -> (usize, u64) {
        (self.used_memory(), self.identity.system_memory)
    }

    /// Begins to save to the configured file: the present state if all latches are held (`data`), otherwise that
    /// of a cut that follows soon. `then` is called at the end, with whether it succeeded.
    pub fn begin_save(
        &'static self,
        kind: SaveKind,
        data: Option<&mut Latched<'_>>,
        then: Then,
    ) -> Result<(), Busy> {
        let config = self.config.load();
        let (directory, name) = (PathBuf::from(&config.dir), config.dbfilename.clone());
        let target = Target::Dump { directory, name, kind };
        let done = move |result| {
            self.note_saved(&result);
            then(result.is_ok());
        };
        let request = Request {
            target,
            settings: self.snapshot_settings(),
            at_cut: Box::new(|| ()),
            done: Box::new(done),
        };
        let _ = match data {
            Some(data) => self.snapshots.begin_now(data, request),
            None => self.snapshots.begin(request),
        }?;
        log::info!("Background saving started by pid {}", std::process::id());
        Ok(())
    }

    fn note_saved(&self, result: &Result<Saved, SaveError>) {
        match result {
            Ok(saved) => {
                self.modes.shutdown.clear_failure();
                log::info!("DB saved on disk: {} keys, {} bytes", saved.key_count, saved.size);
                log::info!("Background saving terminated with success");
            }
            Err(SaveError::Cancelled) => log::warn!("Background saving cancelled"),
            Err(error) => {
                log::warn!("Error saving DB on disk: {error}");
                log::warn!("Background saving error");
            }
        }
        self.guard_writes(&self.config.load());
    }

    /// Whether writes must be refused because the data could not be saved.
    pub fn refuses_unsaved(&self, config: &Config) -> bool {
        config.stop_writes_on_bgsave_error && !config.save.0.is_empty() && self.snapshots.status.has_failed()
    }

    /// Changes since the data was last saved.
    #[must_use]
    pub fn unsaved_changes(&self) -> u64 {
        let dirty = self.keyspace.counters.sum(|counters| &counters.dirty);
        self.snapshots.status.changes_since(dirty)
    }

    /// Begins a scheduled save, or one that a save point requires. Called every tick.
    pub fn save_if_due(&'static self) {
        let status = &self.snapshots.status;
        if self.snapshots.is_busy() || self.is_stopping() || self.is_shutting_down() || self.is_loading() {
            return;
        }
        if status.take_scheduled() {
            let waiting = status.take_waiting();
            let clients = waiting.clone();
            let then = move |_| self.answer_flushed(clients);
            if self.begin_save(SaveKind::Background, None, Box::new(then)).is_err() {
                // A snapshot that began just now goes first.
                status.schedule(true);
                waiting.into_iter().for_each(|client| status.await_scheduled(client));
            }
            return;
        }
        let now = clock::unix_millis() / 1000;
        let may_try = !status.has_failed() || now - status.last_try() > RETRY_SECONDS;
        let (changes, age) = (self.unsaved_changes(), now - status.figures().last_save);
        let config = self.config.load();
        let is_due = |point: &&SavePoint| {
            changes >= point.changes && age > i64::try_from(point.seconds).unwrap_or(i64::MAX)
        };
        if let Some(point) = config.save.0.iter().find(is_due).filter(|_| may_try && changes > 0) {
            log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            // Otherwise the next tick tries again.
            let _ = self.begin_save(SaveKind::Background, None, Box::new(|_| ()));
        }
    }

    fn answer_flushed(&self, clients: Vec<u64>) {
        clients.into_iter().for_each(|client| self.answer_waiting(client, b"+OK\r\n"));
    }

    /// Answers a connection that waits for the end of a save or of the server.
    pub fn answer_waiting(&self, client: u64, reply: &'static [u8]) {
        if let Some(record) = self.clients.find(client) {
            let place = record.place();
            self.workers.post(place.thread(), Mail::Answered(place, client, reply));
        }
    }

    /// `SAVE`
    pub(super) fn save(&'static self, data: &mut Latched<'_>, session: &Session) -> Result<(), CommandError> {
        let client = session.id;
        let then = move |is_ok| self.answer_waiting(client, if is_ok { b"+OK\r\n" } else { b"-ERR\r\n" });
        self.begin_save(SaveKind::Foreground, Some(data), Box::new(then)).map_err(|_| IN_PROGRESS)
    }

    /// `BGSAVE`
    pub(super) fn save_in_background(
        &'static self,
        data: &mut Latched<'_>,
        session: &Session,
        may_wait: bool,
    ) -> Result<&'static str, CommandError> {
        let status = &self.snapshots.status;
        if status.is_saving() {
            return Err(IN_PROGRESS);
        }
        let is_queued = session.flags.contains(SessionFlags::IN_EXEC);
        if !is_queued && self.begin_save(SaveKind::Background, Some(data), Box::new(|_| ())).is_ok() {
            return Ok("Background saving started");
        }
        if !may_wait && !is_queued {
            return Err(OTHER_IN_PROGRESS);
        }
        status.schedule(true);
        Ok("Background saving scheduled")
    }

    /// `BGSAVE CANCEL`
    pub(super) fn cancel_saving(&self) -> Result<&'static str, CommandError> {
        let status = &self.snapshots.status;
        if status.is_saving() {
            log::info!("Background saving will be aborted due to user request");
            self.snapshots.cancel_dump();
            return Ok("Background saving cancelled");
        }
        if status.take_scheduled() {
            log::info!("Scheduled background saving will be cancelled due to user request");
            self.answer_flushed(status.take_waiting());
            return Ok("Scheduled background saving cancelled");
        }
        Err(NOTHING_TO_CANCEL)
    }

    /// After `FLUSHALL`: cancels a save of the deleted data. With save points the file is replaced by an empty one, for which the
    /// client waits: otherwise the next start could load the deleted data. Returns whether it waits. In a transaction or a
    /// script it does not, nor if the next start loads the append-only file.
    pub(super) fn flushed_all(&'static self, data: &mut Latched<'_>, session: &Session) -> bool {
        let status = &self.snapshots.status;
        self.snapshots.cancel_dump();
        let config = self.config.load();
        if config.save.0.is_empty() {
            return false;
        }
        let is_part = session.flags.intersects(SessionFlags::IN_EXEC | SessionFlags::IN_SCRIPT);
        if is_part || config.appendonly || self.is_loading() || self.is_shutting_down() {
            status.schedule(true);
            return false;
        }
        let client = session.id;
        let then = move |_| self.answer_waiting(client, b"+OK\r\n");
        if self.begin_save(SaveKind::Background, Some(data), Box::new(then)).is_err() {
            // The cancelled save, or a rewrite, ends first.
            status.await_scheduled(client);
        }
        true
    }

    /// Sets whether writes are refused because the data could not be saved.
    pub(super) fn guard_saved(&self, config: &Config) {
        self.modes.flags.set(GlobalFlags::UNSAVED, self.refuses_unsaved(config));
    }
}

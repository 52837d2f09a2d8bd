//! `SAVE`, `BGSAVE`, save points, and the refusal of writes when saving fails.
//!
//! Snapshots themselves are in the crate `persist`.

use std::path::PathBuf;

use commands::error::CommandError;
use commands::session::{Session, SessionFlags};
use config::{Config, SavePoint};
use keyspace::Latched;
use os::clock;
use persist::snapshots::{
    Busy, FileOutput, Recipient, Request, SaveError, SaveKind, Saved, Settings, SnapshotPurpose,
};

use crate::disk;
use crate::persistence::append_only;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

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
type Then = Box<dyn FnOnce(Result<(), SaveError>) + Send>;

/// Which state of the data is saved.
pub enum CutTime<'a, 'b> {
    /// The present one: all latches are held.
    Now(&'a mut Latched<'b>),
    /// One that follows soon. If data are being loaded by then, the save is cancelled.
    Soon,
    /// One that follows soon, for a load that has changed nothing yet.
    BeforeLoad,
}

/// The settings of a snapshot that begins now.
#[must_use]
pub fn settings(shared: &Shared) -> Settings {
    Settings::of(&shared.config.load(), clock::unix_millis(), memory(shared))
}

/// The settings of the base of an append-only file that begins now.
#[must_use]
pub fn base_settings(shared: &Shared) -> Settings {
    Settings::of_base(&shared.config.load(), clock::unix_millis(), memory(shared))
}

/// The memory in use, and that of the machine.
fn memory(shared: &Shared) -> (usize, u64) {
    (shared.used_memory(), shared.identity.system_memory)
}

/// Begins to save to the configured file. `then` is called at the end.
pub fn begin(shared: &'static Shared, kind: SaveKind, cut: CutTime<'_, '_>, then: Then) -> Result<(), Busy> {
    let config = shared.config.load();
    let directory = PathBuf::from(&config.dir);
    let temporary = directory.join(format!("temp-{}.rdb", std::process::id()));
    let name = directory.join(&config.dbfilename);
    let syncs_early = config.rdb_save_incremental_fsync;
    let output = Box::new(FileOutput::new(disk::current(), temporary, Some(name), syncs_early));
    let done = Box::new(move |result: Result<_, _>| {
        note_end(shared, &result);
        then(result.map(drop));
    });
    let excludes_load = matches!(cut, CutTime::Soon);
    let request = Request {
        purpose: SnapshotPurpose::Dump(kind),
        recipients: vec![Recipient { output, done }],
        settings: settings(shared),
        at_cut: Box::new(move || {
            // A load that has begun in the meantime sets it before it acquires the latches.
            if excludes_load && shared.modes.flags.is_set(GlobalFlags::LOADING) {
                log::warn!("Nothing is saved: the data are being loaded");
                shared.snapshots.cancel_dump();
            }
            shared.stream_properties()
        }),
    };
    let _ = match cut {
        CutTime::Now(data) => shared.snapshots.begin_now(data, request),
        CutTime::Soon | CutTime::BeforeLoad => shared.snapshots.begin(request),
    }?;
    log::info!("Background saving started by pid {}", std::process::id());
    Ok(())
}

fn note_end(shared: &Shared, result: &Result<Saved, SaveError>) {
    match result {
        Ok(saved) => {
            shared.modes.shutdown.clear_failure();
            log::info!("DB saved on disk: {} keys, {} bytes", saved.key_count, saved.size);
            log::info!("Background saving terminated with success");
        }
        Err(SaveError::Cancelled) => log::warn!("Background saving cancelled"),
        Err(error) => {
            log::warn!("Error saving DB on disk: {error}");
            log::warn!("Background saving error");
        }
    }
    guard_writes(shared, &shared.config.load());
}

/// Changes since the data was last saved.
#[must_use]
pub fn unsaved_changes(shared: &Shared) -> u64 {
    let dirty = shared.keyspace.counters.sum(|counters| &counters.dirty);
    shared.snapshots.status.changes_since(dirty)
}

/// Begins a scheduled save, or one that a save point requires. Called every tick.
pub fn begin_if_due(shared: &'static Shared) {
    let status = &shared.snapshots.status;
    if shared.snapshots.is_busy()
        || shared.modes.is_stopping()
        || shared.modes.shutdown.is_pending()
        || shared.modes.is_loading()
    {
        return;
    }
    if status.take_scheduled() {
        let waiting = status.take_waiting();
        let clients = waiting.clone();
        let then = move |result| {
            if matches!(result, Err(SaveError::Cancelled)) && shared.modes.is_loading() {
                shared.snapshots.status.schedule(true);
            }
            answer_flushed(shared, clients);
        };
        if begin(shared, SaveKind::Background, CutTime::Soon, Box::new(then)).is_err() {
            // A snapshot that began just now goes first.
            status.schedule(true);
            waiting.into_iter().for_each(|client| status.await_scheduled(client));
        }
        return;
    }
    let now = clock::unix_millis() / 1000;
    let may_try = !status.has_failed() || now - status.last_try() > RETRY_SECONDS;
    let (changes, age) = (unsaved_changes(shared), now - status.figures().last_save);
    let config = shared.config.load();
    let is_due = |point: &&SavePoint| {
        changes >= point.changes && age > i64::try_from(point.seconds).unwrap_or(i64::MAX)
    };
    if let Some(point) = config.save.0.iter().find(is_due).filter(|_| may_try && changes > 0) {
        log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
        // Otherwise the next tick tries again.
        let _ = begin(shared, SaveKind::Background, CutTime::Soon, Box::new(|_| ()));
    }
}

fn answer_flushed(shared: &'static Shared, clients: Vec<u64>) {
    clients.into_iter().for_each(|client| shared.reply_when_freed(client));
}

/// `SAVE`
pub fn save(shared: &'static Shared, data: &mut Latched<'_>, session: &Session) -> Result<(), CommandError> {
    let client = session.id;
    let then = move |result: Result<_, _>| {
        shared.workers.answer(&shared.clients, client, if result.is_ok() { b"+OK\r\n" } else { b"-ERR\r\n" })
    };
    begin(shared, SaveKind::Foreground, CutTime::Now(data), Box::new(then)).map_err(|_| IN_PROGRESS)
}

/// `BGSAVE`
pub fn save_in_background(
    shared: &'static Shared,
    data: &mut Latched<'_>,
    session: &Session,
    may_wait: bool,
) -> Result<&'static str, CommandError> {
    let status = &shared.snapshots.status;
    if status.is_saving() {
        return Err(IN_PROGRESS);
    }
    let is_queued = session.flags.contains(SessionFlags::IN_EXEC);
    // A rewrite that is about to begin goes first, as `INFO` shows it already.
    let (_, is_rewriting) = append_only::rewrite_state(shared);
    let may_begin = !is_queued && !is_rewriting;
    if may_begin && begin(shared, SaveKind::Background, CutTime::Now(data), Box::new(|_| ())).is_ok() {
        return Ok("Background saving started");
    }
    if !may_wait && !is_queued {
        return Err(OTHER_IN_PROGRESS);
    }
    status.schedule(true);
    Ok("Background saving scheduled")
}

/// `BGSAVE CANCEL`
pub fn cancel(shared: &'static Shared) -> Result<&'static str, CommandError> {
    let status = &shared.snapshots.status;
    if status.is_saving() {
        log::info!("Background saving will be aborted due to user request");
        shared.snapshots.cancel_dump();
        return Ok("Background saving cancelled");
    }
    if status.take_scheduled() {
        log::info!("Scheduled background saving will be cancelled due to user request");
        answer_flushed(shared, status.take_waiting());
        return Ok("Scheduled background saving cancelled");
    }
    Err(NOTHING_TO_CANCEL)
}

/// After `FLUSHALL`: cancels a save of the deleted data. With save points the file is replaced by an empty one, for which the
/// client waits: otherwise the next start could load the deleted data. With `frees_first` it also waits until these are freed.
/// Returns whether it waits. In a transaction, a script or the stream of the primary it does not, nor if the next start loads the
/// append-only file.
pub fn flushed_all(
    shared: &'static Shared,
    data: &mut Latched<'_>,
    session: &Session,
    frees_first: bool,
) -> bool {
    let status = &shared.snapshots.status;
    shared.snapshots.cancel_dump();
    let config = shared.config.load();
    if config.save.0.is_empty() {
        return false;
    }
    if !session.may_block()
        || config.appendonly
        || shared.modes.is_loading()
        || shared.modes.shutdown.is_pending()
    {
        status.schedule(true);
        return false;
    }
    let client = session.id;
    let then = move |_| match frees_first {
        true => shared.reply_when_freed(client),
        false => shared.reply_ok(client),
    };
    if begin(shared, SaveKind::Background, CutTime::Now(data), Box::new(then)).is_err() {
        // The cancelled save, or a rewrite, ends first.
        status.await_scheduled(client);
    }
    true
}

/// Sets whether writes are refused because the data could not be saved.
pub fn guard_writes(shared: &Shared, config: &Config) {
    let has_failed = shared.snapshots.status.has_failed();
    let are_refused = config.stop_writes_on_bgsave_error && !config.save.0.is_empty() && has_failed;
    shared.modes.flags.set(GlobalFlags::UNSAVED, are_refused);
}

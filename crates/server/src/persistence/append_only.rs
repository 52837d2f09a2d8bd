//! The append-only file as a whole: opened at the start, switched on and off, ended with the server.
//!
//! The thread that writes it is a [`Writer`], to which the server is a [`WriterHost`](persist::writer::WriterHost).
//! Start reading at [`begin`].

mod host;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use commands::error::CommandError;
use config::Config;
use os::clock::Uptime;
use persist::append_only::{WriterControl, WriterMessage, WriterThread};
use persist::disk::DiskFile;
use persist::files::{AppendOnlyFiles, FilesError, Layout};
use persist::manifest::BaseFormat;
use persist::writer::{Purpose, READER, Writer, note_failure, show_beginning};
use rdb::{Checksum, Version};
use sync::atomic::Ordering;
use sync::write_log::Audience;

use super::all_latches::with_all_latches;
use crate::disk::{self, ServerDisk};
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// The version of an empty snapshot.
const EMPTY_VERSION: u16 = 11;

/// The end mark of a snapshot.
const END_MARK: u8 = 0xff;

/// The interval of attempts to begin the files, in a thread that waits for that.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which the written LSN is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// For how long the start waits for a former server to release the directory, in milliseconds, and how often it looks.
const LOCKED_MS: i64 = 2000;
const LOCKED_INTERVAL: Duration = Duration::from_millis(20);

const IN_PROGRESS: CommandError =
    CommandError::new("ERR Background append only file rewriting already in progress");
const CANT_REWRITE: CommandError = CommandError::new(
    "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
);

/// Why the append-only file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AppendOnlyError {
    /// Its files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Another operation.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The working directory, of which the directory of the append-only files is part. Absolute: `CONFIG SET dir` moves the files
/// with the next rewrite, not before.
pub(super) fn working_directory() -> PathBuf {
    if sync::simulation::is_simulated() {
        return PathBuf::new();
    }
    std::env::current_dir().unwrap_or_default()
}

/// Opens the directory of the append-only files, and locks it. Only the lock file is created.
///
/// # Errors
/// An invalid manifest, a missing file, the file system, or another process uses the directory.
pub fn open(config: &Config) -> Result<AppendOnlyFiles<ServerDisk>, FilesError> {
    AppendOnlyFiles::open(disk::current(), layout(config, working_directory()))
}

/// Where the files are, in this working directory.
#[must_use]
pub fn layout(config: &Config, parent: PathBuf) -> Layout {
    Layout {
        parent,
        directory: PathBuf::from(&config.appenddirname),
        stem: config.appendfilename.clone().into_bytes(),
    }
}

/// As [`open`], at the start: the former server of the directory may still be ending, so a locked directory is opened again
/// for a moment.
///
/// # Errors
/// As [`open`].
pub fn open_at_start(config: &Config) -> Result<AppendOnlyFiles<ServerDisk>, FilesError> {
    let deadline = Uptime::now().plus_ms(LOCKED_MS);
    let mut opened = open(config);
    if let Err(error @ FilesError::Locked { .. }) = &opened {
        log::warn!("Waiting for a moment: {error}");
    }
    while matches!(opened, Err(FilesError::Locked { .. })) && Uptime::now() < deadline {
        sync::thread::sleep(LOCKED_INTERVAL);
        opened = open(config);
    }
    opened
}

/// Begins to write the append-only file of a server that has loaded these files; without files it has no data.
/// No data changes meanwhile.
///
/// # Errors
/// Of the file system.
pub fn begin(shared: &'static Shared, mut files: AppendOnlyFiles<ServerDisk>) -> Result<(), AppendOnlyError> {
    if files.manifest().is_empty() {
        files.start()?;
        let mut base = files.create_base()?;
        let format = match shared.config.load().aof_use_rdb_preamble {
            true => {
                base.append(&empty_snapshot())?;
                BaseFormat::Rdb
            }
            false => BaseFormat::Requests,
        };
        files.finish_rewrite(base, format)?;
        log::info!("Creating AOF base file on server start");
    } else {
        files.resume()?;
    }
    if !shared.config.load().aof_disable_auto_gc {
        files.remove_history()?;
    }
    start_writer(shared, files)
}

/// Attaches the writer to the log. Until then nothing is logged.
fn start_writer(shared: &'static Shared, files: AppendOnlyFiles<ServerDisk>) -> Result<(), AppendOnlyError> {
    let log = &shared.keyspace.log;
    let reader = with_all_latches(shared, || {
        log.forget_database();
        log.attach(READER, Audience::File)
    });
    let reader = reader.ok_or_else(|| io::Error::other("the write log has too many readers"))?;
    Ok(Writer::start(shared, files, reader)?)
}

/// Switches the append-only file on while the server runs. It begins with a snapshot; until that is complete, former files
/// stay in effect.
///
/// # Errors
/// Of the file system.
pub fn switch_on(shared: &'static Shared, config: &Config) -> Result<(), AppendOnlyError> {
    let _changing = shared.persistence.append_only.lock_changes();
    begin_with_snapshot(shared, config, Purpose::SwitchOn)
}

/// Starts a thread that begins with a snapshot. If the thread before is still ending, for example because a
/// synchronisation hangs, the new one waits for it, and errors of the file system are logged by then. The caller holds the lock
/// of changes.
fn begin_with_snapshot(
    shared: &'static Shared,
    config: &Config,
    purpose: Purpose,
) -> Result<(), AppendOnlyError> {
    let append_only = &shared.persistence.append_only;
    let started = match append_only.take_thread() {
        Some(former) if !former.is_finished() => {
            append_only.figures.note_rewrite_requested();
            let config = config.clone();
            Writer::start_later(shared, purpose, move |control| {
                open_after(shared, former, &config, purpose, control)
            })
        }
        former => {
            former.map(|former| former.join(append_only, shared.keyspace.log.end()));
            append_only.clear_orders();
            let mut files = open(config)?;
            purpose.start(&mut files)?;
            append_only.figures.note_rewrite_requested();
            Writer::start_with_snapshot(shared, files, purpose)
        }
    };
    Ok(started.inspect_err(|_| append_only.figures.forget_rewrites_requested())?)
}

/// Waits for the end of a thread, and begins its successor's files. Tries again while the file system does not allow
/// it, and refuses writes meanwhile. `None`: the successor must end before.
fn open_after(
    shared: &'static Shared,
    former: WriterThread,
    config: &Config,
    purpose: Purpose,
    control: &WriterControl,
) -> Option<AppendOnlyFiles<ServerDisk>> {
    let append_only = &shared.persistence.append_only;
    former.join(append_only, shared.keyspace.log.end());
    append_only.clear_orders();
    if purpose != Purpose::AfterFailure {
        // Replies to what came after its end wait for no file.
        append_only.release_replies(shared.keyspace.log.end());
    }
    if !control.is_stopping() {
        // The former thread may have shown its end when its successor had not taken its place yet.
        show_beginning(shared, 0, true);
    }
    append_only.figures.begin_with_rewrite();
    let accept_writes = || {
        if purpose != Purpose::AfterFailure {
            note_failure(shared, None);
        }
    };
    accept_writes();
    let mut is_logged = false;
    while !control.is_stopping() {
        let begun = open(config).and_then(|mut files| purpose.start(&mut files).map(|()| files));
        match begun {
            Ok(files) => {
                accept_writes();
                return Some(files);
            }
            Err(error) => {
                if !std::mem::replace(&mut is_logged, true) {
                    log::error!("The append-only file can't be begun: {error}");
                }
                if purpose == Purpose::BaseOnly {
                    break;
                }
                note_failure(shared, Some(error.to_string()));
            }
        }
        append_only.wait_for_message(RETRY_INTERVAL);
    }
    None
}

/// Whether a rewrite of the append-only file waits, and whether one is going on: (scheduled, going on). One that waits for
/// no other snapshot, or for one that was cancelled, begins soon and counts as going on.
#[must_use]
pub fn rewrite_state(shared: &Shared) -> (bool, bool) {
    let figures = &shared.persistence.append_only.figures;
    // The requests are read first: one that begins in the meantime is seen as such.
    let is_wanted = figures.is_rewrite_requested() || figures.is_rewrite_scheduled.load(Ordering::Relaxed);
    let begins_soon = is_wanted && !shared.snapshots.is_going_on();
    let is_going_on = figures.is_rewriting.load(Ordering::Relaxed) || begins_soon;
    (is_wanted && !is_going_on, is_going_on)
}

/// `BGREWRITEAOF`: returns the status. As in Redis, a rewrite that a transaction requests counts as scheduled.
///
/// # Errors
/// A rewrite is under way, or an operation of the file system failed.
pub fn request_rewrite(shared: &'static Shared, is_queued: bool) -> Result<&'static str, CommandError> {
    let _changing = shared.persistence.append_only.lock_changes();
    let figures = &shared.persistence.append_only.figures;
    let is_other_busy = shared.snapshots.is_going_on();
    if figures.is_rewriting.load(Ordering::Relaxed) || (figures.is_rewrite_requested() && !is_other_busy) {
        return Err(IN_PROGRESS);
    }
    if fails_for_good(shared) {
        begin_elsewhere(shared)?;
    } else if figures.is_on.load(Ordering::Relaxed) && !figures.is_ending.load(Ordering::Acquire) {
        figures.note_rewrite_requested();
        shared
            .persistence
            .append_only
            .send(WriterMessage::Rewrite { is_rdb: shared.config.load().aof_use_rdb_preamble });
    } else {
        write_once(shared).map_err(|error| {
            log::error!("Can't rewrite the append-only file: {error}");
            CANT_REWRITE
        })?;
    }
    Ok(match is_other_busy || is_queued {
        true => "Background append only file rewriting scheduled",
        false => "Background append only file rewriting started",
    })
}

/// Whether writing fails to files that are in effect, so that they can't be written up to the cut of a rewrite.
fn fails_for_good(shared: &Shared) -> bool {
    let is_beginning = shared.persistence.append_only.figures.is_beginning.load(Ordering::Relaxed);
    shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED) && !is_beginning
}

/// Begins the file anew in the working directory, because the one in another directory can't be written.
///
/// # Errors
/// It can't be written in the working directory, or nothing can be begun there.
fn begin_elsewhere(shared: &'static Shared) -> Result<(), CommandError> {
    let append_only = &shared.persistence.append_only;
    if append_only.is_home(&working_directory()) {
        let reason = append_only.failure().unwrap_or_default();
        log::error!("The append-only file can't be rewritten, because writing fails: {reason}");
        append_only.figures.rewrite_failed.store(true, Ordering::Relaxed);
        return Err(CANT_REWRITE);
    }
    log::warn!("Starting a new AOF file in another directory, because the present one can't be written.");
    begin_with_snapshot(shared, &shared.config.load(), Purpose::AfterFailure).map_err(|error| {
        log::error!("The append-only file can't be begun: {error}");
        CANT_REWRITE
    })
}

/// Writes the base of an append-only file that is switched off. As in Redis there is no increment behind it.
fn write_once(shared: &'static Shared) -> Result<(), AppendOnlyError> {
    begin_with_snapshot(shared, &shared.config.load(), Purpose::BaseOnly)
}

/// Switches the append-only file off. The log up to now is written and synchronised soon.
pub fn switch_off(shared: &Shared) {
    shared.persistence.append_only.switch_off(|| shared.keyspace.log.end());
}

/// Waits until the log up to now is in the file, if there is one, unless writing fails.
pub fn await_written(shared: &Shared) {
    let (log, append_only) = (&shared.keyspace.log, &shared.persistence.append_only);
    let end = log.end();
    while append_only.figures.is_on.load(Ordering::Acquire)
        && !shared.modes.is_stopping()
        && append_only.figures.written.load(Ordering::Acquire) < end.0
        && append_only.failure().is_none()
    {
        sync::thread::sleep(CHECK_INTERVAL);
    }
}

/// Ends the append-only file: writes and synchronises the log up to now. Blocks until then. Returns whether the file has
/// all changes.
pub fn end(shared: &Shared) -> bool {
    shared.persistence.append_only.end(shared.keyspace.log.end())
}

/// A snapshot without data.
fn empty_snapshot() -> Vec<u8> {
    let version = Version::of_number(EMPTY_VERSION).expect("a known version");
    let mut bytes = version.header();
    bytes.push(END_MARK);
    bytes.extend(Checksum::of(&bytes).to_le_bytes());
    bytes
}

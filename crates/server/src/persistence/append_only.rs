//! The append-only file as a whole: opened at the start, switched on and off, ended with the server.
//!
//! Start reading at [`begin`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use commands::error::CommandError;
use config::Config;
use persist::disk::DiskFile;
use persist::files::{AppendOnlyFiles, FilesError, Layout};
use persist::manifest::BaseFormat;
use rdb::{Checksum, Version};
use sync::atomic::Ordering;
use sync::thread::JoinHandle;

use super::all_latches::with_all_latches;
use super::writer::Writer;
use crate::disk::{self, ServerDisk};
use crate::shared::Shared;
use crate::shared::persistence::WriterMessage;

/// The token of the file's reader of the write log.
pub(super) const READER: u64 = 0;

/// The version of an empty snapshot.
const EMPTY_VERSION: u16 = 11;

/// The end mark of a snapshot.
const END_MARK: u8 = 0xff;

/// The interval at which the written LSN is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

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

/// Opens the directory of the append-only files. Nothing is created.
///
/// # Errors
/// An invalid manifest, a missing file, or the file system.
pub fn open(config: &Config) -> Result<AppendOnlyFiles<ServerDisk>, FilesError> {
    let layout = Layout {
        parent: PathBuf::new(),
        directory: PathBuf::from(&config.appenddirname),
        stem: config.appendfilename.clone().into_bytes(),
    };
    AppendOnlyFiles::open(disk::current(), layout)
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
        log.attach(READER)
    });
    let reader = reader.ok_or_else(|| io::Error::other("the write log has too many readers"))?;
    shared.persistence.append_only.keep_thread(Writer::start(shared, files, Some(reader))?);
    Ok(())
}

/// Switches the append-only file on while the server runs. It begins with a snapshot; until that is complete, former files
/// stay in effect.
///
/// # Errors
/// Of the file system.
pub fn switch_on(shared: &'static Shared, config: &Config) -> Result<(), AppendOnlyError> {
    let mut files = reopen(shared, config)?;
    files.start()?;
    keep_rewriting(shared, || Writer::start(shared, files, None))
}

/// Opens the files after those of a thread that was ordered to stop, which may still be synchronising.
fn reopen(shared: &Shared, config: &Config) -> Result<AppendOnlyFiles<ServerDisk>, FilesError> {
    end(shared);
    shared.persistence.append_only.clear_orders();
    open(config)
}

/// Starts a thread that begins with a snapshot.
fn keep_rewriting(
    shared: &'static Shared,
    start: impl FnOnce() -> io::Result<JoinHandle<()>>,
) -> Result<(), AppendOnlyError> {
    let append_only = &shared.persistence.append_only;
    append_only.figures.note_rewrite_requested();
    append_only.keep_thread(start().inspect_err(|_| append_only.figures.forget_rewrites_requested())?);
    Ok(())
}

/// `BGREWRITEAOF`: returns the status. As in Redis, a rewrite that a transaction requests counts as scheduled.
///
/// # Errors
/// A rewrite is under way, or an operation of the file system failed.
pub fn request_rewrite(shared: &'static Shared, is_queued: bool) -> Result<&'static str, CommandError> {
    let figures = &shared.persistence.append_only.figures;
    let is_other_busy = shared.snapshots.is_going_on();
    if figures.is_rewriting.load(Ordering::Relaxed) || (figures.is_rewrite_requested() && !is_other_busy) {
        return Err(IN_PROGRESS);
    }
    if figures.is_on.load(Ordering::Relaxed) && !figures.is_ending.load(Ordering::Acquire) {
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

/// Writes the base of an append-only file that is switched off. As in Redis there is no increment behind it.
fn write_once(shared: &'static Shared) -> Result<(), AppendOnlyError> {
    let mut files = reopen(shared, &shared.config.load())?;
    files.start_base_only()?;
    keep_rewriting(shared, || Writer::start_base_only(shared, files))
}

/// Switches the append-only file off. The log up to now is written and synchronised soon.
pub fn switch_off(shared: &Shared) {
    shared.persistence.append_only.figures.is_ending.store(true, Ordering::Release);
    shared.persistence.append_only.send(WriterMessage::Stop);
}

/// Waits until the log up to now is in the file, unless writing fails.
pub fn await_written(shared: &Shared) {
    let (log, append_only) = (&shared.keyspace.log, &shared.persistence.append_only);
    let end = log.end();
    while log.is_on()
        && append_only.figures.written.load(Ordering::Acquire) < end.0
        && append_only.failure().is_none()
    {
        sync::thread::sleep(CHECK_INTERVAL);
    }
}

/// Ends the append-only file: writes and synchronises the log up to now. Blocks until then.
pub fn end(shared: &Shared) {
    if let Some(thread) = shared.persistence.append_only.take_thread() {
        shared.persistence.append_only.send(WriterMessage::Stop);
        if thread.join().is_err() {
            log::error!("The append-only thread has panicked");
        }
    }
}

/// A snapshot without data.
fn empty_snapshot() -> Vec<u8> {
    let version = Version::of_number(EMPTY_VERSION).expect("a known version");
    let mut bytes = version.header();
    bytes.push(END_MARK);
    bytes.extend(Checksum::of(&bytes).to_le_bytes());
    bytes
}

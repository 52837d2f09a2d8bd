//! Loading of RDB files and append-only files.
//!
//! | function | loads |
//! |---|---|
//! | [`load_rdb`] | an RDB file |
//! | [`load_append_only`] | the files of an append-only directory |
//! | [`reload::begin`] | either, while the server runs, in place of its data (`DEBUG RELOAD`, `DEBUG LOADAOF`) |
//! | [`replacing::replace_by`], [`replacing::load_beside`] | the snapshot of a primary, from a file or while it is received |
//! | [`load_at_start`] | the configured files: the append-only directory, or the dump file |
//!
//! ```text
//! let mut files = AppendOnlyFiles::open(disk::current(), layout)?;      // or none, without `appendonly`
//! loading::load_at_start(shared, Some(&mut files))?;
//! files.resume()?;                                                 // the last file is cut at its valid end
//! Loading::end(&shared.modes.flags);
//! ```
//!
//! Called on a thread other than a worker. Between [`Loading::begin`] and [`Loading::end`], which the caller
//! calls, the workers serve only commands with the flag `LOADING`; nothing is expired or evicted. Loaded data is not logged,
//! sends no events and does not count as a change. The functions log their progress and errors.
//!
//! Owns no data. Touches the keyspace through latchings of its own, with thread numbers above those of the workers.
//! Start reading at [`load_at_start`], then `loading/rdb_file.rs` and `loading/append_only_files.rs`.

mod append_only_files;
mod clearing;
mod delay;
mod deletions;
mod insert;
mod progress;
mod queue;
mod rdb_file;
pub mod received;
pub mod reload;
pub mod replacing;
mod source;

use std::io;
use std::path::Path;
use std::time::Duration;

use base::DbIndex;
use os::clock::Ticks;
use persist::disk::Disk;
use persist::files::AppendOnlyFiles;
use persist::stream::StreamReader;
use replication::ReplicationId;
use sync::atomic::Ordering;

use self::source::RdbSource;
use crate::disk::{self, FileReader, ServerDisk};
use crate::scripts::libraries::Libraries;
use crate::shared::Shared;
use crate::shared::loading::StreamPosition;
pub use append_only_files::load_append_only;
pub use rdb_file::{RdbError, RdbFault, RdbOptions};

/// The time until a busy latch is tried again.
const BUSY_WAIT: Duration = Duration::from_micros(50);

/// Files cannot be loaded. The reason is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadFailed;

/// Loads the append-only files, or without `appendonly` the dump file, at the start of the server.
///
/// # Errors
/// The files are not valid or can't be read; the server must not serve.
pub fn load_at_start(
    shared: &'static Shared,
    files: Option<&mut AppendOnlyFiles<ServerDisk>>,
) -> Result<(), LoadFailed> {
    let started = Ticks::now();
    let loaded = match files {
        // As in Redis, the dump file is not loaded in place of a missing append-only file.
        Some(files) => load_append_only(shared, files).map(|stream| {
            if let Some(position) = stream.and_then(|stream| position_in(shared, &stream)) {
                let _ = shared.loading.position.set(position);
            }
            stream.map(|_| "append only file")
        }),
        None => {
            let path = Path::new(&shared.config.load().dbfilename).to_owned();
            // Replicas, or the primary, have the expired keys until they are deleted in the stream.
            let position = disk::current()
                .open(&path)
                .ok()
                .and_then(|file| rdb_file::stream_position(shared, &mut FileReader::new(file)));
            let mut options = RdbOptions::default();
            if let Some(position) = position {
                let _ = shared.loading.position.set(position);
                match shared.config.load().replicaof.0.is_some() {
                    true => options.keeps_expired = true,
                    false => {
                        shared.continue_stream(&position);
                        options.deletes_expired = true;
                    }
                }
            }
            load_rdb(shared, &path, options).map(|is_there| is_there.then_some("disk"))
        }
    };
    match loaded {
        Ok(Some(source)) => log::info!("DB loaded from {source}: {:.3} seconds", seconds_since(started)),
        Ok(None) => {}
        Err(LoadFailed) if shared.modes.is_stopping() => return Err(LoadFailed),
        Err(LoadFailed) => {
            log::error!(
                "Terminating server after rdb file reading failure. Fatal error loading the DB, check server logs. \
                 Exiting."
            );
            return Err(LoadFailed);
        }
    }
    Ok(())
}

/// The position of the data of append-only files. A replica must know the database that the stream has selected.
fn position_in(shared: &Shared, stream: &StreamReader) -> Option<StreamPosition> {
    let (at, db) = stream.position()?;
    let db = db.and_then(|db| u16::try_from(db).ok()).map(DbIndex);
    let db = db.filter(|db| usize::from(db.0) < shared.keyspace.db_count());
    if db.is_none() && shared.config.load().replicaof.0.is_some() {
        return None;
    }
    Some(StreamPosition { id: ReplicationId::parse(&at.id)?, offset: at.offset, db: db.unwrap_or_default() })
}

/// Loads an RDB file. Returns whether there is one.
///
/// # Errors
/// The file is not valid or can't be read. Some of its keys may be loaded.
pub fn load_rdb(shared: &'static Shared, path: &Path, options: RdbOptions) -> Result<bool, LoadFailed> {
    let name = path.display();
    let mut file = match disk::current().open(path) {
        Ok(file) => FileReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            log::error!("Fatal error: can't open the RDB file {name} for reading: {error}");
            return Err(LoadFailed);
        }
    };
    load_source(shared, &mut file, &name.to_string(), options, &shared.scripts.libraries).map(|()| true)
}

/// Loads an RDB file with this name in the log, and its functions into `libraries`.
///
/// # Errors
/// The file is not valid or can't be read. Some of its keys may be loaded.
fn load_source(
    shared: &'static Shared,
    source: &mut dyn RdbSource,
    name: &str,
    options: RdbOptions,
    libraries: &Libraries,
) -> Result<(), LoadFailed> {
    shared.loading.begin(&shared.modes.flags, source.total_size().unwrap_or(0));
    let loaded = rdb_file::load(shared, source, options, libraries);
    loaded.map(|_| log_loaded(shared)).map_err(|error| {
        log_rdb_error(name, &error);
        LoadFailed
    })
}

/// Whether an RDB file exists and begins with the header of a version that can be loaded.
fn has_known_header(shared: &Shared, path: &Path) -> bool {
    let name = path.display().to_string();
    let opened = disk::current().open(path);
    let result = opened.map_err(|error| RdbError { fault: error.into(), offset: 0, key: None });
    let result = result.and_then(|file| rdb_file::check_header(shared, &mut FileReader::new(file)));
    result.inspect_err(|error| log_rdb_error(&name, error)).is_ok()
}

fn log_loaded(shared: &Shared) {
    let count = |counter: &sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let loading = &shared.loading;
    let empty = match count(&loading.empty_key_count) {
        0 => String::new(),
        count => format!(", empty keys skipped: {count}"),
    };
    log::info!(
        "Done loading RDB, keys loaded: {}, keys expired: {}{empty}.",
        count(&loading.loaded_key_count),
        count(&loading.expired_key_count)
    );
}

/// Logs why an RDB file can't be loaded, with Redis's text where one exists.
fn log_rdb_error(name: &str, error: &RdbError) {
    let RdbError { fault, offset, key } = error;
    let of_key = key.as_ref().map(|key| format!(", key \"{}\"", key.escape_ascii())).unwrap_or_default();
    let reason = match fault {
        RdbFault::Stopped => return,
        RdbFault::Format(rdb::Fault::Checksum) => "RDB CRC error".to_owned(),
        RdbFault::Format(rdb::Fault::Truncated) => {
            log::error!("Short read or OOM loading DB. Unrecoverable error, aborting now.");
            "Unexpected EOF reading RDB file".to_owned()
        }
        RdbFault::Format(rdb::Fault::Magic) => "Wrong signature trying to load DB from file".to_owned(),
        RdbFault::Format(rdb::Fault::Version(number)) => format!("Can't handle RDB format version {number}"),
        RdbFault::Format(rdb::Fault::UnknownType(value_type)) => format!(
            "Unknown type or opcode when loading DB. Unrecoverable error, aborting now. The type is {value_type}"
        ),
        RdbFault::Format(rdb::Fault::Module) => "The RDB file contains module data I can't load".to_owned(),
        other => other.to_string(),
    };
    log::error!("Internal error in RDB reading offset {offset} of {name}{of_key} -> {reason}");
    if matches!(fault, RdbFault::Value { .. }) {
        log::error!("A value's integrity check failed: broadloom check-rdb reports on the whole file");
    }
}

fn seconds_since(started: Ticks) -> f64 {
    Ticks::now().ns_since(started) as f64 / 1e9
}

/// Waits for a latch that a worker's command or another decoder holds.
fn wait_a_moment() {
    sync::thread::sleep(BUSY_WAIT);
}

//! Loading of RDB files and append-only files.
//!
//! | function | loads |
//! |---|---|
//! | [`load_rdb`] | an RDB file |
//! | [`load_append_only`] | the files of an append-only directory |
//! | [`reload::begin`] | either, while the server runs, in place of its data (`DEBUG RELOAD`, `DEBUG LOADAOF`) |
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
mod delay;
mod insert;
mod progress;
mod queue;
mod rdb_file;
pub mod reload;

use std::io;
use std::path::Path;
use std::time::Duration;

use os::clock::Ticks;
use persist::disk::Disk;
use persist::files::AppendOnlyFiles;
use sync::atomic::Ordering;

use crate::disk::{self, FileReader, ServerDisk};
use crate::shared::Shared;
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
        Some(files) => load_append_only(shared, files).map(|is_there| is_there.then_some("append only file")),
        None => {
            let path = Path::new(&shared.config.load().dbfilename).to_owned();
            load_rdb(shared, &path, RdbOptions::default()).map(|is_there| is_there.then_some("disk"))
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
    shared.loading.begin(&shared.modes.flags, file.size().unwrap_or(0));
    match rdb_file::load(shared, &mut file, options) {
        Ok(_) => {
            log_loaded(shared);
            Ok(true)
        }
        Err(error) => {
            log_rdb_error(&name.to_string(), &error);
            Err(LoadFailed)
        }
    }
}

/// Whether an RDB file exists and begins with the header of a version that can be loaded.
fn has_known_header(shared: &Shared, path: &Path) -> bool {
    let name = path.display().to_string();
    let opened = disk::current().open(path);
    let result = opened.map_err(|error| RdbError { fault: error.into(), offset: 0, key: None });
    let result = result.and_then(|file| rdb_file::check_header(shared, FileReader::new(file)));
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

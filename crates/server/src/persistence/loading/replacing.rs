//! Loading the snapshot of a primary in place of the data.
//!
//! | way | the data before | if the load fails |
//! |---|---|---|
//! | [`replace_by`] | are deleted first | there are none |
//! | [`load_beside`], then [`StagedData::swap_in`] | are shown until then | stay |
//!
//! Beside the present data, the keys are loaded into databases that no request can select.

use std::path::Path;

use sync::atomic::Ordering;

use super::clearing::{Flush, free_later, latched, unlogged};
use super::received::ReceivedSnapshot;
use super::{
    LoadFailed, RdbError, RdbOptions, has_known_header, load_rdb, load_source, log_rdb_error, rdb_file,
};
use crate::scripts::libraries::Libraries;
use crate::shared::Shared;

/// The name of a snapshot without a file in the log.
const SOCKET: &str = "the primary's connection";

const LOADING: &str = "PRIMARY <-> REPLICA sync: Loading DB in memory";

/// A snapshot of a primary.
pub enum Snapshot<'a> {
    /// A complete file.
    File(&'a Path),
    /// It is received meanwhile.
    Received(&'a mut ReceivedSnapshot),
}

/// Data that are loaded beside the present ones. If it is dropped, they are deleted.
pub struct StagedData {
    shared: &'static Shared,
    libraries: Libraries,
    /// Whether the databases beside the present ones may have keys.
    has_keys: bool,
}

impl Snapshot<'_> {
    /// Whether its version can be loaded. If not, the reason is logged.
    pub fn has_known_version(&mut self, shared: &Shared) -> bool {
        match self {
            Self::File(path) => has_known_header(shared, path),
            Self::Received(snapshot) => {
                let header = rdb_file::check_header(shared, &mut **snapshot);
                header.inspect_err(|error| log_rdb_error(SOCKET, error)).is_ok()
            }
        }
    }
}

/// Loads a snapshot of a known version in place of all data. The caller has set `LOADING`.
///
/// # Errors
/// It can't be loaded. There are no data then.
pub fn replace_by(shared: &'static Shared, snapshot: Snapshot<'_>) -> Result<(), LoadFailed> {
    let lazy = shared.config.load().replica_lazy_flush;
    let flush = if lazy { Flush::Later } else { Flush::Now };
    shared.loading.stream_db.store(-1, Ordering::Relaxed);
    let options = RdbOptions { keeps_expired: true, yields_cpu: true, ..RdbOptions::default() };
    let loaded = match snapshot {
        Snapshot::File(path) => {
            log::info!("PRIMARY <-> REPLICA sync: Flushing old data");
            log::info!("{LOADING}");
            unlogged(shared, flush, || load_rdb(shared, path, options).is_ok_and(|is_there| is_there))
        }
        Snapshot::Received(snapshot) => {
            log::info!("PRIMARY <-> REPLICA sync: Flushing old data");
            log::info!("{LOADING}");
            let load = || load_received(shared, snapshot, options, &shared.scripts.libraries).is_ok();
            unlogged(shared, flush, load)
        }
    };
    if loaded {
        return Ok(());
    }
    log::info!("PRIMARY <-> REPLICA sync: Discarding the half-loaded data");
    unlogged(shared, flush, || ());
    Err(LoadFailed)
}

/// Loads a snapshot beside the data. The caller has set `LOADING`, or `ASYNC_LOADING` if requests use the data meanwhile.
///
/// # Errors
/// It can't be loaded. The data are as before.
pub fn load_beside(
    shared: &'static Shared,
    snapshot: &mut ReceivedSnapshot,
) -> Result<StagedData, LoadFailed> {
    log::info!("{LOADING}");
    shared.loading.stream_db.store(-1, Ordering::Relaxed);
    let options = RdbOptions { keeps_expired: true, is_beside: true, ..RdbOptions::default() };
    let staged = StagedData { shared, libraries: Libraries::default(), has_keys: true };
    let loaded = load_received(shared, snapshot, options, &staged.libraries);
    loaded.map(|()| staged).inspect_err(|_| {
        log::info!("PRIMARY <-> REPLICA sync: Discarding temporary DB in background");
    })
}

impl StagedData {
    /// Makes these data and functions those of the server, and calls `then` under all latches. The former ones are freed in the
    /// background.
    pub fn swap_in(mut self, then: impl FnOnce()) {
        let shared = self.shared;
        log::info!("PRIMARY <-> REPLICA sync: Swapping active DB with loaded DB");
        let former = latched(shared, |latching| {
            shared.keyspace.log.note_divergence();
            shared.scripts.libraries.replace_by(&self.libraries);
            let former = latching.swap_in_staged();
            then();
            former
        });
        self.has_keys = false;
        shared.hub.invalidate_all();
        log::info!("PRIMARY <-> REPLICA sync: Discarding old DB in background");
        free_later(shared, former);
    }
}

impl Drop for StagedData {
    fn drop(&mut self) {
        if self.has_keys {
            let cleared = latched(self.shared, |latching| latching.clear_staged());
            // It forgets which clients have read which keys, of all databases.
            self.shared.hub.invalidate_all();
            free_later(self.shared, cleared);
        }
    }
}

/// Loads a snapshot that is received meanwhile, up to its end.
fn load_received(
    shared: &'static Shared,
    snapshot: &mut ReceivedSnapshot,
    options: RdbOptions,
    libraries: &Libraries,
) -> Result<(), LoadFailed> {
    load_source(shared, snapshot, SOCKET, options, libraries)?;
    snapshot.finish().map_err(|error| {
        log_rdb_error(SOCKET, &RdbError { fault: error.into(), offset: 0, key: None });
        LoadFailed
    })
}

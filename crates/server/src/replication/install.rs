//! The data of a snapshot replace those of the server.

use std::path::Path;
use std::time::Duration;

use base::DbIndex;
use replication::{History, ReplicationId};
use sync::atomic::Ordering;

use crate::persistence::all_latches::with_all_latches;
use crate::persistence::append_only;
use crate::persistence::loading::received::ReceivedSnapshot;
use crate::persistence::loading::replacing::{self, Snapshot};
use crate::shared::Shared;
use crate::shared::loading::Loading;
use crate::shared::replication::random_replication_id;

/// The time until the end of another load is awaited again.
const LOADING_WAIT: Duration = Duration::from_millis(10);

/// The time until the end of a dump is awaited again.
const DUMP_WAIT: Duration = Duration::from_millis(1);

/// The data can't be loaded, as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot can't be loaded")]
pub struct NotInstalled;

/// What a snapshot has: the data with this id at this offset, for an attempt of this epoch.
#[derive(Clone, Copy)]
pub struct SnapshotOf {
    pub id: ReplicationId,
    pub offset: u64,
    pub epoch: u64,
}

/// Loads the file of a snapshot in place of all data. Returns the database that the stream has selected.
///
/// # Errors
/// The file can't be loaded, or the role has changed since the epoch. If its version is known there are no data then.
pub fn replace_data(shared: &'static Shared, path: &Path, of: SnapshotOf) -> Result<DbIndex, NotInstalled> {
    replace_by(shared, Snapshot::File(path), of)
}

/// Loads a snapshot that is received meanwhile in place of all data.
///
/// # Errors
/// As [`replace_data`]. It is not complete.
pub fn replace_data_received(
    shared: &'static Shared,
    mut snapshot: ReceivedSnapshot,
    of: SnapshotOf,
) -> Result<DbIndex, NotInstalled> {
    replace_by(shared, Snapshot::Received(&mut snapshot), of)
}

/// Loads a snapshot that is received meanwhile beside the data, which it then replaces. If the data are of the same history, they are
/// shown meanwhile.
///
/// # Errors
/// It can't be loaded, is not complete, or the role has changed since the epoch. The data are as before.
pub fn swap_data_received(
    shared: &'static Shared,
    mut snapshot: ReceivedSnapshot,
    of: SnapshotOf,
) -> Result<DbIndex, NotInstalled> {
    let flags = &shared.modes.flags;
    let is_same_history = shared.history().id() == of.id;
    let begin = || match is_same_history {
        true => Loading::prepare_beside(flags),
        false => Loading::prepare_reload(flags).is_ok(),
    };
    begin_load(shared, begin, of)?;
    let staged = replacing::load_beside(shared, &mut snapshot);
    let may_swap = |_: &_| end_dump(shared) && leave_history(shared, of);
    let swapped = staged.ok().filter(may_swap).map(|staged| {
        // A snapshot that is cut from now on names it.
        shared.replication.role.select(stream_db(shared));
        let from = Some((History::new(of.id), of.offset));
        staged.swap_in(|| shared.replication.begin_stream(&shared.keyspace.log, from));
        settle_history(shared, of);
    });
    Loading::end(flags);
    swapped.ok_or(NotInstalled)?;
    renew_append_only(shared);
    Ok(stream_db(shared))
}

fn replace_by(
    shared: &'static Shared,
    mut snapshot: Snapshot<'_>,
    of: SnapshotOf,
) -> Result<DbIndex, NotInstalled> {
    let flags = &shared.modes.flags;
    begin_load(shared, || Loading::prepare_reload(flags).is_ok(), of)?;
    if !snapshot.has_known_version(shared) || !end_dump(shared) || !leave_history(shared, of) {
        Loading::end(flags);
        return Err(NotInstalled);
    }
    let loaded = replacing::replace_by(shared, snapshot);
    match loaded {
        Ok(()) => {
            // A snapshot that is cut from now on names it.
            shared.replication.role.select(stream_db(shared));
            begin_feed(shared, Some((History::new(of.id), of.offset)));
            settle_history(shared, of);
        }
        // They are those of no history.
        Err(_) => begin_feed(shared, Some((History::new(random_replication_id()), 0))),
    }
    Loading::end(flags);
    // Also without data: a server that is promoted now must not append to the file of the former ones. One that ends leaves them there.
    if loaded.is_ok() || !shared.modes.is_stopping() {
        renew_append_only(shared);
    }
    loaded.map(|()| stream_db(shared)).map_err(|_| NotInstalled)
}

/// Begins a load by `begin`, which returns whether none is under way.
fn begin_load(shared: &Shared, begin: impl Fn() -> bool, of: SnapshotOf) -> Result<(), NotInstalled> {
    while !begin() {
        sync::thread::sleep(LOADING_WAIT);
    }
    if is_current(shared, of) {
        return Ok(());
    }
    // Now that clients change nothing: a server that was promoted before may have changes of its own.
    Loading::end(&shared.modes.flags);
    log::info!("The snapshot is not loaded: the role of the server has changed");
    Err(NotInstalled)
}

fn is_current(shared: &Shared, of: SnapshotOf) -> bool {
    shared.replication.role.lock().epoch == of.epoch
}

/// Notes that the data, which are about to be replaced, are those of no history until the attempt notes theirs. Returns whether
/// the epoch is still that of the attempt; in a later one the data stay.
fn leave_history(shared: &Shared, of: SnapshotOf) -> bool {
    let mut state = shared.replication.role.lock();
    let is_current = state.epoch == of.epoch;
    state.may_continue &= !is_current;
    is_current
}

/// Gives the data an id of their own if the role has changed since the epoch, by a turn that had begun before the load: they are the
/// beginning of another history.
fn settle_history(shared: &Shared, of: SnapshotOf) {
    if !is_current(shared, of) {
        shared.replication.feed.shift_id(random_replication_id());
    }
}

/// Begins the append-only file anew, whose base is of the former data. It is not switched on or off meanwhile.
fn renew_append_only(shared: &'static Shared) {
    let _setting = shared.config.lock_changes();
    if !shared.config.load().appendonly {
        return;
    }
    append_only::switch_off(shared);
    if let Err(error) = append_only::switch_on(shared, &shared.config.load()) {
        log::error!("The append-only file can't be begun after a synchronisation: {error}");
    }
}

/// The database that the stream has selected at the cut of the snapshot.
fn stream_db(shared: &Shared) -> DbIndex {
    let db = shared.loading.stream_db.load(Ordering::Relaxed);
    let count = shared.keyspace.db_count() as i64;
    DbIndex(if (0..count).contains(&db) { db as u16 } else { 0 })
}

/// Ends a dump of the former data, which must not take the place of one of the new data. While `LOADING` is set none begins.
/// Returns `false` if the server is about to end: what it saves stays.
fn end_dump(shared: &Shared) -> bool {
    while shared.snapshots.status.is_saving() && !shared.modes.shutdown.is_pending() {
        shared.snapshots.cancel_dump();
        sync::thread::sleep(DUMP_WAIT);
    }
    !shared.modes.shutdown.is_pending()
}

/// Makes the log go to replicas, and begins a history at an offset, if one is given.
pub fn begin_feed(shared: &'static Shared, from: Option<(History, u64)>) {
    with_all_latches(shared, || shared.replication.begin_stream(&shared.keyspace.log, from));
}

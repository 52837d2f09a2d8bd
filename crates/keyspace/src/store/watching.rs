//! `WATCH`: which sessions watch which keys, recorded in the key's slot.
//!
//! Owns a list for each slot with watched keys, guarded by the slot's latch like the data. A writer that
//! changes a key calls [`Latched::note_change`](crate::Latched::note_change) while the slot is held, which sets the watching sessions'
//! dirty flags. Without watches, that costs one read of a pointer beside the table.
//!
//! A session that ends need not latch anything: its entries are dead, and a list drops dead entries when it
//! has doubled in length since the last sweep. The watches of a session are found by its number, in logarithmic time: many
//! sessions may watch one key.
//!
//! Invariants:
//! 1. As long as a [`Watching`] exists and its dirty flag is not set, each of its keys is in the list of
//!    the key's slot.
//! 2. At most half of a list longer than [`SWEEP_LEN_MIN`] was dead when it was last swept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use base::{DbIndex, Slot};
use collections::Table;
use sync::DirtyFlag;
use sync::atomic::{AtomicU64, Ordering};

use crate::store::key::{Key, slot_of_hash};
use crate::store::places::Places;
use crate::store::slot_data::SlotData;
use crate::store::waiting::OwnedKey;

/// Lists shorter than this are not swept.
const SWEEP_LEN_MIN: usize = 8;

/// Number of [`Watching`]s so far in the process.
static WATCHING_COUNT: AtomicU64 = AtomicU64::new(0);

/// The keys that one session watches.
pub struct Watching {
    /// Distinguishes it from all others.
    number: u64,
    /// The dirty flag: set when any of the keys has changed.
    mark: Arc<DirtyFlag>,
    /// Distinct keys.
    keys: Vec<WatchedKey>,
    /// Bytes of the keys' names.
    names_size: usize,
}

impl Default for Watching {
    fn default() -> Self {
        let number = WATCHING_COUNT.fetch_add(1, Ordering::Relaxed);
        Self { number, mark: Arc::default(), keys: Vec::new(), names_size: 0 }
    }
}

/// A key that a session watches.
pub(crate) struct WatchedKey {
    hash: u64,
    db: DbIndex,
    bytes: Arc<[u8]>,
}

impl WatchedKey {
    pub(crate) fn slot(&self) -> Slot {
        slot_of_hash(self.hash)
    }
}

/// The watches of a slot's keys.
#[derive(Default)]
pub(crate) struct Watches {
    /// By the number of the session's [`Watching`].
    by_session: BTreeMap<u64, Vec<Watch>>,
    /// Number of watches.
    len: usize,
    /// Number of watches at which dead ones are dropped.
    sweep_at: usize,
}

struct Watch {
    db: DbIndex,
    hash: u64,
    bytes: Arc<[u8]>,
    mark: Weak<DirtyFlag>,
    /// Whether the key was already expired when the watch began: then its deletion is no change.
    was_expired: bool,
}

impl Watching {
    /// Whether a key is known to have changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.mark.is_set()
    }

    /// Number of keys watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of memory used, here and in the slots' lists.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let a_key = size_of::<WatchedKey>() + size_of::<Watch>();
        size_of::<Self>() + self.keys.len() * a_key + self.names_size
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &WatchedKey> {
        self.keys.iter()
    }

    /// The slots of the keys, in no order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.keys.iter().map(WatchedKey::slot)
    }
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The watches of a session.
    fn of(&self, watching: &Watching) -> &[Watch] {
        self.by_session.get(&watching.number).map_or(&[], |watches| watches)
    }

    fn push(&mut self, session: u64, watch: Watch) {
        if self.len >= self.sweep_at.max(SWEEP_LEN_MIN) {
            self.retain(|watch| watch.mark.strong_count() > 0);
            self.sweep_at = 2 * self.len;
        }
        // Usually there is one.
        self.by_session.entry(session).or_insert_with(|| Vec::with_capacity(1)).push(watch);
        self.len += 1;
    }

    /// Sets the dirty flag of each watch for which `is_changed` returns true, and removes the watch.
    fn flag_changed(&mut self, mut is_changed: impl FnMut(&mut Watch) -> bool) {
        self.retain(|watch| {
            if !is_changed(watch) {
                return true;
            }
            if let Some(mark) = watch.mark.upgrade() {
                mark.set();
            }
            false
        });
    }

    fn retain(&mut self, mut stays: impl FnMut(&mut Watch) -> bool) {
        self.len = 0;
        self.by_session.retain(|_, watches| {
            watches.retain_mut(&mut stays);
            self.len += watches.len();
            !watches.is_empty()
        });
    }

    fn remove(&mut self, watching: &Watching) {
        self.len -= self.by_session.remove(&watching.number).map_or(0, |watches| watches.len());
    }
}

impl Watch {
    fn is_of(&self, key: Key<'_>) -> bool {
        self.hash == key.hash && self.db == key.db && *self.bytes == *key.bytes
    }

    /// Whether the key is in a table of its slot, expired or not.
    fn state_in(&self, table: Option<&Table>, now: i64) -> Liveness {
        match table.and_then(|table| table.find(self.hash, &self.bytes)) {
            None => Liveness::Absent,
            Some(entry) if entry.expiry().is_some_and(|at| at <= now) => Liveness::Expired,
            Some(_) => Liveness::Live,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Absent,
    Expired,
    Live,
}

impl SlotData {
    /// Adds a key of this slot to those that a session watches.
    pub(crate) fn add_watch(&mut self, key: Key<'_>, watching: &mut Watching, was_expired: bool) {
        // While the dirty flag is not set, each watched key is in its slot's list.
        let watches = self.watches_or_new();
        if watches.of(watching).iter().any(|watch| watch.is_of(key)) {
            return;
        }
        watching.names_size += key.bytes.len();
        let bytes: Arc<[u8]> = key.bytes.into();
        watching.keys.push(WatchedKey { hash: key.hash, db: key.db, bytes: Arc::clone(&bytes) });
        let mark = Arc::downgrade(&watching.mark);
        watches.push(watching.number, Watch { db: key.db, hash: key.hash, bytes, mark, was_expired });
    }

    /// Whether a watched key of this slot has expired since its watch began.
    pub(crate) fn has_expired(
        &self,
        key: &WatchedKey,
        watching: &Watching,
        places: &Places,
        due: i64,
    ) -> bool {
        let table = self.table(places.of(usize::from(key.db.0))).filter(|table| table.volatile_len() > 0);
        let Some((watches, table)) = self.watches().zip(table) else { return false };
        watches.of(watching).iter().any(|watch| {
            watch.db == key.db
                && watch.hash == key.hash
                && watch.bytes == key.bytes
                && !watch.was_expired
                && watch.state_in(Some(table), due) == Liveness::Expired
        })
    }

    /// Removes a session's watches of this slot's keys.
    pub(crate) fn remove_watches(&mut self, watching: &Watching) {
        if self.watches().is_some_and(|watches| !watches.is_empty()) {
            self.watches_or_new().remove(watching);
            self.note_removal();
        }
    }

    /// Handles a change of a key of this slot.
    #[cold]
    pub(crate) fn note_change(
        &mut self,
        key: Key<'_>,
        places: &Places,
        now: i64,
        ready: &mut VecDeque<Arc<OwnedKey>>,
    ) {
        if let Some(waits) = self.waits_mut() {
            waits.note_ready(key, ready);
        }
        let Some((watches, tables)) = self.watches_and_tables(places) else { return };
        watches.flag_changed(|watch| {
            if !watch.is_of(key) {
                return false;
            }
            let stays_gone = watch.was_expired && watch.state_in(tables.of(key.db), now) == Liveness::Absent;
            watch.was_expired &= !stays_gone;
            !stays_gone
        });
    }

    /// Handles the emptying of a database's table (`None`), or its replacement by the table of another
    /// database.
    #[cold]
    pub(crate) fn note_replacement(
        &mut self,
        db: DbIndex,
        by: Option<DbIndex>,
        places: &Places,
        now: i64,
        ready: &mut VecDeque<Arc<OwnedKey>>,
    ) {
        if let Some(waits) = self.waits_mut() {
            waits.note_all_ready(db, ready);
        }
        let Some((watches, tables)) = self.watches_and_tables(places) else { return };
        watches.flag_changed(|watch| {
            if watch.db != db {
                return false;
            }
            let before = watch.state_in(tables.of(db), now);
            let after = by.map_or(Liveness::Absent, |by| watch.state_in(tables.of(by), now));
            let was_gone = before == Liveness::Absent || watch.was_expired;
            let is_gone = after != Liveness::Live;
            watch.was_expired = match after {
                Liveness::Absent if before != Liveness::Absent => false,
                Liveness::Expired if was_gone => true,
                _ => watch.was_expired,
            };
            !(was_gone && is_gone)
        });
    }
}

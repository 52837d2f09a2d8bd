//! `WATCH`: which sessions watch which keys, recorded in the key's slot.
//!
//! Owns a list for each slot with watched keys, guarded by the slot's latch like the data. A writer that
//! changes a key calls [`View::note_change`] while the slot is held, which sets the watching sessions'
//! dirty flags. Without watches, that costs one read of a pointer beside the table.
//!
//! A session that ends need not latch anything: its entries are dead, and a list drops dead entries when it
//! has doubled in length since the last sweep.
//!
//! Invariants:
//! 1. As long as a [`Watching`] exists and its dirty flag is not set, each of its keys is in the list of
//!    the key's slot.
//! 2. At most half of a list longer than [`SWEEP_LEN_MIN`] was dead when it was last swept.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use base::{DbIndex, Slot};
use collections::Table;
use sync::DirtyFlag;

use crate::key::{Key, slot_of_hash};
use crate::keyspace::SlotData;
use crate::view::View;
use crate::waiting::OwnedKey;

/// Lists shorter than this are not swept.
const SWEEP_LEN_MIN: usize = 8;

/// The keys that one session watches.
#[derive(Default)]
pub struct Watching {
    /// The dirty flag: set when any of the keys has changed.
    mark: Arc<DirtyFlag>,
    /// Distinct keys.
    keys: Vec<WatchedKey>,
    /// Bytes of the keys' names.
    names_size: usize,
}

struct WatchedKey {
    hash: u64,
    db: DbIndex,
    bytes: Arc<[u8]>,
}

impl WatchedKey {
    fn slot(&self) -> Slot {
        slot_of_hash(self.hash)
    }
}

/// The watches of a slot's keys.
#[derive(Default)]
pub(crate) struct Watches {
    list: Vec<Watch>,
    /// Length at which dead watches are dropped.
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

    /// The slots of the keys, in no order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.keys.iter().map(WatchedKey::slot)
    }
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn push(&mut self, watch: Watch) {
        if self.list.capacity() == 0 {
            // Usually there is one.
            self.list.reserve_exact(1);
        }
        if self.list.len() >= self.sweep_at.max(SWEEP_LEN_MIN) {
            self.list.retain(|watch| watch.mark.strong_count() > 0);
            self.sweep_at = 2 * self.list.len();
        }
        self.list.push(watch);
    }

    /// Calls `judge` for each watch; where it returns that the key has changed, sets the dirty flag and
    /// removes the watch.
    fn flag_changed(&mut self, mut judge: impl FnMut(&mut Watch) -> bool) {
        self.list.retain_mut(|watch| {
            if !judge(watch) {
                return true;
            }
            if let Some(mark) = watch.mark.upgrade() {
                mark.set();
            }
            false
        });
        if self.list.is_empty() {
            *self = Self::default();
        }
    }

    fn remove(&mut self, mark: &Arc<DirtyFlag>) {
        self.list.retain(|watch| !watch.is_by(mark));
        if self.list.is_empty() {
            *self = Self::default();
        }
    }
}

impl Watch {
    fn is_by(&self, mark: &Arc<DirtyFlag>) -> bool {
        self.mark.as_ptr() == Arc::as_ptr(mark)
    }

    fn is_of(&self, key: Key<'_>) -> bool {
        self.hash == key.hash && self.db == key.db && *self.bytes == *key.bytes
    }

    /// Whether the key is in a table of its slot, expired or not.
    fn state_in(&self, table: Option<&Table>, now: i64) -> State {
        match table.and_then(|table| table.find(self.hash, &self.bytes)) {
            None => State::Absent,
            Some(entry) if entry.expiry().is_some_and(|at| at <= now) => State::Expired,
            Some(_) => State::Live,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Expired,
    Live,
}

impl View<'_> {
    /// Watches a key that is held for writing.
    pub fn watch(&mut self, key: Key<'_>, watching: &mut Watching) {
        // While the dirty flag is not set, each watched key is in its slot's list.
        let watches = self.slot_data_mut(key.slot).watches_or_new();
        if watches.list.iter().any(|watch| watch.is_by(&watching.mark) && watch.is_of(key)) {
            return;
        }
        watching.names_size += key.bytes.len();
        let was_expired = self.lookup(key).is_some_and(|entry| self.is_expired(entry));
        let bytes: Arc<[u8]> = key.bytes.into();
        watching.keys.push(WatchedKey { hash: key.hash, db: key.db, bytes: Arc::clone(&bytes) });
        let mark = Arc::downgrade(&watching.mark);
        let watch = Watch { db: key.db, hash: key.hash, bytes, mark, was_expired };
        self.slot_data_mut(key.slot).watches_or_new().push(watch);
    }

    /// Whether a watched key has changed, or has expired since. The slots of all keys must be held.
    #[must_use]
    pub fn has_changed(&self, watching: &Watching) -> bool {
        watching.has_changed() || watching.keys.iter().any(|key| self.has_expired_since(key, &watching.mark))
    }

    fn has_expired_since(&self, key: &WatchedKey, mark: &Arc<DirtyFlag>) -> bool {
        let data = self.slot_data(key.slot());
        let table = data.table(key.db.0 as usize).filter(|table| table.volatile_len() > 0);
        let Some((watches, table)) = data.watches().zip(table) else { return false };
        watches.list.iter().any(|watch| {
            watch.is_by(mark)
                && watch.db == key.db
                && watch.hash == key.hash
                && watch.bytes == key.bytes
                && !watch.was_expired
                && watch.state_in(Some(table), self.due()) == State::Expired
        })
    }

    /// Removes a session's watches, in the slots that are held for writing or free now. The remaining ones
    /// are dead, and are dropped when their list is swept.
    pub fn unwatch(&mut self, watching: Watching) {
        for key in &watching.keys {
            if self.holds_for_writing(key.slot()) {
                self.slot_data_mut(key.slot()).forget_watches(&watching.mark);
            } else if self.held_data(key.slot()).is_none()
                && let Some(mut guard) = self.keyspace.slots().try_write_now(key.slot().index())
            {
                guard.forget_watches(&watching.mark);
            }
        }
    }

    /// Notifies the sessions that watch a key of a change, and records it as ready for its waiters. Its
    /// slot must be held for writing.
    #[inline(always)]
    pub fn note_change(&mut self, key: Key<'_>) {
        if self.wanted.every_change() {
            self.note_changed_key(key.bytes);
        }
        if self.slot_data_mut(key.slot).is_attended() {
            self.note_attended_change(key.bytes, key.hash, key.db);
        }
    }

    /// [`Self::note_change`] for a slot that is held in addition to the view's own latches.
    pub(crate) fn note_change_in(&mut self, data: &mut SlotData, key: Key<'_>, now: i64) {
        if self.wanted.every_change() {
            self.note_changed_key(key.bytes);
        }
        if data.is_attended() {
            data.note_change(key, now, &mut self.ready);
        }
        if data.has_readers() {
            let readers = data.readers_or_new().take(key.bytes, &self.keyspace.remembered);
            self.tell_readers(key.bytes, &readers);
        }
    }

    /// Takes the key in parts: passing it by reference would force it into memory, and its copies would
    /// wait for the store.
    #[cold]
    fn note_attended_change(&mut self, bytes: &[u8], hash: u64, db: DbIndex) {
        let key = Key::with_hash(bytes, hash, db);
        let now = self.due();
        let mut ready = std::mem::take(&mut self.ready);
        let keyspace = self.keyspace;
        let data = self.slot_data_mut(key.slot);
        data.note_change(key, now, &mut ready);
        if data.has_readers() {
            let readers = data.readers_or_new().take(key.bytes, &keyspace.remembered);
            self.tell_readers(key.bytes, &readers);
        }
        self.ready = ready;
    }
}

impl SlotData {
    fn forget_watches(&mut self, mark: &Arc<DirtyFlag>) {
        if self.watches().is_some_and(|watches| !watches.is_empty()) {
            self.watches_or_new().remove(mark);
            self.note_removal();
        }
    }

    /// Handles a change of a key of this slot.
    #[cold]
    pub(crate) fn note_change(&mut self, key: Key<'_>, now: i64, ready: &mut VecDeque<Arc<OwnedKey>>) {
        if let Some(waits) = self.waits_mut() {
            waits.note_ready(key, ready);
        }
        let Some((watches, tables)) = self.watches_and_tables() else { return };
        watches.flag_changed(|watch| {
            if !watch.is_of(key) {
                return false;
            }
            let stays_gone = watch.was_expired && watch.state_in(tables.of(key.db), now) == State::Absent;
            watch.was_expired &= !stays_gone;
            !stays_gone
        });
    }

    /// Handles that the table of a database becomes empty (`None`), or is replaced by that of another
    /// database.
    #[cold]
    pub(crate) fn note_replacement(
        &mut self,
        db: DbIndex,
        by: Option<DbIndex>,
        now: i64,
        ready: &mut VecDeque<Arc<OwnedKey>>,
    ) {
        if let Some(waits) = self.waits_mut() {
            waits.note_all_ready(db, ready);
        }
        let Some((watches, tables)) = self.watches_and_tables() else { return };
        watches.flag_changed(|watch| {
            if watch.db != db {
                return false;
            }
            let before = watch.state_in(tables.of(db), now);
            let after = by.map_or(State::Absent, |by| watch.state_in(tables.of(by), now));
            let was_gone = before == State::Absent || watch.was_expired;
            let is_gone = after != State::Live;
            watch.was_expired = match after {
                State::Absent if before != State::Absent => false,
                State::Expired if was_gone => true,
                _ => watch.was_expired,
            };
            !(was_gone && is_gone)
        });
    }
}

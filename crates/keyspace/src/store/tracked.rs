//! The large collections that a running snapshot tracks, see `collections/src/values/tracking.rs`.
//!
//! | state of a collection | by |
//! |---|---|
//! | tracked, queued | [`TrackedCollections::add`]: the walk has reached it, or it is about to change |
//! | tracked, walked | [`TrackedCollections::next`]: one walker writes it in portions |
//! | gone | [`TrackedCollections::remove`]: it is written, or the snapshot was cancelled |
//!
//! Invariant: the place of a tracked collection that has a key is the one of its key. It changes under the write latches
//! of both keys' slots, or under all.
//!
//! Each operation on one collection or slot takes time in proportion to the collections of that slot, whatever their number
//! elsewhere: `FLUSHDB` asks for each slot.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};

use base::{DbIndex, Slot};
use collections::{Object, OwnedEntry, Tracking, ValueRef};
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Mutex, MutexGuard};

use crate::store::key::Key;

/// A large collection of the cut.
pub struct TrackedCollection {
    /// The database it was in at the cut.
    pub db: DbIndex,
    /// Its snapshot.
    pub tracking: Arc<Tracking>,
    place: Mutex<KeyPlace>,
}

/// Where a collection is now, unless it was dropped.
#[derive(Clone)]
pub(crate) struct KeyPlace {
    pub(crate) slot: Slot,
    pub(crate) db: DbIndex,
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
}

#[derive(Default)]
pub(crate) struct TrackedCollections {
    count: AtomicUsize,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    queued: VecDeque<Arc<TrackedCollection>>,
    /// By the slot of the place.
    by_slot: BTreeMap<Slot, Vec<Arc<TrackedCollection>>>,
    len: usize,
}

impl Lists {
    fn insert(&mut self, slot: Slot, one: Arc<TrackedCollection>) {
        self.by_slot.entry(slot).or_default().push(one);
        self.len += 1;
    }

    /// Removes a collection. Returns it if it was still there.
    fn remove(&mut self, one: &TrackedCollection) -> Option<Arc<TrackedCollection>> {
        let slot = one.lock_place().slot;
        let of_slot = self.by_slot.get_mut(&slot)?;
        let index = of_slot.iter().position(|other| std::ptr::eq(&raw const **other, one))?;
        let removed = of_slot.swap_remove(index);
        if of_slot.is_empty() {
            self.by_slot.remove(&slot);
        }
        self.len -= 1;
        Some(removed)
    }
}

impl KeyPlace {
    pub(crate) fn of(key: Key<'_>) -> Self {
        Self { slot: key.slot, db: key.db, hash: key.hash, key: key.bytes.into() }
    }
}

impl TrackedCollection {
    pub(crate) fn place(&self) -> KeyPlace {
        self.lock_place().clone()
    }

    fn lock_place(&self) -> MutexGuard<'_, KeyPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrackedCollections {
    /// Whether no collection is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn add(&self, db: DbIndex, tracking: Arc<Tracking>, place: KeyPlace) {
        let new = Arc::new(TrackedCollection { db, tracking, place: Mutex::new(place) });
        let slot = new.lock_place().slot;
        let mut lists = self.lock();
        lists.queued.push_back(Arc::clone(&new));
        lists.insert(slot, new);
        self.count.store(lists.len, Ordering::Relaxed);
    }

    /// The next collection that no walker has begun to walk.
    pub(crate) fn next(&self) -> Option<Arc<TrackedCollection>> {
        if self.is_empty() {
            return None;
        }
        self.lock().queued.pop_front()
    }

    pub(crate) fn remove(&self, ended: &TrackedCollection) {
        let mut lists = self.lock();
        lists.remove(ended);
        self.count.store(lists.len, Ordering::Relaxed);
    }

    /// Removes all collections that no walker is walking.
    pub(crate) fn close(&self) {
        let mut lists = self.lock();
        for one in std::mem::take(&mut lists.queued) {
            one.tracking.close();
            lists.remove(&one);
        }
        self.count.store(lists.len, Ordering::Relaxed);
    }

    /// Records that an entry is being inserted under a key.
    pub(crate) fn note_moved(&self, owned: &OwnedEntry, place: impl FnOnce() -> KeyPlace) {
        if self.is_empty() {
            return;
        }
        let ValueRef::Object(object) = owned.entry().value() else { return };
        // An object that is not tracked needs no search.
        let Some(tracking) = Tracking::of(object) else { return };
        let mut lists = self.lock();
        let is_it = |one: &&Arc<TrackedCollection>| Arc::ptr_eq(&one.tracking, &tracking);
        let Some(one) = lists.by_slot.values().flatten().find(is_it).cloned() else { return };
        lists.remove(&one);
        let place = place();
        let slot = place.slot;
        *one.lock_place() = place;
        lists.insert(slot, one);
    }

    /// Records that two databases are exchanged.
    pub(crate) fn swap_databases(&self, one: DbIndex, other: DbIndex) {
        for tracked in self.lock().by_slot.values().flatten() {
            let mut place = tracked.lock_place();
            if place.db == one {
                place.db = other;
            } else if place.db == other {
                place.db = one;
            }
        }
    }

    /// The collections with a key in a slot and database.
    pub(crate) fn at(&self, slot: Slot, db: DbIndex) -> Vec<Arc<TrackedCollection>> {
        if self.is_empty() {
            return Vec::new();
        }
        let is_there = |one: &&Arc<TrackedCollection>| one.lock_place().db == db;
        self.lock().by_slot.get(&slot).into_iter().flatten().filter(is_there).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The collection of a value, if it is written in portions.
pub(crate) fn large(value: ValueRef<'_>) -> Option<&Object> {
    match value {
        ValueRef::Object(object) if object.is_large() => Some(object),
        _ => None,
    }
}

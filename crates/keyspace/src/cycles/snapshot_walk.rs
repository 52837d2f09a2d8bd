//! Taking a snapshot: the cut under all latches, and the walk through the slots.
//!
//! A thread that takes a snapshot is not a worker: it waits for latches through a [`Waiting`], and may sleep. See
//! `store/snapshot_state.rs` for the effect of changes meanwhile.

use std::sync::Arc;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{AllocContext, Entry, PortionLimits, ValueRef};
use sync::{Claim, Guard, Mode, Parked};

use crate::latched::Latched;
use crate::latched::held::SlotGuard;
use crate::latching::TRY_COUNT_MAX;
use crate::store::keyspace::Keyspace;
use crate::store::snapshot_state::{CutDatabase, Progress, TakenTable};
use crate::store::tracked::{TrackedCollection, large};

/// How a thread that is not a worker waits for a latch.
pub struct Waiting<'a> {
    /// The token with which it waits, which no other thread uses.
    pub token: u64,
    /// Returns after the keyspace's `wake` was called with the token, or earlier.
    pub wait: &'a dyn Fn(),
}

/// The latches of all slots, held for reading: no writer runs.
pub struct AllSlots<'k> {
    keyspace: &'k Keyspace,
    guards: Vec<SlotGuard<'k>>,
}

/// An entry of the cut.
#[derive(Clone, Copy)]
pub struct CutEntry<'a> {
    /// The database it was in.
    pub db: DbIndex,
    /// The entry.
    pub entry: Entry<'a>,
    /// The memory of its value.
    pub alloc: AllocContext<'a>,
}

impl Keyspace {
    /// Latches every slot for reading. As commands do, releases the held latches for the first
    /// [`TRY_COUNT_MAX`](crate::TRY_COUNT_MAX) waits.
    pub fn latch_all_slots(&self, waiting: &Waiting<'_>) -> AllSlots<'_> {
        let mut guards: Vec<SlotGuard<'_>> = Vec::with_capacity(SLOT_COUNT);
        let mut tries = 0;
        while guards.len() < SLOT_COUNT {
            let slot = guards.len();
            if let Some(guard) = self.slots().try_read(slot) {
                guards.push(Guard::Read(guard));
            } else if tries < TRY_COUNT_MAX {
                tries += 1;
                guards.clear();
                drop(self.latch_waiting(slot, Mode::Read, waiting));
            } else {
                guards.push(self.latch_waiting(slot, Mode::Read, waiting));
            }
        }
        AllSlots { keyspace: self, guards }
    }

    fn latch_waiting(&self, slot: usize, mode: Mode, waiting: &Waiting<'_>) -> SlotGuard<'_> {
        if let Some(guard) = self.slots().try_latch(slot, mode) {
            return guard;
        }
        if let Parked::Acquired(guard) = self.slots().park(slot, mode, waiting.token) {
            return guard;
        }
        loop {
            (waiting.wait)();
            match self.slots().claim(slot, waiting.token) {
                Claim::Acquired(guard) => return guard,
                Claim::Pending => {}
                Claim::NotWaiting => panic!("slot {slot} is claimed without waiting for it"),
            }
        }
    }

    /// Called under all latches.
    fn begin_snapshot(&self, at_cut: impl FnOnce(&[CutDatabase])) -> Vec<CutDatabase> {
        let all = (0..self.db_count())
            .map(|db| CutDatabase { db: DbIndex(db as u16), population: self.counters.population(db) });
        let databases: Vec<_> = all.filter(|database| database.population.keys > 0).collect();
        at_cut(&databases);
        self.snapshot.begin(&databases);
        databases
    }

    /// Walks a slot of a snapshot, from where the last call stopped, until `enough` (called after each bucket)
    /// or its end. Returns whether it is done. One thread at a time may walk a slot. `visit` runs under a read
    /// latch.
    pub fn snapshot_slot(
        &self,
        slot: Slot,
        databases: &[CutDatabase],
        waiting: &Waiting<'_>,
        mut visit: impl FnMut(CutEntry<'_>),
        mut enough: impl FnMut() -> bool,
    ) -> bool {
        let state = &self.snapshot;
        let guard = self.latch_waiting(slot.index(), Mode::Read, waiting);
        let alloc = AllocContext { heap: self.heap(slot), hasher: self.hasher() };
        let progress = state.progress(slot);
        for db in databases.iter().map(|database| database.db).filter(|db| !progress.is_past(*db)) {
            // Flushed tables are walked later.
            let current = state.current_db(db);
            let table = current.and_then(|current| guard.table(self.place(usize::from(current.0))));
            let Some((current, table)) = current.zip(table) else { continue };
            let mut from = progress.position_in(db);
            let mut visit = |entry: Entry<'_>| {
                if state.is_on() && large(entry.value()).is_some() {
                    state.track(db, slot, current, entry, alloc);
                } else {
                    visit(CutEntry { db, entry, alloc });
                }
            };
            while let Some(next) = table.snapshot_walk(from, &mut visit) {
                from = next;
                if enough() {
                    state.set_progress(slot, Progress::new(db, from));
                    return false;
                }
            }
            state.set_progress(slot, Progress::past(db));
            if enough() {
                return false;
            }
        }
        state.set_progress(slot, Progress::DONE);
        true
    }

    /// Walks a part of the tables that were flushed during the snapshot, until `enough` or their end. Returns whether
    /// none is left. Called when all slots are done.
    pub fn snapshot_flushed(
        &self,
        mut visit: impl FnMut(CutEntry<'_>),
        mut enough: impl FnMut() -> bool,
    ) -> bool {
        while let Some(TakenTable { slot, cut_db: db, from, table }) = self.snapshot.next_taken() {
            let alloc = AllocContext { heap: self.heap(slot), hasher: self.hasher() };
            let mut next = Some(from);
            while let Some(from) = next {
                next = table.snapshot_walk(from, |entry| {
                    if self.snapshot.is_on() && large(entry.value()).is_some() {
                        // The table is dropped at the end; the tracking takes over the contents of this
                        // collection.
                        self.snapshot.track(db, slot, db, entry, alloc);
                    } else {
                        visit(CutEntry { db, entry, alloc });
                    }
                });
            }
            drop(table);
            if enough() {
                return false;
            }
        }
        true
    }
}

/// The result of a step in the walk of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionStep {
    /// A portion was walked, and others follow.
    Portion,
    /// The last portion was walked.
    Done,
    /// It has lost its key, and is about to be dropped.
    Missing,
}

impl Keyspace {
    /// The next collection to be walked in portions, by one thread. [`Self::end_collection`] must follow.
    pub fn next_collection(&self) -> Option<Arc<TrackedCollection>> {
        self.snapshot.tracked.next()
    }

    /// Ends the walk of a collection, at its end or before.
    pub fn end_collection(&self, collection: &TrackedCollection) {
        collection.tracking.close();
        self.snapshot.tracked.remove(collection);
    }

    /// Walks a portion of a collection, under the read latch of its slot while it has a key.
    pub fn snapshot_collection(
        &self,
        collection: &TrackedCollection,
        limits: PortionLimits,
        waiting: &Waiting<'_>,
    ) -> CollectionStep {
        let place = collection.place();
        let guard = self.latch_waiting(place.slot.index(), Mode::Read, waiting);
        let entry = guard
            .table(self.place(usize::from(place.db.0)))
            .and_then(|table| table.find(place.hash, &place.key));
        let found = match entry.map(Entry::value) {
            Some(ValueRef::Object(object)) if collection.tracking.is_of(object) => Some(object),
            _ => None,
        };
        let is_done = found.map(|object| collection.tracking.walk(object, limits));
        drop(guard);
        match is_done.or_else(|| collection.tracking.walk_detached(limits)) {
            Some(true) => CollectionStep::Done,
            Some(false) => CollectionStep::Portion,
            None => CollectionStep::Missing,
        }
    }
}

impl AllSlots<'_> {
    /// Begins a snapshot of this instant, and runs `at_cut` with its databases, which it returns. No other
    /// snapshot may be running.
    pub fn begin_snapshot(&self, at_cut: impl FnOnce(&[CutDatabase])) -> Vec<CutDatabase> {
        debug_assert_eq!(self.guards.len(), SLOT_COUNT);
        self.keyspace.begin_snapshot(at_cut)
    }
}

impl Latched<'_> {
    /// Begins a snapshot of this instant, as [`AllSlots::begin_snapshot`]. All slots must be held.
    pub fn begin_snapshot(&self, at_cut: impl FnOnce(&[CutDatabase])) -> Vec<CutDatabase> {
        let is_held = (0..SLOT_COUNT as u16).all(|slot| self.held_data(Slot::new(slot)).is_some());
        assert!(is_held, "a snapshot begins under all latches");
        self.keyspace.begin_snapshot(at_cut)
    }
}

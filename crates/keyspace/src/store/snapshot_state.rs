//! The state of a running snapshot: its progress in each slot, and the database of each table at the cut.
//!
//! A snapshot has the data of one instant, the *cut*, while clients are served. Walkers visit the slots in portions,
//! under read latches. A change of a key that the walk of its slot has not reached first *preserves* the key: its entry is
//! passed to the [`SnapshotSink`], and marked, so that the walk skips it. See `collections/src/table/snapshot.rs`.
//!
//! | state | from | by |
//! |---|---|---|
//! | off | - | all slots are done; no entry is marked |
//! | on | off | [`SnapshotState::begin`], under all latches |
//! | off, unswept | on | [`SnapshotState::cancel`]: changes preserve nothing; the walk continues, to remove the marks |
//!
//! Invariants:
//! 1. `cut_dbs` and `current_dbs` are inverse to each other, and change only under all latches.
//! 2. A slot's progress changes only under its latch. An entry is marked only if it is ahead of the progress.
//! 3. Each entry of the cut is passed to a sink or to a walk exactly once, unless the snapshot is cancelled.

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{AllocContext, Collection, ElementSink, Entry, EntryMut, Heap, Table, Tracking};
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sync::{Mutex, OnceLock};

use crate::store::counters::Population;
use crate::store::tracked::{KeyPlace, TrackedCollections, large};

/// Receives the state at the cut of entries that are about to change.
pub trait SnapshotSink: Send + Sync {
    /// Stores the state of an entry, which was in database `db` at the cut. Called under the entry's write
    /// latch by the thread of this number: it must not block for long.
    fn preserve(&self, thread: usize, db: DbIndex, entry: Entry<'_>, alloc: AllocContext<'_>);

    /// Begins a collection that is written in portions: [`Object::is_large`](collections::Object::is_large). Called under
    /// its latch. `None` if it can't be written.
    fn begin_elements(&self, entry: Entry<'_>) -> Option<Box<dyn ElementSink>>;
}

/// See the module documentation.
pub struct SnapshotState {
    is_on: AtomicBool,
    sink: OnceLock<Box<dyn SnapshotSink>>,
    /// For each database the number that its tables had at the cut; [`NOT_PART`] if they are not part of it.
    cut_dbs: Box<[AtomicU32]>,
    /// For each database at the cut the number that its tables have now; [`NOT_PART`] if there are none.
    current_dbs: Box<[AtomicU32]>,
    /// For each slot a [`Progress`]. Empty before the first snapshot.
    progress: OnceLock<Box<[AtomicU64]>>,
    /// Tables that were flushed before the walk reached their end.
    taken: Mutex<Vec<TakenTable>>,
    /// Collections that are written in portions.
    pub(crate) tracked: TrackedCollections,
}

/// A table that was taken out of the keyspace while a snapshot needed it.
pub(crate) struct TakenTable {
    pub(crate) slot: Slot,
    pub(crate) cut_db: DbIndex,
    /// The position up to which it was walked.
    pub(crate) from: u32,
    pub(crate) table: Table,
}

/// A database at the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDatabase {
    /// Its number at the cut.
    pub db: DbIndex,
    /// Its entries at the cut.
    pub population: Population,
}

const NOT_PART: u32 = u32::MAX;

/// Bits of a position in a table, and one for the end.
const POSITION_BITS: u32 = 25;

/// How far a slot is walked: the database at the cut, then the position in its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Progress(u64);

impl Progress {
    pub(crate) const DONE: Self = Self(u64::MAX);

    pub(crate) fn new(cut_db: DbIndex, position: u32) -> Self {
        Self(u64::from(cut_db.0) << POSITION_BITS | u64::from(position))
    }

    pub(crate) fn position_in(self, cut_db: DbIndex) -> u32 {
        (self.0.max(Self::new(cut_db, 0).0) - Self::new(cut_db, 0).0) as u32
    }

    /// After all positions of a database.
    pub(crate) fn past(cut_db: DbIndex) -> Self {
        Self((u64::from(cut_db.0) + 1) << POSITION_BITS)
    }

    /// Whether it is after all positions of a database.
    pub(crate) fn is_past(self, cut_db: DbIndex) -> bool {
        self >= Self::past(cut_db)
    }
}

impl SnapshotState {
    pub(crate) fn new(db_count: usize) -> Self {
        let none = || (0..db_count).map(|_| AtomicU32::new(NOT_PART)).collect();
        Self {
            is_on: AtomicBool::new(false),
            sink: OnceLock::new(),
            cut_dbs: none(),
            current_dbs: none(),
            progress: OnceLock::new(),
            taken: Mutex::default(),
            tracked: TrackedCollections::default(),
        }
    }

    /// Sets the receiver of preserved entries. It can be set once.
    pub fn connect(&self, sink: Box<dyn SnapshotSink>) {
        assert!(self.sink.set(sink).is_ok(), "the sink is connected once");
    }

    /// Whether changes preserve entries. Exact while a latch is held, except at the end of a snapshot.
    #[must_use]
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether a change in this slot may have to preserve entries. Without the slot's latch the answer may be outdated.
    #[must_use]
    pub fn needs(&self, slot: Slot) -> bool {
        self.is_on() && (self.progress(slot) != Progress::DONE || !self.tracked.is_empty())
    }

    /// Begins a snapshot of these databases. The caller holds all latches.
    pub(crate) fn begin(&self, databases: &[CutDatabase]) {
        assert!(self.sink.get().is_some(), "the sink is connected at the start");
        for numbers in [&self.cut_dbs, &self.current_dbs] {
            numbers.iter().for_each(|number| number.store(NOT_PART, Ordering::Relaxed));
            for database in databases {
                numbers[usize::from(database.db.0)].store(database.db.0.into(), Ordering::Relaxed);
            }
        }
        let progress =
            self.progress.get_or_init(|| (0..SLOT_COUNT).map(|_| AtomicU64::new(Progress::DONE.0)).collect());
        for slot in progress {
            assert_eq!(slot.load(Ordering::Relaxed), Progress::DONE.0, "one snapshot at a time");
            slot.store(0, Ordering::Relaxed);
        }
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Ends the preserving of entries. The walk continues to its end, to remove the marks.
    pub fn cancel(&self) {
        self.is_on.store(false, Ordering::Relaxed);
        self.tracked.close();
    }

    /// The number that a database had at the cut, if its entries at this position are neither walked nor taken.
    fn unsaved_db(&self, slot: Slot, db: DbIndex, position: u32) -> Option<DbIndex> {
        let cut_db = self.cut_db(db)?;
        (self.progress(slot) <= Progress::new(cut_db, position)).then_some(cut_db)
    }

    /// The number that a database had at the cut, if the snapshot includes it.
    pub(crate) fn cut_db(&self, db: DbIndex) -> Option<DbIndex> {
        number_in(&self.cut_dbs, db)
    }

    /// The number that a database of the cut has now, if it still exists.
    pub(crate) fn current_db(&self, cut_db: DbIndex) -> Option<DbIndex> {
        number_in(&self.current_dbs, cut_db)
    }

    /// Under the slot's latch.
    pub(crate) fn progress(&self, slot: Slot) -> Progress {
        self.progress.get().map_or(Progress::DONE, |all| Progress(all[slot.index()].load(Ordering::Relaxed)))
    }

    /// Under the slot's latch.
    pub(crate) fn set_progress(&self, slot: Slot, progress: Progress) {
        if let Some(all) = self.progress.get() {
            all[slot.index()].store(progress.0, Ordering::Relaxed);
        }
    }

    /// Called before a change of the entries with this hash, under the write latch.
    #[cold]
    pub(crate) fn preserve(
        &self,
        by: usize,
        slot: Slot,
        db: DbIndex,
        table: Option<&Table>,
        hash: u64,
        alloc: AllocContext<'_>,
    ) {
        let Some(cut_db) = self.unsaved_db(slot, db, Table::position(hash)) else { return };
        let (Some(table), Some(sink)) = (table, self.sink.get()) else { return };
        table.preserve(hash, |entry| {
            if large(entry.value()).is_some() {
                self.track(cut_db, slot, db, entry, alloc);
            } else {
                sink.preserve(by, cut_db, entry, alloc);
            }
        });
    }

    /// Begins to track a large collection, which was in database `cut_db` at the cut and is in `db` now. Under its latch.
    pub(crate) fn track(
        &self,
        cut_db: DbIndex,
        slot: Slot,
        db: DbIndex,
        entry: Entry<'_>,
        alloc: AllocContext<'_>,
    ) {
        let (Some(object), Some(sink)) = (large(entry.value()), self.sink.get()) else { return };
        let Some(elements) = sink.begin_elements(entry) else { return };
        if let Some(tracking) = Tracking::begin(object, alloc.hasher, elements) {
            let place = KeyPlace { slot, db, hash: alloc.hasher.hash(entry.key()), key: entry.key().into() };
            self.tracked.add(cut_db, tracking, place);
        }
    }

    /// Detaches the tracked collections from a table that is being taken out of the keyspace.
    pub(crate) fn detach_tracked(&self, slot: Slot, db: DbIndex, table: &mut Table, heap: &Heap) {
        for one in self.tracked.at(slot, db) {
            let place = one.place();
            let entry = table.find_mut(heap, place.hash, &place.key);
            if let Some(object) =
                entry.and_then(EntryMut::into_object).filter(|object| one.tracking.is_of(object))
            {
                *object = collections::Set::new().into_object();
            }
        }
    }

    /// Called after the change of the entries with this hash.
    #[cold]
    pub(crate) fn note_preserved(&self, slot: Slot, db: DbIndex, table: &Table, hash: u64) {
        if self.unsaved_db(slot, db, Table::position(hash)).is_some() {
            table.note_preserved(hash);
        }
    }

    /// Takes over a flushed table if the snapshot needs it. Under the slot's write latch.
    pub(crate) fn take_over(&self, slot: Slot, db: DbIndex, table: Table) -> Option<Table> {
        let Some(cut_db) = self.cut_db(db).filter(|_| self.is_on()) else { return Some(table) };
        let progress = self.progress(slot);
        if progress.is_past(cut_db) {
            return Some(table);
        }
        let from = progress.position_in(cut_db);
        self.lock_taken().push(TakenTable { slot, cut_db, from, table });
        None
    }

    /// Called after all tables of a database were taken, under all latches.
    pub(crate) fn remove_database(&self, db: DbIndex) {
        if let Some(cut_db) = self.cut_db(db) {
            self.current_dbs[usize::from(cut_db.0)].store(NOT_PART, Ordering::Relaxed);
            self.cut_dbs[usize::from(db.0)].store(NOT_PART, Ordering::Relaxed);
        }
    }

    /// Called when two databases are exchanged, under all latches.
    pub(crate) fn swap_databases(&self, one: DbIndex, other: DbIndex) {
        let cut = [self.cut_db(other), self.cut_db(one)];
        self.tracked.swap_databases(one, other);
        for (db, cut_db) in [one, other].into_iter().zip(cut) {
            let number = cut_db.map_or(NOT_PART, |cut_db| cut_db.0.into());
            self.cut_dbs[usize::from(db.0)].store(number, Ordering::Relaxed);
            if let Some(cut_db) = cut_db {
                self.current_dbs[usize::from(cut_db.0)].store(db.0.into(), Ordering::Relaxed);
            }
        }
    }

    /// The next of the tables that were taken over.
    pub(crate) fn next_taken(&self) -> Option<TakenTable> {
        let mut taken = self.lock_taken();
        let next = taken.pop();
        if taken.is_empty() {
            *taken = Vec::new();
        }
        next
    }

    fn lock_taken(&self) -> sync::MutexGuard<'_, Vec<TakenTable>> {
        self.taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn number_in(numbers: &[AtomicU32], db: DbIndex) -> Option<DbIndex> {
    let number = numbers[usize::from(db.0)].load(Ordering::Relaxed);
    (number != NOT_PART).then_some(DbIndex(number as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_ascends_through_databases_and_positions() {
        let at = |db, position| Progress::new(DbIndex(db), position);
        assert!(
            at(0, 5) < at(0, 6) && at(0, (1 << 24) - 1) < at(1, 0) && at(u16::MAX - 1, 9) < Progress::DONE
        );
        assert_eq!((at(3, 7).position_in(DbIndex(3)), at(2, 7).position_in(DbIndex(3))), (7, 0));
        assert!(at(4, 0).is_past(DbIndex(3)) && !at(3, 9).is_past(DbIndex(3)));
    }

    #[test]
    fn no_memory_stays_for_tables_that_were_taken_over() {
        let state = SnapshotState::new(1);
        for slot in 0..100 {
            let (slot, cut_db, table) = (Slot::new(slot), DbIndex(0), Table::with_hint());
            state.lock_taken().push(TakenTable { slot, cut_db, from: 0, table });
        }
        while state.next_taken().is_some() {}
        assert_eq!(state.lock_taken().capacity(), 0);
    }
}

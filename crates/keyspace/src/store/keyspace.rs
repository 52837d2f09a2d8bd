//! The keyspace: 16,384 latched slots with a table for each logical database, and the heaps of their
//! entries.
//!
//! Owns all data. Touches `sync` for latches and epochs and `collections` for tables. Has no access to
//! protocols, sockets or clocks.
//! Invariants:
//! 1. A key's entry is in the slot of its hash and nowhere else.
//! 2. The hint of a slot describes its table of the inline database whenever no writer holds the slot; the hints of
//!    the other databases are in `hints.rs`.
//! 3. Latches are acquired in ascending slot order.

use std::ops::Range;
use std::sync::Arc;

use base::limits::{SLOT_COUNT, THREAD_COUNT_MAX};
use base::{DbIndex, Lsn, Slot};
use collections::{Heap, Hint, KeyHasher, Retired};
use sync::LatchTable;
use sync::atomic::{AtomicUsize, Ordering};
use sync::epoch::Domain;
use sync::write_log::WriteLog;

use crate::store::changes::LastChanges;
use crate::store::counters::AllCounters;
use crate::store::events::Observer;
use crate::store::hints::{FurtherHints, new_hint};
use crate::store::local_expiries::LocalExpiries;
use crate::store::places::{Places, TablePlace};
use crate::store::readers::ReaderTotals;
use crate::store::slot_data::SlotData;
use crate::store::snapshot_state::SnapshotState;

/// Number of heaps that the slots share if the caller provides none.
const HEAP_COUNT: usize = 4;

/// Largest number of segments freed in one call: about a tenth of a millisecond.
const FREED_COUNT_MAX: usize = 1024;

/// The buffer of the write log if the caller provides none, in bytes. Allocated when the log is first on.
const LOG_CAPACITY: usize = 1 << 20;

/// With more databases than this, none can be loaded beside the present data.
const STAGED_DB_COUNT_MAX: usize = 4096;

/// Vacant memory that is always kept, in bytes.
const VACANT_SIZE_MIN: usize = 16 << 20;

/// The slots' latches and data.
pub(crate) type Slots = LatchTable<Hint, SlotData>;

/// All data of the server.
pub struct Keyspace {
    slots: Slots,
    heaps: Box<[Heap]>,
    hasher: KeyHasher,
    db_count: usize,
    /// The databases that no request can select, into which data are loaded beside the present ones: as many as the others, with
    /// the numbers behind theirs; or none.
    staged_db_count: usize,
    /// Where the tables of each database are.
    pub(crate) places: Places,
    pub(crate) further_hints: FurtherHints,
    /// Table segments that prefetches may still read.
    pub(crate) segments: Arc<Domain<Retired>>,
    /// Bytes of the segments in `segments`.
    retired_bytes: AtomicUsize,
    /// Bytes of cleared tables that are not freed yet.
    pub(crate) cleared_bytes: Arc<AtomicUsize>,
    /// The counters of each thread.
    pub counters: AllCounters,
    /// The numbers of keys and readers recorded for client-side caching in all slots.
    pub reader_totals: ReaderTotals,
    /// The write log. It is off until it has a reader.
    pub log: Arc<WriteLog>,
    /// For each slot, the end of the last record about its keys.
    pub(crate) changes: LastChanges,
    /// The snapshot that is being taken, if any.
    pub snapshot: SnapshotState,
    /// Keys whose expiry no primary knows.
    pub local_expiries: LocalExpiries,
    /// The receiver of events.
    observer: Option<Box<dyn Observer>>,
}

impl Keyspace {
    /// An empty keyspace of `db_count` databases. `wake` is called with the token of a parked session when
    /// it may claim its latch, on the thread that released the latch.
    pub fn new(db_count: usize, seed: [u64; 4], wake: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self::with_heaps(db_count, seed, Heap::family(HEAP_COUNT), wake)
    }

    /// As [`Self::new`], with heaps that the caller has created, each for a run of neighbouring slots. At
    /// least one.
    pub fn with_heaps(
        db_count: usize,
        seed: [u64; 4],
        heaps: Vec<Heap>,
        wake: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let staged_db_count = if db_count > STAGED_DB_COUNT_MAX { 0 } else { db_count };
        let all_count = db_count + staged_db_count;
        Self {
            slots: LatchTable::new(SLOT_COUNT, |_| (new_hint(), SlotData::new()), Box::new(wake)),
            heaps: heaps.into(),
            hasher: KeyHasher::new(seed),
            db_count,
            staged_db_count,
            places: Places::new(all_count),
            further_hints: FurtherHints::new(all_count),
            segments: Arc::default(),
            retired_bytes: AtomicUsize::new(0),
            cleared_bytes: Arc::default(),
            counters: AllCounters::new(all_count),
            reader_totals: ReaderTotals::default(),
            log: Arc::new(WriteLog::new(Lsn(0), LOG_CAPACITY, THREAD_COUNT_MAX, |_| {})),
            changes: LastChanges::new(),
            snapshot: SnapshotState::new(all_count),
            local_expiries: LocalExpiries::default(),
            observer: None,
        }
    }

    /// Adds a receiver of events.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Replaces the write log, which has a small buffer otherwise. It needs a lane for each thread.
    #[must_use]
    pub fn logged_to(mut self, log: Arc<WriteLog>) -> Self {
        self.log = log;
        self
    }

    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Number of databases.
    #[must_use]
    pub fn db_count(&self) -> usize {
        self.db_count
    }

    /// Whether data can be loaded beside the present ones.
    #[must_use]
    pub fn can_stage(&self) -> bool {
        self.staged_db_count > 0
    }

    /// The database into which the data of a database are loaded beside the present ones. [`Self::can_stage`] must be true.
    #[must_use]
    pub fn staged(&self, db: DbIndex) -> DbIndex {
        assert!(usize::from(db.0) < self.staged_db_count, "a database with a staged one");
        DbIndex(db.0 + self.db_count as u16)
    }

    /// The databases that requests can select.
    pub(crate) fn databases(&self) -> Range<usize> {
        0..self.db_count
    }

    /// The databases into which data are loaded beside the present ones.
    pub(crate) fn staged_databases(&self) -> Range<usize> {
        self.db_count..self.db_count + self.staged_db_count
    }

    /// The place of a database's tables. Exact while a latch is held.
    #[inline(always)]
    pub(crate) fn place(&self, db: usize) -> TablePlace {
        self.places.of(db)
    }

    /// Number of entries of all databases.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        (0..self.db_count).map(|db| self.counters.population(db).keys).sum()
    }

    /// The hasher of keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The slots' latches.
    #[must_use]
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The slots that are latched now: none while no command runs.
    pub fn latched_slots(&self) -> impl Iterator<Item = Slot> {
        let slots = (0..SLOT_COUNT as u16).map(Slot::new);
        slots.filter(|slot| self.slots.try_write_now(slot.index()).is_none())
    }

    /// The heap of a slot's entries.
    #[must_use]
    #[inline]
    pub fn heap(&self, slot: Slot) -> &Heap {
        &self.heaps[slot.index() * self.heaps.len() / SLOT_COUNT]
    }

    /// All heaps, for accounting.
    #[must_use]
    pub fn heaps(&self) -> &[Heap] {
        &self.heaps
    }

    /// Bytes of entries and table segments.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.heaps.iter().map(|heap| heap.block_bytes() as usize).sum()
    }

    /// Bytes of the chunks that entries and segments are carved from, whether used or not.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.heaps[0].family_mapped_bytes()
    }

    /// Called about once a second: the reserve for the growth of the data follows the rate of growth.
    pub fn note_time(&self) {
        self.heaps[0].note_time();
    }

    /// Whether much memory is vacant: more than an eighth of the mapped memory, in addition to the reserve
    /// for growth.
    #[must_use]
    pub fn has_surplus(&self) -> bool {
        let kept = VACANT_SIZE_MIN.max(self.mapped_bytes() / 8) + self.heaps[0].family_reserve_bytes();
        self.heaps[0].family_vacant_bytes() > kept
    }

    /// Returns vacant memory to the system. Takes a fraction of a second for a gigabyte.
    pub fn trim(&self) {
        self.heaps.iter().for_each(Heap::trim);
    }

    /// Bytes of retired segments, which are freed once every thread has passed a quiescent state.
    #[must_use]
    pub fn retired_bytes(&self) -> usize {
        let retired: u64 = self.heaps.iter().map(Heap::retired_bytes).sum();
        self.retired_bytes.load(Ordering::Relaxed) + retired as usize
    }

    /// Bytes of the data that are not freed yet after [`crate::Latched::clear`] removed all. An estimate, at most the bytes in use.
    #[must_use]
    pub fn cleared_bytes(&self) -> usize {
        let estimate = self.cleared_bytes.load(Ordering::Relaxed);
        if estimate == 0 { 0 } else { estimate.min(self.unretired_bytes()) }
    }

    /// Bytes of the entries, of the buffers they own and of the tables, without what is only about to be freed.
    pub(crate) fn data_bytes(&self) -> usize {
        self.unretired_bytes().saturating_sub(self.cleared_bytes.load(Ordering::Relaxed))
    }

    fn unretired_bytes(&self) -> usize {
        let used: u64 = self.heaps.iter().map(Heap::used_bytes).sum();
        (used as usize).saturating_sub(self.retired_bytes())
    }

    /// Passes retired segments to the epoch domain, and frees those that no thread can still read. Each
    /// thread calls it in its turns: the freed memory serves the growth of tables and entries. Frees a
    /// bounded number of segments; the others stay in `scratch` for the next call.
    pub fn reclaim(&self, scratch: &mut Vec<Retired>) {
        for heap in &self.heaps {
            let retired = heap.take_retired();
            if !retired.is_empty() {
                self.retired_bytes.fetch_add(retired.iter().map(Retired::size).sum(), Ordering::Relaxed);
                self.segments.retire_all(retired);
            }
        }
        self.segments.collect(scratch);
        let kept = scratch.len().saturating_sub(FREED_COUNT_MAX);
        let freed: usize = scratch.drain(kept..).map(|segment| segment.size()).sum();
        self.retired_bytes.fetch_sub(freed, Ordering::Relaxed);
    }
}

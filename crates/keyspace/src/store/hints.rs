//! Hints for prefetching, by place (`places.rs`): where the buckets of a slot's table are, readable without the latch.
//!
//! Owns the hints of the places other than the inline one, whose hints are stored beside the latches. Each
//! place has an array with a hint for each slot, created when the database there is large enough. An array is
//! 256 KiB and is kept until the keyspace is dropped, so that a prefetch may read it at any time. The
//! planner prefetches the line of the hint together with that of the slot.
//!
//! Invariants, which meet the conditions of [`collections::Hint::new`]:
//! 1. Whenever no writer holds a slot, its hint describes its table, or is empty.
//! 2. A table that is dropped, or that releases segments, is unlinked here before these are retired.
//! 3. Retired segments go to the keyspace's epoch domain and are freed in [`Keyspace::reclaim`] only. Those
//!    of a flushed database are freed directly if the epoch in which they were unlinked has passed
//!    ([`crate::Cleared::free`]).
//! 4. Hints are read through a [`Prefetcher`](crate::Prefetcher) only, which borrows the [`Latched`](crate::Latched) data
//!    of a participant that is online. The memory is read before that participant is next quiescent or offline, as the number
//!    of its pass shows.
#![allow(unsafe_code, reason = "making a hint is a promise, which the invariants above keep")]

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{Hint, HomeBucket, Table, TableAddress};
use sync::OnceLock;

use crate::store::changes::LastChanges;
use crate::store::key::slot_of_hash;
use crate::store::keyspace::{Keyspace, Slots};
use crate::store::places::TablePlace;

/// With this many keys in one slot a database has about three thousand in all. An array of hints is then
/// less than a fifth of the size of the slots' tables, and smaller databases stay in the caches anyway.
const SLOT_KEY_COUNT_MIN: usize = 4;

/// Number of keys from which a database has hints. A minimum for the whole database, because a client may
/// choose keys of few slots.
const KEY_COUNT_MIN: u64 = 1024;

/// The hints of the further places.
pub(crate) struct FurtherHints {
    by_place: Box<[OnceLock<Box<[FurtherHint]>>]>,
}

/// A hint of a table that is not stored beside the latch, and the table's address at its last change.
struct FurtherHint {
    buckets: Hint,
    table: TableAddress,
}

/// The hints of one database, only to prefetch their cache lines.
#[derive(Clone, Copy)]
pub struct Hints<'k> {
    slots: &'k Slots,
    which: Which<'k>,
    /// While changes are logged, each of them is noted there.
    changes: Option<&'k LastChanges>,
}

#[derive(Clone, Copy)]
enum Which<'k> {
    BesideLatches,
    Further(&'k [FurtherHint]),
    /// A small database in a further place.
    None,
}

impl FurtherHints {
    pub(crate) fn new(db_count: usize) -> Self {
        Self { by_place: (1..db_count.max(1)).map(|_| OnceLock::new()).collect() }
    }

    fn of(&self, place: TablePlace) -> Option<&[FurtherHint]> {
        Some(self.by_place.get(place.number().checked_sub(1)?)?.get()?)
    }
}

impl Keyspace {
    /// The hints of a database.
    #[must_use]
    #[inline]
    pub fn hints(&self, db: DbIndex) -> Hints<'_> {
        let which = match self.place(usize::from(db.0)) {
            TablePlace::INLINE => Which::BesideLatches,
            place => self.further_hints.of(place).map_or(Which::None, Which::Further),
        };
        let changes = Some(&self.changes).filter(|_| self.log.is_on());
        Hints { slots: self.slots(), which, changes }
    }

    /// Updates the hint of a table after a change. The slot is held for writing. Returns the bytes of the
    /// segments that were retired.
    #[inline(always)]
    pub(crate) fn publish(&self, slot: Slot, place: TablePlace, table: &mut Table) -> usize {
        if place == TablePlace::INLINE {
            self.slots().shared(slot.index()).publish(table)
        } else {
            self.publish_further(slot, place, table)
        }
    }

    #[inline(never)]
    fn publish_further(&self, slot: Slot, place: TablePlace, table: &mut Table) -> usize {
        match self.further_hints.of(place) {
            Some(hints) => hints[slot.index()].publish(table),
            None if table.len() >= SLOT_KEY_COUNT_MIN => self.make_hints(slot, place, table),
            // The table's replaced segments are retired: no hint may lead to them.
            None => new_hint().publish(table),
        }
    }

    /// Called before the tables of two places are swapped: if one of the places has hints, creates those of the
    /// other.
    pub(crate) fn pair_hints(&self, places: [TablePlace; 2]) {
        let places = places.map(|place| place.number().checked_sub(1));
        let hints = || places.iter().flatten().map(|place| &self.further_hints.by_place[*place]);
        // The inline place always has hints.
        if places.contains(&None) || hints().any(|hints| hints.get().is_some()) {
            for hints in hints() {
                hints.get_or_init(no_hints);
            }
        }
    }

    /// Creates the hints of a place whose database has grown large enough. Each is filled when its table next
    /// changes.
    #[cold]
    fn make_hints(&self, slot: Slot, place: TablePlace, table: &mut Table) -> usize {
        let db = self.places.db_in(place);
        if self.counters.population(usize::from(db.0)).keys < KEY_COUNT_MIN {
            return new_hint().publish(table);
        }
        self.further_hints.by_place[place.number() - 1].get_or_init(no_hints)[slot.index()].publish(table)
    }
}

fn no_hints() -> Box<[FurtherHint]> {
    (0..SLOT_COUNT).map(|_| FurtherHint { buckets: new_hint(), table: TableAddress::default() }).collect()
}

impl FurtherHint {
    #[inline(always)]
    fn publish(&self, table: &mut Table) -> usize {
        self.table.note(table);
        self.buckets.publish(table)
    }
}

/// An empty hint.
pub(crate) fn new_hint() -> Hint {
    // SAFETY: (1) invariants 1 and 2; (2) invariant 3, and a participant borrows the keyspace that has the heaps; (3) invariant 4.
    unsafe { Hint::new() }
}

impl Hints<'_> {
    /// The slot stage: prefetches the cache line of the key's slot, and that of its hint.
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) {
        let slot = slot_of_hash(hash).index();
        self.slots.prefetch(slot);
        if let Some(changes) = self.changes {
            changes.prefetch(slot);
        }
        if let Which::Further(hints) = self.which {
            hints[slot].buckets.prefetch();
        }
    }

    /// The hints, marked as not readable.
    #[inline(always)]
    pub(crate) fn hidden(self) -> Self {
        Self { which: Which::None, ..self }
    }

    /// Prefetches the home bucket of a key. In a further place, the table is prefetched as well.
    #[inline(always)]
    pub(crate) fn prefetch_home(&self, hash: u64) -> HomeBucket {
        match self.which {
            Which::Further(hints) => {
                let hint = &hints[slot_of_hash(hash).index()];
                hint.table.prefetch();
                hint.buckets.prefetch_home(hash)
            }
            _ => self.of(hash).map_or_else(HomeBucket::default, |hint| hint.prefetch_home(hash)),
        }
    }

    #[inline(always)]
    pub(crate) fn of(&self, hash: u64) -> Option<&Hint> {
        let slot = slot_of_hash(hash).index();
        match self.which {
            Which::BesideLatches => Some(self.slots.shared(slot)),
            Which::Further(hints) => Some(&hints[slot].buckets),
            Which::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_database_has_no_hints() {
        let keyspace = Keyspace::new(4, [1, 2, 3, 4], |_| {});
        assert!(matches!(keyspace.hints(DbIndex(0)).which, Which::BesideLatches));
        assert!(matches!(keyspace.hints(DbIndex(2)).which, Which::None));
    }
}

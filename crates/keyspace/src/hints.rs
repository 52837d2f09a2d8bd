//! Hints for prefetching, by database: where the buckets of a slot's table are, readable without the latch.
//!
//! Owns the hints of the databases other than 0; those of database 0 are stored beside the latches. Each
//! database has an array with a hint for each slot, created when the database is large enough. An array is
//! 256 KiB and is kept until the keyspace is dropped, so that a prefetch may read it at any time. The
//! planner prefetches the line of the hint together with that of the slot.
//!
//! Invariants, which meet the conditions of [`collections::Hint::new`]:
//! 1. Whenever no writer holds a slot, its hint describes its table, or is empty.
//! 2. A table that is dropped, or that gives up segments, is unlinked here before these are retired.
//! 3. Retired segments go to the keyspace's epoch domain and are freed in [`Keyspace::reclaim`] only. Those
//!    of a flushed database are freed directly if the epoch in which they were unlinked has passed
//!    ([`crate::Cleared::free`]).
//! 4. Hints are read through a [`Prefetcher`] only, which borrows the [`View`] of a participant that is
//!    online. What it returns is read before that participant is next quiescent or offline, as the number
//!    of its pass shows.
#![allow(unsafe_code, reason = "making a hint is a promise, which the invariants above keep")]

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{Hint, HomeBucket, ProbeResult, ProbeSequence, Table, TableAddress};
use sync::OnceLock;

use crate::key::slot_of_hash;
use crate::keyspace::{Keyspace, Slots};
use crate::view::View;

/// With this many keys in one slot a database has about three thousand in all. An array of hints is then
/// less than a fifth of the size of the slots' tables, and smaller databases stay in the caches anyway.
const SLOT_KEY_COUNT_MIN: usize = 4;

/// Number of keys from which a database has hints. A minimum for the whole database, because a client may
/// choose keys of few slots.
const KEY_COUNT_MIN: u64 = 1024;

/// The hints of the databases other than 0.
pub(crate) struct FurtherHints {
    by_db: Box<[OnceLock<Box<[FurtherHint]>>]>,
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
}

/// The hints of one database, read by the thread whose view is borrowed.
#[derive(Clone, Copy)]
pub struct Prefetcher<'v> {
    hints: Hints<'v>,
    db: DbIndex,
    /// What is prefetched now may be read as long as the view's pass has this number.
    pass: u64,
}

/// A bucket that was prefetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestedBucket {
    home: HomeBucket,
    pass: u64,
}

/// The probe sequence of a displaced key, from a bucket that was prefetched.
#[derive(Clone, Copy, Debug)]
pub struct RequestedProbes {
    probes: ProbeSequence,
    pass: u64,
}

#[derive(Clone, Copy)]
enum Which<'k> {
    BesideLatches,
    Further(&'k [FurtherHint]),
    /// A small database other than 0.
    None,
}

impl FurtherHints {
    pub(crate) fn new(db_count: usize) -> Self {
        Self { by_db: (1..db_count.max(1)).map(|_| OnceLock::new()).collect() }
    }

    fn of(&self, db: usize) -> Option<&[FurtherHint]> {
        Some(self.by_db.get(db.checked_sub(1)?)?.get()?)
    }
}

impl Keyspace {
    /// The hints of a database.
    #[must_use]
    #[inline]
    pub fn hints(&self, db: DbIndex) -> Hints<'_> {
        let which = match usize::from(db.0) {
            0 => Which::BesideLatches,
            db => self.further_hints.of(db).map_or(Which::None, Which::Further),
        };
        Hints { slots: self.slots(), which }
    }

    /// Updates the hint of a table after a change. The slot is held for writing. Returns the bytes of the
    /// segments that were retired.
    #[inline(always)]
    pub(crate) fn publish(&self, slot: Slot, db: usize, table: &mut Table) -> usize {
        if db == 0 {
            self.slots().shared(slot.index()).publish(table)
        } else {
            self.publish_further(slot, db, table)
        }
    }

    #[inline(never)]
    fn publish_further(&self, slot: Slot, db: usize, table: &mut Table) -> usize {
        match self.further_hints.of(db) {
            Some(hints) => hints[slot.index()].publish(table),
            None if table.len() >= SLOT_KEY_COUNT_MIN => self.make_hints(slot, db, table),
            // The table's replaced segments are retired: no hint may lead to them.
            None => new_hint().publish(table),
        }
    }

    /// Before two databases are swapped: if one of them has hints, the other one gets them, too.
    pub(crate) fn pair_hints(&self, dbs: [usize; 2]) {
        let places = dbs.map(|db| db.checked_sub(1));
        let hints = || places.iter().flatten().map(|place| &self.further_hints.by_db[*place]);
        // Database 0 always has hints.
        if places.contains(&None) || hints().any(|hints| hints.get().is_some()) {
            for hints in hints() {
                hints.get_or_init(no_hints);
            }
        }
    }

    /// Creates the hints of a database that has grown large enough. Each is filled when its table next
    /// changes.
    #[cold]
    fn make_hints(&self, slot: Slot, db: usize, table: &mut Table) -> usize {
        if self.counters.population(db).keys < KEY_COUNT_MIN {
            return new_hint().publish(table);
        }
        self.further_hints.by_db[db - 1].get_or_init(no_hints)[slot.index()].publish(table)
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
    /// First pass of a batch: prefetches the cache line of the key's slot, and that of its hint.
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) {
        let slot = slot_of_hash(hash).index();
        self.slots.prefetch(slot);
        if let Which::Further(hints) = self.which {
            hints[slot].buckets.prefetch();
        }
    }

    #[inline(always)]
    fn of(&self, hash: u64) -> Option<&Hint> {
        let slot = slot_of_hash(hash).index();
        match self.which {
            Which::BesideLatches => Some(self.slots.shared(slot)),
            Which::Further(hints) => Some(&hints[slot].buckets),
            Which::None => None,
        }
    }
}

impl View<'_> {
    /// The reader of a database's hints; it finds nothing unless the thread takes part in the keyspace's
    /// epochs.
    #[inline]
    #[must_use]
    pub fn prefetcher(&self, db: DbIndex) -> Prefetcher<'_> {
        let (mut hints, pass) = (self.keyspace().hints(db), self.pass());
        if pass == NO_PASS {
            hints.which = Which::None;
        }
        Prefetcher { hints, db, pass }
    }
}

/// The number that stands for no pass.
pub(crate) const NO_PASS: u64 = 0;

impl Prefetcher<'_> {
    /// The pass to which it belongs.
    #[inline(always)]
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// The database.
    #[inline(always)]
    pub(crate) fn db(&self) -> DbIndex {
        self.db
    }

    /// The home bucket of a key, to be read in this pass. In a database other than 0, the table is
    /// prefetched as well.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> HomeBucket {
        match self.hints.which {
            Which::Further(hints) => {
                let hint = &hints[slot_of_hash(hash).index()];
                hint.table.prefetch();
                hint.buckets.prefetch_home(hash)
            }
            _ => self.hints.of(hash).map_or_else(HomeBucket::default, |hint| hint.prefetch_home(hash)),
        }
    }

    /// Second pass: prefetches the key's home bucket, which the third pass reads to prefetch the entry.
    /// Valid until the thread is next quiescent.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_home(&self, hash: u64) -> RequestedBucket {
        RequestedBucket { home: self.home(hash), pass: self.pass }
    }

    /// Third pass: prefetches the entry of this hash, for which the bucket was prefetched. A bucket that is
    /// not valid any more yields nothing.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_entry(&self, asked: RequestedBucket, hash: u64) -> ProbeResult {
        if asked.pass == self.pass { asked.home.prefetch_entry(hash) } else { ProbeResult::Missing }
    }

    /// For a displaced key: prefetches the next bucket. Each further pass follows the probe sequence, which
    /// is valid for as long.
    #[must_use]
    pub fn probes_beyond_home(&self, hash: u64) -> Option<RequestedProbes> {
        let probes = self.hints.of(hash)?.probes_beyond_home(hash)?;
        Some(RequestedProbes { probes, pass: self.pass })
    }

    /// Prefetches the entry in the bucket that was prefetched last, or the next bucket if the entry is not
    /// in it.
    #[must_use]
    pub fn follow(&self, asked: &mut RequestedProbes) -> ProbeResult {
        if asked.pass == self.pass { asked.probes.follow() } else { ProbeResult::Missing }
    }
}

#[cfg(test)]
mod tests {
    use collections::{ExpiryChange, Guess, NewValue};
    use sync::Mode;

    use super::*;
    use crate::asked::AskedKeys;
    use crate::key::Key;

    const KEY_COUNT: usize = 8000;

    fn names() -> Vec<String> {
        (0..KEY_COUNT).map(|number| format!("key:{number}")).collect()
    }

    /// For how many of the keys the hints of a database lead to an entry.
    fn seen_count(view: &View<'_>, db: DbIndex) -> usize {
        let prefetcher = view.prefetcher(db);
        let sees = |name: &String| {
            let hash = view.keyspace.hasher().hash(name.as_bytes());
            let home = prefetcher.prefetch_home(hash);
            matches!(prefetcher.prefetch_entry(home, hash), ProbeResult::Found(_))
        };
        names().iter().filter(|name| sees(name)).count()
    }

    fn filled(dbs: &[DbIndex]) -> View<'static> {
        let mut view = View::new(Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| {}))), 0, 1);
        for (db, name) in dbs.iter().flat_map(|db| names().into_iter().map(|name| (*db, name))) {
            let key = Key::new(view.keyspace.hasher(), name.as_bytes(), db);
            view.latch(key.slot, Mode::Write).expect("nobody else is there");
            view.set(key, NewValue::Bytes(b"value"), ExpiryChange::Clear);
            view.release();
        }
        assert_eq!(seen_count(&view, dbs[0]), 0, "it takes no part yet");
        assert!(view.take_part());
        view
    }

    #[test]
    fn what_was_asked_for_before_the_thread_was_quiescent_is_not_looked_at() {
        let mut view = filled(&[DbIndex(0)]);
        let hash_of = |name: &String| view.keyspace.hasher().hash(name.as_bytes());
        let prefetcher = view.prefetcher(DbIndex(0));
        let at_home = |hash: &u64| {
            matches!(prefetcher.prefetch_entry(prefetcher.prefetch_home(*hash), *hash), ProbeResult::Found(_))
        };
        let hash = names().iter().map(hash_of).find(at_home).expect("most are at home");
        let (asked, none) = (prefetcher.prefetch_home(hash), RequestedBucket::default());
        assert_eq!(prefetcher.prefetch_entry(none, hash), ProbeResult::Missing);
        view.quiescent();
        assert_eq!(view.prefetcher(DbIndex(0)).prefetch_entry(asked, hash), ProbeResult::Missing);
        let asked = view.prefetcher(DbIndex(0)).prefetch_home(hash);
        view.offline();
        assert_eq!(view.prefetcher(DbIndex(0)).prefetch_entry(asked, hash), ProbeResult::Missing);
        let asked_offline = view.prefetcher(DbIndex(0)).prefetch_home(hash);
        view.online();
        let prefetcher = view.prefetcher(DbIndex(0));
        for asked in [asked, asked_offline] {
            assert_eq!(prefetcher.prefetch_entry(asked, hash), ProbeResult::Missing);
        }
        assert!(matches!(
            prefetcher.prefetch_entry(prefetcher.prefetch_home(hash), hash),
            ProbeResult::Found(_)
        ));
        let mut keys = AskedKeys::<4>::default();
        keys.ask(view.prefetcher(DbIndex(0)), 0, [hash].iter());
        view.quiescent();
        keys.ask_for_entries(&view, 0..1, |_, _| ());
        keys.ask(view.prefetcher(DbIndex(0)), 1, [hash].iter());
        keys.ask_for_entries(&view, 0..2, |_, _| ());
        assert_eq!([0, 1].map(|number| keys.at(number).guess != Guess::NONE), [false, true]);
    }

    #[test]
    fn a_large_database_has_hints_and_a_small_one_has_none() {
        let view = filled(&[DbIndex(3), DbIndex(1)]);
        for db in [1, 3].map(DbIndex) {
            let seen = seen_count(&view, db);
            assert!((KEY_COUNT / 2..=KEY_COUNT).contains(&seen), "{seen}");
        }
        assert!(matches!(view.keyspace.hints(DbIndex(2)).which, Which::None));
        assert_eq!(seen_count(&view, DbIndex(2)), 0);
    }

    #[test]
    fn hints_follow_whole_databases() {
        let [zero, one, three] = [0, 1, 3].map(DbIndex);
        let mut view = filled(&[one]);
        let seen = seen_count(&view, one);
        view.latch_all(Mode::Write).expect("nobody else is there");
        view.swap(one, three);
        assert_eq!(seen_count(&view, one), 0);
        assert!(seen_count(&view, three) >= seen);
        view.swap(three, zero);
        assert_eq!((seen_count(&view, three), seen_count(&view, one)), (0, 0));
        assert!(seen_count(&view, zero) >= seen);
        view.swap(zero, three);
        view.clear(Some(three)).free();
        assert_eq!(seen_count(&view, three), 0);
        view.release();
    }

    #[test]
    fn hints_know_nothing_of_what_is_removed() {
        let three = DbIndex(3);
        let mut view = filled(&[three]);
        assert!(seen_count(&view, three) > 0);
        for name in names() {
            let key = Key::new(view.keyspace.hasher(), name.as_bytes(), three);
            view.latch(key.slot, Mode::Write).expect("nobody else is there");
            drop(view.remove(key));
            view.release();
        }
        assert_eq!(seen_count(&view, three), 0);
    }
}

//! Reading the hints of a database to prefetch buckets and entries, without latches.
//!
//! Invariant: prefetched memory is read in the pass in which it was prefetched, and in no later pass.

use base::DbIndex;
use collections::{HomeBucket, ProbePrefetch, ProbeResult};

use crate::latched::Latched;
use crate::latched::epochs::NO_PASS;
use crate::store::hints::Hints;

/// The hints of one database, read by the thread whose data is borrowed.
#[derive(Clone, Copy)]
pub struct Prefetcher<'v> {
    hints: Hints<'v>,
    db: DbIndex,
    /// Memory prefetched now may be read as long as the thread's pass has this number.
    pass: u64,
}

/// A bucket that was prefetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchedBucket {
    home: HomeBucket,
    pass: u64,
}

/// The probe sequence of a displaced key, from a bucket that was prefetched.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchedProbes {
    probes: ProbePrefetch,
    pass: u64,
}

impl Latched<'_> {
    /// The reader of a database's hints; it finds nothing unless the thread is a participant of the keyspace's
    /// epochs.
    #[inline]
    #[must_use]
    pub fn prefetcher(&self, db: DbIndex) -> Prefetcher<'_> {
        let (hints, pass) = (self.keyspace.hints(db), self.pass());
        Prefetcher { hints: if pass == NO_PASS { hints.hidden() } else { hints }, db, pass }
    }
}

impl Prefetcher<'_> {
    /// The pass in which memory prefetched with it may be read.
    #[inline(always)]
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// The database.
    #[inline(always)]
    pub(crate) fn db(&self) -> DbIndex {
        self.db
    }

    /// The home bucket of a key, to be read in this pass. In a database other than the inline one, the table is
    /// prefetched as well.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> HomeBucket {
        self.hints.prefetch_home(hash)
    }

    /// The bucket stage: prefetches the key's home bucket, which the entry stage reads. Valid until the thread
    /// is next quiescent.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_home(&self, hash: u64) -> PrefetchedBucket {
        PrefetchedBucket { home: self.home(hash), pass: self.pass }
    }

    /// The entry stage: prefetches the entry of this hash, for which the bucket was prefetched. A bucket that
    /// is not valid any more yields nothing.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_entry(&self, requested: PrefetchedBucket, hash: u64) -> ProbeResult {
        if requested.pass == self.pass { requested.home.prefetch_entry(hash) } else { ProbeResult::Missing }
    }

    /// For a displaced key: prefetches the next bucket. Each further stage follows the probe sequence. Valid
    /// until the thread is next quiescent.
    #[must_use]
    pub fn probes_beyond_home(&self, hash: u64) -> Option<PrefetchedProbes> {
        let probes = self.hints.of(hash)?.probes_beyond_home(hash)?;
        Some(PrefetchedProbes { probes, pass: self.pass })
    }

    /// Prefetches the entry in the bucket that was prefetched last, or the next bucket if the entry is not
    /// in it.
    #[must_use]
    pub fn follow(&self, requested: &mut PrefetchedProbes) -> ProbeResult {
        if requested.pass == self.pass { requested.probes.follow() } else { ProbeResult::Missing }
    }
}

#[cfg(test)]
mod tests {
    use base::limits::SLOT_COUNT;
    use collections::{ExpiryChange, Guess, NewValue};
    use sync::Mode;

    use super::*;
    use crate::latching::Latching;
    use crate::prefetching::prefetched_keys::PrefetchedKeys;
    use crate::store::key::Key;
    use crate::store::keyspace::Keyspace;

    const KEY_COUNT: usize = 8000;

    fn names() -> Vec<String> {
        (0..KEY_COUNT).map(|number| format!("key:{number}")).collect()
    }

    /// For how many of the keys the hints of a database lead to an entry.
    fn found_count(latching: &Latched<'_>, db: DbIndex) -> usize {
        let prefetcher = latching.prefetcher(db);
        let is_found = |name: &String| {
            let hash = latching.keyspace.hasher().hash(name.as_bytes());
            let home = prefetcher.prefetch_home(hash);
            matches!(prefetcher.prefetch_entry(home, hash), ProbeResult::Found(_))
        };
        names().iter().filter(|name| is_found(name)).count()
    }

    fn filled(dbs: &[DbIndex]) -> Latching<'static> {
        let mut latching = Latching::new(Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| {}))), 0, 1);
        for (db, name) in dbs.iter().flat_map(|db| names().into_iter().map(|name| (*db, name))) {
            let key = Key::new(latching.keyspace.hasher(), name.as_bytes(), db);
            latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
            latching.set(key, NewValue::Bytes(b"value"), ExpiryChange::Clear);
            latching.release();
        }
        assert_eq!(found_count(&latching, dbs[0]), 0, "it takes no part yet");
        assert!(latching.join_epochs());
        latching
    }

    #[test]
    fn requests_from_before_a_quiescent_state_are_skipped() {
        let mut latching = filled(&[DbIndex(0)]);
        let hash_of = |name: &String| latching.keyspace.hasher().hash(name.as_bytes());
        let prefetcher = latching.prefetcher(DbIndex(0));
        let at_home = |hash: &u64| {
            matches!(prefetcher.prefetch_entry(prefetcher.prefetch_home(*hash), *hash), ProbeResult::Found(_))
        };
        let hash = names().iter().map(hash_of).find(at_home).expect("most keys are in their home buckets");
        let (requested, none) = (prefetcher.prefetch_home(hash), PrefetchedBucket::default());
        assert_eq!(prefetcher.prefetch_entry(none, hash), ProbeResult::Missing);
        latching.quiescent();
        assert_eq!(latching.prefetcher(DbIndex(0)).prefetch_entry(requested, hash), ProbeResult::Missing);
        let requested = latching.prefetcher(DbIndex(0)).prefetch_home(hash);
        latching.offline();
        assert_eq!(latching.prefetcher(DbIndex(0)).prefetch_entry(requested, hash), ProbeResult::Missing);
        let requested_offline = latching.prefetcher(DbIndex(0)).prefetch_home(hash);
        latching.online();
        let prefetcher = latching.prefetcher(DbIndex(0));
        for requested in [requested, requested_offline] {
            assert_eq!(prefetcher.prefetch_entry(requested, hash), ProbeResult::Missing);
        }
        assert!(matches!(
            prefetcher.prefetch_entry(prefetcher.prefetch_home(hash), hash),
            ProbeResult::Found(_)
        ));
        let mut keys = PrefetchedKeys::<4>::default();
        keys.prefetch_buckets(latching.prefetcher(DbIndex(0)), 0, [hash].iter());
        latching.quiescent();
        keys.prefetch_entries(&latching, 0..1, |_, _| ());
        keys.prefetch_buckets(latching.prefetcher(DbIndex(0)), 1, [hash].iter());
        keys.prefetch_entries(&latching, 0..2, |_, _| ());
        assert_eq!([0, 1].map(|number| keys.at(number).guess != Guess::NONE), [false, true]);
    }

    #[test]
    fn only_large_databases_have_hints() {
        let latching = filled(&[DbIndex(3), DbIndex(1)]);
        for db in [1, 3].map(DbIndex) {
            let found = found_count(&latching, db);
            assert!((KEY_COUNT / 2..=KEY_COUNT).contains(&found), "{found}");
        }
        assert_eq!(found_count(&latching, DbIndex(2)), 0);
    }

    #[test]
    fn hints_follow_whole_databases() {
        let [zero, one, three] = [0, 1, 3].map(DbIndex);
        let mut latching = filled(&[one]);
        let found = found_count(&latching, one);
        latching.latch_all(Mode::Write).expect("no other session holds a latch");
        latching.swap(one, three);
        assert_eq!(found_count(&latching, one), 0);
        assert!(found_count(&latching, three) >= found);
        latching.swap(three, zero);
        assert_eq!((found_count(&latching, three), found_count(&latching, one)), (0, 0));
        assert!(found_count(&latching, zero) >= found);
        latching.swap(zero, three);
        latching.clear(Some(three)).free();
        assert_eq!(found_count(&latching, three), 0);
        latching.release();
    }

    #[test]
    fn the_database_with_nearly_all_keys_is_stored_in_the_slots() {
        let [zero, one, three] = [0, 1, 3].map(DbIndex);
        let mut latching = filled(&[three]);
        let found = found_count(&latching, three);
        assert!(latching.settle_inline_database() && !latching.settle_inline_database());
        assert!(found_count(&latching, three) >= found);
        assert_eq!(found_count(&latching, zero), 0);
        // Its slots have no further tables any more.
        let has_further = |slot| {
            let slot = latching.keyspace().slots().try_read(slot);
            slot.is_none_or(|slot| slot.has_further_tables())
        };
        assert!(!(0..SLOT_COUNT).any(has_further));
        let with_all_latches = |latching: &mut Latching<'static>, act: &dyn Fn(&mut Latched<'static>)| {
            latching.latch_all(Mode::Write).expect("no other session holds a latch");
            act(latching);
            latching.release();
        };
        with_all_latches(&mut latching, &|data| data.swap(three, one));
        assert!(!latching.settle_inline_database(), "the tables are where they were");
        assert_eq!((found_count(&latching, three), found_count(&latching, zero)), (0, 0));
        assert!(found_count(&latching, one) >= found);
        with_all_latches(&mut latching, &|data| data.make_inline(three));
        assert!(found_count(&latching, one) >= found);
        let busy = latching.keyspace().slots().try_read(77);
        assert!(!latching.settle_inline_database() && latching.holds_nothing(), "it waits for no slot");
        drop(busy);
        assert!(latching.settle_inline_database());
        assert!(found_count(&latching, one) >= found);
    }

    #[test]
    fn hints_do_not_lead_to_removed_keys() {
        let three = DbIndex(3);
        let mut latching = filled(&[three]);
        assert!(found_count(&latching, three) > 0);
        for name in names() {
            let key = Key::new(latching.keyspace.hasher(), name.as_bytes(), three);
            latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
            drop(latching.remove(key));
            latching.release();
        }
        assert_eq!(found_count(&latching, three), 0);
    }
}

//! Prefetches the keys of the next requests: the bucket of each some keys ahead of its request, and its
//! entry afterwards, when the bucket should be in the cache.
//!
//! Prefetches are issued a few at a time: a processor drops prefetches when about sixteen are outstanding
//! (measured on Zen 4: of 32 issued at once, one in seven was missing later). So the keys of a batch are
//! not prefetched all at once. They are not prefetched one by one either: each waits for its page
//! translation, and within a group these waits overlap.
//!
//! Touches no data and needs no latch. Invariants: keys are announced, and prefetched, in the order of
//! their requests. No bucket is read in a later turn than it was prefetched in, nor if the thread was
//! quiescent within its turn: [`PrefetchedKeys`] ensures that.

use std::collections::VecDeque;

use base::DbIndex;
use collections::{Guess, ProbeResult};
use commands::context::PlannedKey;
use commands::walk::WARM_COUNT;
use keyspace::{BUCKETS_AHEAD, ENTRIES_AHEAD, GROUP_SIZE, Latched, PrefetchedKeys, PrefetchedProbes};

use super::plan::{KEPT_COUNT_MAX, PLAIN_KEY_COUNT_MAX};

/// The minimum distance of the keys whose buckets are prefetched; [`BUCKETS_AHEAD`] is the maximum.
const BUCKETS_AHEAD_MIN: u64 = 8;

/// Keys of one request that are prefetched before it runs. More would displace each other from all
/// caches; they are prefetched during the walk over them.
const KEYS_OF_REQUEST_MAX: u64 = WARM_COUNT as u64;

/// Maximum number of announced keys. As many that were passed are dropped together.
const ANNOUNCED_COUNT_MAX: usize = 4096;
const DROPPED_COUNT: u64 = 1024;

/// Keys that are or recently were prefetched: those of a plain request, and those ahead of it.
const WINDOW_SIZE: usize = 128;
const _: () = assert!(WINDOW_SIZE as u64 >= PLAIN_KEY_COUNT_MAX as u64 + GROUP_SIZE + BUCKETS_AHEAD);

/// The keys of planned requests, numbered in the order of announcement.
#[derive(Default)]
pub(super) struct PrefetchPipeline {
    /// Their hashes, from the key with number `dropped_count` on.
    announced: Vec<u64>,
    /// The database of the keys whose buckets are prefetched next, and the numbers from which on other databases apply.
    db: DbIndex,
    changes_of_db: VecDeque<(u64, DbIndex)>,
    dropped_count: u64,
    /// How many keys' buckets, and entries, were prefetched.
    bucket_count: u64,
    entry_count: u64,
    window: PrefetchedKeys<WINDOW_SIZE>,
    /// A request that ends with this key or a later one triggers the next group.
    due: u64,
    /// Displaced keys, whose next buckets were prefetched.
    displaced: Vec<(u64, PrefetchedProbes)>,
}

impl PrefetchPipeline {
    /// The number of keys announced so far, which is the number of the next one.
    pub(super) fn announced_count(&self) -> u64 {
        self.dropped_count + self.announced.len() as u64
    }

    /// Announces keys that requests will touch in this order, in this database as far as is known. Of a
    /// large number only the first are recorded.
    #[inline(always)]
    pub(super) fn announce(&mut self, keys: &[PlannedKey], db: DbIndex) {
        if self.bucket_count - self.dropped_count >= DROPPED_COUNT {
            self.drop_passed();
        }
        if db != self.changes_of_db.back().map_or(self.db, |(_, db)| *db) {
            self.changes_of_db.push_back((self.announced_count(), db));
        }
        let room = ANNOUNCED_COUNT_MAX - self.announced.len();
        self.announced.extend(keys[..keys.len().min(room)].iter().map(|key| key.hash));
    }

    /// Prefetches for the keys ahead of a request that is about to run, whose `key_count` keys begin at
    /// number `first`. The distance begins at little more than its own keys, and grows with each group.
    #[inline(always)]
    pub(super) fn advance(&mut self, data: &Latched<'_>, first: u64, key_count: u32) {
        let end = first + u64::from(key_count).min(KEYS_OF_REQUEST_MAX);
        if end >= self.due {
            self.prefetch_group(data, first, end);
        }
    }

    /// Passes to the keys of a request that is about to run where their entries were found. `first` is
    /// the number of the first key.
    #[inline(always)]
    pub(super) fn apply_hints(&mut self, keys: &[PlannedKey], first: u64) {
        for (key, number) in keys.iter().zip(first..) {
            let seen = self.window.at(number);
            key.guess.set(if seen.hash == key.hash { seen.guess } else { Guess::NONE });
        }
    }

    /// Prefetches the next group.
    #[inline(never)]
    fn prefetch_group(&mut self, data: &Latched<'_>, first: u64, end: u64) {
        let announced_count = self.announced_count();
        let due = end + GROUP_SIZE;
        // Advances as far as the requests have since the last group, and a step further.
        let step = due.saturating_sub(self.due).min(due - first) + GROUP_SIZE;
        self.due = due;
        // Keys of requests that have run, or will not run, are skipped.
        self.bucket_count = self.bucket_count.max(first).min(announced_count);
        self.entry_count = self.entry_count.max(first).min(self.bucket_count);
        let entry_goal = (self.entry_count + step).min(self.bucket_count).min(due + ENTRIES_AHEAD).max(due);
        let bucket_goal = (self.bucket_count + step).max(due + BUCKETS_AHEAD_MIN).min(due + BUCKETS_AHEAD);
        self.follow_displaced(data);
        loop {
            self.prefetch_buckets(data, bucket_goal.min(self.entry_count + WINDOW_SIZE as u64));
            self.prefetch_entries(data, entry_goal);
            if self.entry_count >= entry_goal.min(announced_count) {
                break;
            }
        }
    }

    /// Prefetches the buckets of the keys up to `goal`.
    #[inline(always)]
    fn prefetch_buckets(&mut self, data: &Latched<'_>, goal: u64) {
        while let Some((number, db)) =
            self.changes_of_db.front().copied().filter(|(number, _)| *number < goal)
        {
            self.prefetch_buckets_of_db(data, number);
            self.changes_of_db.pop_front();
            self.db = db;
        }
        self.prefetch_buckets_of_db(data, goal);
    }

    /// Prefetches the buckets of the keys up to `goal`, which are in one database.
    #[inline(always)]
    fn prefetch_buckets_of_db(&mut self, data: &Latched<'_>, goal: u64) {
        let goal = goal.max(self.bucket_count).min(self.announced_count());
        let [first, end] = [self.bucket_count, goal].map(|number| (number - self.dropped_count) as usize);
        self.window.prefetch_buckets(
            data.prefetcher(self.db),
            self.bucket_count,
            self.announced[first..end].iter(),
        );
        self.bucket_count = goal;
    }

    /// Prefetches the entries of the keys up to `goal` whose buckets were prefetched.
    #[inline(always)]
    fn prefetch_entries(&mut self, data: &Latched<'_>, goal: u64) {
        let goal = goal.min(self.bucket_count);
        let displaced = &mut self.displaced;
        self.window.prefetch_entries(data, self.entry_count..goal, |number, probes| {
            displaced.push((number, probes))
        });
        self.entry_count = self.entry_count.max(goal);
    }

    /// Prefetches the next bucket of the displaced keys.
    fn follow_displaced(&mut self, data: &Latched<'_>) {
        if self.displaced.is_empty() {
            return;
        }
        let prefetcher = data.prefetcher(self.db);
        let (window, bucket_count) = (&mut self.window, self.bucket_count);
        self.displaced.retain_mut(|(number, probes)| {
            let result = prefetcher.follow(probes);
            // Another key may have reused its index.
            if let ProbeResult::Found(guess) = result
                && *number + WINDOW_SIZE as u64 >= bucket_count
            {
                window.set_guess(*number, guess);
            }
            result == ProbeResult::Displaced
        });
    }

    /// Drops the hashes of keys whose buckets were prefetched.
    #[cold]
    fn drop_passed(&mut self) {
        self.announced.drain(..(self.bucket_count - self.dropped_count) as usize);
        self.dropped_count = self.bucket_count;
    }

    /// Drops all keys.
    pub(super) fn clear(&mut self) {
        self.announced.clear();
        self.announced.shrink_to(KEPT_COUNT_MAX);
        self.displaced.clear();
        self.displaced.shrink_to(KEPT_COUNT_MAX);
        self.changes_of_db.clear();
        self.db = DbIndex(0);
        (self.dropped_count, self.bucket_count, self.entry_count, self.due) = (0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use collections::{ExpiryChange, NewValue};
    use keyspace::{Key, Keyspace, Latching};
    use sync::Mode;

    use super::*;

    fn key(hash: u64) -> PlannedKey {
        PlannedKey::new(hash, 1)
    }

    fn announced(hashes: impl IntoIterator<Item = u64>) -> (Latching<'static>, PrefetchPipeline) {
        let mut pipeline = PrefetchPipeline::default();
        pipeline.announce(&hashes.into_iter().map(key).collect::<Vec<_>>(), DbIndex(0));
        let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(1, [1, 2, 3, 4], |_| {})));
        let mut latching = Latching::new(keyspace, 0, 1);
        assert!(latching.join_epochs());
        (latching, pipeline)
    }

    #[test]
    fn prefetches_before_a_quiescent_state_are_discarded() {
        let (mut latching, mut pipeline) = announced(0..100);
        pipeline.advance(&latching, 0, 1);
        assert!(pipeline.entry_count < pipeline.bucket_count);
        let requested_count = pipeline.bucket_count;
        latching.quiescent();
        pipeline.advance(&latching, 20, 1);
        assert!(pipeline.entry_count >= requested_count);
    }

    #[test]
    fn buckets_and_entries_are_prefetched_at_their_distances() {
        let (latching, mut pipeline) = announced(0..100);
        let mut bucket_count_before = 0;
        for first in 0..100 {
            pipeline.advance(&latching, first, 1);
            let end = first + 1;
            assert!((100.min(end + BUCKETS_AHEAD_MIN)..=100).contains(&pipeline.bucket_count));
            assert!(pipeline.bucket_count <= end + GROUP_SIZE + BUCKETS_AHEAD);
            let step = pipeline.bucket_count - bucket_count_before;
            assert!(first == 0 || step <= 2 * GROUP_SIZE, "{step} at once, for request {first}");
            bucket_count_before = pipeline.bucket_count;
            assert!((end..=end + GROUP_SIZE + ENTRIES_AHEAD).contains(&pipeline.entry_count));
        }
        assert_eq!((pipeline.announced_count(), pipeline.entry_count), (100, 100));
    }

    #[test]
    fn keys_executed_without_a_prefetch_are_skipped() {
        let (latching, mut pipeline) = announced(0..200);
        pipeline.advance(&latching, 0, 1);
        pipeline.advance(&latching, 150, 10);
        assert_eq!((pipeline.bucket_count, pipeline.entry_count), (172, 164));
        assert_eq!(pipeline.announced_count(), 200);
        pipeline.advance(&latching, 500, 10);
        assert_eq!((pipeline.bucket_count, pipeline.entry_count), (200, 200));
        pipeline.clear();
        assert_eq!(pipeline.announced_count(), 0);
        pipeline.advance(&latching, 0, 1);
    }

    #[test]
    fn keys_are_added_while_others_are_in_flight() {
        let (latching, mut pipeline) = announced(0..10);
        for first in 0..5000 {
            pipeline.advance(&latching, first, 1);
            pipeline.announce(&[key(first + 10)], DbIndex(0));
            let on_their_way = pipeline.entry_count..pipeline.bucket_count;
            assert!(on_their_way.clone().all(|number| pipeline.window.at(number).hash == number));
        }
        assert!(pipeline.announced.len() < 2 * DROPPED_COUNT as usize);
        assert_eq!(pipeline.announced_count(), 5010);
    }

    #[test]
    fn entries_are_found_in_their_buckets() {
        for db in [0, 3, 1].map(DbIndex) {
            entries_are_seen(db);
        }
    }

    fn entries_are_seen(db: DbIndex) {
        let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| {})));
        let mut latching = Latching::new(keyspace, 0, 1);
        assert!(latching.join_epochs());
        // A database other than 0 has hints when it has grown.
        for number in 0..8000 {
            let name = format!("other:{number}");
            let key = Key::new(keyspace.hasher(), name.as_bytes(), db);
            latching.latch(key.slot, Mode::Write).unwrap();
            latching.set(key, NewValue::Bytes(b"value"), ExpiryChange::Clear);
            latching.release();
        }
        let names: Vec<_> = (0..300).map(|number| format!("key:{number}")).collect();
        let keys: Vec<_> =
            names.iter().map(|name| Key::new(keyspace.hasher(), name.as_bytes(), db)).collect();
        for key in keys.iter().step_by(2) {
            latching.latch(key.slot, Mode::Write).unwrap();
            latching.set(*key, NewValue::Bytes(key.bytes), ExpiryChange::Clear);
            latching.release();
        }
        let planned: Vec<_> = keys.iter().map(|key| PlannedKey::new(key.hash, 1)).collect();
        let mut pipeline = PrefetchPipeline::default();
        let (one, others) = planned.split_at(100);
        pipeline.announce(one, db);
        pipeline.announce(others, db);
        for (number, key) in (0..).zip(&keys) {
            pipeline.advance(&latching, number, 1);
            let planned = PlannedKey::new(key.hash, 1);
            pipeline.apply_hints(std::slice::from_ref(&planned), number);
            let is_there = number % 2 == 0;
            assert_eq!(planned.guess.get() != Guess::NONE, is_there, "{number}");
            pipeline.apply_hints(&[PlannedKey::new(!key.hash, 1), planned.clone()], number);
            latching.latch(key.slot, Mode::Read).unwrap();
            assert_eq!(latching.find(Key { guess: planned.guess.get(), ..*key }).is_some(), is_there);
            latching.release();
        }
    }

    #[test]
    fn the_pipeline_handles_alternating_databases() {
        let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(4, [1, 2, 3, 4], |_| {})));
        let latching = Latching::new(keyspace, 0, 1);
        let mut pipeline = PrefetchPipeline::default();
        let (mut number, mut expected) = (0, Vec::new());
        for (db, count) in [(0, 3), (2, 30), (2, 5), (3, 1), (0, 7), (1, 60)] {
            let keys: Vec<_> = (number..number + count).map(key).collect();
            pipeline.announce(&keys, DbIndex(db));
            expected.extend((0..count).map(|_| DbIndex(db)));
            number += count;
        }
        for first in 0..number {
            pipeline.advance(&latching, first, 1);
            let seen = *pipeline.window.at(first);
            assert_eq!((seen.hash, seen.db), (first, expected[first as usize]));
        }
        pipeline.clear();
        pipeline.announce(&[key(1)], DbIndex(0));
        assert!(pipeline.changes_of_db.is_empty());
    }

    #[test]
    fn all_keys_of_a_large_request_are_prefetched() {
        let (latching, mut pipeline) = announced(0..2000);
        pipeline.advance(&latching, 100, KEYS_OF_REQUEST_MAX as u32);
        assert!((100 + KEYS_OF_REQUEST_MAX..).contains(&pipeline.entry_count));
        assert!(pipeline.bucket_count - pipeline.entry_count <= WINDOW_SIZE as u64);
    }

    #[test]
    fn keys_beyond_the_maximum_are_not_prefetched() {
        let (_, mut pipeline) = announced(0..1 << 20);
        assert_eq!(pipeline.announced_count(), ANNOUNCED_COUNT_MAX as u64);
        pipeline.announce(&[key(1), key(2)], DbIndex(0));
        assert_eq!(pipeline.announced_count(), ANNOUNCED_COUNT_MAX as u64);
    }
}

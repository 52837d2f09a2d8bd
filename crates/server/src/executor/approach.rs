//! The keys that requests to come will touch, on their way into the caches: the bucket of each is asked for some keys ahead
//! of its request, and its entry after that, when the bucket should be there.
//!
//! Asked for a few at a time: a processor drops such requests when it has some sixteen under way (measured on Zen 4: of 32 asked
//! for at once, one in seven was not there later). So what is planned in one go is not asked for in one go. But not one by one:
//! each also waits for its page to be found, and of a few in a row the waits overlap.
//!
//! Touches no data and needs no latch. Invariants: keys are announced, and asked for, in the order of their requests. Nothing
//! that was asked for outlives the turn: [`Approach::clear`] is called before the thread is quiescent.

use collections::{HomeBucket, Trail};
use commands::context::PlannedKey;
use keyspace::Keyspace;

/// Keys that are asked for together.
const GROUP_SIZE: u64 = 4;

/// Keys whose entries are asked for ahead of the group that runs. More would push each other out of the nearest cache.
const ENTRIES_AHEAD: u64 = 8;

/// Keys whose buckets are asked for ahead of the group that runs, and how far ahead they are at least.
const BUCKETS_AHEAD: u64 = 16;
const BUCKETS_AHEAD_MIN: u64 = 8;

/// Keys of one request that are asked for before it runs: more would push each other out of all caches.
const KEYS_OF_REQUEST_MAX: u64 = 512;

/// Keys that are taken note of.
const ANNOUNCED_COUNT_MAX: usize = 4096;

/// The keys of planned requests, numbered as they are announced.
#[derive(Default)]
pub(super) struct Approach {
    /// Those whose entries were not asked for yet. Key `n` is at `n` modulo the length, a power of two.
    keys: Vec<Upcoming>,
    announced_count: u64,
    /// How many keys' buckets, and entries, were asked for.
    bucket_count: u64,
    entry_count: u64,
    /// The hash of the last key whose bucket was asked for.
    last: Option<u64>,
    /// What ends with this key or a later one brings the next group.
    due: u64,
    /// Keys that were not in the buckets where they are at home, and the next ones were asked for.
    strays: Vec<Trail>,
}

#[derive(Clone, Copy, Default)]
struct Upcoming {
    hash: u64,
    home: HomeBucket,
}

impl Approach {
    /// How many keys were announced so far: the number of the next one.
    pub(super) fn announced_count(&self) -> u64 {
        self.announced_count
    }

    /// Takes note of keys that requests will touch in this order. Of a great many only the first count.
    #[inline(always)]
    pub(super) fn announce(&mut self, keys: &[PlannedKey]) {
        let waiting_count = (self.announced_count - self.entry_count) as usize;
        let keys = &keys[..keys.len().min(ANNOUNCED_COUNT_MAX - waiting_count)];
        if waiting_count + keys.len() > self.keys.len() {
            self.make_room(waiting_count + keys.len());
        }
        for (key, number) in keys.iter().zip(self.announced_count..) {
            *self.key_mut(number) = Upcoming { hash: key.hash, home: HomeBucket::default() };
        }
        self.announced_count += keys.len() as u64;
    }

    /// Asks for what lies ahead of a request that is about to run, whose `key_count` keys are those from `first` on. At first
    /// that is little more than its own keys, and a step further with each group.
    #[inline(always)]
    pub(super) fn reach(&mut self, keyspace: &Keyspace, first: u64, key_count: u32) {
        let end = first + u64::from(key_count).min(KEYS_OF_REQUEST_MAX);
        if end >= self.due {
            self.go_on(keyspace, first, end);
        }
    }

    /// The next group.
    #[inline(never)]
    fn go_on(&mut self, keyspace: &Keyspace, first: u64, end: u64) {
        let due = end + GROUP_SIZE;
        // As far as the requests have come since the last group, and a step further.
        let step = due.saturating_sub(self.due).min(due - first) + GROUP_SIZE;
        self.due = due;
        // Whose request has run, or won't run, is left out.
        self.bucket_count = self.bucket_count.max(first).min(self.announced_count);
        self.entry_count = self.entry_count.max(first).min(self.bucket_count);
        let entry_goal = (self.entry_count + step).min(self.bucket_count).min(due + ENTRIES_AHEAD);
        let bucket_goal = (self.bucket_count + step).max(due + BUCKETS_AHEAD_MIN).min(due + BUCKETS_AHEAD);
        self.strays.retain_mut(Trail::follow);
        self.ask_for_buckets(keyspace, bucket_goal);
        self.ask_for_entries(keyspace, entry_goal.max(due));
    }

    /// Of the keys up to `goal`.
    fn ask_for_buckets(&mut self, keyspace: &Keyspace, goal: u64) {
        let mut before = self.last;
        for number in self.bucket_count..goal.min(self.announced_count) {
            let key = self.key_mut(number);
            // Once if a key comes again and again.
            if before.replace(key.hash) != Some(key.hash) {
                key.home = keyspace.prefetch_home(key.hash);
            }
            self.bucket_count += 1;
        }
        self.last = before;
    }

    /// Of the keys up to `goal` whose buckets were asked for.
    fn ask_for_entries(&mut self, keyspace: &Keyspace, goal: u64) {
        for number in self.entry_count..goal.min(self.bucket_count) {
            let Upcoming { hash, home } = *self.key_mut(number);
            if home.prefetch_entry(hash) {
                self.strays.extend(keyspace.trail_beyond_home(hash));
            }
            self.entry_count += 1;
        }
    }

    #[inline(always)]
    fn key_mut(&mut self, number: u64) -> &mut Upcoming {
        let mask = self.keys.len() - 1;
        &mut self.keys[number as usize & mask]
    }

    /// For so many keys whose entries were not asked for yet.
    #[cold]
    fn make_room(&mut self, count: usize) {
        let mut grown =
            Self { keys: vec![Upcoming::default(); count.next_power_of_two()], ..Self::default() };
        for number in self.entry_count..self.announced_count {
            *grown.key_mut(number) = *self.key_mut(number);
        }
        self.keys = grown.keys;
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        let strays = std::mem::take(&mut self.strays);
        *self = Self { keys, strays, ..Self::default() };
        self.strays.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hash: u64) -> PlannedKey {
        PlannedKey { hash, arg: 1 }
    }

    fn announced(hashes: impl IntoIterator<Item = u64>) -> (Keyspace, Approach) {
        let mut approach = Approach::default();
        approach.announce(&hashes.into_iter().map(key).collect::<Vec<_>>());
        (Keyspace::new(1, [1, 2, 3, 4], |_| {}), approach)
    }

    #[test]
    fn buckets_and_entries_are_asked_for_at_their_distances() {
        let (keyspace, mut approach) = announced(0..100);
        let mut bucket_count_before = 0;
        for first in 0..100 {
            approach.reach(&keyspace, first, 1);
            let end = first + 1;
            assert!((100.min(end + BUCKETS_AHEAD_MIN)..=100).contains(&approach.bucket_count));
            assert!(approach.bucket_count <= end + GROUP_SIZE + BUCKETS_AHEAD);
            let step = approach.bucket_count - bucket_count_before;
            assert!(first == 0 || step <= 2 * GROUP_SIZE, "{step} at once, for request {first}");
            bucket_count_before = approach.bucket_count;
            assert!((end..=end + GROUP_SIZE + ENTRIES_AHEAD).contains(&approach.entry_count));
        }
        assert_eq!((approach.announced_count(), approach.entry_count), (100, 100));
    }

    #[test]
    fn what_is_run_without_is_passed_over() {
        let (keyspace, mut approach) = announced(0..200);
        approach.reach(&keyspace, 0, 1);
        approach.reach(&keyspace, 150, 10);
        assert_eq!((approach.bucket_count, approach.entry_count), (172, 164));
        assert_eq!(approach.announced_count(), 200);
        approach.reach(&keyspace, 500, 10);
        assert_eq!((approach.bucket_count, approach.entry_count), (200, 200));
        approach.clear();
        assert_eq!(approach.announced_count(), 0);
        approach.reach(&keyspace, 0, 1);
    }

    #[test]
    fn keys_are_announced_while_others_are_on_their_way() {
        let (keyspace, mut approach) = announced(0..10);
        for first in 0..1000 {
            approach.reach(&keyspace, first, 1);
            approach.announce(&[key(first + 10)]);
            let on_their_way = approach.entry_count..approach.announced_count();
            assert!(on_their_way.clone().all(|number| approach.key_mut(number).hash == number));
        }
        assert!(approach.keys.len() <= 64, "{}", approach.keys.len());
    }

    #[test]
    fn of_a_great_many_keys_only_the_first_count() {
        let (_, mut approach) = announced(0..1 << 20);
        assert_eq!(approach.announced_count(), ANNOUNCED_COUNT_MAX as u64);
        approach.announce(&[key(1), key(2)]);
        assert_eq!(
            (approach.announced_count(), approach.keys.len()),
            (ANNOUNCED_COUNT_MAX as u64, ANNOUNCED_COUNT_MAX)
        );
    }
}

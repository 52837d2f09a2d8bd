//! The keys that requests to come will touch, on their way into the caches: the bucket of each is asked for some keys ahead
//! of its request, and its entry after that, when the bucket should be there.
//!
//! Asked for a few at a time: a processor drops such requests when it has some sixteen under way (measured on Zen 4: of 32 asked
//! for at once, one in seven was not there later). So what is planned in one go is not asked for in one go. But not one by one:
//! each also waits for its page to be found, and of a few in a row the waits overlap.
//!
//! Touches no data and needs no latch. Invariants: keys are announced, and asked for, in the order of their requests. No bucket
//! is looked at in a later turn than it was asked for in: only those of the keys between `entry_count` and `bucket_count` are,
//! of which [`Approach::clear`] leaves none, and it is called before the thread is quiescent.

use collections::{Guess, HomeBucket, Sighting, Trail};
use commands::context::PlannedKey;
use keyspace::Keyspace;

use super::plan::PLAIN_KEY_COUNT_MAX;

/// Keys that are asked for together.
const GROUP_SIZE: u64 = 4;

/// Keys whose entries are asked for ahead of the group that runs. More would push each other out of the nearest cache.
const ENTRIES_AHEAD: u64 = 8;

/// Keys whose buckets are asked for ahead of the group that runs, and how far ahead they are at least.
const BUCKETS_AHEAD: u64 = 16;
const BUCKETS_AHEAD_MIN: u64 = 8;

/// Keys of one request that are asked for before it runs: more would push each other out of all caches.
const KEYS_OF_REQUEST_MAX: u64 = 512;

/// Keys that are taken note of, and so many that were passed are forgotten together.
const ANNOUNCED_COUNT_MAX: usize = 4096;
const FORGOTTEN_COUNT: u64 = 1024;

/// Keys that are asked for, or were lately: those of a plain request, and what lies ahead of it.
const WINDOW_SIZE: usize = 128;
const _: () = assert!(WINDOW_SIZE as u64 >= PLAIN_KEY_COUNT_MAX as u64 + GROUP_SIZE + BUCKETS_AHEAD);

/// The keys of planned requests, numbered as they are announced.
#[derive(Default)]
pub(super) struct Approach {
    /// Their hashes, from key number `forgotten_count` on.
    announced: Vec<u64>,
    forgotten_count: u64,
    /// How many keys' buckets, and entries, were asked for.
    bucket_count: u64,
    entry_count: u64,
    window: Window,
    /// The last key whose bucket was asked for.
    last: Upcoming,
    /// What ends with this key or a later one brings the next group.
    due: u64,
    /// Keys that were not in the buckets where they are at home, and the next ones were asked for.
    strays: Vec<(u64, Trail)>,
}

#[derive(Clone, Copy, Default)]
struct Upcoming {
    hash: u64,
    home: HomeBucket,
    /// Where the entry was seen.
    guess: Guess,
}

/// The last keys whose buckets were asked for, each in place of an earlier one.
struct Window([Upcoming; WINDOW_SIZE]);

impl Window {
    #[inline(always)]
    fn at(&mut self, number: u64) -> &mut Upcoming {
        &mut self.0[number as usize % WINDOW_SIZE]
    }
}

impl Default for Window {
    fn default() -> Self {
        Self([Upcoming::default(); WINDOW_SIZE])
    }
}

impl Approach {
    /// How many keys were announced so far: the number of the next one.
    pub(super) fn announced_count(&self) -> u64 {
        self.forgotten_count + self.announced.len() as u64
    }

    /// Takes note of keys that requests will touch in this order. Of a great many only the first count.
    #[inline(always)]
    pub(super) fn announce(&mut self, keys: &[PlannedKey]) {
        if self.bucket_count - self.forgotten_count >= FORGOTTEN_COUNT {
            self.forget();
        }
        let room = ANNOUNCED_COUNT_MAX - self.announced.len();
        self.announced.extend(keys[..keys.len().min(room)].iter().map(|key| key.hash));
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

    /// Tells the keys of a request that is about to run where their entries were seen. `first` is the number of the first.
    #[inline(always)]
    pub(super) fn tell(&mut self, keys: &[PlannedKey], first: u64) {
        for (key, number) in keys.iter().zip(first..) {
            let seen = self.window.at(number);
            key.guess.set(if seen.hash == key.hash { seen.guess } else { Guess::NONE });
        }
    }

    /// The next group.
    #[inline(never)]
    fn go_on(&mut self, keyspace: &Keyspace, first: u64, end: u64) {
        let announced_count = self.announced_count();
        let due = end + GROUP_SIZE;
        // As far as the requests have come since the last group, and a step further.
        let step = due.saturating_sub(self.due).min(due - first) + GROUP_SIZE;
        self.due = due;
        // Whose request has run, or won't run, is left out.
        self.bucket_count = self.bucket_count.max(first).min(announced_count);
        self.entry_count = self.entry_count.max(first).min(self.bucket_count);
        let entry_goal = (self.entry_count + step).min(self.bucket_count).min(due + ENTRIES_AHEAD).max(due);
        let bucket_goal = (self.bucket_count + step).max(due + BUCKETS_AHEAD_MIN).min(due + BUCKETS_AHEAD);
        self.follow_strays();
        loop {
            self.ask_for_buckets(keyspace, bucket_goal.min(self.entry_count + WINDOW_SIZE as u64));
            self.ask_for_entries(keyspace, entry_goal);
            if self.entry_count >= entry_goal.min(announced_count) {
                break;
            }
        }
    }

    /// Of the keys up to `goal`.
    #[inline(always)]
    fn ask_for_buckets(&mut self, keyspace: &Keyspace, goal: u64) {
        let hashes = &self.announced[(self.bucket_count - self.forgotten_count) as usize..];
        let mut last = self.last;
        let (window, numbers) = (&mut self.window, self.bucket_count..goal);
        for (number, hash) in numbers.zip(hashes) {
            // Once if a key comes again and again.
            if last.hash != *hash {
                last = Upcoming { hash: *hash, home: keyspace.prefetch_home(*hash), guess: Guess::NONE };
            }
            *window.at(number) = last;
        }
        self.last = last;
        self.bucket_count = self.bucket_count.max(goal.min(self.announced_count()));
    }

    /// Of the keys up to `goal` whose buckets were asked for.
    #[inline(always)]
    fn ask_for_entries(&mut self, keyspace: &Keyspace, goal: u64) {
        let goal = goal.min(self.bucket_count);
        for number in self.entry_count..goal {
            let key = self.window.at(number);
            match key.home.prefetch_entry(key.hash) {
                Sighting::Seen(guess) => key.guess = guess,
                Sighting::Elsewhere => {
                    let trail = keyspace.trail_beyond_home(key.hash);
                    self.strays.extend(trail.map(|trail| (number, trail)));
                }
                Sighting::Missing => {}
            }
        }
        self.entry_count = self.entry_count.max(goal);
    }

    /// Of the keys that were not at home, one bucket further.
    fn follow_strays(&mut self) {
        let (window, bucket_count) = (&mut self.window, self.bucket_count);
        self.strays.retain_mut(|(number, trail)| {
            let sighting = trail.follow();
            // Another key may have taken its place.
            if let Sighting::Seen(guess) = sighting
                && *number + WINDOW_SIZE as u64 >= bucket_count
            {
                window.at(*number).guess = guess;
            }
            sighting == Sighting::Elsewhere
        });
    }

    /// Forgets the hashes of keys whose buckets were asked for.
    #[cold]
    fn forget(&mut self) {
        self.announced.drain(..(self.bucket_count - self.forgotten_count) as usize);
        self.forgotten_count = self.bucket_count;
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.announced.clear();
        self.strays.clear();
        (self.forgotten_count, self.bucket_count, self.entry_count, self.due) = (0, 0, 0, 0);
        self.last = Upcoming::default();
    }
}

#[cfg(test)]
mod tests {
    use base::DbIndex;
    use collections::{ExpiryChange, NewValue};
    use keyspace::{Key, View};
    use sync::Mode;

    use super::*;

    fn key(hash: u64) -> PlannedKey {
        PlannedKey::new(hash, 1)
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
        for first in 0..5000 {
            approach.reach(&keyspace, first, 1);
            approach.announce(&[key(first + 10)]);
            let on_their_way = approach.entry_count..approach.bucket_count;
            assert!(on_their_way.clone().all(|number| approach.window.at(number).hash == number));
        }
        assert!(approach.announced.len() < 2 * FORGOTTEN_COUNT as usize);
        assert_eq!(approach.announced_count(), 5010);
    }

    #[test]
    fn entries_are_seen_where_they_are() {
        let keyspace: &'static Keyspace = Box::leak(Box::new(Keyspace::new(1, [1, 2, 3, 4], |_| {})));
        let mut view = View::new(keyspace, 0, 1);
        let names: Vec<_> = (0..300).map(|number| format!("key:{number}")).collect();
        let keys: Vec<_> =
            names.iter().map(|name| Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0))).collect();
        for key in keys.iter().step_by(2) {
            view.latch(key.slot, Mode::Write).unwrap();
            view.set(*key, NewValue::Bytes(key.bytes), ExpiryChange::Clear);
            view.release();
        }
        let mut approach = Approach::default();
        approach.announce(&keys.iter().map(|key| PlannedKey::new(key.hash, 1)).collect::<Vec<_>>());
        for (number, key) in (0..).zip(&keys) {
            approach.reach(keyspace, number, 1);
            let planned = PlannedKey::new(key.hash, 1);
            approach.tell(std::slice::from_ref(&planned), number);
            let is_there = number % 2 == 0;
            assert_eq!(planned.guess.get() != Guess::NONE, is_there, "{number}");
            approach.tell(&[PlannedKey::new(!key.hash, 1), planned.clone()], number);
            view.latch(key.slot, Mode::Read).unwrap();
            assert_eq!(view.find(Key { guess: planned.guess.get(), ..*key }).is_some(), is_there);
            view.release();
        }
    }

    #[test]
    fn all_keys_of_a_large_request_are_asked_for() {
        let (keyspace, mut approach) = announced(0..2000);
        approach.reach(&keyspace, 100, KEYS_OF_REQUEST_MAX as u32);
        assert!((100 + KEYS_OF_REQUEST_MAX..).contains(&approach.entry_count));
        assert!(approach.bucket_count - approach.entry_count <= WINDOW_SIZE as u64);
    }

    #[test]
    fn of_a_great_many_keys_only_the_first_count() {
        let (_, mut approach) = announced(0..1 << 20);
        assert_eq!(approach.announced_count(), ANNOUNCED_COUNT_MAX as u64);
        approach.announce(&[key(1), key(2)]);
        assert_eq!(approach.announced_count(), ANNOUNCED_COUNT_MAX as u64);
    }
}

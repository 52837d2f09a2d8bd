//! The keys that requests to come will touch, on their way into the caches: the bucket of each is asked for some keys ahead
//! of its request, and its entry after that, when the bucket should be there.
//!
//! Asked for a few at a time: a processor drops such requests when it has some sixteen under way (measured on Zen 4: of 32 asked
//! for at once, one in seven was not there later). So what is planned in one go is not asked for in one go.
//!
//! Touches no data and needs no latch. Invariants: keys are announced, and asked for, in the order of their requests. No trail
//! outlives the turn: [`Approach::clear`] is called before the thread is quiescent.

use std::collections::VecDeque;

use collections::Trail;
use keyspace::Keyspace;

/// Keys whose entries are asked for ahead of the request that runs. More would push each other out of the nearest cache.
const ENTRIES_AHEAD: u64 = 24;

/// Keys whose buckets are asked for ahead of the request that runs, and how far ahead they are at least.
const BUCKETS_AHEAD: u64 = 36;
const BUCKETS_AHEAD_MIN: u64 = 12;

/// Keys after which a bucket that was asked for should be there.
const LAG: u64 = 6;

/// Keys of one request that are asked for before it runs: more would push each other out of all caches.
const KEYS_OF_REQUEST_MAX: u64 = 512;

/// Keys that are taken note of.
const ANNOUNCED_COUNT_MAX: usize = 4096;

/// The keys of planned requests, numbered as they are announced.
#[derive(Default)]
pub(super) struct Approach {
    /// Hashes of keys that nothing was asked for yet but their slots.
    announced: VecDeque<u64>,
    /// Keys whose buckets were asked for; once if a key comes again and again.
    asked: VecDeque<Asked>,
    /// Those of them that were not in the bucket where they are at home.
    strays: VecDeque<Asked>,
    /// How many keys' buckets were asked for so far, and the last one's hash.
    bucket_count: u64,
    last: Option<u64>,
}

/// A key whose bucket was asked for.
#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    /// How far the requests were by then.
    since: u64,
    trail: Trail,
}

impl Approach {
    /// How many keys were announced so far: the number of the next one.
    pub(super) fn announced_count(&self) -> u64 {
        self.bucket_count + self.announced.len() as u64
    }

    /// Takes note of keys that requests will touch in this order. Of a great many only the first count.
    #[inline(always)]
    pub(super) fn announce(&mut self, hashes: impl Iterator<Item = u64>) {
        self.announced.extend(hashes.take(ANNOUNCED_COUNT_MAX - self.announced.len()));
    }

    /// Asks for what lies ahead of a request that is about to run, whose `key_count` keys are those from `first` on. At first
    /// that is little more than its own keys, and a step further with each request.
    #[inline(always)]
    pub(super) fn reach(&mut self, keyspace: &Keyspace, first: u64, key_count: u32) {
        let key_count = u64::from(key_count).min(KEYS_OF_REQUEST_MAX);
        let end = first + key_count;
        let step = key_count + 1;
        if self.bucket_count < first {
            self.pass_over(first);
        }
        let goal = (self.bucket_count + step).max(end + BUCKETS_AHEAD_MIN).min(end + BUCKETS_AHEAD);
        while self.bucket_count < goal {
            let Some(hash) = self.announced.pop_front() else { break };
            if self.last.replace(hash) != Some(hash) {
                let trail = keyspace.trail(hash);
                self.asked.push_back(Asked { number: self.bucket_count, since: end, trail });
            }
            self.bucket_count += 1;
        }
        let entry_count = self.asked.front().map_or(self.bucket_count, |asked| asked.number);
        let goal = (entry_count + step).min(end + ENTRIES_AHEAD);
        let is_due =
            |asked: &mut Asked| asked.number < end || (asked.number < goal && asked.since + LAG <= end);
        while let Some(asked) = self.asked.pop_front_if(is_due) {
            self.follow(asked, end);
        }
        while let Some(stray) = self.strays.pop_front_if(|stray| stray.since + LAG <= end) {
            self.follow(stray, end);
        }
    }

    /// Asks for the entry, or for the next bucket that it may be in.
    #[inline(always)]
    fn follow(&mut self, asked: Asked, end: u64) {
        let Asked { number, mut trail, .. } = asked;
        if trail.follow() {
            self.strays.push_back(Asked { number, since: end, trail });
        }
    }

    /// Forgets the keys before `first`: their requests were run without, or will not run.
    #[cold]
    fn pass_over(&mut self, first: u64) {
        self.asked.clear();
        let passed = (first - self.bucket_count).min(self.announced.len() as u64);
        self.announced.drain(..passed as usize);
        self.bucket_count += passed;
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.announced.clear();
        self.asked.clear();
        self.strays.clear();
        (self.bucket_count, self.last) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(hashes: impl Iterator<Item = u64>) -> (Keyspace, Approach) {
        let mut approach = Approach::default();
        approach.announce(hashes);
        (Keyspace::new(1, [1, 2, 3, 4], |_| {}), approach)
    }

    #[test]
    fn buckets_and_entries_are_asked_for_at_their_distances() {
        let (keyspace, mut approach) = announced(0..100);
        let mut bucket_count_before = 0;
        for first in 0..100 {
            approach.reach(&keyspace, first, 1);
            let end = first + 1;
            assert!(approach.bucket_count >= 100.min(end + BUCKETS_AHEAD_MIN));
            assert!(approach.bucket_count <= 100.min(end + BUCKETS_AHEAD));
            let step = approach.bucket_count - bucket_count_before;
            assert!(first == 0 || step <= 2, "{step} at once, for request {first}");
            bucket_count_before = approach.bucket_count;
            let next_entry = approach.asked.front().map_or(100, |asked| asked.number);
            assert!((end..=end + ENTRIES_AHEAD).contains(&next_entry) || next_entry == 100);
        }
        assert!(approach.asked.is_empty());
        assert_eq!(approach.announced_count(), 100);
    }

    #[test]
    fn what_is_run_without_is_passed_over() {
        let (keyspace, mut approach) = announced(0..200);
        approach.reach(&keyspace, 0, 1);
        approach.reach(&keyspace, 150, 10);
        assert!(approach.asked.iter().all(|asked| asked.number >= 150));
        assert_eq!(approach.announced_count(), 200);
        approach.clear();
        assert_eq!(approach.announced_count(), 0);
    }

    #[test]
    fn a_key_that_comes_again_and_again_is_asked_for_once() {
        let (keyspace, mut approach) = announced([7; 50].into_iter());
        approach.reach(&keyspace, 0, 1);
        approach.reach(&keyspace, 1, 1);
        assert!(approach.asked.is_empty());
        approach.announce([8, 7].into_iter());
        approach.reach(&keyspace, 50, 2);
        assert_eq!(approach.announced_count(), 52);
    }

    #[test]
    fn of_a_great_many_keys_only_the_first_count() {
        let (_, approach) = announced(0..1 << 20);
        assert_eq!(approach.announced.len(), ANNOUNCED_COUNT_MAX);
    }
}

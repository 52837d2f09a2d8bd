//! Keys whose buckets are prefetched ahead of their requests: a ring of the last `N` keys, by number.
//!
//! The ring stores a range of numbers whose buckets are valid, so that not every bucket is checked before
//! it is read.
//! Invariant: the places of the numbers from `start` to `end` hold buckets that were prefetched in the pass
//! `pass`, for these numbers or for later keys.

use std::ops::Range;

use base::DbIndex;
use collections::{Guess, HomeBucket, ProbeResult};

use crate::latched::Latched;
use crate::latched::epochs::NO_PASS;
use crate::prefetching::prefetcher::{PrefetchedProbes, Prefetcher};

/// Keys that are prefetched together.
pub const GROUP_SIZE: u64 = 4;

/// Keys whose entries, and whose buckets, are prefetched ahead of the running group. More entries would displace
/// each other from the L1 cache.
pub const ENTRIES_AHEAD: u64 = 8;
/// See [`ENTRIES_AHEAD`].
pub const BUCKETS_AHEAD: u64 = 16;

/// The last keys whose buckets were prefetched; a new key replaces the oldest.
pub struct PrefetchedKeys<const N: usize> {
    ring: [PrefetchedKey; N],
    pass: u64,
    start: u64,
    end: u64,
}

/// A key whose bucket was prefetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchedKey {
    /// The key's hash.
    pub hash: u64,
    home: HomeBucket,
    /// The database in which it is looked up.
    pub db: DbIndex,
    /// Where the prefetch found its entry.
    pub guess: Guess,
}

impl<const N: usize> Default for PrefetchedKeys<N> {
    fn default() -> Self {
        Self { ring: [PrefetchedKey::default(); N], pass: NO_PASS, start: 0, end: 0 }
    }
}

impl<const N: usize> PrefetchedKeys<N> {
    /// The key at the place of this number: the key with this number, unless it was skipped or has been
    /// replaced since.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, number: u64) -> &PrefetchedKey {
        &self.ring[number as usize % N]
    }

    /// Records where the prefetch found a key's entry.
    #[inline(always)]
    pub fn set_guess(&mut self, number: u64, guess: Guess) {
        self.ring[number as usize % N].guess = guess;
    }

    /// Prefetches the home buckets of these keys, which are numbered from `first` on. A repeated key is
    /// prefetched once.
    #[inline(always)]
    pub fn prefetch_buckets<'h>(
        &mut self,
        prefetcher: Prefetcher<'_>,
        first: u64,
        hashes: impl Iterator<Item = &'h u64>,
    ) {
        let mut last = PrefetchedKey::default();
        if prefetcher.pass() != self.pass || first != self.end {
            (self.pass, self.start) = (prefetcher.pass(), first);
        } else if self.start < first && self.at(first - 1).db == prefetcher.db() {
            last = *self.at(first - 1);
        }
        let mut number = first;
        for &hash in hashes {
            if last.hash != hash {
                let home = prefetcher.home(hash);
                last = PrefetchedKey { hash, home, db: prefetcher.db(), guess: Guess::NONE };
            }
            self.ring[number as usize % N] = last;
            number += 1;
        }
        self.end = number;
    }

    /// Prefetches the entries of these keys, as far as their buckets are valid. `displaced` receives the
    /// displaced keys, with the rest of their probe sequence.
    #[inline(always)]
    pub fn prefetch_entries(
        &mut self,
        data: &Latched<'_>,
        numbers: Range<u64>,
        mut displaced: impl FnMut(u64, PrefetchedProbes),
    ) {
        if self.pass != data.pass() {
            return;
        }
        for number in numbers.start.max(self.start)..numbers.end.min(self.end) {
            let key = &mut self.ring[number as usize % N];
            match key.home.prefetch_entry(key.hash) {
                ProbeResult::Found(guess) => key.guess = guess,
                ProbeResult::Displaced => {
                    if let Some(probes) = data.prefetcher(key.db).probes_beyond_home(key.hash) {
                        displaced(number, probes);
                    }
                }
                ProbeResult::Missing => {}
            }
        }
    }
}

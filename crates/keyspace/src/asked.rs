//! Keys whose buckets were asked for ahead of their requests: a ring of the last `N` of them, by number.
//!
//! So that not each bucket need be checked before it is looked at, it is known of which numbers the buckets may be. Invariant:
//! in the places of the numbers from `start` to `end` there are buckets that were asked for in the pass `pass`: theirs, or those
//! of later keys.

use std::ops::Range;

use base::DbIndex;
use collections::{Guess, HomeBucket, ProbeResult};

use crate::hints::{NO_PASS, Prefetcher, RequestedProbes};
use crate::view::View;

/// The last keys whose buckets were asked for, each in place of an earlier one.
pub struct AskedKeys<const N: usize> {
    ring: [AskedKey; N],
    pass: u64,
    start: u64,
    end: u64,
}

/// A key whose bucket was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedKey {
    /// Its hash.
    pub hash: u64,
    home: HomeBucket,
    /// Where it is looked for.
    pub db: DbIndex,
    /// Where its entry was seen.
    pub guess: Guess,
}

impl<const N: usize> Default for AskedKeys<N> {
    fn default() -> Self {
        Self { ring: [AskedKey::default(); N], pass: NO_PASS, start: 0, end: 0 }
    }
}

impl<const N: usize> AskedKeys<N> {
    /// What is in the place of a number: the key of that number unless it was passed over, or is long gone.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, number: u64) -> &AskedKey {
        &self.ring[number as usize % N]
    }

    /// Notes where the entry of a key was seen.
    #[inline(always)]
    pub fn set_guess(&mut self, number: u64, guess: Guess) {
        self.ring[number as usize % N].guess = guess;
    }

    /// Asks for the buckets in which these keys are at home, whose numbers are those from `first` on; once if a key comes
    /// again and again.
    #[inline(always)]
    pub fn ask<'h>(&mut self, prefetcher: Prefetcher<'_>, first: u64, hashes: impl Iterator<Item = &'h u64>) {
        let mut last = AskedKey::default();
        if prefetcher.pass() != self.pass || first != self.end {
            (self.pass, self.start) = (prefetcher.pass(), first);
        } else if self.start < first && self.at(first - 1).db == prefetcher.db() {
            last = *self.at(first - 1);
        }
        let mut number = first;
        for &hash in hashes {
            if last.hash != hash {
                let home = prefetcher.home(hash);
                last = AskedKey { hash, home, db: prefetcher.db(), guess: Guess::NONE };
            }
            self.ring[number as usize % N] = last;
            number += 1;
        }
        self.end = number;
    }

    /// Asks for the entries of these keys, as far as their buckets may be looked at. `elsewhere` gets those that are not at
    /// home, and the way on.
    #[inline(always)]
    pub fn ask_for_entries(
        &mut self,
        view: &View<'_>,
        numbers: Range<u64>,
        mut displaced: impl FnMut(u64, RequestedProbes),
    ) {
        if self.pass != view.pass() {
            return;
        }
        for number in numbers.start.max(self.start)..numbers.end.min(self.end) {
            let key = &mut self.ring[number as usize % N];
            match key.home.prefetch_entry(key.hash) {
                ProbeResult::Found(guess) => key.guess = guess,
                ProbeResult::Displaced => {
                    if let Some(probes) = view.prefetcher(key.db).probes_beyond_home(key.hash) {
                        displaced(number, probes);
                    }
                }
                ProbeResult::Missing => {}
            }
        }
    }
}

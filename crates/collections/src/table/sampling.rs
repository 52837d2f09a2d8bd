//! Runs of neighbouring entries from a random place on, sampled for eviction.
//!
//! A run reads one or two buckets; entries picked one by one would read a bucket each. A table is ordered by
//! hash, so neighbours are unrelated.
//!
//! An entry's name is the bits of its hash that the table uses. Two entries of one table have the same name
//! with a probability of 2^-24, so removal by name checks the entry.

use crate::entry::Entry;
use crate::entry::owned_entry::OwnedEntry;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::table::Table;
use crate::table::bucket::{BucketItem, POSITION_BITS, Position, WIDTH};
use crate::table::entry_mut::EntryMut;
use crate::table::segment::{EntryPlace, Segment};

/// The parameters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleRun {
    /// 64 random bits that determine the start.
    pub random: u64,
    /// Only entries with an expiry.
    pub volatile_only: bool,
    /// Entries after which it ends.
    pub len_max: usize,
    /// Buckets after which it ends. A run wraps around the table at most once.
    pub bucket_count_max: usize,
}

/// Buckets whose entries are prefetched: a run of five nearly always ends in the second one.
const PREFETCHED_BUCKET_COUNT: usize = 2;

impl Table {
    /// Prefetches the first buckets of a run.
    #[inline]
    pub fn prefetch_run(&self, run: SampleRun) {
        let (segment, home, _) = self.start_of(run);
        if let Some(bucket) = segment.buckets.get(home) {
            let address = std::ptr::from_ref(bucket).addr();
            prefetch::line(address);
            prefetch::line(address + size_of_val(bucket));
        }
    }

    /// Reads these buckets, which should be loaded by now, and prefetches the heads of the run's entries.
    #[inline]
    pub fn prefetch_run_entries(&self, run: SampleRun) {
        let bucket_count_max = run.bucket_count_max.min(PREFETCHED_BUCKET_COUNT);
        self.walk_run(SampleRun { bucket_count_max, ..run }, |item| prefetch::line(item.address()));
    }

    /// Visits the entries of a run, each with its name. Returns their number.
    #[inline]
    pub fn visit_run<'a>(&'a self, run: SampleRun, mut visit: impl FnMut(u64, Entry<'a>)) -> usize {
        // SAFETY: (1) a run has items of the table.
        self.walk_run(run, |item| visit(item.position.to_hash(), unsafe { self.entry_of(item) }))
    }

    /// Removes an entry of this name, if there is one and `accept` returns true for it.
    pub fn remove_named(
        &mut self,
        heap: &Heap,
        name: u64,
        accept: impl FnOnce(Entry<'_>) -> bool,
    ) -> Option<OwnedEntry> {
        let position = Position::of_hash(name);
        // SAFETY: (1) the table owns its segments, and replaces none before the last use of the place.
        let segment: Segment<'_> = unsafe { self.segment_ref(position).view() };
        let place = first_at(segment, position)?;
        // SAFETY: (1) the table has just returned the item.
        if !accept(unsafe { self.entry_of(place.item) }) {
            return None;
        }
        // SAFETY: (1) the segment is the table's, and (2) nothing was changed.
        Some(unsafe { EntryMut::new(self, heap, segment, place) }.remove())
    }

    /// The segment, bucket and index in it at which a run begins.
    #[inline]
    fn start_of(&self, run: SampleRun) -> (Segment<'_>, usize, usize) {
        let position = Position::new((run.random >> (u64::BITS - POSITION_BITS)) as u32);
        let segment = self.segment(position);
        let index = ((run.random & u64::from(u32::MAX)) * WIDTH as u64) >> u32::BITS;
        (segment, segment.reference.home(position), index as usize)
    }

    #[inline]
    fn walk_run(&self, run: SampleRun, mut visit: impl FnMut(BucketItem)) -> usize {
        let (start, home, first_index) = self.start_of(run);
        let (mut segment, mut bucket_index, mut count) = (start, home, 0);
        let mut position = Position::new((run.random >> (u64::BITS - POSITION_BITS)) as u32);
        for nth in 0..run.bucket_count_max {
            let Some(bucket) = segment.buckets.get(bucket_index) else { return count };
            let is_start = bucket_index == home && segment.reference == start.reference;
            for (index, item) in bucket.items() {
                // Items before the start are visited when the run has wrapped around.
                let is_of_run = !is_start || (index >= first_index) == (nth == 0);
                if is_of_run && (item.is_volatile() || !run.volatile_only) {
                    visit(item);
                    count += 1;
                    if count >= run.len_max {
                        return count;
                    }
                }
            }
            if is_start && nth > 0 {
                return count;
            }
            bucket_index += 1;
            if bucket_index == segment.buckets.len() {
                bucket_index = 0;
                position = segment.reference.next_range(position);
                segment = self.segment(position);
            }
        }
        count
    }
}

/// The first place in the probe sequence of this position that has an entry at it.
fn first_at(segment: Segment<'_>, position: Position) -> Option<EntryPlace<'_>> {
    let mut probes = segment.probe_sequence(position);
    loop {
        let bucket_index = probes.bucket_index();
        let bucket = segment.buckets.get(bucket_index)?;
        let mut matches = bucket.matches(position);
        if let Some((index, item)) = matches.next() {
            return Some(EntryPlace { bucket, bucket_index, index, item });
        }
        if !matches.may_go_on() || !probes.advance() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};
    use crate::hasher::KeyHasher;

    fn table(heap: &Heap, key_count: u32, expiry_of: impl Fn(u32) -> ExpiryChange) -> Table {
        let hasher = KeyHasher::new([1, 2, 3, 4]);
        let mut table = Table::new();
        for number in 0..key_count {
            let key = number.to_le_bytes();
            table.upsert(heap, hasher.hash(&key), &key, NewValue::Int(1), expiry_of(number));
        }
        table
    }

    fn random(seed: u64) -> u64 {
        (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    fn run(random: u64, volatile_only: bool, len_max: usize) -> SampleRun {
        SampleRun { random, volatile_only, len_max, bucket_count_max: usize::MAX }
    }

    #[test]
    fn an_unbounded_run_visits_every_entry_once() {
        let heap = Heap::new();
        // Under Miri, 120 keys take several segments.
        let (key_counts, seed_count) =
            if cfg!(miri) { (&[0, 1, 20, 120][..], 3) } else { (&[0, 1, 5, 20, 300, 3000][..], 50) };
        for &key_count in key_counts {
            let table = table(&heap, key_count, |_| ExpiryChange::Clear);
            let is_large = key_count >= if cfg!(miri) { 100 } else { 400 };
            assert_eq!(table.segments().count() > 1, is_large);
            for seed in 0..seed_count {
                let mut names = Vec::new();
                let count = table.visit_run(run(random(seed), false, usize::MAX), |name, _| names.push(name));
                names.sort_unstable();
                names.dedup();
                assert_eq!((count, names.len()), (key_count as usize, key_count as usize));
            }
        }
    }

    #[test]
    fn runs_have_the_given_length_and_only_volatile_entries() {
        let heap = Heap::new();
        let is_volatile = |number| number % 10 == 0;
        let expiry = |number| if is_volatile(number) { ExpiryChange::At(9) } else { ExpiryChange::Clear };
        let (key_count, seed_count) = if cfg!(miri) { (120, 8) } else { (1000, 200) };
        let table = table(&heap, key_count, expiry);
        for seed in 0..seed_count {
            assert_eq!(table.visit_run(run(random(seed), false, 5), |_, _| {}), 5);
            let seen =
                table.visit_run(run(random(seed), true, 5), |_, entry| assert!(entry.expiry().is_some()));
            assert_eq!(seen, 5);
            let short = SampleRun { bucket_count_max: 1, ..run(random(seed), true, 1000) };
            assert!(table.visit_run(short, |_, _| {}) <= WIDTH);
        }
    }

    #[test]
    fn entries_are_sampled_uniformly() {
        let heap = Heap::new();
        let table = table(&heap, 21, |_| ExpiryChange::Clear);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let round_count = if cfg!(miri) { 120 } else { 20_000 };
        for seed in 0..round_count {
            table.visit_run(run(random(seed), false, 5), |name, _| *counts.entry(name).or_default() += 1);
        }
        let expected = round_count as u32 * 5 / 21;
        assert_eq!(counts.len(), 21);
        // A few rounds only show that each entry is visited.
        let is_fair = |count: &u32| cfg!(miri) || (expected / 2..expected * 2).contains(count);
        assert!(counts.values().all(is_fair), "{counts:?}");
    }

    #[test]
    fn sampled_entries_are_removed_by_name_if_accepted() {
        let heap = Heap::new();
        let (key_count, run_len) = if cfg!(miri) { (100, 60) } else { (500, 100) };
        let mut table = table(&heap, key_count, |_| ExpiryChange::Clear);
        let mut names = Vec::new();
        let whole = run(random(7), false, run_len);
        table.visit_run(whole, |name, entry| names.push((name, entry.key().to_vec())));
        for (name, key) in names {
            assert!(table.remove_named(&heap, name, |_| false).is_none());
            let removed = table.remove_named(&heap, name, |entry| entry.key() == key);
            assert_eq!(removed.map(|removed| removed.entry().key().to_vec()), Some(key));
            assert!(table.remove_named(&heap, name, |_| true).is_none());
        }
        assert_eq!(table.len(), key_count as usize - run_len);
        table.check().expect("a sound table");
    }
}

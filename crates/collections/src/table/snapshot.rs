//! A table while a snapshot of it is taken: the walk in portions, and the entries that changes have preserved before it.
//!
//! The walk is ordered by position, and the caller records its progress. A change of an entry that is ahead of the walk
//! calls [`Table::preserve`] before and [`Table::note_preserved`] after it: the entry is visited in its old state, and
//! the walk will skip it. This also applies to a new key, which the snapshot must not include.
//!
//! Invariants:
//! 1. Entries behind the walk, and all while there is none, are not marked as preserved: the walk removes the marks.
//! 2. Growth and defragmentation keep the marks: they are in the words that are moved.
//!
//! A mark applies to a position: all keys of a position are preserved together. Several keys at a position are rare.
//!
//! The walk removes marks under the slot's read latch. No other thread writes the words meanwhile, as there is one walk
//! for a slot; readers ignore the mark.

use crate::entry::Entry;
use crate::table::Table;
use crate::table::bucket::Position;
use crate::table::segment::{EntryPlace, Segment};
use crate::table::walk::next_position;

impl Table {
    /// The position of a key, as [`Self::snapshot_walk`] counts them.
    #[must_use]
    pub fn position(hash: u64) -> u32 {
        Position::of_hash(hash).get()
    }

    /// Visits the entries at the position of a hash that are not preserved yet, and marks them.
    pub fn preserve<'a>(&'a self, hash: u64, mut visit: impl FnMut(Entry<'a>)) {
        self.for_each_at(hash, |place| {
            if !place.item.is_preserved() {
                // SAFETY: (1) the segment is the table's.
                visit(unsafe { self.entry_of(place.item) });
                place.bucket.store(place.index, place.item.with_preserved(true));
            }
        });
    }

    /// Marks the entries at the position of a hash, after a change: a changed or new entry has no mark.
    pub fn note_preserved(&self, hash: u64) {
        self.for_each_at(hash, |place| place.bucket.store(place.index, place.item.with_preserved(true)));
    }

    /// Visits the entries of one bucket's worth of positions from `from` on (below 2^24, 0 to begin), except for those
    /// that are preserved, and removes their marks. Returns the position to continue from; `None` at the end.
    ///
    /// One thread at a time may call it.
    pub fn snapshot_walk<'a>(&'a self, from: u32, mut visit: impl FnMut(Entry<'a>)) -> Option<u32> {
        if from >= Position::END || self.root.is_none() {
            return None;
        }
        let from = Position::new(from);
        let (segment, entries) = self.entries_of_home(from, |item| item.position >= from);
        for (place, entry) in entries {
            if place.item.is_preserved() {
                place.bucket.store(place.index, place.item.with_preserved(false));
            } else {
                visit(entry);
            }
        }
        next_position(segment, from)
    }

    /// Visits the entries of one bucket's worth of positions from `from` on (below 2^24, 0 to begin), with their
    /// positions, preserved or not. Returns the position to continue from; `None` at the end.
    #[inline]
    pub(crate) fn visit_home<'a>(&'a self, from: u32, mut visit: impl FnMut(u32, Entry<'a>)) -> Option<u32> {
        if from >= Position::END || self.root.is_none() {
            return None;
        }
        let from = Position::new(from);
        let (segment, entries) = self.entries_of_home(from, |item| item.position >= from);
        for (place, entry) in entries {
            visit(place.item.position.get(), entry);
        }
        next_position(segment, from)
    }

    /// Number of entries that are marked as preserved, for tests. O(keys).
    #[must_use]
    pub fn preserved_len(&self) -> usize {
        self.segments().flat_map(|(_, segment)| segment.items()).filter(|item| item.is_preserved()).count()
    }

    fn for_each_at<'a>(&'a self, hash: u64, mut visit: impl FnMut(EntryPlace<'a>)) {
        let position = Position::of_hash(hash);
        let segment: Segment<'a> = self.segment(position);
        let mut probes = segment.probe_sequence(position);
        while let Some(bucket) = segment.buckets.get(probes.bucket_index()) {
            let mut matches = bucket.matches(position);
            for (index, item) in matches.by_ref() {
                visit(EntryPlace { bucket, bucket_index: probes.bucket_index(), index, item });
            }
            if !matches.may_go_on() || !probes.advance() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};
    use crate::memory::heap::Heap;

    fn hash_of(number: u64) -> u64 {
        // Few positions, so that some have several keys.
        let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        spread & !(0x3FF << 26)
    }

    fn set(table: &mut Table, heap: &Heap, number: u64, value: i64) {
        let key = number.to_le_bytes();
        table.upsert(heap, hash_of(number), &key, NewValue::Int(value), ExpiryChange::Clear);
    }

    /// A writer's change of a key while a walk is at `from`.
    fn change(
        table: &mut Table,
        seen: &mut Vec<u64>,
        from: u32,
        number: u64,
        change: impl FnOnce(&mut Table),
    ) {
        let is_ahead = Table::position(hash_of(number)) >= from;
        if is_ahead {
            table.preserve(hash_of(number), |entry| seen.push(number_of(entry)));
        }
        change(table);
        if is_ahead {
            table.note_preserved(hash_of(number));
        }
    }

    fn number_of(entry: Entry<'_>) -> u64 {
        u64::from_le_bytes(entry.key().try_into().expect("keys are numbers"))
    }

    #[test]
    fn every_key_of_the_cut_is_visited_once_during_changes() {
        let (heap, mut table) = (Heap::new(), Table::new());
        let count: u64 = if cfg!(miri) { 60 } else { 3_000 };
        (0..count).for_each(|number| set(&mut table, &heap, number, 1));
        let mut seen = Vec::new();
        let (mut from, mut random, mut new) = (0, 1u64, count);
        loop {
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = (random >> 33) % count;
                match random >> 62 {
                    0 => change(&mut table, &mut seen, from, number, |table| {
                        table.remove(&heap, hash_of(number), &number.to_le_bytes());
                    }),
                    1 => {
                        new += 1;
                        change(&mut table, &mut seen, from, new, |table| set(table, &heap, new, 3));
                    }
                    _ => change(&mut table, &mut seen, from, number, |table| set(table, &heap, number, 2)),
                }
            }
            table.defragment(&heap, from, 2);
            match table.snapshot_walk(from, |entry| seen.push(number_of(entry))) {
                Some(next) => from = next,
                None => break,
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..count).collect::<Vec<_>>());
        assert_eq!((table.preserved_len(), table.check()), (0, Ok(())));
    }
}

//! Lookup of a key in its segment: a guess is checked inline, the search is a call.
//!
//! Changes nothing: changing a found entry requires the table mutably.

use crate::entry::Entry;
use crate::memory::heap::Heap;
use crate::table::Table;
use crate::table::bucket::Position;
use crate::table::entry_mut::EntryMut;
use crate::table::guess::Guess;
use crate::table::hint::HomeBucket;
use crate::table::segment::{EntryPlace, Segment};

impl Table {
    /// Prefetches the home bucket of a key with this hash.
    #[inline]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        let position = Position::of_hash(hash);
        // Only the prefetch is needed, not the result.
        let _ = HomeBucket::load(self.segment_ref(position), position);
    }

    /// The entry of a key.
    #[inline(never)]
    #[must_use]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        let position = Position::of_hash(hash);
        // SAFETY: (1) the table returned the segment.
        let place = unsafe { self.place_in(self.segment(position), position, key) }?;
        // SAFETY: (1) the table has just returned the item.
        Some(unsafe { self.entry_of(place.item) })
    }

    /// The entry of a key, which is probably at the guess.
    #[inline(always)]
    #[must_use]
    pub fn find_near(&self, guess: Guess, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        let position = Position::of_hash(hash);
        let place = self.segment(position).place_at(guess, position);
        // SAFETY: (1) the table has just returned the item.
        let guessed = place.map(|place| unsafe { self.entry_of(place.item) });
        guessed.filter(|entry| entry.has_key(key)).or_else(|| self.find(hash, key))
    }

    /// Mutable access to the entry of a key.
    #[inline]
    #[must_use]
    pub fn find_mut<'a>(&'a mut self, heap: &'a Heap, hash: u64, key: &[u8]) -> Option<EntryMut<'a>> {
        self.find_mut_near(Guess::NONE, heap, hash, key)
    }

    /// As [`Self::find_mut`], for a key that is probably at the guess.
    #[inline]
    #[must_use]
    pub fn find_mut_near<'a>(
        &'a mut self,
        guess: Guess,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
    ) -> Option<EntryMut<'a>> {
        // SAFETY: (1) both go into the returned entry, which borrows the table.
        let (segment, place) = unsafe { self.find_place(guess, hash, key) }?;
        // SAFETY: (1) the place was just found, and (2) nothing was changed since.
        Some(unsafe { EntryMut::new(self, heap, segment, place) })
    }

    /// The place of a key.
    ///
    /// # Safety
    /// 1. The table replaces no segment, and is not dropped, for the whole of `'a`: no borrow enforces that.
    #[inline(always)]
    pub(crate) unsafe fn find_place<'a>(
        &mut self,
        guess: Guess,
        hash: u64,
        key: &[u8],
    ) -> Option<(Segment<'a>, EntryPlace<'a>)> {
        let position = Position::of_hash(hash);
        // SAFETY: (1) the table owns its segments, and keeps them.
        let segment: Segment<'a> = unsafe { self.segment_ref(position).view() };
        if let Some(place) = segment.place_at(guess, position)
            // SAFETY: (1) the table has just returned the item.
            && unsafe { self.entry_of(place.item) }.has_key(key)
        {
            return Some((segment, place));
        }
        // Rebuilt rather than returned directly: otherwise a guessed place, too, would be stored to memory
        // and reloaded.
        // SAFETY: (1) the table returned the segment.
        let found = unsafe { self.place_in(segment, position, key) };
        let EntryPlace { bucket, bucket_index, index, item } = found?;
        Some((segment, EntryPlace { bucket, bucket_index, index, item }))
    }

    /// The place of a key in its segment. Ten keys in eleven are in their home bucket.
    ///
    /// # Safety
    /// 1. The segment is one of this table's.
    #[inline(never)]
    unsafe fn place_in<'a>(
        &self,
        segment: Segment<'a>,
        position: Position,
        key: &[u8],
    ) -> Option<EntryPlace<'a>> {
        let mut probes = segment.probe_sequence(position);
        loop {
            let bucket_index = probes.bucket_index();
            let bucket = segment.buckets.get(bucket_index)?;
            let mut matches = bucket.matches(position);
            // SAFETY: (1) the item is in a segment of this table.
            let found = matches.find(|(_, item)| unsafe { self.entry_of(*item) }.has_key(key));
            if let Some((index, item)) = found {
                return Some(EntryPlace { bucket, bucket_index, index, item });
            }
            if !matches.may_go_on() || !probes.advance() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};
    use crate::hasher::KeyHasher;
    use crate::table::hint::{Hint, ProbeResult};

    #[test]
    fn prefetch_results_lead_to_the_key() {
        // SAFETY: (1) published after each change, and the table is dropped last; (2, 3) the retired list is
        // not taken.
        let hint = unsafe { Hint::new() };
        let (heap, mut table) = (Heap::new(), Table::with_hint());
        let key_count: u64 = if cfg!(miri) { 150 } else { 1_000 };
        let hasher = KeyHasher::new([1, 2, 3, 4]);
        let hash_of = |number: u64| hasher.hash(&number.to_le_bytes());
        for number in 0..key_count {
            let value = NewValue::Int(number as i64);
            table.upsert(&heap, hash_of(number), &number.to_le_bytes(), value, ExpiryChange::Clear);
        }
        hint.publish(&mut table);
        let mut displaced_count = 0;
        for number in 0..key_count {
            let hash = hash_of(number);
            if hint.prefetch_home(hash).prefetch_entry(hash) == ProbeResult::Displaced {
                displaced_count += 1;
            }
            let result = hint.prefetch_entry(hash);
            let ProbeResult::Found(guess) = result else { panic!("{number}: {result:?}") };
            let position = Position::of_hash(hash);
            let place = table.segment(position).place_at(guess, position).expect("the guess is valid");
            // SAFETY: (1) the table has just returned the item.
            assert!(unsafe { table.entry_of(place.item) }.has_key(&number.to_le_bytes()));
            assert!(table.find_mut_near(guess, &heap, hash, &number.to_le_bytes()).is_some());
        }
        assert!((1..key_count / 2).contains(&displaced_count), "{displaced_count} keys are displaced");
        for number in 0..key_count {
            let (hash, key) = (hash_of(number), number.to_le_bytes());
            let ProbeResult::Found(guess) = hint.prefetch_home(hash).prefetch_entry(hash) else { continue };
            let removed = table.find_mut_near(guess, &heap, hash, &key).map(|entry| entry.remove());
            assert!(removed.is_some_and(|removed| removed.entry().has_key(&key)));
            hint.publish(&mut table);
        }
        table.check().unwrap();
    }
}

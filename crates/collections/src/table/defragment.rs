//! Defragmentation: after many deletions the remaining entries are moved out of sparse spans.
//!
//! A span returns to the pool only when its last block is freed, and random deletions leave a few blocks in
//! each. Only a bucket's word refers to an entry, so the entry can move under the write latch, and likewise the
//! block of a small collection, to which only its entry refers. A segment is rebuilt at its size. Spans at most three quarters used are emptied into the span that the heap currently
//! fills.
//!
//! Cost: one acquisition of the heap's lock for each block examined, one copy for each block moved. The
//! caller decides when it is worthwhile ([`Heap::used_bytes`] against [`Heap::resident_bytes`]).

use crate::memory::heap::Heap;
use crate::table::Table;
use crate::table::bucket::Position;
use crate::table::entry_mut::EntryMut;
use crate::table::segment::Segment;
use crate::table::walk::next_position;

/// The progress of a defragmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmented {
    /// The position to continue from; `None` at the end of the table.
    pub next: Option<u32>,
    /// Entries moved, or whose values' blocks were moved.
    pub moved_count: usize,
    /// Entries examined.
    pub examined_count: usize,
}

impl Table {
    /// Moves entries and segments out of sparse spans of `heap`, in up to `bucket_count_max` buckets from
    /// position `from` on (below 2^24, 0 to begin).
    pub fn defragment(&mut self, heap: &Heap, from: u32, bucket_count_max: usize) -> Defragmented {
        let next = (from < Position::END && !self.is_empty()).then_some(from);
        let mut done = Defragmented { next, moved_count: 0, examined_count: 0 };
        for _ in 0..bucket_count_max {
            let Some(position) = done.next.map(Position::new) else { break };
            let reference = self.segment(position).reference;
            // SAFETY: (1) the table's segment, live and of this size.
            if unsafe { heap.is_sparse_at(reference.memory(), reference.size()) } {
                self.rebuild(heap, position, reference.bucket_count());
            }
            // SAFETY: (1) no segment is replaced until the view's last use.
            let segment: Segment<'_> = unsafe { self.segment(position).reference.view() };
            for place in segment.places_of_home(segment.reference.home(position)) {
                done.examined_count += 1;
                // SAFETY: (1) the segment is the table's, and (2) only other places were changed.
                let mut entry = unsafe { EntryMut::new(self, heap, segment, place) };
                let has_left = entry.leave_sparse_spans();
                done.moved_count += usize::from(has_left);
            }
            done.next = next_position(segment, position);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};

    #[test]
    fn defragmentation_packs_entries_after_random_deletions() {
        // Under Miri the values are larger, so that few keys fill several spans.
        let (count, value_len) = if cfg!(miri) { (120, 800) } else { (20_000u64, 64) };
        let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ number << 30;
        let (heap, mut table) = (Heap::new(), Table::new());
        for number in 0..count {
            let value = vec![number as u8; value_len + number as usize % 4];
            table.upsert(
                &heap,
                hash(number),
                &number.to_le_bytes(),
                NewValue::Bytes(&value),
                ExpiryChange::Clear,
            );
        }
        for number in (0..count).filter(|number| !number.is_multiple_of(10)) {
            assert!(table.remove(&heap, hash(number), &number.to_le_bytes()).is_some());
        }
        drop(heap.take_retired());
        let mut next = Some(0);
        let mut moved_count = 0;
        while let Some(from) = next {
            let done = table.defragment(&heap, from, 3);
            moved_count += done.moved_count;
            next = done.next;
            drop(heap.take_retired());
        }
        assert_eq!(table.check(), Ok(()));
        assert!(moved_count > 0);
        assert_eq!(table.len() as u64, count / 10);
        for number in (0..count).step_by(10) {
            let entry = table.find(hash(number), &number.to_le_bytes()).expect("not deleted");
            assert_eq!(entry.value().text_len(), Some(value_len + number as usize % 4));
        }
        heap.trim();
        if !cfg!(miri) {
            // The two entry classes and a few segment classes may each have one partly used span.
            assert!(heap.resident_bytes() < heap.used_bytes() + 5 * 32 * 1024, "{heap:?}");
        }
    }
}

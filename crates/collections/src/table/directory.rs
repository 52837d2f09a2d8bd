//! A directory: the map from ranges of positions to segments, for a table with several segments.
//!
//! 2^depth words, indexed by the leading bits of a position; a segment of smaller depth occupies several
//! consecutive words. One counter for each word follows: the number of the segment's entries, kept at its
//! first word. The words are atomics stored with release, because prefetches read them without the latch.

use std::ptr::NonNull;

use sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::memory::heap::Heap;
use crate::memory::replaced::Retired;
use crate::memory::size_class::LINE_SIZE;
use crate::table::bucket::{POSITION_BITS, Position};
use crate::table::segment::SegmentRef;

const WORD_SIZE: usize = size_of::<AtomicU64>() + size_of::<AtomicU32>();

#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    words: &'a [AtomicU64],
    counts: &'a [AtomicU32],
    depth: u32,
}

impl<'a> Directory<'a> {
    /// Bytes of a directory of this depth, a multiple of cache lines.
    pub(crate) const fn size(depth: u32) -> usize {
        (WORD_SIZE << depth).next_multiple_of(LINE_SIZE)
    }

    /// Allocates a directory without segments.
    pub(crate) fn allocate(heap: &Heap, depth: u32) -> SegmentRef {
        let size = Self::size(depth);
        let memory: NonNull<u8> = heap.allocate(size);
        sync::simulation::note_used(memory.addr().get(), size);
        // SAFETY: the block has at least `size` bytes, and only this thread has its address.
        unsafe { memory.write_bytes(0, size) };
        SegmentRef::to_directory(memory, depth)
    }

    /// The memory of a directory.
    ///
    /// # Safety
    /// 1. A table owned it and no longer leads to it; and this is called once for it.
    pub(crate) unsafe fn retired(reference: SegmentRef) -> Retired {
        // SAFETY: (1) it was allocated with this size, and (2) no other owner has it.
        unsafe { Retired::new(reference.memory(), Self::size(reference.depth())) }
    }

    /// A view of a directory.
    ///
    /// # Safety
    /// 1. It is a directory, and is not freed during `'a` (it may be retired).
    #[inline]
    pub(crate) unsafe fn view(reference: SegmentRef) -> Self {
        debug_assert!(reference.is_directory());
        let depth = reference.depth();
        let first = std::ptr::with_exposed_provenance::<AtomicU64>(reference.address());
        let first_count = first.wrapping_add(1 << depth).cast::<AtomicU32>();
        // SAFETY: (1) a directory has 2^depth words, initialised with zeros.
        let words = unsafe { std::slice::from_raw_parts(first, 1 << depth) };
        // SAFETY: (1) as many counts follow them.
        let counts = unsafe { std::slice::from_raw_parts(first_count, 1 << depth) };
        Self { words, counts, depth }
    }

    #[inline]
    pub(crate) fn segment(self, position: Position) -> SegmentRef {
        // Acquire pairs with the release in `set`: a prefetch reads the segment's buckets next.
        SegmentRef::from_bits(self.words[self.index(position)].load(Ordering::Acquire))
    }

    /// Number of entries of the segment that covers this position.
    pub(crate) fn len(self, position: Position) -> usize {
        self.counts[self.first_index(position)].load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_len(self, position: Position, len: usize) {
        self.counts[self.first_index(position)].store(len as u32, Ordering::Relaxed);
    }

    /// Makes `segment` the segment of this position, in all words of its range.
    pub(crate) fn set(self, position: Position, segment: SegmentRef) {
        let spread = self.depth - segment.depth();
        let start = self.index(position) >> spread << spread;
        for word in &self.words[start..start + (1 << spread)] {
            word.store(segment.bits(), Ordering::Release);
        }
    }

    /// Iterates over the segments in order, each once, with the first position of its range.
    pub(crate) fn segments(self) -> impl Iterator<Item = (Position, SegmentRef)> + 'a {
        let mut index = 0;
        std::iter::from_fn(move || {
            let position = index << (POSITION_BITS - self.depth);
            let segment = SegmentRef::from_bits(self.words.get(index)?.load(Ordering::Relaxed));
            index += 1 << (self.depth - segment.depth());
            Some((Position::new(position as u32), segment))
        })
    }

    /// The address of the word for a position.
    #[inline]
    pub(crate) fn word_address(reference: SegmentRef, position: Position) -> usize {
        reference.address() + 8 * (position.get() >> (POSITION_BITS - reference.depth())) as usize
    }

    #[inline]
    fn index(self, position: Position) -> usize {
        (position.get() >> (POSITION_BITS - self.depth)) as usize
    }

    fn first_index(self, position: Position) -> usize {
        let spread = self.depth - self.segment(position).depth();
        self.index(position) >> spread << spread
    }
}

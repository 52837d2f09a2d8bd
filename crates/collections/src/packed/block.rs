//! The memory of a [`Packed`](super::Packed) sequence: one allocation with a head, found through one word.
//!
//! Owns the allocation: a block of a heap if it was created there and is small, so that it can be moved out of a sparse
//! span; else one of the global allocator. All `unsafe` of the sequence is here; the sequence defines the meaning of
//! the bytes.
//! Invariant: `head` points to an allocation of `capacity_words` words behind the word of a [`BlockHead`], all of it
//! initialised. It came from a heap exactly if the head says so.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::memory::heap::{self, Heap};
use crate::memory::prefetch;
use crate::memory::size_class::{BLOCK_SIZE_MAX, LINE_SIZE, class_of, class_size};

/// Bytes of a word; the size of a block is a multiple.
const WORD_SIZE: usize = 8;

/// The head before the bytes: one word in memory. Writing it in parts would stall the next read of the
/// whole word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockHead {
    /// Bytes of elements.
    pub(super) used: u16,
    /// Groups.
    pub(super) len: u16,
    /// Capacity of the index in groups, a multiple of 8; in the low three bits [`Gap`].
    index: u16,
    /// Words behind the head, and [`IN_HEAP`].
    capacity_words: u16,
}

/// Marks a block of a heap.
const IN_HEAP: u16 = 1 << 15;

/// The head's description of the gap before the first element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// No gap.
    None = 0,
    /// One byte.
    OneByte = 1,
    /// A gap whose size is in its first two bytes.
    Sized = 2,
}

const GAP_BITS: u16 = 7;

impl BlockHead {
    #[inline]
    const fn from_word(word: u64) -> Self {
        Self {
            used: word as u16,
            len: (word >> 16) as u16,
            index: (word >> 32) as u16,
            capacity_words: (word >> 48) as u16,
        }
    }

    #[inline]
    const fn to_word(self) -> u64 {
        self.used as u64
            | (self.len as u64) << 16
            | (self.index as u64) << 32
            | (self.capacity_words as u64) << 48
    }

    #[inline]
    fn capacity(self) -> usize {
        usize::from(self.capacity_words & !IN_HEAP) * WORD_SIZE
    }

    #[inline]
    fn is_in_heap(self) -> bool {
        self.capacity_words & IN_HEAP != 0
    }

    /// Capacity of the index in groups; 0 if there is no index.
    #[inline]
    pub(super) fn index_capacity(self) -> usize {
        usize::from(self.index & !GAP_BITS)
    }

    /// `capacity` is a multiple of 8.
    pub(super) fn set_index_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity as u16 & GAP_BITS == 0 && capacity <= usize::from(u16::MAX));
        self.index = capacity as u16 | self.index & GAP_BITS;
    }

    /// In a sequence of equally long strings: the number of places before the first one.
    #[inline]
    pub(super) fn place(self) -> u16 {
        self.index
    }

    /// See [`Self::place`].
    #[inline]
    pub(super) fn set_place(&mut self, place: u16) {
        self.index = place;
    }

    #[inline]
    pub(super) fn gap(self) -> Gap {
        match self.index & GAP_BITS {
            0 => Gap::None,
            1 => Gap::OneByte,
            _ => Gap::Sized,
        }
    }

    #[inline]
    pub(super) fn set_gap(&mut self, gap: Gap) {
        self.index = self.index & !GAP_BITS | gap as u16;
    }
}

/// The allocation; none while the sequence is empty.
pub(super) struct PackedBlock {
    head: Option<NonNull<u64>>,
}

// SAFETY: a block owns plain bytes.
unsafe impl Send for PackedBlock {}
// SAFETY: a shared reference gives only shared access to the bytes.
unsafe impl Sync for PackedBlock {}

impl PackedBlock {
    pub(super) const fn new() -> Self {
        Self { head: None }
    }

    /// Prefetches the head and the bytes behind it.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        if let Some(head) = self.head {
            prefetch::line(head.addr().get());
            prefetch::line(head.addr().get() + LINE_SIZE);
        }
    }

    /// A copy of the head.
    #[inline]
    pub(super) fn head(&self) -> BlockHead {
        // SAFETY: the invariant; the head does not change while `self` is borrowed.
        BlockHead::from_word(self.head.map_or(0, |head| unsafe { head.read() }))
    }

    /// Bytes behind the head.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.head().capacity()
    }

    /// Changes the head except for the capacity, which keeps its value regardless of the assignment. There must be
    /// a block.
    #[inline]
    pub(super) fn update(&mut self, change: impl FnOnce(&mut BlockHead)) {
        let address = self.head.expect("callers have made room");
        let mut head = self.head();
        let capacity_words = head.capacity_words;
        change(&mut head);
        head.capacity_words = capacity_words;
        // SAFETY: the invariant, and `self` is borrowed mutably.
        unsafe { address.write(head.to_word()) };
    }

    /// All bytes behind the head.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let Some(head) = self.head else { return &[] };
        let start = head.as_ptr().wrapping_add(1).cast::<u8>();
        // SAFETY: the invariant.
        unsafe { std::slice::from_raw_parts(start, self.capacity()) }
    }

    /// All bytes behind the head, mutable.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let Some(head) = self.head else { return &mut [] };
        let start = head.as_ptr().wrapping_add(1).cast::<u8>();
        // SAFETY: the invariant, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start, self.capacity()) }
    }

    /// Bytes of the whole allocation.
    pub(super) fn size(&self) -> usize {
        if self.head.is_some() { WORD_SIZE + self.capacity() } else { 0 }
    }

    /// A block that begins with `start`, before zeros, and has a capacity of at least `capacity`: in `heap` if it is
    /// small.
    pub(super) fn in_heap(heap: &Heap, capacity: usize, start: &[u8]) -> Self {
        let size = capacity + WORD_SIZE;
        if size > BLOCK_SIZE_MAX {
            return Self::with_start(capacity, start);
        }
        Self::of_size_in_heap(heap, class_size(class_of(size)), start)
    }

    /// Likewise, where this block is.
    pub(super) fn another(&self, capacity: usize, start: &[u8]) -> Self {
        match self.heap() {
            Some(heap) => Self::in_heap(&heap, capacity, start),
            None => Self::with_start(capacity, start),
        }
    }

    /// Bytes of the whole allocation of [`Self::another`].
    pub(super) fn size_of_another(&self, capacity: usize) -> usize {
        let size = capacity + WORD_SIZE;
        let is_in_heap = self.head().is_in_heap() && size <= BLOCK_SIZE_MAX;
        if is_in_heap { class_size(class_of(size)) } else { Self::size_for(capacity) }
    }

    /// Likewise, from the global allocator.
    pub(super) fn with_start(capacity: usize, start: &[u8]) -> Self {
        let mut block = Self::new();
        block.resize(capacity);
        block.bytes_mut()[..start.len()].copy_from_slice(start);
        block
    }

    /// The heap that the block came from, if any.
    fn heap(&self) -> Option<impl Deref<Target = Heap>> {
        let head = self.head.filter(|_| self.head().is_in_heap())?;
        // SAFETY: (1, 2) the invariant, and the result borrows this block, which lives as long.
        Some(unsafe { heap::heap_of(head.cast(), self.size()) })
    }

    /// A block of `heap`, of this size, a multiple of a word that is not large, that begins with `start` before zeros.
    fn of_size_in_heap(heap: &Heap, size: usize, start: &[u8]) -> Self {
        let rest_size = size.checked_sub(WORD_SIZE + start.len()).expect("the start fits the block");
        let head = heap.allocate(size).cast::<u64>();
        let bytes = head.as_ptr().wrapping_add(1).cast::<u8>();
        // SAFETY: the new block has room for the start behind the word of the head (the subtraction has not
        // overflowed), and `start` is elsewhere.
        unsafe { bytes.copy_from_nonoverlapping(start.as_ptr(), start.len()) };
        // SAFETY: these are the bytes that are left.
        unsafe { bytes.wrapping_add(start.len()).write_bytes(0, rest_size) };
        let capacity_words = (size / WORD_SIZE - 1) as u16 | IN_HEAP;
        // SAFETY: the block begins with a word for the head, and blocks are aligned to 8.
        unsafe { head.write(BlockHead { capacity_words, ..BlockHead::default() }.to_word()) };
        Self { head: Some(head) }
    }

    /// Resizes the block to a capacity of at least `capacity` bytes; the kept bytes stay at their offsets.
    pub(super) fn resize(&mut self, capacity: usize) {
        let size = Self::size_for(capacity);
        if self.head().is_in_heap() {
            // Not for the index alone: classes of the heap and sizes of growing allocations differ, each would round up.
            if capacity <= self.capacity() {
                return;
            }
            let mut new = self.another(size - WORD_SIZE, self.bytes());
            new.update(|head| *head = self.head());
            *self = new;
            return;
        }
        let capacity_words = u16::try_from(size / WORD_SIZE - 1).ok().filter(|words| words & IN_HEAP == 0);
        let capacity_words = capacity_words.expect("64 KiB of elements and their index are less");
        let layout = Self::layout(size);
        let old_size = self.size();
        let memory = match self.head {
            // SAFETY: the size is not 0.
            None => unsafe { alloc_zeroed(layout) },
            Some(head) => {
                // SAFETY: allocated here with this layout; the new size is not 0 and far from overflowing.
                unsafe { realloc(head.as_ptr().cast(), Self::layout(old_size), size) }
            }
        };
        let Some(new) = NonNull::new(memory.cast::<u64>()) else { handle_alloc_error(layout) };
        if let Some(grown) = size.checked_sub(old_size).filter(|_| old_size > 0) {
            // SAFETY: the allocation has `size` bytes now.
            unsafe { memory.wrapping_add(old_size).write_bytes(0, grown) };
        }
        self.head = Some(new);
        let head = BlockHead { capacity_words, ..self.head() };
        // SAFETY: the allocation begins with a word for the head.
        unsafe { new.write(head.to_word()) };
    }

    /// A copy of the block, where it is.
    pub(super) fn to_copy(&self) -> Self {
        if self.head.is_none() {
            return Self::new();
        }
        if let Some(heap) = self.heap() {
            // Of the same size, which need not be one of the heap's classes: the index is at the end.
            return self.to_copy_in(&heap);
        }
        let mut copy = Self::with_start(self.capacity(), self.bytes());
        assert_eq!(copy.capacity(), self.capacity());
        copy.update(|new| *new = self.head());
        copy
    }

    /// A copy of the block in `heap`, if it is small.
    pub(super) fn to_copy_in(&self, heap: &Heap) -> Self {
        let size = self.size();
        if self.head.is_none() || size > BLOCK_SIZE_MAX {
            return self.to_copy();
        }
        // The capacity must stay the same.
        let mut copy = Self::of_size_in_heap(heap, size, self.bytes());
        copy.update(|new| *new = self.head());
        copy
    }

    /// Moves a small block into `heap`, or out of a sparse span. Returns whether it has moved.
    pub(super) fn relocate(&mut self, heap: &Heap) -> bool {
        let Some(head) = self.head else { return false };
        let size = self.size();
        let must_move = if self.head().is_in_heap() {
            // SAFETY: (1) the invariant.
            unsafe { heap.should_move(head.cast(), size) }
        } else {
            size <= BLOCK_SIZE_MAX
        };
        if must_move {
            *self = self.to_copy_in(heap);
        }
        must_move
    }

    /// Bytes of a growing allocation for `capacity`, rounded up as the allocator would, so that no space is lost
    /// (size classes of mimalloc and jemalloc: 16 bytes apart up to 128, then four to a doubling).
    pub(super) fn size_for(capacity: usize) -> usize {
        let size = capacity + WORD_SIZE;
        let step = if size <= 128 { 16 } else { size.next_power_of_two() / 8 };
        size.next_multiple_of(step)
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, align_of::<u64>()).expect("sizes are small")
    }
}

impl Drop for PackedBlock {
    fn drop(&mut self) {
        if let Some(head) = self.head {
            let size = self.size();
            if self.head().is_in_heap() {
                // SAFETY: (1, 2) the invariant, and the block is not used any more.
                unsafe { heap::free(head.cast(), size) };
            } else {
                // SAFETY: allocated here with this layout, and not used any more.
                unsafe { dealloc(head.as_ptr().cast(), Self::layout(size)) };
            }
        }
    }
}

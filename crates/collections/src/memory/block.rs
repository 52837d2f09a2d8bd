//! A block of bytes behind a pointer of one word: the storage of small collections.
//!
//! Owns one block of a [`Heap`], or none while it is empty. The four bytes before the first byte are the length.
//!
//! Invariants
//! 1. A pointer, if present, leads to a live block of a heap, of the size of the header and as many bytes as the
//!    header says, all initialised and owned by this block alone.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::heap::{self, Heap};
use crate::memory::prefetch;
use crate::memory::size_class::{BLOCK_SIZE_MAX, LINE_SIZE, class_of, class_size};

/// A byte block whose length is fixed at creation.
pub(crate) struct ByteBlock {
    header: Option<NonNull<u32>>,
}

const HEADER_SIZE: usize = size_of::<u32>();

// SAFETY: it owns plain bytes, and any thread may free a block of a heap.
unsafe impl Send for ByteBlock {}
// SAFETY: a shared reference only reads them.
unsafe impl Sync for ByteBlock {}

impl ByteBlock {
    /// An empty block. Allocates nothing.
    pub(crate) const fn empty() -> Self {
        Self { header: None }
    }

    /// A block of at least `len_min` zeros, as many as the heap's block for them has.
    pub(crate) fn zeroed(heap: &Heap, len_min: usize) -> Self {
        Self::with_start(heap, len_min, &[])
    }

    /// A block of at least `len_min` bytes, of which the first ones are these, and the others zeros.
    pub(crate) fn with_start(heap: &Heap, len_min: usize, start: &[u8]) -> Self {
        if len_min == 0 {
            return Self::empty();
        }
        assert!(start.len() <= len_min, "the start fits the block");
        let size = rounded(len_min + HEADER_SIZE);
        let len = u32::try_from(size - HEADER_SIZE).expect("collections of one block are far smaller");
        let header = heap.allocate(size).cast::<u32>();
        let rest_size = len as usize - start.len();
        let bytes = header.as_ptr().wrapping_add(1).cast::<u8>();
        // SAFETY: the block has `len` bytes behind the header, no fewer than `start` (the subtraction has not
        // overflowed), belongs to this function, and `start` is elsewhere.
        unsafe { bytes.copy_from_nonoverlapping(start.as_ptr(), start.len()) };
        // SAFETY: likewise, these are the bytes that are left.
        unsafe { bytes.wrapping_add(start.len()).write_bytes(0, rest_size) };
        // SAFETY: the block begins with room for the header, and blocks are aligned to 8.
        unsafe { header.write(len) };
        Self { header: Some(header) }
    }

    /// Prefetches the beginning.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if let Some(header) = self.header {
            prefetch::line(header.addr().get());
            prefetch::line(header.addr().get() + LINE_SIZE);
        }
    }

    /// Bytes of memory that the block occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.header.is_some() { self.len() + HEADER_SIZE } else { 0 }
    }

    /// Moves to another block of `heap` if this one is that of another heap, or lies in a sparse span. Returns whether it has moved.
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        let Some(header) = self.header else { return false };
        // SAFETY: (1) the block is live, and of this size.
        let must_move = unsafe { heap.should_move(header.cast::<u8>(), self.memory_bytes()) };
        if must_move {
            *self = self.to_copy(heap);
        }
        must_move
    }

    /// A copy in `heap`.
    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        Self::with_start(heap, self.len(), self)
    }
}

impl Deref for ByteBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(header) = self.header else { return &[] };
        // SAFETY: (1) the header is initialised.
        let len = unsafe { header.read() } as usize;
        // SAFETY: (1) the bytes begin behind the header.
        let bytes = unsafe { header.add(1) };
        // SAFETY: (1) there are `len` bytes, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), len) }
    }
}

impl DerefMut for ByteBlock {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Some(header) = self.header else { return &mut [] };
        // SAFETY: (1) the header is initialised.
        let len = unsafe { header.read() } as usize;
        // SAFETY: (1) the bytes begin behind the header.
        let bytes = unsafe { header.add(1) };
        // SAFETY: (1) there are `len` bytes, borrowed mutably as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr().cast::<u8>(), len) }
    }
}

impl Default for ByteBlock {
    fn default() -> Self {
        Self::empty()
    }
}

impl Drop for ByteBlock {
    fn drop(&mut self) {
        if let Some(header) = self.header {
            let size = self.memory_bytes();
            // SAFETY: (1) the block was allocated with this size, and is no longer used.
            unsafe { heap::free(header.cast::<u8>(), size) };
        }
    }
}

/// The size of the block that the heap has for `size` bytes. A large one has up to an eighth more, so that it is
/// not copied with each element that is added.
fn rounded(size: usize) -> usize {
    if size <= BLOCK_SIZE_MAX {
        class_size(class_of(size))
    } else {
        size.next_multiple_of(size.next_power_of_two() / 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_idempotent() {
        for size in 1..if cfg!(miri) { 600 } else { 70_000 } {
            let once = rounded(size);
            assert!(once >= size && rounded(once) == once, "{size} becomes {once}");
        }
    }

    #[test]
    fn blocks_keep_their_bytes() {
        assert_eq!(size_of::<ByteBlock>(), size_of::<usize>());
        let heap = Heap::new();
        let lens = [0usize, 1, 8, 24, 56, 100, 1_000, 5_000, 32_764, 100_000];
        for len in lens.into_iter().filter(|len| !cfg!(miri) || *len < 10_000) {
            let mut block = ByteBlock::zeroed(&heap, len);
            assert!(block.len() >= len && block.len() <= len + len / 8 + 16);
            assert!(block.iter().all(|byte| *byte == 0));
            block.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
            let copy = block.to_copy(&heap);
            assert_eq!(copy[..], block[..]);
            assert_eq!(copy.memory_bytes(), if len == 0 { 0 } else { block.len() + HEADER_SIZE });
            assert_eq!(heap.used_bytes() as usize, 2 * block.memory_bytes());
            drop(block);
            assert!(copy.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        }
        assert_eq!(heap.used_bytes(), 0);
    }
}

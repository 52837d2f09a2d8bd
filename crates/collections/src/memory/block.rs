//! A block of bytes behind a pointer of one word: the storage of small collections.
//!
//! Owns one allocation, or none while it is empty. The eight bytes before the first byte are the length.
//!
//! Invariants
//! 1. A pointer, if present, leads to an allocation of the header and as many bytes as the header says, all
//!    initialised and owned by this block alone.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::prefetch;
use crate::memory::size_class::LINE_SIZE;

/// A byte block whose length is fixed at creation.
pub(crate) struct ByteBlock {
    header: Option<NonNull<usize>>,
}

const HEADER_SIZE: usize = size_of::<usize>();

// SAFETY: it owns plain bytes.
unsafe impl Send for ByteBlock {}
// SAFETY: a shared reference only reads them.
unsafe impl Sync for ByteBlock {}

impl ByteBlock {
    /// An empty block. Allocates nothing.
    pub(crate) const fn empty() -> Self {
        Self { header: None }
    }

    /// A block of at least `len_min` zeros, rounded up to the allocator's next size.
    pub(crate) fn zeroed(len_min: usize) -> Self {
        if len_min == 0 {
            return Self::empty();
        }
        let layout = layout_of(rounded(len_min + HEADER_SIZE) - HEADER_SIZE);
        // SAFETY: the layout has the header at least.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(header) = NonNull::new(memory.cast::<usize>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation begins with room for the header, and is aligned for it.
        unsafe { header.write(layout.size() - HEADER_SIZE) };
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
}

impl Deref for ByteBlock {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(header) = self.header else { return &[] };
        // SAFETY: (1) the header is initialised.
        let len = unsafe { header.read() };
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
        let len = unsafe { header.read() };
        // SAFETY: (1) the bytes begin behind the header.
        let bytes = unsafe { header.add(1) };
        // SAFETY: (1) there are `len` bytes, borrowed mutably as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr().cast::<u8>(), len) }
    }
}

impl Clone for ByteBlock {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl Default for ByteBlock {
    fn default() -> Self {
        Self::empty()
    }
}

impl Drop for ByteBlock {
    fn drop(&mut self) {
        let len = self.len();
        if let Some(header) = self.header {
            // SAFETY: (1) it was allocated with this layout, and is no longer used.
            unsafe { dealloc(header.as_ptr().cast::<u8>(), layout_of(len)) };
        }
    }
}

fn layout_of(len: usize) -> Layout {
    Layout::from_size_align(len + HEADER_SIZE, align_of::<usize>()).expect("blocks are far below isize::MAX")
}

/// Rounds up to a size class of common allocators: 16 bytes apart up to 128, then four to a doubling.
fn rounded(size: usize) -> usize {
    let step = if size <= 128 { 16 } else { size.next_power_of_two() / 8 };
    size.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_idempotent() {
        for size in 1..5_000 {
            let once = rounded(size);
            assert!(once >= size && rounded(once) == once, "{size} becomes {once}");
        }
    }

    #[test]
    fn blocks_keep_their_bytes() {
        assert_eq!(size_of::<ByteBlock>(), size_of::<usize>());
        for len in [0usize, 1, 8, 24, 56, 100, 1_000, 5_000] {
            let mut block = ByteBlock::zeroed(len);
            assert!(block.len() >= len && block.len() <= len + len / 4 + 16);
            assert!(block.iter().all(|byte| *byte == 0));
            block.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
            let copy = block.clone();
            assert_eq!(copy[..], block[..]);
            assert_eq!(copy.memory_bytes(), if len == 0 { 0 } else { block.len() + 8 });
            drop(block);
            assert!(copy.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        }
    }
}

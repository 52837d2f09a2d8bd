//! The ring's memory: bytes that writers and readers access in disjoint ranges, by LSN modulo the size.
//!
//! Under loom each byte has a cell, through which loom detects accesses that are not ordered.

use std::cell::UnsafeCell;

/// Bytes of a cache line.
const LINE_SIZE: usize = 64;

/// The maximum number of cache lines that are prefetched together.
const PREFETCHED_LINE_COUNT_MAX: usize = 8;

pub(super) struct Ring {
    bytes: Box<[UnsafeCell<u8>]>,
    #[cfg(loom)]
    cells: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: the methods' callers keep concurrent accesses disjoint or read-only.
unsafe impl Sync for Ring {}
// SAFETY: bytes belong to no thread.
unsafe impl Send for Ring {}

impl Ring {
    /// `size` is a power of two. The memory is zeroed, hence resident only where it was used.
    pub(super) fn new(size: usize) -> Self {
        let bytes = Box::into_raw(vec![0_u8; size].into_boxed_slice());
        Ring {
            // SAFETY: `UnsafeCell<u8>` has the representation of `u8`, and the pointer is from `into_raw`.
            bytes: unsafe { Box::from_raw(bytes as *mut [UnsafeCell<u8>]) },
            #[cfg(loom)]
            cells: (0..size).map(|_| loom::cell::UnsafeCell::new(())).collect(),
        }
    }

    /// Copies `source` to the range that starts at LSN `at`.
    ///
    /// # Safety
    /// 1. No other access to this range is concurrent.
    /// 2. `source` is not longer than the ring.
    #[inline]
    pub(super) unsafe fn write(&self, at: u64, source: &[u8]) {
        debug_assert!(source.len() <= self.bytes.len());
        let index = self.index(at);
        let (first, second) = source.split_at(source.len().min(self.bytes.len() - index));
        #[cfg(loom)]
        (0..source.len() as u64).for_each(|byte| self.cells[self.index(at + byte)].with_mut(|_| ()));
        // SAFETY: `index + first.len()` is within the ring; exclusive (1).
        unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), self.pointer(index), first.len()) };
        if !second.is_empty() {
            // SAFETY: `second` is shorter than the ring (2); exclusive (1).
            unsafe { std::ptr::copy_nonoverlapping(second.as_ptr(), self.pointer(0), second.len()) };
        }
    }

    /// Prefetches the cache lines of a range of LSNs for writing, some at most: a record's lines were last used a whole
    /// ring ago, and the next locked instruction of a writer waits for its stores.
    #[inline(always)]
    pub(super) fn prefetch(&self, from: u64, to: u64) {
        for line in (from..to).step_by(LINE_SIZE).take(PREFETCHED_LINE_COUNT_MAX) {
            crate::prefetch::prefetch_for_writing(self.pointer(self.index(line)));
        }
    }

    /// The range of LSNs in one or two pieces.
    ///
    /// # Safety
    /// 1. While the pieces are in use, there is no write to this range.
    /// 2. The range is not longer than the ring.
    pub(super) unsafe fn slices(&self, from: u64, to: u64) -> (&[u8], &[u8]) {
        let length = (to - from) as usize;
        debug_assert!(length <= self.bytes.len());
        let index = self.index(from);
        let first_length = length.min(self.bytes.len() - index);
        self.note_read(from, to);
        // SAFETY: within the ring; nothing writes there (1).
        let first = unsafe { std::slice::from_raw_parts(self.pointer(index), first_length) };
        // SAFETY: shorter than the ring (2); nothing writes there (1).
        let second = unsafe { std::slice::from_raw_parts(self.pointer(0), length - first_length) };
        (first, second)
    }

    /// Reports to loom that the range is being read.
    #[inline(always)]
    pub(super) fn note_read(&self, from: u64, to: u64) {
        #[cfg(loom)]
        (from..to).for_each(|byte| self.cells[self.index(byte)].with(|_| ()));
        let _ = (from, to);
    }

    fn index(&self, lsn: u64) -> usize {
        lsn as usize & (self.bytes.len() - 1)
    }

    /// A pointer to the byte at `index` and all behind it.
    fn pointer(&self, index: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.bytes[index..].as_ptr())
    }
}

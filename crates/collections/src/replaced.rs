//! The memory that a table has replaced since its hint was last published. It is retired only after it is
//! unlinked.
//!
//! A prefetch finds segments by the hint, without the latch, and the hint follows the table only when it is
//! published. If a segment were retired earlier, an epoch could pass while the hint still leads to the
//! segment. A prefetch that begins later would read freed memory.
//!
//! Owns the memory in it. Invariant: it is always empty for a table without a hint.

use std::ptr::NonNull;

use sync::simulation::{self, Fault, Gap, planted};

use crate::directory::Directory;
use crate::heap::{self, Heap};
use crate::segment::SegmentRef;
use crate::table::Table;

/// A segment or directory that no table uses but a prefetch may still be reading. Dropping it frees it; the
/// creator of a [`crate::Hint`] determines when ([`crate::Hint::new`]).
#[derive(Debug)]
pub struct Retired {
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: it owns the memory, and memory may be freed by any thread.
unsafe impl Send for Retired {}
// SAFETY: it has no method that takes a shared reference.
unsafe impl Sync for Retired {}

impl Retired {
    /// # Safety
    /// 1. The block came from [`Heap::allocate`] with a size of the same class (the same size if it is large).
    /// 2. It is no longer used, except by prefetches that may still be reading it, and is not freed
    ///    elsewhere.
    pub(crate) unsafe fn new(address: NonNull<u8>, size: usize) -> Self {
        Self { address, size }
    }

    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Bytes that dropping it frees.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        simulation::note_freed(self.address.addr().get(), self.size);
        // SAFETY: (1, 2) owned since `new`, whose caller guaranteed the size.
        unsafe { heap::free(self.address, self.size) };
    }
}

/// Replaced segments and directories, the latest first.
#[derive(Default)]
pub(crate) struct Replaced(Option<Box<Node>>);

struct Node {
    retired: Retired,
    next: Replaced,
}

impl Replaced {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, retired: Retired) {
        let next = std::mem::take(self);
        self.0 = Some(Box::new(Node { retired, next }));
    }

    /// Retires all of it and returns its bytes. No hint may still lead to it.
    pub(crate) fn retire(&mut self) -> usize {
        let mut size = 0;
        while let Some(node) = self.0.take() {
            let Node { retired, next } = *node;
            size += retired.size();
            Heap::retire(retired);
            *self = next;
        }
        size
    }
}

impl Table {
    /// Frees all entries, and the segments once no hint leads to them. The table is empty afterwards.
    pub fn clear(&mut self) {
        let mut old = self.take();
        self.replaced = std::mem::take(&mut old.replaced);
        // SAFETY: (1) `take_memory` follows.
        unsafe { old.free_entries() };
        old.take_memory().into_iter().for_each(|retired| self.retire(retired));
    }

    /// Moves all contents out, so that another thread can drop them once the hint was published.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let empty = Self::empty(self.has_hint);
        std::mem::replace(self, empty)
    }

    /// Frees all entries and returns the memory of the segments, which a prefetch may still be reading, as
    /// with retired memory.
    #[must_use]
    pub fn into_memory(mut self) -> Vec<Retired> {
        // SAFETY: (1) `take_memory` follows.
        unsafe { self.free_entries() };
        self.take_memory()
    }

    /// Exchanges the contents of two tables. Each keeps its hint, which must be published before either is
    /// changed.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.has_hint, &mut other.has_hint);
    }

    /// Retires the memory that was replaced since the hint was last published. The hint must no longer lead
    /// to it.
    #[cold]
    pub(crate) fn retire_replaced(&mut self) -> usize {
        self.replaced.retire()
    }

    /// Queues memory to which the table itself no longer leads, or retires it at once if there is no hint.
    pub(crate) fn retire(&mut self, retired: Retired) {
        if self.has_hint && !planted(Fault::RetireBeforeUnlink) {
            self.replaced.push(retired);
        } else {
            Heap::retire(retired);
        }
        simulation::pass(Gap::MemoryReplaced);
    }

    /// Takes the segments and the directory. The table is empty afterwards.
    pub(crate) fn take_memory(&mut self) -> Vec<Retired> {
        let segments: Vec<_> = self.segments().map(|(_, segment)| segment.reference).collect();
        let root = std::mem::replace(&mut self.root, SegmentRef::NONE);
        // SAFETY: (1) the table leads to nothing any more.
        let mut memory: Vec<_> =
            segments.into_iter().map(|segment| unsafe { retired_segment(segment) }).collect();
        if root.is_directory() {
            // SAFETY: (1) likewise.
            memory.push(unsafe { retired_directory(root) });
        }
        memory
    }
}

/// The memory of a segment.
///
/// # Safety
/// 1. A table owned it and no longer leads to it; and this is called once for it.
pub(crate) unsafe fn retired_segment(segment: SegmentRef) -> Retired {
    // SAFETY: (1) it was allocated with this size, and (2) no other owner has it.
    unsafe { Retired::new(segment.memory(), segment.size()) }
}

/// The memory of a directory.
///
/// # Safety
/// 1. A table owned it and no longer leads to it; and this is called once for it.
pub(crate) unsafe fn retired_directory(directory: SegmentRef) -> Retired {
    // SAFETY: (1) it was allocated with this size, and (2) no other owner has it.
    unsafe { Retired::new(directory.memory(), Directory::size(directory.depth())) }
}

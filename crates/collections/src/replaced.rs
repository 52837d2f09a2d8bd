//! What a table has replaced since its hint was last published: unlinked first, then retired.
//!
//! A prefetch finds segments by the hint, without the latch, and the hint follows the table only when it is published. Were a
//! segment retired before, an epoch might pass that began when the hint still led to it: a prefetch that begins after that
//! would read memory that is freed meanwhile.
//!
//! Owns the memory of what is in it. Invariant: of a table without a hint nothing is ever in it.

use std::ptr::NonNull;

use sync::simulation::{self, Fault, Gap, planted};

use crate::directory::Directory;
use crate::heap::{self, Heap};
use crate::segment::SegmentRef;
use crate::table::Table;

/// A segment or directory that no table uses any more but a prefetch may still be reading. Dropping it frees it: when, is for
/// whoever has made a [`crate::Hint`] to say ([`crate::Hint::new`]).
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
    /// 2. Nobody uses it any more, but prefetches that may still be reading it; and nobody else frees it.
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
        // SAFETY: (1, 2) owned since `new`, whose caller vouched for the size.
        unsafe { heap::free(self.address, self.size) };
    }
}

/// Segments and directories, the latest first.
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

    /// Retires all of it, and returns its bytes: no hint may lead there any more.
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
    /// Frees all entries, and the segments once no hint leads to them; the table is as new.
    pub fn clear(&mut self) {
        let mut old = self.take();
        self.replaced = std::mem::take(&mut old.replaced);
        // SAFETY: (1) that follows.
        unsafe { old.free_entries() };
        old.take_memory().into_iter().for_each(|retired| self.retire(retired));
    }

    /// Moves everything out, so that another thread can drop it, once the hint was published.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let empty = Self::empty(self.has_hint);
        std::mem::replace(self, empty)
    }

    /// Frees all entries, and gives out the memory of the segments, which a prefetch may still be reading as if it were retired.
    #[must_use]
    pub fn into_memory(mut self) -> Vec<Retired> {
        // SAFETY: (1) that follows.
        unsafe { self.free_entries() };
        self.take_memory()
    }

    /// Exchanges the contents of two tables. Each keeps its hint, which is to be published before either is changed.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.has_hint, &mut other.has_hint);
    }

    /// Retires what was replaced since the hint was last published, which must lead there no more.
    #[cold]
    pub(crate) fn retire_replaced(&mut self) -> usize {
        self.replaced.retire()
    }

    /// Takes care of what the table itself leads to no more.
    pub(crate) fn retire(&mut self, retired: Retired) {
        if self.has_hint && !planted(Fault::RetireBeforeUnlink) {
            self.replaced.push(retired);
        } else {
            Heap::retire(retired);
        }
        simulation::pass(Gap::MemoryReplaced);
    }

    /// Takes the segments and the directory out. What is left has no entries.
    pub(crate) fn take_memory(&mut self) -> Vec<Retired> {
        let segments: Vec<_> = self.segments().map(|(_, segment)| segment.reference).collect();
        let root = std::mem::replace(&mut self.root, SegmentRef::NONE);
        // SAFETY: (1) the table has nothing any more.
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
/// 1. It was a table's, which leads to it no more; and this is done once.
pub(crate) unsafe fn retired_segment(segment: SegmentRef) -> Retired {
    // SAFETY: (1) it was allocated with this size, and (2) nobody else has it.
    unsafe { Retired::new(segment.memory(), segment.size()) }
}

/// The memory of a directory.
///
/// # Safety
/// 1. It was a table's, which leads to it no more; and this is done once.
pub(crate) unsafe fn retired_directory(directory: SegmentRef) -> Retired {
    // SAFETY: (1) it was allocated with this size, and (2) nobody else has it.
    unsafe { Retired::new(directory.memory(), Directory::size(directory.depth())) }
}

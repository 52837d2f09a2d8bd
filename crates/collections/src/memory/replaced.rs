//! The memory that a table has replaced since its hint was last published. It is retired only after it is
//! unlinked.
//!
//! A prefetch finds segments by the hint, without the latch, and the hint follows the table only when it is
//! published. If a segment were retired earlier, an epoch could pass while the hint still leads to the
//! segment. A prefetch that begins later would read freed memory.
//!
//! Owns the memory in it. Invariant: it is always empty for a table without a hint.

use std::ptr::NonNull;

use sync::simulation;

use crate::memory::heap::{self, Heap};

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
pub(crate) struct Replaced(Option<Box<ReplacedNode>>);

struct ReplacedNode {
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
        self.0 = Some(Box::new(ReplacedNode { retired, next }));
    }

    /// Retires all of it and returns its bytes. No hint may still lead to it.
    pub(crate) fn retire(&mut self) -> usize {
        let mut size = 0;
        while let Some(node) = self.0.take() {
            let ReplacedNode { retired, next } = *node;
            size += retired.size();
            Heap::retire(retired);
            *self = next;
        }
        size
    }
}

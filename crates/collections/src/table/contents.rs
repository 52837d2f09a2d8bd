//! Emptying, exchanging and retiring the contents of a table.

use sync::simulation::{self, Gap, planted};

use super::Table;
use crate::entry::owned_entry::OwnedEntry;
use crate::faults;
use crate::memory::heap::Heap;
use crate::memory::replaced::Retired;
use crate::table::directory::Directory;
use crate::table::segment::SegmentRef;

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
    pub(super) fn retire(&mut self, retired: Retired) {
        if self.has_hint && !planted(faults::EARLY_RETIRE) {
            self.replaced.push(retired);
        } else {
            Heap::retire(retired);
        }
        simulation::pass(Gap::MemoryReplaced);
    }

    /// Frees only the entries.
    ///
    /// # Safety
    /// 1. No other operation on the table precedes the next [`Self::take_memory`].
    pub(crate) unsafe fn free_entries(&mut self) {
        for item in self.segments().flat_map(|(_, segment)| segment.items()) {
            // SAFETY: (1) the table owned the entry, and is not read again.
            drop(unsafe { OwnedEntry::from_block(item.block()) });
        }
    }

    /// Takes the segments and the directory. The table is empty afterwards.
    pub(super) fn take_memory(&mut self) -> Vec<Retired> {
        let segments: Vec<_> = self.segments().map(|(_, segment)| segment.reference).collect();
        let root = std::mem::replace(&mut self.root, SegmentRef::NONE);
        // SAFETY: (1) the table leads to nothing any more.
        let mut memory: Vec<_> = segments.into_iter().map(|segment| unsafe { segment.retired() }).collect();
        if root.is_directory() {
            // SAFETY: (1) likewise.
            memory.push(unsafe { Directory::retired(root) });
        }
        memory
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: (1) `take_memory` follows.
        unsafe { self.free_entries() };
        self.take_memory().into_iter().for_each(Heap::retire);
        self.replaced.retire();
    }
}

//! A leaf in a separate allocation.

use super::leaf::{Keyed, Leaf, LeafMut, leaf_size, slots_for};
use crate::memory::block::ByteBlock;

/// The only leaf of few elements.
#[derive(Clone, Default)]
pub(crate) struct Single {
    block: ByteBlock,
}

/// Size up to which a block is not shrunk.
const KEPT_SIZE: usize = 64;

impl Single {
    #[inline]
    pub(super) fn leaf(&self) -> Leaf<'_> {
        Leaf::of(&self.block)
    }

    /// Prefetches the start of its block.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        self.block.prefetch();
    }

    /// Bytes of memory that it owns.
    pub(super) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }

    /// Adds an absent element. It must fit ([`Leaf::has_room`]).
    pub(super) fn push(&mut self, tag: u8, element: &[u8]) {
        if !LeafMut::of(&mut self.block).try_push(tag, element) {
            let len = self.leaf().len() + 1;
            self.resize(len + len / 16, self.leaf().size() + element.len());
            let is_added = LeafMut::of(&mut self.block).try_push(tag, element);
            debug_assert!(is_added, "the leaf has room for the element");
        }
    }

    /// Replaces an element, if the leaf does not become too large.
    pub(super) fn replace<K: Keyed>(&mut self, index: usize, element: &[u8]) -> bool {
        if LeafMut::of(&mut self.block).try_replace(index, element) {
            return true;
        }
        if !self.leaf().has_room(element.len()) {
            return false;
        }
        self.resize(self.leaf().len(), self.leaf().size() + element.len());
        LeafMut::of(&mut self.block).try_replace(index, element)
    }

    /// Removes the element at `index`, which must be below the length.
    pub(super) fn remove(&mut self, index: usize) {
        LeafMut::of(&mut self.block).remove(index);
        let (len, size) = (self.leaf().len(), self.leaf().size());
        if len == 0 || leaf_size(len, size) * 2 < self.block.len() && self.block.len() > KEPT_SIZE {
            self.resize(len, size);
        }
    }

    /// Moves to a block for this many elements and bytes, plus any excess that the allocator provides.
    #[cold]
    fn resize(&mut self, len: usize, size: usize) {
        if len == 0 {
            *self = Self::default();
            return;
        }
        let slots = slots_for(len);
        let mut new = ByteBlock::zeroed(leaf_size(slots, size));
        let mut leaf = LeafMut::empty(&mut new);
        leaf.set_slots(slots);
        for (index, element) in self.leaf().iter().enumerate() {
            leaf.try_push(self.leaf().tag(index), element);
        }
        self.block = new;
    }
}

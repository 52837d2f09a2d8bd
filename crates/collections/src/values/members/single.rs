//! A leaf in a separate allocation.

use super::leaf::{INDEXED_LEN_MIN, Keyed, Leaf, LeafMut, leaf_size, slots_for, unindexed_size};
use super::position::tag_of;
use crate::memory::block::ByteBlock;
use crate::memory::heap::Heap;
use crate::values::parameters::AllocContext;

/// The only leaf of few elements.
#[derive(Default)]
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
    #[inline]
    pub(super) fn push<K: Keyed>(&mut self, alloc: AllocContext<'_>, tag: u8, element: &[u8]) {
        if !LeafMut::of(&mut self.block).try_push(tag, element) {
            let len = self.leaf().len() + 1;
            self.resize::<K>(alloc, len + len / 16, self.leaf().size() + element.len());
            let is_added = LeafMut::of(&mut self.block).try_push(tag, element);
            debug_assert!(is_added, "the leaf has room for the element");
        }
    }

    /// Adds an element, unless there is an index, or one is needed then, or the element belongs elsewhere. Returns
    /// whether it was new; `None` if nothing was done.
    #[inline]
    pub(super) fn try_add_unindexed<K: Keyed>(
        &mut self,
        alloc: AllocContext<'_>,
        element: &[u8],
    ) -> Option<bool> {
        let leaf = self.leaf();
        let len = leaf.len();
        if leaf.slots() > 0 || len + 1 >= INDEXED_LEN_MIN || element.len() > K::SIZE_MAX {
            return None;
        }
        let end = match leaf.find_unindexed::<K>(K::key(element)) {
            Ok(_) => return Some(false),
            Err(end) => end,
        };
        if end + 1 + element.len() > self.block.len() {
            self.block = ByteBlock::with_start(
                alloc.heap,
                end + 1 + element.len(),
                &self.block[..end.min(self.block.len())],
            );
        }
        LeafMut::of(&mut self.block).push_unindexed(end, element);
        Some(true)
    }

    /// Reserves space for this many more elements, with this many bytes together.
    pub(super) fn reserve<K: Keyed>(&mut self, alloc: AllocContext<'_>, count: usize, size: usize) {
        let (len, size) = (self.leaf().len() + count, self.leaf().size() + size);
        if block_size(len, size) > self.block.len() {
            self.resize::<K>(alloc, len, size);
        }
    }

    /// Replaces an element, if the leaf does not become too large.
    pub(super) fn replace<K: Keyed>(
        &mut self,
        alloc: AllocContext<'_>,
        index: usize,
        element: &[u8],
    ) -> bool {
        if LeafMut::of(&mut self.block).try_replace(index, element) {
            return true;
        }
        if element.len() > K::SIZE_MAX || !self.leaf().has_room(element.len()) {
            return false;
        }
        self.resize::<K>(alloc, self.leaf().len(), self.leaf().size() + element.len());
        LeafMut::of(&mut self.block).try_replace(index, element)
    }

    /// Removes the element at `index`, which must be below the length.
    pub(super) fn remove<K: Keyed>(&mut self, alloc: AllocContext<'_>, index: usize) {
        LeafMut::of(&mut self.block).remove(index);
        self.shrink_if_roomy::<K>(alloc);
    }

    /// Moves to a smaller block if half of this one is vacant.
    pub(super) fn shrink_if_roomy<K: Keyed>(&mut self, alloc: AllocContext<'_>) {
        let (len, size) = (self.leaf().len(), self.leaf().size());
        if len == 0 || block_size(len, size) * 2 < self.block.len() && self.block.len() > KEPT_SIZE {
            self.resize::<K>(alloc, len, size);
        }
    }

    /// See [`ByteBlock::relocate`].
    pub(super) fn relocate(&mut self, heap: &Heap) -> bool {
        self.block.relocate(heap)
    }

    /// A copy in `heap`.
    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { block: self.block.to_copy(heap) }
    }

    /// Moves to a block for this many elements and bytes, plus any excess that the heap provides.
    #[cold]
    fn resize<K: Keyed>(&mut self, alloc: AllocContext<'_>, len: usize, size: usize) {
        if len == 0 {
            *self = Self::default();
            return;
        }
        let (is_indexed, was_unindexed) = (len >= INDEXED_LEN_MIN, self.leaf().slots() == 0);
        if !is_indexed && was_unindexed && self.leaf().len() > 0 {
            let used = unindexed_size(self.leaf().len(), self.leaf().size());
            self.block = ByteBlock::with_start(alloc.heap, block_size(len, size), &self.block[..used]);
            return;
        }
        let mut new = ByteBlock::zeroed(alloc.heap, block_size(len, size));
        let mut leaf = LeafMut::empty(&mut new);
        if is_indexed {
            leaf.set_slots(slots_for(len));
        }
        for (index, element) in self.leaf().iter().enumerate() {
            let tag = match (is_indexed, was_unindexed) {
                (false, _) => 0,
                (true, true) => tag_of(alloc.hasher.hash(K::key(element))),
                (true, false) => self.leaf().tag(index),
            };
            let is_added = leaf.try_push(tag, element);
            debug_assert!(is_added, "the block has room for the elements");
        }
        self.block = new;
    }
}

/// Bytes of a leaf for this many elements and bytes.
fn block_size(len: usize, size: usize) -> usize {
    if len < INDEXED_LEN_MIN { unindexed_size(len, size) } else { leaf_size(slots_for(len), size) }
}

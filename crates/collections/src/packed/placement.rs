//! Where the memory of a packed sequence is: in a heap if it is created there, as long as it is small.

use super::block::PackedBlock;
use super::element::Encoded;
use super::{Item, Packed};
use crate::memory::heap::Heap;

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Reserves space in `heap` for the groups that these texts are going to be, if there is no block yet.
    pub fn reserve_in<'t>(&mut self, heap: &Heap, group_count: usize, texts: impl Iterator<Item = &'t [u8]>) {
        if self.block.size() == 0 {
            let size = texts.map(|text| Encoded::new(Item::of_text(text)).size()).sum();
            self.reserve_bytes_in(heap, group_count, size);
        }
    }

    /// Reserves space in `heap` for groups of an empty sequence, whose elements take this many bytes in it.
    pub(crate) fn reserve_bytes_in(&mut self, heap: &Heap, group_count: usize, size: usize) {
        debug_assert!(self.is_empty());
        if self.fits(size) {
            let index_size = Self::index_capacity_of_new(group_count) * Self::INDEX_ITEM_SIZE;
            self.block = PackedBlock::in_heap(heap, size + index_size, &[]);
        }
    }

    /// Moves a small block into `heap`, or out of a sparse span. Returns whether it has moved.
    pub fn relocate(&mut self, heap: &Heap) -> bool {
        self.block.relocate(heap)
    }

    /// A copy in `heap`, if it is small.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        let mut copy = Self { block: self.block.to_copy_in(heap) };
        copy.shrink_if_reserved();
        copy
    }

    /// Shrinks the block if more of it is vacant than a copy would have.
    pub fn shrink_if_reserved(&mut self) {
        if self.is_roomy() {
            self.shrink();
        }
    }
}

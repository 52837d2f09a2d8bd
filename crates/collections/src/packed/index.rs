//! The index of a packed sequence: the offset of each group, and tags for searches.

use std::ops::Range;

use super::Packed;
use super::element::Item;
use super::groups::{read_group, read_u16, skip};

/// Smallest number of groups by which the index grows.
pub(super) const INDEX_STEP: usize = 8;

/// Largest capacity of the index in groups.
pub(super) const INDEX_CAPACITY_MAX: usize = u16::MAX as usize / INDEX_STEP * INDEX_STEP;

/// Capacity of the index for `len` groups.
pub(super) fn index_capacity_for(len: usize) -> usize {
    (len + len / 8).next_multiple_of(INDEX_STEP).min(INDEX_CAPACITY_MAX)
}

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Capacity of the index of a new sequence of `len` groups.
    pub(super) fn index_capacity_of_new(len: usize) -> usize {
        if len >= Self::INDEX_LEN_MIN { len.next_multiple_of(INDEX_STEP) } else { 0 }
    }

    /// The place of the offsets.
    #[inline]
    pub(super) fn offsets_at(&self) -> usize {
        let head = self.block.head();
        self.block.capacity() - head.index_capacity() * Self::INDEX_ITEM_SIZE
    }

    #[inline]
    pub(super) fn tags(&self) -> &[u8] {
        let head = self.block.head();
        let at = self.offsets_at() + 2 * head.index_capacity();
        &self.block.bytes()[at..at + usize::from(head.len)]
    }

    /// All tags within the capacity.
    pub(super) fn tags_mut(&mut self) -> &mut [u8] {
        let at = self.offsets_at() + 2 * self.block.head().index_capacity();
        &mut self.block.bytes_mut()[at..]
    }

    /// All offsets within the capacity, two bytes each.
    pub(super) fn offsets_mut(&mut self) -> &mut [u8] {
        let (at, capacity) = (self.offsets_at(), self.block.head().index_capacity());
        &mut self.block.bytes_mut()[at..at + 2 * capacity]
    }

    /// Writes the index of these groups; a missing index is created with all the capacity that the block
    /// has for it in steps. (The items before the range must be valid.)
    pub(super) fn write_index(&mut self, range: Range<usize>) {
        let head = self.block.head();
        if head.index_capacity() == 0 {
            let index_capacity = index_capacity_for(usize::from(head.len));
            self.block.update(|head| head.set_index_capacity(index_capacity));
        }
        let mut at = if range.start == 0 {
            self.start()
        } else {
            let before = self.offset(range.start - 1);
            let bytes = self.block.bytes();
            bytes.len() - skip::<N>(&bytes[before..]).len()
        };
        for index in range {
            let bytes = self.block.bytes();
            let (items, rest) = read_group::<N>(&bytes[at..]);
            let (tag, next) = (if FIND { items[0].tag() } else { 0 }, bytes.len() - rest.len());
            self.offsets_mut()[2 * index..][..2].copy_from_slice(&(at as u16).to_le_bytes());
            if FIND {
                self.tags_mut()[index] = tag;
            }
            at = next;
        }
    }

    /// Inserts a place at `index` into the index, of `len` groups before, for a group of `added` bytes.
    pub(super) fn shift_index(&mut self, index: usize, len: usize, added: usize) {
        let end = (self.end() - added) as u16;
        let offsets = self.offsets_mut();
        if index == len {
            offsets[2 * len..][..2].copy_from_slice(&end.to_le_bytes());
            return;
        }
        // The new group starts at the old group's offset.
        offsets.copy_within(2 * index..2 * len, 2 * index + 2);
        if FIND {
            self.tags_mut().copy_within(index..len, index + 1);
        }
        self.move_offsets(index + 1, added as u16);
    }

    #[inline]
    pub(super) fn set_tag(&mut self, index: usize, items: [Item<'_>; N]) {
        if FIND {
            self.tags_mut()[index] = items[0].tag();
        }
    }

    /// Adds to the offsets of the groups from `index` on, if there is an index.
    #[inline]
    pub(super) fn move_offsets(&mut self, index: usize, by: u16) {
        let head = self.block.head();
        if head.index_capacity() == 0 {
            return;
        }
        for offset in self.offsets_mut()[2 * index..2 * usize::from(head.len)].chunks_exact_mut(2) {
            let moved = read_u16(offset).wrapping_add(by);
            offset.copy_from_slice(&moved.to_le_bytes());
        }
    }

    /// Inserts a place in the index for a group added before all others, at `start`.
    #[inline]
    pub(super) fn prepend_to_index(&mut self, start: usize) {
        let head = self.block.head();
        if head.index_capacity() > 0 {
            let offsets = self.offsets_mut();
            offsets.copy_within(..2 * (usize::from(head.len) - 1), 2);
            offsets[..2].copy_from_slice(&(start as u16).to_le_bytes());
        }
    }

    /// Enlarges the block, and the index, if there is one, to at least its present capacity.
    #[cold]
    pub(super) fn relocate_index(&mut self, capacity: usize, index_capacity: usize) {
        let head = self.block.head();
        let old_offsets_at = self.offsets_at();
        self.block.resize(capacity);
        if head.index_capacity() == 0 {
            return;
        }
        self.block.update(|head| head.set_index_capacity(index_capacity));
        let (len, offsets_at) = (usize::from(head.len), self.offsets_at());
        let offsets = (old_offsets_at..old_offsets_at + 2 * len, offsets_at);
        let old_tags_at = old_offsets_at + 2 * head.index_capacity();
        let tag_count = if FIND { len } else { 0 };
        let tags = (old_tags_at..old_tags_at + tag_count, offsets_at + 2 * index_capacity);
        // The part that does not overwrite the other moves first: the capacity of the index does not
        // shrink.
        let moves = if offsets_at > old_offsets_at { [tags, offsets] } else { [offsets, tags] };
        moves.into_iter().for_each(|(from, to)| self.block.bytes_mut().copy_within(from, to));
    }
}

//! The index of a packed sequence: where each group begins, and tags to find them by.

use std::ops::Range;

use super::Packed;
use super::element::Item;
use super::groups::{read_group, read_u16, skip};

/// Groups that the index grows by, at least.
pub(super) const INDEX_STEP: usize = 8;

/// Groups that it has room for at most.
pub(super) const INDEX_CAPACITY_MAX: usize = u16::MAX as usize / INDEX_STEP * INDEX_STEP;

/// Room that the index of `len` groups gets.
pub(super) fn index_capacity_for(len: usize) -> usize {
    (len + len / 8).next_multiple_of(INDEX_STEP).min(INDEX_CAPACITY_MAX)
}

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Where the offsets are.
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

    /// All tags there is room for.
    pub(super) fn tags_mut(&mut self) -> &mut [u8] {
        let at = self.offsets_at() + 2 * self.block.head().index_capacity();
        &mut self.block.bytes_mut()[at..]
    }

    /// All offsets there is room for, two bytes each.
    pub(super) fn offsets_mut(&mut self) -> &mut [u8] {
        let (at, capacity) = (self.offsets_at(), self.block.head().index_capacity());
        &mut self.block.bytes_mut()[at..at + 2 * capacity]
    }

    /// Writes the index of these groups; if there was none, one with all the room that the block has for it in
    /// steps. (Those before must be right.)
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

    /// Makes a place in the index, of `len` groups before, for one of `added` bytes at `index`.
    pub(super) fn shift_index(&mut self, index: usize, len: usize, added: usize) {
        let end = (self.end() - added) as u16;
        let offsets = self.offsets_mut();
        if index == len {
            offsets[2 * len..][..2].copy_from_slice(&end.to_le_bytes());
            return;
        }
        // The new group begins where the old one did.
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

    /// Makes a place in the index for a group that has been put before all others, at `start`.
    #[inline]
    pub(super) fn prepend_to_index(&mut self, start: usize) {
        let head = self.block.head();
        if head.index_capacity() > 0 {
            let offsets = self.offsets_mut();
            offsets.copy_within(..2 * (usize::from(head.len) - 1), 2);
            offsets[..2].copy_from_slice(&(start as u16).to_le_bytes());
        }
    }

    /// Gives the block more capacity, and the index, if there is one, as much room or more.
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
        // The one first that does not overwrite the other: the index has not less room than before.
        let moves = if offsets_at > old_offsets_at { [tags, offsets] } else { [offsets, tags] };
        moves.into_iter().for_each(|(from, to)| self.block.bytes_mut().copy_within(from, to));
    }
}

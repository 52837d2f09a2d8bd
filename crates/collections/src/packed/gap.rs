//! The gap before the first element of a packed sequence without `FIND`, as lists are: elements that are removed in front
//! leave it behind, and those that are added in front go there. So neither moves what is behind.
//!
//! A gap that an element does not fit into is opened anew with most of what is vacant, and closed when there is no room
//! at the other end. The head says that there is one, its own first bytes how large it is ([`Gap`]).

use super::Packed;
use super::block::Gap;
use super::element::Encoded;
use super::groups::read_u16;
use super::{USED_MAX, write_group};

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Where the first element begins.
    #[inline]
    pub(super) fn start(&self) -> usize {
        if FIND {
            return 0;
        }
        match self.block.head().gap() {
            Gap::None => 0,
            Gap::OneByte => 1,
            Gap::Sized => usize::from(read_u16(self.block.bytes())),
        }
    }

    /// Where the last element ends.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.start() + self.size()
    }

    /// Takes note of where the first element is now.
    #[inline]
    pub(super) fn set_start(&mut self, start: usize) {
        let gap = match start {
            0 => Gap::None,
            1 => Gap::OneByte,
            _ => Gap::Sized,
        };
        self.block.update(|head| head.set_gap(gap));
        if gap == Gap::Sized {
            self.block.bytes_mut()[..2].copy_from_slice(&(start as u16).to_le_bytes());
        }
    }

    /// Adds a group of `added` bytes before the first one, of which there is one.
    pub(super) fn insert_into_gap(&mut self, encoded: &[Encoded<'_>; N], added: usize) {
        let index_capacity = self.index_capacity_with(self.len() + 1);
        if self.start() < added || index_capacity != self.block.head().index_capacity() {
            self.open_gap(added);
        }
        let start = self.start() - added;
        write_group(encoded, &mut self.block.bytes_mut()[start..]);
        self.set_start(start);
        self.block.update(|head| {
            head.used += added as u16;
            head.len += 1;
        });
        let len = self.len();
        if self.block.head().index_capacity() > 0 {
            self.prepend_to_index(start);
        } else if len >= Self::INDEX_LEN_MIN {
            self.write_index(0..len);
        }
    }

    /// Makes a gap of at least `added` bytes, and a place in the index for one more group.
    #[cold]
    fn open_gap(&mut self, added: usize) {
        self.make_room_for_one(added);
        if self.start() < added {
            let (used, len) = (self.size(), self.len());
            let index_capacity = self.index_capacity_with(len + 1);
            let vacant = self.block.capacity() - index_capacity * Self::INDEX_ITEM_SIZE - used;
            // Some is left for the other end, lest both take it from each other in turn.
            let gap = (vacant - vacant / 4).max(added).min(USED_MAX - used);
            self.slide(gap);
        }
    }

    /// Gives the block room for `needed` bytes, the gap included, or the index other room. There is no gap afterwards.
    #[cold]
    pub(super) fn make_other_room(&mut self, needed: usize, index_capacity: usize) {
        let (gap, capacity) = (self.start(), self.block.capacity());
        self.slide(0);
        // A small gap is left as vacant room at the end: closing it again and again would cost a walk each time.
        let is_enough = needed - gap <= capacity && gap >= capacity / 8;
        let has_other_index = self.block.head().index_capacity() != index_capacity;
        if !is_enough || has_other_index && self.block.head().index_capacity() > 0 {
            self.relocate_index(needed.max(capacity), index_capacity);
        }
    }

    /// Moves all elements so that the first one begins at `start`. There must be room.
    fn slide(&mut self, start: usize) {
        let (old, end) = (self.start(), self.end());
        if start != old {
            self.block.bytes_mut().copy_within(old..end, start);
            self.move_offsets(0, start.wrapping_sub(old) as u16);
            self.set_start(start);
        }
    }
}

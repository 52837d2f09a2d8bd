//! The gap before the first element of a packed sequence without `FIND`, as lists use it: elements removed
//! at the front leave a gap, and elements added at the front fill it. So neither moves the elements behind.
//!
//! If an element does not fit the gap, the gap is enlarged with most of the vacant bytes; it is closed when
//! the other end needs space. The head marks the gap, whose own first bytes store its size ([`Gap`]).

use super::Packed;
use super::block::Gap;
use super::element::Encoded;
use super::groups::read_u16;
use super::{USED_MAX, write_group};

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// The offset of the first element.
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

    /// The end of the last element.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.start() + self.size()
    }

    /// Records the present offset of the first element.
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

    /// Adds a group of `added` bytes before the first one. The sequence must not be empty.
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

    /// Creates a gap of at least `added` bytes, and a place in the index for one more group.
    #[cold]
    fn open_gap(&mut self, added: usize) {
        self.make_room_for_one(added);
        if self.start() < added {
            let (used, len) = (self.size(), self.len());
            let index_capacity = self.index_capacity_with(len + 1);
            let vacant = self.block.capacity() - index_capacity * Self::INDEX_ITEM_SIZE - used;
            // Some space is left for the other end; otherwise the ends would take it from each other in
            // turn.
            let gap = (vacant - vacant / 4).max(added).min(USED_MAX - used);
            self.slide(gap);
        }
    }

    /// Reserves `needed` bytes in the block, including the gap, or another capacity of the index. There is
    /// no gap afterwards.
    #[cold]
    pub(super) fn make_other_room(&mut self, needed: usize, index_capacity: usize) {
        let (gap, capacity) = (self.start(), self.block.capacity());
        self.slide(0);
        // A small gap becomes vacant space at the end, and the block grows nevertheless: closing a gap
        // repeatedly would cost a walk each time.
        let is_enough = needed - gap <= capacity && gap >= capacity / 8;
        let has_other_index = self.block.head().index_capacity() != index_capacity;
        if !is_enough || has_other_index && self.block.head().index_capacity() > 0 {
            self.relocate_index(needed.max(capacity), index_capacity);
        }
    }

    /// Moves all elements so that the first one starts at `start`. They must fit.
    fn slide(&mut self, start: usize) {
        let (old, end) = (self.start(), self.end());
        if start != old {
            self.block.bytes_mut().copy_within(old..end, start);
            self.move_offsets(0, start.wrapping_sub(old) as u16);
            self.set_start(start);
        }
    }
}

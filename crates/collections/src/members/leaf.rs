//! A leaf: some tens of members in one allocation, found by their tags.
//!
//! ```text
//! size
//! 2          number of members
//! 2          slots
//! slots      tag of each member: 8 bits of its hash
//! 2 * slots  end of each member, counted from where the first one begins
//! the rest   the members, one behind the other
//! ```
//! `slots`, a multiple of 8, is the number of members that the index has room for.
//!
//! Owns its block. Hashes nothing and compares nothing but bytes: tags are the caller's.
//!
//! Invariants ([`Leaf::check`])
//! 1. Ends never descend, and the last one is within the block.
//! 2. `len` is not above `slots`, and the index fits the block.
//!
//! Cost: a search reads eight tags at a time, and the members whose tags fit; adding copies the leaf once in about eight
//! times, removing moves what lies behind.

use crate::block::Block;
use crate::prefetch;
use crate::size_class::LINE_SIZE;

/// Members of one range of hashes.
#[derive(Clone, Default)]
pub(crate) struct Leaf {
    block: Block,
}

const HEAD_SIZE: usize = 4;

/// Longest member that a leaf takes.
pub(super) const MEMBER_SIZE_MAX: usize = 255;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Tags that are compared at a time.
const TAGS: usize = 8;

impl Leaf {
    /// An empty leaf with room for so many members and bytes of them, and what the allocator gives on top.
    pub(super) fn with_room(len: usize, size: usize) -> Self {
        if len == 0 {
            return Self::default();
        }
        let slots = len.next_multiple_of(TAGS);
        let mut block = Block::zeroed(HEAD_SIZE + 3 * slots + size);
        block[2..4].copy_from_slice(&(slots as u16).to_le_bytes());
        Self { block }
    }

    /// Asks for the beginning of its block: the tags are there.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        self.block.prefetch();
    }

    /// Number of members.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.half_word(0)
    }

    /// Bytes of all members.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.start(self.len())
    }

    /// Bytes of memory behind the leaf.
    pub(super) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }

    /// The member at `index`, which must be below the length.
    #[inline]
    pub(super) fn at(&self, index: usize) -> &[u8] {
        let members = &self.block[self.members_offset()..];
        &members[self.start(index)..self.start(index + 1)]
    }

    /// The tag of the member at `index`.
    pub(super) fn tag(&self, index: usize) -> u8 {
        self.block[HEAD_SIZE + index]
    }

    /// Every member, in the order in which they were added.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.at(index))
    }

    /// Reads the head, and asks for what of the index [`Self::prefetch_head`] has not asked for.
    #[inline(always)]
    pub(super) fn prefetch_index(&self) {
        prefetch::bytes(self.block.get(2 * LINE_SIZE..self.members_offset()).unwrap_or_default());
    }

    /// Reads the index, and asks for the member that a search with this tag compares first, or for where one would be
    /// added.
    #[inline]
    pub(super) fn prefetch_member(&self, tag: u8) {
        let index = self.find_where(tag, |_| true).unwrap_or_else(|| self.len());
        let start = self.members_offset() + self.start(index);
        prefetch::bytes(self.block.get(start..start + 1).unwrap_or_default());
    }

    /// The index of a member.
    #[inline]
    pub(super) fn find(&self, tag: u8, member: &[u8]) -> Option<usize> {
        self.find_where(tag, |index| self.at(index) == member)
    }

    /// The first of those indices with this tag that are the right ones.
    #[inline]
    fn find_where(&self, tag: u8, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = LOW_BITS * u64::from(tag);
        let tags = self.block.get(HEAD_SIZE..HEAD_SIZE + self.slots()).unwrap_or_default();
        for (word_index, word) in tags.chunks_exact(TAGS).enumerate() {
            let difference = u64::from_le_bytes(word.try_into().expect("a chunk is eight bytes")) ^ wanted;
            // Top bit of each byte that is zero; above a zero byte a wrong one is possible, and sorted out below.
            let mut candidates = difference.wrapping_sub(LOW_BITS) & !difference & HIGH_BITS;
            while candidates != 0 {
                let index = word_index * TAGS + candidates.trailing_zeros() as usize / 8;
                if index >= self.len() {
                    return None;
                }
                if is_it(index) {
                    return Some(index);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    /// Whether a member of this size can be added. Only a leaf that hashing has served badly is ever full.
    #[inline]
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.len() < usize::from(u8::MAX) && self.size() + size <= usize::from(u16::MAX)
    }

    /// Adds a member that is not there. There must be room ([`Self::has_room`]).
    pub(super) fn push(&mut self, tag: u8, member: &[u8]) {
        debug_assert!(self.has_room(member.len()) && member.len() <= MEMBER_SIZE_MAX);
        let (len, start) = (self.len(), self.size());
        let end = start + member.len();
        if len == self.slots() || self.members_offset() + end > self.block.len() {
            self.resize(len + 1 + len / 16, end);
        }
        let offset = self.members_offset();
        self.block[offset + start..offset + end].copy_from_slice(member);
        self.block[HEAD_SIZE + len] = tag;
        self.set_end(len, end);
        self.set_len(len + 1);
    }

    /// Removes the member at `index`, which must be below the length.
    pub(super) fn remove(&mut self, index: usize) {
        let (len, size, offset) = (self.len(), self.size(), self.members_offset());
        let (start, end) = (self.start(index), self.start(index + 1));
        self.block.copy_within(offset + end..offset + size, offset + start);
        self.block.copy_within(HEAD_SIZE + index + 1..HEAD_SIZE + len, HEAD_SIZE + index);
        for later in index + 1..len {
            let later_end = self.start(later + 1) - (end - start);
            self.set_end(later - 1, later_end);
        }
        self.set_len(len - 1);
        let used = HEAD_SIZE + 3 * self.len() + self.size();
        if len == 1 || used * 2 < self.block.len() && self.block.len() > KEPT_SIZE {
            self.resize(self.len(), self.size());
        }
    }

    /// Ends if an invariant does not hold.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) -> Result<(), String> {
        if self.block.is_empty() {
            return Ok(());
        }
        if self.len() > self.slots() || self.members_offset() > self.block.len() {
            return Err(format!("{} members, room for {}", self.len(), self.slots()));
        }
        if (0..self.len()).any(|index| self.start(index) > self.start(index + 1)) {
            return Err("ends descend".to_owned());
        }
        if self.members_offset() + self.size() > self.block.len() {
            return Err("members beyond the block".to_owned());
        }
        Ok(())
    }

    #[inline]
    fn members_offset(&self) -> usize {
        HEAD_SIZE + 3 * self.slots()
    }

    #[inline]
    fn slots(&self) -> usize {
        self.half_word(2)
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.block[..2].copy_from_slice(&(len as u16).to_le_bytes());
    }

    /// The 16 bits at an offset of the block; zero in an empty leaf.
    #[inline]
    fn half_word(&self, at: usize) -> usize {
        self.block.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Where the member at `index` begins: at the end of the one before.
    #[inline]
    fn start(&self, index: usize) -> usize {
        let Some(before) = index.checked_sub(1) else { return 0 };
        self.half_word(HEAD_SIZE + self.slots() + 2 * before)
    }

    #[inline]
    fn set_end(&mut self, index: usize, end: usize) {
        let at = HEAD_SIZE + self.slots() + 2 * index;
        self.block[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
    }

    /// Moves to a block with room for so many members and bytes.
    #[cold]
    fn resize(&mut self, len: usize, size: usize) {
        let mut new = Self::with_room(len, size);
        let (kept_len, kept_size) = (self.len(), self.size());
        let (ends, new_ends) = (HEAD_SIZE + self.slots(), HEAD_SIZE + new.slots());
        let (offset, new_offset) = (self.members_offset(), new.members_offset());
        for (to, from, size) in [
            (HEAD_SIZE, HEAD_SIZE, kept_len),
            (new_ends, ends, 2 * kept_len),
            (new_offset, offset, kept_size),
        ] {
            if size > 0 {
                new.block[to..to + size].copy_from_slice(&self.block[from..from + size]);
            }
        }
        if kept_len > 0 {
            new.set_len(kept_len);
        }
        *self = new;
    }
}

/// Size of a block that is not made smaller.
const KEPT_SIZE: usize = 64;

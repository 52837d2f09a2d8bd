//! The small form of a sorted set, beyond [`super::brief`]: everything in one allocation, found by tags, in order.
//!
//! ```text
//! 2          number of elements
//! 2          room: elements that the arrays have place for
//! 2          bytes of all members with their lengths
//! 2          not used
//! room x 8   scores
//! room x 2   offsets of the members, counted from the first one
//! room       tags: eight bits of each member's hash
//! n          members, each behind its length (one byte, or two with the top bit of the first set), in any order
//! ```
//! Scores, offsets and tags are in the set's order, so a member's rank is its index, and a change of score
//! moves eleven bytes, whatever the member's length. A lookup compares tags, eight at a time, and bytes
//! where the tag matches.
//!
//! Invariants ([`Small::check`])
//! 1. `len` is at most `room`, which is a multiple of 8. Without an allocation the set is empty.
//! 2. The elements are in ascending order, without equal ones.
//! 3. The offsets are the starts of the members; members are stored without gaps, and each belongs to one
//!    element.
//! 4. Each tag is that of its member's hash.

use super::brief::Brief;
use super::member_len::{len_size, lens_size, read_len, write_len};
use super::order::{SearchTarget, partition_point, score_key};
use crate::memory::block::ByteBlock;
use crate::memory::heap::Heap;
use crate::memory::prefetch;

/// Elements of the largest small set; few under Miri.
pub(super) const SMALL_LEN_MAX: usize = if crate::IS_TINY { 20 } else { 128 };

/// Bytes of the members of the largest small set.
const MEMBERS_SIZE_MAX: usize = 32 * 1024;

/// Bytes of the longest member of a small set.
const MEMBER_SIZE_MAX: usize = 4096;

const ROOM_STEP: usize = 8;
const HEADER_SIZE: usize = 8;
const LEN_AT: usize = 0;
const ROOM_AT: usize = 2;
const SIZE_AT: usize = 4;
const SCORE_SIZE: usize = 8;
const OFFSET_SIZE: usize = 2;
const ELEMENT_SIZE: usize = SCORE_SIZE + OFFSET_SIZE + 1;

#[derive(Default)]
pub(super) struct Small {
    bytes: ByteBlock,
}

/// The tag of a member with this hash.
pub(super) fn tag_of(hash: u64) -> u8 {
    hash as u8
}

impl Small {
    #[inline]
    fn header(&self, at: usize) -> usize {
        self.bytes.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    fn set_header(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    /// Prefetches the head of the block.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        prefetch::bytes(self.bytes.get(..HEADER_SIZE).unwrap_or_default());
    }

    /// Reads the head, and prefetches offsets and tags.
    #[inline(always)]
    pub(super) fn prefetch_index(&self) {
        prefetch::bytes(self.bytes.get(self.offsets_at()..self.members_at()).unwrap_or_default());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.header(LEN_AT)
    }

    #[inline]
    fn room(&self) -> usize {
        self.header(ROOM_AT)
    }

    /// An empty set with space for this many elements, with members of this many bytes together.
    pub(super) fn with_room(heap: &Heap, len: usize, members_size: usize) -> Self {
        let mut small = Self::default();
        small.rebuild(heap, len.next_multiple_of(ROOM_STEP), members_size + lens_size(len, members_size));
        small
    }

    /// The elements of a brief set, with space for one more.
    pub(super) fn of_brief(brief: &Brief, heap: &Heap, tag: impl Fn(&[u8]) -> u8) -> Self {
        let size = brief.iter().map(|(member, _)| member.len()).sum();
        let mut small = Self::with_room(heap, brief.len() + 1, size);
        for (member, score) in brief.iter() {
            small.insert(heap, tag(member), member, score);
        }
        small
    }

    /// The elements as a brief set, if they fit one.
    pub(super) fn to_brief(&self, heap: &Heap) -> Option<Brief> {
        let elements = || (0..self.len()).map(|index| (self.member(index), self.score(index)));
        let (mut brief, size) = (Brief::default(), elements().map(|(member, _)| member.len()).sum());
        if !brief.has_room_for_all(self.len(), size) {
            return None;
        }
        brief.reserve(heap, self.len(), size, elements().map(|(_, score)| score));
        elements().for_each(|(member, score)| brief.insert(heap, member, score));
        Some(brief)
    }

    /// Whether this many members, of this many bytes together, may be in a small set.
    pub(super) fn holds(len: usize, members_size: usize) -> bool {
        len <= SMALL_LEN_MAX && members_size <= MEMBERS_SIZE_MAX / 2
    }

    /// Whether one more member, of this many bytes, may be added.
    pub(super) fn has_room_for(&self, member_size: usize) -> bool {
        self.len() < SMALL_LEN_MAX
            && member_size <= MEMBER_SIZE_MAX
            && self.members().len() + member_size <= MEMBERS_SIZE_MAX
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes()
    }

    /// See [`ByteBlock::relocate`].
    pub(super) fn relocate(&mut self, heap: &Heap) -> bool {
        self.bytes.relocate(heap)
    }

    /// A copy in `heap`.
    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { bytes: self.bytes.to_copy(heap) }
    }

    #[inline]
    pub(super) fn score(&self, index: usize) -> f64 {
        let bytes = &self.bytes[HEADER_SIZE + index * SCORE_SIZE..][..SCORE_SIZE];
        f64::from_le_bytes(bytes.try_into().expect("eight bytes are eight bytes"))
    }

    fn offsets_at(&self) -> usize {
        HEADER_SIZE + self.room() * SCORE_SIZE
    }

    fn tags_at(&self) -> usize {
        HEADER_SIZE + self.room() * (SCORE_SIZE + OFFSET_SIZE)
    }

    fn members_at(&self) -> usize {
        HEADER_SIZE + self.room() * ELEMENT_SIZE
    }

    #[inline]
    fn offset(&self, index: usize) -> usize {
        let at = self.offsets_at() + index * OFFSET_SIZE;
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn set_offset(&mut self, index: usize, offset: usize) {
        let at = self.offsets_at() + index * OFFSET_SIZE;
        self.bytes[at..at + OFFSET_SIZE].copy_from_slice(&(offset as u16).to_le_bytes());
    }

    #[inline]
    fn members(&self) -> &[u8] {
        self.bytes.get(self.members_at()..).map_or(&[], |members| &members[..self.header(SIZE_AT)])
    }

    #[inline]
    pub(super) fn member(&self, index: usize) -> &[u8] {
        let (start, len) = self.member_range(index);
        &self.members()[start..start + len]
    }

    /// The offset of a member's bytes after its length, and their number.
    #[inline]
    fn member_range(&self, index: usize) -> (usize, usize) {
        let (offset, members) = (self.offset(index), self.members());
        let (len, len_size) = read_len(&members[offset..]);
        (offset + len_size, len)
    }

    /// The index of a member with this tag.
    #[inline]
    pub(super) fn find(&self, tag: u8, member: &[u8]) -> Option<usize> {
        let tags = self.bytes.get(self.tags_at()..self.members_at()).unwrap_or_default();
        let pattern = u64::from(tag) * LOW_BITS;
        for (chunk_index, chunk) in tags.chunks_exact(ROOM_STEP).enumerate() {
            let word = u64::from_le_bytes(chunk.try_into().expect("chunks are that long")) ^ pattern;
            // A set bit for each zero byte; bytes above a zero byte may be false matches.
            let mut matches = word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS;
            while matches != 0 {
                let index = chunk_index * ROOM_STEP + matches.trailing_zeros() as usize / 8;
                if index < self.len() && self.member(index) == member {
                    return Some(index);
                }
                matches &= matches - 1;
            }
        }
        None
    }

    /// Number of elements before the target.
    pub(super) fn position(&self, target: &SearchTarget<'_>) -> usize {
        let is_behind = |index: usize| target.is_behind(score_key(self.score(index)), || self.member(index));
        partition_point(0, self.len(), is_behind)
    }

    /// Adds an absent member that fits. Returns its index.
    pub(super) fn insert(&mut self, heap: &Heap, tag: u8, member: &[u8], score: f64) -> usize {
        let index = self.position(&SearchTarget::Element(score_key(score), member));
        self.make_room(heap, len_size(member.len()) + member.len());
        let offset = self.header(SIZE_AT);
        let mut at = self.members_at() + offset;
        at += write_len(member.len(), &mut self.bytes[at..]);
        self.bytes[at..][..member.len()].copy_from_slice(member);
        self.set_header(SIZE_AT, at + member.len() - self.members_at());
        // The new element is appended and then moved to its place.
        let len = self.len();
        self.set_header(LEN_AT, len + 1);
        self.set_score(len, score);
        self.set_offset(len, offset);
        let tags_at = self.tags_at();
        self.bytes[tags_at + len] = tag;
        self.move_element(len, index);
        index
    }

    /// Changes the score of an element. Returns its new index.
    pub(super) fn set_score_at(&mut self, index: usize, score: f64) -> usize {
        let position = self.position(&SearchTarget::Element(score_key(score), self.member(index)));
        let new_index = position - usize::from(index < position);
        self.set_score(index, score);
        self.move_element(index, new_index);
        new_index
    }

    fn set_score(&mut self, index: usize, score: f64) {
        self.bytes[HEADER_SIZE + index * SCORE_SIZE..][..SCORE_SIZE].copy_from_slice(&score.to_le_bytes());
    }

    fn move_element(&mut self, from: usize, to: usize) {
        let (offsets_at, tags_at) = (self.offsets_at(), self.tags_at());
        for (start, size) in [(HEADER_SIZE, SCORE_SIZE), (offsets_at, OFFSET_SIZE), (tags_at, 1)] {
            let array = &mut self.bytes[start..];
            let (low, high) = (from.min(to) * size, (from.max(to) + 1) * size);
            if from < to {
                array[low..high].rotate_left(size);
            } else if to < from {
                array[low..high].rotate_right(size);
            }
        }
    }

    /// Removes `count` elements from `start` on.
    pub(super) fn remove(&mut self, heap: &Heap, start: usize, count: usize) {
        for index in start..start + count {
            let (offset, (bytes_at, size)) = (self.offset(index), self.member_range(index));
            let (end, members_at, members_size) = (bytes_at + size, self.members_at(), self.header(SIZE_AT));
            self.bytes.copy_within(members_at + end..members_at + members_size, members_at + offset);
            self.set_header(SIZE_AT, members_size - (end - offset));
            for other in 0..self.len() {
                let other_offset = self.offset(other);
                if other_offset > offset {
                    self.set_offset(other, other_offset - (end - offset));
                }
            }
        }
        let len = self.len();
        let (offsets_at, tags_at) = (self.offsets_at(), self.tags_at());
        for (array, size) in [(HEADER_SIZE, SCORE_SIZE), (offsets_at, OFFSET_SIZE), (tags_at, 1)] {
            let moved = array + (start + count) * size..array + len * size;
            self.bytes.copy_within(moved, array + start * size);
        }
        self.set_header(LEN_AT, len - count);
        self.make_compact(heap);
    }

    /// Reserves space for one more element, and for this many bytes of members.
    fn make_room(&mut self, heap: &Heap, size: usize) {
        let room = self.room();
        if self.len() == room {
            // Each spare element costs eleven bytes.
            self.rebuild(heap, room + (room / 4).next_multiple_of(ROOM_STEP).max(ROOM_STEP), size);
        } else if self.members_at() + self.header(SIZE_AT) + size > self.bytes.len() {
            self.rebuild(heap, room, size);
        }
    }

    /// Moves to a smaller block if half of the places or of the bytes are vacant.
    pub(super) fn make_compact(&mut self, heap: &Heap) {
        let used = self.members_at() + self.header(SIZE_AT);
        if self.len() + 2 * ROOM_STEP <= self.room() / 2 || self.bytes.len() > 2 * used + 128 {
            self.rebuild(heap, self.len().next_multiple_of(ROOM_STEP), 0);
        }
    }

    /// Moves everything into a new allocation for this many elements, with `extra` bytes for more members.
    fn rebuild(&mut self, heap: &Heap, room: usize, extra: usize) {
        let (len, members_size) = (self.len(), self.header(SIZE_AT));
        let slack = if extra > 0 && len > 0 { (members_size + extra) / 8 } else { 0 };
        let size = HEADER_SIZE + room * ELEMENT_SIZE + members_size + extra + slack;
        let mut new = Self { bytes: ByteBlock::zeroed(heap, size) };
        new.set_header(LEN_AT, len);
        new.set_header(ROOM_AT, room);
        new.set_header(SIZE_AT, members_size);
        let arrays = [
            (HEADER_SIZE, HEADER_SIZE, len * SCORE_SIZE),
            (self.offsets_at(), new.offsets_at(), len * OFFSET_SIZE),
            (self.tags_at(), new.tags_at(), len),
            (self.members_at(), new.members_at(), members_size),
        ];
        for (from, to, size) in arrays {
            if size > 0 {
                new.bytes[to..to + size].copy_from_slice(&self.bytes[from..from + size]);
            }
        }
        *self = new;
    }

    /// Verifies the invariants in the header of this file.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self, tag: impl Fn(&[u8]) -> u8) -> Result<(), String> {
        if self.len() > self.room() || !self.room().is_multiple_of(ROOM_STEP) {
            return Err("small 1: more elements than room".to_owned());
        }
        let element = |index: usize| (score_key(self.score(index)), self.member(index));
        if (1..self.len()).any(|index| element(index - 1) >= element(index)) {
            return Err("small 2: elements are not in order".to_owned());
        }
        let mut ranges: Vec<_> =
            (0..self.len()).map(|index| (self.offset(index), self.member_range(index))).collect();
        ranges.sort_unstable();
        let mut end = 0;
        for (offset, (start, len)) in ranges {
            if offset != end {
                return Err("small 3: a gap between members".to_owned());
            }
            end = start + len;
        }
        if end != self.members().len() {
            return Err("small 3: bytes behind the last member".to_owned());
        }
        let is_tagged = |index: usize| self.bytes[self.tags_at() + index] == tag(self.member(index));
        if (0..self.len()).all(is_tagged) { Ok(()) } else { Err("small 4: a wrong tag".to_owned()) }
    }
}

const _: () = assert!(MEMBER_SIZE_MAX < 0x7FFF);
const _: () = assert!(MEMBERS_SIZE_MAX + MEMBER_SIZE_MAX + 2 < u16::MAX as usize);

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

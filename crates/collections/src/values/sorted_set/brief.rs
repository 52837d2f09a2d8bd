//! The smallest form of a sorted set: a few elements in one run of bytes, in order.
//!
//! ```text
//! 1   number of elements
//! 1   bytes of a score
//! 2   bytes of all elements
//! n   elements: the score, the length of the member (one byte, or two with the top bit of the first set), the member
//! ```
//! Scores are integers of 1, 2 or 4 bytes while all of them are such, and doubles else: in most sets they are
//! counts, ranks or times. The width only grows, until the set is empty.
//!
//! Invariants ([`Brief::check`])
//! 1. The elements take exactly the bytes that the head says, and fit the block.
//! 2. They are in ascending order, without equal ones, and fewer than [`BRIEF_LEN_MAX`] + 1.
//! 3. The width is 1, 2, 4 or 8; after a removal of all elements there is no block.
//!
//! Cost: every operation walks the elements; a member is compared by its last bytes first. A change moves the bytes
//! behind it, [`BRIEF_SIZE_MAX`] at most.

use super::member_len::{len_size, lens_size, read_len, write_len};
use super::order::{SearchTarget, score_key};
use crate::memory::block::ByteBlock;
use crate::memory::heap::Heap;
use crate::short_bytes::is_same;

/// Most elements.
pub(super) const BRIEF_LEN_MAX: usize = if crate::IS_TINY { 6 } else { 15 };

/// Most bytes of elements, if every score takes [`DOUBLE_SIZE`].
const BRIEF_SIZE_MAX: usize = 1024;

const HEAD_SIZE: usize = 4;
const DOUBLE_SIZE: usize = 8;

#[derive(Default)]
pub(super) struct Brief {
    block: ByteBlock,
}

/// An element and where it is.
#[derive(Clone, Copy)]
struct Placed<'a> {
    start: usize,
    end: usize,
    score: f64,
    member: &'a [u8],
}

/// Where an element is, until the set changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BriefPlace {
    pub(super) index: usize,
    at: usize,
}

/// The elements in order.
#[derive(Clone)]
pub(super) struct BriefIter<'a> {
    rest: &'a [u8],
    width: usize,
}

impl Brief {
    /// Prefetches the beginning of the block.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        self.block.prefetch();
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.block.first().copied().unwrap_or(0))
    }

    /// Bytes of memory that it owns.
    pub(super) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }

    /// See [`ByteBlock::relocate`].
    pub(super) fn relocate(&mut self, heap: &Heap) -> bool {
        self.block.relocate(heap)
    }

    /// Whether one more member of this many bytes may be added.
    #[inline]
    pub(super) fn has_room_for(&self, member_size: usize) -> bool {
        self.len() < BRIEF_LEN_MAX && self.has_room_for_all(1, member_size)
    }

    /// Whether this many more members, of this many bytes together, may be added.
    pub(super) fn has_room_for_all(&self, count: usize, size: usize) -> bool {
        let len = self.len() + count;
        len <= BRIEF_LEN_MAX && self.used() + size + len * (DOUBLE_SIZE + 2) <= BRIEF_SIZE_MAX
    }

    /// The place of a member.
    #[inline]
    pub(super) fn find(&self, member: &[u8]) -> Option<BriefPlace> {
        let (width, end) = (self.width(), self.end());
        let bytes = self.block.get(..end).unwrap_or_default();
        let (mut at, mut index) = (HEAD_SIZE, 0);
        while at < bytes.len() {
            let (len, len_size) = read_len(&bytes[at + width..]);
            let start = at + width + len_size;
            if len == member.len() && is_same(&bytes[start..start + len], member) {
                return Some(BriefPlace { index, at });
            }
            at = start + len;
            index += 1;
        }
        None
    }

    /// The score at a place.
    #[inline]
    pub(super) fn score_at(&self, place: BriefPlace) -> f64 {
        read_score(&self.block[place.at..place.at + self.width()])
    }

    /// The element at an index, which must be below the length.
    pub(super) fn at(&self, index: usize) -> (&[u8], f64) {
        self.iter().nth(index).expect("callers have seen the length")
    }

    /// The elements in order.
    #[inline]
    pub(super) fn iter(&self) -> BriefIter<'_> {
        self.iter_from(0)
    }

    /// The elements from an index on, at most the length, in order.
    #[inline]
    pub(super) fn iter_from(&self, index: usize) -> BriefIter<'_> {
        let rest = self.block.get(self.start_of(index)..self.end()).unwrap_or_default();
        BriefIter { rest, width: self.width() }
    }

    /// Number of elements before the target.
    #[inline]
    pub(super) fn position(&self, target: &SearchTarget<'_>) -> usize {
        self.walk().take_while(|placed| placed.is_behind(target)).count()
    }

    /// Reserves space for this many elements, with members of this many bytes together, and these scores.
    pub(super) fn reserve(
        &mut self,
        heap: &Heap,
        count: usize,
        size: usize,
        scores: impl Iterator<Item = f64>,
    ) {
        let width = scores.map(width_of).fold(self.width(), usize::max);
        self.make_room(heap, count * width + lens_size(count, size) + size, width);
    }

    /// Adds an absent member that fits.
    pub(super) fn insert(&mut self, heap: &Heap, member: &[u8], score: f64) {
        let width = self.width().max(width_of(score));
        let size = width + len_size(member.len()) + member.len();
        self.make_room(heap, size, width);
        let start = self.start_of_place_for(score, member);
        let (end, used, len) = (self.end(), self.used(), self.len());
        self.block.copy_within(start..end, start + size);
        let (head, bytes) = self.block[start..start + size].split_at_mut(size - member.len());
        bytes.copy_from_slice(member);
        let (score_bytes, len_bytes) = head.split_at_mut(width);
        write_score(score_bytes, score);
        write_len(member.len(), len_bytes);
        self.set_head(len + 1, width, used + size);
    }

    /// Changes the score of the element at a place.
    pub(super) fn set_score_at(&mut self, heap: &Heap, place: BriefPlace, score: f64) {
        let (mut start, width) = (place.at, self.width().max(width_of(score)));
        if width != self.width() {
            self.make_room(heap, 0, width);
            start = self.start_of(place.index);
        }
        let placed = self.placed(start);
        let (end, size) = (placed.end, placed.end - start);
        // Its own start if it stays between its neighbours, or its end.
        let target = self.start_of_place_for(score, placed.member);
        write_score(&mut self.block[start..start + width], score);
        if target > end {
            self.block[start..target].rotate_left(size);
        } else if target < start {
            self.block[target..end].rotate_right(size);
        }
    }

    /// Where the first element starts that is not before this one.
    #[inline]
    fn start_of_place_for(&self, score: f64, member: &[u8]) -> usize {
        let mut elements = self.iter();
        loop {
            let start = self.end() - elements.rest.len();
            match elements.next() {
                Some((other, of_other)) if of_other < score || of_other == score && other < member => {}
                _ => return start,
            }
        }
    }

    /// Removes `count` elements from an index on.
    pub(super) fn remove(&mut self, heap: &Heap, index: usize, count: usize) {
        let (start, stop) = (self.start_of(index), self.start_of(index + count));
        let (end, used, len, width) = (self.end(), self.used(), self.len(), self.width());
        if count == len {
            self.block = ByteBlock::empty();
            return;
        }
        self.block.copy_within(stop..end, start);
        self.set_head(len - count, width, used - (stop - start));
        self.shrink_if_roomy(heap);
    }

    /// Moves to a smaller block if half of this one is vacant.
    pub(super) fn shrink_if_roomy(&mut self, heap: &Heap) {
        if self.block.len() > 2 * self.end() + KEPT_SIZE {
            self.rebuild(heap, 0, self.width());
        }
    }

    /// A copy in `heap`.
    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { block: self.block.to_copy(heap) }
    }

    /// Verifies the invariants in the header of this file.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) -> Result<(), String> {
        if self.block.is_empty() {
            return Ok(());
        }
        if ![1, 2, 4, DOUBLE_SIZE].contains(&self.width()) {
            return Err("brief 3: no such width".to_owned());
        }
        if self.end() > self.block.len() {
            return Err("brief 1: elements beyond the block".to_owned());
        }
        let mut at = HEAD_SIZE;
        let mut count = 0;
        while at < self.end() {
            at = self.placed(at).end;
            count += 1;
        }
        if at != self.end() || count != self.len() {
            return Err("brief 1: elements do not end where they should".to_owned());
        }
        let keys: Vec<_> = self.walk().map(|placed| (score_key(placed.score), placed.member)).collect();
        if keys.len() > BRIEF_LEN_MAX {
            return Err("brief 2: too many elements".to_owned());
        }
        if !keys.is_sorted_by(|one, other| one < other) {
            return Err("brief 2: elements are not in order".to_owned());
        }
        Ok(())
    }

    #[inline]
    fn width(&self) -> usize {
        usize::from(self.block.get(1).copied().unwrap_or(1))
    }

    /// Bytes of all elements.
    #[inline]
    fn used(&self) -> usize {
        self.block.get(2..HEAD_SIZE).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Where the last element ends.
    #[inline]
    fn end(&self) -> usize {
        HEAD_SIZE + self.used()
    }

    fn set_head(&mut self, len: usize, width: usize, used: usize) {
        let [low, high] = (used as u16).to_le_bytes();
        self.block[..HEAD_SIZE].copy_from_slice(&[len as u8, width as u8, low, high]);
    }

    #[inline]
    fn walk(&self) -> impl Iterator<Item = Placed<'_>> {
        let mut at = HEAD_SIZE;
        let end = self.end();
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let placed = self.placed(at);
            at = placed.end;
            Some(placed)
        })
    }

    /// The element at this offset.
    #[inline]
    fn placed(&self, start: usize) -> Placed<'_> {
        let (width, bytes) = (self.width(), &self.block[start..]);
        let (len, len_size) = read_len(&bytes[width..]);
        let at = width + len_size;
        let member = &bytes[at..at + len];
        Placed { start, end: start + at + len, score: read_score(&bytes[..width]), member }
    }

    /// Where the element at an index starts; for the length the end.
    #[inline]
    fn start_of(&self, index: usize) -> usize {
        let skipped = index.checked_sub(1).and_then(|before| self.walk().nth(before));
        skipped.map_or(HEAD_SIZE, |placed| placed.end)
    }

    /// Reserves `added` bytes more for elements, and makes scores this wide.
    #[inline]
    fn make_room(&mut self, heap: &Heap, added: usize, width: usize) {
        if width != self.width() || self.end() + added > self.block.len() {
            self.rebuild(heap, added, width);
        }
    }

    /// Moves to a block with `added` bytes more than the elements take with scores of this width.
    #[cold]
    fn rebuild(&mut self, heap: &Heap, added: usize, width: usize) {
        if width == self.width() && !self.block.is_empty() {
            let end = self.end();
            self.block = ByteBlock::with_start(heap, end + added, &self.block[..end]);
            return;
        }
        let used = self.used() + self.len() * (width - self.width());
        let mut block = ByteBlock::zeroed(heap, HEAD_SIZE + used + added);
        let mut target = &mut block[HEAD_SIZE..];
        for placed in self.walk() {
            let rest = &self.block[placed.start + self.width()..placed.end];
            let (score_bytes, behind) = target.split_at_mut(width);
            write_score(score_bytes, placed.score);
            let (bytes, behind) = behind.split_at_mut(rest.len());
            bytes.copy_from_slice(rest);
            target = behind;
        }
        let len = self.len();
        self.block = block;
        self.set_head(len, width, used);
    }
}

/// Vacant bytes up to which a block is not moved.
const KEPT_SIZE: usize = 64;

impl Placed<'_> {
    #[inline]
    fn is_behind(&self, target: &SearchTarget<'_>) -> bool {
        target.is_behind(score_key(self.score), || self.member)
    }
}

impl<'a> Iterator for BriefIter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (score, rest) = self.rest.split_at_checked(self.width)?;
        let (len, len_size) = read_len(rest);
        let (member, rest) = rest[len_size..].split_at_checked(len)?;
        self.rest = rest;
        Some((member, read_score(score)))
    }
}

/// Bytes that a score needs. -0 is not an integer here.
#[inline]
fn width_of(score: f64) -> usize {
    let integer = score as i32;
    if f64::from(integer).to_bits() != score.to_bits() {
        DOUBLE_SIZE
    } else if i8::try_from(integer).is_ok() {
        1
    } else if i16::try_from(integer).is_ok() {
        2
    } else {
        4
    }
}

#[inline]
fn read_score(bytes: &[u8]) -> f64 {
    match *bytes {
        [byte] => f64::from(byte as i8),
        [low, high] => f64::from(i16::from_le_bytes([low, high])),
        [a, b, c, d] => f64::from(i32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(*bytes.first_chunk().expect("the width is 1, 2, 4 or 8")),
    }
}

/// Writes a score, which is an integer if there are fewer than eight bytes for it.
#[inline]
fn write_score(target: &mut [u8], score: f64) {
    let size = target.len();
    if size == DOUBLE_SIZE {
        target.copy_from_slice(&score.to_le_bytes());
    } else {
        target.copy_from_slice(&(score as i32).to_le_bytes()[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_keep_their_bits_at_every_width() {
        let scores = [0.0, -0.0, 1.0, -128.0, 127.0, 128.0, -32_768.0, 32_768.0, 2_147_483_648.0, 0.5, 1e300];
        let widths = [1, 8, 1, 1, 1, 2, 2, 4, 8, 8, 8];
        for (score, width) in scores.into_iter().zip(widths) {
            assert_eq!(width_of(score), width, "{score}");
            let mut bytes = [0; 8];
            write_score(&mut bytes[..width], score);
            assert_eq!(read_score(&bytes[..width]).to_bits(), score.to_bits());
        }
    }

    #[test]
    fn a_planted_fault_is_noticed() {
        let (heap, mut brief) = (Heap::new(), Brief::default());
        for (member, score) in [(&b"b"[..], 2.0), (b"a", 1.0), (b"c", 3.0)] {
            brief.insert(&heap, member, score);
        }
        assert_eq!(brief.check(), Ok(()));
        brief.block[HEAD_SIZE] = 9;
        assert!(brief.check().is_err_and(|fault| fault.starts_with("brief 2")));
        brief.block[HEAD_SIZE] = 1;
        brief.block[2] -= 3;
        assert!(brief.check().is_err_and(|fault| fault.starts_with("brief 1")));
        brief.block[2] += 3;
        brief.block[1] = 3;
        assert!(brief.check().is_err_and(|fault| fault.starts_with("brief 3")));
        brief.block[1] = 1;
        assert_eq!(brief.check(), Ok(()));
    }

    #[test]
    fn an_element_moves_past_others_when_its_score_becomes_wider() {
        let (heap, mut brief) = (Heap::new(), Brief::default());
        let long = [b'x'; 200];
        for (member, score) in [(&b"b"[..], 2.0), (&long, 1.0), (b"c", 3.0)] {
            brief.insert(&heap, member, score);
        }
        brief.set_score_at(&heap, brief.find(&long).expect("it is there"), 2.5);
        assert_eq!(brief.check(), Ok(()));
        assert!(brief.iter().eq([(&b"b"[..], 2.0), (&long, 2.5), (b"c", 3.0)]));
        brief.set_score_at(&heap, brief.find(b"c").expect("it is there"), -1e9);
        let place = brief.find(b"c").expect("it is there");
        assert_eq!((place.index, brief.score_at(place)), (0, -1e9));
        brief.remove(&heap, 0, 3);
        assert_eq!((brief.len(), brief.memory_bytes()), (0, 0));
    }
}

//! A leaf: some tens of elements in one block of bytes, found by their tags.
//!
//! ```text
//! size
//! 1          number of elements
//! 1          eighths of slots
//! slots      tag of each element: 8 bits of its hash
//! 2 * slots  end of each element, counted from where the first one begins
//! the rest   the elements, one behind the other
//! ```
//! `slots`, a multiple of 8, is the number of elements for which the index has space. An empty byte string
//! is a leaf without elements. A leaf of fewer than [`INDEXED_LEN_MIN`] elements may have no slots: each element is
//! behind its size, one byte, and is found by a walk over all of them.
//!
//! Owns nothing: these are views of a block, which its owner replaces when an element does not fit.
//! Computes no hashes and compares only bytes: the caller provides tags.
//!
//! Invariants ([`Leaf::check`])
//! 1. Ends never descend, and the last one is within the block.
//! 2. If there are slots, `len` is not above them, and the index fits the block.
//!
//! Cost: a search reads eight tags at a time, and the elements whose tags match; without an index the size of each
//! element, and the last bytes of those of the size sought. A removal moves the elements behind.

use crate::memory::prefetch;
use crate::memory::size_class::LINE_SIZE;
use crate::short_bytes::is_same;
use crate::values::tracking::Element;

/// How elements are identified.
pub(crate) trait Keyed: 'static {
    /// Size of the longest element that a leaf stores.
    const SIZE_MAX: usize;

    /// The part of an element that is hashed and compared.
    fn key(element: &[u8]) -> &[u8];

    /// An element of a leaf, in the form in which a snapshot stores it.
    fn element(element: &[u8]) -> Element<'_>;
}

/// The elements of one range of hashes.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    bytes: &'a [u8],
}

/// The mutable form of [`Leaf`].
pub(super) struct LeafMut<'a> {
    bytes: &'a mut [u8],
}

const HEAD_SIZE: usize = 2;

/// Largest leaf, in bytes.
pub(super) const LEAF_SIZE_MAX: usize = 32_000;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Number of tags that are compared at a time.
const TAGS: usize = 8;

/// Elements from which on a leaf has an index; few under Miri. It is three bytes for each of 16, and finds one of ten
/// hardly faster than a walk.
pub(super) const INDEXED_LEN_MIN: usize = if crate::IS_TINY { 6 } else { 16 };

/// Most elements of a leaf, whose number of slots is not above 256.
const LEN_MAX: usize = u8::MAX as usize;

/// Slots for this many elements.
pub(super) fn slots_for(len: usize) -> usize {
    len.next_multiple_of(TAGS)
}

/// Bytes of a leaf with this many elements, of this size together, and no index.
pub(super) fn unindexed_size(len: usize, size: usize) -> usize {
    HEAD_SIZE + len + size
}

/// Bytes of a leaf with this many slots and bytes of elements.
pub(super) fn leaf_size(slots: usize, size: usize) -> usize {
    HEAD_SIZE + 3 * slots + size
}

impl<'a> Leaf<'a> {
    /// The leaf in these bytes, which are empty or written by a [`LeafMut`].
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of elements.
    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.bytes.first().copied().unwrap_or(0))
    }

    #[inline]
    pub(super) fn slots(self) -> usize {
        usize::from(self.bytes.get(1).copied().unwrap_or(0)) * TAGS
    }

    /// Whether it has elements and no index.
    #[inline]
    pub(super) fn is_unindexed(self) -> bool {
        self.slots() == 0 && self.len() > 0
    }

    /// Bytes of all elements.
    #[inline]
    pub(super) fn size(self) -> usize {
        if self.is_unindexed() {
            return self.unindexed_start(self.len()) - unindexed_size(self.len(), 0);
        }
        self.start(self.len())
    }

    /// The element at `index`, which must be below the length.
    #[inline]
    pub(super) fn at(self, index: usize) -> &'a [u8] {
        if self.slots() == 0 {
            return self.sized_at(self.unindexed_start(index));
        }
        let elements = &self.bytes[self.elements_offset()..];
        &elements[self.start(index)..self.start(index + 1)]
    }

    /// The tag of the element at `index` of a leaf with an index.
    pub(super) fn tag(self, index: usize) -> u8 {
        self.bytes[HEAD_SIZE + index]
    }

    /// Every element, in the order in which they were added.
    #[inline]
    pub(super) fn iter(self) -> LeafIter<'a> {
        LeafIter { leaf: self, index: 0, at: HEAD_SIZE }
    }

    /// Prefetches the start of its block, where the tags are.
    #[inline(always)]
    pub(super) fn prefetch_head(self) {
        prefetch::line(self.bytes.as_ptr().addr());
        prefetch::line(self.bytes.as_ptr().addr() + LINE_SIZE);
    }

    /// Reads the head, and prefetches the rest of the index after [`Self::prefetch_head`].
    #[inline(always)]
    pub(super) fn prefetch_index(self) {
        prefetch::bytes(self.bytes.get(2 * LINE_SIZE..self.elements_offset()).unwrap_or_default());
    }

    /// Reads the index, and prefetches the element that a search with this tag compares first, or the place
    /// where one would be added.
    #[inline]
    pub(super) fn prefetch_element(self, tag: u8) {
        if self.slots() == 0 {
            return prefetch::bytes(self.bytes.get(2 * LINE_SIZE..).unwrap_or_default());
        }
        let index = self.find_where(tag, |_| true).unwrap_or_else(|| self.len());
        let start = self.elements_offset() + self.start(index);
        prefetch::bytes(self.bytes.get(start..start + 1).unwrap_or_default());
    }

    /// The index of the element with this key.
    #[inline]
    pub(super) fn find<K: Keyed>(self, tag: u8, key: &[u8]) -> Option<usize> {
        if self.slots() == 0 {
            return self.find_unindexed::<K>(key).ok();
        }
        self.find_where(tag, |index| K::key(self.at(index)) == key)
    }

    /// The index of the element with this key in a leaf without an index, or else where the elements end.
    #[inline]
    pub(super) fn find_unindexed<K: Keyed>(self, key: &[u8]) -> Result<usize, usize> {
        let mut rest = self.bytes.get(HEAD_SIZE..).unwrap_or_default();
        for index in 0..self.len() {
            let Some((size, behind)) = rest.split_first() else { break };
            let Some((element, behind)) = behind.split_at_checked(usize::from(*size)) else { break };
            if is_same(K::key(element), key) {
                return Ok(index);
            }
            rest = behind;
        }
        Err(self.bytes.len().max(HEAD_SIZE) - rest.len())
    }

    /// The first index with this tag that passes the comparison.
    #[inline]
    fn find_where(self, tag: u8, is_match: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = LOW_BITS * u64::from(tag);
        let tags = self.bytes.get(HEAD_SIZE..HEAD_SIZE + self.slots()).unwrap_or_default();
        for (word_index, word) in tags.chunks_exact(TAGS).enumerate() {
            let difference = u64::from_le_bytes(word.try_into().expect("a chunk is eight bytes")) ^ wanted;
            // The top bit of each zero byte. A byte above a zero byte may be a false match, which is
            // rejected below.
            let mut candidates = difference.wrapping_sub(LOW_BITS) & !difference & HIGH_BITS;
            while candidates != 0 {
                let index = word_index * TAGS + candidates.trailing_zeros() as usize / 8;
                if index >= self.len() {
                    return None;
                }
                if is_match(index) {
                    return Some(index);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    /// Whether an element of this size can be added. A leaf is full only if hashes are unevenly
    /// distributed.
    #[inline]
    pub(super) fn has_room(self, size: usize) -> bool {
        self.len() < LEN_MAX && leaf_size(slots_for(self.len() + 1), self.size() + size) <= LEAF_SIZE_MAX
    }

    /// Verifies the invariants.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(self) -> Result<(), String> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        if self.is_unindexed() {
            return self.check_unindexed();
        }
        if self.len() > self.slots() || self.elements_offset() > self.bytes.len() {
            return Err(format!("{} elements, room for {}", self.len(), self.slots()));
        }
        if (0..self.len()).any(|index| self.start(index) > self.start(index + 1)) {
            return Err("ends descend".to_owned());
        }
        if leaf_size(self.slots(), self.size()) > self.bytes.len() {
            return Err("elements beyond the block".to_owned());
        }
        Ok(())
    }

    #[cfg(any(test, debug_assertions))]
    fn check_unindexed(self) -> Result<(), String> {
        let mut at = HEAD_SIZE;
        for _ in 0..self.len() {
            at += 1 + usize::from(*self.bytes.get(at).ok_or("elements beyond the block")?);
        }
        if at > self.bytes.len() || self.len() >= INDEXED_LEN_MIN {
            return Err("elements beyond the block, or too many without an index".to_owned());
        }
        Ok(())
    }

    #[inline]
    fn elements_offset(self) -> usize {
        leaf_size(self.slots(), 0)
    }

    /// Where the element at `index` of a leaf without index has its size; for the length the end.
    #[inline]
    fn unindexed_start(self, index: usize) -> usize {
        (0..index).fold(HEAD_SIZE, |at, _| at + 1 + usize::from(self.bytes[at]))
    }

    /// The element whose size is at this offset.
    #[inline]
    fn sized_at(self, at: usize) -> &'a [u8] {
        &self.bytes[at + 1..][..usize::from(self.bytes[at])]
    }

    /// The 16 bits at an offset of the block; zero in an empty leaf.
    #[inline]
    fn half_word(self, at: usize) -> usize {
        self.bytes.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Where the element at `index` starts: at the end of the previous one.
    #[inline]
    fn start(self, index: usize) -> usize {
        let Some(before) = index.checked_sub(1) else { return 0 };
        self.half_word(HEAD_SIZE + self.slots() + 2 * before)
    }
}

/// The elements of a leaf.
#[derive(Clone)]
pub(super) struct LeafIter<'a> {
    leaf: Leaf<'a>,
    index: usize,
    /// Where the next element of a leaf without index has its size.
    at: usize,
}

impl<'a> Iterator for LeafIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.index == self.leaf.len() {
            return None;
        }
        self.index += 1;
        if self.leaf.slots() > 0 {
            return Some(self.leaf.at(self.index - 1));
        }
        let element = self.leaf.sized_at(self.at);
        self.at += 1 + element.len();
        Some(element)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.leaf.len() - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for LeafIter<'_> {}

impl<'a> LeafMut<'a> {
    /// The leaf in these bytes.
    #[inline]
    pub(super) fn of(bytes: &'a mut [u8]) -> Self {
        Self { bytes }
    }

    /// A leaf without elements in these bytes, whose contents are ignored.
    pub(super) fn empty(bytes: &'a mut [u8]) -> Self {
        bytes[..HEAD_SIZE].fill(0);
        Self { bytes }
    }

    #[inline]
    pub(super) fn view(&self) -> Leaf<'_> {
        Leaf::of(self.bytes)
    }

    /// Adds an absent element, if the block has space.
    #[inline]
    pub(super) fn try_push(&mut self, tag: u8, element: &[u8]) -> bool {
        if self.view().slots() == 0 {
            return self.try_push_unindexed(element);
        }
        let (len, start) = (self.view().len(), self.view().size());
        let (offset, end) = (self.view().elements_offset(), start + element.len());
        if len == self.view().slots() || offset + end > self.bytes.len() {
            return false;
        }
        self.bytes[offset + start..offset + end].copy_from_slice(element);
        self.bytes[HEAD_SIZE + len] = tag;
        self.set_end(len, end);
        self.set_len(len + 1);
        true
    }

    /// [`Self::try_push`] to a leaf without an index.
    fn try_push_unindexed(&mut self, element: &[u8]) -> bool {
        let (len, at) = (self.view().len(), self.view().unindexed_start(self.view().len()));
        debug_assert!(element.len() <= usize::from(u8::MAX), "an element that belongs to the side table");
        if len + 1 >= INDEXED_LEN_MIN || at + 1 + element.len() > self.bytes.len() {
            return false;
        }
        self.push_unindexed(at, element);
        true
    }

    /// Adds an absent element where those of a leaf without an index end; the block has space.
    #[inline]
    pub(super) fn push_unindexed(&mut self, at: usize, element: &[u8]) {
        let len = self.view().len();
        self.bytes[at] = element.len() as u8;
        self.bytes[at + 1..][..element.len()].copy_from_slice(element);
        self.set_len(len + 1);
    }

    /// [`Self::try_replace`] in a leaf without an index.
    fn try_replace_unindexed(&mut self, index: usize, element: &[u8]) -> bool {
        let at = self.view().unindexed_start(index);
        let (old_end, new_end) = (at + 1 + usize::from(self.bytes[at]), at + 1 + element.len());
        if new_end != old_end {
            let end = self.view().unindexed_start(self.view().len());
            if end + new_end - old_end > self.bytes.len() || element.len() > usize::from(u8::MAX) {
                return false;
            }
            self.bytes.copy_within(old_end..end, new_end);
            self.bytes[at] = element.len() as u8;
        }
        self.bytes[at + 1..new_end].copy_from_slice(element);
        true
    }

    /// [`Self::remove`] from a leaf without an index.
    fn remove_unindexed(&mut self, index: usize) {
        let (len, at) = (self.view().len(), self.view().unindexed_start(index));
        let (next, end) = (at + 1 + usize::from(self.bytes[at]), self.view().unindexed_start(len));
        self.bytes.copy_within(next..end, at);
        self.set_len(len - 1);
    }

    /// Replaces an element, if the block has space.
    #[inline]
    pub(super) fn try_replace(&mut self, index: usize, element: &[u8]) -> bool {
        if self.view().slots() == 0 {
            return self.try_replace_unindexed(index, element);
        }
        let (start, end) = (self.view().start(index), self.view().start(index + 1));
        let (offset, size) = (self.view().elements_offset(), self.view().size());
        let new_end = start + element.len();
        if new_end != end {
            if offset + size + new_end - end > self.bytes.len() {
                return false;
            }
            self.bytes.copy_within(offset + end..offset + size, offset + new_end);
            for later in index..self.view().len() {
                let later_end = self.view().start(later + 1) + new_end - end;
                self.set_end(later, later_end);
            }
        }
        self.bytes[offset + start..offset + new_end].copy_from_slice(element);
        true
    }

    /// Removes the element at `index`, which must be below the length.
    pub(super) fn remove(&mut self, index: usize) {
        if self.view().slots() == 0 {
            return self.remove_unindexed(index);
        }
        let (len, size, offset) = (self.view().len(), self.view().size(), self.view().elements_offset());
        let (start, end) = (self.view().start(index), self.view().start(index + 1));
        self.bytes.copy_within(offset + end..offset + size, offset + start);
        self.bytes.copy_within(HEAD_SIZE + index + 1..HEAD_SIZE + len, HEAD_SIZE + index);
        for later in index + 1..len {
            let later_end = self.view().start(later + 1) - (end - start);
            self.set_end(later - 1, later_end);
        }
        self.set_len(len - 1);
    }

    /// Changes the number of slots, to a multiple of 8 that is not below the length. The block must have
    /// space, and the leaf an index or no elements.
    pub(super) fn set_slots(&mut self, slots: usize) {
        let Leaf { bytes, .. } = self.view();
        debug_assert!(leaf_size(slots, self.view().size()) <= bytes.len() && slots >= self.view().len());
        let (before, len, size) = (self.view().slots(), self.view().len(), self.view().size());
        let ends = HEAD_SIZE + before..HEAD_SIZE + before + 2 * len;
        let elements = leaf_size(before, 0)..leaf_size(before, size);
        if slots < before {
            self.bytes.copy_within(ends, HEAD_SIZE + slots);
            self.bytes.copy_within(elements, leaf_size(slots, 0));
        } else if slots > before {
            self.bytes.copy_within(elements, leaf_size(slots, 0));
            self.bytes.copy_within(ends, HEAD_SIZE + slots);
        }
        self.bytes[1] = (slots / TAGS) as u8;
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.bytes[0] = len as u8;
    }

    #[inline]
    fn set_end(&mut self, index: usize, end: usize) {
        let at = HEAD_SIZE + self.view().slots() + 2 * index;
        self.bytes[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
    }
}

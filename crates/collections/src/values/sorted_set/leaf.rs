//! A leaf of the tree: up to 62 elements in order, a word each, in eight cache lines.
//!
//! ```text
//! word  bits 63..45  tag: where the element's order lies in the range that the leaf covers
//!       bits 44..0   address of the member's entry, without its three zero bits
//! ```
//! The tag is `(order - base) >> shift`, clamped to its 19 bits. So tags never decrease along the leaf, a
//! search compares tags, and only for elements with the wanted tag it reads score and bytes. An element
//! takes 8 bytes instead of the 16 of a score and an address.
//!
//! Invariants ([`TreeLeaf::check`])
//! 1. The elements are in ascending order, without equal ones.
//! 2. Each word's tag is that of its element's order.

use std::ptr::NonNull;

use super::order::{SearchTarget, partition_point, score_key};
use crate::entry::{Entry, ValueRef};
use crate::memory::ADDRESS_BITS;
use crate::memory::prefetch;

/// Elements of a full leaf; few under Miri.
pub(super) const LEAF_LEN_MAX: usize = if crate::IS_TINY { 14 } else { 62 };

const SHIFTED_ADDRESS_BITS: u32 = ADDRESS_BITS - 3;
const SHIFTED_ADDRESS_MASK: u64 = (1 << SHIFTED_ADDRESS_BITS) - 1;
const TAG_BITS: u32 = 64 - SHIFTED_ADDRESS_BITS;
const TAG_MAX: u64 = (1 << TAG_BITS) - 1;

/// A leaf's tags are refined when the difference between the first and the last is below this.
const TAG_SPREAD_MIN: u64 = 1 << 12;

const _: () = assert!(size_of::<TreeLeaf>() == 8 * (LEAF_LEN_MAX + 2));

/// The address of a member's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u64);

impl Link {
    pub(super) const NONE: Self = Self(0);

    /// A link for insertion into a tree.
    ///
    /// # Safety
    /// 1. From its insertion into a tree until its removal, the entry stays at its address, and changes
    ///    only while the tree is borrowed mutably. It is inserted once.
    pub(super) unsafe fn new(entry: Entry<'_>) -> Self {
        Self(bits_of(entry))
    }

    /// Whether it leads to this entry.
    #[inline]
    pub(super) fn leads_to(self, entry: Entry<'_>) -> bool {
        self.0 == bits_of(entry)
    }

    #[inline]
    fn address(self) -> usize {
        (self.0 << 3) as usize
    }

    /// Prefetches the entry.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch::line(self.address());
    }

    /// The entry.
    ///
    /// # Safety
    /// 1. The entry for which the link was created still exists, and stays unchanged for the whole of `'a`.
    #[inline]
    pub(super) unsafe fn entry<'a>(self) -> Entry<'a> {
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut(self.address()));
        // SAFETY: (1) the caller's.
        unsafe { Entry::from_block(block.expect("links are made of entries")) }
    }
}

/// The address of an entry in the bits of a link.
#[inline]
fn bits_of(entry: Entry<'_>) -> u64 {
    entry.block().as_ptr().expose_provenance() as u64 >> 3
}

#[repr(C)]
pub(super) struct TreeLeaf {
    base: u64,
    len: u16,
    shift: u8,
    words: [u64; LEAF_LEN_MAX],
}

impl TreeLeaf {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self { base: 0, len: 0, shift: 0, words: [0; LEAF_LEN_MAX] })
    }

    /// A leaf of ordered elements, at least one.
    pub(super) fn of_ordered(elements: &[(u64, Link)]) -> Box<Self> {
        let mut leaf = Self::new();
        let (first, last) = (elements[0].0, elements[elements.len() - 1].0);
        (leaf.base, leaf.shift) = (first, shift_of(first, last));
        leaf.len = elements.len() as u16;
        for (index, (order, link)) in elements.iter().enumerate() {
            leaf.words[index] = leaf.tag(*order) << SHIFTED_ADDRESS_BITS | link.0;
        }
        leaf
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() == LEAF_LEN_MAX
    }

    #[inline]
    fn words(&self) -> &[u64] {
        &self.words[..self.len()]
    }

    #[inline]
    pub(super) fn link(&self, index: usize) -> Link {
        Link(self.words()[index] & SHIFTED_ADDRESS_MASK)
    }

    /// The entry of the element at `index`.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Entry<'_> {
        // SAFETY: (1) by `Link::new` the entry is kept as long as the tree has the link, and changes only
        // while the tree is borrowed mutably.
        unsafe { self.link(index).entry() }
    }

    /// Prefetches the entry at `index`, if there is one.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        if let Some(&word) = self.words().get(index) {
            prefetch::line(Link(word & SHIFTED_ADDRESS_MASK).address());
        }
    }

    #[inline]
    pub(super) fn order(&self, index: usize) -> u64 {
        score_key(score_of(self.entry(index)))
    }

    #[inline]
    fn tag(&self, order: u64) -> u64 {
        (order.saturating_sub(self.base) >> self.shift).min(TAG_MAX)
    }

    /// Number of elements before the target.
    pub(super) fn position(&self, target: &SearchTarget<'_>) -> usize {
        let words = self.words();
        let (start, end) = match target.order() {
            None => (0, words.len()),
            Some(order) => self.range_of_tag(self.tag(order)),
        };
        let is_behind = |index: usize| {
            let entry = self.entry(index);
            target.is_behind(score_key(score_of(entry)), || entry.key())
        };
        partition_point(start, end, is_behind)
    }

    /// The place of an element, if it exists.
    pub(super) fn find(&self, order: u64, entry: Entry<'_>) -> Option<usize> {
        let (start, end) = self.range_of_tag(self.tag(order));
        let bits = bits_of(entry);
        let is_match = |word: &u64| word & SHIFTED_ADDRESS_MASK == bits;
        self.words[start..end].iter().position(is_match).map(|offset| start + offset)
    }

    #[inline]
    fn range_of_tag(&self, tag: u64) -> (usize, usize) {
        let words = self.words();
        let start = words.partition_point(|word| *word < tag << SHIFTED_ADDRESS_BITS);
        let is_tag = |word: &&u64| **word >> SHIFTED_ADDRESS_BITS == tag;
        let few = words[start..].iter().take(4).take_while(is_tag).count();
        if few < 4 {
            return (start, start + few);
        }
        let end = words.partition_point(|word| *word >> SHIFTED_ADDRESS_BITS <= tag);
        (start, end)
    }

    /// Inserts an element at `index`. The leaf must not be full.
    pub(super) fn insert(&mut self, index: usize, order: u64, link: Link) {
        let len = self.len();
        let is_covered = order >= self.base && (order - self.base) >> self.shift <= TAG_MAX;
        if !is_covered || len == 0 {
            self.cover(order);
        }
        self.words.copy_within(index..len, index + 1);
        self.words[index] = self.tag(order) << SHIFTED_ADDRESS_BITS | link.0;
        self.len += 1;
    }

    /// Removes the element at `index`.
    pub(super) fn remove(&mut self, index: usize) -> Link {
        let (link, len) = (self.link(index), self.len());
        self.words.copy_within(index + 1..len, index);
        self.len -= 1;
        link
    }

    /// Moves the element at `from` so that `to` others precede it, and changes its order.
    pub(super) fn reorder(&mut self, from: usize, to: usize, order: u64) {
        let link = self.remove(from);
        self.insert(to, order, link);
    }

    /// Moves the elements from `index` on into a new leaf.
    pub(super) fn split_off(&mut self, index: usize) -> Box<Self> {
        let mut right = Self::new();
        let moved = self.len() - index;
        right.words[..moved].copy_from_slice(&self.words[index..index + moved]);
        right.len = moved as u16;
        self.len = index as u16;
        right.refine();
        let spread = |words: &[u64]| {
            Some((words.last()? >> SHIFTED_ADDRESS_BITS) - (words.first()? >> SHIFTED_ADDRESS_BITS))
        };
        if self.shift > 0 && spread(self.words()).is_some_and(|spread| spread < TAG_SPREAD_MIN) {
            self.refine();
        }
        right
    }

    /// Appends all elements of the next leaf, which must fit.
    pub(super) fn append(&mut self, right: &Self) {
        let len = self.len();
        self.words[len..len + right.len()].copy_from_slice(right.words());
        self.len += right.len;
        self.refine();
    }

    /// Extends the range of the tags to `order`, with as much again on the side where it lies.
    #[cold]
    fn cover(&mut self, order: u64) {
        let Some(last) = self.len().checked_sub(1) else {
            (self.base, self.shift) = (order, 0);
            return;
        };
        let (low, high) = (self.order(0), self.order(last));
        let (base, end) = if order < low {
            (order.saturating_sub(high - order), high)
        } else {
            let high = high.max(order);
            (low, high.saturating_add(high - low))
        };
        self.set_range(base, end);
    }

    /// Refines the tags as far as the elements allow.
    fn refine(&mut self) {
        if let Some(last) = self.len().checked_sub(1) {
            self.set_range(self.order(0), self.order(last));
        }
    }

    fn set_range(&mut self, base: u64, end: u64) {
        (self.base, self.shift) = (base, shift_of(base, end));
        for index in 0..self.len() {
            let tag = self.tag(self.order(index));
            self.words[index] = tag << SHIFTED_ADDRESS_BITS | self.link(index).0;
        }
    }

    /// Verifies the invariants in the header of this file.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) -> Result<(), String> {
        for index in 0..self.len() {
            if self.words[index] >> SHIFTED_ADDRESS_BITS != self.tag(self.order(index)) {
                return Err(format!("leaf 2: a wrong tag at {index}"));
            }
        }
        let element = |index: usize| (self.order(index), self.entry(index).key());
        if (1..self.len()).any(|index| element(index - 1) >= element(index)) {
            return Err("leaf 1: elements are not in order".to_owned());
        }
        Ok(())
    }
}

/// The shift by which the orders of a range fit into tags.
fn shift_of(base: u64, end: u64) -> u8 {
    let bits = u64::BITS - (end - base).leading_zeros();
    bits.saturating_sub(TAG_BITS) as u8
}

/// The score in the entry of a member.
#[inline]
pub(super) fn score_of(entry: Entry<'_>) -> f64 {
    let ValueRef::Int(bits) = entry.value() else { unreachable!("a member's value is its score") };
    f64::from_bits(bits as u64)
}

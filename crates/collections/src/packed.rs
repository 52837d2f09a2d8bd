//! A short sequence in one allocation: the small form of every collection type.
//!
//! ```text
//! head  gap  element element ... element   vacant   offsets of groups   tags of groups
//! 8          (packed/element.rs)                    2 each              1 each
//! ```
//! Elements form *groups* of `N`: one for lists and sets, two for hashes (field, value) and sorted sets
//! (member, score). All indices count groups. From 16 groups on (32 without `FIND`) there is an index: the
//! offset of each group, and eight bits of a hash of its first element (with `FIND`). So [`Packed::at`]
//! takes constant time, and [`Packed::find`] compares bytes only of groups whose tag matches; smaller
//! sequences are walked from the start. Without `FIND` there may be a gap before the elements
//! (`packed/gap.rs`), so that both ends are cheap.
//!
//! Owns its block (`packed/block.rs`, where the `unsafe` is). At most 64 KiB of elements: check
//! [`Packed::fits`] first.
//!
//! Invariants ([`Packed::check`])
//! 1. `used` bytes are exactly `len * N` elements.
//! 2. There is an index exactly if there are enough groups, or were and at least half remain; its capacity
//!    is at least `len`.
//! 3. The index has the offset of every group, and its tag with `FIND`.
//! 4. Elements and index do not overlap.
//!
//! Cost: changes move the bytes behind them (at most 64 KiB), and adjust their offsets, except at the ends.

mod block;
mod builder;
mod element;
mod gap;
mod groups;
mod index;
mod placement;
mod retain;
mod traits;
mod uniform;

use std::ops::Range;

use block::PackedBlock;
use element::{Encoded, OVERHEAD_MAX, size_at};
use groups::{read_group, read_u16, skip};
use index::{INDEX_CAPACITY_MAX, INDEX_STEP, index_capacity_for};

use crate::memory::prefetch;

pub(crate) use builder::Builder;
pub use element::Item;
pub use groups::PackedIter;
pub(crate) use uniform::Uniform;

/// Largest number of bytes of elements.
const USED_MAX: usize = u16::MAX as usize;

/// A short sequence of groups of `N` elements. With `FIND` its index also speeds up [`Self::find`].
pub struct Packed<const N: usize = 1, const FIND: bool = true> {
    block: PackedBlock,
}

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Groups from which on there is an index. Without tags it saves only steps of a nanosecond or two, and
    /// starts later: for a list of 20 small elements it would be a quarter of the memory.
    const INDEX_LEN_MIN: usize = if FIND { 16 } else { 32 };

    /// Groups below which the index is dropped.
    const INDEX_LEN_KEPT_MIN: usize = Self::INDEX_LEN_MIN / 2;

    /// Bytes of the index for each group.
    const INDEX_ITEM_SIZE: usize = 2 + FIND as usize;

    /// An empty sequence. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { block: PackedBlock::new() }
    }

    /// Number of groups.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.block.head().len)
    }

    /// Whether there is no group.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the elements.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        usize::from(self.block.head().used)
    }

    /// Bytes of memory in addition to its one word.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.block.size()
    }

    /// Whether one more group with `text_size` bytes of text in its elements always fits, or as many more
    /// bytes in an existing group. A group that does not fit must not be added.
    #[inline]
    #[must_use]
    pub fn fits(&self, text_size: usize) -> bool {
        self.size() + text_size + N * OVERHEAD_MAX <= USED_MAX && self.len() < INDEX_CAPACITY_MAX
    }

    /// Reserves space for `group_count` more groups with `text_size` bytes of text in total.
    pub fn reserve(&mut self, group_count: usize, text_size: usize) {
        let len = self.len() + group_count;
        let size = self.size() + text_size + group_count * N;
        let index_capacity = self.block.head().index_capacity();
        let wants_index = index_capacity > 0 || len >= Self::INDEX_LEN_MIN;
        let index_len = if wants_index { index_capacity.max(len.next_multiple_of(INDEX_STEP)) } else { 0 };
        self.make_room(size.min(USED_MAX), index_len.min(INDEX_CAPACITY_MAX));
    }

    /// Prefetches the head of the block and the elements behind it.
    #[inline(always)]
    pub(crate) fn prefetch_head(&self) {
        self.block.prefetch_head();
    }

    /// Reads the head, and prefetches the index.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        if self.block.head().index_capacity() > 0 {
            prefetch::bytes(&self.block.bytes()[self.offsets_at()..]);
        }
    }

    /// The elements of a group. Panics beyond the end.
    #[inline]
    #[must_use]
    pub fn at(&self, index: usize) -> [Item<'_>; N] {
        assert!(index < self.len(), "beyond the end");
        read_group(&self.block.bytes()[self.offset(index)..]).0
    }

    /// All groups.
    #[inline]
    pub fn iter(&self) -> PackedIter<'_, N, FIND> {
        self.iter_from(0)
    }

    /// The groups from `index` on.
    #[inline]
    pub fn iter_from(&self, index: usize) -> PackedIter<'_, N, FIND> {
        let len = self.len();
        let index = index.min(len);
        let rest = &self.block.bytes()[self.offset(index)..self.end()];
        PackedIter::new(self, rest, index..len)
    }

    /// The first group from `from` on whose first element is `text`.
    #[inline]
    #[must_use]
    pub fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let needle = Item::of_text(text);
        if text.len() > USED_MAX {
            return None;
        }
        let head = self.block.head();
        let encoded = Encoded::new(needle);
        if FIND && head.index_capacity() > 0 {
            let tags = self.tags().get(from..)?;
            return memchr::memchr_iter(needle.tag(), tags)
                .map(|found| from + found)
                .find(|found| encoded.is_at(&self.block.bytes()[self.offset(*found)..]));
        }
        let mut rest = &self.block.bytes()[self.offset(from.min(self.len()))..self.end()];
        (from..self.len()).find(|_| {
            let found = encoded.is_at(rest);
            if !found {
                rest = skip::<N>(rest);
            }
            found
        })
    }

    /// Adds a group at the end.
    #[inline]
    pub fn push_back(&mut self, group: [&[u8]; N]) {
        self.insert(self.len(), group);
    }

    /// Adds a group at the start.
    #[inline]
    pub fn push_front(&mut self, group: [&[u8]; N]) {
        self.insert(0, group);
    }

    /// Adds a group before the one at `index`, or at the end. Panics beyond that, and if it does not fit.
    pub fn insert(&mut self, index: usize, group: [&[u8]; N]) {
        let len = self.len();
        assert!(index <= len, "beyond the end");
        let items = group.map(Item::of_text);
        let encoded = items.map(Encoded::new);
        let added: usize = encoded.iter().map(Encoded::size).sum();
        let used = self.size();
        assert!(used + added <= USED_MAX && len < INDEX_CAPACITY_MAX, "callers check first whether it fits");
        if !FIND && index == 0 && len > 0 {
            return self.insert_into_gap(&encoded, added);
        }
        self.make_room_for_one(added);
        let (at, end) = (self.offset(index), self.end());
        let bytes = self.block.bytes_mut();
        bytes.copy_within(at..end, at + added);
        write_group(&encoded, &mut bytes[at..]);
        self.block.update(|head| {
            head.used += added as u16;
            head.len += 1;
        });
        if self.block.head().index_capacity() == 0 {
            if len + 1 >= Self::INDEX_LEN_MIN {
                self.write_index(0..len + 1);
            }
            return;
        }
        self.shift_index(index, len, added);
        self.set_tag(index, items);
    }

    /// Replaces element `part` of the group at `index`; if the size stays the same nothing moves. Panics
    /// beyond the end, and if it does not fit.
    pub fn replace(&mut self, index: usize, part: usize, text: &[u8]) {
        assert!(index < self.len() && part < N, "beyond the end");
        let item = Item::of_text(text);
        let encoded = Encoded::new(item);
        let mut at = self.offset_of_part(index, part);
        let old_size = size_at(&self.block.bytes()[at..]);
        let (used, new_size) = (self.size(), encoded.size());
        if new_size != old_size {
            let new_used = used - old_size + new_size;
            assert!(new_used <= USED_MAX, "callers check first whether it fits");
            let index_capacity = self.block.head().index_capacity();
            self.make_room(new_used, index_capacity);
            at = self.offset_of_part(index, part);
            let end = self.end();
            self.block.bytes_mut().copy_within(at + old_size..end, at + new_size);
            self.block.update(|head| head.used = new_used as u16);
            self.move_offsets(index + 1, new_size.wrapping_sub(old_size) as u16);
        }
        encoded.write(&mut self.block.bytes_mut()[at..]);
        if part == 0 && FIND && self.block.head().index_capacity() > 0 {
            self.tags_mut()[index] = item.tag();
        }
        self.shrink_if_roomy();
    }

    /// Removes the group at `index`. Panics beyond the end.
    #[inline]
    pub fn remove(&mut self, index: usize) {
        self.remove_range(index, 1);
    }

    /// Removes `count` groups from `index` on. Panics beyond the end.
    pub fn remove_range(&mut self, index: usize, count: usize) {
        let len = self.len();
        let end_index = index.checked_add(count).filter(|end| *end <= len).expect("not beyond the end");
        self.remove_bytes(index..end_index, self.offset(index)..self.offset(end_index));
    }

    /// Removes the group at `index` after passing it to `visit`. Panics beyond the end.
    #[inline]
    pub fn take(&mut self, index: usize, visit: impl FnOnce([Item<'_>; N])) {
        assert!(index < self.len(), "beyond the end");
        let (bytes, start) = (self.block.bytes(), self.offset(index));
        let (group, rest) = read_group(&bytes[start..]);
        let end = bytes.len() - rest.len();
        visit(group);
        self.remove_bytes(index..index + 1, start..end);
    }

    /// Removes groups that occupy these bytes.
    fn remove_bytes(&mut self, groups: Range<usize>, bytes: Range<usize>) {
        let len = self.len();
        let (index, end_index, count) = (groups.start, groups.end, groups.len());
        if count == len {
            self.block = PackedBlock::new();
            return;
        }
        let (at, end) = (bytes.start, bytes.end);
        let (widens_gap, moves_others) = (!FIND && index == 0, end_index < len);
        if moves_others && !widens_gap {
            let used_end = self.end();
            self.block.bytes_mut().copy_within(end..used_end, at);
        }
        if moves_others && self.block.head().index_capacity() > 0 {
            self.offsets_mut().copy_within(2 * end_index..2 * len, 2 * index);
            if FIND {
                self.tags_mut().copy_within(end_index..len, index);
            }
        }
        self.block.update(|head| {
            head.used -= (end - at) as u16;
            head.len -= count as u16;
        });
        if widens_gap {
            self.set_start(end);
        } else if moves_others {
            self.move_offsets(index, ((end - at) as u16).wrapping_neg());
        }
        if len - count < Self::INDEX_LEN_KEPT_MIN {
            self.block.update(|head| head.set_index_capacity(0));
        }
        self.shrink_if_roomy();
    }

    /// Splits off the groups from `index` on, and returns them. Panics beyond the end.
    #[must_use]
    pub fn split_off(&mut self, index: usize) -> Self {
        let len = self.len();
        assert!(index <= len, "beyond the end");
        let mut tail = Self::new();
        tail.append_range(self, index..len);
        self.remove_range(index, len - index);
        tail
    }

    /// Appends all groups of another sequence. Panics if they do not fit.
    pub fn append(&mut self, other: &Self) {
        self.append_range(other, 0..other.len());
    }

    fn append_range(&mut self, other: &Self, range: Range<usize>) {
        let (from, to) = (other.offset(range.start), other.offset(range.end));
        let (used, len) = (self.size(), self.len());
        let (new_used, new_len) = (used + to - from, len + range.len());
        let index_capacity = self.block.head().index_capacity();
        if new_len == len {
            return;
        }
        assert!(new_used <= USED_MAX && new_len <= INDEX_CAPACITY_MAX, "callers check first whether it fits");
        let had_index = index_capacity > 0;
        let wants_index = had_index || new_len >= Self::INDEX_LEN_MIN;
        self.make_room(
            new_used,
            if wants_index { index_capacity.max(index_capacity_for(new_len)) } else { 0 },
        );
        let end = self.end();
        self.block.bytes_mut()[end..end + to - from].copy_from_slice(&other.block.bytes()[from..to]);
        self.block.update(|head| {
            head.used = new_used as u16;
            head.len = new_len as u16;
        });
        if wants_index {
            self.write_index(if had_index { len..new_len } else { 0..new_len });
        }
    }

    /// The offset of a group; for `len` the end.
    #[inline]
    fn offset(&self, index: usize) -> usize {
        let head = self.block.head();
        if index >= usize::from(head.len) {
            return self.end();
        }
        if head.index_capacity() > 0 {
            let at = self.offsets_at() + 2 * index;
            return usize::from(read_u16(&self.block.bytes()[at..]));
        }
        let bytes = self.block.bytes();
        let mut rest = &bytes[self.start()..];
        for _ in 0..index {
            rest = skip::<N>(rest);
        }
        bytes.len() - rest.len()
    }

    /// The offset of an element of a group.
    fn offset_of_part(&self, index: usize, part: usize) -> usize {
        let mut at = self.offset(index);
        for _ in 0..part {
            at += size_at(&self.block.bytes()[at..]);
        }
        at
    }

    /// Reserves space for one more group of `added` bytes, and its place in the index.
    #[inline]
    fn make_room_for_one(&mut self, added: usize) {
        self.make_room(self.size() + added, self.index_capacity_with(self.len() + 1));
    }

    /// The capacity of the index for `len` groups, which are at least as many as now.
    #[inline]
    fn index_capacity_with(&self, len: usize) -> usize {
        let index_capacity = self.block.head().index_capacity();
        if len <= index_capacity || index_capacity == 0 && len < Self::INDEX_LEN_MIN {
            index_capacity
        } else {
            index_capacity_for(len)
        }
    }

    /// Reserves space for this many bytes of elements and groups in the index; the index keeps its
    /// contents. A missing index is not created yet, but space is reserved for it.
    #[inline]
    fn make_room(&mut self, used: usize, index_capacity: usize) {
        let old_index_capacity = self.block.head().index_capacity();
        let end = self.start() + used;
        let needed = end + index_capacity * Self::INDEX_ITEM_SIZE;
        let is_too_small = needed > self.block.capacity() || !FIND && end > USED_MAX;
        if is_too_small || old_index_capacity != index_capacity && old_index_capacity > 0 {
            self.make_other_room(needed, index_capacity);
        }
    }

    /// Bytes of the elements and of their index.
    #[inline]
    fn needed(&self) -> usize {
        let head = self.block.head();
        let index_len = usize::from(head.len).min(head.index_capacity());
        usize::from(head.used) + index_len * Self::INDEX_ITEM_SIZE
    }

    /// Whether so much of the block is vacant that a copy should be smaller.
    fn is_roomy(&self) -> bool {
        let needed = self.needed();
        self.block.capacity() > needed + needed / 4 + WASTE_SIZE_MIN
    }

    /// Shrinks the block if most of it is vacant.
    #[inline]
    fn shrink_if_roomy(&mut self) {
        let needed = self.needed();
        if self.block.capacity() > 2 * needed + Self::INDEX_LEN_MIN * Self::INDEX_ITEM_SIZE + WASTE_SIZE_MIN {
            self.shrink();
        }
    }

    /// Shrinks the block as far as its elements allow.
    #[cold]
    pub fn shrink(&mut self) {
        let head = self.block.head();
        if head.len == 0 {
            self.block = PackedBlock::new();
            return;
        }
        let index_capacity =
            if head.index_capacity() > 0 { usize::from(head.len).next_multiple_of(INDEX_STEP) } else { 0 };
        let used = usize::from(head.used);
        let elements = &self.block.bytes()[self.start()..self.end()];
        let mut smaller =
            Self { block: self.block.another(used + index_capacity * Self::INDEX_ITEM_SIZE, elements) };
        smaller.block.update(|new| {
            new.used = head.used;
            new.len = head.len;
            new.set_index_capacity(index_capacity);
        });
        if index_capacity > 0 {
            smaller.write_index(0..usize::from(head.len));
        }
        *self = smaller;
    }

    /// Shrinks the block if another size class holds its elements.
    pub fn shrink_to_fit(&mut self) {
        let index_step_size =
            if self.block.head().index_capacity() > 0 { INDEX_STEP * Self::INDEX_ITEM_SIZE } else { 0 };
        if self.block.size_of_another(self.needed() + index_step_size) < self.block.size() {
            self.shrink();
        }
    }

    /// Verifies the invariants in the header of this file. Returns a description of the first violation.
    pub fn check(&self) -> Result<(), String> {
        let head = self.block.head();
        let len = usize::from(head.len);
        let index_capacity = head.index_capacity();
        let require = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let may_have_index = len >= Self::INDEX_LEN_KEPT_MIN && index_capacity >= len;
        let is_indexed = index_capacity > 0;
        require(
            is_indexed && may_have_index || !is_indexed && len < Self::INDEX_LEN_MIN,
            "2: index without groups",
        )?;
        let index_size = index_capacity * Self::INDEX_ITEM_SIZE;
        let end = self.end();
        require(end + index_size <= self.block.capacity(), "4: elements and index overlap")?;
        let bytes = self.block.bytes();
        let mut at = self.start();
        for index in 0..len {
            require(at < end, "1: elements end too early")?;
            let (items, rest) = read_group::<N>(&bytes[at..end]);
            if is_indexed {
                require(self.offset(index) == at, "3: a wrong offset")?;
                require(!FIND || self.tags()[index] == items[0].tag(), "3: a wrong tag")?;
            }
            at = end - rest.len();
        }
        require(at == end, "1: something behind the last element")
    }
}

/// Vacant bytes up to which a block is not moved.
const WASTE_SIZE_MIN: usize = 64;

#[inline]
fn write_group<const N: usize>(encoded: &[Encoded<'_>; N], mut target: &mut [u8]) {
    for element in encoded {
        target = element.write(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_fault_is_noticed() {
        let mut packed = Packed::<2>::new();
        for number in 0..20u8 {
            packed.push_back([&[b'a', number], b"value"]);
        }
        assert_eq!(packed.check(), Ok(()));
        packed.move_offsets(19, 1);
        assert_eq!(packed.check(), Err("3: a wrong offset".to_owned()));
        packed.move_offsets(19, u16::MAX);
        packed.tags_mut()[3] ^= 1;
        assert_eq!(packed.check(), Err("3: a wrong tag".to_owned()));
        packed.tags_mut()[3] ^= 1;
        packed.block.update(|head| head.used += 1);
        assert_eq!(packed.check(), Err("1: something behind the last element".to_owned()));
    }
}

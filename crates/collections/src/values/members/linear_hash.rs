//! A directory of leaves, by linear hashing: the hash's low bits select an element's leaf.
//!
//! Invariants ([`LinearHashDirectory::check`])
//! 1. An element is in the leaf of its key's hash, with the tag of the hash, once.
//! 2. `len` is the number of elements.
//! 3. All arrays but the last have [`ARRAY_LEN`] leaves, the last has at least one.
//! 4. The invariants of the slabs; the owner of a leaf's block is the leaf's index.

use std::marker::PhantomData;

use super::leaf::{Keyed, LEAF_SIZE_MAX, Leaf, LeafMut, leaf_size, slots_for};
use super::position::{MemberPlace, ORDER_BITS, PrefetchStep, scan_position, tag_of};
use super::slabs::{BlockId, SlabPool};

use crate::hasher::KeyHasher;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::values::parameters::AllocContext;

/// Mean number of elements in a leaf; up to twice as many in a leaf that is not yet split. Few under Miri,
/// as with the next constant.
pub(super) const LOAD: usize = if crate::IS_TINY { 6 } else { 24 };

/// Leaves in one array of the directory.
const ARRAY_LEN: usize = if crate::IS_TINY { 4 } else { 256 };

/// A directory of at least one leaf.
pub(crate) struct LinearHashDirectory<K> {
    arrays: Vec<Vec<BlockId>>,
    leaf_count: usize,
    len: usize,
    slabs: SlabPool,
    keyed: PhantomData<fn() -> K>,
}

impl<K: Keyed> LinearHashDirectory<K> {
    /// One leaf without elements.
    pub(super) fn new() -> Self {
        Self {
            arrays: vec![vec![BlockId::NONE]],
            leaf_count: 1,
            len: 0,
            slabs: SlabPool::default(),
            keyed: PhantomData,
        }
    }

    /// Number of elements.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn leaf_count(&self) -> usize {
        self.leaf_count
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        self.arrays.iter().flatten().map(|id| Leaf::of(self.slabs.bytes(*id)))
    }

    #[inline]
    pub(super) fn leaf(&self, index: usize) -> Leaf<'_> {
        Leaf::of(self.slabs.bytes(self.block(index)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(|array| array.capacity() * size_of::<BlockId>()).sum();
        arrays + self.arrays.capacity() * size_of::<Vec<BlockId>>() + self.slabs.memory_bytes()
    }

    pub(super) fn allocation_count(&self) -> usize {
        self.arrays.len() + self.slabs.slab_count()
    }

    /// Prefetches the memory that locates the leaves.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch::line(self.arrays.as_ptr().addr());
    }

    /// See [`super::Members::prefetch_member`].
    #[inline]
    pub(super) fn prefetch_element(&self, hash: u64, step: PrefetchStep) {
        let index = self.leaf_index(hash);
        match step {
            PrefetchStep::Place => {
                prefetch::line(std::ptr::from_ref(&self.arrays[index / ARRAY_LEN][index % ARRAY_LEN]).addr());
            }
            PrefetchStep::Head => self.leaf(index).prefetch_head(),
            PrefetchStep::Member => self.leaf(index).prefetch_element(tag_of(hash)),
        }
    }

    /// The place of the element with this key.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<MemberPlace> {
        let leaf = self.leaf_index(hash);
        let index = self.leaf(leaf).find::<K>(tag_of(hash), key)?;
        Some(MemberPlace { leaf: leaf as u32, index: index as u32 })
    }

    /// The element at a place.
    #[inline]
    pub(super) fn at(&self, place: MemberPlace) -> &[u8] {
        self.leaf(place.leaf as usize).at(place.index as usize)
    }

    /// Adds an element whose key is absent. Returns whether it fitted.
    #[inline]
    pub(super) fn try_add(&mut self, alloc: AllocContext<'_>, hash: u64, element: &[u8]) -> bool {
        let leaf = self.leaf_index(hash);
        if !self.try_push(alloc.heap, leaf, tag_of(hash), element) {
            return false;
        }
        self.len += 1;
        if self.len > self.leaf_count * LOAD && self.leaf_count < 1 << (ORDER_BITS - 1) {
            self.split(alloc);
        }
        true
    }

    /// Replaces an element by another one with the same key. Returns whether it fitted.
    #[inline]
    pub(super) fn try_replace(&mut self, heap: &Heap, place: MemberPlace, element: &[u8]) -> bool {
        let (leaf, index) = (place.leaf as usize, place.index as usize);
        if self.leaf_mut(leaf).try_replace(index, element) {
            return true;
        }
        if element.len() > K::SIZE_MAX || !self.leaf(leaf).has_room(element.len()) {
            return false;
        }
        let size = self.leaf(leaf).size() + element.len() - self.at(place).len();
        self.make_room(heap, leaf, self.leaf(leaf).len(), size);
        self.leaf_mut(leaf).try_replace(index, element)
    }

    /// Removes the element at a place, without shrinking the directory.
    pub(super) fn take_out(&mut self, heap: &Heap, place: MemberPlace) {
        let leaf = place.leaf as usize;
        self.leaf_mut(leaf).remove(place.index as usize);
        self.len -= 1;
        let room = self.slabs.bytes(self.block(leaf)).len();
        let view = self.leaf(leaf);
        let (slots, size) = (slots_for(view.len()), view.size());
        if view.len() == 0 {
            let block = std::mem::replace(self.block_mut(leaf), BlockId::NONE);
            self.free(heap, block);
        } else if leaf_size(slots, size) * 2 < room {
            self.leaf_mut(leaf).set_slots(slots);
            self.resize(heap, leaf, leaf_size(slots, size));
        }
    }

    /// Returns the elements of the last leaf to the leaf that they were split from. Elements that do not
    /// fit are passed to `add_to_side_table`. There must be two leaves.
    pub(super) fn merge(&mut self, alloc: AllocContext<'_>, mut add_to_side_table: impl FnMut(&[u8])) {
        let source = self.take_leaf(alloc.heap, self.leaf_count - 1);
        let is_only_array = self.arrays.len() == 1;
        let array = self.arrays.last_mut().expect("the last array exists");
        array.pop();
        if array.is_empty() {
            self.arrays.pop();
        } else if array.len() * 2 < array.capacity() && is_only_array {
            array.shrink_to(array.len() + array.len() / 4);
        }
        self.leaf_count -= 1;
        let target = self.leaf_count - self.half();
        let source = Leaf::of(&source);
        for (index, element) in source.iter().enumerate() {
            if !self.try_push(alloc.heap, target, source.tag(index), element) {
                add_to_side_table(element);
                self.len -= 1;
            }
        }
    }

    /// A random element. Leaves are drawn in proportion to their share of the hashes, and accepted in
    /// proportion to their length relative to that share, so that the distribution is uniform. Must not be
    /// empty.
    pub(super) fn sample(&self, random: &mut impl FnMut() -> u64) -> MemberPlace {
        let half = self.half();
        // Twice the mean number of elements that share the low bits, and a margin for random variation.
        let bound = 2 * (self.len / half) + 24;
        loop {
            let bits = random();
            let leaf = self.leaf_index(bits);
            let bound = if self.depth(leaf) == half.ilog2() { bound } else { bound / 2 };
            let len = self.leaf(leaf).len();
            let index = (((bits >> 32) * bound.max(len) as u64) >> 32) as usize;
            if index < len {
                return MemberPlace { leaf: leaf as u32, index: index as u32 };
            }
        }
    }

    /// Visits the elements of one leaf from a position on. Returns the next position, which may be the end.
    pub(super) fn scan<'a>(&'a self, hasher: &KeyHasher, from: u32, visit: &mut impl FnMut(&'a [u8])) -> u64 {
        let index = self.leaf_index(u64::from(from.reverse_bits()));
        // Number of positions of the leaf's elements; they start at a multiple of that number.
        let span = 1u64 << (ORDER_BITS - self.depth(index));
        let is_whole = u64::from(from) & (span - 1) == 0;
        for element in self.leaf(index).iter() {
            if is_whole || scan_position(hasher.hash(K::key(element))) >= from {
                visit(element);
            }
        }
        (u64::from(from) & !(span - 1)) + span
    }

    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { arrays: self.arrays.clone(), slabs: self.slabs.to_copy(heap), ..*self }
    }

    /// The leaf of a hash.
    #[inline]
    fn leaf_index(&self, hash: u64) -> usize {
        let half = self.half();
        let index = hash as u32 as usize & (2 * half - 1);
        if index < self.leaf_count { index } else { index & (half - 1) }
    }

    /// The largest power of two not above the number of leaves: the leaves from there on were split off the
    /// first leaves of this round.
    #[inline]
    fn half(&self) -> usize {
        1 << self.leaf_count.ilog2()
    }

    /// Number of low bits of the hash that all elements of a leaf share.
    fn depth(&self, index: usize) -> u32 {
        let half = self.half();
        let is_split = index >= half || index < self.leaf_count - half;
        half.ilog2() + u32::from(is_split)
    }

    #[inline]
    fn block(&self, index: usize) -> BlockId {
        self.arrays[index / ARRAY_LEN][index % ARRAY_LEN]
    }

    #[inline]
    fn block_mut(&mut self, index: usize) -> &mut BlockId {
        &mut self.arrays[index / ARRAY_LEN][index % ARRAY_LEN]
    }

    #[inline]
    fn leaf_mut(&mut self, index: usize) -> LeafMut<'_> {
        let block = self.block(index);
        LeafMut::of(self.slabs.bytes_mut(block))
    }

    /// Adds an element to a leaf, and a block to the leaf if it has none. Returns whether the element
    /// fitted.
    #[inline]
    fn try_push(&mut self, heap: &Heap, leaf: usize, tag: u8, element: &[u8]) -> bool {
        if element.len() > K::SIZE_MAX {
            return false;
        }
        if self.leaf_mut(leaf).try_push(tag, element) {
            return true;
        }
        let view = self.leaf(leaf);
        if !view.has_room(element.len()) {
            return false;
        }
        self.make_room(heap, leaf, view.len() + 1, view.size() + element.len());
        self.leaf_mut(leaf).try_push(tag, element)
    }

    /// Moves a leaf to a block for this many elements and bytes, at least as many as it has, and adds slots
    /// for them. A new block has an eighth more, so that a leaf is copied once in about eight additions.
    #[inline(never)]
    fn make_room(&mut self, heap: &Heap, leaf: usize, len: usize, size: usize) {
        let slots = slots_for(len).max(self.leaf(leaf).slots());
        if leaf_size(slots, size) > self.slabs.bytes(self.block(leaf)).len() {
            let size = leaf_size(slots, size);
            self.resize(heap, leaf, (size + size / 8).min(LEAF_SIZE_MAX));
        }
        self.leaf_mut(leaf).set_slots(slots);
    }

    /// Moves a leaf to a block of this many bytes, which its elements must fit.
    fn resize(&mut self, heap: &Heap, leaf: usize, size: usize) {
        let old = self.block(leaf);
        if !SlabPool::is_other_size(old, size) {
            return;
        }
        let new = self.slabs.allocate(heap, size, leaf as u32);
        *self.block_mut(leaf) = new;
        if old == BlockId::NONE {
            LeafMut::empty(self.slabs.bytes_mut(new));
        } else {
            self.slabs.copy(old, new);
            self.free(heap, old);
        }
    }

    /// Frees a block that its leaf does not use any more.
    fn free(&mut self, heap: &Heap, block: BlockId) {
        if let Some(moved) = self.slabs.free(heap, block) {
            *self.block_mut(moved as usize) = block;
        }
    }

    /// Empties a leaf. Returns its bytes.
    fn take_leaf(&mut self, heap: &Heap, leaf: usize) -> Vec<u8> {
        let block = std::mem::replace(self.block_mut(leaf), BlockId::NONE);
        let bytes = self.slabs.bytes(block).to_vec();
        if block != BlockId::NONE {
            self.free(heap, block);
        }
        bytes
    }

    /// Adds a leaf with the elements of another one whose hashes have the next bit set.
    #[inline(never)]
    fn split(&mut self, alloc: AllocContext<'_>) {
        let half = self.half();
        let halves = [self.leaf_count - half, self.leaf_count];
        match self.arrays.last_mut() {
            Some(array) if array.len() < ARRAY_LEN => array.push(BlockId::NONE),
            _ => {
                let mut array = Vec::with_capacity(ARRAY_LEN);
                array.push(BlockId::NONE);
                self.arrays.push(array);
            }
        }
        self.leaf_count += 1;
        let source = self.take_leaf(alloc.heap, halves[0]);
        let source = Leaf::of(&source);
        let mut is_upper = [false; 1 + u8::MAX as usize];
        let mut needed = [(0, 0); 2];
        for (element, is_upper) in source.iter().zip(&mut is_upper) {
            *is_upper = alloc.hasher.hash(K::key(element)) as usize & half != 0;
            let (len, size) = &mut needed[usize::from(*is_upper)];
            *len += 1;
            *size += element.len();
        }
        for (leaf, (len, size)) in halves.into_iter().zip(needed) {
            if len > 0 {
                self.make_room(alloc.heap, leaf, len, size);
            }
        }
        for (index, (element, is_upper)) in source.iter().zip(is_upper).enumerate() {
            let is_added = self.leaf_mut(halves[usize::from(is_upper)]).try_push(source.tag(index), element);
            debug_assert!(is_added, "the leaf has room for the element");
        }
    }

    /// Verifies the invariants.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        let (last, others) = self.arrays.split_last().ok_or("no array")?;
        if last.is_empty() || others.iter().any(|array| array.len() != ARRAY_LEN) {
            return Err("an array is not full, or the last one is empty".to_owned());
        }
        let blocks = self.arrays.iter().flatten();
        self.slabs.check(blocks.enumerate().map(|(owner, block)| (owner as u32, *block)))?;
        if self.leaves().count() != self.leaf_count || self.leaves().map(Leaf::len).sum::<usize>() != self.len
        {
            return Err(format!("counts are wrong: {} leaves, {} elements", self.leaf_count, self.len));
        }
        for (index, leaf) in self.leaves().enumerate() {
            super::check_leaf::<K>(alloc, leaf, |hash| self.leaf_index(hash) == index)?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(miri)))]
impl<K: Keyed> LinearHashDirectory<K> {
    /// For planted faults.
    pub(super) fn parts(&mut self) -> (&mut Vec<Vec<BlockId>>, &mut usize) {
        (&mut self.arrays, &mut self.len)
    }

    /// For planted faults: adds an element to the given leaf, right or wrong.
    pub(super) fn push_anyway(&mut self, heap: &Heap, leaf: usize, tag: u8, element: &[u8]) {
        assert!(self.try_push(heap, leaf, tag, element));
    }
}

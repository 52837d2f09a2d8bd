//! The blocks of the leaves of one directory, stored without gaps.
//!
//! Each size class has slabs of up to 32 KiB, filled with blocks from the first slab to the last. When a block
//! is freed, the last block of its class replaces it. So memory exceeds the blocks in use by at most a quarter
//! or a slab for each class, whatever sizes the leaves had before. In a general allocator members took 41 bytes
//! each instead of 30: all leaves grow, and few still have their former size. While a class has too few blocks
//! to fill a slab, each block is a separate slab.
//!
//! Each block starts with its owner, which is updated when the block moves.
//!
//! Invariants ([`SlabPool::check`])
//! 1. The first `block_count` blocks of each class are in use.
//! 2. All slabs of a class but the last have `slab_len` blocks: one, or as many as fit.
//!
//! Cost: freeing copies one block at most. A step of growth or shrinking copies one slab at most.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use crate::memory::heap::{Heap, free};
use crate::memory::size_class::SPAN_BLOCK_SIZE;

/// Bytes of a slab of full size: a span of the heap.
const SLAB_SIZE: usize = SPAN_BLOCK_SIZE;

/// Bytes before a block for its owner.
const OWNER_SIZE: usize = size_of::<u32>();

/// Blocks of the smallest size that fit a slab.
const BLOCK_COUNT_MAX: usize = 512;

/// Number of size classes.
const CLASS_COUNT: usize = {
    let (mut class_count, mut slab_len) = (0, BLOCK_COUNT_MAX);
    while slab_len > 0 {
        class_count += 1;
        slab_len = next_slab_len(slab_len);
    }
    class_count
};

/// Blocks that fit a slab, by class.
const SLAB_LENS: [u16; CLASS_COUNT] = {
    let mut slab_lens = [0; CLASS_COUNT];
    let (mut class, mut slab_len) = (0, BLOCK_COUNT_MAX);
    while slab_len > 0 {
        slab_lens[class] = slab_len as u16;
        class += 1;
        slab_len = next_slab_len(slab_len);
    }
    slab_lens
};

/// Blocks of a slab with the next larger block size: an eighth fewer.
const fn next_slab_len(slab_len: usize) -> usize {
    if slab_len > 8 { slab_len - slab_len / 8 } else { slab_len - 1 }
}

/// Bytes of a block, including its owner, by class.
const BLOCK_SIZES: [u16; CLASS_COUNT] = {
    let mut sizes = [0; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        sizes[class] = ((SLAB_SIZE / SLAB_LENS[class] as usize) & !7) as u16;
        class += 1;
    }
    sizes
};

#[inline]
fn block_size(class: usize) -> usize {
    usize::from(BLOCK_SIZES[class])
}

/// The identifier of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId {
    /// The index in the slab in the low [`INDEX_BITS`], the slab's index above them; only the slab's index
    /// where slabs are single blocks.
    place: u32,
    class: u8,
}

/// Bits that hold the index of any block in a slab.
const INDEX_BITS: u32 = (BLOCK_COUNT_MAX - 1).ilog2() + 1;

impl BlockId {
    /// A block of no bytes, which is of no class.
    pub(super) const NONE: Self = Self { place: 0, class: u8::MAX };
}

/// Blocks in slabs.
#[derive(Default)]
pub(super) struct SlabPool {
    /// By class, in the order of [`BLOCK_SIZES`]; classes after the last one ever used are absent.
    classes: Vec<SizeClass>,
}

struct SizeClass {
    slabs: Vec<Slab>,
    slab_len: u32,
    /// As in a [`BlockId`]: 0 while `slab_len` is 1.
    index_bits: u32,
    block_count: u32,
}

impl SlabPool {
    /// The bytes of a block.
    #[inline]
    pub(super) fn bytes(&self, id: BlockId) -> &[u8] {
        let Some(class) = self.classes.get(usize::from(id.class)) else { return &[] };
        let (slab, range) = class.find(id);
        &class.slabs[slab][range][OWNER_SIZE..]
    }

    /// The mutable bytes of a block.
    #[inline]
    pub(super) fn bytes_mut(&mut self, id: BlockId) -> &mut [u8] {
        let Some(class) = self.classes.get_mut(usize::from(id.class)) else { return &mut [] };
        &mut class.block_mut(id)[OWNER_SIZE..]
    }

    /// Whether blocks for this many bytes have another size than this one.
    pub(super) fn is_other_size(id: BlockId, size: usize) -> bool {
        usize::from(id.class) != class_for(size)
    }

    /// Allocates a block of at least this many bytes, with unspecified contents.
    pub(super) fn allocate(&mut self, heap: &Heap, size: usize, owner: u32) -> BlockId {
        let number = class_for(size);
        if self.classes.len() <= number {
            self.classes.reserve_exact(number + 1 - self.classes.len());
            self.classes.resize_with(number + 1, SizeClass::new);
        }
        let class = &mut self.classes[number];
        class.reserve(heap, number);
        let id = BlockId { place: class.place_of(class.block_count), class: number as u8 };
        class.block_count += 1;
        class.block_mut(id)[..OWNER_SIZE].copy_from_slice(&owner.to_le_bytes());
        id
    }

    /// Copies a block to one of another size, as much as fits.
    pub(super) fn copy(&mut self, from: BlockId, to: BlockId) {
        let numbers = [from.class, to.class].map(usize::from);
        let [source, target] = self.classes.get_disjoint_mut(numbers).expect("blocks of two sizes");
        let source = &source.block_mut(from)[OWNER_SIZE..];
        let target = &mut target.block_mut(to)[OWNER_SIZE..];
        let size = source.len().min(target.len());
        target[..size].copy_from_slice(&source[..size]);
    }

    /// Frees a block. Returns the owner of the block that replaces it, if there is one.
    pub(super) fn free(&mut self, heap: &Heap, id: BlockId) -> Option<u32> {
        let class = &mut self.classes[usize::from(id.class)];
        class.block_count -= 1;
        let last = BlockId { place: class.place_of(class.block_count), ..id };
        class.replace(id, last);
        class.free_vacant(heap, usize::from(id.class));
        (last != id).then(|| {
            let owner = &class.block_mut(id)[..OWNER_SIZE];
            u32::from_le_bytes(owner.try_into().expect("an owner is four bytes"))
        })
    }

    /// Bytes of memory of the slabs.
    pub(super) fn memory_bytes(&self) -> usize {
        let slabs: usize = self.classes.iter().flat_map(|class| &class.slabs).map(|slab| slab.len()).sum();
        let of_slabs: usize =
            self.classes.iter().map(|class| class.slabs.capacity() * size_of::<Slab>()).sum();
        slabs + of_slabs + self.classes.capacity() * size_of::<SizeClass>()
    }

    /// Number of slabs.
    pub(super) fn slab_count(&self) -> usize {
        self.classes.iter().map(|class| class.slabs.len()).sum()
    }

    /// A copy in which all blocks keep their identifiers.
    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        let copy = |class: &SizeClass| SizeClass {
            slabs: class.slabs.iter().map(|slab| Slab::copy_of(heap, slab, slab.len())).collect(),
            ..*class
        };
        Self { classes: self.classes.iter().map(copy).collect() }
    }

    /// Verifies the invariants, given the blocks that owners have.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self, owned: impl Iterator<Item = (u32, BlockId)>) -> Result<(), String> {
        let mut owned_count = 0;
        for (owner, id) in owned.filter(|(_, id)| *id != BlockId::NONE) {
            owned_count += 1;
            let class = self.classes.get(usize::from(id.class)).ok_or("a block is of no class")?;
            if class.number_of(id) >= class.block_count {
                return Err(format!("{id:?} of {owner} is not taken"));
            }
            let (slab, range) = class.find(id);
            if class.slabs[slab][range][..OWNER_SIZE] != owner.to_le_bytes() {
                return Err(format!("{id:?} is not owned by {owner}"));
            }
        }
        if owned_count != self.classes.iter().map(|class| class.block_count).sum::<u32>() {
            return Err("a block has no owner".to_owned());
        }
        for (number, class) in self.classes.iter().enumerate() {
            let full = class.slab_len as usize * block_size(number);
            let Some((_, others)) = class.slabs.split_last() else { continue };
            if others.iter().any(|slab| slab.len() != full) || class.capacity(number) < class.block_count {
                return Err(format!("the slabs of class {number} are wrong"));
            }
        }
        Ok(())
    }
}

/// The class with the smallest blocks for this many bytes and the owner.
fn class_for(size: usize) -> usize {
    let slab_len = SLAB_SIZE / (size + OWNER_SIZE).next_multiple_of(8);
    debug_assert!(slab_len > 0, "leaves are smaller than a slab");
    SLAB_LENS.partition_point(|&len| usize::from(len) > slab_len)
}

impl SizeClass {
    fn new() -> Self {
        Self { slabs: Vec::new(), slab_len: 1, index_bits: 0, block_count: 0 }
    }

    /// The slab of a block, and the block's place in it.
    #[inline]
    fn find(&self, id: BlockId) -> (usize, Range<usize>) {
        let size = block_size(usize::from(id.class));
        let start = (id.place & ((1 << self.index_bits) - 1)) as usize * size;
        ((id.place >> self.index_bits) as usize, start..start + size)
    }

    /// The place of a block, given the number of blocks before it.
    fn place_of(&self, number: u32) -> u32 {
        (number / self.slab_len) << self.index_bits | (number % self.slab_len)
    }

    /// The number of blocks before a block.
    #[cfg(any(test, debug_assertions))]
    fn number_of(&self, id: BlockId) -> u32 {
        (id.place >> self.index_bits) * self.slab_len + (id.place & ((1 << self.index_bits) - 1))
    }

    #[inline]
    fn block_mut(&mut self, id: BlockId) -> &mut [u8] {
        let (slab, range) = self.find(id);
        &mut self.slabs[slab][range]
    }

    /// Number of blocks in the slabs, used or not.
    fn capacity(&self, number: usize) -> u32 {
        let Some((last, others)) = self.slabs.split_last() else { return 0 };
        others.len() as u32 * self.slab_len + (last.len() / block_size(number)) as u32
    }

    /// Reserves space for one more block; where slabs have several, for an eighth of the present number, up
    /// to a slab.
    fn reserve(&mut self, heap: &Heap, number: usize) {
        let capacity = self.capacity(number);
        if self.block_count < capacity {
            return;
        }
        if self.slab_len == 1 && capacity == u32::from(SLAB_LENS[number]) && capacity > 1 {
            self.make_one_slab(heap, number);
        }
        let in_last = capacity % self.slab_len;
        let step = if self.slab_len == 1 { 1 } else { capacity / 8 + 1 };
        let size = (in_last + step).min(self.slab_len) as usize * block_size(number);
        if in_last == 0 {
            if self.slabs.is_empty() {
                self.slabs.reserve_exact(1);
            }
            self.slabs.push(Slab::copy_of(heap, &[], size));
        } else {
            let last = self.slabs.last_mut().expect("it has blocks");
            *last = Slab::copy_of(heap, last, size);
        }
    }

    /// Moves the blocks, which are separate slabs and fill one, into one slab.
    fn make_one_slab(&mut self, heap: &Heap, number: usize) {
        let size = block_size(number);
        let mut one = Slab::copy_of(heap, &[], usize::from(SLAB_LENS[number]) * size);
        one.chunks_exact_mut(size).zip(&self.slabs).for_each(|(block, slab)| block.copy_from_slice(slab));
        self.slabs = vec![one];
        self.slab_len = u32::from(SLAB_LENS[number]);
        self.index_bits = INDEX_BITS;
    }

    /// Frees vacant blocks if they are more than a quarter of the used ones, or than a slab and a half.
    fn free_vacant(&mut self, heap: &Heap, number: usize) {
        let spare_max = 1 + (self.block_count / 4).min(self.slab_len + self.slab_len / 2);
        if self.block_count == 0 {
            *self = Self::new();
        } else if self.capacity(number) > self.block_count + spare_max {
            let in_others = (self.slabs.len() as u32 - 1) * self.slab_len;
            let last = self.slabs.pop().expect("it has blocks");
            if self.block_count > in_others {
                let size = (self.block_count - in_others) as usize * block_size(number);
                self.slabs.push(Slab::copy_of(heap, &last, size));
            }
        }
    }

    /// Replaces an unused block by the last block, which is not counted any more.
    fn replace(&mut self, id: BlockId, last: BlockId) {
        if self.slab_len == 1 {
            self.slabs.swap_remove(id.place as usize);
            return;
        }
        if id == last {
            return;
        }
        let ((slab, range), (last_slab, last_range)) = (self.find(id), self.find(last));
        if slab == last_slab {
            self.slabs[slab].copy_within(last_range, range.start);
        } else {
            let (others, last) = self.slabs.split_at_mut(last_slab);
            others[slab][range].copy_from_slice(&last[0][last_range]);
        }
    }
}

/// Bytes from a heap.
///
/// Invariant: the memory is a block of the heap of this size, initialised, and exclusively owned.
struct Slab {
    memory: NonNull<u8>,
    size: usize,
}

// SAFETY: a slab owns plain bytes, and any thread may free memory of a heap.
unsafe impl Send for Slab {}
// SAFETY: a shared reference only reads the bytes.
unsafe impl Sync for Slab {}

impl Slab {
    /// A slab of this many bytes: a copy of `bytes`, as much as fits, then zeros.
    fn copy_of(heap: &Heap, bytes: &[u8], size: usize) -> Self {
        // A slab of full size is a span, even if its blocks do not fill it.
        let memory = heap.allocate(allocated_size(size));
        let kept = bytes.len().min(size);
        // SAFETY: the block is new, and has at least `kept` bytes.
        unsafe { memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), kept) };
        // SAFETY: the address is inside the block, or at its end.
        let rest = unsafe { memory.add(kept) };
        // SAFETY: the block has this many bytes behind the copied ones.
        unsafe { rest.write_bytes(0, size - kept) };
        Self { memory, size }
    }
}

/// The size to allocate for this many bytes.
fn allocated_size(size: usize) -> usize {
    if size > SLAB_SIZE - SLAB_SIZE / 8 { SLAB_SIZE } else { size }
}

impl Deref for Slab {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the invariant; borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.size) }
    }
}

impl DerefMut for Slab {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the invariant; borrowed mutably as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.size) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated from a heap with this size, and is not used any more.
        unsafe { free(self.memory, allocated_size(self.size)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a few sizes are allocated and freed; each keeps its contents and is found where its owner
    /// records it.
    #[test]
    fn moved_blocks_keep_their_contents() {
        let heap = Heap::new();
        let mut slabs = SlabPool::default();
        let mut owned: Vec<Option<(BlockId, usize)>> = vec![None; if cfg!(miri) { 8 } else { 400 }];
        let mut bits = 1u64;
        for step in 0..if cfg!(miri) { 60 } else { 20_000 } {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let owner = (bits >> 33) as usize % owned.len();
            let size = [40, 700, 11_000, 20_000][(bits >> 60) as usize % 4];
            if let Some((id, size)) = owned[owner].take() {
                assert!(slabs.bytes(id).len() >= size);
                assert!(slabs.bytes(id)[..8] == (owner as u64).to_le_bytes());
                assert!(slabs.bytes(id)[size - 8..size] == (owner as u64).to_le_bytes());
                if let Some(moved) = slabs.free(&heap, id) {
                    owned[moved as usize].as_mut().expect("the block is allocated").0 = id;
                }
            } else {
                let id = slabs.allocate(&heap, size, owner as u32);
                let bytes = slabs.bytes_mut(id);
                bytes[..8].copy_from_slice(&(owner as u64).to_le_bytes());
                bytes[size - 8..size].copy_from_slice(&(owner as u64).to_le_bytes());
                owned[owner] = Some((id, size));
            }
            if step % 20 == 0 {
                let ids = owned.iter().enumerate();
                let ids = ids.filter_map(|(owner, block)| block.map(|(id, _)| (owner as u32, id)));
                assert_eq!(slabs.check(ids), Ok(()));
            }
        }
        let copy = slabs.to_copy(&heap);
        for (owner, block) in owned.iter().enumerate() {
            let Some((id, _)) = *block else { continue };
            assert!(copy.bytes(id)[..8] == (owner as u64).to_le_bytes());
        }
        drop((slabs, copy));
        heap.trim();
        assert_eq!(heap.used_bytes(), 0);
    }

    #[test]
    fn every_size_has_the_smallest_blocks_that_hold_it() {
        for size in (1..=super::super::leaf::LEAF_SIZE_MAX).step_by(if cfg!(miri) { 617 } else { 1 }) {
            let class = class_for(size);
            assert!(block_size(class) >= size + OWNER_SIZE, "{size}");
            assert!(class == 0 || block_size(class - 1) < size + OWNER_SIZE, "{size}");
        }
    }
}

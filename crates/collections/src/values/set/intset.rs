//! A small sorted set of integers, stored at the width of the widest.
//!
//! Owns one block: the number of integers and their width in bytes (together 4 bytes), the integers. It has no
//! thresholds: the caller limits its size.
//!
//! Invariants ([`IntSet::check`])
//! 1. The integers ascend strictly.
//! 2. The width is 1, 2, 3, 4, 6 or 8, and the block has room for the integers.
//!
//! The width only grows, as in Redis: a set that once had a wide integer keeps the room for it.
//!
//! Cost: a search is binary; adding and removing move the integers behind the place.

use std::cmp::Ordering;

use crate::memory::block::ByteBlock;
use crate::memory::heap::Heap;

/// A sorted set of integers of 8 to 64 bits.
#[derive(Default)]
pub(crate) struct IntSet {
    block: ByteBlock,
}

const HEAD_SIZE: usize = 4;

/// Bits of the head that have the width. The number of integers is above them.
const WIDTH_BITS: u32 = 4;

/// The number of integers is below this.
pub(crate) const LEN_END: usize = 1 << (u32::BITS - WIDTH_BITS);

/// Integers from which on a new block has an eighth more.
const SPARE_LEN_MIN: usize = 32;

/// Size up to which a block is not shrunk.
const KEPT_SIZE: usize = 64;

impl IntSet {
    /// An empty set. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { block: ByteBlock::empty() }
    }

    /// Prefetches the beginning of its block.
    #[inline(always)]
    pub(crate) fn prefetch_head(&self) {
        self.block.prefetch();
    }

    /// Number of integers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.head() >> WIDTH_BITS
    }

    /// Bytes of memory beside the set itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }

    /// See [`ByteBlock::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        self.block.relocate(heap)
    }

    /// The integer at an index in ascending order, which must be below the length.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> i64 {
        let integers = &self.block[HEAD_SIZE..];
        match self.width() {
            1 => i64::from(integers[index] as i8),
            2 => i64::from(i16::from_le_bytes(bytes_at(integers, index))),
            3 => {
                let [a, b, c] = bytes_at(integers, index);
                i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
            }
            4 => i64::from(i32::from_le_bytes(bytes_at(integers, index))),
            6 => {
                let [a, b, c, d, e, f] = bytes_at(integers, index);
                i64::from_le_bytes([0, 0, a, b, c, d, e, f]) >> 16
            }
            _ => i64::from_le_bytes(bytes_at(integers, index)),
        }
    }

    /// Whether an integer is in it.
    #[inline]
    pub(crate) fn contains(&self, value: i64) -> bool {
        self.place(value).is_ok()
    }

    /// Adds an integer. Returns whether it was new.
    pub(crate) fn add(&mut self, heap: &Heap, value: i64) -> bool {
        let Err(index) = self.place(value) else { return false };
        let (len, width) = (self.len(), self.width().max(width_of(value)));
        if width != self.width() || HEAD_SIZE + (len + 1) * width > self.block.len() {
            // A few bytes more are not worth the spare ones: blocks are eight bytes apart.
            let spare = if len < SPARE_LEN_MIN { 0 } else { len / 8 };
            // Space that was reserved for more stays.
            let kept = if width != self.width() { self.capacity() } else { 0 };
            self.resize(heap, (len + 1 + spare).max(kept), width);
        }
        let (start, end) = (HEAD_SIZE + index * width, HEAD_SIZE + len * width);
        self.block.copy_within(start..end, start + width);
        self.block[start..start + width].copy_from_slice(&value.to_le_bytes()[..width]);
        self.set_head(len + 1, width);
        true
    }

    /// Reserves space for this many more integers as wide as this one.
    pub(crate) fn reserve(&mut self, heap: &Heap, count: usize, value: i64) {
        let (len, width) = (self.len() + count, self.width().max(width_of(value)));
        if width != self.width() || HEAD_SIZE + len * width > self.block.len() {
            self.resize(heap, len, width);
        }
    }

    /// Removes an integer. Returns whether it was present.
    pub(crate) fn remove(&mut self, heap: &Heap, value: i64) -> bool {
        self.place(value).map(|index| self.remove_at(heap, index)).is_ok()
    }

    /// Removes the integer at an index in ascending order, which must be below the length.
    pub(crate) fn remove_at(&mut self, heap: &Heap, index: usize) {
        let (len, width) = (self.len(), self.width());
        let (start, end) = (HEAD_SIZE + index * width, HEAD_SIZE + len * width);
        self.block.copy_within(start + width..end, start);
        self.set_head(len - 1, width);
        self.shrink_if_roomy(heap);
    }

    /// Moves to a smaller block if half of this one is vacant.
    pub(crate) fn shrink_if_roomy(&mut self, heap: &Heap) {
        let (len, width) = (self.len(), self.width());
        if self.block.len() > KEPT_SIZE && (HEAD_SIZE + len * width) * 2 < self.block.len() {
            self.resize(heap, len, width);
        }
    }

    /// Verifies the invariants.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.block.is_empty() && ![1, 2, 3, 4, 6, 8].contains(&self.width()) {
            return Err(format!("integers of {} bytes", self.width()));
        }
        if !self.block.is_empty() && HEAD_SIZE + self.len() * self.width() > self.block.len() {
            return Err(format!("no room for {} integers", self.len()));
        }
        if (1..self.len()).any(|index| self.at(index - 1) >= self.at(index)) {
            return Err("integers out of order".to_owned());
        }
        Ok(())
    }

    /// The index of an integer, or else its insertion index.
    #[inline]
    fn place(&self, value: i64) -> Result<usize, usize> {
        let (mut start, mut end) = (0, self.len());
        // An integer wider than the set's width is outside the range of all members.
        if end > 0 && width_of(value) > self.width() {
            return Err(if value < 0 { 0 } else { end });
        }
        while start < end {
            let middle = start.midpoint(end);
            match self.at(middle).cmp(&value) {
                Ordering::Less => start = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => end = middle,
            }
        }
        Err(start)
    }

    /// Moves to a block with room for `capacity` integers of this width.
    #[cold]
    fn resize(&mut self, heap: &Heap, capacity: usize, width: usize) {
        if width == self.width() {
            let used = HEAD_SIZE + self.len() * width;
            self.block = ByteBlock::with_start(heap, HEAD_SIZE + capacity * width, &self.block[..used]);
            return self.set_head(self.len(), width);
        }
        let mut block = ByteBlock::zeroed(heap, HEAD_SIZE + capacity * width);
        for (index, room) in block[HEAD_SIZE..].chunks_exact_mut(width).take(self.len()).enumerate() {
            room.copy_from_slice(&self.at(index).to_le_bytes()[..width]);
        }
        let len = self.len();
        self.block = block;
        self.set_head(len, width);
    }

    /// Integers of the present width for which there is space.
    fn capacity(&self) -> usize {
        self.block.len().saturating_sub(HEAD_SIZE) / self.width().max(1)
    }

    /// A copy in `heap`.
    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        Self { block: self.block.to_copy(heap) }
    }

    #[inline]
    fn width(&self) -> usize {
        self.head() & ((1 << WIDTH_BITS) - 1)
    }

    /// Number and width in one; zero in an empty set.
    #[inline]
    fn head(&self) -> usize {
        self.block.first_chunk().map_or(0, |head| u32::from_le_bytes(*head) as usize)
    }

    #[inline]
    fn set_head(&mut self, len: usize, width: usize) {
        debug_assert!(len < LEN_END);
        self.block[..HEAD_SIZE].copy_from_slice(&((len << WIDTH_BITS | width) as u32).to_le_bytes());
    }
}

/// The bytes of the `index`-th integer that is `WIDTH` bytes wide.
#[inline]
fn bytes_at<const WIDTH: usize>(integers: &[u8], index: usize) -> [u8; WIDTH] {
    integers[index * WIDTH..(index + 1) * WIDTH].try_into().expect("the range has this length")
}

/// Bytes that an integer needs.
#[inline]
fn width_of(value: i64) -> usize {
    // The magnitude's bits, and one for the sign.
    let bits = u64::BITS - (value ^ (value >> 63)).leading_zeros() + 1;
    match bits {
        ..=8 => 1,
        9..=16 => 2,
        17..=24 => 3,
        25..=32 => 4,
        33..=48 => 6,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_standard_set() {
        let extremes =
            [0, -1, 1, 32_767, -32_768, 32_768, -32_769, 1 << 31, -(1 << 31) - 1, i64::MAX, i64::MIN];
        let extremes_of = |limit: i64| extremes.map(|extreme| extreme.clamp(-limit, limit));
        for limit in [100, 127, 40_000, (1 << 23) - 1, 1 << 30, 1 << 45, i64::MAX] {
            let extremes = extremes_of(limit);
            // Each comparison reads the whole set.
            let step_count = if cfg!(miri) { 30 } else { 5_000 };
            let (heap, mut set, mut model) = (Heap::new(), IntSet::new(), BTreeSet::new());
            let mut state = 7u64;
            for step in 0..step_count {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = match step % 10 {
                    0 => extremes[(state >> 40) as usize % extremes.len()],
                    _ => (state >> 1) as i64 % limit,
                };
                if state >> 62 == 0 {
                    assert_eq!(set.remove(&heap, value), model.remove(&value));
                } else {
                    assert_eq!(set.add(&heap, value), model.insert(value));
                }
                assert!(set.contains(value) == model.contains(&value) && set.len() == model.len());
                assert_eq!(set.check(), Ok(()));
            }
            assert!((0..set.len()).map(|index| set.at(index)).eq(model.iter().copied()));
            while set.len() > 0 {
                set.remove_at(&heap, set.len() / 2);
            }
            assert!(set.memory_bytes() <= KEPT_SIZE + 8, "memory is given back");
        }
    }

    #[test]
    fn a_planted_fault_is_noticed() {
        let (heap, mut set) = (Heap::new(), IntSet::new());
        for value in [1, 2, 3] {
            set.add(&heap, value);
        }
        set.block[HEAD_SIZE] = 2;
        assert!(set.check().is_err());
        set.block[HEAD_SIZE] = 1;
        set.set_head(1000, 1);
        assert!(set.check().is_err());
        set.set_head(3, 1);
        assert_eq!(set.check(), Ok(()));
    }

    #[test]
    fn width_follows_the_widest() {
        let (heap, mut set) = (Heap::new(), IntSet::new());
        for (value, bytes) in [(5, 1), (-129, 2), (-40_000, 3), (1 << 31, 6), (-(1 << 47) - 1, 8)] {
            set.add(&heap, value);
            assert_eq!(set.width(), bytes);
        }
        assert!((0..5).map(|index| set.at(index)).eq([-(1 << 47) - 1, -40_000, -129, 5, 1 << 31]));
        for bits in [7, 15, 23, 31, 47] {
            let (least, greatest) = (-(1i64 << bits), (1i64 << bits) - 1);
            assert_eq!((width_of(least), width_of(greatest)), (width_of(0).max(bits / 8 + 1), bits / 8 + 1));
            assert!(width_of(least - 1) > bits / 8 + 1 && width_of(greatest + 1) > bits / 8 + 1);
        }
    }
}

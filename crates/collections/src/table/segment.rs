//! A segment: an array of buckets for one range of positions, in order of position.
//!
//! An entry's home bucket is its place in the range, scaled to the number of buckets (multiply and shift). So
//! the order of the home buckets is the order of the positions for any number of buckets, and rebuilding
//! reads and writes nearly in sequence, without access to an entry.
//!
//! A displaced entry is stored in the first bucket with room in its [`ProbeSequence`]: 1, 3, 6, 10, 15,
//! 21, 28 buckets further, then all others in turn. Increasing jumps prevent clusters of full buckets. At
//! 85 % of 46 buckets a hit reads 1.19 buckets and a miss 1.85. At 93 %, which no segment of more than two
//! buckets reaches, they read 1.35 and 3.1; linear probing reads 1.55 and 6.2.
//!
//! Owns nothing: [`SegmentRef`] is a packed address, [`Segment`] a borrowed view. The table owns the memory.
//!
//! Invariants
//! 1. Every item's position lies in the segment's range.
//! 2. Each bucket in the probe sequence of an item before its own counts it as overflow (or is saturated).
//! 3. An overflow count that is not saturated is exactly the number of such items.
//!
//! Sizes: a growth step is 9 to 22 % from 9 buckets on. Finer steps would save 0.3 bytes a key here and lose
//! as much in the heap, which has to reuse the blocks of each abandoned size (`span.rs`).

use std::ptr::NonNull;

use crate::memory::heap::Heap;
use crate::memory::replaced::Retired;
use crate::memory::size_class::LINE_SIZE;
use crate::table::bucket::{Bucket, BucketItem, POSITION_BITS, Position, WIDTH};
use crate::table::guess::Guess;

/// Maximal buckets of a segment before it is split: 4 KiB. Few under Miri, so that small tables have a
/// directory.
pub(crate) const BUCKET_COUNT_SPLIT: usize = if crate::IS_TINY { 8 } else { 64 };

/// Permitted numbers of buckets up to a split; from 16 on their blocks fill a span of 32 KiB almost exactly.
const BUCKET_COUNTS: [u8; 23] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 23, 28, 32, 36, 42, 46, 51, 56, 64];

/// Number of entries at which a segment of this many buckets grows.
#[inline]
pub(crate) const fn capacity(bucket_count: usize) -> usize {
    (WIDTH - 1) * bucket_count + 1
}

/// The smallest number of buckets that has room for one more than `entry_count`.
pub(crate) fn bucket_count_for(entry_count: usize) -> usize {
    let mut bucket_count = 1;
    while capacity(bucket_count) <= entry_count {
        bucket_count = bucket_count_after(bucket_count);
    }
    bucket_count
}

/// The next larger number of buckets.
pub(crate) fn bucket_count_after(bucket_count: usize) -> usize {
    match BUCKET_COUNTS.iter().find(|&&count| usize::from(count) > bucket_count) {
        Some(&count) => usize::from(count),
        None => SegmentRef::representable(bucket_count + bucket_count / 4),
    }
}

/// Address, number of buckets and depth of a segment (or a directory) in one word; zero is none.
///
/// ```text
/// bits 63..52, 51..48  number of buckets: mantissa, exponent
/// bits 47..6           address, aligned to 64
/// bit  5               it is a directory
/// bits 4..0            depth: number of leading position bits that all its entries have in common;
///                      for a directory, the number of bits that index it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRef(u64);

const DEPTH_MASK: u64 = 31;
const DIRECTORY: u64 = 32;
const ADDRESS_MASK: u64 = (1 << 48) - LINE_SIZE as u64;
const MANTISSA_BITS: u32 = 12;
const MANTISSA_MAX: usize = (1 << MANTISSA_BITS) - 1;

impl SegmentRef {
    pub(crate) const NONE: Self = Self(0);

    /// Allocates a segment of vacant buckets.
    pub(crate) fn allocate(heap: &Heap, bucket_count: usize, depth: u32) -> Self {
        debug_assert_eq!(bucket_count, Self::representable(bucket_count));
        let size = bucket_count * LINE_SIZE;
        let memory = heap.allocate(size);
        sync::simulation::note_used(memory.addr().get(), size);
        // SAFETY: the block has at least `size` bytes, and only this thread has its address.
        unsafe { memory.write_bytes(0, size) };
        let exponent = bucket_count.max(1).ilog2().saturating_sub(MANTISSA_BITS - 1);
        let count_bits = ((bucket_count >> exponent) as u64) << 52 | u64::from(exponent) << 48;
        Self(count_bits | Self::address_bits(memory) | u64::from(depth))
    }

    /// A reference to a directory of 2^`depth` words.
    pub(crate) fn to_directory(memory: NonNull<u8>, depth: u32) -> Self {
        Self(Self::address_bits(memory) | DIRECTORY | u64::from(depth))
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) const fn is_directory(self) -> bool {
        self.0 & DIRECTORY != 0
    }

    #[inline]
    pub(crate) const fn depth(self) -> u32 {
        (self.0 & DEPTH_MASK) as u32
    }

    #[inline]
    pub(crate) const fn address(self) -> usize {
        (self.0 & ADDRESS_MASK) as usize
    }

    /// The address of the bucket at this index.
    #[inline]
    pub(crate) const fn bucket_address(self, index: usize) -> usize {
        self.address() + index * LINE_SIZE
    }

    #[inline]
    pub(crate) const fn bucket_count(self) -> usize {
        ((self.0 >> 52) << ((self.0 >> 48) & 15)) as usize
    }

    /// Bytes of the segment's memory.
    pub(crate) const fn size(self) -> usize {
        self.bucket_count() * LINE_SIZE
    }

    /// The segment's memory. Must not be [`Self::NONE`].
    pub(crate) fn memory(self) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.address())).expect("an allocated segment")
    }

    /// The index of an entry's home bucket.
    #[inline]
    pub(crate) const fn home(self, position: Position) -> usize {
        // As a fraction of the range, in 32 bits: the shift discards the bits above the range.
        let place = position.get() << (u32::BITS - POSITION_BITS) << self.depth();
        ((place as u64 * self.bucket_count() as u64) >> u32::BITS) as usize
    }

    /// The first position of the next segment's range, where `position` is in this segment's; wraps around
    /// after the last segment.
    pub(crate) const fn next_range(self, position: Position) -> Position {
        let shift = POSITION_BITS - self.depth();
        Position::new((((position.get() >> shift) + 1) << shift) & (Position::END - 1))
    }

    /// The memory of the segment.
    ///
    /// # Safety
    /// 1. A table owned it and no longer leads to it; and this is called once for it.
    pub(crate) unsafe fn retired(self) -> Retired {
        debug_assert!(!self.is_directory());
        // SAFETY: (1) it was allocated with this size, and (2) no other owner has it.
        unsafe { Retired::new(self.memory(), self.size()) }
    }

    /// A view of the segment.
    ///
    /// # Safety
    /// 1. The segment is not freed during `'a` (it may be retired).
    #[inline]
    pub(crate) unsafe fn view<'a>(self) -> Segment<'a> {
        debug_assert!(!self.is_directory());
        let count = self.bucket_count();
        let first = std::ptr::with_exposed_provenance::<Bucket>(self.address());
        if first.is_null() {
            return Segment { buckets: &[], reference: self };
        }
        // SAFETY: (1) the address is that of `count` buckets, all atomics that were initialised with zeros.
        let buckets = unsafe { std::slice::from_raw_parts(first, count) };
        Segment { buckets, reference: self }
    }

    /// The smallest number not below `bucket_count` that a reference can hold.
    fn representable(bucket_count: usize) -> usize {
        let mut exponent = 0;
        while bucket_count.div_ceil(1 << exponent) > MANTISSA_MAX {
            exponent += 1;
        }
        assert!(exponent < 16, "a billion keys of one slot share 24 bits of their hashes");
        bucket_count.div_ceil(1 << exponent) << exponent
    }

    fn address_bits(memory: NonNull<u8>) -> u64 {
        let address = memory.as_ptr().expose_provenance() as u64;
        debug_assert_eq!(
            address & !ADDRESS_MASK,
            0,
            "user addresses have 47 bits, segments are aligned to 64"
        );
        address
    }
}

/// The probe sequence of an entry: the buckets of a segment in the order of probing from a home bucket, each
/// once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeSequence {
    home: u32,
    bucket_count: u32,
    /// Distance of the current bucket from the home.
    offset: u32,
    /// Jumps made; [`JUMP_COUNT_MAX`] once the remaining buckets are tried in turn.
    jump_count: u32,
}

const JUMP_COUNT_MAX: u32 = 8;

/// The offsets reached by jumps, as bits.
const JUMP_OFFSETS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 6 | 1 << 10 | 1 << 15 | 1 << 21 | 1 << 28;

impl ProbeSequence {
    #[inline(always)]
    pub(crate) fn from_home(home: usize, bucket_count: usize) -> Self {
        Self { home: home as u32, bucket_count: bucket_count as u32, offset: 0, jump_count: 0 }
    }

    /// The index of the current bucket.
    #[inline(always)]
    pub(crate) fn bucket_index(self) -> usize {
        let index = self.home + self.offset;
        (if index >= self.bucket_count { index - self.bucket_count } else { index }) as usize
    }

    /// Advances to the next bucket; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        if self.jump_count < JUMP_COUNT_MAX {
            self.jump_count += 1;
            let offset = self.offset + self.jump_count;
            if self.jump_count < JUMP_COUNT_MAX && offset < self.bucket_count {
                self.offset = offset;
                return true;
            }
            self.jump_count = JUMP_COUNT_MAX;
            self.offset = 1;
        }
        loop {
            self.offset += 1;
            if self.offset >= self.bucket_count {
                return false;
            }
            if self.offset >= u32::BITS || JUMP_OFFSETS >> self.offset & 1 == 0 {
                return true;
            }
        }
    }
}

/// A place in a segment: a bucket and an index in it.
#[derive(Clone, Copy)]
pub(crate) struct EntryPlace<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) bucket_index: usize,
    pub(crate) index: usize,
    pub(crate) item: BucketItem,
}

/// Fills a new segment without searching buckets for room; takes two thirds of the time of
/// [`Segment::insert`].
pub(crate) struct Filler {
    /// Invariant: no other owner has it yet.
    segment: Segment<'static>,
    /// Items of each bucket so far. Segments beyond the split size have more buckets and are filled by
    /// [`Segment::insert`].
    fills: [u8; BUCKET_COUNT_SPLIT],
}

impl Filler {
    /// Allocates the segment.
    pub(crate) fn new(heap: &Heap, bucket_count: usize, depth: u32) -> Self {
        let reference = SegmentRef::allocate(heap, bucket_count, depth);
        // SAFETY: (1) only its owner frees it, to which `finish` passes it, where the view ends.
        let segment = unsafe { reference.view() };
        Self { segment, fills: [0; BUCKET_COUNT_SPLIT] }
    }

    /// The filled segment. The caller becomes its owner.
    pub(crate) fn finish(self) -> SegmentRef {
        self.segment.reference
    }

    #[inline]
    pub(crate) fn insert(&mut self, item: BucketItem) {
        let Segment { buckets, .. } = self.segment;
        if buckets.len() > BUCKET_COUNT_SPLIT {
            self.segment.insert(item);
            return;
        }
        let mut probes = self.segment.probe_sequence(item.position);
        loop {
            let bucket_index = probes.bucket_index();
            let fill = &mut self.fills[bucket_index];
            if usize::from(*fill) < WIDTH {
                buckets[bucket_index].fill(usize::from(*fill), item);
                *fill += 1;
                return;
            }
            buckets[bucket_index].add_overflow();
            assert!(probes.advance(), "a segment is allocated larger than its contents");
        }
    }
}

/// A borrowed segment. All of its methods work on shared atomics; the table controls write access.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) buckets: &'a [Bucket],
    pub(crate) reference: SegmentRef,
}

impl<'a> Segment<'a> {
    /// The place of a guess, if it exists and has an item, with `position` assumed.
    #[inline(always)]
    pub(crate) fn place_at(self, guess: Guess, position: Position) -> Option<EntryPlace<'a>> {
        let (bucket_index, index) = (guess.bucket_index(), guess.index());
        let bucket = self.buckets.get(bucket_index)?;
        let item = bucket.item_as_if(index, position)?;
        Some(EntryPlace { bucket, bucket_index, index, item })
    }

    /// Stores an item in the first bucket with room in its probe sequence. The segment must have room.
    #[inline]
    pub(crate) fn insert(self, item: BucketItem) {
        let mut probes = self.probe_sequence(item.position);
        loop {
            let bucket = &self.buckets[probes.bucket_index()];
            if bucket.insert(item).is_some() {
                return;
            }
            bucket.add_overflow();
            assert!(probes.advance(), "a segment grows before it is full");
        }
    }

    /// Removes an item.
    #[inline]
    pub(crate) fn remove(self, place: EntryPlace<'_>) {
        place.bucket.clear(place.index);
        let mut probes = self.probe_sequence(place.item.position);
        while probes.bucket_index() != place.bucket_index {
            self.buckets[probes.bucket_index()].remove_overflow();
            probes.advance();
        }
    }

    /// The buckets that may hold an item at this position, from its home bucket on.
    #[inline]
    pub(crate) fn probe_sequence(self, position: Position) -> ProbeSequence {
        ProbeSequence::from_home(self.reference.home(position), self.buckets.len())
    }

    /// Iterates over the items in storage order.
    pub(crate) fn items(self) -> impl Iterator<Item = BucketItem> + 'a {
        self.buckets.iter().flat_map(|bucket| bucket.items().map(|(_, item)| item))
    }

    /// Iterates over the places of the items whose home bucket is at `home`. Items may be removed during the
    /// iteration.
    pub(crate) fn places_of_home(self, home: usize) -> impl Iterator<Item = EntryPlace<'a>> + 'a {
        let mut next = Some(ProbeSequence::from_home(home, self.buckets.len()));
        let buckets = std::iter::from_fn(move || {
            let mut probes = next?;
            let bucket_index = probes.bucket_index();
            let bucket = self.buckets.get(bucket_index)?;
            next = (bucket.overflow_count() != 0 && probes.advance()).then_some(probes);
            Some((bucket_index, bucket))
        });
        buckets
            .flat_map(|(bucket_index, bucket)| {
                bucket.items().map(move |(index, item)| EntryPlace { bucket, bucket_index, index, item })
            })
            .filter(move |place| self.reference.home(place.item.position) == home)
    }

    /// The first position of the range.
    pub(crate) fn range_start(self, position: Position) -> u32 {
        let shift = POSITION_BITS - self.reference.depth();
        position.get() >> shift << shift
    }

    /// The first position after `position` whose home bucket is another one or in another segment.
    pub(crate) fn position_after_home(self, position: Position) -> u32 {
        let shift = POSITION_BITS - self.reference.depth();
        let next_home = self.reference.home(position) as u64 + 1;
        let place = (next_home << shift).div_ceil(self.buckets.len().max(1) as u64);
        self.range_start(position) + (place as u32).min(1 << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_counts_grow_and_can_be_packed() {
        let heap = Heap::new();
        let mut bucket_count = 1;
        while bucket_count < if cfg!(miri) { 200 } else { 20_000 } {
            let segment = SegmentRef::allocate(&heap, bucket_count, 3);
            assert_eq!(segment.bucket_count(), bucket_count);
            assert_eq!(segment.depth(), 3);
            // SAFETY: allocated above, and not shared.
            unsafe { crate::memory::heap::free(segment.memory(), segment.size()) };
            let next = bucket_count_after(bucket_count);
            assert!(next > bucket_count && capacity(next) > capacity(bucket_count));
            bucket_count = next;
        }
        assert_eq!(bucket_count_for(0), 1);
        assert_eq!(bucket_count_for(6), 1);
        assert_eq!(bucket_count_for(7), 2);
    }

    #[test]
    fn a_probe_sequence_has_every_bucket_once() {
        for bucket_count in 1..200 {
            let mut probes = ProbeSequence::from_home(bucket_count / 3, bucket_count);
            let mut is_tried = vec![false; bucket_count];
            loop {
                assert!(!std::mem::replace(&mut is_tried[probes.bucket_index()], true));
                if !probes.advance() {
                    break;
                }
            }
            assert!(is_tried.into_iter().all(|tried| tried), "{bucket_count}");
        }
    }

    #[test]
    fn home_buckets_ascend_with_positions() {
        for (bucket_count, depth) in [(1, 0), (7, 0), (51, 0), (64, 3), (5, 24), (100, 20), (64, 17)] {
            let heap = Heap::new();
            let reference = SegmentRef::allocate(&heap, bucket_count, depth);
            // SAFETY: freed at the end.
            let segment = unsafe { reference.view() };
            let mut position = 0;
            let mut last_home = None;
            while position < 1 << (POSITION_BITS - depth) {
                let home = reference.home(Position::new(position));
                assert!(last_home.is_none_or(|last| home > last), "each step reaches another bucket");
                let next = segment.position_after_home(Position::new(position));
                assert_eq!(reference.home(Position::new(next - 1)), home);
                last_home = Some(home);
                position = next;
            }
            assert_eq!(position, 1 << (POSITION_BITS - depth));
            // SAFETY: allocated above, and the view is no longer used.
            unsafe { crate::memory::heap::free(reference.memory(), reference.size()) };
        }
    }
}

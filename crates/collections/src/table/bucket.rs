//! A bucket: the words of seven entries and their metadata, in one cache line.
//!
//! ```text
//! word      bits 63..48  upper 16 bits of the entry's position
//!           bits 47..3   address of the entry's block (aligned to 8)
//!           bit 0        the entry has an expiry ("volatile")
//!           bit 1        its value has members with an expiry
//!           bit 2        the running snapshot no longer needs it (`snapshot.rs`)
//!           all zero     vacant
//! metadata  bits 55..0   for each word the low 8 bits of the position; stale for a vacant word
//!           bits 63..56  overflow count
//! ```
//! The overflow count is the number of entries whose probe sequence has this bucket before their own, because
//! it was full when they were stored, as in F14: a search ends at the first bucket where it is zero. It
//! saturates at 255 and then stays until the segment is rebuilt.
//!
//! All fields are atomics with relaxed accesses, because prefetches read buckets without the latch.

use std::ptr::NonNull;

use sync::atomic::{AtomicU64, Ordering};

use crate::entry::volatility::Volatility;
use crate::memory::ADDRESS_BITS;

/// Average bytes of the table for each key: a bucket holds seven keys and is three quarters full.
pub const TABLE_BYTES_A_KEY: usize = 12;

/// Entries of a bucket.
pub(crate) const WIDTH: usize = 7;

/// Bits of a position.
pub(crate) const POSITION_BITS: u32 = 24;

/// The place of a key in the order of a table: the 24 bits of its hash below those that may select the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u32);

impl Position {
    pub(crate) const END: u32 = 1 << POSITION_BITS;

    #[inline]
    pub(crate) const fn of_hash(hash: u64) -> Self {
        Self((hash >> 26) as u32 & (Self::END - 1))
    }

    #[inline]
    pub(crate) const fn new(position: u32) -> Self {
        debug_assert!(position < Self::END);
        Self(position)
    }

    #[inline]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// A hash with the bits of this position, all others zero.
    #[inline]
    pub(crate) const fn to_hash(self) -> u64 {
        (self.0 as u64) << 26
    }
}

/// A bucket's record of an entry: position, address and volatility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketItem {
    pub(crate) position: Position,
    /// The word without the position: address and [`Volatility`].
    tagged_address: u64,
}

const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 8;
/// The bit of an entry that the running snapshot no longer needs.
const PRESERVED: u64 = 4;
/// An address with its [`Volatility`] and [`PRESERVED`].
const TAGGED_MASK: u64 = ADDRESS_MASK | Volatility::MASK | PRESERVED;
const OVERFLOW_SHIFT: u32 = 56;
const OVERFLOW_MAX: u64 = 255;
const OVERFLOW_ONE: u64 = 1 << OVERFLOW_SHIFT;
const _: () = assert!(usize::BITS == 64);
const LOW_BYTES: u64 = 0x0001_0101_0101_0101;
const LOW_BYTES_TOP_BITS: u64 = 0x0080_8080_8080_8080;
const LOW_BYTES_OTHER_BITS: u64 = 0x007F_7F7F_7F7F_7F7F;

impl BucketItem {
    /// An item for an entry whose block is at `block`.
    #[inline]
    pub(crate) fn new(position: Position, block: NonNull<u8>, volatility: Volatility) -> Self {
        let address = block.as_ptr().expose_provenance() as u64;
        debug_assert_eq!(address & !ADDRESS_MASK, 0, "heaps check their addresses, blocks are aligned to 8");
        Self { position, tagged_address: address | volatility.bits() }
    }

    #[inline]
    pub(crate) fn is_volatile(self) -> bool {
        self.volatility().is_volatile()
    }

    #[inline]
    pub(crate) fn has_volatile_members(self) -> bool {
        self.volatility().has_volatile_members()
    }

    #[inline]
    pub(crate) fn volatility(self) -> Volatility {
        Volatility::from_bits(self.tagged_address)
    }

    /// The same entry with another volatility.
    #[inline]
    pub(crate) fn with_volatility(self, volatility: Volatility) -> Self {
        Self { tagged_address: self.tagged_address & !Volatility::MASK | volatility.bits(), ..self }
    }

    /// Whether the running snapshot no longer needs the entry.
    #[inline]
    pub(crate) fn is_preserved(self) -> bool {
        self.tagged_address & PRESERVED != 0
    }

    /// The same entry, marked as no longer needed by the running snapshot, or not.
    #[inline]
    pub(crate) fn with_preserved(self, preserved: bool) -> Self {
        let bit = if preserved { PRESERVED } else { 0 };
        Self { tagged_address: self.tagged_address & !PRESERVED | bit, ..self }
    }

    /// A placeholder without an entry. It has no block.
    pub(crate) const fn lost(position: Position) -> Self {
        Self { position, tagged_address: 0 }
    }

    /// The address of the entry's block.
    #[inline]
    pub(crate) fn address(self) -> usize {
        (self.tagged_address & ADDRESS_MASK) as usize
    }

    /// The block of the entry.
    #[inline]
    pub(crate) fn block(self) -> NonNull<u8> {
        let block = std::ptr::with_exposed_provenance_mut(self.address());
        NonNull::new(block).expect("only occupied words become items")
    }
}

#[repr(C, align(64))]
pub(crate) struct Bucket {
    words: [AtomicU64; WIDTH],
    metadata: AtomicU64,
}

impl Bucket {
    /// The entries at `position`, each with its index.
    #[inline(always)]
    pub(crate) fn matches(&self, position: Position) -> Matches<'_> {
        let metadata = self.metadata.load(Ordering::Relaxed);
        let difference = metadata ^ (LOW_BYTES * u64::from(position.0 & 0xFF));
        // The top bit of each zero byte is set in neither the byte nor its sum; no byte carries into another.
        let sum = (difference & LOW_BYTES_OTHER_BITS) + LOW_BYTES_OTHER_BITS;
        let candidates = !(sum | difference) & LOW_BYTES_TOP_BITS;
        Matches { bucket: self, position, metadata, candidates }
    }

    /// The item at `index`, if it is not vacant.
    #[inline]
    pub(crate) fn item(&self, index: usize) -> Option<BucketItem> {
        self.item_with(index, self.metadata.load(Ordering::Relaxed))
    }

    /// The item at `index`, if any, with `position` assumed: for a guess that is verified by its key.
    #[inline(always)]
    pub(crate) fn item_as_if(&self, index: usize, position: Position) -> Option<BucketItem> {
        let word = self.words.get(index)?.load(Ordering::Relaxed);
        (word != 0).then_some(BucketItem { position, tagged_address: word & TAGGED_MASK })
    }

    /// All items, each with its index.
    #[inline]
    pub(crate) fn items(&self) -> impl Iterator<Item = (usize, BucketItem)> + '_ {
        let metadata = self.metadata.load(Ordering::Relaxed);
        (0..WIDTH).filter_map(move |index| Some((index, self.item_with(index, metadata)?)))
    }

    /// Stores an item at a vacant index, which it returns; `None` if the bucket is full.
    #[inline]
    pub(crate) fn insert(&self, item: BucketItem) -> Option<usize> {
        let index = self.words.iter().position(|word| word.load(Ordering::Relaxed) == 0)?;
        let shift = 8 * index as u32;
        let metadata = self.metadata.load(Ordering::Relaxed) & !(0xFF << shift);
        let low = u64::from(item.position.0 & 0xFF);
        self.metadata.store(metadata | low << shift, Ordering::Relaxed);
        self.store(index, item);
        Some(index)
    }

    /// Stores an item at a vacant index that was never used before.
    #[inline]
    pub(crate) fn fill(&self, index: usize, item: BucketItem) {
        let low = u64::from(item.position.0 & 0xFF);
        let metadata = self.metadata.load(Ordering::Relaxed);
        debug_assert_eq!(metadata >> (8 * index) & 0xFF, 0);
        self.metadata.store(metadata | low << (8 * index), Ordering::Relaxed);
        self.store(index, item);
    }

    /// Replaces an item by another with the same position.
    #[inline]
    pub(crate) fn store(&self, index: usize, item: BucketItem) {
        let high = u64::from(item.position.0 >> 8);
        self.words[index].store(item.tagged_address | high << ADDRESS_BITS, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self, index: usize) {
        self.words[index].store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn overflow_count(&self) -> u64 {
        self.metadata.load(Ordering::Relaxed) >> OVERFLOW_SHIFT
    }

    /// Counts an entry that passed this bucket.
    #[inline]
    pub(crate) fn add_overflow(&self) {
        let metadata = self.metadata.load(Ordering::Relaxed);
        if metadata >> OVERFLOW_SHIFT < OVERFLOW_MAX {
            self.metadata.store(metadata + OVERFLOW_ONE, Ordering::Relaxed);
        }
    }

    /// Uncounts an entry that passed this bucket, unless the count is saturated.
    #[inline]
    pub(crate) fn remove_overflow(&self) {
        let metadata = self.metadata.load(Ordering::Relaxed);
        debug_assert_ne!(metadata >> OVERFLOW_SHIFT, 0);
        if metadata >> OVERFLOW_SHIFT < OVERFLOW_MAX {
            self.metadata.store(metadata - OVERFLOW_ONE, Ordering::Relaxed);
        }
    }

    #[inline]
    fn item_with(&self, index: usize, metadata: u64) -> Option<BucketItem> {
        let word = self.words[index].load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        let high = (word >> ADDRESS_BITS) as u32;
        let low = (metadata >> (8 * index)) as u32 & 0xFF;
        Some(BucketItem { position: Position(high << 8 | low), tagged_address: word & TAGGED_MASK })
    }
}

/// The entries of a bucket at one position: almost always none or one.
pub(crate) struct Matches<'a> {
    bucket: &'a Bucket,
    position: Position,
    metadata: u64,
    /// The top bits of the matching low bytes whose words were not read yet.
    candidates: u64,
}

impl Matches<'_> {
    /// Whether an entry that is not in this bucket may be in the next one.
    #[inline(always)]
    pub(crate) fn may_go_on(&self) -> bool {
        self.metadata >> OVERFLOW_SHIFT != 0
    }
}

impl Iterator for Matches<'_> {
    type Item = (usize, BucketItem);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, BucketItem)> {
        while self.candidates != 0 {
            let index = self.candidates.trailing_zeros() as usize / 8;
            self.candidates &= self.candidates - 1;
            let word = self.bucket.words[index].load(Ordering::Relaxed);
            if word != 0 && word >> ADDRESS_BITS == u64::from(self.position.0 >> 8) {
                return Some((
                    index,
                    BucketItem { position: self.position, tagged_address: word & TAGGED_MASK },
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vacant() -> Bucket {
        Bucket { words: Default::default(), metadata: AtomicU64::new(0) }
    }

    fn item(position: u32, address: usize) -> BucketItem {
        BucketItem { position: Position::new(position), tagged_address: address as u64 & TAGGED_MASK }
    }

    #[test]
    fn finds_exactly_the_items_at_a_position() {
        let bucket = vacant();
        // Equal low bytes, neighbours (the classic false positive of the zero-byte trick), and extremes.
        let positions = [0x00_0000, 0x00_0100, 0x00_0101, 0xFF_FFFF, 0xFF_FF00, 0x12_3456, 0x12_3457];
        for (index, &position) in positions.iter().enumerate() {
            assert_eq!(bucket.insert(item(position, 0x1000 + 16 * index)), Some(index));
        }
        assert_eq!(bucket.insert(item(1, 0x2000)), None);
        for probe in (0..=0xFF_FFFFu32).step_by(if cfg!(miri) { 0x3_5555 } else { 0x55 }).chain(positions) {
            let mut matches = bucket.matches(Position::new(probe));
            let seen: Vec<_> = matches.by_ref().map(|(index, _)| index).collect();
            let expected: Vec<_> = (0..WIDTH).filter(|&index| positions[index] == probe).collect();
            assert_eq!(seen, expected, "{probe:x}");
            assert!(!matches.may_go_on());
        }
    }

    #[test]
    fn overflow_saturates_and_stays() {
        let bucket = vacant();
        for _ in 0..300 {
            bucket.add_overflow();
        }
        for _ in 0..300 {
            bucket.remove_overflow();
        }
        assert_eq!(bucket.overflow_count(), OVERFLOW_MAX);
    }

    #[test]
    fn a_volatile_item_keeps_its_address() {
        let bucket = vacant();
        bucket.insert(item(0xAB_CDEF, 0x7FFF_FFFF_FFF8 | 1));
        let stored = bucket.item(0).expect("inserted above");
        assert!(stored.is_volatile() && !stored.has_volatile_members());
        bucket.store(0, stored.with_volatility(Volatility::new(false, true)));
        let stored = bucket.item(0).expect("inserted above");
        assert!(!stored.is_volatile() && stored.has_volatile_members());
        assert_eq!(stored.tagged_address & ADDRESS_MASK, 0x7FFF_FFFF_FFF8);
        assert_eq!(stored.position.get(), 0xAB_CDEF);
    }
}

//! A hint: the address of a table's buckets, for prefetches without the latch.
//!
//! Owns one word, kept beside the latch, with a copy of the table's root. The holder of the write latch
//! publishes it after changing the table; any thread may use it for prefetches at any time, before it
//! acquires the latch.
//!
//! A prefetch reads directories and buckets (atomics) that the table may be changing or may have just
//! replaced, so it may fetch the wrong lines, which only costs time. The memory that it reads must still be
//! allocated: a replaced segment goes to its heap's retired list once the hint no longer leads to it, and is
//! dropped when every prefetch that may have begun earlier has ended (an epoch). The types of this crate
//! don't express that: the creator of a hint guarantees it ([`Hint::new`]).

use sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::simulation::{self, Gap};

use crate::memory::prefetch;
use crate::memory::size_class::LINE_SIZE;
use crate::table::Table;
use crate::table::bucket::{Bucket, Position};
use crate::table::directory::Directory;
use crate::table::guess::Guess;
use crate::table::segment::{ProbeSequence, SegmentRef};

/// Bytes of an entry that are prefetched: an entry with a key of 16 bytes and a value of 64, or similar
/// sizes. They may lie in three lines.
const PREFETCHED_SIZE: usize = 88;

/// The last published address of a table's buckets.
#[derive(Debug)]
pub struct Hint(AtomicU64);

/// The last recorded address of a table, used to prefetch its line. A wrong address only costs time.
#[derive(Debug, Default)]
pub struct TableAddress(AtomicUsize);

impl TableAddress {
    /// Records the current address of the table.
    #[inline(always)]
    pub fn note(&self, table: &Table) {
        let address = (&raw const *table).addr();
        if self.0.load(Ordering::Relaxed) != address {
            self.0.store(address, Ordering::Relaxed);
        }
    }

    /// Prefetches the line in which the table begins.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line(self.0.load(Ordering::Relaxed));
    }
}

impl Hint {
    /// An empty hint: prefetches do nothing.
    ///
    /// # Safety
    /// As long as the hint is accessible:
    /// 1. It is published for one table at a time, made by [`Table::with_hint`]. Before that table is
    ///    dropped, it is published for the contents that replace it. After the table was taken, exchanged or
    ///    cleared, it is published before the old contents, or the other table of the exchange, are dropped
    ///    or changed.
    /// 2. The memory from [`Heap::take_retired`](crate::Heap::take_retired), for any heap of the table's
    ///    memory, is dropped only when every prefetch has ended that began before the call. No such heap is
    ///    dropped before the last prefetch has ended.
    /// 3. A prefetch lasts, on one thread, from the prefetch of a bucket by this hint to the last use of the
    ///    resulting [`HomeBucket`] or [`ProbePrefetch`]. The implementation of (2) covers that whole time.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Records the current address of the table's buckets, then retires the memory that the table has
    /// replaced. Returns the bytes retired. To be called under the write latch, after any change and before
    /// the latch is released; also after the table was taken or cleared.
    #[inline]
    pub fn publish(&self, table: &mut Table) -> usize {
        let bits = table.hint_bits();
        if self.0.load(Ordering::Relaxed) != bits {
            // Release pairs with the acquire in `root`: segments are initialised before they become visible.
            self.0.store(bits, Ordering::Release);
        }
        if table.replaced.is_empty() { 0 } else { table.retire_replaced() }
    }

    /// Prefetches the line of the hint itself.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line((&raw const self.0).addr());
    }

    /// Prefetches the line of the directory that [`Self::prefetch_home`] will read, if the table has a
    /// directory.
    #[inline]
    pub fn prefetch_directory(&self, hash: u64) {
        let root = self.root();
        if root.is_directory() {
            prefetch::line(Directory::word_address(root, Position::of_hash(hash)));
        }
    }

    /// Prefetches the home bucket of a key with this hash.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_home(&self, hash: u64) -> HomeBucket {
        let position = Position::of_hash(hash);
        HomeBucket::load(self.segment(position), position)
    }

    /// For a displaced key: prefetches the next bucket that may hold it. Returns the prefetch of the remaining
    /// probe sequence.
    #[must_use]
    pub fn probes_beyond_home(&self, hash: u64) -> Option<ProbePrefetch> {
        let position = Position::of_hash(hash);
        let segment = self.segment(position);
        let sequence = ProbeSequence::from_home(segment.home(position), segment.bucket_count());
        let mut probes = ProbePrefetch { segment, sequence, position };
        probes.advance().then_some(probes)
    }

    /// Prefetches the entry of this hash in any bucket, waiting for each bucket of the probe sequence. To
    /// prefetch many entries, use the separate steps. The result is `Displaced` only if the table changed
    /// meanwhile.
    #[must_use]
    pub fn prefetch_entry(&self, hash: u64) -> ProbeResult {
        let mut result = self.prefetch_home(hash).prefetch_entry(hash);
        let mut probes = self.probes_beyond_home(hash);
        while let (ProbeResult::Displaced, Some(probes)) = (result, &mut probes) {
            result = probes.follow();
        }
        result
    }

    #[inline(always)]
    fn root(&self) -> SegmentRef {
        SegmentRef::from_bits(self.0.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn segment(&self, position: Position) -> SegmentRef {
        let root = self.root();
        if root.is_directory() {
            simulation::assert_not_freed(root.address());
            // SAFETY: (1) `Hint::new` (1, 2): a directory is freed only after every prefetch that read it has
            // ended.
            unsafe { Directory::view(root) }.segment(position)
        } else {
            root
        }
    }
}

/// The prefetched home bucket of a key. Reading it is part of the prefetch ([`Hint::new`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct HomeBucket {
    /// 0 if the table has no buckets.
    address: usize,
    /// Index in its segment.
    index: u32,
}

/// What a prefetch found in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// An entry, most probably of the key, whose lines were requested.
    Found(Guess),
    /// No matching entry, but it may be in another bucket.
    Displaced,
    /// No matching entry in this or any other bucket.
    Missing,
}

impl HomeBucket {
    /// Prefetches the home bucket of this position in this segment, if the segment has buckets.
    #[inline(always)]
    pub(crate) fn load(segment: SegmentRef, position: Position) -> Self {
        if segment.is_none() {
            return Self::default();
        }
        let index = segment.home(position);
        let address = segment.bucket_address(index);
        prefetch::line(address);
        simulation::pass(Gap::MemoryFound);
        Self { address, index: index as u32 }
    }

    /// Reads the bucket, which should be loaded by now, and prefetches the lines of the entry of this hash,
    /// the hash for which the bucket was loaded. One key in eleven is displaced.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_entry(self, hash: u64) -> ProbeResult {
        simulation::assert_not_freed(self.address);
        let bucket = std::ptr::with_exposed_provenance::<Bucket>(self.address);
        // SAFETY: null or the address of a bucket in a segment, all atomics; by `Hint::new` (1, 2) segments
        // are freed only after every prefetch that read their address has ended, and by (3) this is part of
        // one.
        let Some(bucket) = (unsafe { bucket.as_ref() }) else { return ProbeResult::Missing };
        prefetch_entry_in(bucket, self.index, Position::of_hash(hash))
    }
}

/// The rest of the probe sequence of a displaced key, from a prefetched bucket on. Following it is part of
/// the prefetch ([`Hint::new`]).
#[derive(Clone, Copy, Debug)]
pub struct ProbePrefetch {
    segment: SegmentRef,
    sequence: ProbeSequence,
    position: Position,
}

impl ProbePrefetch {
    /// Reads the bucket, which should be loaded by now, and prefetches the lines of the matching entry. If
    /// there is none, prefetches the next bucket that may have it; then the caller calls this again.
    #[must_use]
    pub fn follow(&mut self) -> ProbeResult {
        simulation::assert_not_freed(self.segment.address());
        // SAFETY: (1) `Hint::new` (1, 2): segments are freed only after every prefetch that read their
        // address has ended, and by (3) this is part of one.
        let segment = unsafe { self.segment.view() };
        let index = self.sequence.bucket_index();
        let Some(bucket) = segment.buckets.get(index) else { return ProbeResult::Missing };
        let result = prefetch_entry_in(bucket, index as u32, self.position);
        if result == ProbeResult::Displaced && !self.advance() { ProbeResult::Missing } else { result }
    }

    /// Advances to the next bucket and prefetches it; false at the end.
    fn advance(&mut self) -> bool {
        let is_more = !self.segment.is_none() && self.sequence.advance();
        if is_more {
            prefetch::line(self.segment.bucket_address(self.sequence.bucket_index()));
        }
        is_more
    }
}

/// Prefetches the lines of the entry at this position, if the bucket has one.
#[inline(always)]
fn prefetch_entry_in(bucket: &Bucket, bucket_index: u32, position: Position) -> ProbeResult {
    let mut matches = bucket.matches(position);
    if let Some((index, item)) = matches.next() {
        prefetch::line(item.address());
        prefetch::line(item.address() + LINE_SIZE);
        prefetch::line(item.address() + PREFETCHED_SIZE - 1);
        return ProbeResult::Found(Guess::new(bucket_index, index));
    }
    if matches.may_go_on() { ProbeResult::Displaced } else { ProbeResult::Missing }
}

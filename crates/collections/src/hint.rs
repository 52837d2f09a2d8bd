//! A hint: where a table's buckets are, for prefetching without the latch.
//!
//! Owns one word, kept beside the latch, with a copy of the table's root. Whoever has the write latch publishes it
//! after changing the table; anyone may prefetch by it at any time, before taking the latch.
//!
//! A prefetch reads directories and buckets (atomics) that the table may be changing or may have replaced just now,
//! so what it fetches may be wrong, which costs time only. What it reads must still be memory: a replaced segment
//! goes to its heap's retired list, once the hint leads to it no more, and is dropped when every prefetch that may have
//! begun earlier is over (an epoch). The types of this crate don't express that: whoever makes a hint promises it
//! ([`Hint::new`]).

use sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::simulation::{self, Gap};

use crate::bucket::{Bucket, Position};
use crate::directory::Directory;
use crate::guess::Guess;
use crate::prefetch;
use crate::segment::{Path, SegmentRef};
use crate::size_class::LINE_SIZE;
use crate::table::Table;

/// Bytes of an entry that are prefetched: those of a key of 16 bytes with a value of 64, or of like sizes. They may lie
/// in three lines.
const PREFETCHED_SIZE: usize = 88;

/// Where a table's buckets are, as far as known.
#[derive(Debug)]
pub struct Hint(AtomicU64);

/// Where a table itself is, as far as known: to ask for its line before it is used. A wrong address costs time only.
#[derive(Debug, Default)]
pub struct TableAddress(AtomicUsize);

impl TableAddress {
    /// Takes note of where the table is now.
    #[inline(always)]
    pub fn note(&self, table: &Table) {
        let address = (&raw const *table).addr();
        if self.0.load(Ordering::Relaxed) != address {
            self.0.store(address, Ordering::Relaxed);
        }
    }

    /// Loads the line in which the table begins.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line(self.0.load(Ordering::Relaxed));
    }
}

impl Hint {
    /// Knows nothing: prefetches do nothing.
    ///
    /// # Safety
    /// As long as anybody has the hint:
    /// 1. It is published for one table at a time, made by [`Table::with_hint`]. Before that table is dropped, or after it was
    ///    taken, exchanged or cleared and before that, or what it was exchanged for, is dropped or changed, it is published
    ///    for what is in its place.
    /// 2. What [`Heap::take_retired`](crate::Heap::take_retired) gives, of any heap that the table's memory comes from, is
    ///    dropped when every prefetch has ended that began before it was taken out; and no such heap is dropped before the
    ///    last prefetch has ended.
    /// 3. A prefetch is what one thread does from asking this hint for a bucket to the last use of the [`HomeBucket`] or
    ///    [`ProbeSequence`] that it got; whoever keeps (2) knows of it.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes note of where the table's buckets are now, and then retires what the table has replaced, of which it returns the
    /// bytes. To be called under the write latch, after any change and before the latch is released; also after the table was
    /// taken or cleared.
    #[inline]
    pub fn publish(&self, table: &mut Table) -> usize {
        let bits = table.hint_bits();
        if self.0.load(Ordering::Relaxed) != bits {
            // Release pairs with the acquire in `root`: segments are initialised before they can be seen.
            self.0.store(bits, Ordering::Release);
        }
        if table.replaced.is_empty() { 0 } else { table.retire_replaced() }
    }

    /// Loads the line that the hint itself lies in.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line((&raw const self.0).addr());
    }

    /// Loads the line of the directory that [`Self::prefetch_home`] will read, if the table has a directory.
    #[inline]
    pub fn prefetch_directory(&self, hash: u64) {
        let root = self.root();
        if root.is_directory() {
            prefetch::line(Directory::word_address(root, Position::of_hash(hash)));
        }
    }

    /// Loads the bucket in which the key of this hash is at home.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_home(&self, hash: u64) -> HomeBucket {
        let position = Position::of_hash(hash);
        HomeBucket::load(self.segment(position), position)
    }

    /// For a key that is not at home: loads the next bucket in which it may be, and leaves a probes from there to its entry.
    #[must_use]
    pub fn probes_beyond_home(&self, hash: u64) -> Option<ProbeSequence> {
        let position = Position::of_hash(hash);
        let segment = self.segment(position);
        let path = Path::from_home(segment.home(position), segment.bucket_count());
        let mut probes = ProbeSequence { segment, path, position };
        probes.advance().then_some(probes)
    }

    /// Loads the entry of this hash wherever it is, waiting for each bucket on the way. Whoever loads many does it in passes.
    /// It is still elsewhere only if the table changed meanwhile.
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
            // SAFETY: (1) `Hint::new` (1, 2): a directory is freed only when no prefetch that saw it is still running.
            unsafe { Directory::view(root) }.segment(position)
        } else {
            root
        }
    }
}

/// A bucket that was asked for, in which a key is at home. Looking at it is part of the prefetch ([`Hint::new`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct HomeBucket {
    /// 0 if the table has no buckets.
    address: usize,
    /// In its segment.
    index: u32,
}

/// What a prefetch came upon in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// An entry, most probably the one, which was asked for.
    Found(Guess),
    /// No such entry, but it may be in another bucket.
    Displaced,
    /// No such entry, nor is it in another bucket.
    Missing,
}

impl HomeBucket {
    /// Loads the bucket in this segment, if there is one, where an entry of this position is at home.
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

    /// Reads the bucket, which should have been loaded meanwhile, and loads the lines of the entry of this hash, which is the
    /// one that the bucket was asked for. One key in eleven is not at home.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_entry(self, hash: u64) -> ProbeResult {
        simulation::assert_not_freed(self.address);
        let bucket = std::ptr::with_exposed_provenance::<Bucket>(self.address);
        // SAFETY: null or the address of a bucket in a segment, all atomics; by `Hint::new` (1, 2) segments are freed only when
        // no prefetch that saw them is still running, and by (3) this is part of one.
        let Some(bucket) = (unsafe { bucket.as_ref() }) else { return ProbeResult::Missing };
        prefetch_entry_in(bucket, self.index, Position::of_hash(hash))
    }
}

/// The way to an entry that is not at home and is to be prefetched: the bucket that has been asked for. Following it is part of
/// the prefetch ([`Hint::new`]).
#[derive(Clone, Copy, Debug)]
pub struct ProbeSequence {
    segment: SegmentRef,
    path: Path,
    position: Position,
}

impl ProbeSequence {
    /// Reads the bucket, which should have been loaded meanwhile, and loads the lines of the matching entry. If there is none,
    /// loads the next bucket that it may be in: then the probes is to be followed again.
    #[must_use]
    pub fn follow(&mut self) -> ProbeResult {
        simulation::assert_not_freed(self.segment.address());
        // SAFETY: (1) `Hint::new` (1, 2): segments are freed only when no prefetch that saw them is still running, and by (3)
        // this is part of one.
        let segment = unsafe { self.segment.view() };
        let index = self.path.bucket_index();
        let Some(bucket) = segment.buckets.get(index) else { return ProbeResult::Missing };
        let result = prefetch_entry_in(bucket, index as u32, self.position);
        if result == ProbeResult::Displaced && !self.advance() { ProbeResult::Missing } else { result }
    }

    /// Goes on to the next bucket, and loads it; false at the end.
    fn advance(&mut self) -> bool {
        let is_more = !self.segment.is_none() && self.path.advance();
        if is_more {
            prefetch::line(self.segment.bucket_address(self.path.bucket_index()));
        }
        is_more
    }
}

/// Loads the lines of the entry at this position, if the bucket has one.
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

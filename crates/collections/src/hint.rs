//! A hint: where a table's buckets are, for prefetching without the latch.
//!
//! Owns one word, kept beside the latch, with a copy of the table's root. Whoever has the write latch publishes it
//! after changing the table; anyone may prefetch by it at any time, before taking the latch.
//!
//! A prefetch reads directories and buckets (atomics) that the table may be changing or may have replaced just now,
//! so what it fetches may be wrong, which costs time only. What it reads must still be memory: a replaced segment
//! goes to its heap's retired list, and **the owner of the heap must not drop it before every prefetch that may have
//! begun earlier is over** (an epoch). That obligation is the only one that the types of this crate do not express.

use std::sync::atomic::{AtomicU64, Ordering};

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
#[derive(Debug, Default)]
pub struct Hint(AtomicU64);

impl Hint {
    /// Knows nothing: prefetches do nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes note of where the table's buckets are now. To be called under the write latch, after any change and
    /// before the latch is released; also after the table was taken or cleared.
    #[inline]
    pub fn publish(&self, table: &Table) {
        let bits = table.hint_bits();
        if self.0.load(Ordering::Relaxed) != bits {
            // Release pairs with the acquire in `root`: segments are initialised before they can be seen.
            self.0.store(bits, Ordering::Release);
        }
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

    /// For a key that is not at home: loads the next bucket in which it may be, and leaves a trail from there to its entry.
    #[must_use]
    pub fn trail_beyond_home(&self, hash: u64) -> Option<Trail> {
        let position = Position::of_hash(hash);
        let segment = self.segment(position);
        let path = Path::from_home(segment.home(position), segment.bucket_count());
        let mut trail = Trail { segment, path, position };
        trail.advance().then_some(trail)
    }

    /// Loads the entry of this hash wherever it is, waiting for each bucket on the way. Whoever loads many does it in passes.
    /// It is still elsewhere only if the table changed meanwhile.
    #[must_use]
    pub fn prefetch_entry(&self, hash: u64) -> Sighting {
        let mut sighting = self.prefetch_home(hash).prefetch_entry(hash);
        let mut trail = self.trail_beyond_home(hash);
        while let (Sighting::Elsewhere, Some(trail)) = (sighting, &mut trail) {
            sighting = trail.follow();
        }
        sighting
    }

    #[inline(always)]
    fn root(&self) -> SegmentRef {
        SegmentRef::from_bits(self.0.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn segment(&self, position: Position) -> SegmentRef {
        let root = self.root();
        if root.is_directory() {
            // SAFETY: directories are freed only when no prefetch that saw them is still running.
            unsafe { Directory::view(root) }.segment(position)
        } else {
            root
        }
    }
}

/// A bucket that was asked for, in which a key is at home. It must not be looked at after the prefetch is over in the sense
/// of the file's header.
#[derive(Clone, Copy, Debug, Default)]
pub struct HomeBucket {
    /// 0 if the table has no buckets.
    address: usize,
    /// In its segment.
    index: u32,
}

/// What a prefetch came upon in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// An entry, most probably the one, which was asked for.
    Seen(Guess),
    /// No such entry, but it may be in another bucket.
    Elsewhere,
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
        Self { address, index: index as u32 }
    }

    /// Reads the bucket, which should have been loaded meanwhile, and loads the lines of the entry of this hash, which is the
    /// one that the bucket was asked for. One key in eleven is not at home.
    #[inline(always)]
    #[must_use]
    pub fn prefetch_entry(self, hash: u64) -> Sighting {
        let bucket = std::ptr::with_exposed_provenance::<Bucket>(self.address);
        // SAFETY: null or the address of a bucket in a segment, all atomics; segments are freed only when no prefetch that saw
        // them is still running (see the file's header).
        let Some(bucket) = (unsafe { bucket.as_ref() }) else { return Sighting::Missing };
        prefetch_entry_in(bucket, self.index, Position::of_hash(hash))
    }
}

/// The way to an entry that is not at home and is to be prefetched: the bucket that has been asked for. It must not be followed
/// after the prefetch is over in the sense of the file's header.
#[derive(Clone, Copy, Debug)]
pub struct Trail {
    segment: SegmentRef,
    path: Path,
    position: Position,
}

impl Trail {
    /// Reads the bucket, which should have been loaded meanwhile, and loads the lines of the matching entry. If there is none,
    /// loads the next bucket that it may be in: then the trail is to be followed again.
    #[must_use]
    pub fn follow(&mut self) -> Sighting {
        // SAFETY: segments are freed only when no prefetch that saw them is still running (see the file's header).
        let segment = unsafe { self.segment.view() };
        let index = self.path.bucket_index();
        let Some(bucket) = segment.buckets.get(index) else { return Sighting::Missing };
        let sighting = prefetch_entry_in(bucket, index as u32, self.position);
        if sighting == Sighting::Elsewhere && !self.advance() { Sighting::Missing } else { sighting }
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
fn prefetch_entry_in(bucket: &Bucket, bucket_index: u32, position: Position) -> Sighting {
    let mut matches = bucket.matches(position);
    if let Some((index, item)) = matches.next() {
        prefetch::line(item.address());
        prefetch::line(item.address() + LINE_SIZE);
        prefetch::line(item.address() + PREFETCHED_SIZE - 1);
        return Sighting::Seen(Guess::new(bucket_index, index));
    }
    if matches.may_go_on() { Sighting::Elsewhere } else { Sighting::Missing }
}

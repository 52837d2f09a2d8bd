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

    /// Loads the line of the directory that [`Self::trail`] will read, if the table has a directory.
    #[inline]
    pub fn prefetch_directory(&self, hash: u64) {
        let root = self.root();
        if root.is_directory() {
            prefetch::line(Directory::word_address(root, Position::of_hash(hash)));
        }
    }

    /// Loads the bucket in which the key of this hash is at home, and leaves a trail from there to its entry.
    #[inline(always)]
    #[must_use]
    pub fn trail(&self, hash: u64) -> Trail {
        let position = Position::of_hash(hash);
        let segment = self.segment(position);
        let path = Path::from_home(segment.home(position), segment.bucket_count());
        let trail = Trail { segment, path, position };
        trail.prefetch_bucket();
        trail
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

/// The way to an entry that is to be prefetched: the bucket that has been asked for. It must not be followed after the
/// prefetch is over in the sense of the file's header.
#[derive(Clone, Copy, Debug)]
pub struct Trail {
    segment: SegmentRef,
    path: Path,
    position: Position,
}

impl Trail {
    /// Reads the bucket, which should have been loaded meanwhile, and loads the lines of the matching entry. One key in
    /// seven is not in its home: then loads the next bucket, and returns whether the trail is to be followed again.
    #[inline(always)]
    #[must_use]
    pub fn follow(&mut self) -> bool {
        // SAFETY: segments are freed only when no prefetch that saw them is still running (see the file's header).
        let segment = unsafe { self.segment.view() };
        let Some(bucket) = segment.buckets.get(self.path.bucket_index()) else { return false };
        let mut matches = bucket.matches(self.position);
        if let Some((_, item)) = matches.next() {
            prefetch::line(item.address());
            prefetch::line(item.address() + LINE_SIZE);
            prefetch::line(item.address() + PREFETCHED_SIZE - 1);
            return false;
        }
        if !matches.may_go_on() || !self.path.advance() {
            return false;
        }
        self.prefetch_bucket();
        true
    }

    #[inline(always)]
    fn prefetch_bucket(&self) {
        if !self.segment.is_none() {
            prefetch::line(self.segment.address() + self.path.bucket_index() * size_of::<Bucket>());
        }
    }
}

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

use crate::bucket::{Bucket, Position, Search};
use crate::directory::Directory;
use crate::prefetch;
use crate::segment::SegmentRef;
use crate::size_class::LINE_SIZE;
use crate::table::Table;

/// Buckets read to find an entry to prefetch.
const PREFETCHED_BUCKET_COUNT_MAX: usize = 4;

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

    /// Loads the line of the directory that [`Self::prefetch_bucket`] will read, if the table has a directory.
    #[inline]
    pub fn prefetch_directory(&self, hash: u64) {
        let root = self.root();
        if root.is_directory() {
            prefetch::line(Directory::word_address(root, Position::of_hash(hash)));
        }
    }

    /// Loads the bucket in which the key of this hash is at home.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        let position = Position::of_hash(hash);
        let segment = self.segment(position);
        if !segment.is_none() {
            prefetch::line(segment.address() + segment.home(position) * size_of::<Bucket>());
        }
    }

    /// Reads that bucket, which should have been prefetched, and loads the first two lines of the matching entry.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        let position = Position::of_hash(hash);
        // SAFETY: segments are freed only when no prefetch that saw them is still running (see the file's header).
        let segment = unsafe { self.segment(position).view() };
        let mut path = segment.path(position);
        // One key in seven is not in its home. Waiting for the next bucket here overlaps with the rest of the batch;
        // waiting for the entry later would not.
        for _ in 0..PREFETCHED_BUCKET_COUNT_MAX {
            let Some(bucket) = segment.buckets.get(path.bucket_index()) else { return };
            let mut is_found = false;
            let search = bucket.search(position, |_, item| {
                prefetch::line(item.address());
                prefetch::line(item.address() + LINE_SIZE);
                is_found = true;
                false
            });
            if is_found || search != Search::Next || !path.advance() {
                return;
            }
        }
    }

    #[inline]
    fn root(&self) -> SegmentRef {
        SegmentRef::from_bits(self.0.load(Ordering::Acquire))
    }

    #[inline]
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

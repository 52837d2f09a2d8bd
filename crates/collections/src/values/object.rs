//! Values other than strings, as an entry holds them.
//!
//! Collection types add their variant to [`Object`] and to [`Kind`]; the table only moves, clones and drops
//! objects and never reads their contents.

mod tracked;

use std::sync::Arc;

use crate::entry::kind::Kind;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::values::estimate::SAMPLE_LEN;
use crate::values::hash::Hash;
use crate::values::list::List;
use crate::values::members::position::PrefetchStep;
use crate::values::set::Set;
use crate::values::sorted_set::SortedSet;
use crate::values::stream::Stream;
use crate::values::tracking::{Tracker, Tracking, Walkable};

/// A value that is not a string. It is stored in its entry, so it is small: large parts of a type are boxed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Object {
    /// Distinct members.
    Set(Set),
    /// Fields and their values.
    Hash(Hash),
    /// Elements in order.
    List(List),
    /// Members and their scores.
    SortedSet(SortedSet),
    /// Entries by ascending id.
    Stream(Box<Stream>),
    /// A collection of this crate's tests.
    #[cfg(test)]
    TestValue(Vec<u8>),
}

#[cfg(not(test))]
const _: () = assert!(size_of::<Object>() == 24);

impl Object {
    /// The type of this value, as clients see it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Set(_) => Kind::Set,
            Self::Hash(_) => Kind::Hash,
            Self::List(_) => Kind::List,
            Self::SortedSet(_) => Kind::SortedSet,
            Self::Stream(_) => Kind::Stream,
            #[cfg(test)]
            Self::TestValue(_) => Kind::Hash,
        }
    }

    /// The name of the encoding, as `OBJECT ENCODING` reports it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        match self {
            Self::Set(set) => set.encoding_name(),
            Self::Hash(hash) => hash.encoding_name(),
            Self::List(list) => list.encoding_name(),
            Self::SortedSet(set) => set.encoding_name(),
            Self::Stream(_) => "stream",
            #[cfg(test)]
            Self::TestValue(_) => "test",
        }
    }

    /// Prefetches the object itself.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line(std::ptr::from_ref(self).addr());
    }

    /// Reads the object, which should be loaded by now, and prefetches the beginning of the memory behind it.
    #[inline(always)]
    pub fn prefetch_parts(&self) {
        match self {
            Self::Set(set) => set.prefetch_parts(),
            Self::Hash(hash) => hash.prefetch_parts(),
            Self::List(list) => list.prefetch_parts(),
            Self::SortedSet(set) => set.prefetch_parts(),
            Self::Stream(stream) => prefetch::line(std::ptr::from_ref(&**stream).addr()),
            #[cfg(test)]
            Self::TestValue(_) => {}
        }
    }

    /// Reads that beginning, if it locates the next memory of an operation, and prefetches it.
    #[inline(always)]
    pub fn prefetch_index(&self) {
        match self {
            Self::Hash(hash) => hash.prefetch_index(),
            Self::List(list) => list.prefetch_index(),
            Self::SortedSet(set) => set.prefetch_index(),
            Self::Set(set) => set.prefetch_index(),
            Self::Stream(_) => {}
            #[cfg(test)]
            Self::TestValue(_) => {}
        }
    }

    /// Whether it may have many members, found by their hashes, that can be prefetched.
    #[inline(always)]
    pub fn has_leaves(&self) -> bool {
        match self {
            Self::Set(_) => true,
            Self::Hash(hash) => !hash.is_packed(),
            _ => false,
        }
    }

    /// Prefetches the memory that a search for a member with this hash reads next, after [`Self::prefetch_index`] and
    /// the preceding steps.
    #[inline(always)]
    pub fn prefetch_member(&self, hash: u64, step: PrefetchStep) {
        match self {
            Self::Set(set) => set.prefetch_member(hash, step),
            Self::Hash(fields) => fields.prefetch_field(hash, step),
            _ => {}
        }
    }

    /// Moves the memory of a small collection out of a sparse span of `heap`: that of a form with one block. Such
    /// memory from the global allocator moves into the heap. Returns whether it has moved.
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match self {
            Self::Set(set) => set.relocate(heap),
            Self::SortedSet(set) => set.relocate(heap),
            Self::Hash(hash) => hash.relocate(heap),
            Self::List(list) => list.relocate(heap),
            Self::Stream(_) => false,
            #[cfg(test)]
            Self::TestValue(_) => false,
        }
    }

    /// A deep copy with its larger parts in `heap`.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        match self {
            Self::Set(set) => Self::Set(set.to_copy(heap)),
            Self::Hash(hash) => Self::Hash(hash.to_copy(heap)),
            Self::List(list) => Self::List(list.to_copy(heap)),
            Self::SortedSet(set) => Self::SortedSet(set.to_copy(heap)),
            Self::Stream(stream) => Self::Stream(stream.clone()),
            #[cfg(test)]
            Self::TestValue(bytes) => Self::TestValue(bytes.clone()),
        }
    }

    /// Whether a snapshot writes it in portions ([`Tracking`]). What clients see as `listpack` or `intset` is written in one
    /// piece.
    #[must_use]
    pub fn is_large(&self) -> bool {
        match self {
            Self::Set(set) => set.is_large(),
            Self::Hash(hash) => hash.is_large(),
            Self::SortedSet(set) => set.is_large(),
            Self::List(list) => list.is_large(),
            Self::Stream(stream) => stream.is_large(),
            #[cfg(test)]
            Self::TestValue(_) => false,
        }
    }

    /// The parts that a snapshot can walk in portions, and the place that leads to their tracking.
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        match self {
            Self::Set(set) => set.tracked(),
            Self::Hash(hash) => hash.tracked(),
            Self::SortedSet(set) => set.tracked(),
            Self::List(list) => list.tracked(),
            Self::Stream(stream) => Some(stream.tracked()),
            #[cfg(test)]
            Self::TestValue(_) => None,
        }
    }

    /// The tracking of a snapshot that is being taken, if it tracks this collection.
    #[must_use]
    pub fn tracking(&self) -> Option<Arc<Tracking>> {
        self.tracked()?.0.tracking()
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Hash(hash) => hash.len(),
            Self::SortedSet(set) => set.len(),
            Self::List(list) => list.len(),
            Self::Stream(stream) => stream.len() as usize,
            #[cfg(test)]
            Self::TestValue(_) => 0,
        }
    }

    /// Bytes of memory beside the object itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.estimated_bytes(usize::MAX)
    }

    /// As [`Self::memory_bytes`], but estimated where the exact size needs a full walk.
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn estimated_bytes(&self, sample_len: usize) -> usize {
        match self {
            Self::Set(set) => set.estimated_bytes(sample_len),
            Self::Hash(hash) => hash.estimated_bytes(sample_len),
            Self::List(list) => list.estimated_bytes(sample_len),
            Self::SortedSet(set) => set.estimated_bytes(sample_len),
            Self::Stream(stream) => size_of::<Stream>() + stream.estimated_bytes(sample_len),
            #[cfg(test)]
            Self::TestValue(bytes) => bytes.capacity(),
        }
    }

    /// Whether it has members with an expiry of their own.
    #[inline]
    #[must_use]
    pub fn has_volatile_members(&self) -> bool {
        matches!(self, Self::Hash(hash) if hash.has_volatile_members())
    }

    /// Whether dropping it may take long, because it has many allocations, and should be left to another
    /// thread.
    #[must_use]
    pub fn is_costly_to_drop(&self) -> bool {
        match self {
            Self::Set(set) => set.is_costly_to_drop(),
            Self::Hash(hash) => hash.is_costly_to_drop(),
            Self::List(list) => list.is_costly_to_drop(),
            Self::SortedSet(set) => set.is_costly_to_drop(),
            Self::Stream(stream) => stream.is_costly_to_drop(),
            #[cfg(test)]
            Self::TestValue(_) => true,
        }
    }
}

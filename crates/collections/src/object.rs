//! Values that are more than a string: what an entry holds of them.
//!
//! Collection types add their variant to [`Object`] and its [`Kind`]; the table only moves, clones and drops
//! objects and never looks inside.

use crate::collection::Collection;
use crate::estimate::SAMPLE_LEN;
use crate::hash::Hash;
use crate::heap::Heap;
use crate::list::List;
use crate::members::PrefetchStep;
use crate::prefetch;
use crate::set::Set;
use crate::sorted_set::SortedSet;
use crate::stream::Stream;

/// The type of a value, as the `TYPE` command names it. At most 16: it has four bits in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A string, including integers.
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A hash.
    Hash = 4,
    /// A stream.
    Stream = 5,
}

impl Kind {
    /// Every type.
    pub const ALL: [Self; 6] =
        [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::String,
            1 => Self::List,
            2 => Self::Set,
            3 => Self::SortedSet,
            4 => Self::Hash,
            _ => Self::Stream,
        }
    }
}

/// A value that is not a string. It lies in its entry, so it is kept small: what is large in a type is in a box of its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum Object {
    /// Members, each once.
    Set(Set),
    /// Fields and their values.
    Hash(Hash),
    /// Elements in order.
    List(List),
    /// Members and their scores.
    SortedSet(SortedSet),
    /// Entries under ascending ids.
    Stream(Box<Stream>),
    /// Stands in for a collection in this crate's own tests.
    #[cfg(test)]
    Probe(Vec<u8>),
}

#[cfg(not(test))]
const _: () = assert!(size_of::<Object>() == 24);

impl Object {
    /// The type that this value has for the client.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Set(_) => Kind::Set,
            Self::Hash(_) => Kind::Hash,
            Self::List(_) => Kind::List,
            Self::SortedSet(_) => Kind::SortedSet,
            Self::Stream(_) => Kind::Stream,
            #[cfg(test)]
            Self::Probe(_) => Kind::Hash,
        }
    }

    /// The name of the encoding, as `OBJECT ENCODING` answers it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        match self {
            Self::Set(set) => set.encoding_name(),
            Self::Hash(hash) => hash.encoding_name(),
            Self::List(list) => list.encoding_name(),
            Self::SortedSet(set) => set.encoding_name(),
            Self::Stream(_) => "stream",
            #[cfg(test)]
            Self::Probe(_) => "probe",
        }
    }

    /// Asks for its own memory.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::line(std::ptr::from_ref(self).addr());
    }

    /// Reads it, which should have been loaded meanwhile, and asks for the beginning of what is behind it.
    #[inline(always)]
    pub fn prefetch_parts(&self) {
        match self {
            Self::Set(set) => set.prefetch_parts(),
            Self::Hash(hash) => hash.prefetch_parts(),
            Self::List(list) => list.prefetch_parts(),
            Self::SortedSet(set) => set.prefetch_parts(),
            Self::Stream(stream) => prefetch::line(std::ptr::from_ref(&**stream).addr()),
            #[cfg(test)]
            Self::Probe(_) => {}
        }
    }

    /// Reads that beginning, where it tells what an operation reads next, and asks for it.
    #[inline(always)]
    pub fn prefetch_index(&self) {
        match self {
            Self::Hash(hash) => hash.prefetch_index(),
            Self::List(list) => list.prefetch_index(),
            Self::SortedSet(set) => set.prefetch_index(),
            Self::Set(set) => set.prefetch_index(),
            Self::Stream(_) => {}
            #[cfg(test)]
            Self::Probe(_) => {}
        }
    }

    /// Whether its members may be many, each found by its hash: then they can be asked for.
    #[inline(always)]
    pub fn has_leaves(&self) -> bool {
        match self {
            Self::Set(_) => true,
            Self::Hash(hash) => !hash.is_packed(),
            _ => false,
        }
    }

    /// Asks for what a search for a member with this hash reads next, after [`Self::prefetch_index`] and the steps before.
    #[inline(always)]
    pub fn prefetch_member(&self, hash: u64, step: PrefetchStep) {
        match self {
            Self::Set(set) => set.prefetch_member(hash, step),
            Self::Hash(fields) => fields.prefetch_field(hash, step),
            _ => {}
        }
    }

    /// A deep copy, whose larger parts are in `heap`.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        match self {
            Self::Set(set) => Self::Set(set.to_copy(heap)),
            Self::Hash(hash) => Self::Hash(hash.to_copy(heap)),
            Self::List(list) => Self::List(list.to_copy()),
            Self::SortedSet(set) => Self::SortedSet(set.to_copy(heap)),
            Self::Stream(stream) => Self::Stream(stream.clone()),
            #[cfg(test)]
            Self::Probe(bytes) => Self::Probe(bytes.clone()),
        }
    }

    /// Bytes of memory beside the object itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.estimated_bytes(usize::MAX)
    }

    /// The same, estimated where it would take a walk through all of it.
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
            Self::Probe(bytes) => bytes.capacity(),
        }
    }

    /// Whether it has members with an expiry of their own.
    #[inline]
    #[must_use]
    pub fn has_volatile_members(&self) -> bool {
        matches!(self, Self::Hash(hash) if hash.has_volatile_members())
    }

    /// Whether dropping it may take long, so that another thread had better do it: it is many allocations.
    #[must_use]
    pub fn is_costly_to_drop(&self) -> bool {
        match self {
            Self::Set(set) => set.is_costly_to_drop(),
            Self::Hash(hash) => hash.is_costly_to_drop(),
            Self::List(list) => list.is_costly_to_drop(),
            Self::SortedSet(set) => set.is_costly_to_drop(),
            Self::Stream(stream) => stream.is_costly_to_drop(),
            #[cfg(test)]
            Self::Probe(_) => true,
        }
    }
}

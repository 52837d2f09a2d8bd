//! Parameters of the operations on collections.

use crate::hasher::KeyHasher;
use crate::memory::heap::Heap;

/// The thresholds above which `OBJECT ENCODING` names a collection's large encoding: the directives
/// `*-max-listpack-entries` and `*-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct CollectionLimits {
    /// Elements (fields of a hash, members of a set).
    pub entry_count_max: usize,
    /// Bytes of one element.
    pub value_size_max: usize,
}

/// The heap of a collection's larger parts and the hasher of its members. A parameter of the operations that
/// may need either; they hash only on demand.
#[derive(Clone, Copy)]
pub struct AllocContext<'a> {
    /// The heap of the key's slot.
    pub heap: &'a Heap,
    /// The server's hasher.
    pub hasher: &'a KeyHasher,
}

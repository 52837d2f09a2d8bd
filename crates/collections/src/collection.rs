//! What every collection type is to those who hold it without knowing more, and what its operations are handed.

use crate::hasher::KeyHasher;
use crate::heap::Heap;
use crate::object::{Kind, Object};

/// A type of value that is more than a string. It has its variant in [`Object`].
pub trait Collection: Sized {
    /// The type for the client.
    const KIND: Kind;

    /// An empty one. Allocates nothing.
    #[must_use]
    fn new() -> Self;

    /// The collection in an object, if it is of this type.
    #[must_use]
    fn of(object: &Object) -> Option<&Self>;

    /// The same to be changed.
    #[must_use]
    fn of_mut(object: &mut Object) -> Option<&mut Self>;

    /// The object that holds it.
    #[must_use]
    fn into_object(self) -> Object;

    /// Whether it has no elements. Such a value is removed with its key, but for a stream, which answers no.
    #[must_use]
    fn is_empty(&self) -> bool;

    /// Whether it has members with an expiry of their own.
    #[must_use]
    #[inline]
    fn has_volatile_members(&self) -> bool {
        false
    }
}

/// How far a collection may grow before `OBJECT ENCODING` names its large encoding, as the directives
/// `*-max-listpack-entries` and `*-max-listpack-value` say.
#[derive(Clone, Copy, Debug)]
pub struct CollectionLimits {
    /// Elements (fields of a hash, members of a set).
    pub entry_count_max: usize,
    /// Bytes of one of them.
    pub value_size_max: usize,
}

/// Where a collection's larger parts live, and how its members are hashed. Operations that may need either take it, and
/// hash only when they do.
#[derive(Clone, Copy)]
pub struct AllocContext<'a> {
    /// The heap of the key's slot.
    pub heap: &'a Heap,
    /// The server's hasher.
    pub hasher: &'a KeyHasher,
}

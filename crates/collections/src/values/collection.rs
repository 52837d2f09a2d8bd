//! The interface common to all collection types, and the parameters of their operations.

use crate::hasher::KeyHasher;
use crate::memory::heap::Heap;
use crate::values::object::{Kind, Object};

/// A value type other than a string. It has a variant in [`Object`].
pub trait Collection: Sized {
    /// The type that clients see.
    const KIND: Kind;

    /// An empty collection. Allocates nothing.
    #[must_use]
    fn new() -> Self;

    /// The collection in an object, if it is of this type.
    #[must_use]
    fn of(object: &Object) -> Option<&Self>;

    /// The collection in an object, mutably, if it is of this type.
    #[must_use]
    fn of_mut(object: &mut Object) -> Option<&mut Self>;

    /// Wraps the collection in an object.
    #[must_use]
    fn into_object(self) -> Object;

    /// Number of elements.
    #[must_use]
    fn len(&self) -> usize;

    /// Whether it has no elements. An empty value is removed with its key; streams may stay empty and return
    /// false.
    #[must_use]
    fn is_empty(&self) -> bool;

    /// Whether it has members with an expiry of their own.
    #[must_use]
    #[inline]
    fn has_volatile_members(&self) -> bool {
        false
    }
}

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

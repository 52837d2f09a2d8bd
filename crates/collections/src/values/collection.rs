//! The interface common to all collection types, and its implementations. Types call each other by their own functions.

use crate::entry::kind::Kind;
use crate::values::hash::Hash;
use crate::values::list::List;
use crate::values::object::Object;
use crate::values::set::Set;
use crate::values::sorted_set::SortedSet;
use crate::values::stream::Stream;

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

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;

    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn of(object: &Object) -> Option<&Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    #[inline]
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    #[inline]
    fn len(&self) -> usize {
        Hash::len(self)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn has_volatile_members(&self) -> bool {
        Hash::has_volatile_members(self)
    }
}

impl Collection for Set {
    const KIND: Kind = Kind::Set;

    fn new() -> Self {
        Self::default()
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Set(self)
    }

    #[inline]
    fn len(&self) -> usize {
        Set::len(self)
    }

    fn is_empty(&self) -> bool {
        Set::is_empty(self)
    }
}

impl Collection for List {
    const KIND: Kind = Kind::List;

    fn new() -> Self {
        Self::default()
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::List(list) => Some(list),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::List(self)
    }

    #[inline]
    fn len(&self) -> usize {
        List::len(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;

    fn new() -> Self {
        Self::default()
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }

    fn into_object(self) -> Object {
        Object::SortedSet(self)
    }

    #[inline]
    fn len(&self) -> usize {
        SortedSet::len(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Collection for Stream {
    const KIND: Kind = Kind::Stream;

    fn new() -> Self {
        Self::default()
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Stream(Box::new(self))
    }

    #[inline]
    fn len(&self) -> usize {
        Stream::len(self) as usize
    }

    fn is_empty(&self) -> bool {
        false
    }
}

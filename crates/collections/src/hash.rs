//! A hash: fields and their values.

use crate::collection::{Collection, Home};
use crate::entry::ValueRef;
use crate::heap::Heap;
use crate::object::{Kind, Object};
use crate::removed::{ExpiryChange, NewValue};
use crate::table::Table;

/// Elements up to which a collection is dropped where it stands.
const COSTLY_LEN_MIN: usize = 64;

/// The value of a hash key.
#[derive(Debug)]
pub struct Hash {
    table: Box<Table>,
}

impl Hash {
    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The value of a field.
    #[must_use]
    pub fn find(&self, home: Home<'_>, field: &[u8]) -> Option<ValueRef<'_>> {
        Some(self.table.find(home.hasher.hash(field), field)?.value())
    }

    /// Sets a field. Whether it is new.
    pub fn set(&mut self, home: Home<'_>, field: &[u8], value: &[u8]) -> bool {
        let hash = home.hasher.hash(field);
        !self.table.upsert(home.heap, hash, field, NewValue::Auto(value), ExpiryChange::Clear).existed
    }

    /// Removes a field. Whether it was there.
    pub fn remove(&mut self, home: Home<'_>, field: &[u8]) -> bool {
        self.table.remove(home.heap, home.hasher.hash(field), field).is_some()
    }

    pub(crate) fn encoding_name(&self) -> &'static str {
        "hashtable"
    }

    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        Self { table: Box::new(self.table.to_copy(heap)) }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.table.memory_bytes()
            + self.table.iter().map(|entry| entry.allocated_bytes()).sum::<usize>()
    }

    pub(crate) fn is_costly_to_drop(&self) -> bool {
        self.len() > COSTLY_LEN_MIN
    }
}

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;

    fn new() -> Self {
        Self { table: Box::new(Table::new()) }
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

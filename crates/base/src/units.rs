//! Newtypes for integers that must not be confused.

use crate::limits::SLOT_COUNT;

/// One of the 16,384 parts of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// Creates the slot with this number. Panics if `index` is not below [`SLOT_COUNT`].
    #[must_use]
    pub const fn new(index: u16) -> Self {
        assert!((index as usize) < SLOT_COUNT);
        Self(index)
    }

    /// The slot's number, below [`SLOT_COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A logical database, by its number in `SELECT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DbIndex(pub u16);

/// A position in the write log: the number of bytes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A Unix time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

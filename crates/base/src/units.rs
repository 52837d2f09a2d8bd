//! Newtypes for the integers that must not be mixed up.

use crate::limits::SLOT_COUNT;

/// One of the 16,384 parts of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot with this number. Panics if `index` is not below [`SLOT_COUNT`].
    #[must_use]
    pub const fn new(index: u16) -> Self {
        assert!((index as usize) < SLOT_COUNT);
        Self(index)
    }

    /// Its number, below [`SLOT_COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A logical database, as `SELECT` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DbIndex(pub u16);

/// A place in the log: the number of bytes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A Unix time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

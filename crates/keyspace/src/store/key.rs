//! A key of a request, with everything that the planner has computed for it.
//!
//! Invariant: a [`Key`] made by [`Key::new`] has the slot of its hash, so equal bytes are always in one slot.

use base::limits::SLOT_BITS;
use base::{DbIndex, Slot};
use collections::{Guess, KeyHasher};

/// A key of a request.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its seeded hash.
    pub hash: u64,
    /// The key's slot.
    pub slot: Slot,
    /// The database it is looked up in.
    pub db: DbIndex,
    /// Where in its table its entry may be.
    pub guess: Guess,
}

impl<'a> Key<'a> {
    /// The key with these bytes, hashed.
    #[must_use]
    #[inline]
    pub fn new(hasher: &KeyHasher, bytes: &'a [u8], db: DbIndex) -> Self {
        Self::with_hash(bytes, hasher.hash(bytes), db)
    }

    /// The key with these bytes, whose hash is known.
    #[must_use]
    #[inline]
    pub const fn with_hash(bytes: &'a [u8], hash: u64, db: DbIndex) -> Self {
        Self { bytes, hash, slot: slot_of_hash(hash), db, guess: Guess::NONE }
    }

    /// The same key in another database.
    #[must_use]
    pub fn in_db(self, db: DbIndex) -> Self {
        Self { db, guess: Guess::NONE, ..self }
    }
}

/// The slot of a hash: its top bits. [`KeyHasher::hash`] gives none of slot 0, whose latch is the script token
/// ([`crate::SCRIPT_TOKEN`]).
#[must_use]
#[inline]
pub const fn slot_of_hash(hash: u64) -> Slot {
    Slot::new((hash >> (64 - SLOT_BITS)) as u16)
}

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

/// The slot of a hash: its top bits, but never slot 0, whose latch is the script token ([`crate::SCRIPT_TOKEN`]).
#[must_use]
#[inline]
pub const fn slot_of_hash(hash: u64) -> Slot {
    let top = (hash >> (64 - SLOT_BITS)) as u16;
    // The compiler sees that this is a slot: with `top + (top == 0) as u16` it checks that for each key.
    Slot::new(if top == 0 { 1 } else { top })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_the_slot_of_the_script_token() {
        for (top, slot) in [(0, 1), (1, 1), (2, 2), ((1 << SLOT_BITS) - 1, (1 << SLOT_BITS) - 1)] {
            assert_eq!(slot_of_hash(top << (64 - SLOT_BITS) | 77).index(), slot as usize);
        }
    }
}

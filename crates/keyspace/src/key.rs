//! A key as a request names it, with everything the planner worked out about it; and the hash that places it.
//!
//! Invariant: a [`Key`] made by [`KeyHasher::key`] has the slot of its hash, so equal bytes are always in one slot.

use std::hash::{BuildHasher, Hasher};

use base::limits::SLOT_BITS;
use base::{DbIndex, Slot};

/// A key of a request.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its seeded hash.
    pub hash: u64,
    /// The slot it lives in.
    pub slot: Slot,
    /// The database it is looked up in.
    pub db: DbIndex,
}

impl Key<'_> {
    /// The same key in another database.
    #[must_use]
    pub fn in_db(self, db: DbIndex) -> Self {
        Self { db, ..self }
    }
}

/// The slot that a hash places a key in: its top bits.
#[must_use]
#[inline]
pub const fn slot_of_hash(hash: u64) -> Slot {
    Slot::new((hash >> (64 - SLOT_BITS)) as u16)
}

/// Hashes keys, seeded against collision attacks.
#[derive(Clone)]
pub struct KeyHasher {
    state: ahash::RandomState,
}

impl KeyHasher {
    /// A hasher whose seed is `seed`; the same seed gives the same hashes in one process only.
    #[must_use]
    pub fn new(seed: [u64; 4]) -> Self {
        Self { state: ahash::RandomState::with_seeds(seed[0], seed[1], seed[2], seed[3]) }
    }

    /// The hash of a key's bytes.
    #[must_use]
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    /// The key with these bytes.
    #[must_use]
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8], db: DbIndex) -> Key<'a> {
        let hash = self.hash(bytes);
        Key { bytes, hash, slot: slot_of_hash(hash), db }
    }
}

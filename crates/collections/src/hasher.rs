//! The hash that places keys, and the members of large collections: seeded against collision attacks.
//!
//! Owns its seed, which is a parameter. One server has one hasher, so a hash may be kept and used elsewhere.

use std::hash::{BuildHasher, Hasher};

/// Hashes keys and members, seeded against collision attacks.
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

    /// The hash of a key's or member's bytes.
    #[must_use]
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }
}

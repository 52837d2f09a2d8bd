//! The hash function for keys and for members of large collections, seeded against collision attacks.
//!
//! Owns its seed, which is a parameter. A server has one hasher, so a hash may be stored and reused
//! elsewhere.

use std::hash::{BuildHasher, Hasher};

/// Hashes keys and members, seeded against collision attacks.
#[derive(Clone)]
pub struct KeyHasher {
    state: ahash::RandomState,
}

impl KeyHasher {
    /// A hasher with this seed. Equal seeds give equal hashes within one process only.
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

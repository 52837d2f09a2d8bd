//! The hash function for keys and for members of large collections, seeded against collision attacks.
//!
//! Owns its seed, which is a parameter. A server has one hasher, so a hash may be stored and reused
//! elsewhere.

use std::hash::{BuildHasher, Hasher};

use base::limits::SLOT_BITS;

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

    /// The hash of a key's or member's bytes. Its top [`SLOT_BITS`] are not all zero: no key is in slot 0.
    #[must_use]
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(bytes);
        with_slot(hasher.finish())
    }
}

/// Changes a hash whose top bits would select slot 0. It keeps its other bits, so such hashes differ as before.
#[inline]
const fn with_slot(hash: u64) -> u64 {
    const SLOT_1: u64 = 1 << (u64::BITS - SLOT_BITS);
    if hash < SLOT_1 { hash | SLOT_1 } else { hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hash_selects_slot_0() {
        let shift = u64::BITS - SLOT_BITS;
        for (top, changed) in [(0, 1), (1, 1), (2, 2), ((1 << SLOT_BITS) - 1, (1 << SLOT_BITS) - 1)] {
            assert_eq!(with_slot(top << shift | 77), changed << shift | 77);
        }
    }
}

//! The text of a script before Lua sees it: its digest, its shebang, and what can be said about its keys.

mod analysis;
mod shebang;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use sha1::{Digest, Sha1};

pub use self::analysis::{Analysis, LibraryAnalysis, analyse, analyse_library};
pub use self::shebang::{ScriptFlags, Shebang, ShebangError};

/// The digest of a text, in hexadecimal digits of lower case.
#[must_use]
pub fn sha1_hex(text: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(text)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

/// Values by the digest of a script.
pub type DigestMap<V> = HashMap<[u8; 40], V, BuildHasherDefault<DigestHasher>>;

/// Takes the first digits of a digest, which is uniform already. Scripts that were made to collide lengthen a search among the
/// few thousand that are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, digits: &[u8]) {
        for eight in digits.as_chunks().0.iter().take(2) {
            // The digits differ in five bits of eight.
            self.0 =
                (self.0.rotate_left(32) ^ u64::from_le_bytes(*eight)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, _len: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_spread() {
        let map: DigestMap<u32> = (0..1_000_u32).map(|n| (sha1_hex(&n.to_le_bytes()), n)).collect();
        assert!((0..1_000).all(|n: u32| map[&sha1_hex(&n.to_le_bytes())] == n));
        // Of 256 places and 1,000 digests a fair hash leaves 5 empty, in its lowest bits and in its highest.
        let hashes = || map.keys().map(|digest| std::hash::BuildHasher::hash_one(map.hasher(), digest));
        for shift in [0, 56] {
            let places: std::collections::HashSet<u64> = hashes().map(|hash| hash >> shift & 255).collect();
            assert!(places.len() > 235, "{} places at {shift}", places.len());
        }
    }

    #[test]
    fn a_digest_is_that_of_the_standard() {
        assert_eq!(&sha1_hex(b"abc"), b"a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}

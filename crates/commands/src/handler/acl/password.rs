//! Passwords: stored as SHA-256 digests, as in Redis, and compared in constant time.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::hint::black_box;

use sha2::{Digest, Sha256};

/// The number of hexadecimal digits of a hash.
const DIGIT_COUNT: usize = 64;

/// The hash of a password.
#[derive(Clone, Copy)]
pub struct PasswordHash([u8; DIGIT_COUNT / 2]);

impl PasswordHash {
    /// Hashes a password.
    #[must_use]
    pub fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// Parses a hash in lower-case hexadecimal digits.
    #[must_use]
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        if digits.len() != DIGIT_COUNT {
            return None;
        }
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; DIGIT_COUNT / 2];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Self(hash))
    }

    /// Returns the hash in hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

impl PartialEq for PasswordHash {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        difference == 0
    }
}

impl Eq for PasswordHash {}

impl Hash for PasswordHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PasswordHash(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of the empty message and of `abc`, from FIPS 180-2.
    #[test]
    fn hashes_are_sha_256() {
        let hex = |password: &[u8]| PasswordHash::of(password).to_hex();
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn only_64_lower_case_digits_are_a_hash() {
        let digits = PasswordHash::of(b"secret").to_hex();
        assert_eq!(PasswordHash::from_hex(digits.as_bytes()), Some(PasswordHash::of(b"secret")));
        assert_ne!(PasswordHash::from_hex(digits.as_bytes()), Some(PasswordHash::of(b"other")));
        for wrong in [digits.to_uppercase(), digits[1..].to_owned(), format!("{digits}0"), "g".repeat(64)] {
            assert!(PasswordHash::from_hex(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn hashes_are_not_shown() {
        let hash = PasswordHash::of(b"secret");
        assert!(!format!("{hash:?}").contains(&hash.to_hex()[..4]));
    }
}

//! The name of a history of the data.

use std::fmt;

/// The number of its characters.
pub const ID_SIZE: usize = 40;

/// 40 hexadecimal digits: the id of a history of the data. Servers with the same id have had the same data at the same
/// offset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReplicationId([u8; ID_SIZE]);

impl ReplicationId {
    /// The id of no history.
    pub const NONE: Self = Self([b'0'; ID_SIZE]);

    /// An id from 20 random bytes.
    #[must_use]
    pub fn from_random(random: [u8; ID_SIZE / 2]) -> Self {
        let mut digits = [0; ID_SIZE];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(random) {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    /// The id that a peer has sent; `None` if it does not have 40 characters of a word.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; ID_SIZE] = text.try_into().ok()?;
        digits.iter().all(u8::is_ascii_alphanumeric).then_some(Self(digits))
    }

    /// Its characters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the characters are ASCII")
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_forty_digits() {
        let mut random = [0; 20];
        (random[0], random[19]) = (0xa0, 0x0f);
        let id = ReplicationId::from_random(random);
        assert_eq!(id.as_str(), format!("a0{}0f", "0".repeat(36)));
        assert_eq!(ReplicationId::parse(id.as_bytes()), Some(id));
        assert_eq!(ReplicationId::parse(b"?"), None);
        assert_eq!(ReplicationId::parse(&[b'\n'; 40]), None);
    }
}

//! The CRC-64 at the end of files and payloads.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

/// 16 tables: 16 bytes a step.
static ALGORITHM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of the bytes so far.
#[derive(Clone)]
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl Checksum {
    /// The checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(ALGORITHM.digest())
    }

    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        ALGORITHM.checksum(bytes)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checksum({:x})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_redis() {
        assert_eq!(Checksum::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut checksum = Checksum::new();
        checksum.update(b"1234");
        checksum.update(b"56789");
        assert_eq!(checksum.value(), 0xe9c6_d914_c4b8_d9ca);
    }
}

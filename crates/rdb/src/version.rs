//! Versions of the format, and the two families that number them.
//!
//! Redis and Valkey share versions 1 to 11. Then type numbers and opcodes have different meanings.

use crate::error::Fault;

/// The servers that write a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Redis, and versions up to 11 of either.
    Redis,
    /// Valkey from 9.0 on.
    Valkey,
}

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The family that defines it.
    pub family: Family,
    /// Its number.
    pub number: u16,
}

/// The first version with a checksum.
const CHECKSUM_VERSION: u16 = 5;
/// The newest version of Redis that is read.
const REDIS_MAX: u16 = 15;
/// The versions of Valkey that are read.
const VALKEY: std::ops::RangeInclusive<u16> = 80..=81;

/// Bytes of magic string and version at the beginning of a file.
pub(crate) const HEADER_SIZE: usize = 9;

impl Version {
    /// Readable by Redis from 5.0 on.
    pub const V9: Self = Self { family: Family::Redis, number: 9 };
    /// Readable by Redis from 7.2 on, and every Valkey.
    pub const V11: Self = Self { family: Family::Redis, number: 11 };
    /// Readable by Redis from 7.4 on. Has field expiries.
    pub const V12: Self = Self { family: Family::Redis, number: 12 };
    /// Readable by Valkey from 9.0 on. Has field expiries.
    pub const V80: Self = Self { family: Family::Valkey, number: 80 };

    /// The version with this number in a payload, which has no magic string.
    ///
    /// # Errors
    ///
    /// It is not known.
    pub fn of_number(number: u16) -> Result<Self, Fault> {
        match number {
            1..=REDIS_MAX => Ok(Self { family: Family::Redis, number }),
            _ if VALKEY.contains(&number) => Ok(Self { family: Family::Valkey, number }),
            _ => Err(Fault::Version(number)),
        }
    }

    /// As [`Self::of_number`], but accepts unknown versions, and assigns them to a family by their range.
    ///
    /// # Errors
    ///
    /// It is 0.
    pub fn of_any_number(number: u16) -> Result<Self, Fault> {
        let family = if number < *VALKEY.start() { Family::Redis } else { Family::Valkey };
        if number == 0 { Err(Fault::Version(0)) } else { Ok(Self { family, number }) }
    }

    /// The version that a file's header names. `takes_any`: an unknown version is accepted, too.
    ///
    /// # Errors
    ///
    /// The header is invalid, or its version is unknown.
    pub fn of_header(header: [u8; HEADER_SIZE], takes_any: bool) -> Result<Self, Fault> {
        let (family, digits) = match header {
            [b'R', b'E', b'D', b'I', b'S', ref digits @ ..] => (Family::Redis, digits.as_slice()),
            [b'V', b'A', b'L', b'K', b'E', b'Y', ref digits @ ..] => (Family::Valkey, digits.as_slice()),
            _ => return Err(Fault::Magic),
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Fault::Magic);
        }
        let number = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        match Self::of_number(number) {
            Ok(version) if version.family == family => Ok(version),
            _ if takes_any && number > 0 => Ok(Self { family, number }),
            _ => Err(Fault::Version(number)),
        }
    }

    /// The header of a file.
    #[must_use]
    pub fn header(self) -> Vec<u8> {
        match self.family {
            Family::Redis => format!("REDIS{:04}", self.number).into_bytes(),
            Family::Valkey => format!("VALKEY{:03}", self.number).into_bytes(),
        }
    }

    /// Whether files of this version are read by default.
    #[must_use]
    pub fn is_known(self) -> bool {
        Self::of_number(self.number) == Ok(self)
    }

    /// Whether a file ends with a checksum, which may be 0 for none.
    #[must_use]
    pub fn has_checksum(self) -> bool {
        self.number >= CHECKSUM_VERSION
    }

    /// Whether fields of hashes can have an expiry.
    #[must_use]
    pub fn has_field_expiries(self) -> bool {
        self.number >= Self::V12.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_the_family() {
        for version in [Version::V9, Version::V11, Version::V12, Version::V80] {
            let header = version.header().try_into().expect("nine bytes");
            assert_eq!(Version::of_header(header, false), Ok(version));
        }
        assert_eq!(Version::of_header(*b"REDIS0080", false), Err(Fault::Version(80)));
        assert_eq!(Version::of_header(*b"VALKEY011", false), Err(Fault::Version(11)));
        assert_eq!(Version::of_header(*b"REDIS00x1", false), Err(Fault::Magic));
        assert_eq!(Version::of_header(*b"RADIS0011", false), Err(Fault::Magic));
        assert_eq!(Version::of_header(*b"REDIS9999", false), Err(Fault::Version(9999)));
        let newer = Version { family: Family::Redis, number: 987 };
        assert_eq!(Version::of_header(*b"REDIS0987", true), Ok(newer));
        assert_eq!(Version::of_header(*b"REDIS0000", true), Err(Fault::Version(0)));
    }
}

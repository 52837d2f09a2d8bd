//! Faults of the input.

use std::fmt;

/// Why bytes are not a valid file or value, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The fault.
    pub fault: Fault,
    /// Its position, in bytes from the beginning of the input.
    pub offset: u64,
    /// The key of the faulty value, if it is known.
    pub key: Option<Box<[u8]>>,
}

/// A fault of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The input ends within an item.
    #[error("unexpected end")]
    Truncated,
    /// Bytes follow the end of a value.
    #[error("bytes after the end of the value")]
    Trailing,
    /// The file does not begin with a known magic string.
    #[error("not an RDB file")]
    Magic,
    /// The version is not known.
    #[error("unsupported version {0}")]
    Version(u16),
    /// A length has an encoding that does not exist or does not fit here.
    #[error("invalid length")]
    Length,
    /// A compressed string can't be unpacked to the length that it announces.
    #[error("invalid compressed string")]
    Compression,
    /// A listpack is malformed.
    #[error("invalid listpack")]
    Listpack,
    /// A ziplist is malformed.
    #[error("invalid ziplist")]
    Ziplist,
    /// A zipmap is malformed.
    #[error("invalid zipmap")]
    Zipmap,
    /// A set of integers is malformed.
    #[error("invalid intset")]
    Intset,
    /// A node of a list has a container that does not exist.
    #[error("invalid list node")]
    ListNode,
    /// A score is not a number.
    #[error("invalid score")]
    Score,
    /// An expiry is out of range.
    #[error("invalid expiry")]
    Expiry,
    /// A member or field occurs twice.
    #[error("duplicate member")]
    Duplicate,
    /// The entries of a stream contradict each other or its lengths.
    #[error("invalid stream entries")]
    StreamEntries,
    /// A group of a stream has a consumer twice.
    #[error("duplicate stream consumer")]
    Consumer,
    /// An entry is pending for two consumers, or for none.
    #[error("invalid pending entry of a stream group")]
    Delivery,
    /// The groups of a stream contradict each other.
    #[error("invalid stream group")]
    StreamGroup,
    /// A type or opcode is not known.
    #[error("unknown type {0}")]
    UnknownType(u8),
    /// A value or a field belongs to a module.
    #[error("data of a module")]
    Module,
    /// A library of functions has the form of a release candidate of Redis 7.
    #[error("functions in a pre-release format")]
    OldFunctions,
    /// The checksum at the end of the file differs.
    #[error("wrong checksum")]
    Checksum,
}

impl Error {
    pub(crate) fn new(fault: Fault, offset: u64) -> Self {
        Self { fault, offset, key: None }
    }

    pub(crate) fn of_key(mut self, key: &[u8]) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.fault, self.offset)?;
        match &self.key {
            Some(key) => write!(f, ", key \"{}\"", key.escape_ascii()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

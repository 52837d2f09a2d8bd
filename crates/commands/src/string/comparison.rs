//! Comparison of a string value with a value or digest given by the client.

use collections::{DecimalBuffer, ValueRef};

use super::digest::{DIGEST_SIZE, digest};
use crate::error::CommandError;
use crate::word::Word;

const BAD_DIGEST: CommandError = CommandError::new("ERR must be exactly 16 hexadecimal characters");

/// A comparison with an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison<'a> {
    /// `IFEQ`: the value is equal.
    Equal(&'a [u8]),
    /// `IFNE`: the value is different.
    Unequal(&'a [u8]),
    /// `IFDEQ`: the digest is equal.
    DigestEqual(&'a [u8]),
    /// `IFDNE`: the digest is different.
    DigestUnequal(&'a [u8]),
}

impl<'a> Comparison<'a> {
    /// Returns the comparison named `word`, with its operand.
    pub fn named(word: &[u8], operand: &'a [u8]) -> Option<Self> {
        let is = |name: &str| word.eq_token(name);
        Some(if is("IFEQ") {
            Self::Equal(operand)
        } else if is("IFNE") {
            Self::Unequal(operand)
        } else if is("IFDEQ") {
            Self::DigestEqual(operand)
        } else if is("IFDNE") {
            Self::DigestUnequal(operand)
        } else {
            return None;
        })
    }

    /// Whether the comparison holds for a string value. O(1) if the lengths differ, else O(length).
    pub fn holds(self, value: ValueRef<'_>) -> Result<bool, CommandError> {
        let mut decimal = DecimalBuffer::new();
        let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
        match self {
            Self::Equal(operand) => Ok(text == operand),
            Self::Unequal(operand) => Ok(text != operand),
            Self::DigestEqual(operand) => has_digest(text, operand),
            Self::DigestUnequal(operand) => has_digest(text, operand).map(|has| !has),
        }
    }

    /// Whether the comparison holds for a missing key.
    pub fn holds_without_value(self) -> bool {
        matches!(self, Self::Unequal(_) | Self::DigestUnequal(_))
    }
}

fn has_digest(text: &[u8], operand: &[u8]) -> Result<bool, CommandError> {
    if operand.len() != DIGEST_SIZE {
        return Err(BAD_DIGEST);
    }
    Ok(digest(text).eq_ignore_ascii_case(operand))
}

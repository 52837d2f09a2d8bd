//! Comparing a string value with what the client believes it to be: the value itself or its digest.

use collections::{DecimalBuffer, ValueRef};

use super::digest::{DIGEST_SIZE, digest};
use crate::error::CommandError;
use crate::word::Word;

const BAD_DIGEST: CommandError = CommandError::new("ERR must be exactly 16 hexadecimal characters");

/// What a value is compared with, and which outcome is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison<'a> {
    /// `IFEQ`: it is this.
    Equal(&'a [u8]),
    /// `IFNE`: it is something else.
    Unequal(&'a [u8]),
    /// `IFDEQ`: its digest is this.
    DigestEqual(&'a [u8]),
    /// `IFDNE`: its digest is something else.
    DigestUnequal(&'a [u8]),
}

impl<'a> Comparison<'a> {
    /// The comparison with `operand` that `word` asks for.
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

    /// Whether the comparison with a string value comes out as wanted. O(1) for values of other lengths and for
    /// equal ones O(length).
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

    /// Whether it comes out as wanted where there is no value at all.
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

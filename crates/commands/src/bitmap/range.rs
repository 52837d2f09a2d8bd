//! Ranges of a string in `BITCOUNT` and `BITPOS`: first and last byte or bit, negative from the end.

use std::ops::Range;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::doc::Arg;
use crate::error::CommandError;
use crate::word::Word;

/// A range as given in a request.
#[derive(Clone, Copy)]
pub(super) struct RequestedRange {
    pub start: i64,
    /// `None`: up to the end.
    pub end: Option<i64>,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

/// Documentation of `[start [end [BYTE | BIT]]]`.
pub(super) const RANGE: Arg = Arg::block(
    "range",
    &[
        Arg::integer("start"),
        Arg::block(
            "end-unit-block",
            &[
                Arg::integer("end"),
                Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")])
                    .since("7.0.0")
                    .optional(),
            ],
        )
        .optional(),
    ],
)
.optional();

impl RequestedRange {
    /// Parses `[start [end [BYTE | BIT]]]`; no arguments mean the whole string.
    pub fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let number = |index: usize| match args.get(index) {
            None => Ok(None),
            Some(text) => parse_i64_strict(text).map(Some).ok_or(CommandError::NOT_AN_INTEGER),
        };
        if args.len() > 3 {
            return Err(CommandError::SYNTAX);
        }
        let start = number(0)?;
        let unit = match args.get(2) {
            None => Unit::Byte,
            Some(word) if word.eq_token("byte") => Unit::Byte,
            Some(word) if word.eq_token("bit") => Unit::Bit,
            Some(_) => return Err(CommandError::SYNTAX),
        };
        Ok(Self { start: start.unwrap_or(0), end: number(1)?, unit })
    }

    /// Returns the range of bit numbers in a string of `size` bytes.
    pub fn bits(self, size: usize) -> Range<usize> {
        let (total, unit_bits) = match self.unit {
            Unit::Byte => (size as i64, 8),
            Unit::Bit => (size as i64 * 8, 1),
        };
        let from_start = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
        let start = from_start(self.start);
        let end = from_start(self.end.unwrap_or(-1)).min(total - 1);
        if start > end {
            return 0..0;
        }
        start as usize * unit_bits..(end as usize + 1) * unit_bits
    }
}

//! Fields of `BITFIELD`: types, offsets, and overflow handling.

use wire::number::parse_i64_strict;

use super::bits;
use crate::context::Ctx;
use crate::error::CommandError;
use crate::word::Word;

const BAD_OFFSET: CommandError = CommandError::new("ERR bit offset is not an integer or out of range");
const BAD_TYPE: CommandError = CommandError::new(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OVERFLOW: CommandError = CommandError::new("ERR Invalid OVERFLOW type specified");

/// Parses a bit offset, which must be within the maximum string size.
pub(super) fn parse_offset(ctx: &Ctx<'_>, text: &[u8]) -> Result<usize, CommandError> {
    check_offset(ctx, parse_i64_strict(text))
}

fn check_offset(ctx: &Ctx<'_>, offset: Option<i64>) -> Result<usize, CommandError> {
    let offset = offset.and_then(|offset| usize::try_from(offset).ok()).ok_or(BAD_OFFSET)?;
    if offset as u64 / 8 < ctx.config.proto_max_bulk_len { Ok(offset) } else { Err(BAD_OFFSET) }
}

/// The position and type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub offset: usize,
    /// 1 to 64; up to 63 for unsigned fields.
    pub width: u32,
    pub signed: bool,
}

/// The handling of a number that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Stores its lowest bits.
    Wrap,
    /// Stores the largest or smallest number that fits.
    Saturate,
    /// Stores nothing.
    Fail,
}

impl Overflow {
    pub fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            _ if word.eq_token("wrap") => Ok(Self::Wrap),
            _ if word.eq_token("sat") => Ok(Self::Saturate),
            _ if word.eq_token("fail") => Ok(Self::Fail),
            _ => Err(BAD_OVERFLOW),
        }
    }
}

impl Field {
    /// Parses type and offset; offset `#3` is the fourth field of this type.
    pub fn parse(ctx: &Ctx<'_>, kind: &[u8], offset: &[u8]) -> Result<Self, CommandError> {
        let (signed, width) = match kind {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => return Err(BAD_TYPE),
        };
        let width_max = if signed { 64 } else { 63 };
        let width =
            parse_i64_strict(width).filter(|width| (1..=width_max).contains(width)).ok_or(BAD_TYPE)?;
        let offset = match offset {
            [b'#', number @ ..] => parse_i64_strict(number).and_then(|number| number.checked_mul(width)),
            offset => parse_i64_strict(offset),
        };
        Ok(Self { offset: check_offset(ctx, offset)?, width: width as u32, signed })
    }

    /// Returns the minimum size in bytes of a string that contains the field.
    pub fn end_size(self) -> usize {
        (self.offset + self.width as usize).div_ceil(8)
    }

    /// Returns the number in the field; bits beyond the end are 0.
    pub fn read(self, bytes: &[u8]) -> i64 {
        if self.signed {
            bits::signed_at(bytes, self.offset, self.width)
        } else {
            bits::unsigned_at(bytes, self.offset, self.width) as i64
        }
    }

    /// Stores a number, which must fit.
    pub fn write(self, bytes: &mut [u8], value: i64) {
        bits::put_unsigned(bytes, self.offset, self.width, value.cast_unsigned());
    }

    /// Returns the number to store for `SET`; `None`: the field stays unchanged. For an unsigned field, a negative number is
    /// treated as the unsigned number with the same 64 bits, as in Redis.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        let value = if self.signed { i128::from(value) } else { i128::from(value.cast_unsigned()) };
        self.fit_wide(value, overflow)
    }

    /// Returns the number to store for `INCRBY`; `None`: the field stays unchanged.
    pub fn fit_sum(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.fit_wide(i128::from(value) + i128::from(increment), overflow)
    }

    fn fit_wide(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = if self.signed {
            (-(1_i128 << (self.width - 1)), (1_i128 << (self.width - 1)) - 1)
        } else {
            (0, (1_i128 << self.width) - 1)
        };
        if (min..=max).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Wrap if self.signed => Some(bits::sign_extended(value as u64, self.width)),
            Overflow::Wrap => Some((value & max) as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(signed: bool, width: u32) -> Field {
        Field { offset: 0, width, signed }
    }

    #[test]
    fn overflow_wraps_saturates_or_fails() {
        use Overflow::{Fail, Saturate, Wrap};
        let cases = [
            (field(false, 8), 255, 1, [Some(0), Some(255), None]),
            (field(false, 8), 0, -1, [Some(255), Some(0), None]),
            (field(true, 8), 127, 1, [Some(-128), Some(127), None]),
            (field(true, 8), -128, -1, [Some(127), Some(-128), None]),
            (field(true, 64), i64::MAX, 1, [Some(i64::MIN), Some(i64::MAX), None]),
            (field(true, 64), i64::MIN, -1, [Some(i64::MAX), Some(i64::MIN), None]),
            (field(false, 63), i64::MAX, 1, [Some(0), Some(i64::MAX), None]),
            (field(true, 1), 0, 1, [Some(-1), Some(0), None]),
            (field(true, 8), 1, 1, [Some(2); 3]),
        ];
        for (field, value, increment, expected) in cases {
            let results = [Wrap, Saturate, Fail].map(|overflow| field.fit_sum(value, increment, overflow));
            assert_eq!(results, expected, "{field:?}: {value} + {increment}");
        }
    }

    #[test]
    fn a_negative_number_set_to_an_unsigned_field_is_too_large() {
        assert_eq!(field(false, 8).fit(-1, Overflow::Saturate), Some(255));
        assert_eq!(field(false, 8).fit(-1, Overflow::Wrap), Some(255));
        assert_eq!(field(true, 8).fit(-1, Overflow::Fail), Some(-1));
    }
}

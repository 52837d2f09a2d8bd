//! Types and sizes of values, for histograms. A change of a value compares two of them, and most changes leave the value in its
//! bin.

use crate::entry::kind::Kind;

/// Number of types that are counted, which are the first ones. Streams are not counted.
const KIND_COUNT: usize = 5;

const _: () = assert!(Kind::Hash as usize + 1 == KIND_COUNT && Kind::Stream as usize == KIND_COUNT);

/// The type of a value, in the upper byte, and its size: bytes of a string, elements of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueSize(u64);

const KIND_SHIFT: u32 = 56;
const SIZE_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl ValueSize {
    /// Number of bins of a type. The last one has all sizes from 2^47 on.
    pub const BIN_COUNT: usize = 49;

    /// Number of bins of all types that are counted.
    pub const ALL_BIN_COUNT: usize = KIND_COUNT * Self::BIN_COUNT;

    /// That of a value.
    #[inline]
    #[must_use]
    pub const fn new(kind: Kind, size: usize) -> Self {
        Self((kind as u64) << KIND_SHIFT | size as u64 & SIZE_MASK)
    }

    /// That of a string that is an integer: the smallest size in the bin of its decimal text.
    #[inline]
    #[must_use]
    pub const fn of_integer(value: i64) -> Self {
        // A minus sign counts as a digit.
        let digits = if value < 0 { value.unsigned_abs().saturating_mul(10) } else { value as u64 };
        Self(match digits {
            ..10 => 1,
            10..1_000 => 2,
            1_000..10_000_000 => 4,
            10_000_000..1_000_000_000_000_000 => 8,
            _ => 16,
        })
    }

    /// The index of its bin, below [`Self::ALL_BIN_COUNT`]; `None` if the type is not counted. The bins of a type follow each
    /// other, in the order of the types. Each has the sizes with the same number of binary digits: 0, 1, 2 to 3, 4 to 7, ...
    #[must_use]
    pub const fn bin(self) -> Option<usize> {
        let (kind, size) = ((self.0 >> KIND_SHIFT) as usize, self.0 & SIZE_MASK);
        if kind >= KIND_COUNT {
            return None;
        }
        let (digit_count, last) = ((u64::BITS - size.leading_zeros()) as usize, Self::BIN_COUNT - 1);
        Some(kind * Self::BIN_COUNT + if digit_count < last { digit_count } else { last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::decimal_len;

    #[test]
    fn integers_are_in_the_bins_of_their_texts() {
        let powers = (0..19).map(|power| 10_i64.pow(power));
        let values = powers.flat_map(|power| [power - 1, power, power + 1]).chain([i64::MAX, i64::MIN]);
        for value in values.flat_map(|value| [value, value.wrapping_neg()]) {
            let text = ValueSize::new(Kind::String, decimal_len(value));
            assert_eq!(ValueSize::of_integer(value).bin(), text.bin(), "{value}");
        }
    }
}

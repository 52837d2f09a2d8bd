//! Big integers with the operations for reading and writing the largest and smallest extended floats.

use std::cmp::Ordering;

use super::rounding::Wide;
use crate::number;

/// Significant bits of the quotient of [`Big::divide_to_wide`]: enough for rounding, and few enough for a
/// `u128`.
const QUOTIENT_BIT_COUNT: u32 = 68;

/// A non-negative integer of any size: 32-bit digits, the least significant first, the last not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Big {
    words: Vec<u32>,
}

impl From<u128> for Big {
    fn from(value: u128) -> Self {
        let mut big = Self { words: (0..4).map(|word| (value >> (32 * word)) as u32).collect() };
        big.trim();
        big
    }
}

impl Big {
    /// `self = self * factor + addend`.
    pub(super) fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for word in &mut self.words {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.words.push(carry as u32);
        }
    }

    pub(super) fn multiply_by_power_of_ten(&mut self, exponent: u32) {
        for _ in 0..exponent / 9 {
            self.multiply_add(1_000_000_000, 0);
        }
        self.multiply_add(10u32.pow(exponent % 9), 0);
    }

    pub(super) fn shift_left(&mut self, bit_count: u32) {
        if self.words.is_empty() {
            return;
        }
        self.multiply_add(1 << (bit_count % 32), 0);
        let word_count = (bit_count / 32) as usize;
        self.words.splice(0..0, std::iter::repeat_n(0, word_count));
    }

    /// Appends the number in decimal.
    pub(super) fn write_decimal(mut self, out: &mut Vec<u8>) {
        let mut groups = Vec::new();
        while !self.words.is_empty() {
            groups.push(self.divide_small(1_000_000_000));
        }
        number::write_u64(out, u64::from(groups.pop().unwrap_or(0)));
        for group in groups.into_iter().rev() {
            let zero_count = 9 - number::decimal_digit_count(u64::from(group));
            out.extend(std::iter::repeat_n(b'0', zero_count));
            number::write_u64(out, u64::from(group));
        }
    }

    /// The 128 most significant bits, or all bits.
    pub(super) fn to_wide(&self) -> Wide {
        let dropped_bit_count = self.bit_count().saturating_sub(u128::BITS);
        let (dropped_words, shift) = (dropped_bit_count as usize / 32, dropped_bit_count % 32);
        let (dropped, kept) = self.words.split_at(dropped_words);
        // Up to five words hold the 128 bits.
        let mut bits = 0u128;
        for (at, &word) in kept.iter().enumerate() {
            let word = u128::from(word);
            bits |= match at as u32 * 32 {
                0 => word >> shift,
                place => word << (place - shift),
            };
        }
        let is_inexact = dropped.iter().any(|&word| word != 0)
            || kept.first().is_some_and(|word| word & ((1 << shift) - 1) != 0);
        Wide { bits, exponent: dropped_bit_count as i32, is_inexact }
    }

    /// The quotient of two numbers other than 0, with the bits that rounding needs.
    pub(super) fn divide_to_wide(mut self, mut divisor: Self) -> Wide {
        // With equal bit counts the quotient is between a half and 2; each step then gives one more bit.
        let (bit_count, divisor_bit_count) = (self.bit_count(), divisor.bit_count());
        self.shift_left(divisor_bit_count.saturating_sub(bit_count));
        divisor.shift_left(bit_count.saturating_sub(divisor_bit_count));
        let mut bits = 0u128;
        for _ in 0..QUOTIENT_BIT_COUNT {
            bits <<= 1;
            if self.order(&divisor) != Ordering::Less {
                self.subtract(&divisor);
                bits |= 1;
            }
            self.shift_left(1);
        }
        Wide {
            bits,
            exponent: bit_count as i32 - divisor_bit_count as i32 - (QUOTIENT_BIT_COUNT as i32 - 1),
            is_inexact: !self.words.is_empty(),
        }
    }

    fn bit_count(&self) -> u32 {
        self.words.last().map_or(0, |top| self.words.len() as u32 * 32 - top.leading_zeros())
    }

    fn order(&self, other: &Self) -> Ordering {
        self.words
            .len()
            .cmp(&other.words.len())
            .then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }

    /// `self = self - other`, where `other` is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, word) in self.words.iter_mut().enumerate() {
            let subtrahend = other.words.get(at).copied().unwrap_or(0);
            let (difference, first) = word.overflowing_sub(subtrahend);
            let (difference, second) = difference.overflowing_sub(u32::from(borrow));
            *word = difference;
            borrow = first || second;
        }
        debug_assert!(!borrow, "subtrahend was larger");
        self.trim();
    }

    /// Divides by `divisor`, and returns the remainder.
    fn divide_small(&mut self, divisor: u32) -> u32 {
        let mut remainder = 0u64;
        for word in self.words.iter_mut().rev() {
            let dividend = remainder << 32 | u64::from(*word);
            *word = (dividend / u64::from(divisor)) as u32;
            remainder = dividend % u64::from(divisor);
        }
        self.trim();
        remainder as u32
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

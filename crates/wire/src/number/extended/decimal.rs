//! Reading decimal numbers of any length, with a single rounding.

use super::big::Big;
use super::hexadecimal::parse_exponent;
use super::rounding::Wide;

/// Decimal exponents beyond which every number is infinite or 0: extended floats range from 3.6e-4951 to
/// 1.2e+4932.
const DECIMAL_EXPONENT_MAX: i64 = 4940;

/// A decimal number: digits whose first and last are not 0, and a power of ten.
pub(super) struct Decimal<'a> {
    /// The digits as written, possibly with a point among them.
    text: &'a [u8],
    digit_count: usize,
    /// The decimal exponent of the integer that all digits form.
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads digits with an optional point and exponent.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let mantissa_end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let (mantissa, exponent_text) = text.split_at(mantissa_end);
        let written_exponent = match exponent_text {
            [] => 0,
            [_, digits @ ..] => parse_exponent(digits)?,
        };
        let point = mantissa.iter().position(|&byte| byte == b'.');
        let is_digit_or_point =
            mantissa.iter().enumerate().all(|(at, byte)| byte.is_ascii_digit() || Some(at) == point);
        if !is_digit_or_point || mantissa.len() == usize::from(point.is_some()) {
            return None;
        }
        let is_significant = |byte: &u8| matches!(byte, b'1'..=b'9');
        let Some(first) = mantissa.iter().position(is_significant) else {
            return Some(Self { text: &[], digit_count: 0, exponent: 0 });
        };
        let last = mantissa.iter().rposition(is_significant).unwrap_or(first);
        let point_within = point.is_some_and(|point| (first..last).contains(&point));
        // Places between the last significant digit and the explicit or implicit point.
        let place = match point {
            Some(point) if point < last => point as i64 - last as i64,
            Some(point) => (point - last - 1) as i64,
            None => (mantissa.len() - last - 1) as i64,
        };
        Some(Self {
            text: &mantissa[first..=last],
            digit_count: last + 1 - first - usize::from(point_within),
            exponent: written_exponent.saturating_add(place),
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.text.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0')
    }

    /// The number with at least the bits that rounding needs.
    pub(super) fn to_wide(&self) -> Wide {
        if self.digit_count == 0 {
            return Wide { bits: 0, exponent: 0, is_inexact: false };
        }
        let leading_exponent = self.exponent.saturating_add(self.digit_count as i64);
        if leading_exponent > DECIMAL_EXPONENT_MAX {
            return Wide::HUGE;
        }
        if leading_exponent < -2 * DECIMAL_EXPONENT_MAX {
            return Wide::TINY;
        }
        if self.digit_count <= 19 && (-18..=19).contains(&self.exponent) {
            return self.to_wide_by_words();
        }
        let mut digits = Big::default();
        for digit in self.digits() {
            digits.multiply_add(10, u32::from(digit));
        }
        if self.exponent >= 0 {
            digits.multiply_by_power_of_ten(self.exponent as u32);
            return digits.to_wide();
        }
        let mut power = Big::from(1);
        power.multiply_by_power_of_ten(self.exponent.unsigned_abs() as u32);
        digits.divide_to_wide(power)
    }

    /// [`Self::to_wide`] for up to 19 digits and small exponents: `digits` is below 2^64.
    fn to_wide_by_words(&self) -> Wide {
        let digits = self.digits().fold(0u64, |value, digit| value * 10 + u64::from(digit));
        let power = 10u64.pow(self.exponent.unsigned_abs() as u32);
        if self.exponent >= 0 {
            return Wide { bits: u128::from(digits) * u128::from(power), exponent: 0, is_inexact: false };
        }
        // 128 bits divided by at most 60 leave more than the 66 bits that rounding needs.
        let shift = digits.leading_zeros() + 64;
        let numerator = u128::from(digits) << shift;
        let divisor = u128::from(power);
        Wide {
            bits: numerator / divisor,
            exponent: -(shift as i32),
            is_inexact: !numerator.is_multiple_of(divisor),
        }
    }
}

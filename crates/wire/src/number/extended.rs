//! 80-bit extended floats: the `long double` of x86, which Redis uses for `INCRBYFLOAT` and `HINCRBYFLOAT`.
//!
//! Rust has no such type, and doubles would give other results: `0.1 + 0.2` is `0.3` in Redis. So the three
//! operations of these commands are implemented on integers, rounded like the hardware and the C library:
//! reading a decimal, adding, and writing with 17 decimals without trailing zeros.
//!
//! Invariants of a finite value:
//! 1. It is `significand * 2^exponent`, with `exponent` in `-16445..=16320`.
//! 2. The top bit of the significand is set, unless the exponent is the least one.
//! 3. 0 has the least exponent.
//!
//! Cost: common numbers (19 digits, 18 decimals) need 128-bit arithmetic only. Others need big integers, up to
//! 0.1 ms for texts of the maximum size.
//!
//! Start reading at [`Extended::parse`].

mod big;
mod decimal;
mod hexadecimal;
mod rounding;

use std::ops::Neg;

use crate::number;
use big::Big;
use decimal::Decimal;
pub(crate) use hexadecimal::parse_hexadecimal;
pub(crate) use rounding::{Format, Rounded, Wide};

/// Longest text that is read, in bytes. Redis's buffer has one byte more.
const TEXT_SIZE_MAX: usize = 5 * 1024 - 1;

/// Digits after the point that are written.
const DECIMAL_COUNT: u32 = 17;

const EXTENDED: Format = Format { significand_bits: 64, exponent_min: -16445, exponent_max: 16320 };

/// An 80-bit extended float, other than NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    is_negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Finite { significand: u64, exponent: i32 },
    Infinite,
}

impl Extended {
    /// Zero.
    pub const ZERO: Self = Self {
        is_negative: false,
        magnitude: Magnitude::Finite { significand: 0, exponent: EXTENDED.exponent_min },
    };

    /// Reads a number as Redis does for `INCRBYFLOAT`: C's `strtold` on all of `text`, decimal or hexadecimal,
    /// without blanks; `inf` and `infinity` in any case; no NaN. Too large numbers, and numbers that are too
    /// small but not 0, are refused.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_SIZE_MAX {
            return None;
        }
        let (is_negative, magnitude) = match text {
            [b'-', magnitude @ ..] => (true, magnitude),
            [b'+', magnitude @ ..] => (false, magnitude),
            magnitude => (false, magnitude),
        };
        if magnitude.eq_ignore_ascii_case(b"inf") || magnitude.eq_ignore_ascii_case(b"infinity") {
            return Some(Self { is_negative, magnitude: Magnitude::Infinite });
        }
        let wide = match magnitude {
            [b'0', b'x' | b'X', digits @ ..] => parse_hexadecimal(digits)?,
            digits => Decimal::parse(digits)?.to_wide(),
        };
        let value = Self::round(is_negative, wide);
        let is_in_range = value.is_finite() && (value.magnitude != Self::ZERO.magnitude || wide.is_zero());
        is_in_range.then_some(value)
    }

    /// Whether the number may be stored.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.magnitude != Magnitude::Infinite
    }

    /// The sum, rounded to the nearest; `None` for infinities of opposite signs.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        match (self.magnitude, other.magnitude) {
            (Magnitude::Finite { .. }, Magnitude::Finite { .. }) => Some(self.add_finite(other)),
            (Magnitude::Infinite, Magnitude::Infinite) => {
                (self.is_negative == other.is_negative).then_some(self)
            }
            (Magnitude::Infinite, _) => Some(self),
            (_, Magnitude::Infinite) => Some(other),
        }
    }

    /// A thousand times the number, rounded to the nearest value and then up to an integer, like `long double`
    /// arithmetic in C. `None` above the range of `i64`, `i64::MIN` below it.
    #[must_use]
    pub fn thousandfold_up(self) -> Option<i64> {
        let rounded = match self.magnitude {
            Magnitude::Finite { significand, exponent } => {
                let bits = u128::from(significand) * 1000;
                Self::round(self.is_negative, Wide { bits, exponent, is_inexact: false })
            }
            Magnitude::Infinite => self,
        };
        let Magnitude::Finite { significand, exponent } = rounded.magnitude else {
            return self.is_negative.then_some(i64::MIN);
        };
        let (whole, has_fraction) = match exponent {
            ..=-64 => (0, significand != 0),
            -63..=0 => (significand >> -exponent, significand & ((1 << -exponent) - 1) != 0),
            1.. => (u64::MAX, false),
        };
        match (i64::try_from(whole), self.is_negative) {
            (Ok(whole), true) => Some(-whole),
            (Ok(whole), false) => whole.checked_add(i64::from(has_fraction)),
            (Err(_), true) => Some(i64::MIN),
            (Err(_), false) => None,
        }
    }

    /// Appends the number with up to 17 decimals and without an exponent, as Redis prints it.
    pub fn write(self, out: &mut Vec<u8>) {
        let Magnitude::Finite { significand, exponent } = self.magnitude else {
            out.extend_from_slice(if self.is_negative { b"-inf" } else { b"inf" });
            return;
        };
        let start = out.len();
        if self.is_negative {
            out.push(b'-');
        }
        if exponent >= 0 {
            let mut integer = Big::from(u128::from(significand));
            integer.shift_left(exponent as u32);
            integer.write_decimal(out);
            return;
        }
        // At most 2^64 * 10^17 < 2^121, so the product cannot overflow before it is rounded.
        const SCALE: u128 = 10u128.pow(DECIMAL_COUNT);
        let scaled = rounding::shift_right_to_nearest(u128::from(significand) * SCALE, -exponent as u32);
        let (integer, mut fraction) = ((scaled / SCALE) as u64, (scaled % SCALE) as u64);
        if scaled == 0 {
            out.truncate(start);
        }
        number::write_u64(out, integer);
        if fraction > 0 {
            let mut decimal_count = DECIMAL_COUNT as usize;
            while fraction.is_multiple_of(10) {
                fraction /= 10;
                decimal_count -= 1;
            }
            out.push(b'.');
            let zero_count = decimal_count - number::decimal_digit_count(fraction);
            out.extend(std::iter::repeat_n(b'0', zero_count));
            number::write_u64(out, fraction);
        }
    }

    /// The nearest value.
    fn round(is_negative: bool, wide: Wide) -> Self {
        let magnitude = match EXTENDED.round(wide) {
            Rounded::Finite { significand, exponent } => Magnitude::Finite { significand, exponent },
            Rounded::Infinite => Magnitude::Infinite,
        };
        Self { is_negative, magnitude }
    }

    fn add_finite(self, other: Self) -> Self {
        let (large, small) = if self.order() >= other.order() { (self, other) } else { (other, self) };
        let ((large_exponent, large_significand), (small_exponent, small_significand)) =
            (large.order(), small.order());
        // Two bits are left free above for the carry. Of the small number's bits beyond the 62 below, only
        // their presence counts.
        let distance = (large_exponent - small_exponent) as u32;
        let large_bits = u128::from(large_significand) << 62;
        let whole_small_bits = u128::from(small_significand) << 62;
        let small_bits = whole_small_bits.checked_shr(distance).unwrap_or(0);
        let is_inexact = small_bits.checked_shl(distance).unwrap_or(0) != whole_small_bits;
        let bits = if large.is_negative == small.is_negative {
            large_bits + small_bits
        } else {
            large_bits - small_bits - u128::from(is_inexact)
        };
        if bits == 0 && !is_inexact {
            let is_negative = large.is_negative && small.is_negative;
            return Self { is_negative, ..Self::ZERO };
        }
        Self::round(large.is_negative, Wide { bits, exponent: large_exponent - 62, is_inexact })
    }

    /// The exponent and significand, which order finite magnitudes.
    fn order(self) -> (i32, u64) {
        match self.magnitude {
            Magnitude::Finite { significand, exponent } => (exponent, significand),
            Magnitude::Infinite => (i32::MAX, u64::MAX),
        }
    }
}

/// The significand of a number, for tests of tables.
#[cfg(test)]
pub(crate) fn significand(text: &[u8]) -> Option<u64> {
    match Extended::parse(text)?.magnitude {
        Magnitude::Finite { significand, .. } => Some(significand),
        Magnitude::Infinite => None,
    }
}

impl Neg for Extended {
    type Output = Self;

    fn neg(self) -> Self {
        Self { is_negative: !self.is_negative, ..self }
    }
}

impl From<i64> for Extended {
    fn from(value: i64) -> Self {
        let bits = u128::from(value.unsigned_abs());
        Self::round(value < 0, Wide { bits, exponent: 0, is_inexact: false })
    }
}

impl TryFrom<f64> for Extended {
    type Error = NotANumber;

    /// The same value; fails for NaN.
    fn try_from(value: f64) -> Result<Self, NotANumber> {
        if value.is_nan() {
            return Err(NotANumber);
        }
        let is_negative = value.is_sign_negative();
        if value.is_infinite() {
            return Ok(Self { is_negative, magnitude: Magnitude::Infinite });
        }
        // IEEE 754 binary64: 52 bits of fraction below 11 of exponent.
        let fraction = value.to_bits() & ((1 << 52) - 1);
        let (significand, exponent) = match (value.to_bits() >> 52) as i32 & 0x7ff {
            0 => (fraction, -1074),
            biased => (fraction | 1 << 52, biased - 1075),
        };
        Ok(Self::round(is_negative, Wide { bits: u128::from(significand), exponent, is_inexact: false }))
    }
}

/// The double is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Extended) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn thousandfold() {
        let of = |text: &str| Extended::parse(text.as_bytes()).unwrap().thousandfold_up();
        for (text, ms) in [
            ("0", 0),
            ("-0", 0),
            ("1", 1000),
            ("0.001", 1),
            ("0.0001", 1),
            ("1e-300", 1),
            ("0.1", 100),
            ("2.0015", 2002),
            ("0x10", 16_000),
            ("-0.5", -500),
            ("-0.0001", 0),
            ("9223372036854775.807", i64::MAX),
            ("-inf", i64::MIN),
            ("-1e300", i64::MIN),
        ] {
            assert_eq!(of(text), Some(ms), "{text}");
        }
        for text in ["9223372036854775.808", "1e300", "inf"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    /// The result of `INCRBYFLOAT` for a value and an increment; `None` if the command refuses.
    fn sum(value: &str, increment: &str) -> Option<String> {
        let sum = Extended::parse(value.as_bytes())?.checked_add(Extended::parse(increment.as_bytes())?)?;
        sum.is_finite().then(|| text(sum))
    }

    #[test]
    fn sums_match_x87_hardware() {
        let cases = [
            ("3.0", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("10.50", "-5", "5.5"),
            ("5.0e3", "2.0e2", "5200"),
            ("17179869184.0", "1.5", "17179869185.5"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("18446744073709551614", "0.5", "18446744073709551614"),
            ("18446744073709551617", "0", "18446744073709551616"),
            ("18446744073709551619", "0", "18446744073709551620"),
            ("1", "-0.9999999999999999999", "0"),
            ("1.2", "-1.2", "0"),
            ("-0", "-0", "0"),
            ("-1", "0.5", "-0.5"),
            ("1e25", "-0.1", "10000000000000000000000000"),
            ("1e-17", "0", "0.00000000000000001"),
            ("1e-18", "0", "0"),
            ("-1e-20", "0", "0"),
            ("-3.6e-4951", "0", "0"),
            ("3.14159265358979323846", "0", "3.14159265358979324"),
            ("0.1234567890123456789", "1", "1.12345678901234568"),
            ("0x1.8p1", "0X.8", "3.5"),
            ("00012.34e-2", "99", "99.1234"),
            (".5", "1.", "1.5"),
        ];
        for (value, increment, expected) in cases {
            assert_eq!(sum(value, increment).as_deref(), Some(expected), "{value} + {increment}");
            assert_eq!(sum(increment, value).as_deref(), Some(expected), "{increment} + {value}");
        }
    }

    #[test]
    fn sums_without_a_number_are_noticed() {
        for (value, increment) in [
            ("inf", "1"),
            ("1", "-infinity"),
            ("+INF", "-InF"),
            ("inf", "inf"),
            ("1.18e4932", "1e4931"),
            ("-1.18973149535723176502e4932", "-1e4913"),
        ] {
            assert_eq!(sum(value, increment), None, "{value} + {increment}");
        }
    }

    #[test]
    fn non_numeric_texts_are_refused() {
        let refused = [
            "",
            " 1",
            "1 ",
            "1\0",
            "abc",
            "nan",
            "-nan",
            "+",
            "-",
            "+-1",
            "--1",
            ".",
            "..",
            "1..2",
            "1.2.3",
            "e1",
            "1e",
            "1e+",
            "1e1.0",
            "0x",
            "0x.",
            "0xg",
            "0x1p",
            "1e4933",
            "-1e4933",
            "1.18973149535723176509e4932",
            "1e99999999999999999999",
            "1.8e-4951",
            "1e-4960",
            "1e-99999999999999999999",
            "1,5",
            "1_000",
            "infi",
            "1i",
        ];
        for text in refused {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Extended::parse(b"0e-99999999999999999999"), Some(Extended::ZERO));
        assert!(Extended::parse(&[b'1'; 4932]).is_some());
        assert_eq!(Extended::parse(&[b'1'; 4934]), None, "beyond the largest");
        assert!(Extended::parse(&[b'0'; 5119]).is_some());
        assert_eq!(Extended::parse(&[b'0'; 5120]), None, "longer than Redis reads");
    }

    #[test]
    fn the_extremes_are_exact() {
        let largest = text(Extended::parse(b"1.18973149535723176502e+4932").unwrap());
        assert_eq!(largest.len(), 4933);
        assert!(
            largest
                .starts_with("118973149535723176502126385303097020516906332229462420044032373389173700552")
        );
        assert!(largest.ends_with("662444156604419552086811989770240"), "{}", &largest[4900..]);
        // Half of the least number rounds to 0, anything larger to the least number.
        assert_eq!(Extended::parse(b"1.82259976594123730126e-4951"), None);
        assert!(Extended::parse(b"1.82259976594123730127e-4951").is_some());
        assert!(Extended::parse(b"0x1p-16445").is_some());
        assert_eq!(Extended::parse(b"0x1p-16446"), None);
        assert!(Extended::parse(b"0x1.8p-16446").is_some());
        assert_eq!(Extended::parse(b"0x1p16384"), None);
        assert_eq!(Extended::parse(b"0x1.ffffffffffffffffp16383"), None, "rounds up to infinity");
    }

    #[test]
    fn long_texts_are_rounded_by_their_exact_value() {
        // A tie between two significands rounds to the even one; any bit beyond the tie rounds up.
        let tie = (1u128 << 64) + 1;
        for (suffix, expected) in [("", 1u128 << 64), (".0", 1 << 64), (".5", (1 << 64) + 2)] {
            assert_eq!(sum(&format!("{tie}{suffix}"), "0"), Some(expected.to_string()));
        }
        let just_above = format!("{tie}.{}1", "0".repeat(4000));
        assert_eq!(sum(&just_above, "0"), Some(((1u128 << 64) + 2).to_string()));
        let third = format!("0.{}", "3".repeat(5000));
        assert_eq!(sum(&third, &third), Some("0.66666666666666667".to_string()));
    }

    #[test]
    fn integers_and_doubles_convert_exactly() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(text(Extended::from(value)), value.to_string());
        }
        let cases = [
            (0.1, "0.10000000000000001"),
            (13.361389338970184, "13.36138933897018433"),
            (-2.5, "-2.5"),
            (-0.0, "0"),
            (5e-324, "0"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(Extended::try_from(value).unwrap()), expected);
        }
        assert_eq!(Extended::try_from(f64::NAN), Err(NotANumber));
        assert_eq!(-Extended::from(3), Extended::from(-3));
    }
}

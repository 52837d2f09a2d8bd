//! Doubles as text.
//!
//! Written texts are those of Redis's `d2string`: integers without a point, otherwise nearly the fewest digits
//! that read back as an equal double (see [`super::grisu`]), with an exponent only where the plain text would
//! have many zeros.

use super::{grisu, integer};
use crate::number::extended::{Format, Rounded, parse_hexadecimal};

/// Largest integer magnitude written digit by digit. Above it, Redis writes the shortest digits padded with
/// zeros.
const PLAIN_INTEGER_MAX: f64 = (i64::MAX / 2) as f64;

/// Reads a double as Redis does for scores and increments: C's `strtod` on all of `text`, without blanks; `inf`
/// and `infinity` in any case; no NaN. Numbers too large for a double, and too small but not 0, are refused.
#[must_use]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(value) = super::parse_i64_strict(text) {
        return Some(value as f64);
    }
    let (is_negative, magnitude) = match text {
        [b'-', magnitude @ ..] => (true, magnitude),
        [b'+', magnitude @ ..] => (false, magnitude),
        magnitude => (false, magnitude),
    };
    if let [b'0', b'x' | b'X', digits @ ..] = magnitude {
        let value = parse_hexadecimal_f64(digits)?;
        return Some(if is_negative { -value } else { value });
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if value.is_nan() {
        return None;
    }
    let mantissa_end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
    let is_zero_written = !text[..mantissa_end].iter().any(|byte| matches!(byte, b'1'..=b'9'));
    let is_in_range = if value.is_infinite() {
        text.iter().any(|byte| matches!(byte, b'n' | b'N'))
    } else {
        value != 0.0 || is_zero_written
    };
    is_in_range.then_some(value)
}

/// [`parse_f64`] without hexadecimal digits, as Valkey reads scores and coordinates.
#[must_use]
pub fn parse_f64_decimal(text: &[u8]) -> Option<f64> {
    let is_hexadecimal = text.iter().any(|byte| matches!(byte, b'x' | b'X'));
    if is_hexadecimal { None } else { parse_f64(text) }
}

/// Reads the text after `0x`.
fn parse_hexadecimal_f64(digits: &[u8]) -> Option<f64> {
    // IEEE 754 binary64: 52 bits of fraction below 11 of exponent. Subnormal numbers have no hidden bit.
    const FRACTION_BITS: u32 = 52;
    const DOUBLE: Format =
        Format { significand_bits: FRACTION_BITS + 1, exponent_min: -1074, exponent_max: 971 };
    let wide = parse_hexadecimal(digits)?;
    match DOUBLE.round(wide) {
        Rounded::Finite { significand: 0, .. } if !wide.is_zero() => None,
        Rounded::Finite { significand, exponent } => {
            let hidden_bit = significand >> FRACTION_BITS;
            let biased = (exponent - DOUBLE.exponent_min) as u64 + hidden_bit;
            Some(f64::from_bits(biased << FRACTION_BITS | significand & ((1 << FRACTION_BITS) - 1)))
        }
        Rounded::Infinite => None,
    }
}

/// Appends a finite double with the given number of decimals, at most 17, as Redis prints distances: scaled,
/// then rounded to the nearest integer, ties to even. Scaled values beyond the range of `i64` are clamped to
/// it.
pub fn write_f64_fixed(out: &mut Vec<u8>, value: f64, decimal_count: u32) {
    let power = 10u64.pow(decimal_count);
    let scaled = (value * power as f64).round_ties_even() as i64;
    if scaled < 0 {
        out.push(b'-');
    }
    integer::write_u64(out, scaled.unsigned_abs() / power);
    if decimal_count > 0 {
        let fraction = scaled.unsigned_abs() % power;
        out.push(b'.');
        let zero_count = decimal_count as usize - integer::decimal_digit_count(fraction);
        out.extend(std::iter::repeat_n(b'0', zero_count));
        integer::write_u64(out, fraction);
    }
}

/// Appends a double with 17 significant digits without trailing zeros, as C's `%.17g` does for the scores of
/// `ZSCAN`.
pub fn write_f64_general(out: &mut Vec<u8>, value: f64) {
    const DIGIT_COUNT: i32 = 17;
    if value == 0.0 || !value.is_finite() {
        return write_f64(out, value);
    }
    let text = format!("{value:.16e}");
    let (mantissa, exponent) = text.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    out.extend_from_slice(sign.as_bytes());
    if !(-4..DIGIT_COUNT).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("{mantissa}e{sign}{:02}", exponent.abs()).as_bytes());
        return;
    }
    let mut digits = mantissa.bytes().filter(|byte| *byte != b'.');
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
    } else {
        out.extend((0..=exponent).map(|_| digits.next().unwrap_or(b'0')));
    }
    let start = out.len();
    out.extend(digits);
    if exponent >= 0 && out.len() > start {
        out.insert(start, b'.');
    }
}

/// Appends a double as in Redis's replies.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if value.abs() <= PLAIN_INTEGER_MAX && value == value.trunc() {
        integer::write_i64(out, value as i64);
    } else {
        if value < 0.0 {
            out.push(b'-');
        }
        write_decimal(out, &grisu::to_decimal(value.abs()));
    }
}

/// Appends a decimal. The rules for exponents are those of Redis's `fpconv`.
fn write_decimal(out: &mut Vec<u8>, decimal: &grisu::Decimal) {
    let (digits, exponent) = (decimal.digits(), decimal.exponent);
    let digit_count = digits.len() as i32;
    let leading_exponent = exponent + digit_count - 1;
    let zeros = |out: &mut Vec<u8>, count: i32| out.extend(std::iter::repeat_n(b'0', count as usize));
    out.reserve(2 * grisu::DIGIT_COUNT_MAX);
    if exponent >= 0 && leading_exponent < digit_count + 7 {
        out.extend_from_slice(digits);
        zeros(out, exponent);
    } else if exponent < 0 && (exponent > -7 || leading_exponent.abs() < 4) {
        let point = digit_count + exponent;
        if point <= 0 {
            out.extend_from_slice(b"0.");
            zeros(out, -point);
            out.extend_from_slice(digits);
        } else {
            out.extend_from_slice(&digits[..point as usize]);
            out.push(b'.');
            out.extend_from_slice(&digits[point as usize..]);
        }
    } else {
        out.push(digits[0]);
        if digit_count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if leading_exponent < 0 { b"e-" } else { b"e+" });
        integer::write_i64(out, i64::from(leading_exponent.abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn written_doubles_match_redis() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (3.0, "3"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (3.25, "3.25"),
            (1e15, "1000000000000000"),
            (1e17, "100000000000000000"),
            (4e18, "4000000000000000000"),
            (5e18, "5e+18"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (0.00000015, "1.5e-7"),
            (0.0030000001, "0.0030000001"),
            (12345.1234567, "1.23451234567e+4"),
            (12345.123456, "12345.123456"),
            (1234.12345678, "1234.12345678"),
            (0.00012345, "1.2345e-4"),
            (2.0f64.sqrt(), "1.4142135623730951"),
            (123456789.123, "123456789.123"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for &(value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn digits_are_not_always_the_fewest_nor_the_nearest() {
        // The expected texts are Redis's.
        let cases: &[(f64, &str)] = &[
            (3600.89058, "3600.8905800000002"),
            (8.31e21, "8310000000000001000000"),
            (-4158056966252847.0 / 4.0, "-1039514241563211.7"),
            (6.350000000000001e-139, "6.3500000000000006e-139"),
        ];
        for &(value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn written_doubles_read_back() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut long_count = 0;
        for round in 0..60_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = match round % 4 {
                0 => f64::from_bits(state),
                1 => (state % 10_000_000) as f64 / 1000.0,
                2 => (state >> 30) as f64 / 65536.0,
                _ => f64::from_bits(1 << (state % 63)),
            };
            if value.is_nan() {
                continue;
            }
            let written = text(value);
            assert_eq!(parse_f64(written.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{written}");
            let digits = |text: &str| {
                let mantissa = text.split('e').next().unwrap_or(text);
                let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
                digits.trim_matches('0').len()
            };
            if value.is_finite() {
                long_count += usize::from(digits(&written) > digits(&format!("{value:e}")));
            }
        }
        assert!(long_count < 60, "{long_count} of 60,000 texts are not the shortest");
    }

    #[test]
    fn fixed_decimals_are_rounded_to_even() {
        let cases: &[(f64, u32, &str)] = &[
            (0.0, 4, "0.0000"),
            (0.775, 4, "0.7750"),
            (-0.775, 2, "-0.78"),
            (166274.15156, 4, "166274.1516"),
            (2.5, 0, "2"),
            (0.00004, 4, "0.0000"),
            (-0.05, 1, "0.0"),
            (-0.15, 1, "-0.2"),
            (190.4424, 17, "92.23372036854775807"),
        ];
        for &(value, decimal_count, expected) in cases {
            let mut out = Vec::new();
            write_f64_fixed(&mut out, value, decimal_count);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn doubles_are_parsed_like_strtod() {
        let accepted: &[(&[u8], f64)] = &[
            (b"0", 0.0),
            (b"-0", -0.0),
            (b"+1.5", 1.5),
            (b"1.", 1.0),
            (b".5", 0.5),
            (b"007", 7.0),
            (b"1e3", 1000.0),
            (b"1E+3", 1000.0),
            (b"5.0e3", 5000.0),
            (b"0e-400", 0.0),
            (b"5e-324", 5e-324),
            (b"inf", f64::INFINITY),
            (b"+InF", f64::INFINITY),
            (b"-infinity", f64::NEG_INFINITY),
            (b"0x0p0", 0.0),
            (b"0x1p0", 1.0),
            (b"-0X1.8P+3", -12.0),
            (b"0x.8", 0.5),
            (b"0xff", 255.0),
            (b"0x1fffffffffffff8", 144_115_188_075_855_864.0),
            (b"0x0.8p-1022", f64::MIN_POSITIVE / 2.0),
            (b"0x1p-1074", 5e-324),
            (b"0x1.fffffffffffffp1023", f64::MAX),
        ];
        for &(text, expected) in accepted {
            assert_eq!(
                parse_f64(text).map(f64::to_bits),
                Some(expected.to_bits()),
                "{}",
                text.escape_ascii()
            );
        }
        let refused: &[&[u8]] = &[
            b"",
            b" ",
            b" 1",
            b"1 ",
            b"1\n",
            b"abc",
            b"1e",
            b"e5",
            b".",
            b"-",
            b"nan",
            b"-nan",
            b"1_0",
            b"1e400",
            b"-1e400",
            b"1e-400",
            b"0x",
            b"0x.",
            b"0x1p",
            b"0xg",
            b"0x1.1.1",
            b"0x1p1024",
            b"0x1p-1075",
            b"1\0",
            b"\xff",
            b"infinit",
            b"1,5",
        ];
        for text in refused {
            assert_eq!(parse_f64(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn seventeen_digits_match_printf() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (0.1, "0.10000000000000001"),
            (123_456.789, "123456.789"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e300, "1.0000000000000001e+300"),
            (-0.0001, "-0.0001"),
            (0.000_012_34, "1.234e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            let mut text = Vec::new();
            write_f64_general(&mut text, value);
            assert_eq!(String::from_utf8_lossy(&text), expected);
        }
    }

    #[test]
    fn decimal_texts_are_read_and_hexadecimal_ones_are_not() {
        assert_eq!(parse_f64_decimal(b"-1.5e3"), Some(-1500.0));
        assert_eq!(parse_f64_decimal(b"inf"), Some(f64::INFINITY));
        for text in [&b"0x10"[..], b"0X1p4", b"nan", b"", b"1x"] {
            assert_eq!(parse_f64_decimal(text), None);
        }
    }
}

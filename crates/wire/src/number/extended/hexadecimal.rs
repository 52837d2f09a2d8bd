//! Hexadecimal floats, which C's `strtod` reads and Redis therefore accepts.

use super::rounding::Wide;

/// Reads the text after `0x`: hexadecimal digits with an optional point, and an optional binary exponent
/// after `p`.
pub(crate) fn parse_hexadecimal(text: &[u8]) -> Option<Wide> {
    let mantissa_end = text.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(text.len());
    let (mantissa, exponent_text) = text.split_at(mantissa_end);
    let mut exponent = match exponent_text {
        [] => 0,
        [_, digits @ ..] => parse_exponent(digits)?,
    };
    let (mut bits, mut is_inexact) = (0u128, false);
    let (mut has_digit, mut has_point) = (false, false);
    for &byte in mantissa {
        if byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        let digit = (byte as char).to_digit(16)?;
        has_digit = true;
        if bits >> 124 == 0 {
            bits = bits << 4 | u128::from(digit);
            exponent -= if has_point { 4 } else { 0 };
        } else {
            is_inexact |= digit != 0;
            exponent += if has_point { 0 } else { 4 };
        }
    }
    if !has_digit {
        return None;
    }
    // Larger exponents are infinite or 0 in every format.
    let exponent = exponent.clamp(-(1 << 20), 1 << 20) as i32;
    Some(Wide { bits, exponent, is_inexact })
}

/// Reads the digits of an exponent with an optional sign; magnitudes are limited to 2^40.
pub(super) fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(sign * magnitude)
}

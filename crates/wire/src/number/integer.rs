//! Integers as decimal text.

/// Longest text of an `i64` or `u64`, in bytes: `-9223372036854775808` and `18446744073709551615` have 20
/// characters.
pub const I64_TEXT_SIZE_MAX: usize = 20;

/// `00` to `99`, concatenated.
const DIGIT_PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[number * 2] = b'0' + (number / 10) as u8;
        pairs[number * 2 + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Reads an integer in the form that [`write_i64`] writes: no blanks, no `+`, no leading zeros, no `-0`.
#[must_use]
pub fn parse_i64_strict(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(parse_positive(digits)?),
        digits => i64::try_from(parse_positive(digits)?).ok(),
    }
}

/// Reads digits whose first is not 0.
fn parse_positive(digits: &[u8]) -> Option<u64> {
    let (first, others) = digits.split_first()?;
    if !matches!(first, b'1'..=b'9') || others.len() >= I64_TEXT_SIZE_MAX {
        return None;
    }
    // Nineteen digits cannot overflow, so only the twentieth is checked.
    let (unchecked, last) = others.split_at(others.len().min(I64_TEXT_SIZE_MAX - 2));
    let mut value = u64::from(first - b'0');
    let (eights, singles) = unchecked.as_chunks();
    for eight in eights {
        value = value * 100_000_000 + eight_digits(*eight)?;
    }
    for byte in singles {
        value = value * 10 + digit(*byte)?;
    }
    for byte in last {
        value = value.checked_mul(10)?.checked_add(digit(*byte)?)?;
    }
    Some(value)
}

fn digit(byte: u8) -> Option<u64> {
    let value = byte.wrapping_sub(b'0');
    (value <= 9).then_some(u64::from(value))
}

/// Reads eight digits at once: each step combines neighbours, in all lanes of one word.
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let digits = u64::from_le_bytes(text) ^ ZEROS;
    // Adding 0x76 to a byte of 10 or more carries into its top bit. Bytes with this bit set are not digits
    // either.
    if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((quads * 10_000 + (quads >> 32)) & 0xffff_ffff)
}

/// Number of digits of `value` in decimal; 1 for 0.
#[must_use]
pub fn decimal_digit_count(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Writes `value` at the end of `buffer`, and returns the text.
#[must_use]
pub fn format_u64(value: u64, buffer: &mut [u8; I64_TEXT_SIZE_MAX]) -> &[u8] {
    let start = write_backwards(value, buffer);
    &buffer[start..]
}

/// Writes `value` at the end of `buffer`, and returns the text.
#[must_use]
pub fn format_i64(value: i64, buffer: &mut [u8; I64_TEXT_SIZE_MAX]) -> &[u8] {
    let start = write_backwards_signed(value, buffer);
    &buffer[start..]
}

/// Appends `value`.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(format_i64(value, &mut [0; I64_TEXT_SIZE_MAX]));
}

/// Appends `value`.
pub fn write_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(format_u64(value, &mut [0; I64_TEXT_SIZE_MAX]));
}

/// Appends `type_byte`, the number and a line end.
pub(crate) fn write_line(out: &mut Vec<u8>, type_byte: u8, value: i64) {
    match u64::try_from(value) {
        Ok(value @ ..100_000_000) => {
            // Composed as one word: single-byte stores would delay a later wide load of them (store
            // forwarding).
            let (digits, count) = digits_of(value);
            let end = u128::from(u16::from_le_bytes(*b"\r\n")) << (8 * (1 + count));
            let line = u128::from(type_byte) | u128::from(digits) << 8 | end;
            let len = out.len();
            out.extend_from_slice(&line.to_le_bytes());
            out.truncate(len + 1 + count + 2);
        }
        _ => write_long_line(out, type_byte, value),
    }
}

#[inline(never)]
fn write_long_line(out: &mut Vec<u8>, type_byte: u8, value: i64) {
    out.push(type_byte);
    write_i64(out, value);
    out.extend_from_slice(b"\r\n");
}

/// The digits of a value below 10^8, the first in the lowest byte, and their number. Each step splits the
/// values of all lanes of a word in two: a division is a multiplication and a shift, exact for all values of a
/// lane.
#[inline]
const fn digits_of(value: u64) -> (u64, usize) {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let fours = value / 10_000 + ((value % 10_000) << 32);
    let hundreds = ((fours * 5_243) >> 19) & 0x0000_007f_0000_007f;
    let pairs = hundreds + ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens + ((pairs - 10 * tens) << 8);
    let leading_zero_count = (digits | 1 << 56).trailing_zeros() / 8;
    ((digits | ZEROS) >> (8 * leading_zero_count), 8 - leading_zero_count as usize)
}

/// Writes sign and digits backwards from the buffer's end, and returns the position of the first byte.
#[inline]
fn write_backwards_signed(value: i64, buffer: &mut [u8]) -> usize {
    let start = write_backwards(value.unsigned_abs(), buffer);
    if value >= 0 {
        return start;
    }
    buffer[start - 1] = b'-';
    start - 1
}

/// Writes the digits backwards from the buffer's end, and returns the position of the first one.
#[inline]
fn write_backwards(mut value: u64, buffer: &mut [u8]) -> usize {
    let mut at = buffer.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_integers_read_back() {
        let mut values = vec![0, 1, 9, 10, 99, 100, 101, i64::MAX, i64::MIN, i64::MIN + 1];
        let mut power = 1i64;
        while let Some(next) = power.checked_mul(10) {
            values.extend([power - 1, power, power + 1, -power, 1 - power]);
            power = next;
        }
        let mut state = 1u64;
        for bit_count in (1..64).flat_map(|bits| [bits; 200]) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push((state >> bit_count) as i64);
        }
        values.extend(0..20_000);
        for value in values {
            assert_eq!(format_i64(value, &mut [0; I64_TEXT_SIZE_MAX]), value.to_string().as_bytes());
            let mut out = Vec::new();
            write_i64(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            assert_eq!(parse_i64_strict(&out), Some(value));
            assert_eq!(decimal_digit_count(value.unsigned_abs()), value.unsigned_abs().to_string().len());
            let mut line = b"before".to_vec();
            write_line(&mut line, b':', value);
            assert_eq!(line, format!("before:{value}\r\n").as_bytes());
        }
        let mut out = Vec::new();
        write_u64(&mut out, u64::MAX);
        assert_eq!(out, u64::MAX.to_string().as_bytes());
    }

    #[test]
    fn other_texts_are_refused() {
        let refused: &[&[u8]] = &[
            b"",
            b"-",
            b"+1",
            b"-0",
            b"00",
            b"01",
            b"-01",
            b" 1",
            b"1 ",
            b"12345678:",
            b"1234567/9",
            b"12\xb445678",
            b"1234567890123456x",
            b"1x3456789012345678",
            b"1a",
            b"0x10",
            b"1\0",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"18446744073709551615",
            b"18446744073709551616",
            b"99999999999999999999",
            b"100000000000000000000",
        ];
        for text in refused {
            assert_eq!(parse_i64_strict(text), None, "{}", text.escape_ascii());
        }
    }
}

//! Decimal texts of numbers, in Redis's format.
//!
//! Integers are read strictly: only texts that would be written are accepted. Floats are read as by C's
//! `strtod`, without blanks and NaN, and written as the shortest text that reads back as an equal value.

mod double;
pub mod extended;
mod grisu;
mod integer;

pub use double::{parse_f64, parse_f64_decimal, write_f64, write_f64_fixed, write_f64_general};
pub(crate) use integer::write_line;
pub use integer::{
    I64_TEXT_SIZE_MAX, decimal_digit_count, format_i64, format_u64, parse_i64_strict, write_i64, write_u64,
};

/// Appends a RESP header line: `type_byte`, a count or length (below 2^63), and the line end.
#[inline(always)]
pub(crate) fn write_header(out: &mut Vec<u8>, type_byte: u8, number: u64) {
    match number {
        // Composed as one word: single-byte stores would delay a later wide load of them (store forwarding).
        0..10 => out.extend_from_slice(
            &(u32::from_le_bytes([type_byte, b'0', b'\r', b'\n']) + ((number as u32) << 8)).to_le_bytes(),
        ),
        10..100 => {
            let (tens, ones) = (number / 10, number % 10);
            let line =
                u64::from_le_bytes([type_byte, b'0', b'0', b'\r', b'\n', 0, 0, 0]) + (tens << 8 | ones << 16);
            out.extend_from_slice(&line.to_le_bytes()[..5]);
        }
        _ => integer::write_line(out, type_byte, number as i64),
    }
}

/// The position of the line that [`write_header`] writes, if it ends at `end`.
#[inline]
pub(crate) fn header_before(bytes: &[u8], end: usize, type_byte: u8, number: u64) -> Option<usize> {
    match number {
        0..10 => {
            let start = end.checked_sub(4)?;
            let line = [type_byte, b'0' + number as u8, b'\r', b'\n'];
            (bytes.get(start..end)? == line).then_some(start)
        }
        10..100 => {
            let start = end.checked_sub(5)?;
            let line = [type_byte, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8, b'\r', b'\n'];
            (bytes.get(start..end)? == line).then_some(start)
        }
        _ => {
            let digit_count = decimal_digit_count(number);
            let start = end.checked_sub(digit_count + 3)?;
            let line = bytes.get(start..end)?;
            let mut rest = number;
            let is_number = line[1..=digit_count].iter().rev().all(|digit| {
                let expected = b'0' + (rest % 10) as u8;
                rest /= 10;
                *digit == expected
            });
            (line[0] == type_byte && is_number && line.ends_with(b"\r\n")).then_some(start)
        }
    }
}

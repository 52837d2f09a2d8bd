//! The lines that start requests and arguments: a type byte, a number, a line end.
//!
//! Only limits of the protocol are checked here; the parser checks the limits that depend on the sender.

use base::limits::{ARGUMENT_COUNT_MAX, INLINE_SIZE_MAX};

use super::protocol_error::ProtocolError;
use crate::number;
use crate::number_line::plain_number_line;

/// The end of lines and arguments.
pub(super) const LINE_END: &[u8; 2] = b"\r\n";

/// The result of reading such a line at the start of a request or argument.
pub(super) enum NumberLine<'a> {
    /// The number, and the position after the line.
    Read(u64, &'a [u8]),
    /// The line is incomplete; this many bytes of it contain no line end.
    Incomplete {
        line_scanned: usize,
    },
    Failed(ProtocolError),
}

/// Reads a request's argument count with every check; negative counts are 0.
#[inline(never)]
pub(super) fn count_line(rest: &[u8], line_scanned: usize) -> NumberLine<'_> {
    match find_in_line(rest, line_scanned, |byte| byte == b'\r') {
        None if rest.len() > INLINE_SIZE_MAX => NumberLine::Failed(ProtocolError::CountLineTooBig),
        None => NumberLine::Incomplete { line_scanned: rest.len() },
        Some(end) => match rest.get(end + 1) {
            None => NumberLine::Incomplete { line_scanned: end },
            Some(b'\n') => match number::parse_i64_strict(&rest[1..end]) {
                Some(count) if count <= ARGUMENT_COUNT_MAX as i64 => {
                    NumberLine::Read(count.max(0) as u64, &rest[end + 2..])
                }
                _ => NumberLine::Failed(ProtocolError::InvalidCount),
            },
            Some(_) => NumberLine::Failed(ProtocolError::InvalidLineEnd),
        },
    }
}

/// Reads an argument's length with every check except for the limits.
#[inline(never)]
pub(super) fn length_line(rest: &[u8], line_scanned: usize) -> NumberLine<'_> {
    match find_in_line(rest, line_scanned, |byte| byte == b'\r') {
        None if rest.len() > INLINE_SIZE_MAX => NumberLine::Failed(ProtocolError::LengthLineTooBig),
        None => NumberLine::Incomplete { line_scanned: rest.len() },
        Some(end) => match rest.get(end + 1) {
            None => NumberLine::Incomplete { line_scanned: end },
            _ if rest[0] != b'$' => NumberLine::Failed(ProtocolError::ExpectedBulk(rest[0])),
            Some(b'\n') => match number::parse_i64_strict(&rest[1..end]).map(u64::try_from) {
                Some(Ok(len)) => NumberLine::Read(len, &rest[end + 2..]),
                _ => NumberLine::Failed(ProtocolError::InvalidLength),
            },
            Some(_) => NumberLine::Failed(ProtocolError::InvalidLineEnd),
        },
    }
}

/// Finds the end of a line of permitted length, whose first `scanned` bytes do not contain it.
pub(super) fn find_in_line(rest: &[u8], scanned: usize, is_end: impl Fn(u8) -> bool) -> Option<usize> {
    let line = &rest[..rest.len().min(INLINE_SIZE_MAX + 1)];
    line[scanned..].iter().position(|&byte| is_end(byte)).map(|at| scanned + at)
}

/// The eight bytes at `at`, the first one lowest.
#[inline(always)]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a line end at `at`, `$`, a number of up to nine digits and a line end; otherwise `None`. Returns the
/// number and the position after the line.
#[inline(always)]
pub(super) fn plain_length_line(input: &[u8], at: usize) -> Option<(u32, usize)> {
    // For any length of the number, eight bytes are available if the argument and its line end are.
    let window = word(input, at)?;
    let one = window ^ u64::from_le_bytes(*b"\r\n$0\r\n\0\0");
    if one & 0x0000_ffff_00ff_ffff == 0 {
        let digit = (one >> 24) as u8;
        return if digit <= 9 { Some((u32::from(digit), at + 6)) } else { None };
    }
    let two = window ^ u64::from_le_bytes(*b"\r\n$00\r\n\0");
    if two & 0x00ff_ff00_00ff_ffff == 0 {
        let (tens, ones) = ((two >> 24) as u8, (two >> 32) as u8);
        let is_number = tens.wrapping_sub(1) < 9 && ones <= 9;
        return is_number.then(|| (u32::from(tens) * 10 + u32::from(ones), at + 7));
    }
    if window << 40 == u64::from_le_bytes(*b"\r\n$\0\0\0\0\0") << 40 {
        let (number, after) = plain_number_line(&input[at + 3..])?;
        return Some((number, input.len() - after.len()));
    }
    None
}

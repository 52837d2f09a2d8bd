//! Conversion between 64-bit integers and decimal text, without allocation.
//!
//! Owns nothing. A string value that is the canonical text of an `i64` is stored as that integer; *canonical*
//! means that formatting the integer gives back exactly the same bytes, so no information is lost.

/// Longest decimal text of an `i64`, in bytes: `-9223372036854775808`.
pub const DECIMAL_SIZE_MAX: usize = 20;

/// Returns the integer whose canonical decimal text is `text`: no `+`, no leading zero, no `-0`.
#[must_use]
pub fn parse_canonical(text: &[u8]) -> Option<i64> {
    if text.len() > DECIMAL_SIZE_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'0', ..] => return None,
        _ => {}
    }
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Whether `text` may be the decimal text of an integer, by a cheap test.
#[inline(always)]
pub(crate) fn may_be_canonical(text: &[u8]) -> bool {
    text.len() <= DECIMAL_SIZE_MAX && matches!(text.first(), Some(b'-' | b'0'..=b'9'))
}

/// Returns the length of the decimal text of `value`, in bytes.
#[must_use]
pub fn decimal_len(value: i64) -> usize {
    let digit_count = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digit_count + usize::from(value < 0)
}

/// Room for the decimal text of one `i64`.
#[derive(Clone, Debug)]
pub struct DecimalBuffer {
    bytes: [u8; DECIMAL_SIZE_MAX],
}

impl DecimalBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; DECIMAL_SIZE_MAX] }
    }

    /// Writes the decimal text of `value` and returns it.
    pub fn format(&mut self, value: i64) -> &[u8] {
        let mut rest = value.unsigned_abs();
        let mut start = DECIMAL_SIZE_MAX;
        loop {
            start -= 1;
            self.bytes[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            start -= 1;
            self.bytes[start] = b'-';
        }
        &self.bytes[start..]
    }
}

impl Default for DecimalBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_round_trips() {
        for value in [0, 1, -1, 9, 10, -10, 42, 1_000_000, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            let text = value.to_string();
            assert_eq!(parse_canonical(text.as_bytes()), Some(value));
            assert_eq!(DecimalBuffer::new().format(value), text.as_bytes());
            assert_eq!(decimal_len(value), text.len());
        }
    }

    #[test]
    fn other_text_is_not_an_integer() {
        let texts =
            ["", "-", "+1", "01", "-0", "-01", "1 ", " 1", "1.0", "a", "9223372036854775808", "00", "--1"];
        for text in texts {
            assert_eq!(parse_canonical(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_canonical(b"-9223372036854775809"), None);
        assert_eq!(parse_canonical(b"99999999999999999999"), None);
        assert_eq!(parse_canonical(b"184467440737095516160"), None);
    }
}

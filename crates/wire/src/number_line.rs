//! Fast paths for lines of a type byte, a number and a line end: counts and lengths.
//!
//! They read the common forms. Other input, malformed or incomplete, is left to the full checks of the callers.

/// Reads a line with a number of one or two digits, the most common form; otherwise `None`.
#[inline(always)]
pub(crate) fn short_number_line(rest: &[u8], type_byte: u8) -> Option<(u32, &[u8])> {
    let (head, after) = rest.split_first_chunk::<4>()?;
    // As one word, with the first byte the lowest, for a single comparison.
    let word = u32::from_le_bytes(*head);
    let difference = word ^ u32::from_le_bytes([type_byte, b'0', b'\r', b'\n']);
    if difference & 0xffff_00ff == 0 && difference <= 9 << 8 {
        return Some((difference >> 8, after));
    }
    let two_digits = u32::from_le_bytes([type_byte, 0, 0, b'\r']);
    let (line_feed, after) = after.split_first()?;
    let [_, first, second, _] = *head;
    let (first, second) = (first.wrapping_sub(b'0'), second.wrapping_sub(b'0'));
    let is_read =
        word & 0xff00_00ff == two_digits && *line_feed == b'\n' && first.wrapping_sub(1) < 9 && second <= 9;
    is_read.then_some((u32::from(first) * 10 + u32::from(second), after))
}

/// Reads a number of up to nine digits and a line end; otherwise `None`.
#[inline(never)]
pub(crate) fn plain_number_line(rest: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            let after = rest[at..].strip_prefix(b"\r\n")?;
            let is_number = at > 0 && (rest[0] != b'0' || at == 1);
            return is_number.then_some((number, after));
        }
        // A number with a tenth digit is not returned, so an overflow does not matter.
        number = u32::wrapping_mul(number, 10).wrapping_add(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_as_written() {
        for number in (0..3000).chain([99_999, 100_000, 999_999_999]) {
            let line = format!("${number}\r\nrest");
            let expected = Some((number, &b"rest"[..]));
            assert_eq!(plain_number_line(&line.as_bytes()[1..]), expected);
            let is_short = number < 100;
            assert_eq!(short_number_line(line.as_bytes(), b'$'), expected.filter(|_| is_short));
            for end in 0..line.len() - 4 {
                assert_eq!(short_number_line(&line.as_bytes()[..end], b'$'), None);
                assert_eq!(plain_number_line(&line.as_bytes()[1..end.max(1)]), None);
            }
        }
    }

    #[test]
    fn other_lines_are_not_consumed() {
        for line in [
            "$-1\r\n",
            "$01\r\n",
            "$00\r\n",
            "$\r\n1",
            "$1\r1",
            "$1\n\n",
            "$12\r1",
            "$12\n\n",
            "$+1\r\n",
            "$1 \r\n",
            "$:\r\n",
            "$/\r\n",
            "$1:\r\n",
            "$1/\r\n",
            "$:1\r\n",
            "$0000000001\r\n",
            "$1000000000\r\n",
            "$5000000000\r\n",
        ] {
            assert_eq!(short_number_line(line.as_bytes(), b'$'), None, "{line:?}");
            assert_eq!(plain_number_line(&line.as_bytes()[1..]), None, "{line:?}");
        }
        assert_eq!(short_number_line(b"*1\r\n", b'$'), None);
        assert_eq!(short_number_line(b"*12\r\n", b'$'), None);
    }
}

//! IDs of stream entries as arguments: `ms-seq`, `ms`, `ms-*`, `-`, `+`, `(ms-seq`.

use collections::stream::StreamId;
use wire::number::parse_i64_strict;

use crate::error::{CommandError, up_to_nul};

const INVALID: CommandError = CommandError::new("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::new("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::new("ERR invalid end ID for the interval");

/// Maximum length of an ID in bytes.
const TEXT_SIZE_MAX: usize = 127;

/// The ID of a new entry, as given to `XADD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// `*`: generated from the time.
    Auto,
    /// `ms-*`: the next ID of this millisecond.
    InMillis(u64),
    /// A full ID.
    Given(StreamId),
}

/// Parses a full ID, or only its milliseconds; `missing_seq` is then the sequence number.
pub fn parse_id(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match parse(text)? {
        (ms, Seq::Given(seq)) => Ok(StreamId::new(ms, seq)),
        (ms, Seq::Missing) => Ok(StreamId::new(ms, missing_seq)),
        (_, Seq::Auto) => Err(INVALID),
    }
}

/// Parses the ID of a new entry.
pub fn parse_new_id(text: &[u8]) -> Result<NewId, CommandError> {
    if up_to_nul(text) == b"*" {
        return Ok(NewId::Auto);
    }
    Ok(match parse(text)? {
        (ms, Seq::Given(seq)) => NewId::Given(StreamId::new(ms, seq)),
        (ms, Seq::Missing) => NewId::Given(StreamId::new(ms, 0)),
        (ms, Seq::Auto) => NewId::InMillis(ms),
    })
}

/// Parses an ID, or `-` and `+` for the smallest and the largest one.
pub fn parse_id_or_end(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match up_to_nul(text) {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse_id(text, missing_seq),
    }
}

/// Parses the start of a range. The returned ID is inclusive.
pub fn parse_start(text: &[u8]) -> Result<StreamId, CommandError> {
    match exclusive(text) {
        Some(text) => parse_id(text, 0)?.next().ok_or(INVALID_START),
        None => parse_id_or_end(text, 0),
    }
}

/// Parses the end of a range. The returned ID is inclusive.
pub fn parse_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match exclusive(text) {
        Some(text) => parse_id(text, u64::MAX)?.previous().ok_or(INVALID_END),
        None => parse_id_or_end(text, u64::MAX),
    }
}

fn exclusive(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|rest| !rest.is_empty())
}

enum Seq {
    Given(u64),
    Missing,
    Auto,
}

fn parse(text: &[u8]) -> Result<(u64, Seq), CommandError> {
    if text.len() > TEXT_SIZE_MAX {
        return Err(INVALID);
    }
    let text = up_to_nul(text);
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        None => (text, Seq::Missing),
        Some(0) => return Err(INVALID),
        Some(dash) if &text[dash + 1..] == b"*" => (&text[..dash], Seq::Auto),
        Some(dash) => (&text[..dash], Seq::Given(parse_u64(&text[dash + 1..]).ok_or(INVALID)?)),
    };
    Ok((parse_u64(ms).ok_or(INVALID)?, seq))
}

/// Parses like C's `strtoull` if the text is not a plain integer: accepts leading blanks, zeros and a sign.
fn parse_u64(text: &[u8]) -> Option<u64> {
    if let Some(value) = parse_i64_strict(text) {
        return u64::try_from(value).ok();
    }
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_every_form() {
        let max = u64::MAX;
        let full = format!("{max}-{max}");
        let cases: &[(&[u8], Option<StreamId>)] = &[
            (b"1-2", Some(StreamId::new(1, 2))),
            (b"1", Some(StreamId::new(1, 9))),
            (b"0-0", Some(StreamId::MIN)),
            (b"01-002", Some(StreamId::new(1, 2))),
            (full.as_bytes(), Some(StreamId::MAX)),
            (b"1-*", None),
            (b"*", None),
            (b"-", None),
            (b"+", None),
            (b"", None),
            (b"1-", None),
            (b"-1", None),
            (b"1-2-3", None),
            (b"1-x", None),
            (b"18446744073709551616-0", None),
            (b"1 -1", None),
        ];
        for (text, id) in cases {
            assert_eq!(parse_id(text, 9).ok(), *id, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn ends_of_ranges_can_be_excluded() {
        assert_eq!(parse_start(b"(1-1"), Ok(StreamId::new(1, 2)));
        assert_eq!(parse_start(b"(1"), Ok(StreamId::new(1, 1)));
        assert_eq!(parse_end(b"(1-1"), Ok(StreamId::new(1, 0)));
        assert_eq!(parse_end(b"(1"), Ok(StreamId::new(1, u64::MAX - 1)));
        assert_eq!(parse_end(b"(0-0"), Err(INVALID_END));
        assert_eq!(parse_start(format!("({}-{}", u64::MAX, u64::MAX).as_bytes()), Err(INVALID_START));
        assert_eq!((parse_start(b"-"), parse_end(b"+")), (Ok(StreamId::MIN), Ok(StreamId::MAX)));
        assert_eq!((parse_start(b"("), parse_start(b"(-")), (Err(INVALID), Err(INVALID)));
    }

    #[test]
    fn new_ids_may_be_partly_automatic() {
        assert_eq!(parse_new_id(b"*"), Ok(NewId::Auto));
        assert_eq!(parse_new_id(b"7-*"), Ok(NewId::InMillis(7)));
        assert_eq!(parse_new_id(b"7"), Ok(NewId::Given(StreamId::new(7, 0))));
        assert_eq!(parse_new_id(b"*-7"), Err(INVALID));
    }
}

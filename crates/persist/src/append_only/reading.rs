//! Reading an append-only file: requests in RESP, annotations, and the valid part of a damaged file.
//!
//! The caller passes bytes from [`Reader::offset`] on, as many as it has. Nothing is copied. Transactions are tracked:
//! a file that ends inside of one is valid up to its `MULTI` only.
//!
//! Stricter than the loader of Redis and Valkey, as strict as their checking tools: each line ends with CR LF, each
//! number is decimal.

use std::fmt;
use std::ops::Range;

/// Longer lines are not valid. Numbers and annotations are far shorter.
const LINE_SIZE_MAX: usize = 1024;
/// More arguments than any request has.
const ARGUMENT_COUNT_MAX: i64 = i32::MAX as i64;
/// Larger than any argument; keeps sums of sizes within 64 bits.
const ARGUMENT_SIZE_MAX: i64 = 1 << 40;

/// Whether a file starts with a snapshot in RDB, by its first bytes (9 suffice).
#[must_use]
pub fn starts_with_rdb(first: &[u8]) -> bool {
    first.starts_with(b"REDIS0") || first.starts_with(b"VALKEY")
}

/// The annotation before the requests of a second (`aof-timestamp-enabled`).
#[must_use]
pub fn timestamp_annotation(unix_seconds: i64) -> Vec<u8> {
    format!("#TS:{unix_seconds}\r\n").into_bytes()
}

/// The next item of a file. Ranges refer to the passed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A request; its arguments are in [`Reader::arguments`].
    Request,
    /// A request without an effect, as for the others' loaders: a `MULTI` within a transaction, which goes on, or an `EXEC`
    /// outside of one. Servers that lost the end of a transaction and continued the file have left such.
    Stray(Stray),
    /// A line that starts with `#`; for `#TS:n`, the number.
    Annotation(Option<i64>),
    /// The item is not complete. It takes at least this many bytes in all.
    Incomplete(u64),
}

/// A mark of a transaction in a wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// A `MULTI` inside of a transaction.
    Multi,
    /// An `EXEC` without `MULTI`.
    Exec,
}

/// An invalid place, at `offset` in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The first byte of the invalid line or argument.
    pub offset: u64,
    /// The reason.
    pub reason: FormatReason,
}

/// The reason why a file is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatReason {
    /// Neither a request nor an annotation starts here.
    NoItem(u8),
    /// A length starts with another character.
    Prefix {
        /// `*` or `$`.
        expected: char,
        /// The byte found.
        got: u8,
    },
    /// A line or argument does not end with CR LF.
    LineEnd([u8; 2]),
    /// A number of arguments below 1, a size below 0, or either above its maximum.
    Length(i64),
}

/// The state between two items.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    offset: u64,
    line_count: u64,
    /// The offset of the `MULTI` of an unfinished transaction.
    multi_at: Option<u64>,
    arguments: Vec<Range<usize>>,
}

impl Reader {
    /// Starts at `offset`: 0, or the end of the preamble in RDB.
    #[must_use]
    pub fn new(offset: u64) -> Self {
        Reader { offset, ..Reader::default() }
    }

    /// The offset of the next item.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of lines before the next item.
    #[must_use]
    pub fn line_count(&self) -> u64 {
        self.line_count
    }

    /// Whether the next item is inside of a transaction.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.multi_at.is_some()
    }

    /// The offset up to which the file is valid: that of the next item, or of the unfinished transaction.
    #[must_use]
    pub fn valid_up_to(&self) -> u64 {
        self.multi_at.unwrap_or(self.offset)
    }

    /// The arguments of the last request.
    #[must_use]
    pub fn arguments(&self) -> &[Range<usize>] {
        &self.arguments
    }

    /// Reads the item at the start of `bytes`, and moves past it if it is complete: the next bytes to pass start at the
    /// new offset.
    ///
    /// # Errors
    /// The bytes are not valid, regardless of the rest of the file.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Item, FormatError> {
        let mut cursor = Cursor { bytes, at: 0, offset: self.offset, line_count: 0 };
        let mut item = match bytes.first() {
            None => return Ok(Item::Incomplete(1)),
            Some(b'#') => match cursor.line() {
                Ok(line) => Item::Annotation(line.strip_prefix(b"#TS:").and_then(decimal)),
                Err(Stop::Incomplete(size)) => return Ok(Item::Incomplete(size)),
                Err(Stop::Invalid(error)) => return Err(error),
            },
            Some(b'*') => match cursor.request(&mut self.arguments) {
                Ok(()) => Item::Request,
                Err(Stop::Incomplete(size)) => return Ok(Item::Incomplete(size)),
                Err(Stop::Invalid(error)) => return Err(error),
            },
            Some(other) => return Err(cursor.invalid(0, FormatReason::NoItem(*other))),
        };
        if item == Item::Request {
            let name = &bytes[self.arguments[0].clone()];
            if name.eq_ignore_ascii_case(b"multi") {
                match self.multi_at {
                    Some(_) => item = Item::Stray(Stray::Multi),
                    None => self.multi_at = Some(self.offset),
                }
            } else if name.eq_ignore_ascii_case(b"exec") && self.multi_at.take().is_none() {
                item = Item::Stray(Stray::Exec);
            }
        }
        self.offset += cursor.at as u64;
        self.line_count += cursor.line_count;
        Ok(item)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    offset: u64,
    line_count: u64,
}

enum Stop {
    Incomplete(u64),
    Invalid(FormatError),
}

impl<'a> Cursor<'a> {
    fn request(&mut self, arguments: &mut Vec<Range<usize>>) -> Result<(), Stop> {
        arguments.clear();
        let count = self.length('*', 1, ARGUMENT_COUNT_MAX)?;
        for _ in 0..count {
            let size = self.length('$', 0, ARGUMENT_SIZE_MAX)?;
            let end = self.at as u64 + size as u64;
            let Some(line_end) = usize::try_from(end).ok().and_then(|end| self.bytes.get(end..end + 2))
            else {
                return Err(Stop::Incomplete(end + 2));
            };
            let end = end as usize;
            if line_end != b"\r\n" {
                return Err(Stop::Invalid(
                    self.invalid(end, FormatReason::LineEnd([line_end[0], line_end[1]])),
                ));
            }
            arguments.push(self.at..end);
            self.at = end + 2;
            self.line_count += 1;
        }
        Ok(())
    }

    /// A line of a prefix and a number.
    fn length(&mut self, prefix: char, min: i64, max: i64) -> Result<i64, Stop> {
        let start = self.at;
        if let Some(&got) = self.bytes.get(start)
            && got != prefix as u8
        {
            return Err(Stop::Invalid(self.invalid(start, FormatReason::Prefix { expected: prefix, got })));
        }
        let line = self.line()?;
        let Some(value) = decimal(&line[1..]) else {
            let digit_count = line[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let rest = &self.bytes[start + 1 + digit_count..];
            return Err(Stop::Invalid(self.invalid(start, FormatReason::LineEnd([rest[0], rest[1]]))));
        };
        if !(min..=max).contains(&value) {
            return Err(Stop::Invalid(self.invalid(start, FormatReason::Length(value))));
        }
        Ok(value)
    }

    /// A line, without its end.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let Some(size) = rest.iter().take(LINE_SIZE_MAX).position(|byte| *byte == b'\n') else {
            if rest.len() >= LINE_SIZE_MAX {
                return Err(Stop::Invalid(self.invalid(start, FormatReason::LineEnd([rest[0], rest[1]]))));
            }
            return Err(Stop::Incomplete(self.bytes.len() as u64 + 1));
        };
        if size == 0 || rest[size - 1] != b'\r' {
            let before = if size == 0 { b'\n' } else { rest[size - 1] };
            return Err(Stop::Invalid(self.invalid(start, FormatReason::LineEnd([before, b'\n']))));
        }
        self.at += size + 1;
        self.line_count += 1;
        Ok(&rest[..size - 1])
    }

    fn invalid(&self, at: usize, reason: FormatReason) -> FormatError {
        FormatError { offset: self.offset + at as u64, reason }
    }
}

/// A decimal number without anything else.
fn decimal(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The server's policy for a file that does not end with a complete request outside of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPolicy {
    /// `aof-load-truncated`: cuts off an incomplete end.
    pub load_truncated: bool,
    /// `aof-load-corrupt-tail-max-size`: cuts off an invalid end that is shorter than this.
    pub corrupt_tail_size_max: u64,
}

/// The decision about a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file is loaded, and cut at this offset.
    TruncateAt(u64),
    /// The file is not loaded; it is valid up to this offset.
    Refuse(u64),
}

impl LoadPolicy {
    /// For a file that ends before `reader` found a complete item, or in a transaction.
    #[must_use]
    pub fn truncated(self, reader: &Reader) -> Damage {
        let valid_up_to = reader.valid_up_to();
        if self.load_truncated { Damage::TruncateAt(valid_up_to) } else { Damage::Refuse(valid_up_to) }
    }

    /// For a file of `file_size` bytes in which `reader` found an error.
    #[must_use]
    pub fn corrupt(self, reader: &Reader, file_size: u64) -> Damage {
        let valid_up_to = reader.valid_up_to();
        if file_size - valid_up_to < self.corrupt_tail_size_max {
            Damage::TruncateAt(valid_up_to)
        } else {
            Damage::Refuse(valid_up_to)
        }
    }
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stray::Multi => "MULTI within a transaction, which goes on",
            Stray::Exec => "EXEC without MULTI, which has no effect",
        })
    }
}

impl fmt::Display for FormatReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatReason::NoItem(got) => {
                write!(f, "Expected a request or an annotation, got: '{}'", got.escape_ascii())
            }
            FormatReason::Prefix { expected, got } => {
                write!(f, "Expected prefix '{expected}', got: '{}'", got.escape_ascii())
            }
            FormatReason::LineEnd([first, second]) => {
                write!(f, "Expected \\r\\n, got: {first:02x}{second:02x}")
            }
            FormatReason::Length(value) => write!(f, "The length {value} is out of range"),
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of a text in which `|` stands for CR LF, and how the file ends.
    fn check(text: &str, expected: &str) {
        let bytes = text.replace('|', "\r\n").into_bytes();
        assert_eq!(read_all(&bytes), expected, "{text}");
        // The same if bytes arrive one by one.
        let mut reader = Reader::new(0);
        let mut end = 0;
        while end < bytes.len() {
            end += 1;
            match reader.read(&bytes[reader.offset() as usize..end]) {
                Ok(Item::Incomplete(size)) => assert!(reader.offset() + size > end as u64),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        assert!(expected.ends_with(&reader.valid_up_to().to_string()), "{text}: {}", reader.valid_up_to());
    }

    fn read_all(bytes: &[u8]) -> String {
        let mut reader = Reader::new(0);
        let mut text = String::new();
        let ending = loop {
            let rest = &bytes[reader.offset() as usize..];
            match reader.read(rest) {
                Ok(Item::Incomplete(_)) if rest.is_empty() => break "end".to_owned(),
                Ok(Item::Incomplete(_)) => break "truncated".to_owned(),
                Ok(Item::Annotation(seconds)) => text += &format!("#{seconds:?} "),
                Ok(Item::Stray(stray)) => text += &format!("({stray:?}) "),
                Ok(Item::Request) => {
                    let words =
                        reader.arguments().iter().map(|at| String::from_utf8_lossy(&rest[at.clone()]));
                    text += &format!("{} ", words.collect::<Vec<_>>().join(","));
                }
                Err(error) => break error.to_string(),
            }
        };
        format!("{text}{ending} {}", reader.valid_up_to())
    }

    #[test]
    fn reads_requests_and_annotations() {
        check("", "end 0");
        check("*1|$4|PING|", "PING end 14");
        check("#TS:12|*2|$3|GET|$0||#other|", "#Some(12) GET, #None end 35");
        check("*2|$3|SET|$4|a\r\n\n|", "SET,a\r\n\n end 23");
    }

    #[test]
    fn finds_the_end_of_a_truncated_file() {
        let whole = "*1|$4|PING|";
        for (end, _) in whole.char_indices().skip(1) {
            check(&format!("{whole}{}", &whole[..end]), "PING truncated 14");
        }
        check("*1|$4|PING|#TS:1", "PING truncated 14");
        check("*1|$5|MULTI|*1|$4|PING|", "MULTI PING end 0");
        check("*1|$1|a|*1|$5|multi|*1|$4|PI", "a multi truncated 11");
        check("*1|$5|MULTI|*1|$1|a|*1|$4|EXEC|*1", "MULTI a EXEC truncated 40");
    }

    #[test]
    fn finds_the_first_error() {
        check("*1|$1|a|x", "a 0xb: Expected a request or an annotation, got: 'x' 11");
        check("*1|x", "0x4: Expected prefix '$', got: 'x' 0");
        check("*1|$1|ab|", "0x9: Expected \\r\\n, got: 620d 0");
        check("*1|$1x|ab|", "0x4: Expected \\r\\n, got: 780d 0");
        check("*1\n$1|a|", "0x0: Expected \\r\\n, got: 310a 0");
        check("*0|", "0x0: The length 0 is out of range 0");
        check("*1|$-1|", "0x4: The length -1 is out of range 0");
        check("*1|$9999999999999999|", "0x4: The length 9999999999999999 is out of range 0");
    }

    #[test]
    fn marks_of_transactions_in_wrong_places_are_no_errors() {
        check("*1|$1|a|*1|$4|EXEC|*1|$1|b|", "a (Exec) b end 36");
        let nested = "*1|$5|MULTI|*1|$1|a|*1|$5|multi|*1|$1|b|";
        // An unfinished transaction begins at the first of its marks.
        check(nested, "MULTI a (Multi) b end 0");
        check(&format!("{nested}*1|$4|EXEC|*1|$1|c|"), "MULTI a (Multi) b EXEC c end 77");
    }

    #[test]
    fn the_policy_decides_on_damage() {
        let mut reader = Reader::new(100);
        assert_eq!(reader.read(b"*1\r\n$1\r\na\r\n"), Ok(Item::Request));
        let policy =
            |load_truncated, corrupt_tail_size_max| LoadPolicy { load_truncated, corrupt_tail_size_max };
        assert_eq!(policy(true, 0).truncated(&reader), Damage::TruncateAt(111));
        assert_eq!(policy(false, 9).truncated(&reader), Damage::Refuse(111));
        assert_eq!(policy(true, 0).corrupt(&reader, 112), Damage::Refuse(111));
        assert_eq!(policy(true, 10).corrupt(&reader, 120), Damage::TruncateAt(111));
        assert_eq!(policy(true, 10).corrupt(&reader, 121), Damage::Refuse(111));
    }

    #[test]
    fn snapshots_are_detected_by_their_first_bytes() {
        assert!(starts_with_rdb(b"REDIS0011") && starts_with_rdb(b"VALKEY080"));
        assert!(!starts_with_rdb(b"*1\r\n$4\r\n") && !starts_with_rdb(b"REDIS"));
        assert_eq!(timestamp_annotation(5), b"#TS:5\r\n");
    }
}

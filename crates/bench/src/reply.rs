//! Skips replies under load: parses the length lines and skips the bodies unread. `wire::response` reads whole replies,
//! and an incomplete one again from its start, which would limit the measured rates; replies of which the content matters
//! are read with it, in `control.rs`.
//!
//! Owns only the position inside the current reply, so a reply may arrive in any number of pieces and bodies
//! of any size are never buffered. Counts replies, errors and nulls.
//! Invariant: between two calls the unconsumed rest is at most one incomplete line.

/// Counts of the replies skipped so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Complete replies.
    pub replies: u64,
    /// Error replies, including errors inside arrays.
    pub errors: u64,
    /// Null replies (missing keys), including nulls inside arrays.
    pub nulls: u64,
    /// Text of the first error.
    pub first_error: Option<String>,
}

impl Tally {
    /// Adds the counts of another connection or thread.
    pub fn merge(&mut self, other: &Self) {
        self.replies += other.replies;
        self.errors += other.errors;
        self.nulls += other.nulls;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}

impl Tally {
    fn note_error(&mut self, text: &[u8]) {
        self.errors += 1;
        if self.first_error.is_none() {
            let text = &text[..text.len().min(ERROR_SIZE_KEPT)];
            self.first_error = Some(String::from_utf8_lossy(text).into_owned());
        }
    }
}

/// The input is not RESP.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a reply: {0:?}")]
pub struct NotAReply(String);

/// Number of bytes kept of an error's text.
const ERROR_SIZE_KEPT: usize = 160;

/// Maximum size of a header line: an error text or a simple string.
const LINE_SIZE_MAX: usize = 64 * 1024;

/// The parse position inside a stream of replies.
#[derive(Clone, Debug, Default)]
pub struct ReplySkipper {
    /// Remaining bytes of a string body, including its CRLF.
    body_left: usize,
    /// Remaining elements of the current reply; 0 between replies.
    elements_left: u64,
}

impl ReplySkipper {
    /// Skips as much of `input` as possible and returns the number of consumed bytes. The rest is the
    /// beginning of a line; the caller prepends it to the next input.
    #[inline]
    pub fn skip(&mut self, input: &[u8], tally: &mut Tally) -> Result<usize, NotAReply> {
        let mut at = 0;
        loop {
            if self.body_left > 0 {
                let step = self.body_left.min(input.len() - at);
                at += step;
                self.body_left -= step;
                if self.body_left > 0 {
                    return Ok(at);
                }
                self.element(0, tally);
            }
            let rest = &input[at..];
            let Some(&kind) = rest.first() else {
                return Ok(at);
            };
            let header = match kind {
                b'$' => self.string_header(rest, tally)?,
                b'+' if rest.starts_with(b"+OK\r\n") => {
                    self.element(0, tally);
                    Some(5)
                }
                _ => self.other_header(kind, rest, tally)?,
            };
            match header {
                Some(size) => at += size,
                None => return Ok(at),
            }
        }
    }

    /// Parses a `$` line: the length, then that many bytes.
    #[inline]
    fn string_header(&mut self, rest: &[u8], tally: &mut Tally) -> Result<Option<usize>, NotAReply> {
        let mut length = 0usize;
        for (index, &byte) in rest.iter().enumerate().skip(1) {
            match byte {
                b'0'..=b'9' if index < 12 => length = length * 10 + usize::from(byte - b'0'),
                b'\r' if index > 1 => {
                    if index + 1 == rest.len() {
                        return Ok(None);
                    }
                    self.body_left = length + 2;
                    return Ok(Some(index + 2));
                }
                b'-' if index == 1 => return self.other_header(b'$', rest, tally),
                _ => return Err(not_a_reply(rest)),
            }
        }
        Ok(None)
    }

    /// Parses any other line, and `$-1`.
    fn other_header(&mut self, kind: u8, rest: &[u8], tally: &mut Tally) -> Result<Option<usize>, NotAReply> {
        let Some(newline) = memchr::memchr(b'\n', rest) else {
            return if rest.len() > LINE_SIZE_MAX { Err(not_a_reply(rest)) } else { Ok(None) };
        };
        let line = rest[1..newline].strip_suffix(b"\r").ok_or_else(|| not_a_reply(rest))?;
        let count = || parse_count(line).ok_or_else(|| not_a_reply(rest));
        match kind {
            b'+' | b':' | b'#' | b',' | b'(' => self.element(0, tally),
            b'-' => {
                tally.note_error(line);
                self.element(0, tally);
            }
            b'_' => {
                tally.nulls += 1;
                self.element(0, tally);
            }
            b'$' | b'*' if line == b"-1" => {
                tally.nulls += 1;
                self.element(0, tally);
            }
            b'!' => {
                tally.note_error(b"(an error sent as a bulk string)");
                self.body_left = count()? as usize + 2;
            }
            b'=' => self.body_left = count()? as usize + 2,
            b'*' | b'~' => self.element(count()?, tally),
            b'%' => self.element(2 * count()?, tally),
            // An attribute is not an element: the reply that it annotates follows.
            b'|' => self.elements_left = self.elements_left.max(1) + 2 * count()?,
            _ => return Err(not_a_reply(rest)),
        }
        Ok(Some(newline + 1))
    }

    /// Counts one element, which adds `children` elements. The reply is complete when none remains.
    #[inline]
    fn element(&mut self, children: u64, tally: &mut Tally) {
        self.elements_left = self.elements_left.max(1) - 1 + children;
        tally.replies += u64::from(self.elements_left == 0);
    }
}

fn parse_count(line: &[u8]) -> Option<u64> {
    let digits = !line.is_empty() && line.len() <= 12 && line.iter().all(u8::is_ascii_digit);
    digits.then(|| line.iter().fold(0, |count, byte| count * 10 + u64::from(byte - b'0')))
}

fn not_a_reply(rest: &[u8]) -> NotAReply {
    NotAReply(String::from_utf8_lossy(&rest[..rest.len().min(60)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips in pieces of `step` bytes and keeps the unconsumed rest, as a connection does.
    fn skip_in_steps(input: &[u8], step: usize) -> Result<Tally, NotAReply> {
        let (mut skipper, mut tally, mut pending) = (ReplySkipper::default(), Tally::default(), Vec::new());
        for piece in input.chunks(step) {
            pending.extend_from_slice(piece);
            let done = skipper.skip(&pending, &mut tally)?;
            pending.drain(..done);
        }
        assert!(pending.is_empty(), "{pending:?}");
        Ok(tally)
    }

    fn check(input: &str, replies: u64, errors: u64, nulls: u64) {
        for step in [1, 2, 3, 7, 1_000] {
            let tally = skip_in_steps(input.as_bytes(), step).unwrap();
            assert_eq!(
                (tally.replies, tally.errors, tally.nulls),
                (replies, errors, nulls),
                "{input:?} by {step}"
            );
        }
    }

    #[test]
    fn simple_replies() {
        check("+OK\r\n+PONG\r\n:12\r\n", 3, 0, 0);
        check("$5\r\nhello\r\n$0\r\n\r\n$-1\r\n", 3, 0, 1);
        check("$12\r\nwith\r\n$lines\r\n", 1, 0, 0);
        check("-ERR no\r\n-WRONGTYPE x\r\n+OK\r\n", 3, 2, 0);
    }

    #[test]
    fn nested_replies_count_once() {
        check("*2\r\n$1\r\na\r\n$-1\r\n+OK\r\n", 2, 0, 1);
        check("*0\r\n*-1\r\n", 2, 0, 1);
        check("*3\r\n*2\r\n:1\r\n:2\r\n*0\r\n-ERR in EXEC\r\n:1\r\n", 2, 1, 0);
        check("*1\r\n*1\r\n*1\r\n*0\r\n", 1, 0, 0);
    }

    #[test]
    fn resp3_replies() {
        check("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n#t\r\n_\r\n,1.5\r\n(123\r\n~1\r\n+x\r\n", 5, 0, 1);
        check("|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n+OK\r\n", 2, 0, 0);
        check("=8\r\ntxt:some\r\n!5\r\nERR x\r\n", 2, 1, 0);
    }

    #[test]
    fn the_first_error_is_kept() {
        let tally = skip_in_steps(b"+OK\r\n-ERR first\r\n-ERR second\r\n", 4).unwrap();
        assert_eq!(tally.first_error.as_deref(), Some("ERR first"));
    }

    #[test]
    fn partial_bodies_are_consumed_immediately() {
        let (mut skipper, mut tally) = (ReplySkipper::default(), Tally::default());
        assert_eq!(skipper.skip(b"$100\r\nabc", &mut tally), Ok(9));
        assert_eq!(skipper.skip(&[b'x'; 97], &mut tally), Ok(97));
        assert_eq!(skipper.skip(b"\r\n$1", &mut tally), Ok(2));
        assert_eq!(tally.replies, 1);
    }

    #[test]
    fn invalid_input_is_refused() {
        for input in ["HTTP/1.1 400\r\n", "$x\r\n", "$\r\n", "*-2\r\n", "+no carriage return\n", ">1\r\n"] {
            assert!(skip_in_steps(input.as_bytes(), 1_000).is_err(), "{input}");
        }
    }
}

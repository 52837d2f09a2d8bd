//! Replies, for a connection of either protocol version.
//!
//! A [`ReplyBuffer`] appends to the caller's bytes. Types that RESP2 lacks are written in Redis's fallback
//! forms: maps and sets as arrays, doubles and big numbers as bulk strings, booleans as integers, both nulls as
//! length -1.
//!
//! Does not check that an aggregate has the announced number of elements: the handlers and their tests ensure
//! it.

use crate::number;

/// The protocol version of a connection, as chosen by `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The initial version of every connection.
    #[default]
    Resp2,
    /// With types for maps, sets, doubles and so on.
    Resp3,
}

/// Writes replies at the end of a byte buffer.
#[derive(Debug)]
pub struct ReplyBuffer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

/// A position in the output to which it can be truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

impl Mark {
    /// Bytes of output before it.
    #[must_use]
    pub fn position(self) -> usize {
        self.0
    }
}

/// The header of an aggregate of unknown length, to be completed with the length.
#[derive(Debug)]
#[must_use]
pub struct Deferred {
    at: usize,
    /// Protocol elements per counted element: 2 for a map written as an array.
    factor: u64,
}

/// Bytes reserved for a deferred header: a type byte, one digit and the line end.
const DEFERRED_SIZE: usize = 4;

impl<'a> ReplyBuffer<'a> {
    /// A writer at the end of `out`.
    #[must_use]
    #[inline(always)]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// Reborrows the writer for a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> ReplyBuffer<'_> {
        ReplyBuffer { out: self.out, protocol: self.protocol }
    }

    /// The protocol version of the output.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the version: the reply to `HELLO` already has the new one.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Whether the output is RESP3.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// The current position.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Discards everything since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.out.truncate(mark.0);
    }

    /// Moves everything after a position into a buffer of exactly that size.
    pub fn split_off(&mut self, position: usize) -> Vec<u8> {
        let end = self.out[position..].to_vec();
        self.out.truncate(position);
        end
    }

    /// Bytes written since `mark`.
    #[must_use]
    pub fn written_since(&self, mark: Mark) -> &[u8] {
        &self.out[mark.0..]
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; line ends inside become blanks.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// An error: `text` starts with its code (`ERR`, `WRONGTYPE`, ...). Line ends around it are dropped, line
    /// ends inside become blanks.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'-', text.as_ref());
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        if let Ok(value @ 0..100) = u64::try_from(value) {
            number::write_header(self.out, b':', value);
        } else {
            number::write_line(self.out, b':', value);
        }
    }

    /// A bulk string.
    #[inline(always)]
    pub fn bulk(&mut self, bytes: &[u8]) {
        // Reserves the whole size: otherwise the line end after a long string would double the buffer.
        self.out.reserve(bytes.len() + 32);
        number::write_header(self.out, b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// The header and end of a bulk string of `size` bytes. Returns the output position where the caller sends
    /// the string itself.
    pub fn bulk_elsewhere(&mut self, size: usize) -> usize {
        number::write_header(self.out, b'$', size as u64);
        let at = self.out.len();
        self.out.extend_from_slice(b"\r\n");
        at
    }

    /// A bulk string composed of parts.
    pub fn bulk_parts(&mut self, parts: &[&[u8]]) {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        self.out.reserve(size + 32);
        number::write_header(self.out, b'$', size as u64);
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer as a decimal bulk string.
    pub fn bulk_int(&mut self, value: i64) {
        let size = number::decimal_digit_count(value.unsigned_abs()) + usize::from(value < 0);
        number::write_header(self.out, b'$', size as u64);
        number::write_i64(self.out, value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Null, in place of a string.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Null, in place of an array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The start of an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        number::write_header(self.out, b'*', len as u64);
    }

    /// The start of a map of `len` pairs.
    pub fn map(&mut self, len: usize) {
        let (type_byte, factor) = self.map_header();
        number::write_header(self.out, type_byte, len as u64 * factor);
    }

    /// The start of a set of `len` elements.
    pub fn set(&mut self, len: usize) {
        let type_byte = self.type_byte_of(b'~');
        number::write_header(self.out, type_byte, len as u64);
    }

    /// The start of a push of `len` elements; in RESP2 an array.
    pub fn push(&mut self, len: usize) {
        let type_byte = self.type_byte_of(b'>');
        number::write_header(self.out, type_byte, len as u64);
    }

    /// The start of `len` pairs of attributes of the reply that follows. RESP2 has no attributes: then nothing
    /// is written, false is returned, and the pairs must not be written either.
    #[must_use]
    pub fn attribute(&mut self, len: usize) -> bool {
        if self.is_resp3() {
            number::write_header(self.out, b'|', len as u64);
        }
        self.is_resp3()
    }

    /// A double.
    pub fn double(&mut self, value: f64) {
        self.float_with(|out| number::write_f64(out, value));
    }

    /// A floating point number with a text of the caller: a bulk string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        self.float_with(|out| out.extend_from_slice(text));
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// An integer of any size, in decimal.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// A verbatim string: a text with its format in three letters (`txt`, `mkd`).
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                number::write_header(self.out, b'=', text.len() as u64 + 4);
                self.out.extend_from_slice(format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Bytes that are already in protocol format.
    pub fn raw(&mut self, protocol: &[u8]) {
        self.out.extend_from_slice(protocol);
    }

    /// The start of an array whose length is set later by [`Self::set_len`].
    pub fn deferred_array(&mut self) -> Deferred {
        self.deferred(b'*', 1)
    }

    /// The start of a map whose length is set later by [`Self::set_len`].
    pub fn deferred_map(&mut self) -> Deferred {
        let (type_byte, factor) = self.map_header();
        self.deferred(type_byte, factor)
    }

    /// The start of a set whose length is set later by [`Self::set_len`].
    pub fn deferred_set(&mut self) -> Deferred {
        let type_byte = self.type_byte_of(b'~');
        self.deferred(type_byte, 1)
    }

    /// Sets the length of a deferred aggregate: elements, or pairs of a map. Nested aggregates are completed
    /// from the inside out.
    ///
    /// Moves the bytes written since if the length has more than one digit: O(bytes since). Returns the
    /// distance in bytes.
    pub fn set_len(&mut self, deferred: Deferred, len: usize) -> usize {
        let count = len as u64 * deferred.factor;
        if count < 10 {
            self.out[deferred.at + 1] = b'0' + count as u8;
            return 0;
        }
        let content_at = deferred.at + DEFERRED_SIZE;
        let end = self.out.len();
        let shift = number::decimal_digit_count(count) - 1;
        self.out.resize(end + shift, 0);
        self.out.copy_within(content_at..end, content_at + shift);
        let mut buffer = [0; number::I64_TEXT_SIZE_MAX];
        let digits = number::format_u64(count, &mut buffer);
        self.out[deferred.at + 1..][..digits.len()].copy_from_slice(digits);
        self.out[content_at + shift - 2..content_at + shift].copy_from_slice(b"\r\n");
        shift
    }

    fn deferred(&mut self, type_byte: u8, factor: u64) -> Deferred {
        let at = self.out.len();
        self.out.extend_from_slice(&[type_byte, b'0', b'\r', b'\n']);
        Deferred { at, factor }
    }

    /// The type byte of an aggregate that RESP2 writes as an array.
    fn type_byte_of(&self, resp3_type_byte: u8) -> u8 {
        match self.protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => resp3_type_byte,
        }
    }

    /// The type byte of a map, and the number of elements per pair.
    fn map_header(&self) -> (u8, u64) {
        match self.protocol {
            Protocol::Resp2 => (b'*', 2),
            Protocol::Resp3 => (b'%', 1),
        }
    }

    /// Writes a float's text with the header of the protocol version.
    fn float_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.protocol {
            Protocol::Resp2 => {
                let start = self.out.len();
                write(self.out);
                let size = self.out.len() - start;
                number::write_header(self.out, b'$', size as u64);
                self.out[start..].rotate_left(size);
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                write(self.out);
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a line of text, in which quoted input must not break the protocol.
    fn line(&mut self, type_byte: u8, text: &[u8]) {
        self.out.push(type_byte);
        if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
            let start = text.iter().position(is_text).unwrap_or(text.len());
            let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
            self.out.extend(text[start..end].iter().map(|byte| if is_text(byte) { *byte } else { b' ' }));
        } else {
            self.out.extend_from_slice(text);
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `write` in RESP2 and in RESP3.
    fn both(write: impl Fn(&mut ReplyBuffer<'_>)) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut out = b"before|".to_vec();
            write(&mut ReplyBuffer::new(&mut out, protocol));
            let text = out.strip_prefix(b"before|").expect("earlier output stays");
            String::from_utf8(text.to_vec()).unwrap()
        })
    }

    #[test]
    fn each_type_is_written_in_both_versions() {
        type Write = fn(&mut ReplyBuffer<'_>);
        let cases: &[(Write, &str, &str)] = &[
            (|reply| reply.ok(), "+OK\r\n", "+OK\r\n"),
            (|reply| reply.simple("a b"), "+a b\r\n", "+a b\r\n"),
            (|reply| reply.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
            (|reply| reply.error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
            (|reply| reply.error("\r\nERR a\nb\rc\n\r\n"), "-ERR a b c\r\n", "-ERR a b c\r\n"),
            (|reply| reply.error("\r\n"), "-\r\n", "-\r\n"),
            (|reply| reply.integer(0), ":0\r\n", ":0\r\n"),
            (|reply| reply.integer(42), ":42\r\n", ":42\r\n"),
            (|reply| reply.integer(100), ":100\r\n", ":100\r\n"),
            (|reply| reply.integer(-1), ":-1\r\n", ":-1\r\n"),
            (|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|reply| reply.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|reply| reply.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|reply| reply.bulk_int(-12), "$3\r\n-12\r\n", "$3\r\n-12\r\n"),
            (|reply| reply.bulk_parts(&[b"a", b"", b"bc"]), "$3\r\nabc\r\n", "$3\r\nabc\r\n"),
            (|reply| reply.null(), "$-1\r\n", "_\r\n"),
            (|reply| reply.null_array(), "*-1\r\n", "_\r\n"),
            (|reply| reply.array(0), "*0\r\n", "*0\r\n"),
            (|reply| reply.array(12), "*12\r\n", "*12\r\n"),
            (|reply| reply.array(12345), "*12345\r\n", "*12345\r\n"),
            (|reply| reply.map(7), "*14\r\n", "%7\r\n"),
            (|reply| reply.set(3), "*3\r\n", "~3\r\n"),
            (|reply| reply.push(3), "*3\r\n", ">3\r\n"),
            (|reply| assert_eq!(reply.attribute(1), reply.is_resp3()), "", "|1\r\n"),
            (|reply| reply.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|reply| reply.double(-3.0), "$2\r\n-3\r\n", ",-3\r\n"),
            (|reply| reply.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|reply| reply.double_text(b"4.10"), "$4\r\n4.10\r\n", ",4.10\r\n"),
            (|reply| reply.boolean(true), ":1\r\n", "#t\r\n"),
            (|reply| reply.boolean(false), ":0\r\n", "#f\r\n"),
            (|reply| reply.big_number(b"-123"), "$4\r\n-123\r\n", "(-123\r\n"),
            (|reply| reply.verbatim(b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|reply| reply.raw(b":1\r\n"), ":1\r\n", ":1\r\n"),
        ];
        for (row, &(write, resp2, resp3)) in cases.iter().enumerate() {
            assert_eq!(both(write), [resp2, resp3], "row {row}");
        }
    }

    #[test]
    fn deferred_lengths_are_filled_in() {
        for len in [0, 1, 4, 5, 9, 10, 99, 100, 12_345] {
            let written = both(|reply| {
                let map = reply.deferred_map();
                let array = reply.deferred_array();
                reply.integer(1);
                reply.set_len(array, len);
                let set = reply.deferred_set();
                reply.set_len(set, len);
                reply.bulk(b"end");
                reply.set_len(map, len);
            });
            let pairs = len * 2;
            assert_eq!(
                written,
                [
                    format!("*{pairs}\r\n*{len}\r\n:1\r\n*{len}\r\n$3\r\nend\r\n"),
                    format!("%{len}\r\n*{len}\r\n:1\r\n~{len}\r\n$3\r\nend\r\n"),
                ]
            );
        }
    }

    #[test]
    fn truncating_to_a_mark_removes_later_output() {
        let written = both(|reply| {
            reply.integer(1);
            let mark = reply.mark();
            reply.array(2);
            reply.bulk(b"half");
            assert_eq!(reply.written_since(mark), b"*2\r\n$4\r\nhalf\r\n");
            reply.truncate(mark);
            reply.error("ERR gone");
        });
        assert_eq!(written[0], ":1\r\n-ERR gone\r\n");
    }
}

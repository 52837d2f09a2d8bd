//! Parses RESP2 and RESP3 replies into trees and finds their end. Written for checking, not for speed.

use std::fmt;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, and `!` of RESP3
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`, and `=` of RESP3 with its three letters in front
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or `_`
    Null,
    /// `,` and `(`, kept as text
    Number(Vec<u8>),
    /// `#`
    Boolean(bool),
    /// `*`, `~` and `>`, with that byte
    List(u8, Vec<Reply>),
    /// `%`
    Map(Vec<(Reply, Reply)>),
    /// `|` with the reply that it annotates
    Attributed(Vec<(Reply, Reply)>, Box<Reply>),
}

/// The input can't be the start of a reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// Parses a reply at the front of a buffer and returns it with its length in bytes; `None` if it is
/// incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.reply() {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed(what)) => Err(Malformed(what)),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

enum Stop {
    Incomplete,
    Malformed(String),
}

impl<'a> Reader<'a> {
    fn reply(&mut self) -> Result<Reply, Stop> {
        let line = self.line()?;
        let Some((&kind, rest)) = line.split_first() else {
            return Err(Stop::Malformed("an empty line instead of a reply".to_owned()));
        };
        match kind {
            b'+' => Ok(Reply::Simple(rest.to_vec())),
            b'-' => Ok(Reply::Error(rest.to_vec())),
            b':' => Ok(Reply::Integer(number(rest)?)),
            b'$' | b'=' | b'!' => match number(rest)? {
                -1 => Ok(Reply::Null),
                length if kind == b'!' => Ok(Reply::Error(self.blob(length)?)),
                length => Ok(Reply::Bulk(self.blob(length)?)),
            },
            b'_' => Ok(Reply::Null),
            b',' | b'(' => Ok(Reply::Number(rest.to_vec())),
            b'#' => Ok(Reply::Boolean(rest == b"t")),
            b'*' | b'~' | b'>' => match number(rest)? {
                -1 => Ok(Reply::Null),
                count => Ok(Reply::List(kind, (0..count).map(|_| self.reply()).collect::<Result<_, _>>()?)),
            },
            b'%' => Ok(Reply::Map(self.pairs(number(rest)?)?)),
            b'|' => {
                let attributes = self.pairs(number(rest)?)?;
                Ok(Reply::Attributed(attributes, Box::new(self.reply()?)))
            }
            other => Err(Stop::Malformed(format!("no reply starts with {:?}", char::from(other)))),
        }
    }

    fn pairs(&mut self, count: i64) -> Result<Vec<(Reply, Reply)>, Stop> {
        (0..count).map(|_| Ok((self.reply()?, self.reply()?))).collect()
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or(Stop::Incomplete)?;
        self.at += end + 2;
        Ok(&rest[..end])
    }

    fn blob(&mut self, length: i64) -> Result<Vec<u8>, Stop> {
        let length =
            usize::try_from(length).map_err(|_| Stop::Malformed(format!("a blob of {length} bytes")))?;
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Err(Stop::Incomplete);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(Stop::Malformed("a blob that is not ended by CR LF".to_owned()));
        }
        self.at += length + 2;
        Ok(rest[..length].to_vec())
    }
}

fn number(text: &[u8]) -> Result<i64, Stop> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| Stop::Malformed(format!("{text:?} is not an integer")))
}

/// Formats bytes as redis-cli does, truncated after 200 bytes.
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 200;
        write!(out, "\"{}\"", self.0[..self.0.len().min(SHOWN_MAX)].escape_ascii())?;
        if self.0.len() > SHOWN_MAX {
            write!(out, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Reply) {
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(None), "after {end} bytes");
        }
        assert_eq!(parse(bytes), Ok(Some((expected, bytes.len()))));
    }

    #[test]
    fn each_reply_type_has_its_length() {
        let one = || Reply::Integer(1);
        check(b"+OK\r\n", Reply::Simple(b"OK".to_vec()));
        check(b"-ERR no\r\n", Reply::Error(b"ERR no".to_vec()));
        check(b"!5\r\nERR\r\n\r\n", Reply::Error(b"ERR\r\n".to_vec()));
        check(b":-12\r\n", Reply::Integer(-12));
        check(b"$2\r\n\r\n\r\n", Reply::Bulk(b"\r\n".to_vec()));
        check(b"=5\r\ntxt:a\r\n", Reply::Bulk(b"txt:a".to_vec()));
        check(b"$-1\r\n", Reply::Null);
        check(b"*-1\r\n", Reply::Null);
        check(b"_\r\n", Reply::Null);
        check(b",1.5\r\n", Reply::Number(b"1.5".to_vec()));
        check(b"#t\r\n", Reply::Boolean(true));
        check(b"*2\r\n:1\r\n*0\r\n", Reply::List(b'*', vec![one(), Reply::List(b'*', vec![])]));
        check(b"%1\r\n+k\r\n:1\r\n", Reply::Map(vec![(Reply::Simple(b"k".to_vec()), one())]));
        check(b"|1\r\n:1\r\n:1\r\n:1\r\n", Reply::Attributed(vec![(one(), one())], Box::new(one())));
    }

    #[test]
    fn invalid_input_is_refused() {
        assert!(parse(b"?\r\n").is_err());
        assert!(parse(b"$x\r\n").is_err());
        assert!(parse(b"$1\r\nabcd").is_err());
    }
}

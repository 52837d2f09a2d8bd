//! A reply with its whole content.

use super::cursor::{Cursor, Length, Stop};
use super::{ResponseError, skip_reply};
use crate::number;

/// Maximum nesting of aggregates; deeper replies are refused, because each level uses stack.
const NESTING_MAX: usize = 256;

/// A reply of any type of either protocol version.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, or `!` for a text that is long or has several lines.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// RESP2's `$-1`.
    NullBulk,
    /// RESP2's `*-1`.
    NullArray,
    /// RESP3's `_`.
    Null,
    /// `,`
    Double(f64),
    /// `#`
    Boolean(bool),
    /// `(`, in decimal.
    BigNumber(Vec<u8>),
    /// `=`: three letters for the format, and the text.
    Verbatim([u8; 3], Vec<u8>),
    /// `*`
    Array(Vec<Reply>),
    /// `%`
    Map(Vec<(Reply, Reply)>),
    /// `~`
    Set(Vec<Reply>),
    /// `>`
    Push(Vec<Reply>),
    /// `|`: attributes of the reply that follows, and that reply.
    Attributed(Vec<(Reply, Reply)>, Box<Reply>),
}

impl Reply {
    /// Reads the reply at the front of `bytes`, and its size in bytes; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ResponseError> {
        // Nothing is allocated for elements that have not arrived, regardless of the announced length.
        if skip_reply(bytes)?.is_none() {
            return Ok(None);
        }
        let mut cursor = Cursor { rest: bytes };
        match read_reply(&mut cursor, 0) {
            Ok(reply) => Ok(Some((reply, bytes.len() - cursor.rest.len()))),
            Err(stop) => stop.into_result(),
        }
    }

    /// Whether it is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Self::Error(_) => true,
            Self::Attributed(_, reply) => reply.is_error(),
            _ => false,
        }
    }

    /// The bytes of a string of any type, or of an error.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(text) | Self::Error(text) | Self::Bulk(text) | Self::Verbatim(_, text) => Some(text),
            Self::Attributed(_, reply) => reply.text(),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    #[must_use]
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            Self::Attributed(_, reply) => reply.elements(),
            _ => None,
        }
    }
}

fn read_reply(cursor: &mut Cursor<'_>, depth: usize) -> Result<Reply, Stop> {
    if depth > NESTING_MAX {
        return Err(ResponseError::NestedTooDeeply.into());
    }
    let type_byte = cursor.type_byte()?;
    let malformed = || Stop::Failed(ResponseError::Malformed(type_byte));
    Ok(match type_byte {
        b'+' => Reply::Simple(cursor.line()?.to_vec()),
        b'-' => Reply::Error(cursor.line()?.to_vec()),
        b':' => Reply::Integer(read_integer(cursor.line()?).ok_or_else(malformed)?),
        b'$' => read_string(cursor, type_byte)?.map_or(Reply::NullBulk, Reply::Bulk),
        b'!' => Reply::Error(read_string(cursor, type_byte)?.ok_or_else(malformed)?),
        b'_' => cursor.line()?.is_empty().then_some(Reply::Null).ok_or_else(malformed)?,
        b',' => match cursor.line()? {
            b"nan" | b"-nan" => Reply::Double(f64::NAN),
            text => Reply::Double(number::parse_f64(text).ok_or_else(malformed)?),
        },
        b'#' => match cursor.line()? {
            b"t" => Reply::Boolean(true),
            b"f" => Reply::Boolean(false),
            _ => return Err(malformed()),
        },
        b'(' => Reply::BigNumber(cursor.line()?.to_vec()),
        b'=' => {
            let text = read_string(cursor, type_byte)?.ok_or_else(malformed)?;
            match text.split_first_chunk() {
                Some((format, [b':', text @ ..])) => Reply::Verbatim(*format, text.to_vec()),
                _ => return Err(malformed()),
            }
        }
        b'*' => read_elements(cursor, type_byte, depth)?.map_or(Reply::NullArray, Reply::Array),
        b'~' => Reply::Set(read_elements(cursor, type_byte, depth)?.ok_or_else(malformed)?),
        b'>' => Reply::Push(read_elements(cursor, type_byte, depth)?.ok_or_else(malformed)?),
        b'%' => Reply::Map(read_pairs(cursor, type_byte, depth)?),
        b'|' => {
            let attributes = read_pairs(cursor, type_byte, depth)?;
            Reply::Attributed(attributes, Box::new(read_reply(cursor, depth + 1)?))
        }
        other => return Err(ResponseError::UnknownType(other).into()),
    })
}

/// Reads an integer as RESP writes it: a `+` is allowed.
fn read_integer(text: &[u8]) -> Option<i64> {
    number::parse_i64_strict(text.strip_prefix(b"+").unwrap_or(text))
}

/// Reads the rest of a string, in one piece or streamed; `None` for RESP2's null.
fn read_string(cursor: &mut Cursor<'_>, type_byte: u8) -> Result<Option<Vec<u8>>, Stop> {
    match cursor.length(type_byte)? {
        Length::Known(len) => Ok(Some(cursor.bytes(len)?.to_vec())),
        Length::Null => Ok(None),
        Length::Streamed => {
            let mut text = Vec::new();
            loop {
                match cursor.type_byte()? {
                    b';' => {}
                    other => return Err(ResponseError::UnknownType(other).into()),
                }
                match cursor.length(b';')? {
                    Length::Known(0) => return Ok(Some(text)),
                    Length::Known(len) => text.extend_from_slice(cursor.bytes(len)?),
                    Length::Null | Length::Streamed => return Err(ResponseError::Malformed(b';').into()),
                }
            }
        }
    }
}

/// Reads the elements of an aggregate; `None` for RESP2's null.
fn read_elements(cursor: &mut Cursor<'_>, type_byte: u8, depth: usize) -> Result<Option<Vec<Reply>>, Stop> {
    let mut elements = Vec::new();
    match cursor.length(type_byte)? {
        Length::Known(count) => {
            for _ in 0..count {
                elements.push(read_reply(cursor, depth + 1)?);
            }
        }
        Length::Null => return Ok(None),
        Length::Streamed => {
            while !at_stream_end(cursor)? {
                elements.push(read_reply(cursor, depth + 1)?);
            }
        }
    }
    Ok(Some(elements))
}

/// Reads the pairs of a map or of attributes.
fn read_pairs(cursor: &mut Cursor<'_>, type_byte: u8, depth: usize) -> Result<Vec<(Reply, Reply)>, Stop> {
    let mut pairs = Vec::new();
    match cursor.length(type_byte)? {
        Length::Known(count) => {
            for _ in 0..count {
                pairs.push((read_reply(cursor, depth + 1)?, read_reply(cursor, depth + 1)?));
            }
        }
        Length::Streamed if type_byte == b'%' => {
            while !at_stream_end(cursor)? {
                pairs.push((read_reply(cursor, depth + 1)?, read_reply(cursor, depth + 1)?));
            }
        }
        Length::Streamed | Length::Null => return Err(ResponseError::Malformed(type_byte).into()),
    }
    Ok(pairs)
}

/// Consumes the end marker of a streamed aggregate, if it is next.
fn at_stream_end(cursor: &mut Cursor<'_>) -> Result<bool, Stop> {
    match cursor.rest.first() {
        None => Err(Stop::Incomplete),
        Some(b'.') => {
            cursor.type_byte()?;
            if cursor.line()?.is_empty() { Ok(true) } else { Err(ResponseError::Malformed(b'.').into()) }
        }
        Some(_) => Ok(false),
    }
}

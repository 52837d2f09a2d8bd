//! Finding the end of a reply, without building its content.

use super::ResponseError;
use super::cursor::{Cursor, Length, Stop};
use crate::number_line::{plain_number_line, short_number_line};

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its size in bytes, attributes before it included.
    pub len: usize,
    /// Whether it is an error.
    pub is_error: bool,
    /// Whether it is a push, which is not the answer to a request.
    pub is_push: bool,
}

/// Elements that are missing before the enclosing aggregate continues.
struct Level {
    due: u64,
    /// Whether any number of elements may follow, up to an end marker.
    is_streamed: bool,
}

/// Finds the end of the reply at the front of `bytes`; `None` if it is incomplete.
#[inline]
pub fn skip_reply(bytes: &[u8]) -> Result<Option<Skipped>, ResponseError> {
    if let Some(rest) = skip_plain(bytes) {
        return Ok(Some(Skipped { len: bytes.len() - rest.len(), is_error: false, is_push: false }));
    }
    skip_checked(bytes)
}

/// Skips `+OK` or a bulk string on a fast path, and returns the rest; otherwise `None`.
#[inline(always)]
fn skip_plain(bytes: &[u8]) -> Option<&[u8]> {
    let (len, body) = match bytes.split_first_chunk::<4>()? {
        (b"+OK\r", rest) => return rest.strip_prefix(b"\n"),
        ([b'$', b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'], _) => plain_number_line(&bytes[1..])?,
        _ => short_number_line(bytes, b'$')?,
    };
    body.get(len as usize..)?.strip_prefix(b"\r\n")
}

/// Skips a reply of any type, with every check.
#[inline(never)]
fn skip_checked(bytes: &[u8]) -> Result<Option<Skipped>, ResponseError> {
    let mut cursor = Cursor { rest: bytes };
    match skip_whole(&mut cursor) {
        Ok(type_byte) => Ok(Some(Skipped {
            len: bytes.len() - cursor.rest.len(),
            is_error: matches!(type_byte, b'-' | b'!'),
            is_push: type_byte == b'>',
        })),
        Err(stop) => stop.into_result(),
    }
}

/// Skips one reply with its attributes, and returns its type byte.
#[inline]
fn skip_whole(cursor: &mut Cursor<'_>) -> Result<u8, Stop> {
    loop {
        let type_byte = cursor.type_byte()?;
        match skip_head(cursor, type_byte)? {
            Head::Whole => return Ok(type_byte),
            Head::Elements(due) => {
                skip_elements(cursor, Level { due, is_streamed: false })?;
                return Ok(type_byte);
            }
            Head::Streamed => {
                skip_elements(cursor, Level { due: 0, is_streamed: true })?;
                return Ok(type_byte);
            }
            Head::Attribute(due) => skip_elements(cursor, Level { due, is_streamed: false })?,
        }
    }
}

/// Skips the elements of an aggregate, without recursion: fixed aggregates add to the missing elements, and the
/// enclosing state of streamed ones is stored separately.
fn skip_elements(cursor: &mut Cursor<'_>, mut level: Level) -> Result<(), Stop> {
    let mut around: Vec<Level> = Vec::new();
    loop {
        while level.due == 0 && !level.is_streamed {
            match around.pop() {
                Some(outer) => level = outer,
                None => return Ok(()),
            }
        }
        if let Some(rest) = skip_plain(cursor.rest) {
            cursor.rest = rest;
            level.due = level.due.saturating_sub(1);
            continue;
        }
        let type_byte = cursor.type_byte()?;
        if type_byte == b'.' {
            if level.due > 0 || !cursor.line()?.is_empty() {
                return Err(ResponseError::Malformed(type_byte).into());
            }
            level.is_streamed = false;
            continue;
        }
        level.due = level.due.saturating_sub(1);
        let added = match skip_head(cursor, type_byte)? {
            Head::Whole => 0,
            Head::Elements(count) => count,
            Head::Attribute(count) => count + 1,
            Head::Streamed => {
                around.push(std::mem::replace(&mut level, Level { due: 0, is_streamed: true }));
                0
            }
        };
        level.due = level.due.checked_add(added).ok_or(ResponseError::Malformed(type_byte))?;
    }
}

/// The parts after the head of a reply.
enum Head {
    Whole,
    /// A fixed number of elements.
    Elements(u64),
    /// A fixed number of elements, and then the reply that they describe.
    Attribute(u64),
    /// Elements up to an end marker.
    Streamed,
}

/// Skips a reply except for its elements.
#[inline]
fn skip_head(cursor: &mut Cursor<'_>, type_byte: u8) -> Result<Head, Stop> {
    match type_byte {
        b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_' => {
            cursor.line()?;
            Ok(Head::Whole)
        }
        b'$' | b'=' | b'!' => {
            match cursor.length(type_byte)? {
                Length::Known(len) => {
                    cursor.bytes(len)?;
                }
                Length::Null => {}
                Length::Streamed => skip_chunks(cursor)?,
            }
            Ok(Head::Whole)
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let pair = if matches!(type_byte, b'%' | b'|') { 2 } else { 1 };
            match cursor.length(type_byte)? {
                Length::Known(count) => {
                    let count = count.checked_mul(pair).ok_or(ResponseError::Malformed(type_byte))?;
                    Ok(if type_byte == b'|' { Head::Attribute(count) } else { Head::Elements(count) })
                }
                Length::Null => Ok(Head::Whole),
                Length::Streamed if type_byte == b'|' => Err(ResponseError::Malformed(type_byte).into()),
                Length::Streamed => Ok(Head::Streamed),
            }
        }
        _ => Err(ResponseError::UnknownType(type_byte).into()),
    }
}

/// Skips the parts of a streamed string: `;<length>` and bytes, up to a part of length 0.
fn skip_chunks(cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    loop {
        match cursor.type_byte()? {
            b';' => match cursor.length(b';')? {
                Length::Known(0) => return Ok(()),
                Length::Known(len) => cursor.bytes(len)?,
                _ => return Err(ResponseError::Malformed(b';').into()),
            },
            other => return Err(ResponseError::UnknownType(other).into()),
        };
    }
}

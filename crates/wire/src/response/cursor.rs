//! Reading the parts of replies, from the front of the input.

use super::ResponseError;

/// The reason why reading stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The reply is incomplete.
    Incomplete,
    Failed(ResponseError),
}

impl Stop {
    /// `Ok(None)` for an incomplete reply: the caller may read it again with more bytes.
    pub(super) fn into_result<T>(self) -> Result<Option<T>, ResponseError> {
        match self {
            Self::Incomplete => Ok(None),
            Self::Failed(error) => Err(error),
        }
    }
}

impl From<ResponseError> for Stop {
    fn from(error: ResponseError) -> Self {
        Self::Failed(error)
    }
}

/// The announced length of a string or aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Known(u64),
    /// `-1`: null, as distinct from empty.
    Null,
    /// `?`: parts follow, up to an end marker.
    Streamed,
}

/// The unread input.
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// The first byte of the next reply, which determines its type.
    #[inline]
    pub(super) fn type_byte(&mut self) -> Result<u8, Stop> {
        let (&type_byte, rest) = self.rest.split_first().ok_or(Stop::Incomplete)?;
        self.rest = rest;
        Ok(type_byte)
    }

    /// The text up to the end of the line.
    #[inline]
    pub(super) fn line(&mut self) -> Result<&'a [u8], Stop> {
        let end = self.rest.iter().position(|&byte| byte == b'\r').ok_or(Stop::Incomplete)?;
        let (line, after) = self.rest.split_at(end);
        self.rest = after;
        self.line_end()?;
        Ok(line)
    }

    /// The length in the header of a reply of type `type_byte`.
    #[inline]
    pub(super) fn length(&mut self, type_byte: u8) -> Result<Length, Stop> {
        let mut value = 0u64;
        let mut rest = self.rest;
        while let Some((&byte, after)) = rest.split_first() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit)))
                .ok_or(ResponseError::Malformed(type_byte))?;
            rest = after;
        }
        if rest.len() < self.rest.len() && rest.first().is_none_or(|&byte| byte == b'\r') {
            self.rest = rest;
            self.line_end()?;
            return Ok(Length::Known(value));
        }
        match self.line()? {
            b"-1" => Ok(Length::Null),
            b"?" => Ok(Length::Streamed),
            _ => Err(ResponseError::Malformed(type_byte).into()),
        }
    }

    /// `len` bytes and the line end after them.
    #[inline]
    pub(super) fn bytes(&mut self, len: u64) -> Result<&'a [u8], Stop> {
        let len = usize::try_from(len).map_err(|_| Stop::Incomplete)?;
        let (bytes, after) = self.rest.split_at_checked(len).ok_or(Stop::Incomplete)?;
        self.rest = after;
        self.line_end()?;
        Ok(bytes)
    }

    #[inline]
    fn line_end(&mut self) -> Result<(), Stop> {
        match self.rest {
            [b'\r', b'\n', after @ ..] => {
                self.rest = after;
                Ok(())
            }
            [] | [b'\r'] => Err(Stop::Incomplete),
            _ => Err(ResponseError::InvalidLineEnd.into()),
        }
    }
}

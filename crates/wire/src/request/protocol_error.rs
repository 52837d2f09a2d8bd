//! Errors in client input, with Redis's and Valkey's texts.

use std::fmt;

/// A violation of the protocol: the client receives the error and is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request without a line end in its first 64 KiB.
    InlineTooBig,
    /// An inline request that ends inside quotes, or has text directly after a closing quote.
    UnbalancedQuotes,
    /// An inline request on a replication stream: the stream is corrupt.
    InlineFromPrimary,
    /// An argument count without a line end in 64 KiB.
    CountLineTooBig,
    /// An argument count that is not a number, or too large.
    InvalidCount,
    /// More arguments than an unauthenticated client may send.
    UnauthenticatedCount,
    /// The given byte instead of the `$` of an argument's length.
    ExpectedBulk(u8),
    /// An argument's length without a line end in 64 KiB.
    LengthLineTooBig,
    /// An argument's length that is not a number, negative, or above `proto-max-bulk-len`.
    InvalidLength,
    /// A longer argument than an unauthenticated client may send.
    UnauthenticatedLength,
    /// Other bytes instead of `\r\n`.
    InvalidLineEnd,
    /// A request that ends beyond the largest position in a buffer.
    RequestTooBig,
}

impl ProtocolError {
    /// Appends the text of the error reply, without `-` and line end, which [`crate::reply`] adds.
    pub fn write_text(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"ERR Protocol error: ");
        out.extend_from_slice(self.reason().as_bytes());
        if let Self::ExpectedBulk(byte) = self {
            // The byte is written unchanged: it need not be text.
            out.push(byte);
            out.push(b'\'');
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::InlineTooBig => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::InlineFromPrimary => "inline request from primary",
            Self::CountLineTooBig => "too big mbulk count string",
            Self::InvalidCount => "invalid multibulk length",
            Self::UnauthenticatedCount => "unauthenticated multibulk length",
            Self::ExpectedBulk(_) => "expected '$', got '",
            Self::LengthLineTooBig => "too big bulk count string",
            Self::InvalidLength => "invalid bulk length",
            Self::UnauthenticatedLength => "unauthenticated bulk length",
            Self::InvalidLineEnd => "invalid CRLF in request",
            Self::RequestTooBig => "too big request",
        }
    }
}

/// For the server's log: unprintable bytes are escaped.
impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        if let Self::ExpectedBulk(byte) = self {
            write!(f, "{}'", byte.escape_ascii())?;
        }
        Ok(())
    }
}

impl std::error::Error for ProtocolError {}

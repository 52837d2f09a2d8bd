//! The client's side: writing requests, reading replies.
//!
//! For our own clients and for tests. [`skip_reply`] finds the end of a reply; [`Reply`] is its whole content.
//! Both accept either protocol version: attributes, pushes, and streamed strings and aggregates included. An
//! incomplete reply is read again from its start.

mod cursor;
mod skip;
mod tree;

use std::fmt;

use crate::number;

pub use skip::{Skipped, skip_reply};
pub use tree::Reply;

/// An invalid reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// A byte that is not the start of a reply.
    UnknownType(u8),
    /// A reply of this type with an invalid number, boolean or similar.
    Malformed(u8),
    /// Other bytes instead of `\r\n`.
    InvalidLineEnd,
    /// Aggregates nested too deeply.
    NestedTooDeeply,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(type_byte) => write!(f, "no reply starts with '{}'", type_byte.escape_ascii()),
            Self::Malformed(type_byte) => write!(f, "malformed reply of type '{}'", type_byte.escape_ascii()),
            Self::InvalidLineEnd => f.write_str("reply without proper line end"),
            Self::NestedTooDeeply => f.write_str("replies nested too deeply"),
        }
    }
}

impl std::error::Error for ResponseError {}

/// Appends a request with these arguments, the name first.
pub fn encode_command<A: AsRef<[u8]>>(arguments: &[A], out: &mut Vec<u8>) {
    number::write_header(out, b'*', arguments.len() as u64);
    for argument in arguments {
        let argument = argument.as_ref();
        number::write_header(out, b'$', argument.len() as u64);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

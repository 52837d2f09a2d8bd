//! The client's side: requests written, replies read.
//!
//! For our own clients and for tests. [`skip_reply`] only finds where a reply ends; [`Reply`] is the whole of it. Both
//! take what either protocol version has: attributes, pushes, and streamed strings and aggregates included. A reply that
//! has not arrived whole is looked at again from its start.

mod cursor;
mod skip;
mod tree;

use std::fmt;

use crate::number;

pub use skip::{Skipped, skip_reply};
pub use tree::Reply;

/// What a server must not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// A byte that starts no reply.
    UnknownMark(u8),
    /// A reply of this mark, with something else where a number, a truth value or the like was due.
    Malformed(u8),
    /// Other bytes where `\r\n` was due.
    InvalidLineEnd,
    /// Aggregates in aggregates beyond what is read.
    NestedTooDeeply,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMark(mark) => write!(f, "no reply starts with '{}'", mark.escape_ascii()),
            Self::Malformed(mark) => write!(f, "malformed reply of type '{}'", mark.escape_ascii()),
            Self::InvalidLineEnd => f.write_str("reply without proper line end"),
            Self::NestedTooDeeply => f.write_str("replies nested too deeply"),
        }
    }
}

impl std::error::Error for ResponseError {}

/// Appends a request of these arguments, the name first.
pub fn encode_command<A: AsRef<[u8]>>(arguments: &[A], out: &mut Vec<u8>) {
    number::write_header(out, b'*', arguments.len() as u64);
    for argument in arguments {
        let argument = argument.as_ref();
        number::write_header(out, b'$', argument.len() as u64);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

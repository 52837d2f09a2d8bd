//! Client input: multibulk and inline requests.
//!
//! [`Parser::parse`] appends every complete request at the front of the input to a [`Batch`]; [`Args`] is the
//! view of one request. Nothing is copied, except the arguments of inline requests, which must be unquoted. The caller
//! may receive a large argument in a buffer of its own ([`Parser::detach`]).

mod args;
mod batch;
mod inline;
mod lines;
mod parser;
mod protocol_error;
mod repeat;

pub use args::{Args, ArgsBuf, Argument, Iter, Span};
pub use batch::{Batch, Series};
pub use inline::words_of;
pub use parser::{Parsed, Parser, RequestLimits, Sender};
pub use protocol_error::ProtocolError;

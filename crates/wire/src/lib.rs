//! RESP2 and RESP3 as bytes: client input, replies, and the client's side of both.
//!
//! Owns no connection and no buffer: every function takes bytes and returns spans of them, or appends to a
//! `Vec<u8>` of the caller. Never does I/O, reads no clock, and contains no command, key or setting.
//!
//! - [`request`]: splits client input into requests, a whole pipeline in one pass, resumable at any byte.
//! - [`reply`]: writes replies for a connection of either protocol version.
//! - [`response`]: reads replies and writes requests, for our clients and tests.
//! - [`number`]: the decimal texts of integers and floats, in Redis's format.
//! - [`extended`]: the 80-bit float arithmetic of `INCRBYFLOAT`.
//!
//! Start reading at [`request::Parser`].

pub use number::extended;
pub mod number;
mod number_line;
pub mod reply;
pub mod request;
pub mod response;

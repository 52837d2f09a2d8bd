//! RESP2 and RESP3 as bytes: what clients send, what they are answered, and the client's side of both.
//!
//! Owns no connection and no buffer: every function takes bytes and gives spans of them, or appends to a
//! `Vec<u8>` of the caller. Never does I/O, reads no clock, knows no command, key or setting.
//!
//! - [`request`]: cuts client input into requests, a whole pipeline in one pass, resumable at any byte.
//! - [`reply`]: writes replies for a connection of either protocol version.
//! - [`response`]: reads replies and writes requests, for our clients and tests.
//! - [`number`]: the decimal texts of integers and floats, in Redis's dialect.
//! - [`extended`]: the 80-bit float arithmetic whose results `INCRBYFLOAT` shows.
//!
//! Start reading at [`request::Parser`].

pub mod extended;
pub mod number;
mod number_line;
pub mod reply;
pub mod request;
pub mod response;

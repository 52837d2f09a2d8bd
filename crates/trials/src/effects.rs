//! The effects in an append-only file: the requests themselves, what may be among them, and the data that they give.
//!
//! Start reading at [`requests`] and [`subset`]; [`data`] reads the data of a server.

pub mod data;
pub mod requests;
pub mod subset;

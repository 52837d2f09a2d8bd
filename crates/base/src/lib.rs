//! The words every layer shares: limits, newtypes, time, and glob patterns ([`glob`]).
//!
//! Owns nothing but plain values. Never does I/O, reads no clock, allocates nothing.
//! Start reading at [`limits`].

pub mod glob;
pub mod limits;

mod units;

pub use units::{DbIndex, Lsn, Millis, Slot};

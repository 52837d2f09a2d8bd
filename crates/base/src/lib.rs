//! Definitions shared by all layers: limits, newtypes, time, and glob patterns ([`glob`]).
//!
//! Owns plain values only. Does no I/O, reads no clock, allocates nothing.
//! Start reading at [`limits`].

pub mod glob;
pub mod limits;

mod units;

pub use units::{DbIndex, Lsn, Millis, Slot};

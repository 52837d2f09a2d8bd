//! Bitmaps: commands on strings as arrays of bits, starting with the highest bit of the first byte.
//!
//! Start reading at `setbit.rs`; `bits.rs` has the operations on bytes, `range.rs` the ranges of `BITCOUNT`
//! and `BITPOS`.

mod bits;
mod fields;
mod range;

pub mod bitcount;
pub mod bitfield;
pub mod bitop;
pub mod bitpos;
pub mod setbit;

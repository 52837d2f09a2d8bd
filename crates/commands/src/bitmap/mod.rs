//! Bitmaps: commands on strings as rows of bits, the highest bit of the first byte first.
//!
//! Start reading at `setbit.rs`; `bits.rs` has what is done to bytes, `range.rs` how parts of a string are named.

mod bits;
mod fields;
mod range;

pub mod bitcount;
pub mod bitfield;
pub mod bitop;
pub mod bitpos;
pub mod setbit;

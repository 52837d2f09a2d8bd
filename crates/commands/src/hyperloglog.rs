//! HyperLogLog: estimates of the number of distinct elements, in at most 12 KiB.
//!
//! The value is a string, byte for byte as in Redis and Valkey: `sketch.rs` has its layout, `sparse.rs` and
//! `dense.rs` its two forms, `estimate.rs` the estimation. Start reading at `pfadd.rs`.

mod dense;
mod estimate;
mod pattern;
mod sketch;
mod sparse;

pub mod pfadd;
pub mod pfcount;
pub mod pfdebug;
pub mod pfmerge;
pub mod pfselftest;

//! HyperLogLog: estimates of how many different elements were added, in at most 12 KiB.
//!
//! Such a value is a string, byte for byte what Redis and Valkey have: `sketch.rs` has its layout, `sparse.rs` and `dense.rs`
//! its two forms, `estimate.rs` the estimate. Start reading at `pfadd.rs`.

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

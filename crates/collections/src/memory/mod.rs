//! The allocator: heaps of spans and blocks for entries and segments, and what they take from the system.
//!
//! Knows no table and no value. Start reading at `heap.rs`, then `span.rs` and `span_pool.rs`.

pub(crate) mod block;
pub(crate) mod heap;
pub(crate) mod prefetch;
pub(crate) mod replaced;
pub(crate) mod size_class;
pub(crate) mod span;
pub(crate) mod span_pool;
pub(crate) mod spin;

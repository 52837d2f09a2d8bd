//! The allocator: heaps of spans and blocks for entries and segments, and their memory from the system.
//!
//! Independent of tables and values. Start reading at `heap.rs`, then `span.rs` and `span_pool.rs`.

pub(crate) mod block;
pub(crate) mod heap;
pub(crate) mod prefetch;
pub(crate) mod replaced;
pub(crate) mod size_class;
pub(crate) mod span;
pub(crate) mod span_pool;
pub(crate) mod spin;

/// Bits of an address in user space, as x86-64 and aarch64 Linux map them by default.
pub(crate) const ADDRESS_BITS: u32 = 48;

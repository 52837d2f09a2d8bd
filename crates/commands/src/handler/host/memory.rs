//! Memory of the server: its use, and its release.

use crate::session::Session;

/// Memory: its use, and its release.
pub trait MemoryReport {
    /// `MEMORY STATS` as name and value.
    fn memory_stats(&self) -> Vec<(String, MemoryStat)>;
    /// Returns the memory in use as `used_memory` reports it, in bytes.
    fn used_memory(&self) -> usize;
    /// Returns the statistics of the allocators, as text.
    fn allocator_report(&self) -> String;
    /// Releases unused memory to the operating system.
    fn memory_purge(&self);
    /// Runs a function that frees memory in the background; `key_count` is the number of keys it frees.
    fn free_later(&self, key_count: u64, free: Box<dyn FnOnce() + Send>);
    /// Replies `OK` to the client when the functions of earlier calls of [`Self::free_later`] have run. Returns `false` if it can't
    /// wait for that, with [`BlockReason::Free`](crate::session::BlockReason::Free).
    fn reply_when_freed(&self, session: &Session) -> bool;
}

/// A value of `MEMORY STATS`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum MemoryStat {
    Integer(i64),
    Double(f64),
    Text(String),
    Map(Vec<(String, MemoryStat)>),
}

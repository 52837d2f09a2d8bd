//! Walks over the whole keyspace: expiry, eviction, defragmentation and scans. A slot is held for one step
//! only.

pub(crate) mod defragmentation;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod field_expiry;
mod reader_limit;
pub(crate) mod snapshot_walk;
pub(crate) mod walks;

//! The data of the server: slots with their tables and lists, and the counters over them.
//!
//! The lowest layer of the crate: it latches nothing by itself and records no accesses.

pub(crate) mod aging;
pub(crate) mod changes;
pub(crate) mod counters;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod hints;
pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod local_expiries;
pub(crate) mod places;
pub(crate) mod random;
pub(crate) mod readers;
pub(crate) mod sizes;
pub(crate) mod slot_data;
pub(crate) mod snapshot_state;
pub(crate) mod tracked;
pub(crate) mod waiting;
pub(crate) mod watching;

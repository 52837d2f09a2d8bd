//! Tables and the values in them. They contain each other: a table has entries, an entry may have a collection, and a large
//! collection has a table.
//!
//! Start reading at `table.rs`, then `entry.rs` and `object.rs`.

pub(crate) mod collection;
pub(crate) mod entry;
pub(crate) mod entry_mut;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod members;
pub(crate) mod object;
pub(crate) mod owned_entry;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub mod stream;
pub(crate) mod table;
pub(crate) mod tracking;
pub(crate) mod value_size;

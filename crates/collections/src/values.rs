//! The types of collections, and what they share: members, tracking by a snapshot, estimates.
//!
//! Start reading at `object.rs`, the values that an entry may hold, then at the file of a type.

pub(crate) mod collection;
mod estimate;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod members;
pub(crate) mod object;
pub(crate) mod parameters;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub mod stream;
pub(crate) mod tracking;

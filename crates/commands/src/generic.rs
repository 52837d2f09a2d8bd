//! Commands on keys of any type, and on whole databases: a file for each command or close family.
//!
//! Start reading at `del.rs` and `expire.rs`.

pub mod copy;
pub mod dbsize;
pub mod del;
pub mod exists;
pub mod expire;
pub mod flush;
pub mod keys;
pub mod move_key;
pub mod object;
pub mod persist;
pub mod randomkey;
pub mod rename;
pub mod scan;
pub(crate) mod scan_options;
pub mod sort;
pub mod swapdb;
pub mod ttl;
pub mod type_of;
pub mod wait;

//! The data on disk.
//!
//! | module | contents |
//! |---|---|
//! | [`loading`] | RDB files and append-only files become data |
//! | [`append_only`] | changes go to the append-only file |
//! | [`saving`] | snapshots go to the dump file |
//! | [`disk`](crate::disk) | the file system that has them |
//!
//! Its interface to other folders is `shared/persistence.rs`.

pub mod all_latches;
pub mod append_only;
pub mod loading;
pub mod saving;

//! The data on disk.
//!
//! | module | contents |
//! |---|---|
//! | [`loading`] | RDB files and append-only files become data |
//! | [`append_only`] | changes go to the append-only file |
//! | [`disk`] | the file system that has them |
//!
//! What other folders see of it is in `shared/persistence.rs`.

mod all_latches;
pub mod append_only;
pub mod loading;
mod writer;

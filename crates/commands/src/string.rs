//! Strings: a file for each command or close family.
//!
//! Start reading at `get.rs` and `set.rs`; `options.rs`, `comparison.rs` and `assignment.rs` are shared by
//! `SET` and its variants.

mod assignment;
mod comparison;
mod options;

pub mod append;
pub mod delex;
pub mod delifeq;
pub mod digest;
pub mod get;
pub mod getdel;
pub mod getex;
pub mod getrange;
pub mod getset;
pub mod incr;
pub mod incrbyfloat;
pub mod lcs;
pub mod mget;
pub mod mset;
pub mod msetex;
pub mod set;
pub mod setex;
pub mod setnx;
pub mod setrange;
pub mod strlen;

//! The process and its environment: its identity, its supervisor and its limits.

pub mod identity;
pub mod limits;
pub mod supervisor;

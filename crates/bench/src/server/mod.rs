//! The servers that are measured: what the user names, what is started, what runs.

pub mod known;
pub mod running;
pub mod spec;

//! Start and end of the process: from the command line to running workers, signals, and the report of a fault.
//!
//! Start reading at [`start::serve`].

pub mod check_aof;
pub mod check_rdb;
pub mod check_system;
pub mod crash;
mod directory;
pub mod signals;
pub mod simulated;
pub mod start;
pub mod users;

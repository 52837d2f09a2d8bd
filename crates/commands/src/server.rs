//! Commands about the server.

pub mod cluster;
pub mod command_log;
pub mod config;
pub mod debug;
pub mod info;
pub mod latency;
pub mod lolwut;
pub mod memory;
pub mod module;
pub mod monitor;
pub mod replication;
pub mod role;
pub mod saving;
pub mod shutdown;
pub mod sync;
pub mod time;

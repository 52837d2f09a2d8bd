//! The tables of figures, a file for each section or a few related ones.

pub mod clients;
pub mod commands;
pub mod keyspace;
pub mod memory;
pub mod persistence;
pub mod replication;
pub mod server;
pub mod stats;
pub mod tls;
pub mod workers;

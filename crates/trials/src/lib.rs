//! Trials of a running server: does it answer as the others do, and do its answers under concurrency make sense?
//!
//! Owns: the server processes it starts, each on a loopback port and with a data directory of its own.
//! Touches: sockets, processes, temporary directories. Never: any crate of the server; it is a client and knows bytes only.
//! Invariants: everything random comes from a seed, and a mismatch is reported with it.
//! Start reading at `differential` (the same random commands to several servers), `linearisability` (many
//! clients at once, and a search for an order that explains what they saw) and `cost` (how requests grow with their size).

pub mod connection;
pub mod cost;
pub mod differential;
pub mod linearisability;
pub mod random;
pub mod reply;
pub mod server;

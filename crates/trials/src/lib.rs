//! Trials of a running server: equal replies to other servers, and consistent replies under concurrency.
//!
//! Owns: the server processes it starts, each on a loopback port with its own data directory. Touches: sockets,
//! processes, temporary directories. Never: any crate of the server; it is a client and exchanges bytes only.
//! Invariants: all randomness comes from a seed, and a mismatch is reported with its seed. Start reading at
//! `differential` (the same random commands to several servers), `linearisability` (many concurrent clients,
//! and a search for an order that explains their replies), `kills` (the data after a kill or a power cut, compared by `durability`),
//! `effects` (what is in an append-only file) and `cost` (the growth of cost with size).

pub mod connection;
pub mod cost;
pub mod differential;
pub mod durability;
pub mod effects;
pub mod kills;
pub mod linearisability;
pub mod random;
pub mod reply;
pub mod server;

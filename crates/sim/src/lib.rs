//! The whole server under a seed: threads, network and clocks are simulated; all other code is real.
//!
//! A run starts the real server with 1 to 4 threads in a simulation ([`sync::simulation`]), runs clients
//! against it (`workload`), disturbs it, and checks the clients' observations. All randomness comes from the
//! seed, so equal seeds give equal runs, step by step; the digest of a run proves it.
//!
//! - Owns: plans, clients, checks. Never: server code; it is a client and exchanges bytes only.
//! - Invariants: clients share only [`World`](world::World); no lock is held across a scheduling point.
//! - Start reading at `run.rs`, then `plan.rs`, then the loads in `workload`. Runs with a disk that crashes
//!   are in `crashes.rs`, those with replicas in `failovers.rs`; `replay.rs` compares the data of a server with those in its append-only file.

pub mod connection;
pub mod crashes;
pub mod failovers;
pub mod faults;
pub mod observer;
pub mod plan;
mod replay;
pub mod run;
mod workload;
pub mod world;

//! The whole server under a seed: its threads, its network and its clocks are simulated, and nothing else is.
//!
//! A run starts the real server with 1 to 4 threads in a simulation ([`sync::simulation`]), lets clients work on it
//! (`workload`), disturbs it, and checks what they saw. Everything random comes from the seed, so the same seed gives the
//! same run, step by step; the digest of a run says whether it did.
//!
//! - Owns: plans, clients, checks. Never: any code of the server; it is a client, and knows bytes only.
//! - Invariants: clients share only what is in [`World`](world::World), under locks that are held for no scheduling point.
//! - Start reading at `run.rs`, then `plan.rs`, then the loads in `workload`.

pub mod connection;
pub mod faults;
pub mod plan;
pub mod run;
mod workload;
pub mod world;

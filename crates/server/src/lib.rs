//! The server as a library: the `broadloom` binary calls [`serve`], a simulation starts a [`simulated::Server`].
//!
//! Each folder is a layer: it uses the layers below it only, which a test of the house rules checks.
//!
//! | folder, highest layer first | holds |
//! |---|---|
//! | `startup` | from the command line to running workers; signals; crash reports; a server within a simulation |
//! | `worker` | a worker: the event loop, its connections, timers and output |
//! | `executor` | from input bytes to reply bytes |
//! | `admin` | the server as commands see it: `INFO`, `CLIENT`, `CONFIG`, `MEMORY`, `SHUTDOWN` |
//! | `replication` | being a replica: the link to the primary, up to the stream |
//! | `persistence` | the data on disk: loads files, and writes changes to the append-only file |
//! | `shared` | the state that all workers share |
//! | `pubsub` | published messages, keyspace events and invalidations |
//! | `mail` | messages between workers, and their addresses |
//! | `links` | connections to other servers: what their workers and their protocols exchange |
//! | `connection` | a connection, its buffers, its client record, and the listeners |
//! | `monitoring` | counters, latency events, command logs, `MONITOR` |
//! | `snapshot` | snapshots: writes the data of one instant to a file while clients are served |
//! | `scripts`, `script_runs` | scripts and functions: what workers share, and how a worker runs them |
//! | `logging` | the log |
//! | `process` | the process: its identity, limits and supervisor |
//! | `faults` | fixed defects that a simulation enables again |
//!
//! Start reading at `startup/start.rs`, then `worker.rs`, then `executor.rs`.

mod admin;
mod connection;
mod disk;
mod executor;
pub mod faults;
mod links;
mod logging;
mod mail;
mod monitoring;
mod persistence;
mod process;
mod pubsub;
mod replication;
mod request;
mod script_runs;
mod scripts;
mod shared;
mod startup;
mod worker;

pub use startup::check_aof;
pub use startup::check_rdb;
pub use startup::simulated;
pub use startup::start::serve;

// The tests count allocations as the binary does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

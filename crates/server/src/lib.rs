//! The server as a library: the `broadloom` binary calls [`serve`], a simulation starts a [`simulated::Server`].
//!
//! | file | holds |
//! |---|---|
//! | `start.rs` | from the command line to running threads |
//! | `simulated.rs` | a whole server within a simulation |
//! | `thread.rs` | a worker: the event loop |
//! | `executor.rs` | from input bytes to reply bytes |
//! | `connection.rs`, `registry.rs` | a connection, and its client record |
//! | `shared.rs`, `mail.rs` | the state shared by threads, and their messages |
//! | `host.rs`, `info.rs`, `settings.rs`, `clients.rs`, `command_log.rs`, `latency.rs`, `memory.rs`, `pause.rs` | the server as commands see it |
//! | `logging.rs`, `crash.rs`, `signals.rs`, `shutdown.rs` | its output for operators, and its end |
//!
//! Start reading at `start.rs`, then `thread.rs`, then `executor.rs`.

mod background;
mod check_system;
mod clients;
mod command_log;
mod connection;
mod crash;
mod error_statistics;
mod executor;
mod host;
mod info;
mod latency;
mod listeners;
mod logging;
mod mail;
mod memory;
mod metrics;
mod monitor;
mod pause;
mod pubsub;
mod query_buffer;
mod registry;
mod reply_buffers;
mod secrets;
mod settings;
mod shared;
mod shutdown;
mod signals;
pub mod simulated;
mod start;
mod statistics;
mod supervisor;
mod syslog;
mod thread;
mod threads;
mod users;
mod watchdog;

pub use start::serve;

// The tests count allocations as the binary does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

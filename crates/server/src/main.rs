//! The `broadloom` binary: the server, and the tools that come with it as subcommands.
//!
//! | file | holds |
//! |---|---|
//! | `start.rs` | from the command line to running threads |
//! | `thread.rs` | a server thread: the event loop |
//! | `executor.rs` | from input bytes to reply bytes |
//! | `connection.rs`, `registry.rs` | a connection, and what everybody may read of it |
//! | `shared.rs`, `mail.rs` | what threads share, and how they talk |
//! | `host.rs`, `info.rs`, `settings.rs`, `clients.rs`, `command_log.rs`, `latency.rs`, `memory.rs` | what commands ask of the server |
//! | `logging.rs`, `crash.rs`, `signals.rs`, `shutdown.rs` | what operators see of it, and its end |
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
mod huge_pages;
mod info;
mod latency;
mod listeners;
mod listening;
mod logging;
mod mail;
mod memory;
mod metrics;
mod monitor;
mod registry;
mod reply_buffers;
mod secrets;
mod settings;
mod shared;
mod shutdown;
mod signals;
mod start;
mod statistics;
mod supervisor;
mod syslog;
mod thread;
mod threads;
mod users;
mod watchdog;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "bench") {
        return bench::run(std::iter::once("broadloom bench".into()).chain(arguments.into_iter().skip(2)));
    }
    start::serve(arguments)
}

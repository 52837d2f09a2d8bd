//! The `broadloom` binary: the server, and the tools that come with it as subcommands.

use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "bench") {
        return bench(&arguments[2..]);
    }
    if arguments.get(1).is_some_and(|first| first == "migrate") {
        return migrate(&arguments[2..]);
    }
    let program = arguments.first().map(|program| program.as_encoded_bytes()).unwrap_or_default();
    if program.ends_with(b"redis-check-rdb") || program.ends_with(b"valkey-check-rdb") {
        return server::check_rdb::run("check-rdb", &arguments[1..]);
    }
    if arguments.get(1).is_some_and(|first| first == "check-rdb") {
        return server::check_rdb::run("broadloom check-rdb", &arguments[2..]);
    }
    if let Some(name) = server::check_aof::take_name(&mut arguments) {
        return server::check_aof::run(&name, &arguments);
    }
    server::serve(arguments)
}

#[cfg(feature = "bench")]
fn bench(arguments: &[OsString]) -> ExitCode {
    bench::run(std::iter::once("broadloom bench".into()).chain(arguments.iter().cloned()))
}

#[cfg(not(feature = "bench"))]
fn bench(_arguments: &[OsString]) -> ExitCode {
    eprintln!("broadloom was built without the load generator (the feature `bench`, which is on by default)");
    ExitCode::FAILURE
}

#[cfg(feature = "migrate")]
fn migrate(arguments: &[OsString]) -> ExitCode {
    migrate::run(std::iter::once("broadloom migrate".into()).chain(arguments.iter().cloned()))
}

#[cfg(not(feature = "migrate"))]
fn migrate(_arguments: &[OsString]) -> ExitCode {
    eprintln!(
        "broadloom was built without the migration tool (the feature `migrate`, which is on by default)"
    );
    ExitCode::FAILURE
}

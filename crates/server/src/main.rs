//! The `broadloom` binary: the server, and the tools that come with it as subcommands.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sync::allocator::CountingAllocator<mimalloc::MiMalloc> =
    sync::allocator::CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "bench") {
        return bench::run(std::iter::once("broadloom bench".into()).chain(arguments.into_iter().skip(2)));
    }
    server::serve(arguments)
}

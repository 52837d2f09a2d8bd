//! The migration tool as a separate binary, equivalent to `broadloom migrate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    migrate::run(std::iter::once("broadloom-migrate".into()).chain(args))
}

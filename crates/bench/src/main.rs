//! The benchmark as a separate binary, equivalent to `broadloom bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    bench::run(std::iter::once("broadloom-bench".into()).chain(args))
}

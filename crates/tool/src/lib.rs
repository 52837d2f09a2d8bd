//! What the command-line tools share: the command line, Ctrl-C, exit statuses.
//!
//! - Owns: the signal handler of the process, once a tool has begun.
//! - Touches: standard error.
//! - Never: knows what a tool does.
//! - Start reading at [`run`].

pub mod interrupt;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

/// Exit status of a failure.
const EXIT_FAILED: u8 = 1;

/// Exit status for an invalid command line.
const EXIT_USAGE: u8 = 2;

/// The kind of an error, from which the exit status follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Invalid options or arguments.
    Usage,
    /// Ctrl-C.
    Interrupted,
    /// Any other.
    Other,
}

/// An error that ends a tool.
pub trait ToolError: Display {
    /// Its kind.
    fn failure(&self) -> Failure;
}

/// Runs a tool as a program: parses its command line, prints its error, and returns its exit status.
///
/// `args` begin with the words that call it, in one string, such as `broadloom bench`; `body` gets these words, too. `without_signals`
/// says what Ctrl-C does if its handler can't be installed.
pub fn run<C, E>(
    name: &'static str,
    args: Vec<OsString>,
    without_signals: &str,
    body: impl FnOnce(&C, &str) -> Result<(), E>,
) -> ExitCode
where
    C: CommandFactory + FromArgMatches,
    E: ToolError,
{
    let called_as = args.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
    let command = C::command().name(name).bin_name(called_as.clone());
    let cli = match command.try_get_matches_from(args).and_then(|matches| C::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // If printing fails, no further output is possible.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    interrupt::install(without_signals);
    match body(&cli, &called_as) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If printing fails, no further output is possible.
            let _ = writeln!(io::stderr(), "{called_as}: {error}");
            ExitCode::from(match error.failure() {
                Failure::Usage => EXIT_USAGE,
                Failure::Interrupted => interrupt::EXIT_STATUS,
                Failure::Other => EXIT_FAILED,
            })
        }
    }
}

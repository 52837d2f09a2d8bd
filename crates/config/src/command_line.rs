//! The command line, with the rules of `redis-server` 7: `broadloom [file] [--directive value ...] [-]`.
//!
//! Options become configuration lines: `--port 6380` is `port 6380`, after all lines of the file. An option
//! takes all arguments up to the next one that starts with `--`, and always at least one argument. An option
//! with its value may also be one argument, `"--port 6380"`. A lone `--save` means `save ""`.

use std::ffi::OsString;
use std::fmt;

use crate::quote::{quoted, split_arguments};

/// The action that the command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Print the version.
    Version,
    /// Print [`usage`].
    Help,
    /// Check the machine, and report missing features.
    CheckSystem,
    /// Start the server, or only check its configuration.
    Serve(CommandLine),
}

/// The sources of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The configuration file.
    pub config_path: Option<String>,
    /// Whether standard input contains further lines.
    pub reads_stdin: bool,
    /// The options, as lines of a configuration file.
    pub options: Vec<u8>,
    /// Whether to stop after reading the configuration and report whether it is valid.
    pub only_checks: bool,
}

/// An invalid command line. Its text is for standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// A feature of `redis-server` that Broadloom does not have.
    Unsupported(String),
    /// The path of the file is not UTF-8.
    PathNotUtf8,
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(option) => {
                write!(out, "{option} is not supported by Broadloom")?;
                match option.as_str() {
                    "--sentinel" => out.write_str(": run the sentinel that comes with Redis or Valkey"),
                    "--test-memory" => out.write_str(": use memtester or memtest86+"),
                    _ => Ok(()),
                }
            }
            Self::PathNotUtf8 => out.write_str("The path of the configuration file must be UTF-8"),
        }
    }
}

impl std::error::Error for UsageError {}

impl CommandLine {
    /// Parses the arguments, without the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, UsageError> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        match arguments.first().map(|first| first.as_encoded_bytes()) {
            Some(b"-v" | b"--version") => return Ok(Invocation::Version),
            Some(b"-h" | b"--help") => return Ok(Invocation::Help),
            Some(b"--check-system") => return Ok(Invocation::CheckSystem),
            _ => {}
        }
        let mut line = Self::default();
        // Allowed before and after the path.
        if arguments.first().is_some_and(|first| first == "--check-config") {
            line.only_checks = true;
            arguments.remove(0);
        }
        if arguments.first().is_some_and(|first| !first.as_encoded_bytes().starts_with(b"-")) {
            let path = arguments.remove(0).into_string().map_err(|_| UsageError::PathNotUtf8)?;
            line.config_path = Some(path);
        }
        let has_path = line.config_path.is_some();
        let arguments: Vec<Vec<u8>> = arguments.into_iter().map(OsString::into_encoded_bytes).collect();
        line.read_options(&arguments, has_path)?;
        Ok(Invocation::Serve(line))
    }

    fn read_options(&mut self, arguments: &[Vec<u8>], has_path: bool) -> Result<(), UsageError> {
        let last = arguments.len().saturating_sub(1);
        // Whether the previous option has its value, so that `--` starts another option.
        let mut has_value = true;
        for (at, argument) in arguments.iter().enumerate() {
            let is_edge = (at == 0 && !has_path) || at == last;
            if argument == b"-" && is_edge {
                self.reads_stdin = true;
            } else if has_value && argument.starts_with(b"--") {
                has_value = self.read_option(&argument[2..], arguments.get(at + 1))?;
            } else {
                self.options.extend(quoted(argument));
                self.options.push(b' ');
                has_value = true;
            }
        }
        Ok(())
    }

    /// Starts the line of an option. Returns whether the option already has its value.
    fn read_option(&mut self, option: &[u8], next: Option<&Vec<u8>>) -> Result<bool, UsageError> {
        let words = split_arguments(option).map_or(0, |words| words.len());
        let name = option.trim_ascii().to_ascii_lowercase();
        match name.as_slice() {
            b"check-config" => {
                self.only_checks = true;
                return Ok(true);
            }
            b"sentinel" | b"test-memory" => {
                return Err(UsageError::Unsupported(format!("--{}", String::from_utf8_lossy(&name))));
            }
            _ => {}
        }
        if !self.options.is_empty() {
            self.options.push(b'\n');
        }
        self.options.extend_from_slice(option);
        self.options.push(b' ');
        let is_last_word = next.is_none_or(|next| next.starts_with(b"--"));
        if name == b"save" && is_last_word {
            self.options.extend_from_slice(b"\"\"");
            return Ok(true);
        }
        Ok(words != 1)
    }
}

/// The text for `--help`.
#[must_use]
pub fn usage() -> &'static str {
    "\
Usage: broadloom [/path/to/broadloom.conf] [--directive value ...] [-]
       broadloom -                    reads the configuration from standard input
       broadloom --check-config ...   checks the configuration and exits
       broadloom --check-system       reports problems of this machine
       broadloom -v | --version
       broadloom -h | --help

Directives on the command line override those in the file. Every directive of redis.conf is known;
broadloom.conf explains the most important ones.

Examples:
       broadloom
       broadloom --port 7777 --maxmemory 1gb
       broadloom /etc/broadloom.conf --loglevel verbose
       broadloom --bind 127.0.0.1 -::1 --save \"\"
       echo 'maxmemory 128mb' | broadloom -
"
}

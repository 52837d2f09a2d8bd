//! `broadloom check-aof`, also under the names `redis-check-aof` and `valkey-check-aof`.

use persist::check::{Request, check};
use persist::disk::system::SystemDisk;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The name by which the tool is called: that of a link to the binary, or a subcommand. `None` if another program is
/// called. Removes the name from `arguments`.
pub fn take_name(arguments: &mut Vec<OsString>) -> Option<String> {
    let program = arguments.first().map(|program| Path::new(program).file_name().unwrap_or_default());
    if let Some(name) = program.filter(|name| name.as_encoded_bytes().ends_with(b"-check-aof")) {
        let name = name.to_string_lossy().into_owned();
        arguments.remove(0);
        return Some(name);
    }
    if arguments.get(1).is_some_and(|first| first == "check-aof") {
        arguments.drain(..2);
        return Some("broadloom check-aof".to_owned());
    }
    None
}

/// Runs the tool with the arguments after its name.
pub fn run(name: &str, arguments: &[OsString]) -> ExitCode {
    if let [flag] = arguments
        && (flag == OsStr::new("-v") || flag == OsStr::new("--version"))
    {
        println!("{name} {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let request = match Request::parse(name, arguments) {
        Ok(request) => request,
        Err(text) => {
            println!("{text}");
            return ExitCode::FAILURE;
        }
    };
    let mut confirm = || {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).is_ok() && answer.starts_with(['y', 'Y'])
    };
    if check(&SystemDisk, &request, &mut std::io::stdout(), &mut confirm) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

//! How a worker runs scripts and functions ([`WorkerScripts`]).
//!
//! A script runs with a [`job::Job`], which holds its latches and effects, on a stack of its own: so it can pause, and its
//! worker can serve others. Never touches a connection. Start reading at [`WorkerScripts::run`].

mod engine;
mod job;
mod request;
mod worker_scripts;

use std::io;

use commands::error::CommandError;

pub use self::worker_scripts::{MakeHost, ScriptPlan, WorkerScripts};
use crate::shared::Shared;

/// Adds a library that a file has; `replaces`: one with its name may exist.
///
/// # Errors
/// It is refused.
pub fn load_from_file(shared: &'static Shared, code: &[u8], replaces: bool) -> Result<(), CommandError> {
    let mut engine = engine::Engine::new(worker_scripts::settings(shared)).map_err(no_interpreter)?;
    shared.scripts.libraries.load(code, replaces, &mut |code| engine.load_library(code)).map(drop)
}

/// There is no memory for an interpreter.
fn no_interpreter(error: io::Error) -> CommandError {
    CommandError::owned(format!("ERR No interpreter: {error}"))
}

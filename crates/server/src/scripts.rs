//! Scripts and functions in the server: what all workers share ([`Scripts`]), and how a worker runs them
//! ([`WorkerScripts`]).
//!
//! Owns the cache of scripts, the libraries, and the list of scripts that run long. A script runs with a [`job::Job`],
//! which holds its latches and effects, on a stack of its own: so it can pause, and its worker can serve others.
//! Start reading at [`WorkerScripts::run`].

pub mod cache;
mod engine;
pub mod errors;
pub mod job;
pub mod libraries;
mod request;
pub mod running;
mod worker_scripts;

use std::io;

use commands::error::CommandError;
use commands::host::ScriptKind;
use sync::atomic::{AtomicU64, Ordering};

pub use self::worker_scripts::{ScriptPlan, WorkerScripts};
use crate::shared::Shared;
use cache::ScriptCache;
use libraries::Libraries;
use running::RunningScripts;

/// The scripts of the server.
#[derive(Default)]
pub struct Scripts {
    /// The cache of scripts.
    pub cache: ScriptCache,
    /// The libraries of functions.
    pub libraries: Libraries,
    /// The scripts that run long.
    pub running: RunningScripts,
    /// Counters for `INFO`.
    pub totals: Totals,
}

/// What scripts did, since the start or the last `CONFIG RESETSTAT`.
#[derive(Default)]
pub struct Totals {
    /// Runs that accessed keys that they had not declared.
    pub undeclared: AtomicU64,
    /// Runs that were abandoned before they wrote, and run again with other latches.
    pub repeated: AtomicU64,
    /// Runs that took all latches.
    pub exclusive: AtomicU64,
}

impl Scripts {
    /// Adds a library that a file has.
    ///
    /// # Errors
    /// It is refused.
    pub fn load_from_file(&self, shared: &'static Shared, code: &[u8]) -> Result<(), CommandError> {
        let mut engine = engine::Engine::new(worker_scripts::settings(shared)).map_err(no_interpreter)?;
        self.libraries.load(code, true, &mut |code| engine.load_library(code)).map(drop)
    }
}

/// There is no memory for an interpreter.
fn no_interpreter(error: io::Error) -> CommandError {
    CommandError::owned(format!("ERR No interpreter: {error}"))
}

impl Totals {
    /// Counts one.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets all to zero.
    pub fn reset(&self) {
        for counter in [&self.undeclared, &self.repeated, &self.exclusive] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// The word for a kind in the log and in errors.
fn kill_command(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Script => "SCRIPT KILL",
        ScriptKind::Function => "FUNCTION KILL",
    }
}

//! How a worker runs scripts and functions ([`WorkerScripts`]).
//!
//! A script runs with a [`job::Job`], which holds its latches and effects, on a stack of its own: so it can pause, and its
//! worker can serve others. Never touches a connection. Start reading at [`WorkerScripts::run`].

mod declared_flags;
mod engine;
mod job;
#[cfg(feature = "simulation")]
mod planted;
mod request;
mod timing;
mod worker_scripts;

use std::cell::RefCell;
use std::io;

use commands::error::CommandError;

pub use self::worker_scripts::{MakeHost, ScriptPlan, WorkerScripts};
use crate::scripts::libraries::Libraries;
use crate::shared::Shared;

/// Loads the libraries of a file. It has one interpreter, from the first library on.
#[derive(Default)]
pub struct LibraryLoader {
    engine: RefCell<Option<engine::Engine>>,
}

impl LibraryLoader {
    /// Adds a library to `libraries`; `replaces`: one with its name may exist.
    ///
    /// # Errors
    /// It is refused.
    pub fn load(
        &self,
        shared: &'static Shared,
        libraries: &Libraries,
        code: &[u8],
        replaces: bool,
    ) -> Result<(), CommandError> {
        let mut engine = self.engine.borrow_mut();
        let engine = match &mut *engine {
            Some(engine) => engine,
            none => none.insert(
                engine::Engine::new(worker_scripts::settings(shared), &shared.scripts)
                    .map_err(no_interpreter)?,
            ),
        };
        libraries.load(code, replaces, &mut |code| engine.check_library(code)).map(drop)
    }
}

/// There is no memory for an interpreter.
fn no_interpreter(error: io::Error) -> CommandError {
    CommandError::owned(format!("ERR No interpreter: {error}"))
}

//! The scripts and functions of the server, which all workers share: the cache of scripts, the libraries, and the list of
//! scripts that run long. `script_runs` runs them. Never touches a worker, a connection or a latch.

pub mod cache;
pub mod errors;
pub mod libraries;
pub mod memory;
pub mod running;

use base::Slot;
use commands::host::ScriptKind;
use sync::atomic::{AtomicU64, Ordering};

use cache::ScriptCache;
use libraries::Libraries;
use memory::ScriptMemory;
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
    /// The memory of all interpreters.
    pub memory: ScriptMemory,
    /// The part of it that the libraries of functions took when they were loaded.
    pub function_memory: ScriptMemory,
}

/// Counts of script runs since the start or the last `CONFIG RESETSTAT`.
#[derive(Default)]
pub struct Totals {
    /// Runs that accessed keys that they had not declared.
    pub undeclared: AtomicU64,
    /// Runs that were abandoned before they wrote, and run again with other latches.
    pub repeated: AtomicU64,
    /// Runs that took all latches.
    pub exclusive: AtomicU64,
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
pub fn kill_command(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Script => "SCRIPT KILL",
        ScriptKind::Function => "FUNCTION KILL",
    }
}

/// The latches with which a script is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScriptLatches {
    /// Those of its declared keys, or more, by what is known about it.
    #[default]
    Declared,
    /// Besides, those of these slots, which an earlier run accessed or met busy. For a script that only reads.
    Further(Box<[Slot]>),
    /// All.
    Everything,
}

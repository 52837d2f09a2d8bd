//! The scripts that run long, for `SCRIPT KILL`, `FUNCTION STATS` and the `BUSY` error.
//!
//! A script enters the list when it is first interrupted, after about a millisecond, so brief ones never touch it.

use std::sync::Arc;

use base::Slot;
use commands::error::CommandError;
use commands::host::{RunningFunction, ScriptKind};
use os::clock::Ticks;
use sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::{Mutex, MutexGuard};

/// A script that runs.
pub struct RunningScript {
    /// How it can be killed.
    pub kind: ScriptKind,
    /// The name of the function, or the digest of the script.
    pub name: Vec<u8>,
    /// The request.
    pub command: Vec<Vec<u8>>,
    /// The client that runs it.
    pub client: u64,
    /// The slots whose latches it holds.
    pub slots: Mutex<Vec<Slot>>,
    /// Whether it, or a later command of its transaction, may write.
    pub may_write: bool,
    /// When it began.
    pub started: Ticks,
    /// Whether it has written: then it can't be killed.
    pub has_written: AtomicBool,
    /// Whether it is to end.
    pub is_killed: AtomicBool,
}

impl RunningScript {
    /// Sets the slots whose latches it holds now.
    pub fn set_slots(&self, slots: Vec<Slot>) {
        *self.slots() = slots;
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The scripts that run long.
#[derive(Default)]
pub struct RunningScripts {
    list: Mutex<Vec<Arc<RunningScript>>>,
    count: AtomicUsize,
}

impl RunningScripts {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<RunningScript>>> {
        self.list.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether no script runs long.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a script.
    pub fn enter(&self, script: &Arc<RunningScript>) {
        let mut list = self.lock();
        list.push(Arc::clone(script));
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Removes a script.
    pub fn leave(&self, script: &Arc<RunningScript>) {
        let mut list = self.lock();
        list.retain(|other| !Arc::ptr_eq(other, script));
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Ends the script of a kind that has run longest, of those that have written nothing and are not ending yet.
    ///
    /// # Errors
    /// There is none.
    pub fn kill(&self, kind: ScriptKind) -> Result<(), CommandError> {
        const UNKILLABLE: CommandError = CommandError::new(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        );
        let list = self.lock();
        if list.is_empty() {
            return Err(CommandError::new("NOTBUSY No scripts in execution right now."));
        }
        let mut result = Err(None);
        let mut candidates: Vec<_> = list.iter().filter(|script| script.kind == kind).collect();
        candidates.sort_by_key(|script| script.started.to_raw());
        for script in candidates {
            if script.has_written.load(Ordering::Acquire) {
                result = result.or(Err(Some(UNKILLABLE)));
            } else {
                result = Ok(());
                if !script.is_killed.swap(true, Ordering::AcqRel) {
                    break;
                }
            }
        }
        result.map_err(|error| error.unwrap_or_else(|| super::errors::busy(list[0].kind)))
    }

    /// Ends the scripts that have run longer than this and have written nothing: the server ends.
    pub fn end_all(&self, threshold_ms: u64) {
        let now = Ticks::now();
        let is_busy = |script: &&Arc<RunningScript>| now.ns_since(script.started) / 1_000_000 >= threshold_ms;
        for script in self.lock().iter().filter(is_busy) {
            if !script.has_written.load(Ordering::Acquire) {
                script.is_killed.store(true, Ordering::Release);
            }
        }
    }

    /// Ends the script of a closed connection, unless it has written.
    pub fn end_of_client(&self, client: u64) {
        for script in self.lock().iter().filter(|script| script.client == client) {
            if !script.has_written.load(Ordering::Acquire) {
                script.is_killed.store(true, Ordering::Release);
            }
        }
    }

    /// The function that has run longest.
    #[must_use]
    pub fn function(&self) -> Option<RunningFunction> {
        let list = self.lock();
        let now = Ticks::now();
        list.iter().find(|script| script.kind == ScriptKind::Function).map(|script| RunningFunction {
            name: script.name.clone(),
            command: script.command.clone(),
            duration_ms: now.ns_since(script.started) / 1_000_000,
        })
    }

    /// The kind of a script that has run longer than this and may write; `None`: there is none.
    #[must_use]
    pub fn busy_writer(&self, threshold_ms: u64) -> Option<ScriptKind> {
        self.busy(threshold_ms, |script| script.may_write)
    }

    /// The kind of a script that has run longer than this and holds the slot; `None`: there is none.
    #[must_use]
    pub fn busy_in(&self, slot: Slot, threshold_ms: u64) -> Option<ScriptKind> {
        self.busy(threshold_ms, |script| script.slots().contains(&slot))
    }

    fn busy(&self, threshold_ms: u64, is_meant: impl Fn(&RunningScript) -> bool) -> Option<ScriptKind> {
        if self.is_empty() || threshold_ms == 0 {
            return None;
        }
        let now = Ticks::now();
        let is_busy = |script: &&Arc<RunningScript>| {
            now.ns_since(script.started) / 1_000_000 >= threshold_ms && is_meant(script)
        };
        self.lock().iter().find(is_busy).map(|script| script.kind)
    }
}

//! The server as commands see it: [`Host`](commands::host::Host), implemented on the shared state, on behalf of
//! one worker. Each file implements the traits of its namesake in `commands/src/host`.

mod clients;
mod memory;
mod migration;
mod monitoring;
mod persistence;
mod process;
mod pubsub;
mod scripting;
mod users;

use std::rc::Rc;

use commands::host::ServerReport;
use commands::session::{Session, SessionFlags};

use crate::pubsub::LocalSubscriptions;
use crate::script_runs::WorkerScripts;
use crate::shared::Shared;

/// The host for the commands of one worker.
pub struct WorkerHost {
    shared: &'static Shared,
    thread: usize,
    /// The subscriptions of the worker.
    pub subscriptions: Rc<LocalSubscriptions>,
    /// The scripts of the worker; `None` for the commands of scripts.
    pub scripts: Option<Rc<WorkerScripts>>,
}

impl WorkerHost {
    /// Returns the host for a worker.
    #[must_use]
    pub fn new(
        shared: &'static Shared,
        thread: usize,
        subscriptions: Rc<LocalSubscriptions>,
        scripts: Rc<WorkerScripts>,
    ) -> Self {
        Self { shared, thread, subscriptions, scripts: Some(scripts) }
    }

    /// Returns the host for the commands of scripts.
    #[must_use]
    pub fn of_script(shared: &'static Shared, thread: usize, subscriptions: Rc<LocalSubscriptions>) -> Self {
        Self { shared, thread, subscriptions, scripts: None }
    }

    /// Removes the state of a closed connection.
    pub fn remove(&self, session: &Session) {
        if session.flags.contains(SessionFlags::MONITOR) {
            self.monitor(session, false);
        }
    }
}

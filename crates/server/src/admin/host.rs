//! The server as commands see it: [`Host`](commands::host::Host), implemented on the shared state, on behalf of
//! one worker. Each file implements the traits of its namesake in `commands/src/host`.

mod clients;
mod memory;
mod migration;
mod monitoring;
mod persistence;
mod primary_link;
mod process;
mod pubsub;
mod replicas;
mod scripting;
mod users;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use commands::host::ServerReport;
use commands::session::{Session, SessionFlags};

use crate::connection::replica::Replica;
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
    /// The connections that have become those of replicas since the worker has taken them.
    new_replicas: RefCell<Vec<Arc<Replica>>>,
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
        Self { shared, thread, subscriptions, scripts: Some(scripts), new_replicas: RefCell::default() }
    }

    /// Returns the host for the commands of scripts.
    #[must_use]
    pub fn of_script(shared: &'static Shared, thread: usize, subscriptions: Rc<LocalSubscriptions>) -> Self {
        Self { shared, thread, subscriptions, scripts: None, new_replicas: RefCell::default() }
    }

    /// The connections that have become those of replicas since the last call.
    #[inline]
    pub fn take_new_replicas(&self) -> Vec<Arc<Replica>> {
        self.new_replicas.take()
    }

    /// Removes the state of a closed connection.
    pub fn remove(&self, session: &Session) {
        if session.flags.contains(SessionFlags::MONITOR) {
            self.monitor(session, false);
        }
    }
}

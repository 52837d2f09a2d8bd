//! Closing a connection on request of another worker, and the end of this worker.

use os::clock::Uptime;
use sync::simulation::{Fault, planted};

use super::Worker;
use crate::connection::Token;

/// Whether the worker must end.
#[derive(Default)]
pub(super) struct Ending {
    /// Whether the number of workers is reduced: its connections move to others.
    pub(super) is_retiring: bool,
    /// Whether the server ends.
    pub(super) is_stopping: bool,
    /// When slow readers are closed while the worker is stopping.
    pub(super) stop_at: Uptime,
}

impl Worker {
    /// Whether the worker has no work left. After a `true` its handle is closed: no more mail arrives.
    pub(super) fn may_end(&self) -> bool {
        (self.ending.is_retiring || self.ending.is_stopping)
            && self.connections.is_empty()
            && self.waits.deferred_serves.is_empty()
            && (self.ending.is_stopping || self.executor.scripts.has_none_paused())
            && (self.ending.is_stopping || self.waits.paused_serves.is_empty())
            && (self.has_settled() || planted(Fault::MailToClosedHandle))
            && self.shared.try_vacate(self.index)
    }

    /// Whether all work that other workers depend on is done.
    fn has_settled(&self) -> bool {
        !self.executor.has_deferred_serves()
            && self.waits.lingering.is_empty()
            && self.output.after_reply.is_empty()
            && self.waits.early.is_empty()
            && self.waits.barrier_requests.is_empty()
            && !self.host.subscriptions.has_mail()
    }

    /// Closes a connection if it still is the client with this id.
    pub(super) fn kill(&mut self, token: Token, id: u64) {
        if self.connections.find_mut(token).is_some_and(|connection| connection.session.id == id) {
            self.close_now(token);
        }
    }
}

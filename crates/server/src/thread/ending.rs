//! Closing a connection on request of another worker, and the end of this worker.

use sync::simulation::{Fault, planted};

use super::Thread;
use crate::connection::Token;

impl Thread {
    /// Whether nothing is left to do here. After a `true` the handle is closed: no more mail arrives.
    pub(super) fn may_end(&self) -> bool {
        (self.retiring || self.stopping)
            && self.connections.is_empty()
            && self.deferred_serves.is_empty()
            && (self.stopping || self.paused_serves.is_empty())
            && (self.has_settled() || planted(Fault::MailToClosedSeat))
            && self.shared.let_go(self.index)
    }

    /// Whether all work that other workers depend on is done.
    fn has_settled(&self) -> bool {
        !self.executor.has_errands()
            && self.lingering.is_empty()
            && self.after_reply.is_empty()
            && self.early.is_empty()
            && self.barrier_requests.is_empty()
            && !self.subscriptions.has_mail()
    }

    /// Closes a connection if it still is the client with this id.
    pub(super) fn kill(&mut self, token: Token, id: u64) {
        if self.connection(token).is_some_and(|connection| connection.session.id == id) {
            self.close_now(token);
        }
    }
}

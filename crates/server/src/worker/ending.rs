//! Closing a connection after its output or on request of another worker, and the end of this worker.
//!
//! A connection that is being closed after its output runs no request and gets no message, but is registered and charged
//! like any other until its output is sent: `CLIENT LIST`, `CLIENT KILL`, `maxclients`, `maxmemory-clients` and output
//! limits apply to it. Only a last output that the kernel can be expected to take at once is sent after the connection has
//! left the registry, so that a client that has read it finds no trace of the connection; what is then left unsent registers
//! it again.

use os::clock::Uptime;
use sync::simulation::planted;

use super::Worker;
use crate::connection::token::Token;
use crate::faults;

/// The largest last output that is expected to be taken at once by an empty socket, in bytes.
const LAST_OUTPUT_SIZE_MAX: usize = 256 << 10;

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
            && self.links.is_empty()
            && (self.ending.is_stopping || self.executor.scripts.has_none_paused())
            && (self.ending.is_stopping || self.waits.paused_serves.is_empty())
            && (self.has_settled() || planted(faults::LOST_MAIL))
            && self.shared.try_vacate(self.index)
    }

    /// Whether all work that other workers depend on is done.
    fn has_settled(&self) -> bool {
        !self.executor.has_deferred_serves()
            && self.waits.lingering.is_empty()
            && self.output.after_reply.is_empty()
            && self.waits.early.is_empty()
            && self.waits.barrier_counts() == (0, 0)
            && !self.host.subscriptions.has_mail()
    }

    /// Removes a closing connection from the registry, if the kernel can be expected to take its last output at once.
    pub(super) fn hide_before_last_send(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let before = self.events.reactor.unsent_bytes(connection.id) + connection.queued_output();
        if before == 0
            && connection.client.replies.size() <= LAST_OUTPUT_SIZE_MAX
            && self.shared.clients.remove(connection.client.session.id)
        {
            self.output.hidden.push(token);
        }
    }

    /// Registers the closing connections again whose last output was not taken at once.
    pub(super) fn show_unsent(&mut self) {
        for token in std::mem::take(&mut self.output.hidden) {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let unsent = self.events.reactor.unsent_bytes(connection.id) + connection.queued_output();
            if unsent > 0 && !connection.record.memory_charge.is_released() {
                self.shared.clients.insert(&connection.record);
                self.update_record(token);
            }
        }
    }

    /// Closes a connection if it still is the client with this id.
    pub(super) fn kill(&mut self, token: Token, id: u64) {
        if self.connections.find_mut(token).is_some_and(|connection| connection.client.session.id == id) {
            self.close_now(token);
        }
    }
}

//! Invalidations for this worker's connections.

use commands::session::{Session, SessionFlags};

use super::Worker;
use crate::connection::token::Token;
use crate::mail::invalidation::{Broadcast, Invalidation};
use crate::pubsub::write_invalidation_of_all;

impl Worker {
    /// Sends the changes of this turn to the connections in broadcast mode, here before the replies are sent.
    pub(super) fn broadcast(&mut self) {
        loop {
            let changed = &mut self.executor.latching.events.changed_keys;
            if !changed.is_empty() {
                self.shared.hub.broadcast(changed);
            }
            self.read_mail();
            if self.executor.latching.events.changed_keys.is_empty() {
                return;
            }
        }
    }

    /// Delivers an invalidation to its connection.
    pub(super) fn invalidate(&mut self, invalidation: Invalidation) {
        let (to, client) = (invalidation.to, invalidation.client);
        let connection =
            self.connections.find_mut(to).filter(|connection| connection.client.session.id == client);
        let is_here = connection.is_some();
        // The request with which it is being served made the change, whose reply is in the mail, or its script, which is
        // paused: the invalidation follows the reply.
        let awaits_reply = connection.filter(|_| invalidation.is_own_change).is_some_and(|connection| {
            let is_served = connection.client.wait.waiter().is_some_and(|waiter| !waiter.wait.is_waiting());
            is_served || connection.client.session.unfinished.is_some()
        });
        if awaits_reply {
            return self.output.after_reply.push(invalidation);
        }
        if let Some(invalidation) = self.host.subscriptions.receive_invalidation(invalidation, is_here) {
            let hub = self.shared.hub;
            self.write_to(to, |session, out| invalidation.write_to(hub, session, out));
        }
    }

    /// Sends the invalidations held back for connections that were being served, or whose scripts were paused, if their
    /// replies are written.
    pub(super) fn invalidate_after_replies(&mut self) {
        for invalidation in std::mem::take(&mut self.output.after_reply) {
            self.invalidate(invalidation);
        }
    }

    /// Delivers changed keys to connections in broadcast mode.
    pub(super) fn deliver_broadcast(&mut self, number: u64, broadcast: &Broadcast) {
        let hub = self.shared.hub;
        for token in self.host.subscriptions.broadcast_receivers(number, broadcast) {
            self.write_to(token, |session, out| {
                if session.delivered_seq < number {
                    broadcast.write_to(hub, session, out);
                }
            });
        }
    }

    /// Invalidates all cached keys of all tracking connections.
    pub(super) fn invalidate_all(&mut self, number: u64) {
        let caches = |session: &Session| {
            session.flags.contains(SessionFlags::TRACKING) && session.delivered_seq < number
        };
        let all = self.connections.iter().filter(|connection| caches(&connection.client.session));
        let tokens: Vec<Token> = all.map(|connection| connection.client.token).collect();
        let hub = self.shared.hub;
        for token in tokens {
            self.write_to(token, |session, out| write_invalidation_of_all(hub, session, out));
        }
    }

    /// Lets `write` append to a connection's output, unless it is being closed.
    fn write_to(&mut self, token: Token, write: impl FnOnce(&mut Session, &mut Vec<u8>)) {
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_closing())
        else {
            return;
        };
        let (was_empty, size_before) =
            (connection.client.replies.bytes.is_empty(), connection.client.replies.bytes.capacity());
        write(&mut connection.client.session, &mut connection.client.replies.bytes);
        let becomes_dirty = was_empty && !connection.client.replies.bytes.is_empty();
        // About to be freed: invalidations of evicted keys must not evict further keys.
        let added = (connection.client.replies.bytes.capacity() - size_before) as u64;
        self.statistics.memory.unsent.add(added);
        if becomes_dirty {
            self.output.dirty.push(token);
        }
    }
}

//! `maxmemory-clients`: when all connections together take more than that, the largest are closed, whichever thread
//! serves them, until the others fit.
//!
//! A connection is weighed after each batch, when its output has been handed over or sent, and ten times a second. What
//! others may see of it is published behind that: nobody is shown a connection that is too much, and must go.
//!
//! Connections that may not be closed count like all others; if they alone are over the limit, nobody is closed for it.
//! Valkey would close everybody else then, at each one's next command, and be no better off.
//!
//! Invariants: the sum of the threads' `client_memory` is the sum of the weights of all connections. The sum of their
//! `leaving_bytes` is what those weighed that are being closed at once.

use std::cmp::Reverse;
use std::sync::Arc;

use commands::reply_buffers::LentTexts;
use reactor::CloseMode;
use sync::atomic::Ordering;

use super::Thread;
use crate::connection::Token;
use crate::mail::Mail;
use crate::query_buffer::QueryBuffer;
use crate::registry::ClientRecord;

impl Thread {
    /// Weighs a connection and publishes what others may see of it, unless it has to go.
    pub(super) fn take_note(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            return;
        };
        // First, as it tells whether the connection may be closed to free memory.
        connection.publish_session();
        self.statistics.client_memory.add(connection.weigh());
        if self.executor.client_memory_max == u64::MAX {
            connection.publish_buffers(self.statistics);
            return;
        }
        self.evict_clients();
        let statistics = self.statistics;
        if let Some(connection) = self.connection(token) {
            connection.publish_buffers(statistics);
        }
    }

    /// So many bytes of a connection's output are with the reactor.
    pub(super) fn note_output(&mut self, token: Token, pending: usize) {
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            return;
        };
        if std::mem::replace(&mut connection.pending, pending) == pending {
            return;
        }
        let grown = connection.weigh();
        if grown == 0 {
            return;
        }
        self.statistics.client_memory.add(grown);
        if self.executor.client_memory_max == u64::MAX {
            connection.publish_output(self.statistics);
            return;
        }
        self.evict_clients();
        let statistics = self.statistics;
        if let Some(connection) = self.connection(token) {
            connection.publish_output(statistics);
        }
    }

    /// Closes the largest connections as long as all together are over the limit. Those of this thread are gone at once;
    /// others' owners are told, and what they hold counts as gone.
    pub(super) fn evict_clients(&mut self) {
        if self.shared.client_memory() > self.executor.client_memory_max {
            self.evict_largest();
        }
    }

    #[cold]
    fn evict_largest(&mut self) {
        let shared = self.shared;
        let _only_this_thread = shared.evicting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut records = shared.clients.all();
        let kept = |record: &&Arc<ClientRecord>| !record.is_evictable();
        let kept_size: u64 = records.iter().filter(kept).map(|record| record.memory_charge.value()).sum();
        // Closing all others would not help.
        if kept_size > self.executor.client_memory_max {
            return;
        }
        records.retain(|record| record.is_evictable());
        records.sort_by_cached_key(|record| Reverse(record.memory_charge.value()));
        for record in records {
            if shared.client_memory() <= self.executor.client_memory_max {
                return;
            }
            // Whoever takes it out of the registry is the one who closes it.
            if !shared.clients.remove(record.id) {
                continue;
            }
            let freed = record.memory_charge.release();
            self.statistics.leaving_bytes.add(freed);
            self.statistics.client_memory.subtract(freed);
            log::info!("Evicting client: id={} addr={} tot-mem={freed}", record.id, record.peer);
            shared.evicted_clients.fetch_add(1, Ordering::Relaxed);
            match record.token_on(self.index) {
                Some(token) => self.evict(token, record.id, freed),
                None => {
                    let token = record.place();
                    shared.workers.post(token.thread(), Mail::Evict(token, record.id, freed));
                }
            }
        }
    }

    /// Closes a connection to free its memory, at once. Its weight is on its way out already.
    pub(super) fn evict(&mut self, token: Token, id: u64, charge: u64) {
        let Some(connection) = self.connection(token).filter(|connection| connection.session.id == id) else {
            self.statistics.leaving_bytes.subtract(charge);
            return;
        };
        connection.leaving += charge;
        connection.query = QueryBuffer::default();
        connection.out = Vec::new();
        connection.lent = LentTexts::default();
        self.close_now(token);
    }

    /// Closes a connection without another word. For others it is gone from now on.
    pub(super) fn close_now(&mut self, token: Token) {
        self.cancel_wait(token);
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            return;
        };
        connection.closing = true;
        let charge = connection.release();
        connection.leaving += charge;
        self.statistics.leaving_bytes.add(charge);
        self.statistics.client_memory.subtract(charge);
        self.reactor.close(connection.id, CloseMode::Now);
        self.deregister(token);
    }
}

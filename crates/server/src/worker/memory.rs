//! `maxmemory-clients`: when all connections together use more memory, the largest are closed, in any
//! worker, until the others are within the limit.
//!
//! A connection's memory charge is updated after each batch, when its output has been passed on or sent, and
//! ten times a second. Its client record is published after that: no client sees a connection that exceeds the
//! limit and must be closed.
//!
//! Connections that may not be closed count, too; if they alone exceed the limit, none is closed.
//! Valkey would then close all others, each at its next command, without effect on the limit.
//!
//! Invariants: the sum of the workers' `client_memory` is the sum of the memory charges of all connections. The
//! sum of their `closing_bytes` is the charges of the connections that are being closed at once.

use std::cmp::Reverse;
use std::sync::Arc;

use commands::reply_buffers::ReplyParts;
use reactor::CloseMode;
use sync::atomic::Ordering;

use super::Worker;
use crate::connection::query_buffer::QueryBuffer;
use crate::connection::record::ClientRecord;
use crate::connection::token::Token;
use crate::mail::Mail;

impl Worker {
    /// Updates a connection's memory charge and publishes its client record, unless it has to be closed.
    pub(super) fn update_record(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        // First, as this decides whether the connection may be closed to free memory.
        connection.publish_session();
        self.statistics.memory.clients.add(connection.weigh());
        if self.executor.settings.client_memory_max == u64::MAX {
            connection.publish_buffers(self.statistics);
            return;
        }
        self.evict_clients();
        let statistics = self.statistics;
        if let Some(connection) = self.connections.find_mut(token) {
            connection.publish_buffers(statistics);
        }
    }

    /// Records how many bytes of a connection's output are in the reactor.
    pub(super) fn note_output(&mut self, token: Token, pending: usize) {
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        if std::mem::replace(&mut connection.sending.pending, pending) == pending {
            return;
        }
        connection.sending.pending_messages = self.events.reactor.message_bytes(connection.id);
        let grown = connection.weigh();
        if grown == 0 && connection.is_charged() {
            return;
        }
        self.statistics.memory.clients.add(grown);
        if self.executor.settings.client_memory_max == u64::MAX {
            connection.publish_output(self.statistics);
            return;
        }
        self.evict_clients();
        let statistics = self.statistics;
        if let Some(connection) = self.connections.find_mut(token) {
            connection.publish_output(statistics);
        }
    }

    /// Closes the largest connections while all together exceed the limit. Those of this worker are closed at
    /// once; other workers are notified, and the memory of their connections counts as freed.
    pub(super) fn evict_clients(&mut self) {
        if self.shared.monitoring.statistics.client_memory() > self.executor.settings.client_memory_max {
            self.evict_largest();
        }
    }

    #[cold]
    fn evict_largest(&mut self) {
        let shared = self.shared;
        let _only_this_thread =
            shared.connections.evicting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Other workers' connections grow meanwhile, and new ones come: only as much is freed as the charges
        // show that decide the order, before these are read again.
        while shared.monitoring.statistics.client_memory() > self.executor.settings.client_memory_max {
            if !self.evict_largest_of(shared.clients.all()) {
                return;
            }
        }
    }

    /// Closes the largest of these connections, until the others are within the limit. `false`: they are, or cannot be.
    fn evict_largest_of(&mut self, records: Vec<Arc<ClientRecord>>) -> bool {
        let max = self.executor.settings.client_memory_max;
        let charges = records.into_iter().map(|record| (record.memory_charge.value(), record));
        let (mut evictable, kept): (Vec<_>, Vec<_>) = charges.partition(|(_, record)| record.is_evictable());
        let sum =
            |charges: &[(u64, Arc<ClientRecord>)]| charges.iter().map(|(charge, _)| charge).sum::<u64>();
        let (evictable_size, kept_size) = (sum(&evictable), sum(&kept));
        // Closing all others would not help.
        if kept_size > max {
            return false;
        }
        let mut excess = (evictable_size + kept_size).saturating_sub(max);
        evictable.sort_by_key(|(charge, _)| Reverse(*charge));
        let mut largest = evictable.into_iter();
        while excess > 0
            && let Some((charge, record)) = largest.next()
        {
            excess = excess.saturating_sub(charge);
            self.evict_record(&record);
        }
        evictable_size + kept_size > max
    }

    /// Closes a connection to free its memory, or has its worker do so.
    fn evict_record(&mut self, record: &ClientRecord) {
        let shared = self.shared;
        // The thread that removes it from the registry closes it.
        if !shared.clients.remove(record.id) {
            return;
        }
        let freed = record.memory_charge.release();
        self.statistics.memory.closing.add(freed);
        self.statistics.memory.clients.subtract(freed);
        log::info!("Evicting client: id={} addr={} tot-mem={freed}", record.id, record.endpoints.peer);
        shared.connections.evicted.fetch_add(1, Ordering::Relaxed);
        match record.token_on(self.index) {
            Some(token) => self.evict(token, record.id, freed),
            None => {
                let token = record.place();
                shared
                    .workers
                    .post(token.thread(), Mail::Evict { connection: token, client: record.id, size: freed });
            }
        }
    }

    /// Closes a connection to free its memory, at once. Its charge is already in `closing_bytes`.
    pub(super) fn evict(&mut self, token: Token, id: u64, charge: u64) {
        let Some(connection) =
            self.connections.find_mut(token).filter(|connection| connection.client.session.id == id)
        else {
            self.statistics.memory.closing.subtract(charge);
            return;
        };
        connection.close().charge += charge;
        connection.input.query = QueryBuffer::default();
        connection.client.replies.bytes = Vec::new();
        connection.client.replies.parts = ReplyParts::default();
        if let Some(encryption) = &mut connection.encryption {
            encryption.stream.drop_queued();
        }
        self.close_now(token);
    }

    /// Closes a connection without sending more. Other workers no longer find it.
    pub(super) fn close_now(&mut self, token: Token) {
        self.cancel_wait(token);
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        connection.close();
        let charge = connection.release();
        connection.close().charge += charge;
        self.statistics.memory.closing.add(charge);
        self.statistics.memory.clients.subtract(charge);
        self.events.reactor.close(connection.id, CloseMode::Now);
        self.note_passing_input(token);
        self.deregister(token);
    }
}

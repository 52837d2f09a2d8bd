//! `maxmemory-clients`: when the buffers of all connections together take more than that, the connection with most of
//! them is closed, whichever thread serves it; then the next one, until they fit.

use std::sync::atomic::Ordering;

use reactor::CloseMode;

use super::Thread;
use crate::connection::Token;
use crate::mail::Mail;

impl Thread {
    /// Closes the largest connections while all together are over the limit. Those of this thread are gone at once;
    /// others' owners are told, and what they hold counts as gone.
    #[cold]
    pub(super) fn evict_clients(&mut self) {
        while self.shared.client_memory() > self.executor.client_memory_max {
            let all = self.shared.clients.all();
            let largest = all
                .iter()
                .filter(|record| record.is_evictable())
                .max_by_key(|record| record.memory_bytes.value());
            let Some(record) = largest else { return };
            // Whoever takes it out of the registry is the one who evicts it.
            if !self.shared.clients.remove(record.id) {
                continue;
            }
            log::info!(
                "Evicting client: id={} addr={} tot-mem={}",
                record.id,
                record.peer,
                record.memory_bytes.value()
            );
            self.shared.evicted_clients.fetch_add(1, Ordering::Relaxed);
            match record.token_on(self.index) {
                Some(token) => self.evict(token, record.id),
                None => {
                    let token = record.place();
                    self.shared.seats.post(token.thread(), Mail::Evict(token, record.id));
                    let freed = record.memory_bytes.value();
                    record.memory_bytes.set(0);
                    self.statistics.client_memory.subtract(freed);
                }
            }
        }
    }

    /// Closes a connection to free its memory, at once.
    pub(super) fn evict(&mut self, token: Token, id: u64) {
        let Some(connection) = self.connection(token).filter(|connection| connection.session.id == id) else {
            return;
        };
        connection.closing = true;
        connection.query = Vec::new();
        connection.out = Vec::new();
        let reactor_id = connection.id;
        let freed = connection.record.memory_bytes.value();
        connection.record.memory_bytes.set(0);
        self.statistics.client_memory.subtract(freed);
        self.reactor.close(reactor_id, CloseMode::Now);
    }
}

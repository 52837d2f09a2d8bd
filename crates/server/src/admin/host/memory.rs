//! Memory of the server.

use commands::host::{MemoryReport, MemoryStat};
use commands::session::Session;

use super::WorkerHost;

impl MemoryReport for WorkerHost {
    fn memory_stats(&self) -> Vec<(String, MemoryStat)> {
        self.shared.memory_stats()
    }

    fn used_memory(&self) -> usize {
        self.shared.used_memory()
    }

    fn allocator_report(&self) -> String {
        self.shared.allocator_report()
    }

    fn memory_purge(&self) {
        self.shared.return_memory();
        self.shared.release_free_memory();
    }

    fn free_later(&self, key_count: u64, free: Box<dyn FnOnce() + Send>) {
        self.shared.memory.background.free(key_count, free);
    }

    fn free_before_reply(&self, session: &Session, free: Box<dyn FnOnce() + Send>) -> bool {
        let (shared, client) = (self.shared, session.id);
        // The requests of a file have no client.
        if !session.may_block() || shared.modes.is_loading() {
            free();
            return false;
        }
        let free_and_reply = move || {
            free();
            shared.workers.answer(&shared.clients, client, b"+OK\r\n");
        };
        shared.memory.background.free(0, Box::new(free_and_reply));
        true
    }
}

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

    fn reply_when_freed(&self, session: &Session) -> bool {
        // The requests of a file have no client.
        let waits = session.may_block() && !self.shared.modes.is_loading();
        if waits {
            self.shared.reply_when_freed(session.id);
        }
        waits
    }
}

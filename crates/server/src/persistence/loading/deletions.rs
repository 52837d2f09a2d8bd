//! Deletions of the expired keys that a restarted primary does not load: its replicas have them, so they are deleted in the
//! stream, which goes on meanwhile.

use base::DbIndex;
use sync::write_log::{Audience, LogWriter, Record};
use wire::response::encode_command;

use crate::shared::Shared;

/// Bytes of the stream after which the feed takes them from the log, whose buffer then has room again.
const MOVED_SIZE: usize = 64 << 10;

/// See the module documentation.
pub(super) struct Deletions {
    shared: &'static Shared,
    writer: LogWriter,
    name: &'static str,
    /// The database that the stream has selected.
    selected: Option<DbIndex>,
    request: Vec<u8>,
    /// The bytes since the feed took some.
    size: usize,
}

impl Deletions {
    /// Deletions in the stream, which is on. `None`: no lane of the log is free.
    pub(super) fn new(shared: &'static Shared) -> Option<Self> {
        let writer = shared.keyspace.log.any_writer()?;
        let name = if shared.config.load().lazyfree_lazy_expire { "UNLINK" } else { "DEL" };
        Some(Self { shared, writer, name, selected: None, request: Vec::new(), size: 0 })
    }

    /// Adds the deletion of a key.
    pub(super) fn add(&mut self, db: DbIndex, key: &[u8]) {
        self.request.clear();
        if self.selected.replace(db) != Some(db) {
            encode_command(&["SELECT", &db.0.to_string()], &mut self.request);
        }
        encode_command(&[self.name.as_bytes(), key], &mut self.request);
        let parts = [self.request.as_slice()];
        self.writer.append_unlatched(&Record::for_audience(&parts, Audience::Replicas));
        self.size += self.request.len();
        if self.size >= MOVED_SIZE {
            self.take();
        }
    }

    fn take(&mut self) {
        self.size = 0;
        self.shared.replication.feed.move_now();
    }
}

impl Drop for Deletions {
    fn drop(&mut self) {
        self.take();
        // The next change selects its database.
        self.shared.keyspace.log.forget_database();
    }
}

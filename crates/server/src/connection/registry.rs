//! The list of connections that every thread can read without stopping another: `CLIENT LIST`, `CLIENT KILL`, `INFO`.
//!
//! Each connection has a record here.

use std::collections::BTreeMap;
use std::sync::Arc;

use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Mutex, MutexGuard};

use super::client_sums::{ClientSums, Share};
use super::record::ClientRecord;

const SHARD_COUNT: usize = 16;

/// All connections by id.
#[derive(Default)]
pub struct Registry {
    shards: [Mutex<BTreeMap<u64, Arc<ClientRecord>>>; SHARD_COUNT],
    sums: Arc<ClientSums>,
    last_id: AtomicU64,
    count: AtomicU64,
}

impl Registry {
    /// Returns an id that no connection had before.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Adds a connection, or adds it again.
    pub fn insert(&self, record: &Arc<ClientRecord>) {
        record.join(&self.sums);
        self.shard(record.id).insert(record.id, Arc::clone(record));
        self.count.fetch_add(1, Relaxed);
    }

    /// Removes a connection. Returns whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let Some(record) = self.shard(id).remove(&id) else { return false };
        self.count.fetch_sub(1, Relaxed);
        self.sums.change(record.leave_sums(), Share::NOTHING);
        true
    }

    /// Sums over all connections.
    #[must_use]
    pub fn sums(&self) -> &ClientSums {
        &self.sums
    }

    /// Number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// The connection with this id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<ClientRecord>> {
        self.shard(id).get(&id).cloned()
    }

    /// All connections, ascending by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ClientRecord>> {
        let mut all: Vec<_> = (0..SHARD_COUNT as u64)
            .flat_map(|shard| self.shard(shard).values().cloned().collect::<Vec<_>>())
            .collect();
        all.sort_unstable_by_key(|record| record.id);
        all
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.shards[id as usize % SHARD_COUNT].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use commands::session::{Endpoints, SessionFlags};

    use super::*;
    use crate::connection::wait_code;

    #[test]
    fn sums_follow_published_values_until_removal() {
        let registry = Registry::default();
        let records = [1, 2].map(|id| Arc::new(ClientRecord::new(id, Endpoints::none(""))));
        records.iter().for_each(|record| registry.insert(record));
        let figures = || {
            let sums = registry.sums();
            let waiting = [sums.blocked(), sums.with_timeout()];
            (waiting, [sums.tracking(), sums.listening()], [sums.watching(), sums.watched_keys()])
        };
        records[0].publish_share(Share::new(
            wait_code::FOR_KEYS + wait_code::WITH_TIMEOUT,
            SessionFlags::TRACKING,
            3,
        ));
        records[1].publish_share(Share::new(wait_code::BY_PAUSE, SessionFlags::SUBSCRIBED, 2));
        assert_eq!(figures(), ([2, 1], [1, 1], [2, 5]));
        records[1].publish_share(Share::new(0, SessionFlags::empty(), 4));
        assert_eq!(figures(), ([1, 1], [1, 0], [2, 7]));
        assert!(registry.remove(1) && !registry.remove(1));
        // Its worker may be notified later.
        records[0].publish_share(Share::new(wait_code::FOR_KEYS, SessionFlags::TRACKING, 1));
        assert_eq!(figures(), ([0, 0], [0, 0], [1, 4]));
    }
}

//! What memory is used for: `MEMORY STATS`, and the figures of `INFO memory`.

use std::sync::atomic::Ordering;

use commands::host::MemoryStat;
use reactor::process;

use crate::shared::Shared;

/// Bytes of memory, by use.
pub struct MemoryUse {
    /// Allocated now.
    pub used: u64,
    /// The most ever.
    pub peak: u64,
    /// When the server was ready.
    pub startup: u64,
    /// Resident.
    pub resident: u64,
    /// Of the connections.
    pub clients: u64,
    /// Of the tables of keys, beside the entries.
    pub tables: u64,
    /// Entries of all databases.
    pub key_count: u64,
}

impl MemoryUse {
    /// Everything but data.
    pub fn overhead(&self) -> u64 {
        self.startup + self.clients + self.tables
    }

    /// Data.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// Resident bytes for a used one.
    pub fn fragmentation(&self) -> f64 {
        self.resident as f64 / self.used.max(1) as f64
    }
}

impl Shared {
    /// The figures as of now.
    pub fn memory_use(&self) -> MemoryUse {
        let used = self.used_memory() as u64;
        let peak = self.memory_peak.fetch_max(used, Ordering::Relaxed).max(used);
        let key_count = self.keyspace.key_count();
        MemoryUse {
            used,
            peak,
            startup: self.startup_memory.load(Ordering::Relaxed).min(used),
            resident: process::resident_size().unwrap_or(0),
            clients: self.client_memory(),
            tables: key_count * TABLE_BYTES_A_KEY,
            key_count,
        }
    }

    /// `MEMORY STATS`
    pub fn memory_stats(&self) -> Vec<(String, MemoryStat)> {
        let memory = self.memory_use();
        let whole = |number: u64| MemoryStat::Integer(number as i64);
        let mut stats = vec![
            ("peak.allocated", whole(memory.peak)),
            ("total.allocated", whole(memory.used)),
            ("startup.allocated", whole(memory.startup)),
            ("replication.backlog", whole(0)),
            ("clients.slaves", whole(0)),
            ("clients.normal", whole(memory.clients)),
            ("cluster.links", whole(0)),
            ("aof.buffer", whole(0)),
            ("lua.caches", whole(0)),
            ("functions.caches", whole(0)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Vec<_>>();
        for db in 0..self.keyspace.db_count() {
            let population = self.keyspace.counters.population(db);
            if population.keys > 0 {
                let tables = vec![
                    ("overhead.hashtable.main".to_owned(), whole(population.keys * TABLE_BYTES_A_KEY)),
                    ("overhead.hashtable.expires".to_owned(), whole(0)),
                ];
                stats.push((format!("db.{db}"), MemoryStat::Map(tables)));
            }
        }
        let of_net =
            100.0 * memory.dataset() as f64 / memory.used.saturating_sub(memory.startup).max(1) as f64;
        let rest = [
            ("overhead.db.hashtable.lut", whole(memory.tables)),
            ("overhead.db.hashtable.rehashing", whole(0)),
            ("db.dict.rehashing.count", whole(0)),
            ("overhead.total", whole(memory.overhead())),
            ("keys.count", whole(memory.key_count)),
            (
                "keys.bytes-per-key",
                whole(memory.used.saturating_sub(memory.startup) / memory.key_count.max(1)),
            ),
            ("dataset.bytes", whole(memory.dataset())),
            ("dataset.percentage", MemoryStat::Double(of_net)),
            ("peak.percentage", MemoryStat::Double(100.0 * memory.used as f64 / memory.peak.max(1) as f64)),
            ("allocator.allocated", whole(memory.used)),
            ("allocator.active", whole(memory.resident)),
            ("allocator.resident", whole(memory.resident)),
            ("allocator.muzzy", whole(0)),
            ("allocator-fragmentation.ratio", MemoryStat::Double(memory.fragmentation())),
            ("allocator-fragmentation.bytes", whole(memory.resident.saturating_sub(memory.used))),
            ("allocator-rss.ratio", MemoryStat::Double(1.0)),
            ("allocator-rss.bytes", whole(0)),
            ("rss-overhead.ratio", MemoryStat::Double(1.0)),
            ("rss-overhead.bytes", whole(0)),
            ("fragmentation", MemoryStat::Double(memory.fragmentation())),
            ("fragmentation.bytes", MemoryStat::Integer(memory.resident as i64 - memory.used as i64)),
        ];
        stats.extend(rest.into_iter().map(|(name, value)| (name.to_owned(), value)));
        stats
    }
}

/// Bytes of a table for each key in it: a bucket of one cache line holds seven, and is three quarters full.
const TABLE_BYTES_A_KEY: u64 = 12;

//! The use of memory: `MEMORY STATS`, and the figures of `INFO memory`.

use std::collections::HashSet;

use collections::TABLE_BYTES_A_KEY;
use commands::host::MemoryStat;
use os::process;
use sync::atomic::Ordering;

use crate::shared::Shared;

/// Memory use in bytes.
pub struct MemoryUse {
    /// Allocated now.
    pub used: u64,
    /// The peak of `used`.
    pub peak: u64,
    /// When it was measured, Unix time in seconds.
    pub peak_at: i64,
    /// Used when the server was ready.
    pub startup: u64,
    /// Resident.
    pub resident: u64,
    /// Used by the connections.
    pub clients: u64,
    /// Buffers that do not count for `maxmemory`, and the stream that a replica keeps until its snapshot is loaded.
    pub buffers: u64,
    /// Used by the tables of keys, without the entries.
    pub tables: u64,
    /// Entries of all databases.
    pub key_count: u64,
    /// In unused blocks of the entries' heaps.
    pub wasted: u64,
}

/// The parts of resident memory that is not used, as Redis divides it.
pub struct Gaps {
    /// Used memory, and fragmentation.
    pub active: u64,
    /// Gaps between used blocks.
    pub fragmentation: u64,
    /// `active` divided by the used bytes.
    pub fragmentation_ratio: f64,
    /// Resident beyond `active`.
    pub resident: i64,
    /// Resident bytes divided by `active`.
    pub resident_ratio: f64,
}

impl MemoryUse {
    /// All memory except data.
    pub fn overhead(&self) -> u64 {
        self.startup + self.clients + self.tables + self.buffers
    }

    /// The memory of data.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// The parts of the difference between resident and used.
    pub fn gaps(&self) -> Gaps {
        let active = self.used + self.wasted;
        Gaps {
            active,
            fragmentation: self.wasted,
            fragmentation_ratio: active as f64 / self.used.max(1) as f64,
            resident: self.resident as i64 - active as i64,
            resident_ratio: self.resident as f64 / active.max(1) as f64,
        }
    }

    /// Resident bytes divided by used bytes.
    pub fn fragmentation(&self) -> f64 {
        self.resident as f64 / self.used.max(1) as f64
    }
}

impl Shared {
    /// The current figures, without the `report_size` bytes of the report itself.
    pub fn memory_use(&self, report_size: usize) -> MemoryUse {
        let used = self.used_memory().saturating_sub(report_size) as u64;
        let peak = self.memory.note_peak(used);
        let key_count = self.keyspace.key_count();
        MemoryUse {
            used,
            peak,
            peak_at: self.memory.peak_at.load(Ordering::Relaxed),
            startup: self.memory.startup.load(Ordering::Relaxed).min(used),
            resident: self.memory.resident.size().unwrap_or(0),
            // Announced arguments count for connections before they arrive, but are not used yet.
            clients: self.monitoring.statistics.client_memory().min(used),
            buffers: (self.uncounted_memory() as u64 + self.kept_stream_size()).min(used),
            tables: key_count * TABLE_BYTES_A_KEY as u64,
            key_count,
            wasted: self.keyspace.wasted_bytes(),
        }
    }

    /// `MEMORY MALLOC-STATS`
    pub fn allocator_report(&self) -> String {
        let keyspace = &self.keyspace;
        let of_heaps = |of: fn(&collections::Heap) -> u64| keyspace.heaps().iter().map(of).sum::<u64>();
        let (resident, used) =
            (of_heaps(collections::Heap::resident_bytes), of_heaps(collections::Heap::used_bytes));
        let vacant = keyspace.heaps().first().map_or(0, collections::Heap::family_vacant_bytes);
        format!(
            "Heaps of entries and tables: {} of them\n  mapped          {}\n  in blocks       {resident}\n  \
             in use          {used}\n  wasted          {}\n  vacant          {vacant}\n  to be freed     {}\n\
             Everything else, from mimalloc:\n  allocated       {}\nThe process:\n  resident        {}\n",
            keyspace.heaps().len(),
            keyspace.mapped_bytes(),
            keyspace.wasted_bytes(),
            keyspace.retired_bytes(),
            sync::allocator::allocated_bytes().saturating_sub(keyspace.mapped_bytes()),
            process::resident_size().unwrap_or(0),
        )
    }

    /// The size of the stream that is kept until the snapshot is loaded, on a replica with a connection for each.
    pub fn kept_stream_size(&self) -> u64 {
        self.replication.role.kept.load(Ordering::Relaxed)
    }

    /// `MEMORY STATS`
    pub fn memory_stats(&self) -> Vec<(String, MemoryStat)> {
        let memory = self.memory_use(0);
        let gaps = memory.gaps();
        let whole = |number: u64| MemoryStat::Integer(number as i64);
        let (feed, replicas) = (self.replication.feed.figures(), self.replication.replicas.all());
        let mut stats = vec![
            ("peak.allocated", whole(memory.peak)),
            ("total.allocated", whole(memory.used)),
            ("startup.allocated", whole(memory.startup)),
            ("replication.backlog", whole(feed.memory_bytes.min(feed.size))),
            ("replicas.repl.buffer", whole(self.kept_stream_size())),
            ("replica.fullsync.buffer", whole(self.kept_stream_size())),
            ("clients.slaves", whole(replicas.iter().map(|replica| replica.memory_bytes()).sum())),
            ("clients.normal", whole(memory.clients)),
            ("cluster.links", whole(0)),
            ("cluster.slot_import", whole(0)),
            ("cluster.slot_export", whole(0)),
            ("aof.buffer", whole(self.keyspace.log.memory_bytes())),
            ("lua.caches", whole(0)),
            ("functions.caches", whole(0)),
            ("script.VMs", whole(0)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Vec<_>>();
        let selected: HashSet<u64> =
            self.clients.all().iter().map(|record| record.session.db.value()).collect();
        for db in 0..self.keyspace.db_count() {
            let population = self.keyspace.counters.population(db);
            // A database that is selected has its line even without keys.
            if population.keys > 0 || selected.contains(&(db as u64)) {
                let tables = vec![
                    ("overhead.hashtable.main".to_owned(), whole(population.keys * TABLE_BYTES_A_KEY as u64)),
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
            ("allocator.active", whole(gaps.active)),
            ("allocator.resident", whole(memory.resident)),
            ("allocator.muzzy", whole(0)),
            ("allocator-fragmentation.ratio", MemoryStat::Double(gaps.fragmentation_ratio)),
            ("allocator-fragmentation.bytes", whole(gaps.fragmentation)),
            ("allocator-rss.ratio", MemoryStat::Double(gaps.resident_ratio)),
            ("allocator-rss.bytes", MemoryStat::Integer(gaps.resident)),
            ("rss-overhead.ratio", MemoryStat::Double(1.0)),
            ("rss-overhead.bytes", whole(0)),
            ("fragmentation", MemoryStat::Double(memory.fragmentation())),
            ("fragmentation.bytes", MemoryStat::Integer(memory.resident as i64 - memory.used as i64)),
        ];
        stats.extend(rest.into_iter().map(|(name, value)| (name.to_owned(), value)));
        stats
    }
}

//! The settings of a snapshot, from the configuration at its beginning.

use config::{Config, MaxmemoryPolicy, RdbVersion};
use keyspace::Aging;
use rdb::{Family, RecordHead, Usage, Version};

use super::wakes::WALKER_COUNT_MAX;

/// By default preserved entries may use this share of the memory, and at least so many bytes.
const PRESERVED_SHARE: u64 = 8;
const PRESERVED_SIZE_MIN: u64 = 32 << 20;

/// The least configured bound: changes continue, and the buffer is emptied, some way below it.
const CONFIGURED_SIZE_MIN: u64 = 1 << 20;

/// How a snapshot is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether it ends with a checksum (`rdbchecksum`).
    pub(super) has_checksum: bool,
    encoding: Encoding,
    wanted_version: RdbVersion,
    /// The family of versions that those who receive it read; `None`: the version is a matter of configuration.
    family: Option<Family>,
    /// Number of threads.
    pub(super) thread_count: usize,
    /// The percentage of time for which a thread may work.
    pub(super) cpu_percent: u32,
    /// Bytes of preserved entries at which changes begin to wait.
    pub(super) preserved_size_max: usize,
    /// The CPUs that its threads may use; empty: all.
    pub(super) cpus: Vec<usize>,
    /// Unix time of its beginning, in milliseconds.
    pub(super) now_ms: i64,
    /// Bytes of memory in use at its beginning.
    pub(super) used_memory: usize,
}

/// How its entries are encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    pub(super) version: Version,
    pub(super) is_packing: bool,
    usage: Option<Aging>,
}

impl Settings {
    /// The settings for a snapshot that begins now. The memory is that in use, and that of the machine.
    #[must_use]
    pub fn of(config: &Config, now_ms: i64, (used_memory, system_memory): (usize, u64)) -> Self {
        use MaxmemoryPolicy as Policy;
        let usage = match config.maxmemory_policy {
            Policy::AllkeysLru | Policy::VolatileLru => Some(Aging::lru(now_ms)),
            Policy::AllkeysLrm | Policy::VolatileLrm => Some(Aging::lrm(now_ms)),
            Policy::AllkeysLfu | Policy::VolatileLfu => {
                Some(Aging::lfu(now_ms, config.lfu_log_factor, config.lfu_decay_time))
            }
            Policy::AllkeysRandom | Policy::VolatileRandom | Policy::VolatileTtl | Policy::Noeviction => None,
        };
        Self {
            has_checksum: config.rdbchecksum,
            encoding: Encoding { version: Version::V11, is_packing: config.rdbcompression, usage },
            wanted_version: config.rdb_version,
            family: None,
            thread_count: usize::from(config.snapshot_threads).clamp(1, WALKER_COUNT_MAX),
            cpu_percent: config.snapshot_cpu_percent.clamp(1, 100),
            preserved_size_max: preserved_size_max(config, system_memory),
            cpus: config::parse_cpu_list(&config.bgsave_cpulist).unwrap_or_default(),
            now_ms,
            used_memory,
        }
    }

    /// The settings for the base of an append-only file that begins now.
    #[must_use]
    pub fn of_base(config: &Config, now_ms: i64, memory: (usize, u64)) -> Self {
        let mut settings = Self::of(config, now_ms, memory);
        settings.cpus = config::parse_cpu_list(&config.aof_rewrite_cpulist).unwrap_or_default();
        settings
    }

    /// The settings for replicas that read the versions of a family: Redis 7.2 reads 11, and field expiries need more. The threads
    /// work for half as long again: until the replicas have the snapshot, the backlog keeps all changes.
    #[must_use]
    pub fn for_replicas(mut self, family: Family) -> Self {
        self.family = Some(family);
        self.cpu_percent = (self.cpu_percent * 3 / 2).clamp(1, 100);
        self
    }

    /// The family of servers that the file is for.
    pub(super) fn family(&self) -> Family {
        self.family.unwrap_or(self.encoding.version.family)
    }

    /// Decides the version: by default the oldest that holds the data.
    pub(super) fn decide_version(&mut self, has_volatile_members: bool) {
        self.encoding.version = match self.wanted_version {
            _ if self.family == Some(Family::Redis) && has_volatile_members => Version::V12,
            _ if self.family == Some(Family::Valkey) && has_volatile_members => Version::V80,
            _ if self.family.is_some() => Version::V11,
            RdbVersion::Auto if has_volatile_members => Version::V80,
            RdbVersion::Auto | RdbVersion::V11 => Version::V11,
            RdbVersion::V9 => Version::V9,
            RdbVersion::V12 => Version::V12,
            RdbVersion::V80 => Version::V80,
        };
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }
}

/// The bound of the buffer of preserved entries: by default a share of the memory that data may use. With `fork` each changed
/// page is copied without any bound.
fn preserved_size_max(config: &Config, system_memory: u64) -> usize {
    let size = match (config.snapshot_buffer_size, config.maxmemory) {
        (0, 0) => system_memory / PRESERVED_SHARE,
        (0, limit) => limit.min(system_memory) / PRESERVED_SHARE,
        (size, _) => return usize::try_from(size.max(CONFIGURED_SIZE_MIN)).unwrap_or(usize::MAX),
    };
    usize::try_from(size.max(PRESERVED_SIZE_MIN)).unwrap_or(usize::MAX)
}

impl Encoding {
    /// The attributes of an entry in its record, besides the value.
    pub(super) fn head(&self, entry: collections::Entry<'_>) -> RecordHead {
        let usage = self.usage.map(|aging| match aging {
            Aging::Lru { .. } | Aging::Lrm { .. } => {
                Usage::IdleSeconds(aging.idle_seconds(entry.access()).into())
            }
            Aging::Lfu { .. } => Usage::Frequency(aging.lfu_counter(entry.access()) as u8),
        });
        RecordHead { expiry: entry.expiry(), usage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_a_share_of_the_memory_unless_it_is_configured() {
        let size = |maxmemory, snapshot_buffer_size, system_memory| {
            let config = Config { maxmemory, snapshot_buffer_size, ..Config::default() };
            preserved_size_max(&config, system_memory)
        };
        assert_eq!(size(0, 0, 8 << 30), 1 << 30);
        assert_eq!(size(800 << 20, 0, 8 << 30), 100 << 20);
        assert_eq!(size(64 << 30, 0, 8 << 30), 1 << 30);
        assert_eq!(size(16 << 20, 0, 8 << 30), 32 << 20);
        assert_eq!(size(16 << 20, 1 << 20, 8 << 30), 1 << 20);
        assert_eq!(size(16 << 20, 1, 8 << 30), 1 << 20);
    }
}

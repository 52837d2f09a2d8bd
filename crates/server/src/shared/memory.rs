//! The memory of the process: its use, its limit, and the threads that free it and return it to the system.

use std::sync::Arc;

use collections::{ChunkKeeper, Heap, PageHooks};
use config::{Config, MaxmemoryPolicy};
use keyspace::Aging;
use os::clock::{self, Ticks, Uptime};
use os::process::ResidentSize;
use os::{pages, process};
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::Shared;
use super::background::Background;
use crate::mail::Mail;

/// The growth of resident, unallocated bytes from which on workers return their free memory to the allocator, if it is
/// also more than the allocated memory.
const RELEASED_SIZE_MIN: usize = 8 << 20;
/// The growth of resident, unallocated bytes for which the allocator's free memory is returned to the system.
const PURGED_SIZE_MIN: usize = 4 << 20;
/// Up to this size flushed data that are not freed yet do not count towards `maxmemory`.
const CLEARED_SIZE_MAX: usize = 64 << 20;
/// More heaps would not reduce contention.
const HEAP_COUNT_MAX: usize = 64;

/// The memory of the process.
pub struct Memory {
    /// Whether memory use exceeded its limit at the last check: then buffers are not kept for reuse.
    pub is_over_limit: AtomicBool,
    /// How long memory use was over its limit.
    pub exceeded_time: ExceededTime,
    /// Bytes used when the server was ready.
    pub startup: AtomicU64,
    /// Highest use seen, in bytes.
    pub peak: AtomicU64,
    /// When it was seen, Unix time in seconds.
    pub peak_at: AtomicI64,
    /// The least resident, unallocated bytes since the allocator was last purged (which measures them): memory that is
    /// used and freed between a purge and the next check must count as growth.
    unused_after_purge: AtomicUsize,
    /// Measures the resident bytes.
    pub resident: ResidentSize,
    /// Frees memory in the background.
    pub background: Background,
    /// Prepares memory and returns it to the system.
    pub pages: Arc<Background>,
}

impl Memory {
    /// Returns the state at the start of a server, whose background threads run on the configured CPUs.
    pub(super) fn new(config: &Config) -> Self {
        let cpus = config::parse_cpu_list(&config.bio_cpulist).unwrap_or_default();
        Self {
            is_over_limit: AtomicBool::new(false),
            exceeded_time: ExceededTime::default(),
            startup: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            peak_at: AtomicI64::new(0),
            unused_after_purge: AtomicUsize::new(0),
            resident: ResidentSize::default(),
            pages: Arc::new(Background::on_cpus("pages", cpus.clone())),
            background: Background::on_cpus("background", cpus),
        }
    }

    /// Returns the heaps for the keyspace; the `pages` thread prepares their memory.
    pub(super) fn heaps(&self, config: &Config) -> Vec<Heap> {
        Heap::family_with(heap_count(config.io_threads.count() as usize), page_hooks(config, &self.pages))
    }

    /// Returns the allocator's free memory to the system in the background.
    pub fn purge(&'static self) {
        let purge = || {
            pages::purge_free_memory();
            self.unused_after_purge.store(unused_bytes(), Ordering::Relaxed);
        };
        self.pages.free(0, Box::new(purge));
    }

    /// Updates the highest use of memory, and returns it.
    pub fn note_peak(&self, used: u64) -> u64 {
        let before = self.peak.fetch_max(used, Ordering::Relaxed);
        if used > before {
            self.peak_at.store(clock::unix_millis() / 1000, Ordering::Relaxed);
        }
        before.max(used)
    }
}

impl Shared {
    /// Sends `OK` to a client that waits for it.
    pub fn reply_ok(&self, client: u64) {
        self.workers.answer(&self.clients, client, b"+OK\r\n");
    }

    /// As [`Self::reply_ok`], when all that was to be freed in the background is freed.
    pub fn reply_when_freed(&'static self, client: u64) {
        self.memory.background.free(0, Box::new(move || self.reply_ok(client)));
    }

    /// Bytes of memory that data and buffers use, as `used_memory` counts them: all allocations, except
    /// that of the entries' heaps only blocks in use count. Flushed data do not count, even if they are not freed yet.
    #[must_use]
    pub fn used_memory(&self) -> usize {
        self.allocated_memory().saturating_sub(self.keyspace.cleared_bytes())
    }

    /// As [`Self::used_memory`], with flushed data that are not freed yet.
    fn allocated_memory(&self) -> usize {
        let data = self.keyspace.used_bytes();
        if sync::simulation::is_simulated() {
            // The process holds more than this server, and its threads free memory at any time.
            return (data + self.monitoring.statistics.client_memory() as usize)
                .saturating_sub(self.keyspace.retired_bytes());
        }
        // A chunk that is mapped or unmapped between the readings counts as unused.
        let mapped_before = self.keyspace.mapped_bytes();
        let allocated = sync::allocator::allocated_bytes();
        let mapped = self.keyspace.mapped_bytes().max(mapped_before);
        (allocated + data).saturating_sub(mapped + self.keyspace.retired_bytes())
    }

    /// Bytes of used memory that neither evict nor refuse: buffers of the log and of snapshots, and the interpreters of
    /// scripts, which have a limit of their own. Data does not cause them, and eviction does not free them.
    #[must_use]
    pub fn uncounted_memory(&self) -> usize {
        self.keyspace.log.memory_bytes() as usize
            + self.replication.feed.memory_bytes() as usize
            + self.snapshots.buffer_bytes()
            + self.scripts.memory.used() as usize
    }

    /// Bytes of memory that `maxmemory` limits. Flushed data that are not freed yet count if they are more than
    /// [`CLEARED_SIZE_MAX`]: clients could add data faster than they are freed.
    #[must_use]
    pub fn limited_memory(&self) -> usize {
        let cleared = self.keyspace.cleared_bytes().min(CLEARED_SIZE_MAX);
        let used = self.allocated_memory().saturating_sub(cleared);
        if sync::simulation::is_simulated() {
            // It counts no buffers.
            return used;
        }
        used.saturating_sub(self.uncounted_memory())
    }

    /// Returns free memory to the system in the background, if it is much: vacant memory of the heaps, and memory that
    /// the allocator keeps. Called once a second.
    pub fn trim(&'static self) {
        self.keyspace.note_time();
        if self.keyspace.has_surplus() {
            self.return_memory();
        }
        let unused = unused_bytes();
        let unused_before = self.memory.unused_after_purge.fetch_min(unused, Ordering::Relaxed);
        let grown = unused.saturating_sub(unused_before);
        if grown > RELEASED_SIZE_MIN.max(sync::allocator::allocated_bytes()) {
            self.release_free_memory();
        } else if grown > PURGED_SIZE_MIN {
            self.memory.purge();
        }
    }

    /// Makes every worker return its free memory to the allocator, and purges that. Takes time in proportion to the
    /// memory in use.
    pub fn release_free_memory(&self) {
        self.workers.post_all(|| Mail::ReleaseFreeMemory);
    }

    /// Returns vacant memory of the heaps to the system in the background.
    pub fn return_memory(&'static self) {
        self.memory.pages.free(0, Box::new(|| self.keyspace.trim()));
    }

    /// Samples the rates and peaks.
    pub fn sample(&self, now: Uptime) {
        self.monitoring.metrics.sample(&self.monitoring.statistics, now.to_raw());
        self.memory.note_peak(self.used_memory() as u64);
    }
}

/// Bytes resident and not allocated: the allocator's free memory, its gaps, and the program itself. 0 in a
/// simulation, where the figure would be that of the whole process.
fn unused_bytes() -> usize {
    if sync::simulation::is_simulated() {
        return 0;
    }
    (process::resident_size().unwrap_or(0) as usize).saturating_sub(sync::allocator::allocated_bytes())
}

/// How long memory use has been over its limit because eviction did not keep up.
#[derive(Default)]
pub struct ExceededTime {
    /// The microsecond of the monotonic clock at which memory use exceeded the limit; 0: it does not exceed it.
    since_us: AtomicU64,
    total_us: AtomicU64,
}

impl ExceededTime {
    /// Records whether memory use is over its limit now.
    pub fn note(&self, is_exceeded: bool) {
        let since = self.since_us.load(Ordering::Relaxed);
        if is_exceeded == (since != 0) {
            return;
        }
        let now = Ticks::now().uptime_us().max(1) as u64;
        // If several threads arrive at once, one of them changes it.
        let next = if is_exceeded { now } else { 0 };
        let changed =
            self.since_us.compare_exchange(since, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if changed && !is_exceeded {
            self.total_us.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// How long it has been over the limit now, and in total, in milliseconds.
    pub fn millis(&self) -> (u64, u64) {
        let since = self.since_us.load(Ordering::Relaxed);
        let current = if since == 0 { 0 } else { (Ticks::now().uptime_us() as u64).saturating_sub(since) };
        (current / 1000, (self.total_us.load(Ordering::Relaxed) + current) / 1000)
    }

    /// Restarts from zero.
    pub fn reset(&self) {
        self.total_us.store(0, Ordering::Relaxed);
        self.since_us.store(0, Ordering::Relaxed);
    }
}

/// The number of heaps that the keyspace's slots share: more than the threads that may run at a time, so
/// that two threads seldom use the same one. Not more than necessary, as each heap leaves a partly used
/// span of every size.
fn heap_count(thread_count: usize) -> usize {
    (4 * thread_count.max(process::cpu_count())).next_power_of_two().min(HEAP_COUNT_MAX)
}

/// Returns how the heaps request huge pages, and return memory.
fn page_hooks(config: &Config, pages: &Arc<Background>) -> PageHooks {
    if sync::simulation::is_simulated() {
        // The kind of pages affects no behaviour, and their addresses differ from run to run.
        return PageHooks::default();
    }
    let pages = Arc::clone(pages);
    let keep = move |keeper: ChunkKeeper| pages.free(0, Box::new(move || keeper.prepare()));
    PageHooks {
        prepare: (!config.disable_thp).then_some(pages::populate_huge_pages),
        keep: Some(Arc::new(keep)),
        purge: Some(pages::discard_pages),
    }
}

/// How accesses are recorded at a Unix time in milliseconds, by the eviction policy.
#[must_use]
pub fn aging(config: &Config, now: i64) -> Aging {
    match config.maxmemory_policy {
        MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => {
            Aging::lfu(now, config.lfu_log_factor, config.lfu_decay_time)
        }
        policy if policy.is_lrm() => Aging::lrm(now),
        _ => Aging::lru(now),
    }
}

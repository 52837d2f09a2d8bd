//! The state shared by all threads of the server. Made once, never freed: references to it are `'static`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use collections::{ChunkKeeper, Heap, PageHooks};
use commands::table::Index;
use config::Config;
use keyspace::Keyspace;
use os::clock::Uptime;
use os::process::ResidentSize;
use os::{clock, pages, process};
use sync::ThreadCounter;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sync::{Mutex, OnceLock};

use crate::background::Background;
use crate::command_log::CommandLogs;
use crate::connection::Token;
use crate::error_statistics::ErrorStatistics;
use crate::executor::ExceededTime;
use crate::latency::LatencyMonitor;
use crate::listeners::{ListenSockets, Origin};
use crate::mail::{Mail, Workers};
use crate::metrics::Metrics;
use crate::pause::Pause;
use crate::pubsub::{EventPublisher, Hub};
use crate::registry::Registry;
use crate::reply_buffers::ReplyBufferRules;
use crate::statistics::{Statistics, ThreadStatistics};
use crate::threads::{Cpus, Roster};
use crate::watchdog::Watchdog;

/// The state shared by all threads.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// The configuration in force. Each worker switches to a new one when it is notified.
    pub config: ArcSwap<Config>,
    /// Grows by one with each new configuration.
    pub config_generation: AtomicU64,
    /// Held while the configuration is changed.
    pub setting: Mutex<()>,
    /// Finds commands by name.
    pub commands: Index,
    /// The worker handles.
    pub workers: &'static Workers,
    /// The connections.
    pub clients: Registry,
    /// Subscriptions of all workers.
    pub hub: &'static Hub,
    /// The workers' counters.
    pub statistics: Statistics,
    /// Error replies, by code.
    pub errors: ErrorStatistics,
    /// Slow and large commands.
    pub command_logs: CommandLogs,
    /// Latency events.
    pub latency: LatencyMonitor,
    /// The special modes of the whole server, tested before every request; all clear on the fast path.
    pub global_flags: GlobalFlags,
    /// Held while connections to close are selected, so that two threads don't select too many.
    pub evicting: Mutex<()>,
    /// Connections closed to free memory.
    pub evicted_clients: AtomicU64,
    /// Connections in `MONITOR` mode.
    pub monitor_count: AtomicU64,
    /// Rates.
    pub metrics: Metrics,
    /// The TCP listeners.
    pub listen_sockets: ListenSockets,
    /// The workers that exist.
    pub roster: Roster,
    /// The CPUs that the workers share.
    pub cpus: Cpus,
    /// Number of workers that have not ended.
    pub running_threads: AtomicU32,
    /// Called when the last worker has ended.
    pub ended: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether the periodic work is suspended (`DEBUG PAUSE-CRON`).
    pub cron_paused: AtomicBool,
    /// Whether memory use was over its limit at the last check: then buffers are not kept for reuse.
    pub is_short_of_memory: AtomicBool,
    /// How long memory use was over its limit.
    pub exceeded_time: ExceededTime,
    /// Bytes of memory used when the server was ready.
    pub startup_memory: AtomicU64,
    /// Number of workers wanted; those with a higher index retire.
    pub thread_count: AtomicU32,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// Whether the active expiry cycle runs.
    pub active_expire: AtomicBool,
    /// The sizes reported for reply buffers.
    pub reply_buffers: ReplyBufferRules,
    /// Frees memory in the background.
    pub background: Background,
    /// Prepares memory and returns it to the system.
    pub pages: Arc<Background>,
    /// Highest memory use seen, in bytes.
    pub memory_peak: AtomicU64,
    /// Measures the resident bytes.
    pub resident: ResidentSize,
    /// Connections refused because of `maxclients`.
    pub rejected_connections: AtomicU64,
    /// Connections closed because of their output buffer.
    pub output_limit_disconnections: AtomicU64,
    /// Connections closed because of their query buffer.
    pub query_limit_disconnections: AtomicU64,
    /// Reports threads whose turns take too long.
    pub watchdog: Watchdog,
    /// Identity of this process.
    pub identity: Identity,
}

/// The identity of this process.
pub struct Identity {
    /// 40 hexadecimal digits, new at each start.
    pub run_id: String,
    /// Unix time of the start, in milliseconds.
    pub started_at: i64,
    /// The configuration file, absolute.
    pub config_file: Option<std::path::PathBuf>,
    /// The executable.
    pub executable: String,
    /// The pid file, absolute, if one was written.
    pub pid_file: Option<std::path::PathBuf>,
    /// The id of this data set for replicas: 40 hexadecimal digits.
    pub replication_id: String,
    /// The operating system, with its version.
    pub system: String,
    /// Bytes of memory of the machine.
    pub system_memory: u64,
}

impl Identity {
    /// Returns the identity of a process that starts now.
    #[must_use]
    pub fn new(
        config_file: Option<std::path::PathBuf>,
        executable: String,
        pid_file: Option<std::path::PathBuf>,
    ) -> Self {
        Self {
            run_id: random_id(),
            started_at: clock::unix_millis(),
            config_file,
            executable,
            pid_file,
            replication_id: random_id(),
            system: process::system_name(),
            system_memory: process::system_memory(),
        }
    }
}

/// 40 random hexadecimal digits.
fn random_id() -> String {
    let words = seed();
    let text: String = words.iter().map(|word| format!("{word:016x}")).collect();
    text[..40].to_owned()
}

/// The number of heaps that the keyspace's slots share: more than the threads that may run at a time, so
/// that two threads seldom use the same one. Not more than necessary, as each heap leaves a partly used
/// span of every size.
fn heap_count(thread_count: usize) -> usize {
    (4 * thread_count.max(process::cpu_count())).next_power_of_two().min(HEAP_COUNT_MAX)
}

/// Returns the seed for a text: always the same for one text.
fn seed_of(text: &str) -> [u64; 4] {
    let fold = |salt: u64| {
        let step =
            |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, step)
    };
    [1, 2, 3, 4].map(|salt: u64| fold(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Returns a random seed, as good as the standard library's.
fn seed() -> [u64; 4] {
    use std::hash::BuildHasher;
    [(); 4].map(|()| sync::RandomState::new().hash_one(clock::unix_micros()))
}

/// More heaps would not reduce contention.
const HEAP_COUNT_MAX: usize = 64;

/// The part of its time, in thousandths, above which a thread counts as working.
const WORKING_PERMILLE: u64 = 50;

/// Flags that change how every request is handled; one load shows that none is set.
#[derive(Default)]
pub struct GlobalFlags(AtomicU32);

impl GlobalFlags {
    /// Clients are paused.
    pub const PAUSED: u32 = 1 << 0;
    /// Only writes are paused.
    pub const PAUSED_WRITES: u32 = 1 << 1;
    /// Either of the pauses.
    pub const ANY_PAUSE: u32 = Self::PAUSED | Self::PAUSED_WRITES;
    /// Some connection is in `MONITOR` mode.
    pub const MONITORED: u32 = 1 << 2;
    /// The server is shutting down.
    pub const STOPPING: u32 = 1 << 3;
    /// Writes require more replicas than there are.
    pub const NO_REPLICAS: u32 = 1 << 4;

    /// All flags.
    #[must_use]
    #[inline]
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn is_set(&self, flag: u32) -> bool {
        self.load() & flag != 0
    }

    /// Sets or clears flags.
    pub fn set(&self, flags: u32, on: bool) {
        if on {
            self.0.fetch_or(flags, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!flags, Ordering::AcqRel);
        }
    }
}

impl Shared {
    /// The minimum difference of load from which on a thread hands connections to another, in thousandths of its time.
    pub const UNEVEN_PERMILLE: u64 = 200;

    /// Number of workers that are to run.
    #[must_use]
    pub fn wanted_threads(&self) -> usize {
        self.thread_count.load(Ordering::Relaxed) as usize
    }

    /// Whether there is work for more than one thread now, or this is to be assumed.
    #[must_use]
    pub fn several_threads_work(&self) -> bool {
        let is_working = |thread: &usize| self.workers.handle(*thread).busy_permille() >= WORKING_PERMILLE;
        if self.wanted_threads() <= 1 {
            return false;
        }
        let occupied = self
            .statistics
            .threads()
            .map(|(thread, _)| thread)
            .filter(|thread| self.workers.handle(*thread).is_occupied());
        self.config.load().io_threads_always_active || occupied.filter(is_working).count() > 1
    }

    /// Sends a message to every running worker.
    pub fn post_all(&self, mail: impl Fn() -> Mail) {
        for thread in self.workers.occupied() {
            self.workers.post(thread, mail());
        }
    }

    /// Sends a line from a worker to the monitors.
    pub fn post_to_monitors(&self, sender: usize, line: &Arc<[u8]>) {
        for thread in self.workers.occupied() {
            self.hub.expect(Some(sender), thread, line.len() as u64);
            self.workers.post(thread, Mail::Monitor(Arc::clone(line)));
        }
    }

    /// Resets the counters (`CONFIG RESETSTAT`).
    pub fn reset_statistics(&self) {
        self.statistics.reset();
        self.errors.reset();
        self.background.reset();
        self.metrics.reset();
        self.exceeded_time.reset();
        let counters = &self.keyspace.counters;
        counters.reset(|counters| &counters.hits);
        counters.reset(|counters| &counters.misses);
        counters.reset(|counters| &counters.expired_keys);
        counters.reset(|counters| &counters.expired_keys_active);
        counters.reset(|counters| &counters.expired_fields);
        counters.reset(|counters| &counters.expired_fields_active);
        counters.reset(|counters| &counters.evicted_keys);
        self.memory_peak.store(self.used_memory() as u64, Ordering::Relaxed);
        let totals = [
            &self.rejected_connections,
            &self.evicted_clients,
            &self.output_limit_disconnections,
            &self.query_limit_disconnections,
        ];
        totals.iter().for_each(|total| total.store(0, Ordering::Relaxed));
    }

    /// Ends the server: every worker sends its remaining output, and ends.
    pub fn stop(&self) {
        self.global_flags.set(GlobalFlags::STOPPING, true);
        self.post_all(|| Mail::Stop);
    }

    /// Bytes of memory that all connections use.
    #[must_use]
    pub fn client_memory(&self) -> u64 {
        self.wrapping_sum(|thread| &thread.client_memory)
    }

    /// Bytes of memory of connections that are being closed.
    #[must_use]
    pub fn leaving_client_memory(&self) -> u64 {
        self.wrapping_sum(|thread| &thread.leaving_bytes)
    }

    fn wrapping_sum(&self, of: fn(&ThreadStatistics) -> &ThreadCounter) -> u64 {
        // Single counters may be negative, and so may the sum for a moment: one thread counts a
        // connection that another closes.
        let sum = self.statistics.sum(of);
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// Makes the shared state. It is never freed.
    pub fn leak(
        config: Config,
        renames: &[config::CommandRename],
        identity: Identity,
        listen_sockets: ListenSockets,
    ) -> &'static Self {
        let workers: &'static Workers = Box::leak(Box::default());
        let wake = |token| workers.post(Token(token).thread(), Mail::Resume(Token(token)));
        let background_cpus = config::parse_cpu_list(&config.bio_cpulist).unwrap_or_default();
        let pages = Arc::new(Background::on_cpus("pages", background_cpus.clone()));
        let seed = if config.hash_seed.is_empty() { seed() } else { seed_of(&config.hash_seed) };
        let hub: &'static Hub = Box::leak(Box::new(Hub::new(workers)));
        let heaps =
            Heap::family_with(heap_count(config.io_threads.count() as usize), page_hooks(&config, &pages));
        let keyspace = Keyspace::with_heaps(config.databases as usize, seed, heaps, wake)
            .observed_by(Box::new(EventPublisher::new(hub)));
        let background = Background::on_cpus("background", background_cpus);
        let cpus = Cpus::new(&config);
        let pairs = renames.iter().map(|rename| (rename.from.as_slice(), rename.to.as_slice()));
        let shared: &'static Self = Box::leak(Box::new(Self {
            keyspace,
            thread_count: AtomicU32::new(config.io_threads.count()),
            config: ArcSwap::from_pointee(config),
            config_generation: AtomicU64::new(0),
            setting: Mutex::new(()),
            commands: Index::renamed(pairs),
            workers,
            clients: Registry::default(),
            hub,
            statistics: Statistics::new(),
            errors: ErrorStatistics::default(),
            command_logs: CommandLogs::default(),
            latency: LatencyMonitor::default(),
            global_flags: GlobalFlags::default(),
            evicting: Mutex::new(()),
            evicted_clients: AtomicU64::new(0),
            monitor_count: AtomicU64::new(0),
            metrics: Metrics::default(),
            listen_sockets,
            roster: Roster::default(),
            cpus,
            running_threads: AtomicU32::new(0),
            ended: OnceLock::new(),
            cron_paused: AtomicBool::new(false),
            is_short_of_memory: AtomicBool::new(false),
            exceeded_time: ExceededTime::default(),
            startup_memory: AtomicU64::new(0),
            pause: Pause::default(),
            active_expire: AtomicBool::new(true),
            reply_buffers: ReplyBufferRules::default(),
            background,
            pages,
            memory_peak: AtomicU64::new(0),
            resident: ResidentSize::default(),
            rejected_connections: AtomicU64::new(0),
            output_limit_disconnections: AtomicU64::new(0),
            query_limit_disconnections: AtomicU64::new(0),
            watchdog: Watchdog::default(),
            identity,
        }));
        hub.introduce(&shared.clients);
        shared
    }

    /// Ends `CLIENT PAUSE`.
    pub fn end_pause(&self) {
        self.pause.end(&self.global_flags);
        self.post_all(|| Mail::PauseChanged);
    }

    /// Ends `CLIENT PAUSE` if its end has passed.
    pub fn end_pause_if_over(&self, now: Uptime) {
        if self.pause.end_if_over(&self.global_flags, now) {
            self.post_all(|| Mail::PauseChanged);
        }
    }

    /// Whether writes are paused, alone or with all requests.
    #[must_use]
    pub fn pauses_writes(&self) -> bool {
        self.global_flags.is_set(GlobalFlags::ANY_PAUSE) && Uptime::now() < self.pause.until()
    }

    /// The error sent to a new connection that is not served; `None`: it is served.
    #[must_use]
    pub fn refusal(&self, config: &Config, origin: &Origin) -> Option<&'static [u8]> {
        if self.clients.len() >= config.maxclients as usize {
            return Some(b"-ERR max number of clients reached\r\n");
        }
        if config.protected_mode && config.requirepass.reveal().is_none() && !origin.is_local() {
            return Some(PROTECTED);
        }
        None
    }

    /// Bytes of memory that data and buffers use, as `used_memory` counts them: all allocations, except
    /// that of the entries' heaps only blocks in use count.
    #[must_use]
    pub fn used_memory(&self) -> usize {
        let data = self.keyspace.used_bytes();
        if sync::simulation::is_simulated() {
            // The process holds more than this server, and its threads free memory at any time.
            return (data + self.client_memory() as usize).saturating_sub(self.keyspace.waiting_bytes());
        }
        // A chunk that is mapped or unmapped between the readings counts as unused.
        let mapped_before = self.keyspace.mapped_bytes();
        let allocated = sync::allocator::allocated_bytes();
        let mapped = self.keyspace.mapped_bytes().max(mapped_before);
        (allocated + data).saturating_sub(mapped + self.keyspace.waiting_bytes())
    }

    /// Returns vacant memory to the system in the background, if it is much.
    pub fn trim(&'static self) {
        self.keyspace.note_time();
        if self.keyspace.has_surplus() {
            self.give_memory_back();
        }
    }

    /// Returns vacant memory to the system in the background.
    pub fn give_memory_back(&'static self) {
        self.pages.free(0, Box::new(|| self.keyspace.trim()));
    }

    /// Samples the rates and peaks.
    pub fn sample(&self, now: Uptime) {
        self.metrics.sample(&self.statistics, now.to_raw());
        self.memory_peak.fetch_max(self.used_memory() as u64, Ordering::Relaxed);
    }
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

const PROTECTED: &[u8] = b"-DENIED Broadloom is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. To \
connect from other machines: set a password (requirepass), or turn protected mode off with 'CONFIG SET protected-mode \
no' from this machine or 'protected-mode no' in the configuration file, if no other machine can reach this one.\r\n";

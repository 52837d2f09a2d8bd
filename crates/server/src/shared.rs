//! What all threads of the server share. Made once, never freed: everything may refer to it for ever.

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

/// Everything the threads share.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// The configuration in force. Each thread takes a new one over when it is told.
    pub config: ArcSwap<Config>,
    /// Grows by one with each new configuration.
    pub config_generation: AtomicU64,
    /// Held while somebody changes it.
    pub setting: Mutex<()>,
    /// Finds commands by name.
    pub commands: Index,
    /// Where threads are reached.
    pub workers: &'static Workers,
    /// The connections.
    pub clients: Registry,
    /// Who listens to what.
    pub hub: &'static Hub,
    /// What threads count.
    pub statistics: Statistics,
    /// Errors answered, by code.
    pub errors: ErrorStatistics,
    /// Slow and large commands.
    pub command_logs: CommandLogs,
    /// Latency events.
    pub latency: LatencyMonitor,
    /// What every request must look at first; all clear on the fast path.
    pub global_flags: GlobalFlags,
    /// Held while somebody chooses connections to close, so that no two choose more than need be.
    pub evicting: Mutex<()>,
    /// Connections closed to free memory.
    pub evicted_clients: AtomicU64,
    /// Connections in `MONITOR` mode.
    pub monitor_count: AtomicU64,
    /// Rates.
    pub metrics: Metrics,
    /// The TCP listeners.
    pub listen_sockets: ListenSockets,
    /// Which threads there are.
    pub roster: Roster,
    /// The CPUs that they share.
    pub cpus: Cpus,
    /// Number of threads that have not ended.
    pub running_threads: AtomicU32,
    /// Called when the last thread has ended.
    pub ended: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether the periodic work is suspended (`DEBUG PAUSE-CRON`).
    pub cron_paused: AtomicBool,
    /// Whether memory use was over its limit when last looked at: buffers are not kept for later then.
    pub is_short_of_memory: AtomicBool,
    /// For how long memory use was over its limit.
    pub exceeded_time: ExceededTime,
    /// Bytes of memory used when the server was ready.
    pub startup_memory: AtomicU64,
    /// Number of threads wanted; those with a higher index retire.
    pub thread_count: AtomicU32,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// Whether the active expiry cycle runs.
    pub active_expire: AtomicBool,
    /// How large reply buffers are shown to be.
    pub reply_buffers: ReplyBufferRules,
    /// Frees memory where it disturbs nobody.
    pub background: Background,
    /// What prepares memory and gives it back.
    pub pages: Arc<Background>,
    /// Highest memory use seen, in bytes.
    pub memory_peak: AtomicU64,
    /// Tells how many bytes are resident.
    pub resident: ResidentSize,
    /// Connections refused because there were `maxclients`.
    pub rejected_connections: AtomicU64,
    /// Connections closed because of their output buffer.
    pub output_limit_disconnections: AtomicU64,
    /// Connections closed because of their query buffer.
    pub query_limit_disconnections: AtomicU64,
    /// Looks after threads that do not come round.
    pub watchdog: Watchdog,
    /// Identity of this process.
    pub identity: Identity,
}

/// Who this process is.
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
    /// What replicas know this data set by: 40 hexadecimal digits.
    pub replication_id: String,
    /// The operating system, with its version.
    pub system: String,
    /// Bytes of memory of the machine.
    pub system_memory: u64,
}

impl Identity {
    /// The identity of a process that starts now.
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

/// How many heaps the keyspace's slots share: more than threads that may run at a time, so that two seldom meet in one, but
/// no more, as each leaves a partly used span of every size.
fn heap_count(thread_count: usize) -> usize {
    (4 * thread_count.max(process::cpu_count())).next_power_of_two().min(HEAP_COUNT_MAX)
}

/// The numbers that a text stands for: the same ones each time.
fn seed_of(text: &str) -> [u64; 4] {
    let fold = |salt: u64| {
        let step =
            |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, step)
    };
    [1, 2, 3, 4].map(|salt: u64| fold(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Random numbers: as good as the standard library's.
fn seed() -> [u64; 4] {
    use std::hash::BuildHasher;
    [(); 4].map(|()| sync::RandomState::new().hash_one(clock::unix_micros()))
}

/// Heaps beyond which more would not spare anyone a meeting.
const HEAP_COUNT_MAX: usize = 64;

/// Of its time, in thousandths, that a thread which has work spends with it.
const WORKING_PERMILLE: u64 = 50;

/// Flags that change how every request is handled; one load tells that none is set.
#[derive(Default)]
pub struct GlobalFlags(AtomicU32);

impl GlobalFlags {
    /// Clients are paused.
    pub const PAUSED: u32 = 1 << 0;
    /// Only writes are paused.
    pub const PAUSED_WRITES: u32 = 1 << 1;
    /// Either of these.
    pub const ANY_PAUSE: u32 = Self::PAUSED | Self::PAUSED_WRITES;
    /// Somebody monitors.
    pub const MONITORED: u32 = 1 << 2;
    /// The server is shutting down.
    pub const STOPPING: u32 = 1 << 3;
    /// Writes want more replicas than there are.
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
    /// How much busier than another a thread must be before it gives connections away, in thousandths of its time.
    pub const UNEVEN_PERMILLE: u64 = 200;

    /// Number of threads that are to run.
    #[must_use]
    pub fn wanted_threads(&self) -> usize {
        self.thread_count.load(Ordering::Relaxed) as usize
    }

    /// Whether there is work for more than one thread just now, or is to be taken for granted.
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

    /// Sends a message to every thread that runs.
    pub fn post_all(&self, mail: impl Fn() -> Mail) {
        for thread in self.workers.occupied() {
            self.workers.post(thread, mail());
        }
    }

    /// Sends a line from a thread to those who monitor.
    pub fn post_to_monitors(&self, sender: usize, line: &Arc<[u8]>) {
        for thread in self.workers.occupied() {
            self.hub.expect(Some(sender), thread, line.len() as u64);
            self.workers.post(thread, Mail::Monitor(Arc::clone(line)));
        }
    }

    /// Sets what has been counted to zero (`CONFIG RESETSTAT`).
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

    /// Ends the server: every thread sends what is to be sent, and ends.
    pub fn stop(&self) {
        self.global_flags.set(GlobalFlags::STOPPING, true);
        self.post_all(|| Mail::Stop);
    }

    /// Bytes of memory that all connections take.
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
        // Where a connection is closed by one thread and counted by another, a moment may see less than nothing.
        let sum = self.statistics.sum(of);
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// Makes what all threads share. It is never freed.
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

    /// Ends it if its time is over.
    pub fn end_pause_if_over(&self, now: Uptime) {
        if self.pause.end_if_over(&self.global_flags, now) {
            self.post_all(|| Mail::PauseChanged);
        }
    }

    /// Whether writes are paused, all or for some clients.
    #[must_use]
    pub fn pauses_writes(&self) -> bool {
        self.global_flags.is_set(GlobalFlags::ANY_PAUSE) && Uptime::now() < self.pause.until()
    }

    /// Why a new connection is not served, as the bytes it is told; `None`: it is.
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

    /// Bytes of memory that data and buffers use, as `used_memory` counts them: what is allocated, where of the
    /// entries' heaps only what is in use counts.
    #[must_use]
    pub fn used_memory(&self) -> usize {
        let data = self.keyspace.used_bytes();
        if sync::simulation::is_simulated() {
            // The process has more than this server, and its threads free memory when they like.
            return (data + self.client_memory() as usize).saturating_sub(self.keyspace.waiting_bytes());
        }
        // A chunk that is mapped or unmapped between the readings would count as used; so it counts as unused.
        let mapped_before = self.keyspace.mapped_bytes();
        let allocated = sync::allocator::allocated_bytes();
        let mapped = self.keyspace.mapped_bytes().max(mapped_before);
        (allocated + data).saturating_sub(mapped + self.keyspace.waiting_bytes())
    }

    /// Gives vacant memory back where nobody waits for it, if it is much.
    pub fn trim(&'static self) {
        self.keyspace.note_time();
        if self.keyspace.has_surplus() {
            self.give_memory_back();
        }
    }

    /// Gives vacant memory back where nobody waits for it.
    pub fn give_memory_back(&'static self) {
        self.pages.free(0, Box::new(|| self.keyspace.trim()));
    }

    /// Takes note of what is looked at over time.
    pub fn sample(&self, now: Uptime) {
        self.metrics.sample(&self.statistics, now.to_raw());
        self.memory_peak.fetch_max(self.used_memory() as u64, Ordering::Relaxed);
    }
}

/// How the heaps ask for huge pages, and give memory back.
fn page_hooks(config: &Config, pages: &Arc<Background>) -> PageHooks {
    if sync::simulation::is_simulated() {
        // What pages are made of changes no behaviour, and their addresses differ from run to run.
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

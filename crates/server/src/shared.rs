//! The state shared by all workers of the server. Created once and never freed: references to it are `'static`.
//!
//! Each part has a file of its own, with the functions that concern it.

pub mod awaited_turns;
pub mod background;
pub mod certificates;
pub mod connections;
pub mod current_config;
pub mod current_users;
pub mod duties;
pub mod expected_streams;
pub mod failover;
pub mod io_backend;
pub mod loading;
pub mod memory;
pub mod migration_sockets;
pub mod modes;
pub mod pause;
pub mod pending_shutdown;
pub mod persistence;
pub mod replicas;
pub mod replication;
pub mod role;
pub mod sync_stops;
pub mod watchdog;
pub mod worker_pool;

use commands::acl::Users;
use commands::table::Index;
use config::Config;
use keyspace::Keyspace;
use persist::snapshots::{LatchWakes, ServerVersions, Snapshots};
use sync::atomic::Ordering;

use crate::connection::listeners::ListenSockets;
use crate::connection::registry::Registry;
use crate::connection::token::Token;
use crate::mail::{Mail, Workers};
use crate::monitoring::Monitoring;
use crate::process::identity::{Identity, seed, seed_of};
use crate::pubsub::{EventPublisher, Hub};
use crate::scripts::Scripts;
use certificates::Certificates;
use connections::Connections;
use current_config::CurrentConfig;
use current_users::CurrentUsers;
use duties::Duties;
use loading::Loading;
use memory::Memory;
use migration_sockets::MigrationSockets;
use modes::{GlobalFlags, Modes};
use persistence::Persistence;
use replication::Replication;
use worker_pool::{StartWorker, WorkerPool};

/// The state shared by all workers.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// Finds commands by name.
    pub commands: Index,
    /// Finds the commands of the requests in a log.
    pub logged_commands: Index,
    /// The configuration in force.
    pub config: CurrentConfig,
    /// The users in force.
    pub users: CurrentUsers,
    /// The modes of the whole server.
    pub modes: Modes,
    /// The periodic work of the whole server.
    pub duties: Duties,
    /// The worker handles.
    pub workers: &'static Workers,
    /// The pool of workers.
    pub pool: WorkerPool,
    /// The client records.
    pub clients: Registry,
    /// Listeners, limits and totals of the connections.
    pub connections: Connections,
    /// Certificates and keys of the TLS port.
    pub certificates: Certificates,
    /// Subscriptions of all workers.
    pub hub: &'static Hub,
    /// Statistics, logs of commands and latencies.
    pub monitoring: Monitoring,
    /// The memory of the process.
    pub memory: Memory,
    /// The state of loading.
    pub loading: Loading,
    /// Snapshots of the data.
    pub snapshots: Snapshots,
    /// The append-only file.
    pub persistence: Persistence,
    /// The stream for replicas, and the role of the server.
    pub replication: Replication,
    /// Connections to the targets of `MIGRATE`.
    pub migration_sockets: MigrationSockets,
    /// Scripts and functions.
    pub scripts: Scripts,
    /// Identity of this process.
    pub identity: Identity,
}

impl Shared {
    /// Creates the shared state. It is never freed.
    pub fn leak(
        config: Config,
        users: Users,
        renames: &[config::CommandRename],
        identity: Identity,
        listen_sockets: ListenSockets,
        start_worker: StartWorker,
    ) -> &'static Self {
        let workers: &'static Workers = Box::leak(Box::default());
        let latch_wakes: &'static LatchWakes = Box::leak(Box::default());
        let wake = |token| {
            if !latch_wakes.wake(token) {
                workers.post(Token(token).thread(), Mail::Resume(Token(token)));
            }
        };
        let versions = ServerVersions {
            redis: commands::identity::REDIS_VERSION,
            valkey: commands::identity::VALKEY_VERSION,
        };
        let seed = if config.hash_seed.is_empty() { seed() } else { seed_of(&config.hash_seed) };
        let hub: &'static Hub = Box::leak(Box::new(Hub::new(workers)));
        let memory = Memory::new(&config);
        let (persistence, log) = Persistence::new(&config, workers);
        let replication = Replication::new(&config, workers);
        let keyspace = Keyspace::with_heaps(config.databases as usize, seed, memory.heaps(&config), wake)
            .logged_to(log)
            .observed_by(Box::new(EventPublisher::new(hub)));
        let pairs = || renames.iter().map(|rename| (rename.from.as_slice(), rename.to.as_slice()));
        let shared: &'static Self = Box::leak(Box::new(Self {
            keyspace,
            commands: Index::renamed(pairs()),
            logged_commands: Index::of_log(pairs()),
            users: CurrentUsers::new(users),
            modes: Modes::default(),
            duties: Duties::default(),
            workers,
            pool: WorkerPool::new(&config, start_worker),
            clients: Registry::default(),
            connections: Connections { listen_sockets, ..Connections::default() },
            certificates: Certificates::default(),
            hub,
            monitoring: Monitoring::default(),
            memory,
            loading: Loading::default(),
            snapshots: Snapshots::new(latch_wakes, versions, identity.started_at / 1000),
            persistence,
            replication,
            migration_sockets: MigrationSockets::default(),
            scripts: Scripts::default(),
            identity,
            config: CurrentConfig::new(config),
        }));
        hub.set_registry(&shared.clients);
        shared.snapshots.connect(&shared.keyspace);
        shared.snapshots.set_key_delay(shared.config.load().rdb_key_save_delay);
        let statistics = &shared.monitoring.statistics;
        shared.snapshots.beside_requests(|| statistics.sum(|thread| &thread.commands_processed));
        let libraries = &shared.scripts.libraries;
        shared.snapshots.with_libraries(|| {
            libraries.all().libraries.values().map(|library| library.code.clone()).collect()
        });
        let flags = &shared.modes.flags;
        shared.snapshots.at_pressure(|is_full| flags.set(GlobalFlags::SNAPSHOT_FULL, is_full));
        shared
    }

    /// Resets the counters (`CONFIG RESETSTAT`).
    pub fn reset_statistics(&self) {
        self.monitoring.reset();
        self.memory.background.reset();
        self.certificates.failed_handshakes.store(0, Ordering::Relaxed);
        self.memory.exceeded_time.reset();
        let counters = &self.keyspace.counters;
        counters.reset(|counters| &counters.hits);
        counters.reset(|counters| &counters.misses);
        counters.reset(|counters| &counters.expired_keys);
        counters.reset(|counters| &counters.expired_keys_active);
        counters.reset(|counters| &counters.expired_fields);
        counters.reset(|counters| &counters.expired_fields_active);
        counters.reset(|counters| &counters.evicted_keys);
        self.memory.peak.store(0, Ordering::Relaxed);
        self.memory.note_peak(self.used_memory() as u64);
        self.connections.reset();
        self.replication.replicas.reset_counts();
        self.snapshots.reset_count();
        self.scripts.totals.reset();
        self.scripts.cache.reset_evicted();
    }
}

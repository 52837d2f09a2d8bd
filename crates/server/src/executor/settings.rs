//! The configuration that a worker uses, with values derived from it.

use std::sync::Arc;

use commands::acl::Users;
use config::{Appendfsync, Config};
use keyspace::WantedEvents;
use os::clock::{self, Ticks};

use super::Executor;
use crate::connection::input::query_size_kept_max;
use crate::monitoring::Monitoring;
use crate::monitoring::command_log::Thresholds;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// The settings that a worker uses until it switches to a new configuration.
pub struct WorkerSettings {
    /// The configuration.
    pub config: Arc<Config>,
    /// The users.
    pub users: Arc<Users>,
    /// Whether connections that have not authenticated may run few commands only.
    pub requires_authentication: bool,
    /// The generation of both.
    pub(super) generation: u64,
    /// The costs from which a command may be logged.
    pub(super) thresholds: Thresholds,
    /// Whether replies wait until the changes that they show are on disk.
    pub awaits_disk: bool,
    /// The maximum size of the buffers of all connections, in bytes; `u64::MAX`: no limit.
    pub client_memory_max: u64,
    /// The largest query buffer that is kept while it is not needed, in bytes.
    pub query_size_kept_max: usize,
}

impl WorkerSettings {
    /// Returns the settings in force. `is_replay`: for requests that were executed before.
    pub(super) fn new(shared: &Shared, is_replay: bool) -> Self {
        // Before the configuration, so that a change meanwhile is not missed.
        let generation = shared.config.generation();
        let mut config = shared.config.load_full();
        let users = shared.users.load_full();
        let requires_authentication = users.require_authentication() && !is_replay;
        if is_replay {
            config = Arc::new(of_replay(Config::clone(&config)));
        } else if shared.modes.flags.is_set(GlobalFlags::REPLICA) && config.replica_ignore_maxmemory {
            // The primary evicts.
            config = Arc::new(Config { maxmemory: 0, ..Config::clone(&config) });
        }
        let client_memory_max = config.maxmemory_clients.size(config.maxmemory).unwrap_or(u64::MAX);
        let query_size_kept_max = query_size_kept_max(config.maxmemory);
        let thresholds = Thresholds::of(&config);
        let awaits_disk = config.appendonly && config.appendfsync == Appendfsync::Always;
        Self {
            config,
            users,
            requires_authentication,
            generation,
            thresholds,
            awaits_disk,
            client_memory_max,
            query_size_kept_max,
        }
    }

    /// The time, if the latency monitor is on.
    pub fn latency_start(&self) -> Option<Ticks> {
        (self.config.latency_monitor_threshold > 0).then(Ticks::now)
    }

    /// Reports an event that began at `started` to the latency monitor, if it took long.
    pub fn latency_end(&self, monitoring: &Monitoring, started: Option<Ticks>, event: &'static str) {
        if let Some(started) = started {
            let ms = Ticks::now().ns_since(started) / 1_000_000;
            if ms >= self.config.latency_monitor_threshold {
                monitoring.latency.add(event, (clock::unix_millis() / 1000) as u32, ms);
            }
        }
    }
}

/// Disables the directives that refuse or report requests, or delete keys with an expiry in the past.
fn of_replay(config: Config) -> Config {
    Config {
        import_mode: true,
        maxmemory: 0,
        slowlog_log_slower_than: -1,
        commandlog_reply_larger_than: -1,
        commandlog_request_larger_than: -1,
        latency_monitor_threshold: 0,
        latency_tracking: false,
        ..config
    }
}

impl Executor {
    /// Switches to the configuration in force.
    pub fn apply_config(&mut self) {
        self.settings = WorkerSettings::new(self.shared, self.is_replay);
        self.budget.revoke_grant();
        let config = &self.settings.config;
        self.latching.events.wanted = match self.is_replay {
            true => WantedEvents::default(),
            false => WantedEvents::from_bits(config.notify_keyspace_events.bits())
                .with_every_change(self.shared.hub.wants_every_change())
                .with_change_times(config.maxmemory_policy.is_lrm()),
        };
        self.latching.note_reads(self.settings.awaits_disk);
        if config.maxmemory == 0 {
            self.latching.mode.is_over_memory_limit = false;
        }
        self.latching.mode.lazy_expire = config.lazyfree_lazy_expire;
        self.latching.mode.lazy_eviction = config.lazyfree_lazy_eviction;
        self.statistics.tracks_latency.set(u64::from(config.latency_tracking));
    }

    /// Switches to a new configuration, if there is one: `CONFIG SET` holds for every request sent after its reply.
    #[inline]
    pub fn follow_config(&mut self) {
        if self.shared.config.generation() != self.settings.generation {
            self.apply_config();
        }
    }
}

//! The configuration that a worker uses, with values derived from it.

use std::sync::Arc;

use config::Config;

use crate::monitoring::command_log::Thresholds;
use crate::shared::current_config::CurrentConfig;

/// The settings that a worker uses until it switches to a new configuration.
pub struct Settings {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its generation.
    pub(super) generation: u64,
    /// The costs from which on a command may be logged.
    pub(super) thresholds: Thresholds,
    /// The maximum size of the buffers of all connections, in bytes; `u64::MAX`: no limit.
    pub client_memory_max: u64,
}

impl Settings {
    /// Returns the settings in force. `is_replay`: as they concern requests that were executed before.
    pub(super) fn new(current: &CurrentConfig, is_replay: bool) -> Self {
        // Before the configuration, so that a change meanwhile is not missed.
        let generation = current.generation();
        let mut config = current.load_full();
        if is_replay {
            config = Arc::new(of_replay(Config::clone(&config)));
        }
        let client_memory_max = config.maxmemory_clients.size(config.maxmemory).unwrap_or(u64::MAX);
        Self { generation, thresholds: Thresholds::of(&config), client_memory_max, config }
    }
}

/// Without what would refuse or report requests, or delete keys with an expiry in the past.
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

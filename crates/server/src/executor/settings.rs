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
    /// Returns the settings in force.
    pub(super) fn new(current: &CurrentConfig) -> Self {
        // Before the configuration, so that a change meanwhile is not missed.
        let generation = current.generation();
        let config = current.load_full();
        let client_memory_max = config.maxmemory_clients.size(config.maxmemory).unwrap_or(u64::MAX);
        Self { generation, thresholds: Thresholds::of(&config), client_memory_max, config }
    }
}

//! The time at which commands run: the Unix time in milliseconds, constant while a command or transaction runs.
//!
//! The worker reads it at the start of each turn. A command that takes long, or many that are brief, would leave it stale for
//! the requests after them, whose expiries would begin in the past. So it is read again where a request, a run of plain
//! requests or a batch begins, if it is older than [`AGE_NS_MAX`]. The comparison uses a monotonic time that the caller has
//! taken anyway.

use base::Millis;
use config::Config;
use keyspace::AccessMode;
use os::clock::{self, Ticks};

use super::Executor;
use crate::shared::memory::aging;

/// The maximum age of the time when a request begins, in nanoseconds.
const AGE_NS_MAX: u64 = 1_000_000;

/// When a worker has read the time.
#[derive(Clone, Copy)]
pub(super) struct TimeRead(Ticks);

impl TimeRead {
    pub(super) fn now() -> Self {
        Self(Ticks::now())
    }

    /// Reads the time again if it is too old at `now`.
    #[inline(always)]
    pub(super) fn refresh(&mut self, mode: &mut AccessMode, config: &Config, now: Ticks) {
        if now.ns_since(self.0) > AGE_NS_MAX {
            self.set(mode, config, Millis(clock::unix_millis()), now);
        }
    }

    #[inline(never)]
    fn set(&mut self, mode: &mut AccessMode, config: &Config, time: Millis, read_at: Ticks) {
        self.0 = read_at;
        mode.now = time;
        mode.aging = aging(config, time.0);
    }
}

impl Executor {
    /// Sets the time of the following commands, which was read at `read_at`.
    pub fn set_time(&mut self, time: Millis, read_at: Ticks) {
        self.latching.effects.set_origin(self.flags.origin_of_clients());
        self.time_read.set(&mut self.latching.mode, &self.settings.config, time, read_at);
    }

    /// Reads the time again if it is too old at `now`. No command runs.
    #[inline(always)]
    pub(super) fn refresh_time(&mut self, now: Ticks) {
        self.time_read.refresh(&mut self.latching.mode, &self.settings.config, now);
    }
}

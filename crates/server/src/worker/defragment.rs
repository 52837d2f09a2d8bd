//! Active defragmentation between the turns of a worker: each tick grants it a share of the time, by the wasted
//! part of the heaps, which it spends in short steps between the turns of the event loop.

use keyspace::DefragmentationCycle;
use os::clock::{Ticks, Uptime};
use sync::atomic::Ordering;

use super::Worker;
use crate::shared::Shared;

/// How long a worker pauses after a walk without gain, in milliseconds.
const PAUSE_MS: i64 = 10_000;

/// A worker's part of the defragmentation.
pub struct Defragmenter {
    cycle: DefragmentationCycle,
    /// The remaining time of this tick, in nanoseconds.
    left_ns: u64,
    /// Entries moved since the walk began.
    moved_count: usize,
    paused_until: Uptime,
}

impl Defragmenter {
    pub(super) fn new(thread: usize) -> Self {
        Self {
            cycle: DefragmentationCycle::new(thread),
            left_ns: 0,
            moved_count: 0,
            paused_until: Uptime::default(),
        }
    }

    /// Whether it is to continue at once.
    pub(super) fn has_time(&self) -> bool {
        self.left_ns > 0
    }
}

impl Shared {
    /// The wasted bytes of the entries' heaps, and their percentage of the bytes in use.
    #[must_use]
    pub fn waste(&self) -> (u64, u64) {
        let wasted = self.keyspace.wasted_bytes();
        let used: u64 = self.keyspace.heaps().iter().map(collections::Heap::used_bytes).sum();
        (wasted, wasted * 100 / used.max(1))
    }
}

impl Worker {
    /// Grants defragmentation its time until the next tick.
    pub(super) fn plan_defragmentation(&mut self) {
        let percent = self.defragmentation_percent();
        self.statistics.defrag_percent.set(percent);
        if percent == 0 {
            self.cron.defragmenter.left_ns = 0;
            self.statistics.defrag_since_ms.set(0);
            return;
        }
        if self.statistics.defrag_since_ms.value() == 0 {
            self.statistics.defrag_since_ms.set(self.clock.uptime.to_raw() as u64);
        }
        self.cron.defragmenter.left_ns = percent * 10_000 * self.tick_ms() as u64;
    }

    /// The part of its time that the worker should spend on it, in percent: between the two limits as waste is
    /// between its two thresholds.
    fn defragmentation_percent(&self) -> u64 {
        let config = &self.executor.settings.config;
        let rests = self.clock.uptime < self.cron.defragmenter.paused_until;
        let is_suspended =
            self.shared.modes.cron_paused.load(Ordering::Relaxed) || self.shared.modes.is_loading();
        if !config.activedefrag || rests || is_suspended {
            return 0;
        }
        let (wasted, waste_percent) = self.shared.waste();
        let lower = u64::from(config.active_defrag_threshold_lower);
        if wasted < config.active_defrag_ignore_bytes || waste_percent < lower {
            return 0;
        }
        let upper = u64::from(config.active_defrag_threshold_upper).max(lower + 1);
        let (min, max) =
            (u64::from(config.active_defrag_cycle_min), u64::from(config.active_defrag_cycle_max));
        let above = (waste_percent - lower).min(upper - lower);
        min + max.saturating_sub(min) * above / (upper - lower)
    }

    /// Runs one step.
    pub(super) fn defragment(&mut self) {
        let config = &self.executor.settings.config;
        let stretch_ns = u64::from(config.active_defrag_cycle_us).max(1) * 1000;
        let latency = self.executor.latency_start();
        let started = Ticks::now();
        let limit = stretch_ns.min(self.cron.defragmenter.left_ns);
        let threads = self.shared.pool.wanted();
        let within = || Ticks::now().ns_since(started) < limit;
        let done = self.cron.defragmenter.cycle.run(&mut self.executor.latching, threads, within);
        let spent = Ticks::now().ns_since(started);
        let defragmenter = &mut self.cron.defragmenter;
        defragmenter.left_ns = defragmenter.left_ns.saturating_sub(spent);
        defragmenter.moved_count += done.moved_count;
        if done.is_complete {
            defragmenter.left_ns = 0;
            if std::mem::take(&mut defragmenter.moved_count) == 0 {
                defragmenter.paused_until = Uptime::now().plus_ms(PAUSE_MS);
            }
            self.shared.keyspace.heaps().iter().for_each(collections::Heap::trim);
        }
        self.statistics.defrag_moved.add(done.moved_count as u64);
        self.statistics.defrag_seen.add(done.examined_count as u64);
        self.statistics.defrag_ns.add(spent);
        self.executor.latency_end(latency, "active-defrag-cycle");
    }
}

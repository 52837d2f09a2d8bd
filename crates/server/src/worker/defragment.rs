//! Active defragmentation between the turns of a worker: each tick grants it a share of the time, by the wasted
//! part of the heaps, which it spends in short steps between the turns of the event loop.

use config::Config;
use keyspace::DefragmentationCycle;
use os::clock::{Ticks, Uptime};
use sync::atomic::Ordering;

use crate::executor::Executor;
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

    /// Grants defragmentation its time until the next tick, `tick_ms` milliseconds from now.
    pub(super) fn plan(&mut self, executor: &Executor, shared: &Shared, now: Uptime, tick_ms: i64) {
        let percent = if now < self.paused_until { 0 } else { percent(&executor.settings.config, shared) };
        let statistics = executor.statistics;
        statistics.defrag.percent.set(percent);
        if percent == 0 {
            self.left_ns = 0;
            statistics.defrag.since_ms.set(0);
            return;
        }
        if statistics.defrag.since_ms.value() == 0 {
            statistics.defrag.since_ms.set(now.to_raw() as u64);
        }
        self.left_ns = percent * 10_000 * tick_ms as u64;
    }

    /// Runs one step.
    pub(super) fn run(&mut self, executor: &mut Executor, shared: &Shared) {
        let stretch_ns = u64::from(executor.settings.config.active_defrag_cycle_us).max(1) * 1000;
        let latency = executor.settings.latency_start();
        let started = Ticks::now();
        let limit = stretch_ns.min(self.left_ns);
        let within = || Ticks::now().ns_since(started) < limit;
        let done = self.cycle.run(&mut executor.latching, shared.pool.wanted(), within);
        let spent = Ticks::now().ns_since(started);
        self.left_ns = self.left_ns.saturating_sub(spent);
        self.moved_count += done.moved_count;
        if done.is_complete {
            self.left_ns = 0;
            if std::mem::take(&mut self.moved_count) == 0 {
                self.paused_until = Uptime::now().plus_ms(PAUSE_MS);
            }
            shared.keyspace.heaps().iter().for_each(collections::Heap::trim);
        }
        let statistics = executor.statistics;
        statistics.defrag.moved.add(done.moved_count as u64);
        statistics.defrag.examined.add(done.examined_count as u64);
        statistics.defrag.ns.add(spent);
        executor.settings.latency_end(&shared.monitoring, latency, "active-defrag-cycle");
    }
}

/// The part of its time that a worker should spend on it, in percent: between the two limits as waste is
/// between its two thresholds.
fn percent(config: &Config, shared: &Shared) -> u64 {
    let is_suspended = shared.modes.cron_paused.load(Ordering::Relaxed) || shared.modes.is_loading();
    if !config.activedefrag || is_suspended {
        return 0;
    }
    let (wasted, waste_percent) = waste(shared);
    let lower = u64::from(config.active_defrag_threshold_lower);
    if wasted < config.active_defrag_ignore_bytes || waste_percent < lower {
        return 0;
    }
    let upper = u64::from(config.active_defrag_threshold_upper).max(lower + 1);
    let (min, max) = (u64::from(config.active_defrag_cycle_min), u64::from(config.active_defrag_cycle_max));
    let above = (waste_percent - lower).min(upper - lower);
    min + max.saturating_sub(min) * above / (upper - lower)
}

/// The wasted bytes of the entries' heaps, and their percentage of the bytes in use.
fn waste(shared: &Shared) -> (u64, u64) {
    let wasted = shared.keyspace.wasted_bytes();
    let used: u64 = shared.keyspace.heaps().iter().map(collections::Heap::used_bytes).sum();
    (wasted, wasted * 100 / used.max(1))
}

//! Defragmentation between the turns of a worker: each tick grants it a share of the time, which it spends in short steps between
//! the turns of the event loop. It has two causes:
//! - `activedefrag`, by the wasted part of the heaps and the directives for it.
//! - Most of the heaps' memory is wasted, as after many deletions. Then it takes little time, more if the worker is idle.
//!
//! Active workers share the slots. A walk that begins goes on until the end of the share.

use collections::Heap;
use config::Config;
use keyspace::DefragmentationCycle;
use os::clock::{Ticks, Uptime};
use sync::atomic::Ordering;
use sync::simulation;

use crate::executor::Executor;
use crate::shared::Shared;

/// How long a worker pauses after a walk without gain, in milliseconds.
const PAUSE_MS: i64 = 10_000;
/// How long it pauses at most after several such walks that waste has caused.
const PAUSE_MS_MAX: i64 = 600_000;

/// The wasted part, in percent of the used bytes, from which waste causes a walk, and how many bytes it must be.
const SPARSE_PERCENT: u64 = 100;
const SPARSE_SIZE_MIN: u64 = 4 << 20;
/// The same for some time after such a walk, in milliseconds: deletions went on while it ran.
const SPARSE_AGAIN_MS: i64 = 60_000;
const SPARSE_AGAIN_PERCENT: u64 = 25;
const SPARSE_AGAIN_SIZE_MIN: u64 = 1 << 20;
const SPARSE_SIZE_MIN_SIMULATED: u64 = 128 << 10;
/// The share of a busy worker's time for such a walk, and the part of its idle time in addition, in percent.
const SPARSE_TIME_PERCENT: u64 = 5;
const SPARSE_IDLE_PERCENT: u64 = 20;
/// The longest time of such a walk without a pause, in nanoseconds.
const SPARSE_STRETCH_NS: u64 = 100_000;

/// A worker's part of the defragmentation.
pub struct Defragmenter {
    thread: usize,
    cycle: DefragmentationCycle,
    /// The remaining time of this tick, in nanoseconds.
    left_ns: u64,
    /// Whether `activedefrag` is the cause.
    is_directed: bool,
    /// Entries moved since the walk began.
    moved_count: usize,
    paused_until: Uptime,
    sparse: SparseWalk,
}

/// A walk that waste has caused.
#[derive(Default)]
struct SparseWalk {
    /// While there is one: the bytes that were wasted at its beginning, and whether most of the memory was.
    begun: Option<(u64, bool)>,
    /// Until when less waste is enough.
    again_until: Uptime,
    /// The least waste since the last walk that gained little, in bytes.
    left: u64,
    pause_ms: i64,
    paused_until: Uptime,
}

impl Defragmenter {
    pub(super) fn new(thread: usize) -> Self {
        Self {
            thread,
            cycle: DefragmentationCycle::new(thread),
            left_ns: 0,
            is_directed: false,
            moved_count: 0,
            paused_until: Uptime::default(),
            sparse: SparseWalk { pause_ms: PAUSE_MS, ..SparseWalk::default() },
        }
    }

    /// Whether it is to continue at once.
    pub(super) fn has_time(&self) -> bool {
        self.left_ns > 0
    }

    /// Grants defragmentation its time until the next tick, `tick_ms` milliseconds from now.
    pub(super) fn plan(&mut self, executor: &Executor, shared: &Shared, now: Uptime, tick_ms: i64) {
        let config = &executor.settings.config;
        let is_suspended = shared.modes.cron_paused.load(Ordering::Relaxed) || shared.modes.is_loading();
        let may_run = !is_suspended && self.thread < shared.pool.active();
        let directed = if may_run && now >= self.paused_until { percent(config, shared) } else { 0 };
        self.note_directed(executor, now, directed);
        let percent = match directed {
            0 if may_run && config.compact_sparse_memory => self.sparse.percent(self.thread, shared, now),
            _ => {
                self.sparse.begun = None;
                directed
            }
        };
        self.left_ns = percent * 10_000 * tick_ms as u64;
    }

    /// Records the share of the time that `activedefrag` grants.
    fn note_directed(&mut self, executor: &Executor, now: Uptime, percent: u64) {
        let statistics = &executor.statistics.defrag;
        if self.is_directed != (percent > 0) {
            self.moved_count = 0;
        }
        self.is_directed = percent > 0;
        statistics.percent.set(percent);
        if !self.is_directed {
            statistics.since_ms.set(0);
        } else if statistics.since_ms.value() == 0 {
            statistics.since_ms.set(now.to_raw() as u64);
        }
    }

    /// Runs one step.
    pub(super) fn run(&mut self, executor: &mut Executor, shared: &'static Shared) {
        let directed_ns = u64::from(executor.settings.config.active_defrag_cycle_us).max(1) * 1000;
        let stretch_ns = if self.is_directed { directed_ns } else { SPARSE_STRETCH_NS };
        let latency = executor.settings.latency_start().filter(|_| self.is_directed);
        let started = Ticks::now();
        let limit = stretch_ns.min(self.left_ns);
        let within = || Ticks::now().ns_since(started) < limit;
        let done = self.cycle.run(&mut executor.latching, shared.pool.active(), within);
        let spent = Ticks::now().ns_since(started);
        self.left_ns = self.left_ns.saturating_sub(spent);
        self.moved_count += done.moved_count;
        if done.is_complete {
            self.left_ns = 0;
            let moved_count = std::mem::take(&mut self.moved_count);
            if !self.is_directed {
                self.sparse.end(shared);
            } else if moved_count == 0 {
                self.paused_until = Uptime::now().plus_ms(PAUSE_MS);
            }
            shared.return_memory();
        }
        let statistics = &executor.statistics.defrag;
        statistics.run_ns.add(spent);
        if !self.is_directed {
            return;
        }
        statistics.moved.add(done.moved_count as u64);
        statistics.left.add(done.examined_count.saturating_sub(done.moved_count) as u64);
        statistics.ns.add(spent);
        executor.settings.latency_end(&shared.monitoring, latency, "active-defrag-cycle");
    }
}

impl SparseWalk {
    /// The part of its time that this worker should spend on it now, in percent.
    fn percent(&mut self, thread: usize, shared: &Shared, now: Uptime) -> u64 {
        if self.begun.is_none() {
            // Beside the memory that a walk can move, without large values.
            let (wasted, waste_percent) = waste(shared, Heap::block_bytes);
            self.left = self.left.min(wasted);
            let has_grown = wasted > self.left / 2 * 3 + SPARSE_SIZE_MIN;
            if now < self.paused_until && !has_grown {
                return 0;
            }
            let exceeds = |size_min: u64, percent_min: u64| {
                let size_min = if simulation::is_simulated() { SPARSE_SIZE_MIN_SIMULATED } else { size_min };
                wasted >= size_min && waste_percent > percent_min
            };
            let is_most = exceeds(SPARSE_SIZE_MIN, SPARSE_PERCENT);
            let is_again = now < self.again_until && exceeds(SPARSE_AGAIN_SIZE_MIN, SPARSE_AGAIN_PERCENT);
            if !is_most && !is_again {
                self.pause_ms = PAUSE_MS;
                return 0;
            }
            self.begun = Some((wasted, is_most));
        }
        let busy_permille = shared.workers.handle(thread).busy_permille().min(1000);
        SPARSE_TIME_PERCENT + SPARSE_IDLE_PERCENT * (1000 - busy_permille) / 1000
    }

    /// Ends a walk. The next one comes later if this one has gained little, so that what can't be moved is not walked
    /// again and again.
    fn end(&mut self, shared: &Shared) {
        let Some((before, was_most)) = self.begun.take() else { return };
        let (left, now) = (shared.keyspace.wasted_bytes(), Uptime::now());
        if was_most {
            self.again_until = now.plus_ms(SPARSE_AGAIN_MS);
        }
        if left > before / 8 * 7 {
            (self.left, self.paused_until) = (left, now.plus_ms(self.pause_ms));
            self.pause_ms = (2 * self.pause_ms).min(PAUSE_MS_MAX);
        }
    }
}

/// The part of its time that a worker should spend on it because of `activedefrag`, in percent: between the two limits as waste is
/// between its two thresholds.
fn percent(config: &Config, shared: &Shared) -> u64 {
    if !config.activedefrag {
        return 0;
    }
    let (wasted, waste_percent) = waste(shared, Heap::used_bytes);
    let lower = u64::from(config.active_defrag_threshold_lower);
    if wasted < config.active_defrag_ignore_bytes || waste_percent < lower {
        return 0;
    }
    let upper = u64::from(config.active_defrag_threshold_upper).max(lower + 1);
    let (min, max) = (u64::from(config.active_defrag_cycle_min), u64::from(config.active_defrag_cycle_max));
    let above = (waste_percent - lower).min(upper - lower);
    min + max.saturating_sub(min) * above / (upper - lower)
}

/// The wasted bytes of the entries' heaps, and their percentage of the bytes in use, by `used_in`.
fn waste(shared: &Shared, used_in: fn(&Heap) -> u64) -> (u64, u64) {
    let wasted = shared.keyspace.wasted_bytes();
    let used: u64 = shared.keyspace.heaps().iter().map(used_in).sum();
    (wasted, wasted * 100 / used.max(1))
}

//! The watchdog: with `watchdog-period`, the stacks of all threads are logged when a worker's turn takes longer
//! than that. It is for debugging, and starts with the first period that is set.

use std::sync::PoisonError;
use std::time::Duration;

use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::{Condvar, Mutex};

use crate::monitoring::statistics::Statistics;

/// Shortest period, in milliseconds: ticks themselves would exceed a shorter one.
const PERIOD_MS_MIN: u64 = 200;

/// The watchdog's handle.
#[derive(Default)]
pub struct Watchdog {
    period_ms: AtomicU64,
    has_ended: AtomicBool,
    is_started: Mutex<bool>,
    changed: Condvar,
}

impl Watchdog {
    /// Sets the period; 0 turns the watchdog off.
    pub fn set_period(&'static self, statistics: &'static Statistics, period_ms: u32) {
        let period_ms = if period_ms == 0 { 0 } else { u64::from(period_ms).max(PERIOD_MS_MIN) };
        let mut is_started = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        self.period_ms.store(period_ms, Ordering::Relaxed);
        self.changed.notify_all();
        if period_ms > 0 && !*is_started {
            let thread = sync::thread::Builder::new().name("watchdog".to_owned());
            match thread.spawn(|| self.watch(statistics)) {
                Ok(_) => *is_started = true,
                Err(error) => log::warn!("Can't start the watchdog: {error}"),
            }
        }
    }

    fn watch(&self, statistics: &Statistics) {
        let mut reported_turn = None;
        while let Some(period_ms) = self.wait() {
            let now = Uptime::now().to_raw() as u64;
            let late = statistics.threads().find(|(_, thread)| {
                let since = thread.turn.since_ms.value();
                since != 0 && now.saturating_sub(since) >= period_ms
            });
            let turn = late.map(|(index, thread)| (index, thread.turn.since_ms.value()));
            // Once a turn, however long it takes.
            if let Some((index, _)) = turn.filter(|_| turn != reported_turn) {
                log::warn!(
                    "--- WATCHDOG TIMER EXPIRED --- broadloom-io-{index} has been in one turn for {period_ms} ms"
                );
                // A simulation runs one thread at a time, and installs no signal handlers.
                if !sync::simulation::is_simulated() {
                    crate::logging::stacks::log_stacks();
                }
            }
            reported_turn = turn;
        }
    }

    /// Ends the watchdog's thread.
    pub fn end(&self) {
        let _guard = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_ended.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits for half of the period, or until one is set. Returns it; `None`: the thread is to end.
    fn wait(&self) -> Option<u64> {
        let mut guard = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_waited = false;
        loop {
            if self.has_ended.load(Ordering::Relaxed) {
                return None;
            }
            let period_ms = self.period_ms.load(Ordering::Relaxed);
            if period_ms == 0 {
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if has_waited {
                return Some(period_ms);
            }
            let half = Duration::from_millis(period_ms / 2);
            let waited = self.changed.wait_timeout(guard, half).unwrap_or_else(PoisonError::into_inner);
            (guard, has_waited) = (waited.0, waited.1.timed_out());
        }
    }
}

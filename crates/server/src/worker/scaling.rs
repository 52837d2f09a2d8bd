//! Scaling: the number of active workers follows the load, see [`ActiveWorkers`](crate::shared::active_workers).
//!
//! - A worker that had too much work for [`WINDOW_NS`] leaves half of its load to the least busy active worker, or to a
//!   dormant one, which becomes active.
//! - A command that is expected to take long moves its connection away from the others, which would wait for it, and one
//!   that took long moves it for the next one.
//! - Connections of a dormant worker leave it when they have output. Those without anything to do stay and cost nothing.
//!
//! A connection that is to leave waits in [`Scaling::leaving`] for its turn, as a move takes time on both sides.

use std::collections::VecDeque;

use os::clock::Ticks;
use os::process::{self, UsageOf};
use os::run_times::{RunTime, RunTimes};
use sync::simulation;

use super::Worker;
use crate::connection::token::Token;
use crate::monitoring::statistics::WorkerStatistics;

/// The time in nanoseconds after which a worker decides whether it is overloaded.
const WINDOW_NS: u64 = 20_000_000;

/// The share of the time, in thousandths, from which on a worker had work all the time.
const BUSY_PERMILLE: u64 = 930;

/// The share of the time that such a worker must have run: if it only waited for its CPU, another worker would wait, too.
const RUNNING_PERMILLE_MIN: u64 = 350;

/// The windows in a row after which a worker that waits for its CPU counts as overloaded: other programs may need it for a moment.
const WAITING_COUNT_MIN: u32 = 2;

/// An active worker with less work takes over load before a dormant one does, in thousandths of its time.
const RECEIVING_PERMILLE_MAX: u64 = 500;

/// A worker with less work has a connection with long commands to itself, nearly, in thousandths of its time.
const FREE_PERMILLE_MAX: u64 = 200;

/// The windows after a decision in which a worker decides nothing: its load includes what is about to move.
const REST_COUNT: u32 = 2;

/// The minimum share of a worker's load that is worth another worker, in thousandths.
const MOVED_PERMILLE_MIN: u64 = 2;

/// The time of a command is not its own if its thread has waited for a CPU for longer, in nanoseconds.
const CPU_WAIT_NS: u64 = 500_000;

/// The most connections that leave a worker in a turn.
const LEAVING_COUNT_MAX: usize = 64;

/// The most connections that wait to leave a dormant worker; further ones leave with a later output.
const WAITING_COUNT_MAX: usize = 1024;

/// A worker's part in scaling.
pub(super) struct Scaling {
    /// Whether the worker was dormant when its turn began.
    is_dormant: bool,
    /// Connections that leave for these workers.
    leaving: VecDeque<(Token, usize)>,
    times: RunTimes,
    window: LoadMeter,
    /// Windows left in which it decides nothing.
    rest_count: u32,
    /// Windows until now in which it always ran or waited for its CPU.
    waiting_count: u32,
}

/// Measures the load of the calling worker since the last measurement.
pub(super) struct LoadMeter {
    began: Ticks,
    /// The times then; `None`: nothing was measured.
    before: Option<RunTime>,
}

/// Shares of the time, in thousandths.
struct Load {
    /// The worker had work.
    busy_permille: u64,
    /// It ran on a CPU.
    running_permille: u64,
}

impl Scaling {
    /// To be called by the worker.
    pub(super) fn new() -> Self {
        Self {
            is_dormant: false,
            leaving: VecDeque::new(),
            times: RunTimes::of_this_thread(),
            window: LoadMeter::new(),
            rest_count: 0,
            waiting_count: 0,
        }
    }

    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }
}

impl LoadMeter {
    pub(super) fn new() -> Self {
        Self { began: Ticks::now(), before: None }
    }

    /// Returns the load until now, by the times of the thread, and begins the next measurement.
    fn measure(&mut self, times: &RunTimes, statistics: &WorkerStatistics) -> Load {
        let now = Ticks::now();
        let mut time = match simulation::is_simulated() {
            false => times.read(),
            true => RunTime { running_ns: statistics.turn.busy_ns.value(), waiting_ns: 0 },
        };
        // Defragmentation takes idle time: another worker would not help.
        time.running_ns = time.running_ns.saturating_sub(statistics.defrag.run_ns.value());
        let passed_ns = now.ns_since(std::mem::replace(&mut self.began, now)).max(1);
        let before = self.before.replace(time).unwrap_or(time);
        let running_ns = time.running_ns.saturating_sub(before.running_ns);
        let waiting_ns = time.waiting_ns.saturating_sub(before.waiting_ns);
        Load {
            busy_permille: (running_ns + waiting_ns) * 1000 / passed_ns,
            running_permille: running_ns * 1000 / passed_ns,
        }
    }
}

impl Worker {
    /// At the beginning of a turn: determines whether this worker is dormant, and whether its connections may leave each other.
    #[inline]
    pub(super) fn update_dormancy(&mut self) {
        let pool = &self.shared.pool;
        self.scaling.is_dormant = self.index >= pool.active() && !self.ending.is_retiring;
        self.executor.long_commands.is_on = pool.can_scale() && self.connections.len() > 1;
    }

    /// At the end of a turn: leaves load to another worker if there was too much.
    #[inline]
    pub(super) fn scale(&mut self, now: Ticks) {
        if now.ns_since(self.scaling.window.began) >= WINDOW_NS {
            self.end_window(now);
        }
    }

    #[cold]
    fn end_window(&mut self, now: Ticks) {
        if !self.shared.pool.can_scale() {
            self.scaling.window = LoadMeter { began: now, before: None };
            return;
        }
        let load = self.scaling.window.measure(&self.scaling.times, self.statistics);
        if self.ending.is_retiring || self.ending.is_stopping {
            return;
        }
        if self.scaling.rest_count > 0 {
            self.scaling.rest_count -= 1;
            return;
        }
        let percent = u64::from(self.executor.settings.config.io_threads_grow_percent);
        let waits = load.busy_permille >= BUSY_PERMILLE && load.running_permille >= RUNNING_PERMILLE_MIN;
        self.scaling.waiting_count = if waits { self.scaling.waiting_count + 1 } else { 0 };
        let is_overloaded = match simulation::random_u64() {
            None => load.running_permille >= percent * 10 || self.scaling.waiting_count >= WAITING_COUNT_MIN,
            Some(random) => random % 3 == 0,
        };
        if is_overloaded && self.scaling.leaving.is_empty() {
            self.leave_half(now);
        }
    }

    /// Leaves half of the load to another worker, if it consists of several connections.
    fn leave_half(&mut self, now: Ticks) {
        let pool = &self.shared.pool;
        let least = self.least_busy_other().filter(|(_, load)| *load < RECEIVING_PERMILLE_MAX);
        let receiving = least.map(|(thread, _)| thread);
        if receiving.is_none() && pool.active() == pool.wanted() {
            return;
        }
        let shares: Vec<(Token, u64)> = self
            .connections
            .iter()
            .filter(|connection| self.can_move(connection))
            .map(|connection| (connection.client.token, connection.client.recent_time.at(now)))
            .filter(|(_, share)| *share > 0)
            .collect();
        let moved = half_of(shares);
        if moved.is_empty() {
            return;
        }
        self.scaling.rest_count = REST_COUNT;
        let Some(to) = receiving.or_else(|| pool.grow(self.clock.uptime)) else { return };
        log::debug!("Thread {} moves {} connections to thread {to}", self.index, moved.len());
        self.scaling.leaving.extend(moved.into_iter().map(|token| (token, to)));
    }

    /// The other active workers that are not in a long turn.
    fn other_active(&self) -> impl Iterator<Item = usize> {
        let now = self.uptime();
        (0..self.shared.pool.active()).filter(move |thread| {
            *thread != self.index && !self.shared.monitoring.statistics.is_late(*thread, now)
        })
    }

    /// The least busy of the other active workers, and its load in thousandths.
    pub(super) fn least_busy_other(&self) -> Option<(usize, u64)> {
        let loads =
            self.other_active().map(|thread| (thread, self.shared.workers.handle(thread).busy_permille()));
        loads.min_by_key(|(_, load)| *load)
    }

    /// Moves a connection with a long command away from others that are in use: to an active worker with little work and fewer
    /// connections, or to a dormant one. Returns whether it leaves.
    #[cold]
    pub(super) fn isolate(&mut self, token: Token) -> bool {
        let pool = &self.shared.pool;
        if !pool.can_scale() || self.ending.is_retiring || !self.others_are_in_use(token) {
            return false;
        }
        let count = self.connections.len() as u64;
        let handle = |thread: usize| self.shared.workers.handle(thread);
        let is_free = |thread: &usize| {
            handle(*thread).load() + 1 < count && handle(*thread).busy_permille() < FREE_PERMILLE_MAX
        };
        let free = self.other_active().filter(is_free).min_by_key(|thread| handle(*thread).load());
        let Some(to) = free.or_else(|| pool.grow(self.uptime())) else { return false };
        // Its requests wait until then.
        self.scaling.leaving.push_front((token, to));
        true
    }

    /// Whether requests of other connections have run recently: within about a second.
    fn others_are_in_use(&self, token: Token) -> bool {
        let now = Ticks::now();
        self.connections
            .iter()
            .any(|other| other.client.token != token && other.client.recent_time.at(now) > 0)
    }

    /// The worker for a new connection. If the least loaded one is in a long turn, a dormant one becomes active.
    pub(super) fn receiving_worker(&self) -> usize {
        let (least, now) = (self.least_loaded(), self.uptime());
        let is_late = least != self.index && self.shared.monitoring.statistics.is_late(least, now);
        let grown = if is_late && self.shared.pool.can_scale() { self.shared.pool.grow(now) } else { None };
        grown.unwrap_or(least)
    }

    /// Whether this thread has waited for its CPU for long in this window: then a command took long for that reason.
    #[cold]
    pub(super) fn waited_for_cpu(&self) -> bool {
        let Scaling { window, times, .. } = &self.scaling;
        let waited_ns = |before: RunTime| times.read().waiting_ns.saturating_sub(before.waiting_ns);
        !simulation::is_simulated() && window.before.is_none_or(|before| waited_ns(before) > CPU_WAIT_NS)
    }

    /// After output of a connection: if this worker is dormant, the connection leaves it.
    #[inline]
    pub(super) fn leave_dormant(&mut self, token: Token) {
        if self.scaling.is_dormant && self.scaling.leaving.len() < WAITING_COUNT_MAX {
            self.scaling.leaving.push_back((token, self.least_loaded()));
        }
    }

    /// Moves connections that are to leave. All output of the turn is sent.
    pub(super) fn move_leaving(&mut self) {
        for _ in 0..LEAVING_COUNT_MAX {
            let Some((token, to)) = self.scaling.leaving.pop_front() else { break };
            if to != self.index && to < self.shared.pool.wanted() {
                self.start_moving(token, to);
            }
            let Some(connection) = self.connections.find(token) else { continue };
            let may_continue =
                connection.input.has_more && connection.may_continue() && !connection.is_moving();
            if may_continue && !self.waits.ready.contains(&token) {
                self.waits.ready.push(token);
            }
        }
    }

    /// Publishes the load since the last call, and the CPU time of the thread.
    pub(super) fn publish_load(&mut self) {
        let load = self.cron.load.measure(&self.scaling.times, self.statistics);
        self.own_handle().set_load(load.busy_permille, load.running_permille);
        let usage = process::usage(UsageOf::Thread);
        self.statistics.cpu.user_us.set(usage.user.as_micros() as u64);
        self.statistics.cpu.system_us.set(usage.system.as_micros() as u64);
    }
}

/// The connections with about half of the sum of the shares, as few as possible; none if no half is worth a move.
fn half_of(mut shares: Vec<(Token, u64)>) -> Vec<Token> {
    shares.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
    let mut halves = [(0, Vec::new()), (0, Vec::new())];
    for (token, share) in shares {
        let lighter = usize::from(halves[1].0 < halves[0].0);
        halves[lighter].0 += share;
        halves[lighter].1.push(token);
    }
    let sum = halves[0].0 + halves[1].0;
    if halves.iter().any(|(share, _)| share * 1000 < sum * MOVED_PERMILLE_MIN) {
        return Vec::new();
    }
    let [(_, first), (_, second)] = halves;
    if second.len() <= first.len() { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shares: &[u64], expected: &[u64]) {
        let numbered = (0..).map(Token).zip(shares.iter().copied()).collect();
        let mut moved: Vec<u64> = half_of(numbered).iter().map(|token| shares[token.0 as usize]).collect();
        moved.sort_unstable();
        assert_eq!(moved, expected, "of {shares:?}");
    }

    #[test]
    fn half_of_the_load_moves() {
        check(&[10; 6], &[10; 3]);
        check(&[10; 7], &[10; 3]);
        check(&[100, 10, 10, 10, 10, 10, 10], &[100]);
        check(&[60, 50, 40, 30, 20], &[40, 50]);
    }

    #[test]
    fn what_one_connection_needs_is_not_divided() {
        check(&[], &[]);
        check(&[100], &[]);
        check(&[10_000, 5, 5], &[]);
    }
}

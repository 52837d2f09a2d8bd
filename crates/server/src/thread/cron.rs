//! What a thread does ten times a second: expiry, timeouts, statistics, garbage.

use std::sync::atomic::Ordering;

use reactor::CloseMode;
use reactor::process::{self, UsageOf};

use super::Thread;
use crate::connection::Token;
use crate::shared::Attention;

/// Ticks between two looks at all connections.
const CLIENTS_EVERY: u64 = 10;

/// A thread's periodic work.
pub struct Cron {
    ticks: u64,
    busy_ns_before: u64,
    expiry: keyspace::ExpiryCycle,
}

impl Cron {
    pub(super) fn new(thread: usize) -> Self {
        Self { ticks: 0, busy_ns_before: 0, expiry: keyspace::ExpiryCycle::new(thread) }
    }
}

impl Thread {
    /// One tick.
    pub(super) fn tick(&mut self) {
        self.cron.ticks += 1;
        if !self.shared.cron_paused.load(Ordering::Relaxed) {
            self.expire();
        }
        self.publish_load();
        self.shared.keyspace.reclaim(&mut self.retired);
        if self.retiring {
            self.move_all_away();
        } else {
            self.even_out();
        }
        if self.cron.ticks.is_multiple_of(CLIENTS_EVERY) && !self.shared.cron_paused.load(Ordering::Relaxed) {
            if self.index == 0 {
                self.shared.keyspace.trim();
            }
            self.check_clients();
        }
        if self.index == 0 {
            self.end_pause_in_time();
            if self.executor.config.maxmemory > 0 {
                // Buffers grow without a write, and the limit may have become lower.
                self.executor.make_room();
            }
            self.shared.sample(self.now);
        }
        if self.stopping && self.now >= self.stop_at {
            self.give_up_slow_readers();
        }
        if self.executor.client_memory_max < u64::MAX {
            self.evict_clients();
        }
    }

    /// Deletes keys whose time is over, in this thread's share of the slots, for a part of the tick.
    fn expire(&mut self) {
        let paused = Attention::PAUSED | Attention::PAUSED_WRITES;
        if !self.shared.active_expire.load(Ordering::Relaxed) || self.shared.attention.is_set(paused) {
            return;
        }
        self.executor.view.sees_expired = false;
        let threads = self.shared.wanted_threads();
        let budget_ns = 1_000_000 * u64::from(self.executor.config.active_expire_effort + 1);
        let started = reactor::clock::Ticks::now();
        let within_budget = || reactor::clock::Ticks::now().ns_since(started) < budget_ns;
        let mut costly = Vec::new();
        self.cron.expiry.run(&mut self.executor.view, threads, within_budget, |expired| {
            if expired.removed.is_costly_to_drop() {
                costly.push(expired.removed);
            }
        });
        self.executor.view.garbage.append(&mut costly);
        if !self.executor.view.garbage.is_empty() {
            self.executor.free_garbage();
        }
    }

    fn publish_load(&mut self) {
        let busy_ns = self.statistics.busy_ns.value();
        let spent = busy_ns.wrapping_sub(std::mem::replace(&mut self.cron.busy_ns_before, busy_ns));
        self.seat.set_busy_permille(spent / 100_000);
        let usage = process::usage(UsageOf::Thread);
        self.statistics.cpu_user_us.set(usage.user.as_micros() as u64);
        self.statistics.cpu_system_us.set(usage.system.as_micros() as u64);
    }

    /// The server ends: what a connection has not read by now is lost.
    fn give_up_slow_readers(&mut self) {
        for (_, connection) in &self.connections {
            self.reactor.close(connection.id, CloseMode::Now);
        }
    }

    fn end_pause_in_time(&mut self) {
        let until = self.shared.pause_until.load(Ordering::Acquire);
        if until != 0 && until <= self.now.0 {
            self.shared.end_pause();
        }
    }

    /// Closes idle connections, watches output limits over time, gives unused buffers back.
    fn check_clients(&mut self) {
        let config = std::sync::Arc::clone(&self.executor.config);
        let now = self.now.0;
        let mut idle: Vec<Token> = Vec::new();
        let mut behind: Vec<(Token, usize)> = Vec::new();
        for (_, connection) in &mut self.connections {
            connection.recent_commands = 0;
            let quiet_ms = now - connection.record.active_at.load(Ordering::Relaxed);
            if config.timeout > 0 && quiet_ms > i64::from(config.timeout) * 1000 && connection.may_time_out()
            {
                idle.push(connection.token);
            }
            let pending = self.reactor.pending_send_bytes(connection.id);
            if pending > 0 {
                behind.push((connection.token, pending));
            }
            if quiet_ms > 2000 {
                connection.shrink();
            }
            self.statistics.client_memory.add(connection.publish());
        }
        for (token, pending) in behind {
            self.check_output_size(token, pending);
        }
        for token in idle {
            let Some(connection) = self.connection(token) else { continue };
            log::debug!("Closing idle client");
            connection.closing = true;
            let id = connection.id;
            self.reactor.close(id, CloseMode::Now);
        }
    }
}

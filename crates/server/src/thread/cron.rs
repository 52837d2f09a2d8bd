//! The tick of a worker, `hz` times a second: expiry, a share of its clients, statistics, trimming.

use os::clock::{Ticks, Uptime};
use os::pages;
use os::process::{self, UsageOf};
use reactor::CloseMode;
use sync::atomic::Ordering;

use super::Thread;
use super::defragment::Defragmenter;
use crate::connection::Token;
use crate::memory;
use crate::shared::GlobalFlags;

/// How long a server that ends waits for its clients to read their output, in milliseconds.
const STOP_MS: i64 = 1000;

/// The interval in milliseconds at which vacant memory is trimmed and workers even out their load.
const TRIM_MS: i64 = 1000;
/// The minimum of resident, unallocated bytes for which workers trim.
const RELEASED_SIZE_MIN: usize = 8 << 20;
const EVEN_OUT_MS: i64 = 100;
/// Maximum of connections to check in a tick: above, `dynamic-hz` makes ticks more frequent.
const CLIENTS_A_TICK_MAX: usize = 200;
/// Minimum of connections to check in a tick, if there are so many.
const CLIENTS_A_TICK_MIN: usize = 5;
/// Maximum of ticks a second.
const HZ_MAX: u32 = 500;

/// A worker's periodic work.
pub struct Cron {
    /// When each of these is due next.
    next_trim: Uptime,
    next_even_out: Uptime,
    /// The minimum of resident, unallocated bytes since this worker last trimmed.
    unused_min: usize,
    /// The connection to continue with.
    client: usize,
    published_at: Ticks,
    busy_ns_before: u64,
    expiry: keyspace::ExpiryCycle,
    field_expiry: keyspace::FieldExpiryCycle,
    pub(super) defragmenter: Defragmenter,
}

impl Cron {
    pub(super) fn new(thread: usize) -> Self {
        let published_at = Ticks::now();
        Self {
            next_trim: Uptime::default(),
            next_even_out: Uptime::default(),
            unused_min: usize::MAX,
            client: 0,
            published_at,
            busy_ns_before: 0,
            expiry: keyspace::ExpiryCycle::new(thread),
            field_expiry: keyspace::FieldExpiryCycle::new(thread),
            defragmenter: Defragmenter::new(thread),
        }
    }
}

impl Thread {
    /// One tick.
    pub(super) fn tick(&mut self) {
        self.executor.view.client = 0;
        if !self.shared.cron_paused.load(Ordering::Relaxed) {
            self.expire();
        }
        self.plan_defragmentation();
        self.let_lingering_go();
        self.invalidate_after_replies();
        if self.retiring {
            self.move_all_away();
        } else if self.uptime >= self.cron.next_even_out {
            self.cron.next_even_out = self.uptime.plus_ms(EVEN_OUT_MS);
            self.publish_load();
            self.even_out();
        }
        if !self.shared.cron_paused.load(Ordering::Relaxed) {
            if self.uptime >= self.cron.next_trim {
                self.cron.next_trim = self.uptime.plus_ms(TRIM_MS);
                self.trim();
            }
            self.check_clients();
        }
        if self.index == 0 {
            self.executor.limit_tracking();
            self.shared.end_pause_if_over(self.uptime);
            if self.executor.config.maxmemory > 0 {
                // Buffers grow without a write, and the limit may have been lowered.
                self.executor.make_room(0);
            } else {
                self.shared.is_short_of_memory.store(false, Ordering::Relaxed);
            }
            self.shared.sample(self.uptime);
        }
        if self.shared.is_short_of_memory.load(Ordering::Relaxed) {
            self.drop_spare_buffers();
        }
        if self.stopping && self.uptime >= self.stop_at {
            self.close_slow_readers();
        }
        if self.executor.client_memory_max < u64::MAX {
            self.evict_clients();
        }
    }

    /// Trims: returns vacant chunks of the heaps to the system, and the allocator's free memory if it has
    /// become more than is in use. The latter costs time in proportion to the memory in use.
    fn trim(&mut self) {
        if self.index == 0 {
            self.shared.trim();
        }
        let unused = memory::unused_bytes();
        self.cron.unused_min = self.cron.unused_min.min(unused);
        if unused - self.cron.unused_min > RELEASED_SIZE_MIN.max(sync::allocator::allocated_bytes()) {
            self.release_free_memory();
        }
    }

    /// Returns the memory that the allocator keeps free for this worker.
    pub(super) fn release_free_memory(&mut self) {
        pages::release_free_memory();
        self.cron.unused_min = memory::unused_bytes();
    }

    /// Deletes expired keys and hash fields in this worker's share of the slots, for a part of the tick.
    fn expire(&mut self) {
        self.executor.follow_config();
        let is_importing = self.executor.config.import_mode;
        if is_importing
            || !self.shared.active_expire.load(Ordering::Relaxed)
            || self.shared.global_flags.is_set(GlobalFlags::ANY_PAUSE)
        {
            return;
        }
        self.executor.view.sees_expired = false;
        let threads = self.shared.wanted_threads();
        // Two hundredths of the time between ticks, and one more for each step of effort.
        let permille = 10 * u64::from(self.executor.config.active_expire_effort + 1);
        let budget_ns = permille * 1000 * self.tick_ms() as u64;
        let started = Ticks::now();
        let mut cut_short = false;
        let within_budget = || {
            cut_short = Ticks::now().ns_since(started) >= budget_ns;
            !cut_short
        };
        let (background, lazily) = (&self.shared.background, self.executor.config.lazyfree_lazy_expire);
        let free = |expired: keyspace::Expired| {
            if lazily && expired.removed.is_costly_to_drop() {
                background.free(1, Box::new(move || drop(expired)));
            }
        };
        let within_half = || Ticks::now().ns_since(started) < budget_ns / 2;
        self.cron.field_expiry.run(&mut self.executor.view, threads, within_half, |expired| drop(expired));
        self.cron.expiry.run(&mut self.executor.view, threads, within_budget, free);
        self.statistics.expire_ns.add(Ticks::now().ns_since(started));
        self.statistics.expire_cut_short.add(u64::from(cut_short));
        self.executor
            .latency_end(Some(started).filter(|_| self.executor.latency_start().is_some()), "expire-cycle");
    }

    /// The time between two ticks: by `hz`, or so short that no tick has too many connections to check.
    pub(super) fn tick_ms(&self) -> i64 {
        let config = &self.executor.config;
        let mut hz = config.hz;
        while config.dynamic_hz && hz < HZ_MAX && self.connections.len() > CLIENTS_A_TICK_MAX * hz as usize {
            hz = (hz * 2).min(HZ_MAX);
        }
        (1000 / i64::from(hz)).max(1)
    }

    fn publish_load(&mut self) {
        let busy_ns = self.statistics.busy_ns.value();
        let spent = busy_ns.wrapping_sub(std::mem::replace(&mut self.cron.busy_ns_before, busy_ns));
        let now = Ticks::now();
        let passed_ns = now.ns_since(std::mem::replace(&mut self.cron.published_at, now));
        self.handle.set_busy_permille(spent * 1000 / passed_ns.max(1));
        let usage = process::usage(UsageOf::Thread);
        self.statistics.cpu_user_us.set(usage.user.as_micros() as u64);
        self.statistics.cpu_system_us.set(usage.system.as_micros() as u64);
    }

    /// Closes the listeners, sends the remaining output, and ends.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.stop_at = self.uptime.plus_ms(STOP_MS);
        self.listeners.close(&mut self.reactor);
        self.arrivals.clear();
        let tokens: Vec<Token> = self.connections.iter().map(|(_, connection)| connection.token).collect();
        for token in tokens {
            if let Some(connection) = self.connection(token) {
                connection.closing = true;
                self.dirty.push(token);
            }
        }
    }

    /// Closes the remaining connections at the end of the server; their unsent output is lost.
    fn close_slow_readers(&mut self) {
        for (_, connection) in &self.connections {
            self.reactor.close(connection.id, CloseMode::Now);
        }
    }

    /// Closes idle connections, checks output limits over time, and frees unused buffers: for a share of the
    /// connections, all of them in a second.
    fn check_clients(&mut self) {
        let config = std::sync::Arc::clone(&self.executor.config);
        let now = self.uptime.to_raw();
        let mut all = Vec::with_capacity(self.connections.len());
        let mut idle: Vec<Token> = Vec::new();
        let mut behind: Vec<(Token, usize)> = Vec::new();
        let share = self.connections.len() as i64 * self.tick_ms() / 1000;
        let first = std::mem::take(&mut self.cron.client);
        let mut left = (share as usize).max(CLIENTS_A_TICK_MIN);
        for place in first..self.connections.capacity() {
            let Some(connection) = self.connections.get_mut(place) else { continue };
            if left == 0 {
                self.cron.client = place;
                break;
            }
            left -= 1;
            connection.recent_commands = 0;
            connection.reply_buffer.adapt(now, &self.shared.reply_buffers);
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
            } else {
                connection.trim_query();
            }
            all.push(connection.token);
        }
        for token in all {
            self.take_note(token);
        }
        if self.cron.client == 0 {
            self.statistics.input_buffer_max.end_period();
            self.statistics.output_buffer_max.end_period();
        }
        for (token, pending) in behind {
            self.check_output_size(token, pending);
        }
        for token in idle {
            log::debug!("Closing idle client");
            self.close_now(token);
        }
    }
}

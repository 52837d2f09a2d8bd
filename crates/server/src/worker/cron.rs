//! The tick of a worker, `hz` times a second: expiry, a share of its clients, statistics, trimming.

use collections::Retired;
use os::clock::Uptime;
use os::pages;
use reactor::CloseMode;
use sync::atomic::Ordering;

use super::Worker;
use super::balancing::Balancing;
use super::defragment::Defragmenter;
use super::expiring::ActiveExpiry;
use super::replicas::PING;
use super::scaling::LoadMeter;
use crate::connection::token::Token;
use crate::connection::{Closing, Life};
use crate::persistence::saving;

/// How long the ending server waits for its clients to read their output, in milliseconds.
const STOP_MS: i64 = 1000;

/// How long a closing connection may take none of its output, in milliseconds; less with `timeout`.
const CLOSING_IDLE_MS_MAX: i64 = 60_000;

/// The interval in milliseconds at which a worker that stands in for the first one looks for new connections.
const LOOK_MS: i64 = 5;
const BALANCE_MS: i64 = 100;
/// Maximum of connections to check in a tick: above, `dynamic-hz` makes ticks more frequent.
const CLIENTS_A_TICK_MAX: usize = 200;
/// Minimum of connections to check in a tick, if there are so many.
const CLIENTS_A_TICK_MIN: usize = 5;
/// Maximum of ticks a second.
const HZ_MAX: u32 = 500;

/// A worker's periodic work.
pub struct Cron {
    /// When retired memory was last freed: once a millisecond, as growing structures reuse it, and a little each time.
    pub(super) reclaimed_at: Uptime,
    pub(super) retired: Vec<Retired>,
    /// When each of these is due next.
    next_balance: Uptime,
    /// The connection to continue with.
    client: usize,
    /// While it stands in for the first worker: when it looks for new connections again.
    pub(super) next_look: Option<Uptime>,
    pub(super) load: LoadMeter,
    expiry: ActiveExpiry,
    pub(super) balancing: Balancing,
    pub(super) defragmenter: Defragmenter,
}

impl Cron {
    pub(super) fn new(thread: usize) -> Self {
        Self {
            reclaimed_at: Uptime::default(),
            retired: Vec::new(),
            next_balance: Uptime::default(),
            client: 0,
            next_look: None,
            load: LoadMeter::new(),
            expiry: ActiveExpiry::new(thread),
            balancing: Balancing::default(),
            defragmenter: Defragmenter::new(thread),
        }
    }
}

impl Worker {
    /// One tick.
    pub(super) fn tick(&mut self) {
        self.executor.latching.events.client = 0;
        let (now, tick_ms) = (self.clock.uptime, self.tick_ms());
        if !self.shared.modes.cron_paused.load(Ordering::Relaxed) {
            self.cron.expiry.run(&mut self.executor, self.shared, tick_ms);
        }
        self.cron.defragmenter.plan(&self.executor, self.shared, now, tick_ms);
        self.waits.remove_lingering(&mut self.executor.latching);
        self.refuse_parked();
        self.invalidate_after_replies();
        self.executor.scripts.tick();
        self.host.subscriptions.forget_joins();
        self.check_primary();
        self.check_replicas();
        if self.ending.is_retiring {
            self.move_all_away();
        } else if self.clock.uptime >= self.cron.next_balance {
            self.cron.next_balance = self.clock.uptime.plus_ms(BALANCE_MS);
            self.publish_load();
            self.balance_load();
        }
        if !self.shared.modes.cron_paused.load(Ordering::Relaxed) {
            self.check_clients();
        }
        if self.index == 0 {
            self.do_duties(0);
        } else {
            self.do_first_workers_work();
        }
        if self.shared.memory.is_over_limit.load(Ordering::Relaxed) {
            self.output.drop_spare_buffers(&mut self.connections);
        }
        if self.ending.is_stopping && self.clock.uptime >= self.ending.stop_at {
            self.close_slow_readers();
        }
        if self.executor.settings.client_memory_max < u64::MAX {
            self.evict_clients();
        }
    }

    /// The periodic work of the whole server, unless another worker does it, or did it less than an interval ago.
    fn do_duties(&mut self, interval_ms: i64) {
        let (shared, now) = (self.shared, self.clock.uptime);
        if !shared.duties.try_begin(now, interval_ms) {
            return;
        }
        let is_cron_paused = shared.modes.cron_paused.load(Ordering::Relaxed);
        if !is_cron_paused && shared.duties.is_trim_due(now) {
            shared.trim();
            self.executor.latching.settle_inline_database();
        }
        self.executor.limit_tracking(0);
        shared.end_pause_if_over(now);
        shared.migration_sockets.close_unused(now);
        if self.executor.settings.config.maxmemory > 0 {
            // Buffers grow without a write, and the limit may have been lowered.
            self.executor.eviction().make_room(0);
        } else {
            shared.memory.is_over_limit.store(false, Ordering::Relaxed);
        }
        shared.continue_shutdown();
        shared.care_for_failover();
        if !is_cron_paused {
            saving::begin_if_due(shared);
        }
        shared.care_for_replicas(now, || {
            let _ = self.executor.latching.append_for_replicas(PING);
        });
        shared.sample(now);
        shared.shrink_active_workers(now);
        persist::writer::check_sync(shared, now);
        shared.certificates.check(&shared.config, now);
        shared.duties.end();
    }

    /// While the first worker is in a long turn, accepts connections and does the periodic work in its place.
    pub(super) fn do_first_workers_work(&mut self) {
        self.cron.next_look = None;
        if !self.shared.monitoring.statistics.is_late(0, self.clock.uptime)
            || self.ending.is_stopping
            || self.ending.is_retiring
        {
            return;
        }
        self.cron.next_look = Some(self.clock.uptime.plus_ms(LOOK_MS));
        let count_max = self.executor.settings.config.max_new_connections_per_cycle as usize;
        for (socket, origin) in self.shared.connections.listen_sockets.accept_waiting(count_max) {
            if !origin.is_encrypted() {
                self.statistics.sockets.accepted.add(1);
            }
            self.accept(socket, origin);
        }
        self.do_duties(self.tick_ms());
    }

    /// Makes the memory that the allocator keeps free for this worker available to all, and returns it to the system.
    pub(super) fn release_free_memory(&self) {
        pages::release_free_memory();
        self.shared.memory.purge();
    }

    /// The time between two ticks: by `hz`, or so short that no tick has too many connections to check.
    pub(super) fn tick_ms(&self) -> i64 {
        let config = &self.executor.settings.config;
        let mut hz = config.hz;
        while config.dynamic_hz && hz < HZ_MAX && self.connections.len() > CLIENTS_A_TICK_MAX * hz as usize {
            hz = (hz * 2).min(HZ_MAX);
        }
        (1000 / i64::from(hz)).max(1)
    }

    /// Closes the listeners, sends the remaining output, and ends.
    pub(super) fn stop(&mut self) {
        self.ending.is_stopping = true;
        self.ending.stop_at = self.clock.uptime.plus_ms(STOP_MS);
        self.arrivals.listeners.close(&mut self.events.reactor);
        self.arrivals.clear();
        self.links.close_all(&mut self.events.reactor);
        let tokens: Vec<Token> = self.connections.tokens();
        for token in tokens {
            // One that is being moved is closed when its socket is detached.
            if let Some(connection) =
                self.connections.find_mut(token).filter(|connection| !connection.is_moving())
            {
                connection.close();
                self.output.dirty.push(token);
            }
        }
    }

    /// Closes the remaining connections at the end of the server; their unsent output is lost.
    fn close_slow_readers(&mut self) {
        for connection in self.connections.iter() {
            self.events.reactor.close(connection.id, CloseMode::Now);
        }
    }

    /// Closes idle connections, checks output limits over time, and frees unused buffers: for a share of the
    /// connections, all of them in a second.
    fn check_clients(&mut self) {
        let config = std::sync::Arc::clone(&self.executor.settings.config);
        let now = self.clock.uptime.to_raw();
        let mut all = Vec::with_capacity(self.connections.len());
        let mut idle: Vec<Token> = Vec::new();
        let mut behind: Vec<(Token, usize)> = Vec::new();
        let mut overdue = Vec::new();
        let share = self.connections.len() as i64 * self.tick_ms() / 1000;
        let first = std::mem::take(&mut self.cron.client);
        let mut left = (share as usize).max(CLIENTS_A_TICK_MIN);
        for place in first..self.connections.index_end() {
            let Some(connection) = self.connections.at_mut(place) else { continue };
            if left == 0 {
                self.cron.client = place;
                break;
            }
            left -= 1;
            connection.sending.reply_buffer.adapt(now, &self.shared.connections.reply_buffers);
            let unsent_size = self.events.reactor.unsent_bytes(connection.id) + connection.queued_output();
            if std::mem::replace(&mut connection.sending.unsent_size, unsent_size) != unsent_size {
                connection.sending.sent_at = now;
            }
            let quiet_ms =
                now - connection.record.active_at.load(Ordering::Relaxed).max(connection.sending.sent_at);
            let idle_ms_max = match (i64::from(config.timeout) * 1000, connection.is_closing()) {
                (0, true) => CLOSING_IDLE_MS_MAX,
                (timeout_ms, true) => timeout_ms.min(CLOSING_IDLE_MS_MAX),
                (timeout_ms, false) => timeout_ms,
            };
            if idle_ms_max > 0
                && quiet_ms > idle_ms_max
                && (connection.is_closing() || connection.may_time_out())
            {
                idle.push(connection.client.token);
            }
            if connection
                .encryption
                .as_ref()
                .is_some_and(|encryption| encryption.is_overdue(self.clock.uptime))
            {
                idle.push(connection.client.token);
            }
            if let Life::Closing(Closing { by: Some(by), .. }) = connection.life
                && self.clock.uptime >= by
            {
                overdue.push(connection.id);
            }
            let pending = self.events.reactor.pending_send_bytes(connection.id) + connection.queued_output();
            if pending > 0 {
                behind.push((connection.client.token, pending));
            }
            if quiet_ms > 2000 {
                connection.shrink();
            } else {
                connection.input.trim_query();
            }
            all.push(connection.client.token);
        }
        for token in all {
            self.update_record(token);
        }
        if self.cron.client == 0 {
            self.statistics.input_buffer_max.end_period();
            self.statistics.output_buffer_max.end_period();
        }
        for (token, pending) in behind {
            self.check_output_size(token, pending);
        }
        for id in overdue {
            self.events.reactor.close(id, CloseMode::Now);
        }
        for token in idle {
            log::debug!("Closing idle client");
            self.close_now(token);
        }
    }
}

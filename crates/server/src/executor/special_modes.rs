//! The handling of requests in special modes: pauses, transactions being queued, monitors, suppressed
//! replies, expired keys to delete, slow and large commands to log.

use std::sync::Arc;
use std::time::Duration;

use base::DbIndex;
use base::limits::SLOT_COUNT;
use commands::command::{Access, Command, Flags};
use commands::context::PlannedKey;
use commands::error::CommandError;
use commands::session::{BlockReason, Blocked, SessionFlags};
use commands::subscriptions::SubscriptionKind;
use commands::table::{CATALOGUE, NUMBERED, ResolvedCommand};
use keyspace::slot_of_hash;
use os::clock::{Ticks, Uptime};
use sync::simulation::{Fault, planted};
use sync::write_log::Room;
use wire::number::parse_i64_strict;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::Args;

use super::{Executor, Step};
use crate::connection::Connection;
use crate::mail::Mail;
use crate::monitoring::command_log::Cost;
use crate::shared::modes::GlobalFlags;

/// The reply to a command on data of a connection in `MONITOR`, in the words of Valkey, where it counts as a replica.
const MONITOR_DENIED: CommandError = CommandError::new("ERR Replica can't interact with the keyspace");

/// How long a request waits for a congested worker before it checks again.
const CONGESTION_WAIT: Duration = Duration::from_millis(1);

/// The most tracked keys that are dropped at a time: some tenths of a millisecond.
const DROPPED_KEY_COUNT_MAX: usize = 1000;

/// How long a command that reads all connections waits for the other workers' turns at most. A command
/// that must have these turns checks at this interval whether the workers still exist.
pub const TURNS_TIME_MAX: Duration = Duration::from_millis(50);

impl Executor {
    /// Applies the special modes that are active. `None`: the request is to be run now.
    #[cold]
    pub(super) fn check_special_modes(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        keys: &[PlannedKey],
        args: Args<'_>,
    ) -> Option<Step> {
        let global_flags = self.flags.load();
        if connection.session.tracking.is_some() {
            self.limit_tracking(keys.len());
            // Events about keys evicted for this request precede its reply.
            self.subscriptions.deliver_after_command(&mut connection.session, &mut connection.out);
        }
        let session = &connection.session;
        if session.in_subscribed_mode() && session.protocol == Protocol::Resp2 && !is_for_subscribers(found) {
            let name = super::refusals::full_name(found);
            self.reject(connection, found, &CommandError::owned(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context"
            )));
            return Some(Step::Done);
        }
        if global_flags & GlobalFlags::APPEND_FAILED != 0
            && let Some(step) = self.refuse_unwritable(connection, found, args)
        {
            return Some(step);
        }
        if global_flags & GlobalFlags::NO_REPLICAS != 0 && self.writes(connection, found, args) {
            self.reject(connection, found, &CommandError::NO_REPLICAS);
            return Some(Step::Done);
        }
        if global_flags & GlobalFlags::LOADING != 0 && self.refuses_while_loading(connection, found) {
            return Some(Step::Done);
        }
        if global_flags & GlobalFlags::UNSAVED != 0
            && (self.writes(connection, found, args) || NUMBERED[found.id.0 as usize].0 == "ping")
        {
            let text = CommandError::unsaved(self.settings.config.extended_redis_compatibility);
            self.reject(connection, found, &text);
            return Some(Step::Done);
        }
        if connection.session.flags.contains(SessionFlags::MONITOR)
            && accesses_data(connection, found.command)
        {
            self.reject(connection, found, &MONITOR_DENIED);
            return Some(Step::Done);
        }
        if global_flags & GlobalFlags::SNAPSHOT_FULL != 0
            && self.writes(connection, found, args)
            && self.changes_unsaved(found, keys)
        {
            return Some(self.wait_for_congestion(connection));
        }
        if global_flags & GlobalFlags::ANY_PAUSE != 0 && self.is_paused(connection, found, args, global_flags)
        {
            return Some(self.wait_for_end_of_pause(connection));
        }
        if connection.session.in_multi() && !found.command.flags.contains(Flags::NO_QUEUE) {
            return Some(self.queue(connection, found, keys, args));
        }
        if global_flags & GlobalFlags::MONITORED != 0
            && connection.session.unfinished.is_none()
            && !is_shown_afterwards(found.command)
            && !found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN)
        {
            self.feed_monitors(connection, found, args);
        }
        None
    }

    /// Drops some tracked keys beyond `tracking-table-max-keys`. Each request of a client with tracking does so, and each
    /// tick. `added_count`: how many keys the request may add.
    pub fn limit_tracking(&mut self, added_count: usize) {
        let limit = self.settings.config.tracking_table_max_keys as usize;
        if limit > 0 && self.shared.keyspace.reader_totals.key_count() > limit {
            self.latching.limit_reader_keys(limit, SLOT_COUNT, DROPPED_KEY_COUNT_MAX + added_count);
        }
    }

    /// While some worker is congested: whether the request must not send more to it. The target of a
    /// `PUBLISH` is known before it runs. Other requests' targets are known only afterwards, so their
    /// connection waits with its next request.
    #[cold]
    pub(super) fn must_await_delivery(
        &self,
        connection: &mut Connection,
        command: &Command,
        args: Args<'_>,
    ) -> bool {
        let hub = self.shared.hub;
        if !may_publish(command) && !self.flags.is_set(GlobalFlags::MONITORED) {
            return false;
        }
        if connection.congested_target.is_some_and(|thread| hub.is_thread_congested(thread)) {
            return true;
        }
        connection.congested_target = None;
        match command.name {
            "publish" => hub.is_audience_congested(SubscriptionKind::Channel, args.at(1)),
            "spublish" => hub.is_audience_congested(SubscriptionKind::ShardChannel, args.at(1)),
            _ => hub.wants_every_change() && hub.are_prefixes_congested(),
        }
    }

    /// Makes the request wait shortly, because a worker that it would send to is congested.
    #[cold]
    pub(super) fn wait_for_congestion(&mut self, connection: &mut Connection) -> Step {
        let timeout = Some(CONGESTION_WAIT);
        connection.session.blocked = Some(Blocked { timeout, reason: BlockReason::Congestion });
        Step::NotExecuted
    }

    /// Whether a request may change entries that the running snapshot has not saved yet.
    fn changes_unsaved(&self, found: ResolvedCommand, keys: &[PlannedKey]) -> bool {
        let snapshot = &self.shared.keyspace.snapshot;
        match keys {
            [] => found.command.access == Access::Queued && snapshot.is_on(),
            keys => keys.iter().any(|key| snapshot.needs(slot_of_hash(key.hash))),
        }
    }

    /// Whether the write log has room for a request of about this size. True while the log is off.
    #[inline]
    pub(super) fn log_has_room(&self, size: usize) -> bool {
        self.shared.keyspace.log.has_room(size)
    }

    /// While writing the append-only file fails: refuses a request that writes.
    #[cold]
    fn refuse_unwritable(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        args: Args<'_>,
    ) -> Option<Step> {
        if !self.writes(connection, found, args) && found.command.name != "ping" {
            return None;
        }
        let failure = self.shared.persistence.append_only.failure()?;
        let error = format!("MISCONF Errors writing to the AOF file: {failure}");
        self.reject(connection, found, &CommandError::owned(error));
        Some(Step::Done)
    }

    /// Makes a request wait for room in the write log. `None`: there is room now. While the file can't be written, the log
    /// gets no room, and the request is refused.
    #[cold]
    pub(super) fn wait_for_log(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        args: Args<'_>,
        size: usize,
    ) -> Option<Step> {
        if self.flags.is_set(GlobalFlags::APPEND_FAILED) {
            return self.refuse_unwritable(connection, found, args);
        }
        // A sleeping reader makes no room.
        self.latching.notify_log();
        match self.shared.keyspace.log.wait_for_room(size, connection.token.0) {
            Room::Now => None,
            // The failure may have begun since, and have woken the writers that waited then.
            Room::Waiting
                if self.flags.is_set(GlobalFlags::APPEND_FAILED)
                    && self.shared.keyspace.log.cancel_wait(connection.token.0) =>
            {
                self.refuse_unwritable(connection, found, args)
            }
            Room::Waiting => {
                connection.session.blocked = Some(Blocked { timeout: None, reason: BlockReason::Log });
                Some(Step::NotExecuted)
            }
        }
    }

    pub(super) fn wait_for_end_of_pause(&mut self, connection: &mut Connection) -> Step {
        let left_ms = self.shared.modes.pause.until().ms_since(Uptime::now());
        let timeout = Some(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)));
        connection.session.blocked = Some(Blocked { timeout, reason: BlockReason::Pause });
        Step::NotExecuted
    }

    /// While files are loaded: refuses a command that may not run meanwhile. Returns whether it did.
    fn refuses_while_loading(&mut self, connection: &mut Connection, found: ResolvedCommand) -> bool {
        let is_allowed = |command: &Command| command.flags.contains(Flags::LOADING);
        let queue = connection.session.multi.as_ref().filter(|_| found.command.access == Access::Queued);
        let is_refused = !is_allowed(found.command)
            || queue.is_some_and(|queue| queue.iter().any(|queued| !is_allowed(queued.found.command)));
        if is_refused {
            let is_redis = self.settings.config.extended_redis_compatibility;
            self.reject(connection, found, &CommandError::loading(is_redis));
        }
        is_refused
    }

    /// Checks a request that waited for a latch: if a pause has begun meanwhile, it releases its latches
    /// and waits for the end of the pause. If a load has begun, it is refused.
    #[cold]
    pub(super) fn recheck_modes(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        args: Args<'_>,
    ) -> Option<Step> {
        if self.flags.is_set(GlobalFlags::LOADING) && self.refuses_while_loading(connection, found) {
            self.latching.release();
            return Some(Step::Done);
        }
        if !self.is_paused(connection, found, args, self.flags.load()) {
            return None;
        }
        self.latching.release();
        connection.attempt.for_writing = false;
        Some(self.wait_for_end_of_pause(connection))
    }

    pub(super) fn is_paused(
        &self,
        connection: &Connection,
        found: ResolvedCommand,
        args: Args<'_>,
        global_flags: u32,
    ) -> bool {
        if global_flags & GlobalFlags::ANY_PAUSE == 0 || Uptime::now() >= self.shared.modes.pause.until() {
            return false;
        }
        if global_flags & GlobalFlags::PAUSED != 0 {
            return !found.command.flags.contains(Flags::NO_PAUSE);
        }
        self.may_change(connection, found, args)
    }

    /// Whether a request, or one of the transaction that it runs, writes.
    fn writes(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) -> bool {
        self.has_any_flag(connection, found, args, Flags::WRITE)
    }

    /// Whether a request, or one of the transaction that it runs, may change data. Some reads do, as `PFCOUNT`.
    pub(super) fn may_change(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) -> bool {
        self.has_any_flag(connection, found, args, Flags::WRITE | Flags::MAY_REPLICATE)
    }

    /// Whether a request, or one of the transaction that it runs, has one of the flags.
    fn has_any_flag(
        &self,
        connection: &Connection,
        found: ResolvedCommand,
        args: Args<'_>,
        flags: Flags,
    ) -> bool {
        let queue = connection.session.transaction().filter(|_| found.command.access == Access::Queued);
        self.flags_of(found, args).intersects(flags)
            || queue.is_some_and(|queue| {
                queue.iter().any(|queued| self.flags_of(queued.found, queued.args).intersects(flags))
            })
    }

    /// Counts the changes and the time of a part of a command.
    #[cold]
    pub(super) fn finish_part(&mut self, connection: &mut Connection, started: &mut Ticks) -> Step {
        let now = Ticks::now();
        connection.parts_ns += now.ns_since(*started);
        *started = now;
        connection.session.command_count -= 1;
        self.account_changes(connection);
        match connection.session.blocked {
            Some(_) => Step::NotExecuted,
            None => Step::Unfinished,
        }
    }

    /// Whether a command that reads all connections must wait for the other workers' turns. Requests
    /// their end, or finds that the command has waited. The wait is bounded, as a worker may be busy.
    pub(super) fn must_await_turns(&mut self, connection: &mut Connection) -> bool {
        if std::mem::take(&mut connection.turns.are_over) {
            return false;
        }
        self.request_barrier(connection, BlockReason::Turns)
    }

    /// Holds the reply of a command that applies to all workers until each has ended the turn in which it may have missed the
    /// command, and after a pause the scripts that had begun there, however long that takes.
    #[cold]
    pub(super) fn begin_barrier(&mut self, connection: &mut Connection) {
        // The flush after `CONFIG SET appendfsync always` already follows it.
        self.follow_config();
        let name = connection.session.last_command.map(|id| CATALOGUE.name(id));
        let fault = match name {
            Some("client|pause") => Fault::PauseBeforeBarrier,
            Some("client|tracking") => Fault::BroadcastBeforeBarrier,
            _ => Fault::UsersBeforeBarrier,
        };
        if planted(fault) {
            return;
        }
        self.request_barrier(connection, BlockReason::Barrier);
        // The scripts that have begun on this worker end first, too.
        if self.flags.is_set(GlobalFlags::ANY_PAUSE) && self.has_begun_writing_scripts() {
            let (token, turns) = (connection.token, &mut connection.turns);
            turns.awaited.push(token.thread());
            self.shared.workers.post(token.thread(), Mail::PauseRequest(token, turns.requested));
            let timeout = Some(TURNS_TIME_MAX);
            connection.session.blocked = Some(Blocked { timeout, reason: BlockReason::Barrier });
        }
    }

    /// Requests the end of the other workers' turns, and makes the connection wait for the answers.
    /// `false`: there is no other worker.
    fn request_barrier(&mut self, connection: &mut Connection, reason: BlockReason) -> bool {
        let turns = &mut connection.turns;
        turns.requested += 1;
        turns.awaited.clear();
        let is_pause = reason == BlockReason::Barrier && self.flags.is_set(GlobalFlags::ANY_PAUSE);
        let request = if is_pause { Mail::PauseRequest } else { Mail::BarrierRequest };
        for thread in self.shared.workers.occupied().filter(|thread| *thread != connection.token.thread()) {
            turns.awaited.push(thread);
            self.shared.workers.post(thread, request(connection.token, turns.requested));
        }
        if turns.awaited.is_empty() {
            return false;
        }
        connection.session.blocked = Some(Blocked { timeout: Some(TURNS_TIME_MAX), reason });
        true
    }

    pub(super) fn queue(
        &mut self,
        connection: &mut Connection,
        found: ResolvedCommand,
        keys: &[PlannedKey],
        args: Args<'_>,
    ) -> Step {
        if found.command.flags.contains(Flags::NO_MULTI) {
            let name = super::refusals::full_name(found);
            let error = CommandError::owned(format!("ERR Command '{name}' not allowed inside a transaction"));
            self.reject(connection, found, &error);
            return Step::Done;
        }
        connection.session.last_command = Some(found.id);
        // A transaction that can no longer run needs no memory.
        let is_doomed = connection.session.is_doomed();
        if let Some(queue) = connection.session.multi.as_mut().filter(|_| !is_doomed) {
            queue.push(found, args, keys);
            if NUMBERED[usize::from(found.id.0)].0 == "select"
                && let Some(db) = args.get(1).and_then(parse_i64_strict)
                && let Ok(db) = u16::try_from(db)
            {
                queue.select(DbIndex(db));
            }
        }
        let mark = connection.out.len();
        ReplyBuffer::new(&mut connection.out, connection.session.protocol).simple("QUEUED");
        self.settle_reply_flags(connection, mark);
        Step::Done
    }

    /// Shows a request that has run to monitors, if they were not shown it before.
    #[inline]
    pub(super) fn show_afterwards(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) {
        if is_shown_afterwards(found.command)
            && self.flags.is_set(GlobalFlags::MONITORED)
            && !found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN)
        {
            self.feed_monitors(connection, found, args);
        }
    }

    fn feed_monitors(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) {
        let line: Arc<[u8]> =
            crate::monitoring::monitor::line(&connection.session, found, args, os::clock::unix_micros())
                .into();
        self.shared.hub.post_to_monitors(self.thread, &line);
    }

    /// Suppresses or keeps a reply by `CLIENT REPLY`, for a request that was answered without being run.
    pub(super) fn settle_reply_flags(&mut self, connection: &mut Connection, mark: usize) {
        if !connection.session.flags.is_empty() {
            let _ = self.finish_special(connection, mark);
        }
    }

    /// Deletes keys that a read found expired, if their slots are free now; the expiry cycle deletes the
    /// others. Nothing is deleted in import mode, during a load, or while writes are paused.
    #[cold]
    pub(super) fn delete_expired(&mut self) {
        self.latching.deferred.saw_expired.set(false);
        if self.settings.config.import_mode
            || self.flags.is_set(GlobalFlags::ANY_PAUSE | GlobalFlags::LOADING)
        {
            self.latching.discard_found_expired();
            self.latching.report_late_misses();
            return;
        }
        let started = self.latency_start();
        self.latching.delete_found_expired();
        self.latching.report_late_misses();
        if !self.latching.deferred.garbage.is_empty() {
            self.free_garbage();
        }
        self.latency_end(started, "expire-del");
    }

    /// The time, if the latency monitor is on.
    pub fn latency_start(&self) -> Option<Ticks> {
        (self.settings.config.latency_monitor_threshold > 0).then(Ticks::now)
    }

    /// Reports an event that began at `started` to the latency monitor, if it took long.
    pub fn latency_end(&self, started: Option<Ticks>, event: &'static str) {
        if let Some(started) = started {
            let ms = Ticks::now().ns_since(started) / 1_000_000;
            if ms >= self.settings.config.latency_monitor_threshold {
                self.shared.monitoring.latency.add(event, (self.latching.mode.now.0 / 1000) as u32, ms);
            }
        }
    }

    /// Writes a slow or large command to the command logs.
    #[cold]
    pub(super) fn log_command(
        &self,
        connection: &Connection,
        found: ResolvedCommand,
        args: Args<'_>,
        cost: Cost,
    ) {
        self.shared.monitoring.log_command(&self.settings.config, &connection.session, found, args, cost);
    }

    /// Rare work after a command: suppress its reply, close, wait.
    #[cold]
    pub(super) fn finish_special(&mut self, connection: &mut Connection, mark: usize) -> Step {
        if connection.session.flags.intersects(SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP) {
            connection.cut_output(mark);
        }
        let session = &mut connection.session;
        session.flags.remove(SessionFlags::REPLY_SKIP);
        if session.flags.contains(SessionFlags::REPLY_SKIP_NEXT) {
            session.flags.remove(SessionFlags::REPLY_SKIP_NEXT);
            session.flags.insert(SessionFlags::REPLY_SKIP);
        }
        if session.flags.intersects(SessionFlags::SUBSCRIBED | SessionFlags::TRACKING) {
            self.subscriptions.deliver_after_command(session, &mut connection.out);
        }
        if session.blocked.is_some() || session.flags.contains(SessionFlags::CLOSE_AFTER_REPLY) {
            return Step::Stop;
        }
        Step::Done
    }
}

/// Whether a RESP2 connection with subscriptions may run the command.
fn is_for_subscribers(found: ResolvedCommand) -> bool {
    // Compares the full name: `LATENCY RESET` and the like are not `RESET`.
    found.command.flags.contains(Flags::PUSH_REPLY)
        || matches!(NUMBERED[found.id.0 as usize].0.as_str(), "ping" | "quit" | "reset")
}

/// Ends the effect of `CLIENT CACHING`, which holds for one command or a whole transaction.
pub(super) fn end_caching(connection: &mut Connection, found: ResolvedCommand) {
    let in_multi = connection.session.in_multi();
    if let Some(tracking) = connection.session.tracking.as_mut().filter(|tracking| tracking.caching)
        && !in_multi
        && !super::refusals::full_name(found).starts_with("client|")
    {
        tracking.caching = false;
    }
}

/// Whether `MONITOR` shows a command after it has run: `EXEC` follows the commands that it runs, and what changes the
/// session is shown with the database that it has selected.
fn is_shown_afterwards(command: &Command) -> bool {
    command.access == Access::Queued || command.flags.contains(Flags::SESSION)
}

/// Whether a command, or one of the transaction that it runs, reads or changes data or publishes.
fn accesses_data(connection: &Connection, command: &Command) -> bool {
    let accesses =
        |command: &Command| command.flags.intersects(Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE);
    let queue = connection.session.multi.as_ref().filter(|_| command.access == Access::Queued);
    accesses(command) || queue.is_some_and(|queue| queue.iter().any(|queued| accesses(queued.found.command)))
}

/// Whether a command may send messages or invalidations to other workers.
fn may_publish(command: &Command) -> bool {
    command.access == Access::Queued || command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
}

/// Whether a command, or one of the transaction that it runs, may need more memory.
pub(super) fn needs_memory(command: &Command, connection: &Connection) -> bool {
    let denied = |command: &Command| command.flags.contains(Flags::DENYOOM);
    let queue = connection.session.multi.as_ref().filter(|_| command.access == Access::Queued);
    denied(command) || queue.is_some_and(|queue| queue.iter().any(|queued| denied(queued.found.command)))
}

//! The handling of requests in special modes: pauses, transactions being queued, monitors, suppressed
//! replies, expired keys to delete, slow and large commands to log.

use std::time::Duration;

use base::DbIndex;
use base::limits::SLOT_COUNT;
use commands::command::{Access, Command, Flags};
use commands::context::PlannedKey;
use commands::error::CommandError;
use commands::session::{BlockReason, Blocked, SessionFlags};
use commands::subscriptions::SubscriptionKind;
use commands::table::ResolvedCommand;
use os::clock::{Ticks, Uptime};
use sync::write_log::Room;
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::{Executor, Step};
use crate::connection::Connection;
use crate::faults;
use crate::mail::{BarrierRequest, Mail};
use crate::monitoring::command_log::Cost;
use crate::request::admission::{self, Candidate, Hindrance, Origin, queued_by};
use crate::shared::modes::GlobalFlags;

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
        lacks_memory: bool,
    ) -> Option<Step> {
        if connection.session.tracking.is_some() {
            self.limit_tracking(keys.len());
            // Events about keys evicted for this request precede its reply.
            self.subscriptions.deliver_after_command(&mut connection.session, &mut connection.out);
        }
        let step = self.check_modes(connection, (found, keys, args), Origin::Client, lacks_memory);
        if step.is_some() {
            return step;
        }
        if self.flags.is_set(GlobalFlags::MONITORED)
            && connection.session.unfinished.is_none()
            && !is_shown_afterwards(found.command)
            && !found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN)
        {
            self.shared.hub.show_to_monitors(self.thread, &connection.session, found, args);
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
            keys => keys.iter().any(|key| snapshot.needs(key.slot())),
        }
    }

    /// Whether the write log has room for a request of about this size. True while the log is off.
    #[inline]
    pub(super) fn log_has_room(&self, size: usize) -> bool {
        self.shared.keyspace.log.has_room(size)
    }

    /// Makes a request wait for room in the write log. `None`: there is room now, or the file can't be written. Then the log
    /// gets no room, and the checks that follow refuse what writes.
    #[cold]
    pub(super) fn wait_for_log(&mut self, connection: &mut Connection, size: usize) -> Option<Step> {
        if self.flags.is_set(GlobalFlags::APPEND_FAILED) {
            return None;
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
                None
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

    /// Applies what the modes of the server and the connection require ([`admission`]). `None`: the request may go on.
    /// Otherwise it keeps no latches.
    #[cold]
    pub(super) fn check_modes(
        &mut self,
        connection: &mut Connection,
        (found, keys, args): (ResolvedCommand, &[PlannedKey], Args<'_>),
        origin: Origin,
        lacks_memory: bool,
    ) -> Option<Step> {
        let modes = self.flags.load();
        let candidate = Candidate {
            origin,
            found,
            session: &connection.session,
            modes,
            declared_flags: &|| self.declared_flags(connection, found, args),
            own_flags: &|| own_flags(connection, found),
            lacks_memory,
            is_pause_in_force: modes & GlobalFlags::ANY_PAUSE != 0
                && Uptime::now() < self.shared.modes.pause.until(),
            outruns_snapshot: modes & GlobalFlags::SNAPSHOT_FULL != 0 && self.changes_unsaved(found, keys),
            append_failure: &|| self.shared.persistence.append_only.failure(),
            is_redis: self.settings.config.extended_redis_compatibility,
        };
        let hindrance = admission::hindrance(&candidate)?;
        self.latching.release();
        Some(match hindrance {
            Hindrance::Refused(error) => {
                self.reject(connection, found, &error);
                Step::Done
            }
            Hindrance::Snapshot => self.wait_for_congestion(connection),
            Hindrance::Pause => {
                connection.attempt.for_writing = false;
                self.wait_for_end_of_pause(connection)
            }
            Hindrance::Queue => self.queue(connection, found, keys, args),
        })
    }

    /// Whether a request, or one of the transaction that it runs, may change data. Some reads do, as `PFCOUNT`.
    pub(super) fn may_change(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) -> bool {
        self.declared_flags(connection, found, args).intersects(Flags::WRITE | Flags::MAY_REPLICATE)
    }

    /// The flags of a request and of all requests of the transaction that it runs, as the scripts among them declare.
    fn declared_flags(&self, connection: &Connection, found: ResolvedCommand, args: Args<'_>) -> Flags {
        let queued =
            queued_by(&connection.session, found).map(|queued| self.flags_of(queued.found, queued.args));
        queued.fold(self.flags_of(found, args), Flags::union)
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
        if faults::omits_barrier(self.flags.is_set(GlobalFlags::ANY_PAUSE), connection.session.flags) {
            return;
        }
        self.request_barrier(connection, BlockReason::Barrier);
        // The scripts that have begun on this worker end first, too.
        if self.flags.is_set(GlobalFlags::ANY_PAUSE) && self.has_begun_writing_scripts() {
            let (token, turns) = (connection.token, &mut connection.turns);
            turns.awaited.push(token.thread());
            let request = BarrierRequest { connection: token, number: turns.requested };
            self.shared.workers.post(token.thread(), Mail::PauseRequest(request));
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
        let mail = if is_pause { Mail::PauseRequest } else { Mail::BarrierRequest };
        let request = BarrierRequest { connection: connection.token, number: turns.requested };
        for thread in self.shared.workers.occupied().filter(|thread| *thread != connection.token.thread()) {
            turns.awaited.push(thread);
            self.shared.workers.post(thread, mail(request));
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
            if found.command.flags.contains(Flags::SELECTS_DB)
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
            self.shared.hub.show_to_monitors(self.thread, &connection.session, found, args);
        }
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

/// Whether a command may send messages or invalidations to other workers.
fn may_publish(command: &Command) -> bool {
    command.access == Access::Queued || command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
}

/// The flags of a command and of all commands of the transaction that it runs.
pub(super) fn own_flags(connection: &Connection, found: ResolvedCommand) -> Flags {
    let queued = queued_by(&connection.session, found).map(|queued| queued.found.command.flags);
    queued.fold(found.command.flags, Flags::union)
}

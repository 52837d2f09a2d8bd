//! The handling of requests in special modes: pauses, transactions being queued, monitors, suppressed
//! replies, expired keys to delete, slow and large commands to log.

use std::time::Duration;

use base::DbIndex;
use base::limits::SLOT_COUNT;
use commands::command::{Access, Command, Flags};
use commands::context::PlannedKey;
use commands::error::CommandError;
use commands::session::{BlockReason, SessionFlags};
use commands::table::ResolvedCommand;
use os::clock::{Ticks, Uptime};
use sync::write_log::Room;
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::{Executor, Step};
use crate::connection::client::Client;
use crate::faults;
use crate::mail::{BarrierRequest, Mail};
use crate::monitoring::command_log::Cost;
use crate::request::admission::{self, Candidate, Hindrance, Origin, queued_by};
use crate::shared::modes::GlobalFlags;
use crate::shared::pause::Pause;

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
        client: &mut Client,
        found: ResolvedCommand,
        keys: &[PlannedKey],
        args: Args<'_>,
        lacks_memory: bool,
    ) -> Option<Step> {
        if client.session.tracking.is_some() {
            self.limit_tracking(keys.len());
            // Events about keys evicted for this request precede its reply.
            self.subscriptions.deliver_after_command(&mut client.session, &mut client.replies.bytes);
        }
        let step = self.check_modes(client, (found, keys, args), Origin::Client, lacks_memory);
        if step.is_some() {
            return step;
        }
        if self.flags.is_set(GlobalFlags::MONITORED)
            && client.session.unfinished.is_none()
            && !is_shown_afterwards(found.command)
            && !found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN)
        {
            self.shared.hub.show_to_monitors(self.thread, &client.session, found, args);
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
    pub(super) fn must_await_delivery(&self, client: &mut Client, command: &Command, args: Args<'_>) -> bool {
        let hub = self.shared.hub;
        if !may_publish(command) && !self.flags.is_set(GlobalFlags::MONITORED) {
            return false;
        }
        if client.congested_target.is_some_and(|thread| hub.is_thread_congested(thread)) {
            return true;
        }
        client.congested_target = None;
        match command.published_kind() {
            Some(kind) => hub.is_audience_congested(kind, args.at(1)),
            None => hub.wants_every_change() && hub.are_prefixes_congested(),
        }
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
    pub(super) fn wait_for_log(&mut self, client: &mut Client, size: usize) -> Option<Step> {
        if self.flags.is_set(GlobalFlags::APPEND_FAILED) {
            return None;
        }
        // Readers make room: one that sleeps is woken, and the feed is moved here.
        self.shared.replication.feed.request_move();
        self.latching.notify_log();
        match self.shared.keyspace.log.wait_for_room(size, client.token.0) {
            Room::Now => None,
            // The failure may have begun since, and have woken the writers that waited then.
            Room::Waiting
                if self.flags.is_set(GlobalFlags::APPEND_FAILED)
                    && self.shared.keyspace.log.cancel_wait(client.token.0) =>
            {
                None
            }
            Room::Waiting => {
                client.block(BlockReason::Log, None);
                Some(Step::NotExecuted)
            }
        }
    }

    /// Applies what the modes of the server and the connection require ([`admission`]). `None`: the request may go on.
    /// Otherwise it keeps no latches.
    #[cold]
    pub(super) fn check_modes(
        &mut self,
        client: &mut Client,
        (found, keys, args): (ResolvedCommand, &[PlannedKey], Args<'_>),
        origin: Origin,
        lacks_memory: bool,
    ) -> Option<Step> {
        let modes = self.modes_of(client);
        let candidate = Candidate {
            origin,
            found,
            session: &client.session,
            modes,
            declared_flags: &|| self.scripts.declared_flags(&client.session, found, args),
            own_flags: &|| own_flags(client, found),
            lacks_memory,
            is_pause_in_force: modes & GlobalFlags::ANY_PAUSE != 0
                && Uptime::now() < self.shared.modes.pause.until(),
            outruns_snapshot: modes & GlobalFlags::SNAPSHOT_FULL != 0 && self.changes_unsaved(found, keys),
            redirection: &|| self.shared.replication.role.redirection(),
            append_failure: &|| self.shared.persistence.append_only.failure(),
            is_redis: self.settings.config.extended_redis_compatibility,
        };
        let hindrance = admission::hindrance(&candidate)?;
        self.latching.release();
        Some(match hindrance {
            Hindrance::Refused(error) => {
                self.reject(client, found, &error);
                Step::Done
            }
            Hindrance::Snapshot => wait_for_congestion(client),
            Hindrance::Pause => {
                client.attempt.for_writing = false;
                wait_for_end_of_pause(client, &self.shared.modes.pause)
            }
            Hindrance::Queue => self.queue(client, found, keys, args),
        })
    }

    /// Counts the changes and the time of a part of a command.
    #[cold]
    pub(super) fn finish_part(&mut self, client: &mut Client, started: &mut Ticks) -> Step {
        let now = Ticks::now();
        client.attempt.parts_ns += now.ns_since(*started);
        *started = now;
        client.session.ran.count -= 1;
        self.account_changes(client);
        match client.session.blocked {
            Some(_) => Step::NotExecuted,
            None => Step::Unfinished,
        }
    }

    /// Whether a command that reads all connections must wait for the other workers' turns. Requests
    /// their end, or finds that the command has waited. The wait is bounded, as a worker may be busy.
    pub(super) fn must_await_turns(&mut self, client: &mut Client) -> bool {
        if std::mem::take(&mut client.turns.are_over) {
            return false;
        }
        self.request_barrier(client, BlockReason::Turns)
    }

    /// Holds the reply of a command that applies to all workers until each has ended the turn in which it may have missed the
    /// command, and after a pause the scripts that had begun there, however long that takes.
    #[cold]
    pub(super) fn begin_barrier(&mut self, client: &mut Client) {
        // The flush after `CONFIG SET appendfsync always` already follows it.
        self.follow_config();
        if faults::omits_barrier(self.flags.is_set(GlobalFlags::ANY_PAUSE), client.session.flags) {
            return;
        }
        self.request_barrier(client, BlockReason::Barrier);
        // The scripts that have begun on this worker end first, too, and so does a stream of a former primary.
        let awaits_scripts = self.flags.is_set(GlobalFlags::ANY_PAUSE) && self.has_begun_writing_scripts();
        if awaits_scripts || self.shared.replication.role.lock().stream_count > 0 {
            let (token, turns) = (client.token, &mut client.turns);
            turns.awaited.push(token.thread());
            let request = BarrierRequest { connection: token, number: turns.requested };
            let mail = if awaits_scripts { Mail::PauseRequest } else { Mail::BarrierRequest };
            self.shared.workers.post(token.thread(), mail(request));
            client.block(BlockReason::Barrier, Some(TURNS_TIME_MAX));
        }
    }

    /// Requests the end of the other workers' turns, and makes the connection wait for the answers.
    /// `false`: there is no other worker.
    fn request_barrier(&mut self, client: &mut Client, reason: BlockReason) -> bool {
        let turns = &mut client.turns;
        turns.requested += 1;
        turns.awaited.clear();
        let is_pause = reason == BlockReason::Barrier && self.flags.is_set(GlobalFlags::ANY_PAUSE);
        let mail = if is_pause { Mail::PauseRequest } else { Mail::BarrierRequest };
        let request = BarrierRequest { connection: client.token, number: turns.requested };
        for thread in self.shared.workers.occupied().filter(|thread| *thread != client.token.thread()) {
            turns.awaited.push(thread);
            self.shared.workers.post(thread, mail(request));
        }
        if turns.awaited.is_empty() {
            return false;
        }
        client.block(reason, Some(TURNS_TIME_MAX));
        true
    }

    pub(super) fn queue(
        &mut self,
        client: &mut Client,
        found: ResolvedCommand,
        keys: &[PlannedKey],
        args: Args<'_>,
    ) -> Step {
        if found.command.flags.contains(Flags::NO_MULTI) {
            let name = super::refusals::full_name(found);
            let error = CommandError::owned(format!("ERR Command '{name}' not allowed inside a transaction"));
            self.reject(client, found, &error);
            return Step::Done;
        }
        client.session.ran.last = Some(found.id);
        // A transaction that can no longer run needs no memory.
        let is_doomed = client.session.is_doomed();
        if let Some(queue) = client.session.multi.as_mut().filter(|_| !is_doomed) {
            queue.push(found, args, keys);
            if found.command.flags.contains(Flags::SELECTS_DB)
                && let Some(db) = args.get(1).and_then(parse_i64_strict)
                && let Ok(db) = u16::try_from(db)
            {
                queue.select(DbIndex(db));
            }
        }
        let mark = client.replies.bytes.len();
        ReplyBuffer::new(&mut client.replies.bytes, client.session.protocol).simple("QUEUED");
        self.settle_reply_flags(client, mark);
        Step::Done
    }

    /// Shows a request that has run to monitors, if they were not shown it before.
    #[inline]
    pub(super) fn show_afterwards(&self, client: &Client, found: ResolvedCommand, args: Args<'_>) {
        if is_shown_afterwards(found.command)
            && self.flags.is_set(GlobalFlags::MONITORED)
            && !found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN)
        {
            self.shared.hub.show_to_monitors(self.thread, &client.session, found, args);
        }
    }

    /// Suppresses or keeps a reply by `CLIENT REPLY`, for a request that was answered without being run.
    pub(super) fn settle_reply_flags(&mut self, client: &mut Client, mark: usize) {
        if !client.session.flags.is_empty() {
            let _ = self.finish_special(client, mark);
        }
    }

    /// Deletes keys that a read found expired, if their slots are free now; the expiry cycle deletes the
    /// others. Nothing is deleted in import mode, during a load, or while writes are paused.
    #[cold]
    pub(super) fn delete_expired(&mut self) {
        self.latching.deferred.saw_expired.set(false);
        if self.settings.config.import_mode
            || self.flags.is_set(GlobalFlags::ANY_PAUSE | GlobalFlags::ANY_LOADING | GlobalFlags::REPLICA)
        {
            self.latching.discard_found_expired();
            self.latching.report_late_misses();
            return;
        }
        self.follow_promotion();
        let started = self.settings.latency_start();
        self.latching.delete_found_expired();
        self.latching.report_late_misses();
        if !self.latching.deferred.garbage.is_empty() {
            self.free_garbage();
        }
        self.settings.latency_end(&self.shared.monitoring, started, "expire-del");
    }

    /// Logs a command whose cost reaches a threshold.
    #[inline(always)]
    pub(super) fn log_if_notable(&self, client: &Client, found: ResolvedCommand, args: Args<'_>, cost: Cost) {
        if self.settings.thresholds.are_exceeded(cost) {
            self.log_command(client, found, args, cost);
        }
    }

    /// Writes a slow or large command to the command logs.
    #[cold]
    pub(super) fn log_command(&self, client: &Client, found: ResolvedCommand, args: Args<'_>, cost: Cost) {
        self.shared.monitoring.log_command(&self.settings.config, &client.session, found, args, cost);
    }

    /// Rare work after a command: suppress its reply, close, wait.
    #[cold]
    pub(super) fn finish_special(&mut self, client: &mut Client, mark: usize) -> Step {
        if client.session.flags.intersects(SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP) {
            client.replies.truncate(mark);
        }
        let session = &mut client.session;
        session.flags.remove(SessionFlags::REPLY_SKIP);
        if session.flags.contains(SessionFlags::REPLY_SKIP_NEXT) {
            session.flags.remove(SessionFlags::REPLY_SKIP_NEXT);
            session.flags.insert(SessionFlags::REPLY_SKIP);
        }
        if session.flags.intersects(SessionFlags::SUBSCRIBED | SessionFlags::TRACKING) {
            self.subscriptions.deliver_after_command(session, &mut client.replies.bytes);
        }
        if session.flags.contains(SessionFlags::REPLICA) {
            self.check_replica(client, mark);
        }
        let session = &client.session;
        if session.blocked.is_some() || session.flags.contains(SessionFlags::CLOSE_AFTER_REPLY) {
            return Step::Stop;
        }
        Step::Done
    }
}

/// Ends the effect of `CLIENT CACHING`, which holds for one command or a whole transaction.
pub(super) fn end_caching(client: &mut Client, found: ResolvedCommand) {
    let in_multi = client.session.in_multi();
    if let Some(tracking) = client.session.tracking.as_mut().filter(|tracking| tracking.caching)
        && !in_multi
        && !found.command.flags.contains(Flags::KEEPS_CACHING)
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

/// Makes the request wait shortly, because a worker that it would send to is congested.
#[cold]
pub(super) fn wait_for_congestion(client: &mut Client) -> Step {
    client.block(BlockReason::Congestion, Some(CONGESTION_WAIT));
    Step::NotExecuted
}

fn wait_for_end_of_pause(client: &mut Client, pause: &Pause) -> Step {
    let left_ms = pause.until().ms_since(Uptime::now());
    client.block(BlockReason::Pause, Some(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))));
    Step::NotExecuted
}

/// The flags of a command and of all commands of the transaction that it runs.
pub(super) fn own_flags(client: &Client, found: ResolvedCommand) -> Flags {
    let queued = queued_by(&client.session, found).map(|queued| queued.found.command.flags);
    queued.fold(found.command.flags, Flags::union)
}

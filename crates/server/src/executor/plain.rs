//! Runs of plain requests: simple commands on keys, from a connection without special modes, on a server
//! without special modes. The steps are those of every request (latch, run, release, report), inlined.
//! Their common part is done once for each run of one command: one context, one test of the flags, one
//! reading of the clock. A latch is kept for the next request on the same slot, so that a hot key is not
//! latched repeatedly.

use commands::command::{Access, Flags};
use commands::host::Host;
use commands::run::RunFor;
use commands::table::CommandId;
use keyspace::PRELOADED_KEY_COUNT_MAX;
use os::clock::Ticks;
use sync::Mode;
use sync::simulation::{self, Gap};

use super::ahead::Ahead;
use super::handler::{context, run_handler};
use super::latching::latch_keys;
use super::link_errors::note_failure_of_primary;
use super::plan::{Planned, RequestPlace};
use super::serving::Serving;
use super::{CurrentRequest, Executor};
use crate::connection::client::Client;
use crate::monitoring::command_log::Cost;
use crate::monitoring::statistics::WorkerStatistics;
use crate::shared::modes::GlobalFlags;

/// Above this duration a run may contain a slow command: then each command must be timed by itself.
const TIMED_TOGETHER_NS_MAX: u64 = 100_000;

/// The room that the write log must have for a run of plain requests, in bytes: more than the requests of one batch
/// usually take. The log exceeds its size by larger ones.
const PLAIN_LOG_SIZE: usize = 64 << 10;

/// Consecutive executions of one command.
struct PlainRun {
    /// `None`: none yet.
    id: Option<CommandId>,
    /// The index of the first request.
    first: usize,
}

impl Executor {
    /// Whether the short form applies to plain requests of this connection now.
    #[inline]
    pub(super) fn is_plain(&self, client: &Client) -> bool {
        let session = &client.session;
        !self.is_unauthenticated(client)
            && session.login.users_version >= self.settings.users.version()
            && session.flags.is_empty()
            && session.multi.is_none()
            && self.settings.thresholds.ns > TIMED_TOGETHER_NS_MAX
            && self.modes_of(client) & !(GlobalFlags::REPLICA | GlobalFlags::READ_ONLY) == 0
            // Nor is the primary exempt here: `forward` decides what its changes lead to.
            && (client.forwarding.is_none()
                || !self.flags.is_set(GlobalFlags::UNSAVED | GlobalFlags::APPEND_FAILED))
            && !(session.options.follows_redirects && self.flags.is_set(GlobalFlags::REPLICA))
            && !(self.shared.hub.is_congested()
                && (client.congested_target.is_some() || self.shared.hub.wants_every_change()))
            && self.latching.holds_nothing()
            && self.log_has_room(PLAIN_LOG_SIZE)
    }

    /// Runs the plain requests from `place` on. Returns the first that is not plain, or that has to wait for a latch.
    #[inline(never)]
    pub(super) fn run_plain(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        place: RequestPlace,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> RequestPlace {
        let mut count = 0;
        let mut notable_sizes = (0, 0);
        let mut run = PlainRun { id: None, first: 0 };
        let protocol = client.session.protocol;
        self.latching.mode.touch = true;
        let refuses_writes = self.modes_of(client) & GlobalFlags::READ_ONLY != 0;
        simulation::pass(Gap::Admitted);
        self.follow_promotion();
        let (out, parts) = (&mut client.replies.bytes, &mut client.replies.parts);
        let Some(plan) = planned.plans.get(place.plan).filter(|plan| plan.is_plain) else { return place };
        let Some(found) = plan.found() else { return place };
        let restricted = Some(&client.session.login.user).filter(|user| user.is_restricted()).cloned();
        let db_count = self.shared.keyspace.db_count();
        let (latches, data) = self.latching.split();
        let args = planned.args(plan, place.nth, bytes);
        let current = CurrentRequest { found, args, keys: &[], size: 0, raw: &[] };
        let mut forwarding = client.forwarding.as_deref_mut();
        if forwarding.is_some() {
            self.shared.replication.role.select(client.session.db);
        }
        let (data, session) = ((data, &mut self.effects), &mut client.session);
        let mut ctx = context(data, session, &self.settings.config, host, self.shared, current);
        let mut first_nth = place.nth;
        let is_limited = self.settings.config.maxmemory > 0;
        'plans: for plan in &planned.plans[place.plan..] {
            let Some(command) = plan.command.filter(|_| plan.is_plain) else { break };
            if !self.budget.has_room && command.flags.contains(Flags::DENYOOM) {
                break;
            }
            if refuses_writes && command.access != Access::Read {
                break;
            }
            (ctx.command, ctx.id) = (command, plan.id);
            let mode = if command.access == Access::Read { Mode::Read } else { Mode::Write };
            let request_size = plan.requests.size();
            // Several keys in two halves: all at once would exceed the processor's outstanding loads.
            let half = plan.key_count.div_ceil(2);
            let mut first_key = planned.first_announced_of(plan, first_nth);
            for (nth, (args, keys)) in (first_nth..).zip(planned.requests_from(plan, first_nth, bytes)) {
                if let Some(user) = &restricted
                    && user.check(plan.id, args, ctx.session.db, db_count).is_err()
                {
                    break 'plans;
                }
                self.planner.pipeline.advance(ctx.data, first_key, half);
                if count % PRELOADED_KEY_COUNT_MAX == 0 {
                    latches.release(ctx.data);
                    let ahead = Ahead { planned, bytes, db: ctx.session.db };
                    ahead.preload(&self.shared.keyspace, planned.behind(place, count));
                }
                let latched = if let [key] = keys {
                    // Lets the compiler assume that the length is 1.
                    self.planner.pipeline.apply_hints(std::slice::from_ref(key), first_key);
                    latches.latch_next(ctx.data, key.slot(), mode)
                } else {
                    latches.release(ctx.data);
                    let latched = latch_keys(latches, ctx.data, keys, mode, &mut self.slots);
                    let rest = first_key + u64::from(half);
                    self.planner.pipeline.advance(ctx.data, rest, plan.key_count - half);
                    self.planner.pipeline.apply_hints(keys, first_key);
                    latched
                };
                if latched.is_err() {
                    break 'plans;
                }
                first_key += u64::from(plan.key_count);
                if run.id != Some(plan.id) {
                    run.end(self.statistics, count, started);
                    self.time_read.refresh(&mut ctx.data.mode, &self.settings.config, *started);
                    run.id = Some(plan.id);
                    self.statistics.current.command.set(u64::from(plan.id.0) + 1);
                }
                count += 1;
                let mark = out.len();
                ctx.planned = keys;
                ctx.args = args;
                let failed = run_handler(
                    &mut ctx,
                    (&mut *out, protocol),
                    RunFor::Request,
                    self.shared,
                    self.statistics,
                );
                if failed && forwarding.is_some() {
                    note_failure_of_primary(self.shared, &self.settings.config, Some(plan.id), &out[mark..]);
                }
                if ctx.data.has_ready() {
                    let mut serving = Serving {
                        latches: &mut *latches,
                        data: &mut *ctx.data,
                        effects: &mut *ctx.report,
                        config: &self.settings.config,
                        host,
                        shared: self.shared,
                        statistics: self.statistics,
                        serve_context: &mut self.serve_context,
                    };
                    serving.serve_ready();
                }
                if let Some(forwarding) = &mut forwarding
                    && mode == Mode::Write
                {
                    let end = plan.requests.range_of(nth).end;
                    forwarding.log(&mut ctx.data.effects, ctx.session.db, &bytes[forwarding.mark..end]);
                    forwarding.mark = end;
                }
                let mut reply_size = out.len() - mark;
                let new_parts = ctx.report.shared_replies.parts();
                let has_new_parts = !new_parts.is_empty();
                if has_new_parts {
                    reply_size += new_parts.size_since(mark);
                    parts.append(new_parts);
                }
                // A request used more memory than planned (`SETRANGE`, `APPEND`): the next ones check for room again.
                let has_outgrown = is_limited && self.budget.is_outgrown();
                if has_outgrown {
                    self.budget.revoke_grant();
                }
                if self.settings.thresholds.sizes_are_exceeded(reply_size, request_size) {
                    notable_sizes = (reply_size, request_size);
                    break 'plans;
                }
                // A key that a read found expired is deleted, and its event sent, before the next request.
                if out.len() > super::OUTPUT_YIELD_SIZE
                    || has_new_parts
                    || has_outgrown
                    || ctx.data.deferred.saw_expired.get()
                    || self.shared.hub.has_congested_target(self.thread)
                {
                    break 'plans;
                }
            }
            first_nth = 0;
        }
        latches.release(ctx.data);
        let Some(last_id) = run.id else { return place };
        let ns = run.end(self.statistics, count, started);
        self.time_read.refresh(&mut ctx.data.mode, &self.settings.config, *started);
        ctx.session.ran.last = Some(last_id);
        ctx.session.ran.count += count as u64;
        self.follow_release(client);
        let last = planned.behind(place, count - 1);
        let plan = &planned.plans[last.plan];
        let args = planned.args(plan, last.nth, bytes);
        if let Some(found) = plan.found() {
            let (reply_size, request_size) = notable_sizes;
            self.log_if_notable(client, found, args, Cost { ns, reply_size, request_size });
        }
        planned.behind(last, 1)
    }

    /// Follows the release of the latches of requests that have run: counts their changes, and removes what they have found
    /// to be over.
    #[inline(always)]
    pub(super) fn follow_release(&mut self, client: &mut Client) {
        self.account_changes(client);
        if self.latching.deferred.has_ended_watches() {
            self.latching.remove_ended_watches();
        }
        if self.latching.deferred.saw_expired.get() {
            self.delete_expired();
        }
    }

    /// Counts changes, frees the replaced values, and notes which worker is congested by the messages sent.
    #[inline(always)]
    pub(super) fn account_changes(&mut self, client: &mut Client) {
        if self.shared.hub.has_congested_target(self.thread) {
            client.congested_target = self.shared.hub.take_congested_target(self.thread);
        }
        self.count_changes();
    }

    /// Counts the changes since the last call, and frees what they discarded.
    #[inline]
    pub(super) fn count_changes(&mut self) {
        if self.effects.dirty > 0 {
            self.latching.counters.dirty.add(std::mem::take(&mut self.effects.dirty));
        }
        if !self.latching.deferred.garbage.is_empty() {
            self.free_garbage();
        }
    }

    /// Sends the values that the last commands discarded to a background thread.
    #[cold]
    pub fn free_garbage(&mut self) {
        let garbage = std::mem::take(&mut self.latching.deferred.garbage);
        self.shared.memory.background.free(garbage.len() as u64, Box::new(move || drop(garbage)));
    }
}

impl PlainRun {
    /// Counts the run, which ends before the request with index `end`; the next run begins. Returns how
    /// long one of its executions took, in nanoseconds.
    #[inline]
    fn end(&mut self, statistics: &WorkerStatistics, end: usize, started: &mut Ticks) -> u64 {
        let calls = (end - std::mem::replace(&mut self.first, end)) as u64;
        let Some(id) = self.id else { return 0 };
        let now = Ticks::now();
        let ns = now.ns_since(*started);
        *started = now;
        statistics.ran(id, calls, ns);
        ns / calls
    }
}

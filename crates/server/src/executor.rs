//! From input bytes to reply bytes: parses, plans, latches, runs, reports. One function for each step of
//! a request: [`Executor::process`], [`Planner::plan`], [`Executor::latch`], [`Executor::run`], [`Executor::finish`].
//!
//! Owns the memory that is reused from batch to batch. Touches one connection at a time, and the keyspace through its
//! latching. Never touches a socket. `plain.rs` has these steps inlined for a run of plain requests; refusals are in
//! `refusals.rs`, rare cases in `special_modes.rs`. Invariant: no latch is held between two requests, except by a
//! connection that waits for another latch, and between plain requests on one slot.

mod ahead;
mod eviction;
mod forwarding;
mod handler;
mod latching;
mod link_errors;
pub mod long_commands;
mod permissions;
mod plain;
mod plan;
mod planner;
mod prefetch;
mod refusals;
mod replay;
mod scripts;
mod serving;
mod settings;
mod special_modes;
mod time;
mod transaction;

pub use plan::Planned;
pub use replay::LogReplay;

use std::rc::Rc;

use base::Slot;
use commands::command::{Access, Flags};
use commands::context::{CommandReport, PlannedKey};
use commands::error::CommandError;
use commands::host::Host;
use commands::index::ResolvedCommand;
use commands::run::RunFor;
use commands::session::{Session, SessionFlags};
use keyspace::{Latching, Tries};
use os::clock::Ticks;
use sync::simulation::{self, Gap};
use wire::request::{Args, Parser, RequestLimits, Sender};

use self::plan::{PlanRefusal, RequestPlace};
use crate::connection::client::{Client, Logged};
use crate::logging;
use crate::monitoring::command_log::Cost;
use crate::monitoring::statistics::WorkerStatistics;
use crate::pubsub::LocalSubscriptions;
use crate::request::admission::Origin;
use crate::script_runs::WorkerScripts;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;
use eviction::{Eviction, MemoryBudget};
use handler::{context, run_handler};
use long_commands::LongCommands;
use planner::Planner;
use serving::{BeginWait, ServeContext};
pub use serving::{DeferredAim, DeferredServe, DeferredStep};
pub use settings::WorkerSettings;
pub use special_modes::TURNS_TIME_MAX;
use time::TimeRead;

/// Runs the requests of one thread's connections.
pub struct Executor {
    shared: &'static Shared,
    /// The modes of the server that apply to these requests.
    flags: &'static GlobalFlags,
    /// Whether the requests come from an append-only file, and were executed before.
    is_replay: bool,
    thread: usize,
    /// The statistics of this worker.
    pub statistics: &'static WorkerStatistics,
    subscriptions: Rc<LocalSubscriptions>,
    /// The scripts of this worker.
    pub scripts: Rc<WorkerScripts>,
    /// The data, as the running command may access it.
    pub latching: Latching<'static>,
    /// The settings that this worker uses.
    pub settings: WorkerSettings,
    /// What is known of the memory that requests may use.
    pub budget: MemoryBudget,
    planner: Planner,
    /// When the time at which commands run was read.
    time_read: TimeRead,
    /// When the requests of the current connection began to run.
    slice_began: Option<Ticks>,
    /// The slots of a request with several keys. Memory that is reused.
    slots: Vec<Slot>,
    effects: CommandReport,
    serve_context: ServeContext,
    /// The commands that are expected to take long.
    pub long_commands: LongCommands,
    /// The sessions of transactions whose scripts are paused and whose connections are closed.
    orphans: Vec<Session>,
}

/// A request in the executor.
#[derive(Clone, Copy)]
struct CurrentRequest<'a> {
    found: ResolvedCommand,
    args: Args<'a>,
    keys: &'a [PlannedKey],
    /// Its size on the wire, in bytes.
    size: usize,
    /// The bytes of the primary's stream that are to be forwarded with it; empty for other clients.
    raw: &'a [u8],
}

/// How processing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed {
    /// Every complete request is executed.
    Everything,
    /// The connection waits for a latch or is blocked.
    Waiting,
    /// The connection is to be closed once its output is sent.
    Closing,
    /// Requests remain, but other connections should have a turn, and output should be sent.
    Yielded,
}

/// Output after which a connection's replies are sent before more of its requests are run, in bytes.
const OUTPUT_YIELD_SIZE: usize = 1 << 20;

/// Longer input is not planned ahead, in bytes: it is long enough to overlap its own prefetches.
const PLANNED_AHEAD_SIZE_MAX: usize = 16 << 10;

/// Time after which a connection yields to the others, in nanoseconds: some thousand brief commands. One
/// command, or one batch of plain requests, may exceed it.
const SLICE_NS_MAX: u64 = 500_000;

/// The outcome of one request.
enum Step {
    Done,
    /// It waits, and is the first of the remaining requests.
    NotExecuted,
    /// Executed, but the requests after it must wait.
    Stop,
    /// Executed in part: it continues in the next turn, and is the first of the remaining requests.
    Unfinished,
    /// Must wait for its keys: run it again with the keys latched for writing, to add it to their queues.
    ForWriting,
    /// A script that must be run again, with the latches that the connection has noted.
    OtherLatches,
}

impl Executor {
    /// Returns an executor for the worker with this number.
    pub fn new(
        shared: &'static Shared,
        thread: usize,
        seed: u64,
        subscriptions: Rc<LocalSubscriptions>,
        scripts: Rc<WorkerScripts>,
    ) -> Self {
        let mut executor = Self {
            shared,
            flags: &shared.modes.flags,
            is_replay: false,
            thread,
            statistics: shared.monitoring.statistics.thread(thread),
            subscriptions,
            scripts,
            latching: Latching::new(&shared.keyspace, thread, seed),
            settings: WorkerSettings::new(shared, false),
            budget: MemoryBudget::default(),
            planner: Planner::new(shared),
            time_read: TimeRead::now(),
            slice_began: None,
            slots: Vec::new(),
            effects: CommandReport::default(),
            serve_context: ServeContext::new(),
            long_commands: LongCommands::default(),
            orphans: Vec::new(),
        };
        executor.effects.shared_replies.accept(true);
        executor.apply_config();
        executor
    }

    /// Eviction with what this worker has.
    #[inline]
    pub fn eviction(&mut self) -> Eviction<'_> {
        Eviction {
            budget: &mut self.budget,
            latching: &mut self.latching,
            settings: &self.settings,
            flags: self.flags,
            shared: self.shared,
        }
    }

    /// Executes the complete requests at the start of `bytes`, which may have been planned ahead. Returns
    /// the number of bytes processed, and how processing ended.
    pub fn process(
        &mut self,
        client: &mut Client,
        bytes: &[u8],
        planned: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Processed) {
        self.follow_config();
        self.subscriptions.set_current_client(client.token);
        self.latching.events.client = client.session.id;
        self.slice_began = None;
        self.begin_forwarding(client);
        let mark = client.replies.bytes.len();
        let ended = self.process_batches(client, bytes, planned, host);
        self.end_forwarding(client, mark);
        ended
    }

    /// Processes batches until the input is consumed, must wait, or has used up its time.
    fn process_batches(
        &mut self,
        client: &mut Client,
        bytes: &[u8],
        mut planned: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Processed) {
        let mut done = 0;
        loop {
            let (parsed, ended) = self.process_batch(client, &bytes[done..], planned.take(), host);
            done += parsed;
            client.session.reply_lsn = client.session.reply_lsn.max(self.latching.take_reply_lsn());
            client.session.write_lsn = client.session.write_lsn.max(self.latching.take_write_lsn());
            if let Some(line) = logging::take_last_line() {
                client.logged = Some(Logged { line, until: None });
            }
            if let Some(ended) = ended {
                return (done, ended);
            }
            if client.replies.size() > OUTPUT_YIELD_SIZE || self.is_slice_over(Ticks::now()) {
                return (done, Processed::Yielded);
            }
        }
    }

    /// Whether the current connection has used up its time.
    #[inline]
    fn is_slice_over(&self, now: Ticks) -> bool {
        self.slice_began.is_some_and(|began| now.ns_since(began) > SLICE_NS_MAX)
    }

    /// Processes one batch. Returns the bytes processed, and how processing ended, if it did.
    fn process_batch(
        &mut self,
        client: &mut Client,
        bytes: &[u8],
        planned: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Option<Processed>) {
        let limits = self.expect_requests(client);
        let planned = planned.filter(|planned| planned.limits == limits);
        let is_planned_ahead = planned.is_some();
        let planned = match planned {
            Some(mut planned) => {
                std::mem::swap(&mut client.parser, &mut planned.parser);
                planned
            }
            None => {
                self.planner.swap_pipelines();
                self.planner.plan(&mut client.parser, bytes, limits, client.session.db)
            }
        };
        // Nothing expires during a replay: the log has the deletions.
        self.latching.mode.sees_expired = self.is_replay
            || client.forwarding.is_some()
            || (self.settings.config.import_mode && client.session.options.is_import_source);
        self.statistics.current.client.set(client.session.id);
        let [began, mut ended] = [Ticks::now(); 2];
        let result = self.run_batch(client, &planned, bytes, &mut ended, host);
        if client.forwarding.is_some() {
            self.end_forwarded(client, bytes, result.0);
        }
        client.recent_time.add(began, ended);
        if !is_planned_ahead {
            self.planner.pipeline.clear();
            self.planner.swap_pipelines();
        }
        self.planner.recycle(planned);
        self.slots.clear();
        self.slots.shrink_to(plan::KEPT_COUNT_MAX);
        result
    }

    /// Plans input that is to be executed in this turn, if it is short: then [`Self::process`]
    /// continues with the plan. Other input may be executed first.
    #[must_use]
    pub fn plan_ahead(&mut self, client: &Client, bytes: &[u8]) -> Option<Box<Planned>> {
        if bytes.len() > PLANNED_AHEAD_SIZE_MAX {
            return None;
        }
        let limits = self.expect_requests(client);
        Some(self.planner.plan_ahead(bytes, limits, client.session.db))
    }

    /// To be called when all input planned in this turn is executed.
    pub fn end_plan_ahead(&mut self) {
        self.planner.pipeline.clear();
    }

    /// Lets the planner expect input of this client, whose limits it returns.
    fn expect_requests(&mut self, client: &Client) -> RequestLimits {
        let is_primary = client.forwarding.is_some();
        self.planner.expect_requests(self.is_replay || is_primary);
        let is_known = is_primary || !self.is_unauthenticated(client);
        let sender = if is_known { Sender::Client } else { Sender::Unauthenticated };
        let bulk_size_max = if is_primary { u64::MAX } else { self.settings.config.proto_max_bulk_len };
        RequestLimits { sender, bulk_size_max }
    }

    fn run_batch(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        started: &mut Ticks,
        host: &dyn Host,
    ) -> (usize, Option<Processed>) {
        let Planned { batch, plans, parsed, .. } = planned;
        self.refresh_time(*started);
        self.slice_began.get_or_insert(*started);
        let mut place = RequestPlace::default();
        loop {
            if let Some(plan) = plans.get(place.plan)
                && plan.is_plain
                && self.is_plain(client)
            {
                self.budget.has_room =
                    self.eviction().has_room_for(parsed.consumed - plan.requests.range_of(place.nth).start);
                place = self.run_plain(client, planned, bytes, place, started, host);
            }
            let Some(plan) = plans.get(place.plan) else { break };
            let range = plan.requests.range_of(place.nth);
            let is_enough = client.replies.size() > OUTPUT_YIELD_SIZE || self.is_slice_over(*started);
            if is_enough && place != RequestPlace::default() || self.leaves_before(client, plan) {
                client.parser = Parser::new();
                return (range.start, Some(Processed::Yielded));
            }
            if (plan.id == self.planner.multi_id || plan.id == self.planner.watch_id)
                && plan.command.is_some()
                && plan.refusal == PlanRefusal::None
                && self.is_plain(client)
                && client.forwarding.is_none()
                && let Some(behind) = self.run_transaction(client, planned, bytes, place, started, host)
            {
                place = behind;
                continue;
            }
            match self.execute(client, planned, bytes, place, started, host).or_stop(client) {
                Step::Done => self.follow_forwarded(client, bytes, range.end),
                Step::NotExecuted | Step::ForWriting | Step::OtherLatches => {
                    client.parser = Parser::new();
                    return (range.start, Some(Processed::Waiting));
                }
                Step::Unfinished => {
                    client.parser = Parser::new();
                    return (range.start, Some(Processed::Yielded));
                }
                Step::Stop => {
                    client.parser = Parser::new();
                    let closing = client.session.flags.contains(SessionFlags::CLOSE_AFTER_REPLY);
                    let ended = match (closing, client.session.blocked.is_some()) {
                        (true, _) => Some(Processed::Closing),
                        (_, true) => Some(Processed::Waiting),
                        _ => None,
                    };
                    return (range.end, ended);
                }
            }
            place = planned.behind(place, 1);
        }
        if let Some(error) = parsed.error {
            self.refuse_protocol(client, error, bytes);
            return (parsed.consumed, Some(Processed::Closing));
        }
        // Complete requests may remain after a full batch, and after one cut short for authentication.
        let more = !batch.is_empty() && parsed.consumed < bytes.len();
        (parsed.consumed, (!more).then_some(Processed::Everything))
    }

    /// Executes one planned request: refuses it, makes it wait, or runs it.
    fn execute(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        place: RequestPlace,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        let (plan, nth) = (&planned.plans[place.plan], place.nth);
        let args = planned.args(plan, nth, bytes);
        if self.follow_users(&mut client.session) {
            self.latching.release();
            return Step::Stop;
        }
        let Some(found) = plan.found().filter(|_| plan.refusal == PlanRefusal::None) else {
            return self.refuse(client, plan, args);
        };
        let (command, keys) = (found.command, planned.keys_of(plan, nth));
        if matches!(command.access, Access::Script { .. } | Access::Queued)
            && let Some(step) = self.resume_or_hold(client, (found, args, keys), started, host)
        {
            return step;
        }
        let first_key = planned.first_announced_of(plan, nth);
        self.planner.pipeline.advance(&self.latching, first_key, plan.key_count);
        self.planner.pipeline.apply_hints(keys, first_key);
        if self.is_unauthenticated(client) && !command.flags.contains(Flags::NO_AUTH) {
            self.reject(client, found, &CommandError::NO_AUTH);
            return Step::Done;
        }
        let is_restricted = client.session.login.user.is_restricted();
        if is_restricted && let Some(step) = self.deny(client, found, args) {
            return step;
        }
        self.latching.mode.touch = !client.session.flags.contains(SessionFlags::NO_TOUCH);
        // A request with held latches has passed these checks before, and has waited for a latch.
        if self.latching.holds_nothing() {
            if self.shared.hub.is_congested() && self.must_await_delivery(client, command, args) {
                return special_modes::wait_for_congestion(client);
            }
            let size = planned.request_size(plan);
            if !self.log_has_room(size)
                && self.scripts.may_change(&client.session, found, args)
                && let Some(step) = self.wait_for_log(client, size)
            {
                return step;
            }
            // Applies to every command, so that no client observes memory use above the limit.
            let mut lacks_memory = false;
            if self.settings.config.maxmemory > 0 {
                self.statistics.memory.current_reply.set(client.replies.passing_bytes());
                let needs_memory = special_modes::own_flags(client, found).contains(Flags::DENYOOM);
                let need = if needs_memory { eviction::need_of(plan.requests.size()) } else { 0 };
                let has_room = self.eviction().make_room(need);
                self.latching.mode.is_over_memory_limit = !has_room;
                lacks_memory = !has_room && needs_memory;
            }
            let session = &client.session;
            let special = self.modes_of(client) != 0 || !session.flags.is_empty() || session.multi.is_some();
            if (special || lacks_memory)
                && let Some(step) = self.check_special_modes(client, found, keys, args, lacks_memory)
            {
                return step;
            }
        } else if self.modes_of(client) != 0
            && let Some(step) = self.check_modes(client, (found, keys, args), Origin::Resumed, false)
        {
            return step;
        }
        self.follow_promotion();
        if command.flags.contains(Flags::BLOCKING) {
            client.session.reply_lsn = client.session.reply_lsn.max(self.latching.reply_lsn());
        }
        simulation::pass(Gap::Admitted);
        if command.access == Access::Connections && self.must_await_turns(client) {
            return Step::NotExecuted;
        }
        let end = plan.requests.range_of(nth).end;
        let raw = client.forwarding.as_ref().map_or(&[][..], |forwarding| &bytes[forwarding.mark..end]);
        let current = CurrentRequest { found, args, keys, size: planned.request_size(plan), raw };
        loop {
            if command.access != Access::None {
                // The handler denies access to keys that are not among the arguments.
                let reaches = !is_restricted || self.may_reach(client, found, args);
                let access =
                    if reaches { command.access.of_request(args) } else { command.access.of_own_keys() };
                self.latching.begin_latching(&mut client.attempt.tries);
                while let Err((busy, mode)) = self.latch((access, current), client) {
                    if let Some(step) = self.refuse_if_busy(client, found, busy) {
                        return step;
                    }
                    if !self.latching.wait_for(busy, mode, client.token.0, &mut client.attempt.tries) {
                        self.statistics.parked.add(1);
                        client.wait.park(self.latching.keep(), busy);
                        return Step::NotExecuted;
                    }
                }
            }
            let step = self.run(client, current, started, host);
            client.attempt.tries = Tries::default();
            client.attempt.for_writing = matches!(step, Step::ForWriting);
            if !matches!(step, Step::ForWriting | Step::OtherLatches) {
                return step;
            }
        }
    }

    /// Runs the handler under its latches, releases them, and reports.
    fn run(
        &mut self,
        client: &mut Client,
        current: CurrentRequest<'_>,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        let CurrentRequest { found, args, .. } = current;
        client.session.ran.last = Some(found.id);
        client.session.ran.count += 1;
        self.statistics.current.command.set(u64::from(found.id.0) + 1);
        let mark = client.replies.bytes.len();
        let protocol = client.session.protocol;
        let (data, session) = ((&mut *self.latching, &mut self.effects), &mut client.session);
        let mut ctx = context(data, session, &self.settings.config, host, self.shared, current);
        let failed = run_handler(
            &mut ctx,
            (&mut client.replies.bytes, protocol),
            RunFor::Request,
            self.shared,
            self.statistics,
        );
        if self.latching.has_ready() {
            self.serve_ready(host);
        }
        if std::mem::take(&mut self.effects.needs_barrier) {
            self.begin_barrier(client);
        }
        if client.session.blocked.is_some()
            && let BeginWait::NeedsWriting = self.begin_wait(client, current)
        {
            self.latching.release();
            client.session.blocked = None;
            return Step::ForWriting;
        }
        if failed && client.forwarding.is_some() {
            self.log_failure_of_primary(client, mark);
        }
        self.forward(client, &current);
        self.release_or_keep(client);
        if let Access::Script { .. } = found.command.access
            && self.must_run_script_again(client)
        {
            return Step::OtherLatches;
        }
        if client.session.unfinished.is_some() {
            if !failed {
                self.subscriptions.exchange_late(&mut client.late_messages);
                return self.finish_part(client, started);
            }
            client.session.unfinished = None;
        }
        client.replies.parts.append(self.effects.shared_replies.parts());
        if found.command.access == Access::Queued {
            self.subscriptions.deliver_after_transaction(&mut client.replies.bytes);
        }
        self.show_afterwards(client, found, args);
        self.finish(client, current, mark, started)
    }

    /// Counts the command, and logs it where its cost requires that.
    fn finish(
        &mut self,
        client: &mut Client,
        current: CurrentRequest<'_>,
        mark: usize,
        started: &mut Ticks,
    ) -> Step {
        let CurrentRequest { found, args, size: request_size, .. } = current;
        let now = Ticks::now();
        let ns = std::mem::take(&mut client.attempt.parts_ns) + now.ns_since(*started);
        *started = now;
        self.refresh_time(now);
        // A waiting command is counted and logged when its wait ends.
        let waits = client.session.blocked.is_some() && !client.holds_replies();
        if waits {
            client.wait.begin().ran_ns = ns;
            client.session.ran.count -= 1;
        } else {
            self.count(found.id, ns);
        }
        // CONFIG SET, CLIENT TRACKING and ACL SETUSER must take effect before the next request.
        self.follow_config();
        self.follow_users(&mut client.session);
        self.follow_release(client);
        let reply_size = client.replies.size_since(mark);
        if !waits {
            self.log_if_notable(client, found, args, Cost { ns, reply_size, request_size });
        }
        if client.session.flags.is_empty() && client.session.blocked.is_none() {
            return Step::Done;
        }
        if client.session.tracking.is_some() {
            special_modes::end_caching(client, found);
        }
        // Replies of commands that begin or end a subscription are messages: `CLIENT REPLY` does not suppress them.
        let is_message = found.command.flags.contains(Flags::PUSH_REPLY);
        self.finish_special(client, if is_message { client.replies.bytes.len() } else { mark })
    }
}

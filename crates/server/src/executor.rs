//! From input bytes to reply bytes: parses, plans, latches, runs, reports. One function for each step of
//! a request: [`Executor::process`], [`Executor::plan`], [`Executor::latch`], [`Executor::run`],
//! [`Executor::finish`].
//!
//! Owns the memory that is reused from batch to batch. Touches one connection at a time, and the keyspace
//! through its view. Never touches a socket. `plain.rs` has these steps inlined for a run of plain
//! requests; refusals are in `refusals.rs`, rare cases in `special_modes.rs`. Invariant: no latch is held
//! between two requests, except by a connection that waits for another latch, and between plain requests on one slot.

mod ahead;
mod eviction;
mod latching;
mod plain;
mod plan;
mod prefetch;
mod refusals;
mod serving;
mod special_modes;
mod transaction;

pub use eviction::ExceededTime;
pub use plan::Planned;

use std::rc::Rc;
use std::sync::Arc;

use base::Slot;
use commands::command::{Access, Flags};
use commands::context::{Ctx, Effects, PlannedKey};
use commands::error::CommandError;
use commands::host::Host;
use commands::index::Found;
use commands::reply::Reply;
use commands::session::SessionFlags;
use commands::table::CommandId;
use config::Config;
use keyspace::{Evictor, Tries, View, WantedEvents};
use os::clock::Ticks;
use sync::atomic::Ordering;
use sync::simulation::{self, Gap};
use wire::reply::ReplyBuffer;
use wire::request::{Args, Parser, Peer, RequestLimits};

use self::plan::{Place, Refusal};
use self::prefetch::PrefetchPipeline;
use crate::command_log::{Cost, Thresholds};
use crate::connection::{Connection, ParkedCommand};
use crate::pubsub::LocalSubscriptions;
use crate::shared::{GlobalFlags, Shared};
use crate::statistics::ThreadStatistics;
use serving::{BeginWait, ServeContext};
pub use serving::{DeferredServe, DeferredStep};
pub use special_modes::TURNS_TIME_MAX;

/// Runs the requests of one thread's connections.
pub struct Executor {
    shared: &'static Shared,
    thread: usize,
    statistics: &'static ThreadStatistics,
    subscriptions: Rc<LocalSubscriptions>,
    /// The data, as the running command may access it.
    pub view: View<'static>,
    /// The configuration that this worker uses.
    pub config: Arc<Config>,
    /// The costs from which on a command may be logged.
    thresholds: Thresholds,
    /// The maximum size of the buffers of all connections, in bytes; `u64::MAX`: no limit.
    pub client_memory_max: u64,
    /// The generation of `config`.
    config_generation: u64,
    evictor: Evictor,
    /// The number of `MULTI`.
    multi_id: CommandId,
    /// Whether the last eviction ran out of time.
    pub is_evicting: bool,
    /// The bytes in use beyond the limit when eviction ran out of time in this turn; `None`: it has not.
    excess_left: Option<u64>,
    /// When the requests of the current connection began to run.
    stretch_began: Option<Ticks>,
    /// Whether the current plain requests fit into the free memory.
    has_room: bool,
    /// Bytes that plain requests may use before memory use is added up again.
    granted: u64,
    /// The maximum of [`sync::allocator::allocated_here`] while the current plain requests run.
    allocated_max: isize,
    /// The size of recently evicted keys, in bytes.
    victim_size: u64,
    /// Memory for later batches.
    #[expect(clippy::vec_box, reason = "they go from hand to hand, and are large")]
    spare_plans: Vec<Box<Planned>>,
    found: Vec<u32>,
    prefetch_pipeline: Box<PrefetchPipeline>,
    /// The prefetch pipeline of requests that were planned ahead. Boxed, as the two are swapped.
    other_pipeline: Box<PrefetchPipeline>,
    slots: Vec<Slot>,
    effects: Effects,
    serve_context: ServeContext,
}

/// A request on its way through the executor.
#[derive(Clone, Copy)]
struct Asked<'a> {
    found: Found,
    args: Args<'a>,
    keys: &'a [PlannedKey],
    /// Its size on the wire, in bytes.
    size: usize,
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

/// Plans of batches that are kept for reuse: more than can be made ahead of a turn.
const SPARE_PLAN_COUNT_MAX: usize = 32;

/// Time after which a connection yields to the others, in nanoseconds: some thousand brief commands. One
/// command, or one batch of plain requests, may exceed it.
const STRETCH_NS_MAX: u64 = 500_000;

/// The outcome of one request.
enum Step {
    Done,
    /// Not executed: it waits, and is the first of the remaining requests.
    Again,
    /// Executed, but the requests after it must wait.
    Stop,
    /// Must wait for its keys. Must be run again with them latched for writing, to be added to their queues.
    ForWriting,
}

impl Executor {
    /// Returns an executor for the worker with this number.
    pub fn new(
        shared: &'static Shared,
        thread: usize,
        seed: u64,
        subscriptions: Rc<LocalSubscriptions>,
    ) -> Self {
        let mut executor = Self {
            shared,
            thread,
            statistics: shared.statistics.thread(thread),
            subscriptions,
            view: View::new(&shared.keyspace, thread, seed),
            config: shared.config.load_full(),
            thresholds: Thresholds::of(&shared.config.load()),
            client_memory_max: u64::MAX,
            config_generation: 0,
            evictor: Evictor::default(),
            multi_id: transaction::multi_id(),
            is_evicting: false,
            excess_left: None,
            stretch_began: None,
            has_room: false,
            granted: 0,
            allocated_max: isize::MAX,
            victim_size: 0,
            spare_plans: Vec::new(),
            found: Vec::new(),
            prefetch_pipeline: Box::default(),
            other_pipeline: Box::default(),
            slots: Vec::new(),
            effects: Effects::default(),
            serve_context: ServeContext::new(),
        };
        executor.effects.lending.accept(true);
        executor.take_config_over();
        executor
    }

    /// Switches to the configuration in force.
    pub fn take_config_over(&mut self) {
        self.config_generation = self.shared.config_generation.load(Ordering::Acquire);
        self.config = self.shared.config.load_full();
        self.granted = 0;
        self.view.wanted = WantedEvents::from_bits(self.config.notify_keyspace_events.bits())
            .with_every_change(self.shared.hub.wants_every_change());
        self.client_memory_max =
            self.config.maxmemory_clients.size(self.config.maxmemory).unwrap_or(u64::MAX);
        self.view.lazy_expire = self.config.lazyfree_lazy_expire;
        self.statistics.tracks_latency.set(u64::from(self.config.latency_tracking));
        self.thresholds = Thresholds::of(&self.config);
    }

    /// Switches to a new configuration, if there is one: `CONFIG SET` holds for every request sent after its reply.
    #[inline]
    pub fn follow_config(&mut self) {
        if self.shared.config_generation.load(Ordering::Acquire) != self.config_generation {
            self.take_config_over();
        }
    }

    /// Executes the complete requests at the start of `bytes`, which may have been planned ahead. Returns
    /// the number of bytes processed, and how processing ended.
    pub fn process(
        &mut self,
        connection: &mut Connection,
        bytes: &[u8],
        mut planned: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Processed) {
        self.follow_config();
        self.subscriptions.set_current_client(connection.token);
        self.view.client = connection.session.id;
        let mut done = 0;
        self.stretch_began = None;
        loop {
            let (parsed, ended) = self.process_batch(connection, &bytes[done..], planned.take(), host);
            done += parsed;
            if let Some(ended) = ended {
                return (done, ended);
            }
            if connection.output_size() > OUTPUT_YIELD_SIZE || self.is_stretch_over(Ticks::now()) {
                return (done, Processed::Yielded);
            }
        }
    }

    /// Whether the current connection has used up its time.
    #[inline]
    fn is_stretch_over(&self, now: Ticks) -> bool {
        self.stretch_began.is_some_and(|began| now.ns_since(began) > STRETCH_NS_MAX)
    }

    /// Processes one batch. Returns the bytes processed, and how processing ended, if it did.
    fn process_batch(
        &mut self,
        connection: &mut Connection,
        bytes: &[u8],
        planned: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Option<Processed>) {
        let limits = self.limits_of(connection);
        let planned = planned.filter(|planned| planned.limits == limits);
        let is_foreseen = planned.is_some();
        let planned = match planned {
            Some(mut planned) => {
                std::mem::swap(&mut connection.parser, &mut planned.parser);
                planned
            }
            None => {
                std::mem::swap(&mut self.prefetch_pipeline, &mut self.other_pipeline);
                self.plan(&mut connection.parser, bytes, limits, connection.session.db)
            }
        };
        self.view.sees_expired = self.config.import_mode && connection.session.is_import_source;
        connection.recent_commands += planned.batch.len() as u64;
        self.statistics.current_client.set(connection.session.id);
        let result = self.run_batch(connection, &planned, bytes, host);
        if !is_foreseen {
            self.prefetch_pipeline.clear();
            std::mem::swap(&mut self.prefetch_pipeline, &mut self.other_pipeline);
        }
        self.keep_for_later(planned);
        result
    }

    /// Keeps the memory of a batch for reuse, unless it is unusually large or enough are kept.
    fn keep_for_later(&mut self, mut planned: Box<Planned>) {
        if self.spare_plans.len() < SPARE_PLAN_COUNT_MAX {
            planned.trim();
            self.spare_plans.push(planned);
        }
        self.slots.clear();
        self.slots.shrink_to(plan::KEPT_COUNT_MAX);
    }

    /// The limits for the input of this connection.
    fn limits_of(&self, connection: &Connection) -> RequestLimits {
        RequestLimits {
            peer: if self.is_unauthenticated(connection) { Peer::Unauthenticated } else { Peer::Client },
            bulk_size_max: self.config.proto_max_bulk_len,
        }
    }

    fn run_batch(
        &mut self,
        connection: &mut Connection,
        planned: &Planned,
        bytes: &[u8],
        host: &dyn Host,
    ) -> (usize, Option<Processed>) {
        let Planned { batch, plans, parsed, .. } = planned;
        let mut started = Ticks::now();
        self.stretch_began.get_or_insert(started);
        let mut place = Place::default();
        loop {
            if let Some(plan) = plans.get(place.plan)
                && plan.is_plain
                && self.is_plain(connection)
            {
                self.has_room = self.has_room_for(parsed.consumed - plan.requests.range_of(place.nth).start);
                place = self.run_plain(connection, planned, bytes, place, &mut started, host);
            }
            let Some(plan) = plans.get(place.plan) else { break };
            let range = plan.requests.range_of(place.nth);
            let is_enough = connection.output_size() > OUTPUT_YIELD_SIZE || self.is_stretch_over(started);
            if is_enough && place != Place::default() {
                connection.parser = Parser::new();
                return (range.start, Some(Processed::Yielded));
            }
            if plan.id == self.multi_id
                && plan.command.is_some()
                && plan.refusal == Refusal::None
                && self.is_plain(connection)
                && let Some(behind) =
                    self.run_transaction(connection, planned, bytes, place, &mut started, host)
            {
                place = behind;
                continue;
            }
            match self.execute(connection, planned, bytes, place, &mut started, host) {
                Step::Done => {}
                Step::Again | Step::ForWriting => {
                    connection.parser = Parser::new();
                    return (range.start, Some(Processed::Waiting));
                }
                Step::Stop => {
                    connection.parser = Parser::new();
                    let closing = connection.session.flags.contains(SessionFlags::CLOSE_AFTER_REPLY);
                    let ended = match (closing, connection.session.blocked.is_some()) {
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
            self.refuse_protocol(connection, error, bytes);
            return (parsed.consumed, Some(Processed::Closing));
        }
        // Complete requests may remain after a full batch, and after one cut short for authentication.
        let more = !batch.is_empty() && parsed.consumed < bytes.len();
        (parsed.consumed, (!more).then_some(Processed::Everything))
    }

    /// Whether the connection has to authenticate first.
    pub(super) fn is_unauthenticated(&self, connection: &Connection) -> bool {
        !connection.session.authenticated && self.config.requirepass.reveal().is_some()
    }

    /// Executes one planned request: refuses it, makes it wait, or runs it.
    fn execute(
        &mut self,
        connection: &mut Connection,
        planned: &Planned,
        bytes: &[u8],
        place: Place,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        let (plan, nth) = (&planned.plans[place.plan], place.nth);
        let args = planned.args(plan, nth, bytes);
        let Some(found) = plan.found().filter(|_| plan.refusal == Refusal::None) else {
            return self.refuse(connection, plan, args);
        };
        let (command, keys) = (found.command, planned.keys_of(plan, nth));
        let first_key = planned.first_announced_of(plan, nth);
        self.prefetch_pipeline.advance(&self.view, first_key, plan.key_count);
        self.prefetch_pipeline.apply_hints(keys, first_key);
        if self.is_unauthenticated(connection) && !command.flags.contains(Flags::NO_AUTH) {
            self.reject(connection, found, &CommandError::NO_AUTH);
            return Step::Done;
        }
        self.view.touch = !connection.session.flags.contains(SessionFlags::NO_TOUCH);
        // A request with held latches was here before and waited for another latch.
        if self.view.holds_nothing() {
            if self.shared.hub.is_congested() && self.must_await_delivery(connection, command, args) {
                return self.wait_for_congestion(connection);
            }
            // Applies to every command: no reader sees memory use above the limit.
            if self.config.maxmemory > 0 {
                self.statistics.in_hand_bytes.set(connection.passing_output_bytes());
                let needs_memory = special_modes::needs_memory(command, connection);
                let need = if needs_memory { eviction::need_of(plan.requests.size()) } else { 0 };
                if !self.make_room(need) && needs_memory {
                    self.reject(connection, found, &CommandError::OUT_OF_MEMORY);
                    return Step::Done;
                }
            }
            let session = &connection.session;
            let special =
                self.shared.global_flags.load() != 0 || !session.flags.is_empty() || session.multi.is_some();
            if special && let Some(step) = self.check_special_modes(connection, found, keys, args) {
                return step;
            }
        } else if self.shared.global_flags.load() != 0
            && let Some(step) = self.attend_to_pause(connection, found)
        {
            return step;
        }
        simulation::pass(Gap::LetThrough);
        if command.access == Access::Connections && self.must_await_turns(connection) {
            return Step::Again;
        }
        let asked = Asked { found, args, keys, size: plan.requests.size() };
        loop {
            if command.access != Access::None {
                let access = command.access.of_request(args);
                self.view.begin_latching(&mut connection.tries);
                while let Err((busy, mode)) = self.latch(access, keys, connection) {
                    if !self.view.wait_for(busy, mode, connection.token.0, &mut connection.tries) {
                        self.statistics.parked.add(1);
                        connection.parked = Some(ParkedCommand { kept: self.view.keep(), busy });
                        return Step::Again;
                    }
                }
            }
            let step = self.run(connection, asked, started, host);
            connection.tries = Tries::default();
            connection.latches_for_writing = matches!(step, Step::ForWriting);
            if !connection.latches_for_writing {
                return step;
            }
        }
    }

    /// Runs the handler under its latches, releases them, and reports.
    fn run(
        &mut self,
        connection: &mut Connection,
        asked: Asked<'_>,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Step {
        let Asked { found, args, keys, .. } = asked;
        connection.session.last_command = Some(found.id);
        connection.session.command_count += 1;
        self.statistics.current_command.set(u64::from(found.id.0) + 1);
        let mark = connection.out.len();
        let protocol = connection.session.protocol;
        let result = {
            let mut ctx = Ctx {
                data: &mut self.view,
                session: &mut connection.session,
                config: &self.config,
                host,
                command: found.command,
                planned: keys,
                args,
                effects: &mut self.effects,
                hasher: self.shared.keyspace.hasher(),
            };
            let reply = Reply::new(ReplyBuffer::new(&mut connection.out, protocol));
            let result = (found.command.run)(&mut ctx, args, reply);
            if ctx.session.tracking.is_some() {
                ctx.remember_reads();
            }
            result
        };
        if self.view.has_ready() {
            self.serve_ready(host);
        }
        if std::mem::take(&mut self.effects.has_paused) {
            self.begin_barrier(connection);
        }
        if connection.session.blocked.is_some()
            && let BeginWait::NeedsWriting = self.begin_wait(connection, asked)
        {
            self.view.release();
            connection.session.blocked = None;
            return Step::ForWriting;
        }
        self.view.release();
        connection.lent.append(self.effects.lending.lent());
        if found.command.access == Access::Queued {
            self.subscriptions.deliver_after_transaction(&mut connection.out);
        }
        if found.command.access == Access::Queued && self.shared.global_flags.is_set(GlobalFlags::MONITORED) {
            self.feed_monitors(connection, found, args);
        }
        let failed = result.is_err();
        if let Err(error) = result {
            connection.cut_output(mark);
            ReplyBuffer::new(&mut connection.out, protocol).error(error.text());
            self.shared.errors.count(error.code());
        }
        self.finish(connection, asked, mark, failed, started)
    }

    /// Counts the command, and logs it where its cost requires that.
    fn finish(
        &mut self,
        connection: &mut Connection,
        asked: Asked<'_>,
        mark: usize,
        failed: bool,
        started: &mut Ticks,
    ) -> Step {
        let Asked { found, args, keys, size: request_size } = asked;
        let now = Ticks::now();
        let ns = now.ns_since(*started);
        *started = now;
        // A waiting command is counted and logged when its wait ends.
        let waits = connection.session.blocked.is_some() && !connection.holds_output();
        let statistics = self.statistics.command(found.id);
        if waits {
            connection.waited_ns = ns;
            connection.session.command_count -= 1;
        } else {
            self.statistics.ran(found.id, 1, ns);
            self.statistics.commands_processed.add(1);
        }
        // The effects of CONFIG SET and CLIENT TRACKING hold for the next request already.
        self.follow_config();
        self.account_changes(connection);
        if failed {
            statistics.failed.add(1);
            self.statistics.errors.add(1);
        }
        if self.view.saw_expired.get() {
            self.delete_expired(connection, keys, args);
        }
        let reply_size =
            connection.out.len().wrapping_sub(mark).wrapping_add(connection.lent.size_since(mark));
        if !waits {
            self.log_if_notable(connection, found, args, Cost { ns, reply_size, request_size });
        }
        if connection.session.flags.is_empty() && connection.session.blocked.is_none() {
            return Step::Done;
        }
        if connection.session.tracking.is_some() {
            end_caching(connection, found);
        }
        // Replies of commands that begin or end a subscription are messages: `CLIENT REPLY` does not swallow them.
        let is_message = found.command.flags.contains(Flags::PUSH_REPLY);
        self.finish_special(connection, if is_message { connection.out.len() } else { mark })
    }

    /// Logs a command whose cost reaches a threshold.
    #[inline(always)]
    fn log_if_notable(&mut self, connection: &mut Connection, found: Found, args: Args<'_>, cost: Cost) {
        if self.thresholds.are_exceeded(cost) {
            self.log_command(connection, found, args, cost);
        }
    }

    /// Sends the values that the last commands discarded to a background thread.
    #[cold]
    pub fn free_garbage(&mut self) {
        let garbage = std::mem::take(&mut self.view.garbage);
        self.shared.background.free(garbage.len() as u64, Box::new(move || drop(garbage)));
    }

    /// Rare work after a command: swallow its reply, close, wait.
    #[cold]
    fn finish_special(&mut self, connection: &mut Connection, mark: usize) -> Step {
        if connection.session.flags.intersects(SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP) {
            connection.cut_output(mark);
        }
        let session = &mut connection.session;
        session.flags.remove(SessionFlags::REPLY_SKIP);
        if session.flags.contains(SessionFlags::REPLY_SKIP_NEXT) {
            session.flags.remove(SessionFlags::REPLY_SKIP_NEXT);
            session.flags.insert(SessionFlags::REPLY_SKIP);
        }
        if session.flags.intersects(SessionFlags::LISTENING | SessionFlags::TRACKING) {
            self.subscriptions.deliver_after_command(session, &mut connection.out);
        }
        if session.blocked.is_some() || session.flags.contains(SessionFlags::CLOSE_AFTER_REPLY) {
            return Step::Stop;
        }
        Step::Done
    }
}

/// Ends the effect of `CLIENT CACHING`, which holds for one command or a whole transaction.
fn end_caching(connection: &mut Connection, found: Found) {
    let in_multi = connection.session.in_multi();
    if let Some(tracking) = connection.session.tracking.as_mut().filter(|tracking| tracking.caching)
        && !in_multi
        && !refusals::full_name(found).starts_with("client|")
    {
        tracking.caching = false;
    }
}

//! From input bytes to reply bytes: cuts, plans, latches, runs, reports. The life of a request, one function a step:
//! [`Executor::process`], [`Executor::plan`], [`Executor::latch`], [`Executor::run`], [`Executor::finish`].
//!
//! Owns what is reused from batch to batch. Touches one connection at a time, and the keyspace through its view.
//! Never sees a socket. The same steps for a run of simple requests stand inlined in `plain.rs`; refusals are in
//! `refusals.rs`, what rarely applies in `special_modes.rs`. Invariant: no latch is held between two requests, but by a connection
//! that waits for another, and between plain ones on the same slot.

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
    /// The data, as the command that runs may see it.
    pub view: View<'static>,
    /// The configuration that this thread goes by.
    pub config: Arc<Config>,
    /// From where on a command is looked at more closely.
    thresholds: Thresholds,
    /// Most bytes that the buffers of all connections may take; `u64::MAX`: no limit.
    pub client_memory_max: u64,
    /// Which configuration `config` is.
    config_generation: u64,
    evictor: Evictor,
    /// The number of `MULTI`.
    multi_id: CommandId,
    /// Whether the last eviction ran out of time.
    pub is_evicting: bool,
    /// What was in use beyond the limit when eviction ran out of time in this turn; `None`: it has not.
    excess_left: Option<u64>,
    /// When the requests of the connection began to run that are run now.
    stretch_began: Option<Ticks>,
    /// Whether the plain requests at hand can't use up the memory there is.
    has_room: bool,
    /// Bytes that plain requests may use before it is looked at again how much is in use.
    granted: u64,
    /// What [`sync::allocator::allocated_here`] may come to while the plain requests at hand run.
    allocated_max: isize,
    /// What evicted keys weighed lately, in bytes.
    victim_size: u64,
    /// Memory for the batches to come.
    #[expect(clippy::vec_box, reason = "they go from hand to hand, and are large")]
    spare_plans: Vec<Box<Planned>>,
    found: Vec<u32>,
    prefetch_pipeline: Box<PrefetchPipeline>,
    /// The approach to what was planned, while something else runs. Boxed, as the two change places.
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
    /// Its bytes on the wire.
    size: usize,
}

/// How processing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed {
    /// Every complete request is executed.
    Everything,
    /// The connection waits for a latch or is blocked.
    Waiting,
    /// The connection is to be closed when its output is out.
    Closing,
    /// There is more, but the other connections should have a turn, and output should leave.
    Yielded,
}

/// Output after which a connection's replies leave before more of its requests are run, in bytes.
const OUTPUT_YIELD_SIZE: usize = 1 << 20;

/// Plans of batches that are kept for later ones: more than can be made ahead of a turn.
const SPARE_PLAN_COUNT_MAX: usize = 32;

/// Time after which a connection lets the others have a turn, in nanoseconds: some thousand brief commands. It may be exceeded by one
/// command, or by one batch of plain ones.
const STRETCH_NS_MAX: u64 = 500_000;

/// What became of one request.
enum Step {
    Done,
    /// Not executed: it waits, and is the first of what remains.
    Again,
    /// Executed, but the ones behind it must wait.
    Stop,
    /// It is to wait for its keys, and must be run with them latched for writing to be put into their queues.
    ForWriting,
}

impl Executor {
    /// An executor for the thread with this number.
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

    /// Goes by the configuration in force from now on.
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

    /// Takes a new configuration over: one that was set before what runs now was sent must hold for it.
    #[inline]
    pub fn follow_config(&mut self) {
        if self.shared.config_generation.load(Ordering::Acquire) != self.config_generation {
            self.take_config_over();
        }
    }

    /// Executes the complete requests at the front of `bytes`, which may have been planned ahead. Returns how many bytes
    /// are done with, and how it ended.
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

    /// Whether the connection whose requests run has had its time.
    #[inline]
    fn is_stretch_over(&self, now: Ticks) -> bool {
        self.stretch_began.is_some_and(|began| now.ns_since(began) > STRETCH_NS_MAX)
    }

    /// One batch. Returns the bytes done with, and how processing ended, if it did.
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

    /// Keeps the memory of a batch for another one, but not that of a rare large one, nor of very many.
    fn keep_for_later(&mut self, mut planned: Box<Planned>) {
        if self.spare_plans.len() < SPARE_PLAN_COUNT_MAX {
            planned.trim();
            self.spare_plans.push(planned);
        }
        self.slots.clear();
        self.slots.shrink_to(plan::KEPT_COUNT_MAX);
    }

    /// What input of this connection must keep to.
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
        // A full batch may have left complete requests behind it, and so has one cut short for authentication.
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
        // With a latch in hand it has been here before, and waited for another one.
        if self.view.holds_nothing() {
            if self.shared.hub.is_congested() && self.must_await_delivery(connection, command, args) {
                return self.wait_for_congestion(connection);
            }
            // Whatever the command is: who looks at the data finds no more than may be there.
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

    /// Runs the handler under its latches, lets them go, and reports.
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

    /// Counts the command, and looks at it more closely if anything about it asks for it.
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
        // What waits is counted and logged when its wait is over.
        let waits = connection.session.blocked.is_some() && !connection.holds_output();
        let statistics = self.statistics.command(found.id);
        if waits {
            connection.waited_ns = ns;
            connection.session.command_count -= 1;
        } else {
            self.statistics.ran(found.id, 1, ns);
            self.statistics.commands_processed.add(1);
        }
        // What CONFIG SET and CLIENT TRACKING have asked for holds for the next request already.
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
        // What a command that begins or ends listening answers is a message: nothing swallows it.
        let is_message = found.command.flags.contains(Flags::PUSH_REPLY);
        self.finish_special(connection, if is_message { connection.out.len() } else { mark })
    }

    /// Logs a command that has cost as much as anybody wants to hear of.
    #[inline(always)]
    fn log_if_notable(&mut self, connection: &mut Connection, found: Found, args: Args<'_>, cost: Cost) {
        if self.thresholds.are_exceeded(cost) {
            self.log_command(connection, found, args, cost);
        }
    }

    /// Has what the last commands left to be dropped freed elsewhere.
    #[cold]
    pub fn free_garbage(&mut self) {
        let garbage = std::mem::take(&mut self.view.garbage);
        self.shared.background.free(garbage.len() as u64, Box::new(move || drop(garbage)));
    }

    /// What is rarely to be done after a command: swallow its reply, close, wait.
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

/// What `CLIENT CACHING` said holds for one command, or for a whole transaction.
fn end_caching(connection: &mut Connection, found: Found) {
    let in_multi = connection.session.in_multi();
    if let Some(tracking) = connection.session.tracking.as_mut().filter(|tracking| tracking.caching)
        && !in_multi
        && !refusals::full_name(found).starts_with("client|")
    {
        tracking.caching = false;
    }
}

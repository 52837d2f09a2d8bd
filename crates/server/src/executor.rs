//! From input bytes to reply bytes: cuts, plans, latches, runs, reports. The life of a request, one function a step:
//! [`Executor::process`], [`Executor::plan`], [`Executor::latch`], [`Executor::run`], [`Executor::finish`].
//!
//! Owns what is reused from batch to batch. Touches one connection at a time, and the keyspace through its view.
//! Never sees a socket. The same steps for a run of simple requests stand inlined in `plain.rs`; refusals are in
//! `refusals.rs`, what rarely needs attention in `attention.rs`. Invariant: no latch is held between two requests, but by a connection
//! that waits for another, and between plain ones on the same slot.

mod ahead;
mod approach;
mod attention;
mod eviction;
mod latching;
mod plain;
mod plan;
mod refusals;
mod serving;

pub use eviction::ExceededTime;
pub use plan::Planned;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Slot;
use commands::command::{Access, Command, Flags};
use commands::context::{Ctx, Effects, PlannedKey};
use commands::error::CommandError;
use commands::host::Host;
use commands::index::Found;
use commands::reply::Reply;
use commands::session::SessionFlags;
use config::Config;
use keyspace::{Evictor, View, WantedEvents};
use reactor::clock::Ticks;
use wire::reply::ReplyBuffer;
use wire::request::{Args, Limits, Parser, Peer};

use self::approach::Approach;
use self::plan::{Place, Refusal};
use crate::command_log::Cost;
use crate::connection::{Connection, ParkedCommand};
use crate::listening::Ears;
use crate::shared::{Attention, Shared};
use crate::statistics::ThreadStatistics;
pub use serving::Errand;
use serving::{BeginWait, StandIn};

/// Runs the requests of one thread's connections.
pub struct Executor {
    shared: &'static Shared,
    statistics: &'static ThreadStatistics,
    ears: Rc<Ears>,
    /// The data, as the command that runs may see it.
    pub view: View<'static>,
    /// The configuration that this thread goes by.
    pub config: Arc<Config>,
    /// Durations from which on a command is looked at more closely, in clock ticks.
    slow_ns: u64,
    /// Sizes of replies and requests likewise, in bytes.
    large_reply_size: usize,
    large_request_size: usize,
    /// Most bytes that the buffers of all connections may take; `u64::MAX`: no limit.
    pub client_memory_max: u64,
    /// Which configuration `config` is.
    config_generation: u64,
    evictor: Evictor,
    /// Whether the last eviction ran out of time.
    pub is_evicting: bool,
    /// Whether this batch's plain requests can't use up the memory there is.
    has_room: bool,
    /// Memory for the batches to come.
    #[expect(clippy::vec_box, reason = "they go from hand to hand, and are large")]
    spare_plans: Vec<Box<Planned>>,
    found: Vec<u32>,
    approach: Box<Approach>,
    /// The approach to what was foreseen, while something else runs. Boxed, as the two change places.
    approach_aside: Box<Approach>,
    slots: Vec<Slot>,
    effects: Effects,
    stand_in: StandIn,
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

/// Memory kept free for what a batch of small requests may add, in bytes.
const ROOM_SIZE: usize = 64 << 10;

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
    pub fn new(shared: &'static Shared, thread: usize, seed: u64, ears: Rc<Ears>) -> Self {
        let mut executor = Self {
            shared,
            statistics: shared.statistics.thread(thread),
            ears,
            view: View::new(&shared.keyspace, thread, seed),
            config: shared.config.load_full(),
            slow_ns: 0,
            large_reply_size: 0,
            large_request_size: 0,
            client_memory_max: u64::MAX,
            config_generation: 0,
            evictor: Evictor::default(),
            is_evicting: false,
            has_room: false,
            spare_plans: Vec::new(),
            found: Vec::new(),
            approach: Box::default(),
            approach_aside: Box::default(),
            slots: Vec::new(),
            effects: Effects::default(),
            stand_in: StandIn::new(),
        };
        executor.effects.lending.accept(true);
        executor.take_config_over();
        executor
    }

    /// Goes by the configuration in force from now on.
    pub fn take_config_over(&mut self) {
        self.config_generation = self.shared.config_generation.load(Ordering::Acquire);
        self.config = self.shared.config.load_full();
        self.view.wanted = WantedEvents::from_bits(self.config.notify_keyspace_events.bits())
            .with_every_change(self.shared.hub.wants_every_change());
        self.client_memory_max =
            self.config.maxmemory_clients.size(self.config.maxmemory).unwrap_or(u64::MAX);
        self.view.lazy_expire = self.config.lazyfree_lazy_expire;
        self.statistics.tracks_latency.set(u64::from(self.config.latency_tracking));
        self.slow_ns = crate::command_log::threshold_ns(&self.config);
        let threshold = |size: i64| usize::try_from(size).unwrap_or(usize::MAX);
        self.large_reply_size = threshold(self.config.commandlog_reply_larger_than);
        self.large_request_size = threshold(self.config.commandlog_request_larger_than);
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
        mut foreseen: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Processed) {
        self.follow_config();
        self.ears.listen_to_speaker(connection.token);
        self.view.client = connection.session.id;
        let mut done = 0;
        loop {
            let (parsed, ended) = self.process_batch(connection, &bytes[done..], foreseen.take(), host);
            done += parsed;
            if let Some(ended) = ended {
                return (done, ended);
            }
            if connection.output_size() > OUTPUT_YIELD_SIZE {
                return (done, Processed::Yielded);
            }
        }
    }

    /// One batch. Returns the bytes done with, and how processing ended, if it did.
    fn process_batch(
        &mut self,
        connection: &mut Connection,
        bytes: &[u8],
        foreseen: Option<Box<Planned>>,
        host: &dyn Host,
    ) -> (usize, Option<Processed>) {
        let limits = self.limits_of(connection);
        let foreseen = foreseen.filter(|planned| planned.limits == limits);
        let is_foreseen = foreseen.is_some();
        let planned = match foreseen {
            Some(mut planned) => {
                std::mem::swap(&mut connection.parser, &mut planned.parser);
                planned
            }
            None => {
                std::mem::swap(&mut self.approach, &mut self.approach_aside);
                self.plan(&mut connection.parser, bytes, limits)
            }
        };
        self.view.sees_expired = self.config.import_mode && connection.session.is_import_source;
        connection.recent_commands += planned.batch.len() as u64;
        self.statistics.current_client.set(connection.session.id);
        let result = self.run_batch(connection, &planned, bytes, host);
        if !is_foreseen {
            self.approach.clear();
            std::mem::swap(&mut self.approach, &mut self.approach_aside);
        }
        self.spare_plans.push(planned);
        result
    }

    /// What input of this connection must keep to.
    fn limits_of(&self, connection: &Connection) -> Limits {
        Limits {
            peer: if connection.session.authenticated { Peer::Client } else { Peer::Unauthenticated },
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
        self.has_room = self.has_room_for(bytes.len());
        let mut started = Ticks::now();
        let mut place = Place::default();
        loop {
            if self.is_plain(connection) {
                place = self.run_plain(connection, planned, bytes, place, &mut started, host);
            }
            let Some(plan) = plans.get(place.plan) else { break };
            let range = plan.requests.range_of(place.nth);
            if connection.output_size() > OUTPUT_YIELD_SIZE && place != Place::default() {
                connection.parser = Parser::new();
                return (range.start, Some(Processed::Yielded));
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

    /// Whether memory is far enough from its limit that plain requests of this size need not look at it one by one:
    /// what they add is proportional to what they bring.
    fn has_room_for(&self, input_size: usize) -> bool {
        let limit = self.config.maxmemory as usize;
        limit == 0 || self.shared.used_memory() + 4 * input_size + ROOM_SIZE <= limit
    }

    /// Whether the connection has to authenticate first.
    fn is_stranger(&self, connection: &Connection) -> bool {
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
        self.approach.reach(&self.shared.keyspace, first_key, plan.key_count);
        self.approach.tell(keys, first_key);
        if self.is_stranger(connection) && !command.flags.contains(Flags::NO_AUTH) {
            self.reject(connection, found, &CommandError::NO_AUTH);
            return Step::Done;
        }
        self.view.touch = !connection.session.flags.contains(SessionFlags::NO_TOUCH);
        // With a latch in hand it has been here before, and waited for another one.
        if self.view.holds_nothing() {
            if self.shared.hub.is_congested() && may_publish(command) {
                return self.wait_for_congestion(connection);
            }
            // Whatever the command is: who looks at the data finds no more than may be there.
            if self.config.maxmemory > 0 {
                self.statistics.in_hand_bytes.set(connection.passing_output_bytes());
                if !self.make_room() && needs_memory(command, connection) {
                    self.reject(connection, found, &CommandError::OUT_OF_MEMORY);
                    return Step::Done;
                }
            }
            let session = &connection.session;
            let special =
                self.shared.attention.load() != 0 || !session.flags.is_empty() || session.multi.is_some();
            if special && let Some(step) = self.attend(connection, found, keys, args) {
                return step;
            }
        }
        if command.access == Access::Connections && self.must_await_turns(connection) {
            return Step::Again;
        }
        let asked = Asked { found, args, keys, size: plan.requests.size() };
        loop {
            if command.access != Access::None {
                let access = command.access.of_request(args);
                while let Err((busy, mode)) = self.latch(access, keys, connection) {
                    if !self.view.park(busy, mode, connection.token.0) {
                        self.statistics.parked.add(1);
                        connection.parked = Some(ParkedCommand { kept: self.view.keep(), busy });
                        return Step::Again;
                    }
                }
            }
            let step = self.run(connection, asked, started, host);
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
            self.ears.hear_after_transaction(&mut connection.out);
        }
        if found.command.access == Access::Queued && self.shared.attention.is_set(Attention::MONITORED) {
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
        let waits = connection.session.blocked.is_some();
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
        if self.effects.dirty > 0 {
            self.view.counters.dirty.add(std::mem::take(&mut self.effects.dirty));
        }
        if !self.view.garbage.is_empty() {
            self.free_garbage();
        }
        if failed {
            statistics.failed.add(1);
            self.statistics.errors.add(1);
        }
        if self.view.saw_expired.get() {
            self.delete_expired(connection, keys, args);
        }
        let reply_size =
            connection.out.len().wrapping_sub(mark).wrapping_add(connection.lent.size_since(mark));
        let is_notable = ns >= self.slow_ns
            || reply_size > self.large_reply_size
            || request_size > self.large_request_size;
        if is_notable && !waits {
            self.log_command(connection, found, args, Cost { ns, reply_size, request_size });
        }
        if connection.session.flags.is_empty() && !waits {
            return Step::Done;
        }
        if connection.session.tracking.is_some() {
            end_caching(connection, found);
        }
        // What a command that begins or ends listening answers is a message: nothing swallows it.
        let is_message = found.command.flags.contains(Flags::PUSH_REPLY);
        self.finish_special(connection, if is_message { connection.out.len() } else { mark })
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
            self.ears.hear_after_command(session, &mut connection.out);
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

/// Whether a command may send something to other threads, be it a message or that it changed a key.
fn may_publish(command: &Command) -> bool {
    command.access == Access::Queued || command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
}

/// Whether a command, or one of the transaction that it runs, may need more memory.
fn needs_memory(command: &Command, connection: &Connection) -> bool {
    let denied = |command: &Command| command.flags.contains(Flags::DENYOOM);
    let queue = connection.session.multi.as_ref().filter(|_| command.access == Access::Queued);
    denied(command)
        || queue.is_some_and(|queue| queue.requests.iter().any(|queued| denied(queued.found.command)))
}

//! One connection: its session, its input and output, and its waits. Owned by the worker that serves it.
//!
//! Invariants:
//! 1. `query` begins with the first byte that is not executed yet.
//! 2. A connection that is parked or blocked executes nothing; input is kept in `query`.

pub mod encryption;
pub mod large_argument;
pub mod listeners;
pub mod query_buffer;
pub mod registry;
pub mod reply_buffers;

use std::sync::Arc;

use commands::reply_buffers::ReplyParts;
use commands::session::{BlockReason, Session, SessionFlags};
use keyspace::{Busy, HeldLatches, Tries, Waiter};
use os::clock::Uptime;
use reactor::ConnectionId;
use wire::request::Parser;

use crate::connection::encryption::Encryption;
use crate::connection::large_argument::LargeArgument;
use crate::connection::query_buffer::QueryBuffer;
use crate::connection::registry::ClientRecord;
use crate::connection::reply_buffers::ReplyBufferSize;
use crate::monitoring::statistics::WorkerStatistics;
use crate::scripts::ScriptLatches;

/// Smaller buffers are not counted, in bytes: they exist for one request only.
const BUFFER_COUNTED_MIN: usize = 16 << 10;

/// The largest buffer that is kept for other replies after its own are sent, in bytes.
pub const SPARE_BUFFER_SIZE_MAX: usize = 64 << 10;

/// The smallest buffer for waiting input, the largest that is kept while nothing waits, and the size up
/// to which it is not trimmed, in bytes. These are the sizes that Valkey shows to clients and tests.
const QUERY_BUFFER_SIZE_MIN: usize = 16 << 10;
const QUERY_BUFFER_KEPT_MAX: usize = 512 << 10;
const QUERY_BUFFER_TRIMMED_MIN: usize = 32 << 10;

/// The largest query buffer that is kept while it is not needed, in bytes. With `maxmemory` it is smaller: the buffer
/// counts for the limit, and would evict keys.
#[must_use]
pub fn query_size_kept_max(maxmemory: u64) -> usize {
    if maxmemory == 0 { QUERY_BUFFER_KEPT_MAX } else { QUERY_BUFFER_TRIMMED_MIN }
}

/// The bytes of a buffer of this size that count.
fn counted(size: usize) -> u64 {
    if size < BUFFER_COUNTED_MIN { 0 } else { size as u64 }
}

/// The token of a connection, for wake-ups from other threads: 8 bits of worker, 32 of generation, 24 of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

const PLACE_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;

/// Set in the indexes of deferred serves, which no connection has.
const DEFERRED_PLACE: usize = 1 << (PLACE_BITS - 1);

impl Token {
    /// The token of an index in a worker's table.
    #[must_use]
    pub fn new(thread: usize, generation: u32, place: usize) -> Self {
        debug_assert!(place < 1 << PLACE_BITS && thread < 1 << (64 - PLACE_BITS - GENERATION_BITS));
        Self(
            (thread as u64) << (PLACE_BITS + GENERATION_BITS)
                | u64::from(generation) << PLACE_BITS
                | place as u64,
        )
    }

    /// The largest index of a connection.
    pub const PLACE_MAX: usize = DEFERRED_PLACE - 1;

    /// The token of a deferred serve of a worker, which waits for latches as a connection does.
    #[must_use]
    pub fn deferred(thread: usize, number: usize) -> Self {
        Self::new(thread, 0, DEFERRED_PLACE | number)
    }

    /// The number of a deferred serve; `None`: the token is a connection's.
    #[must_use]
    pub fn deferred_number(self) -> Option<usize> {
        (self.place() & DEFERRED_PLACE != 0).then_some(self.place() & !DEFERRED_PLACE)
    }

    /// The token of a connection that is being moved to a worker, and has no index there yet.
    #[must_use]
    pub fn underway(thread: usize) -> Self {
        Self::new(thread, 0, 0)
    }

    /// The worker that serves it.
    #[must_use]
    pub fn thread(self) -> usize {
        (self.0 >> (PLACE_BITS + GENERATION_BITS)) as usize
    }

    /// Its index in the worker's table.
    #[must_use]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// A line of the log that is to be written before the reply to the request that has logged it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The number of the line.
    pub line: u64,
    /// When the reply is sent even if the line is not written; `None`: the reply does not wait yet.
    pub until: Option<Uptime>,
}

/// What is known of a request from earlier attempts to run it. A request that is refused leaves nothing to the next one.
#[derive(Debug, Default)]
pub struct Attempt {
    /// The progress in latching several slots.
    pub tries: Tries,
    /// Whether it only reads but must wait for its keys, which requires latches for writing.
    pub for_writing: bool,
    /// The latches with which its script is to be run.
    pub script_latches: ScriptLatches,
}

/// A connection.
pub struct Connection {
    /// Its token for other threads; changes with its worker.
    pub token: Token,
    /// Its id in the reactor.
    pub id: ConnectionId,
    /// The connection as commands see it.
    pub session: Session,
    /// Its TLS; `None`: its bytes are plain.
    pub encryption: Option<Box<Encryption>>,
    /// The parser's state in an incomplete request.
    pub parser: Parser,
    /// Input that is not executed yet.
    pub query: QueryBuffer,
    /// The peak of waiting input since the buffer was last trimmed, in bytes.
    pub query_peak: usize,
    /// Bytes of the buffer of waiting input that are counted as about to be freed.
    pub passing_input_size: usize,
    /// Whether nothing has arrived for a while.
    pub is_quiet: bool,
    /// Replies that are not passed to the reactor yet.
    pub out: Vec<u8>,
    /// Whether its output is held until the changes that it shows are durable, or the lines are written that its requests
    /// have logged.
    pub awaits_disk: bool,
    /// The last line that its requests have logged, unless it is known to be written.
    pub logged: Option<Logged>,
    /// Shared reply buffers that belong between the bytes of `out`, in order.
    pub parts: ReplyParts,
    /// The size of buffer that its replies need.
    pub reply_buffer: ReplyBufferSize,
    /// Bytes of replies in the reactor, at the last update.
    pub pending: usize,
    /// Those of messages among them, which other subscribers share.
    pub pending_messages: usize,
    /// The latch it waits for.
    pub parked: Option<ParkedCommand>,
    /// The latches that its request keeps while it waits for something other than a latch.
    pub held_latches: Option<HeldLatches<'static>>,
    /// Its entry in the queues of its awaited keys; in no queue if it waits for something else.
    pub waiter: Option<Arc<Waiter>>,
    /// Bytes of the request that waits for keys, and of its entries in their queues.
    pub waiting_size: usize,
    /// How its wait ends if the writer that is serving it does not end it.
    pub end_requested: Option<UnblockReply>,
    /// When its wait times out.
    pub deadline: Option<Uptime>,
    /// How long the waiting request has run, in nanoseconds.
    pub waited_ns: u64,
    /// How long the parts of an unfinished request have run, in nanoseconds.
    pub parts_ns: u64,
    /// Whether the waiting request is not to be answered (`CLIENT REPLY`).
    pub is_muted: bool,
    /// What is known from earlier attempts to run the current request.
    pub attempt: Attempt,
    /// Messages that arrived during its transaction, while one of its scripts is paused.
    pub late_messages: Vec<u8>,
    /// The state that other threads can read.
    pub record: Arc<ClientRecord>,
    /// Unsent output at the last check of all connections, in bytes.
    pub unsent_size: usize,
    /// When a check last found that this had changed, by the monotonic clock in milliseconds.
    pub sent_at: i64,
    /// The time since which its pending output has exceeded the soft limit.
    pub soft_limit_since: Option<Uptime>,
    /// The time that its requests have taken, in ticks of the clock, since its worker began to measure or it was moved.
    pub recent_ticks: u64,
    /// The stamp from which it is subscribed in this worker, if it was moved here.
    pub subscribed_since: u64,
    /// A congested worker to which its requests have sent mail: requests that may send more wait for the end of
    /// the congestion.
    pub congested_target: Option<usize>,
    /// The other workers' turns that its command waits for.
    pub turns: Turns,
    /// Whether the peer will send no more.
    pub at_eof: bool,
    /// Whether it is being closed: no further request is executed.
    pub closing: bool,
    /// When it is closed although its peer still reads output, if it is closing because its permissions were revoked.
    pub close_by: Option<Uptime>,
    /// The worker that it is being moved to.
    pub moving_to: Option<usize>,
    /// Whether its requests are neither received nor run, because too much output is unsent.
    pub receive_paused: bool,
    /// Whether nothing more is received because much input waits.
    pub input_paused: bool,
    /// Bytes of large input that were executed as they arrived since it last gave others a turn.
    pub large_input_size: usize,
    /// Whether the peer has disconnected while receiving was paused; input that it sent before may remain.
    pub has_hung_up: bool,
    /// Its memory charge when it began to be closed at once, in bytes; part of `closing_bytes` until it is removed.
    pub closing_charge: u64,
    /// Whether complete requests remain. They wait for their turn (then the connection is among the
    /// worker's ready ones), or for output to be sent.
    pub has_more: bool,
}

/// Turns of other workers that a command waits for, before it reads all connections.
#[derive(Default)]
pub struct Turns {
    /// The number of the last request for turns; answers to earlier ones do not count.
    pub requested: u64,
    /// Workers that have not answered.
    pub awaited: Vec<usize>,
    /// Whether all workers have replied, or the time limit has passed: the command may run.
    pub are_over: bool,
}

/// A command that waits for a latch: it is the first request in `query`.
pub struct ParkedCommand {
    /// The latches of lower slots.
    pub held: HeldLatches<'static>,
    /// The slot it waits for.
    pub busy: Busy,
}

/// How a blocked client is woken by `CLIENT UNBLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnblockReply {
    /// As if it had timed out.
    Timeout,
    /// With an error.
    Error,
}

impl Connection {
    /// A new connection, which has sent nothing yet. `now`: the monotonic clock in milliseconds.
    #[must_use]
    pub fn new(
        token: Token,
        id: ConnectionId,
        session: Session,
        record: Arc<ClientRecord>,
        now: i64,
    ) -> Self {
        Self {
            token,
            id,
            session,
            encryption: None,
            parser: Parser::new(),
            query: QueryBuffer::default(),
            query_peak: 0,
            passing_input_size: 0,
            is_quiet: false,
            out: Vec::new(),
            parts: ReplyParts::default(),
            reply_buffer: ReplyBufferSize::new(now),
            pending: 0,
            pending_messages: 0,
            parked: None,
            held_latches: None,
            waiter: None,
            waiting_size: 0,
            end_requested: None,
            deadline: None,
            waited_ns: 0,
            parts_ns: 0,
            is_muted: false,
            attempt: Attempt::default(),
            late_messages: Vec::new(),
            record,
            unsent_size: 0,
            sent_at: now,
            soft_limit_since: None,
            recent_ticks: 0,
            subscribed_since: 0,
            congested_target: None,
            awaits_disk: false,
            logged: None,
            turns: Turns::default(),
            at_eof: false,
            closing: false,
            close_by: None,
            moving_to: None,
            receive_paused: false,
            input_paused: false,
            large_input_size: 0,
            has_hung_up: false,
            closing_charge: 0,
            has_more: false,
        }
    }

    /// Whether it executes nothing now, regardless of new input.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.parked.is_some() || self.session.blocked.is_some() || self.closing || self.moving_to.is_some()
    }

    /// Whether it waits for other workers' turns: answers name its token, which therefore must not change.
    #[must_use]
    pub fn awaits_turns(&self) -> bool {
        let blocked = self.session.blocked.as_ref();
        blocked.is_some_and(|blocked| matches!(blocked.reason, BlockReason::Turns | BlockReason::Barrier))
    }

    /// Whether its request is to keep its latches while it waits.
    #[must_use]
    pub fn keeps_latches(&self) -> bool {
        let blocked = self.session.blocked.as_ref();
        blocked.is_some_and(|blocked| blocked.reason == BlockReason::Transfer { keeps_latches: true })
    }

    /// Whether it waits for something that ends soon by itself. Then its requests continue, even if its peer is gone.
    #[must_use]
    pub fn waits_briefly(&self) -> bool {
        self.session.blocked.as_ref().is_some_and(|blocked| {
            matches!(
                blocked.reason,
                BlockReason::Turns
                    | BlockReason::Barrier
                    | BlockReason::Congestion
                    | BlockReason::Log
                    | BlockReason::Transfer { .. }
            )
        })
    }

    /// Whether it may run, however much of its output is unsent: a script that has begun keeps latches until its end.
    #[must_use]
    pub fn may_continue(&self) -> bool {
        !self.receive_paused || self.session.unfinished.is_some()
    }

    /// Whether it waits for room in the write log, whose wake-up names its token.
    #[must_use]
    pub fn awaits_log(&self) -> bool {
        self.session.blocked.as_ref().is_some_and(|blocked| blocked.reason == BlockReason::Log)
    }

    /// Whether its replies are written, but must not be sent yet.
    #[must_use]
    pub fn holds_output(&self) -> bool {
        self.session.blocked.as_ref().is_some_and(|blocked| blocked.reason == BlockReason::Barrier)
    }

    /// Whether `timeout` applies to it now.
    #[must_use]
    pub fn may_time_out(&self) -> bool {
        self.session.blocked.is_none()
            && !self.session.flags.intersects(SessionFlags::MONITOR | SessionFlags::SUBSCRIBED)
    }

    /// Returns the unexecuted rest of the query buffer that was taken out. No input arrives meanwhile.
    pub fn take_query_back(&mut self, mut query: QueryBuffer, done: usize) {
        debug_assert!(self.query.is_empty());
        query.consume(done);
        if let Some(argument) = query.argument() {
            argument.continue_parsing(&mut self.parser);
        }
        self.query = query;
    }

    /// Frees memory that the input does not need, if the query buffer is larger than `kept_max` bytes. To be called
    /// unless its requests are about to be executed.
    pub fn release_query(&mut self, kept_max: usize) {
        let (len, size) = (self.query.len(), self.query.capacity());
        if size <= kept_max || self.query.argument().is_some() {
            return;
        }
        if len == 0 {
            self.query = QueryBuffer::default();
        } else if size > 2 * len {
            self.query.shrink_to(len.max(QUERY_BUFFER_SIZE_MIN));
        }
    }

    /// Bytes of replies that are not passed to the reactor yet.
    #[must_use]
    pub fn output_size(&self) -> usize {
        self.out.len() + self.parts.size_since(0)
    }

    /// Bytes of output that is passed on, but not encrypted yet.
    #[must_use]
    #[inline]
    pub fn queued_output(&self) -> usize {
        self.encryption.as_ref().map_or(0, |encryption| encryption.stream.queued_size())
    }

    /// Bytes of the buffer of replies, if it is freed after they are sent, and of its reply chunks.
    #[must_use]
    pub fn passing_output_bytes(&self) -> u64 {
        let size = self.out.capacity();
        let own = if size > SPARE_BUFFER_SIZE_MAX { size } else { 0 };
        (own + self.parts.chunks_size()) as u64
    }

    /// Removes the output after a position in `out`.
    pub fn cut_output(&mut self, mark: usize) {
        self.out.truncate(mark);
        self.parts.truncate_to(mark);
    }

    /// Frees memory that a quiet connection does not need.
    pub fn shrink(&mut self) {
        self.is_quiet = true;
        self.query.shrink_to(0);
        self.query.shrink_argument();
        self.out.shrink_to(self.out.len());
    }

    /// Frees memory that the input of a connection has not needed since the last call.
    pub fn trim_query(&mut self) {
        let needed = std::mem::replace(&mut self.query_peak, self.query.len());
        if self.query.capacity() > QUERY_BUFFER_TRIMMED_MIN.max(2 * needed) {
            self.query.shrink_to(needed.max(QUERY_BUFFER_SIZE_MIN));
        }
    }

    /// Keeps input that can't be executed yet. The buffer grows by doubling, but not beyond the end of a
    /// large announced argument, and never by an announcement alone.
    pub fn keep_input(&mut self, data: &[u8]) {
        self.is_quiet = false;
        self.query.begin_argument(self.parser.announced());
        let data = self.query.fill_argument(data, &mut self.parser);
        if data.is_empty() {
            return;
        }
        let needed = self.query.len() + data.len();
        self.query_peak = self.query_peak.max(needed);
        if needed > self.query.capacity() {
            let doubled = needed.max(2 * self.query.capacity()).max(QUERY_BUFFER_SIZE_MIN);
            let announced = self.parser.announced().end;
            let room =
                if announced < needed { doubled } else { doubled.min(announced.max(QUERY_BUFFER_SIZE_MIN)) };
            self.query.make_room(data.len(), room);
        } else {
            self.query.make_room(data.len(), 0);
        }
        self.query.push(data);
    }

    /// The capacity of its input buffer in bytes. An announced argument counts in full, unless the
    /// connection is quiet: whether there is room for the argument is decided before it arrives.
    fn query_capacity(&self) -> usize {
        if self.query.is_empty() {
            // No request is incomplete.
            return self.query.capacity();
        }
        let announced = if self.is_quiet { 0 } else { self.parser.announced().end };
        let argument_size = self.query.argument().map_or(0, LargeArgument::capacity);
        (self.query.capacity() + argument_size).max(announced)
    }

    /// Bytes of memory that it uses.
    fn memory_bytes(&self) -> u64 {
        let session = &self.session;
        let fixed = size_of::<Self>() + size_of::<ClientRecord>() + session.name.len();
        let queued = session.multi.as_ref().map_or(0, |queue| queue.size());
        let watched = session.watching.as_ref().map_or(0, |watching| watching.memory_bytes());
        let names = session.subscriptions.as_ref().map_or(0, |names| names.memory_bytes());
        let encryption = self.encryption.as_ref().map_or(0, |encryption| encryption.stream.memory_bytes());
        let waiting = self.waiting_size + self.late_messages.capacity();
        (fixed + queued + watched + names + encryption + waiting) as u64
            + counted(self.query_capacity())
            + self.counted_output()
    }

    /// Bytes of unsent output that count: less than a buffer only if it is not sent for a while. Messages that other
    /// subscribers share do not count, as in Valkey.
    fn counted_output(&self) -> u64 {
        let own = self.pending.saturating_sub(self.pending_messages);
        counted(own).max(self.unsent_size.min(own) as u64)
    }

    /// Bytes of input, without those before a large argument that is arriving: these are parsed, and no longer count.
    fn unparsed_size(&self) -> usize {
        let announced = self.parser.announced();
        let parsed =
            if announced.len() < BUFFER_COUNTED_MIN { 0 } else { announced.start.min(self.query.len()) };
        self.query.len() - parsed + self.query.argument().map_or(0, LargeArgument::arriving_size)
    }

    /// Updates its charged memory. Returns by how much it has grown, wrapping. That of a connection that is being closed
    /// at once is released and stays so: other connections must not be evicted for it.
    #[must_use]
    pub fn weigh(&self) -> u64 {
        self.record.memory_charge.set(self.memory_bytes())
    }

    /// Ends its charge. Returns the charged bytes.
    pub fn release(&self) -> u64 {
        self.record.memory_charge.release()
    }

    /// Publishes the session's part of the client record.
    pub fn publish_session(&self) {
        self.record.publish(&self.session);
    }

    /// Publishes the buffers' part of the client record.
    pub fn publish_buffers(&self, statistics: &WorkerStatistics) {
        let record = &self.record;
        let query_size = if self.query.is_empty() { 0 } else { self.unparsed_size() as u64 };
        record.query_bytes.set(query_size);
        statistics.input_buffer_max.note(query_size);
        let arrived_size = self.query.argument().map_or(0, LargeArgument::arrived_size);
        let free_size = self.query_capacity() - self.query.len() - arrived_size;
        record.query_free_bytes.set(free_size as u64);
        record.reply_buffer_bytes.set(self.reply_buffer.size() as u64);
        record.reply_buffer_peak.set(self.reply_buffer.peak() as u64);
        self.publish_output(statistics);
    }

    /// Publishes the output and memory in the client record.
    pub fn publish_output(&self, statistics: &WorkerStatistics) {
        let output_size = counted(self.pending).max(self.counted_output());
        self.record.output_bytes.set(output_size);
        statistics.output_buffer_max.note(output_size);
        self.record.memory_bytes.set(self.record.memory_charge.value());
    }
}

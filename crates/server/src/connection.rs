//! One connection: its session, its input and output, and what it waits for. Owned by the thread that serves it.
//!
//! Invariants:
//! 1. `query` begins with the first byte that is not executed yet.
//! 2. A connection that is parked or blocked executes nothing; what arrives is kept in `query`.

use std::sync::Arc;

use commands::reply_buffers::LentTexts;
use commands::session::{BlockReason, Session, SessionFlags};
use keyspace::{Busy, HeldLatches, Tries, Waiter};
use os::clock::Uptime;
use reactor::ConnectionId;
use wire::request::Parser;

use crate::mail::UnblockReply;
use crate::query_buffer::QueryBuffer;
use crate::registry::ClientRecord;
use crate::reply_buffers::ReplyBufferSize;
use crate::statistics::ThreadStatistics;

/// Buffers smaller than this are not counted, in bytes: they come and go with each request.
const BUFFER_COUNTED_MIN: usize = 16 << 10;

/// Largest buffer that is kept for other replies when its own are sent, in bytes.
pub const SPARE_BUFFER_SIZE_MAX: usize = 64 << 10;

/// Smallest buffer for input that waits, in bytes; largest that is kept for more when nothing waits; and size up to which
/// it is not trimmed. What clients and tests of Valkey see of its buffers.
const QUERY_BUFFER_SIZE_MIN: usize = 16 << 10;
const QUERY_BUFFER_KEPT_MAX: usize = 512 << 10;
const QUERY_BUFFER_TRIMMED_MIN: usize = 32 << 10;

/// Bytes of a buffer of that size that count.
fn counted(size: usize) -> u64 {
    if size < BUFFER_COUNTED_MIN { 0 } else { size as u64 }
}

/// Names a connection of a thread, for wake-ups from others: 8 bits of thread, 32 of generation, 24 of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

const PLACE_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;

/// Set in places that are no places of connections.
const ERRAND_PLACE: usize = 1 << (PLACE_BITS - 1);

impl Token {
    /// The token of a place in a thread's table.
    #[must_use]
    pub fn new(thread: usize, generation: u32, place: usize) -> Self {
        debug_assert!(place < 1 << PLACE_BITS && thread < 1 << (64 - PLACE_BITS - GENERATION_BITS));
        Self(
            (thread as u64) << (PLACE_BITS + GENERATION_BITS)
                | u64::from(generation) << PLACE_BITS
                | place as u64,
        )
    }

    /// The name of something of a thread that is no connection, but waits for latches as well.
    #[must_use]
    pub fn deferred(thread: usize, number: usize) -> Self {
        Self::new(thread, 0, ERRAND_PLACE | number)
    }

    /// The number of such a thing; `None`: it is a connection.
    #[must_use]
    pub fn errand_number(self) -> Option<usize> {
        (self.place() & ERRAND_PLACE != 0).then_some(self.place() & !ERRAND_PLACE)
    }

    /// The name of a connection that is on its way to a thread, and has no place there yet.
    #[must_use]
    pub fn underway(thread: usize) -> Self {
        Self::new(thread, 0, 0)
    }

    /// The thread that serves it.
    #[must_use]
    pub fn thread(self) -> usize {
        (self.0 >> (PLACE_BITS + GENERATION_BITS)) as usize
    }

    /// Its place in the thread's table.
    #[must_use]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// A connection.
pub struct Connection {
    /// Its name for other threads; new on each thread it is served by.
    pub token: Token,
    /// Its name for the reactor.
    pub id: ConnectionId,
    /// What it means.
    pub session: Session,
    /// The parser's place in an incomplete request.
    pub parser: Parser,
    /// Input that is not executed yet.
    pub query: QueryBuffer,
    /// Most input that waited since the buffer was last looked at, in bytes.
    pub query_peak: usize,
    /// Nothing has come for a while.
    pub is_quiet: bool,
    /// Replies that are not with the reactor yet.
    pub out: Vec<u8>,
    /// Long strings that belong between the bytes of `out`, in order.
    pub lent: LentTexts,
    /// How large a buffer its replies want.
    pub reply_buffer: ReplyBufferSize,
    /// Bytes of replies that are with the reactor, when last looked at.
    pub pending: usize,
    /// The latch it waits for.
    pub parked: Option<ParkedCommand>,
    /// How far the request in hand has got with latching several slots.
    pub tries: Tries,
    /// Its place in the queues of the keys that it waits for, or of nobody's where it waits for something else.
    pub waiter: Option<Arc<Waiter>>,
    /// How its wait is to end if whoever serves it just now does not end it.
    pub end_asked: Option<UnblockReply>,
    /// When its wait ends by time.
    pub deadline: Option<Uptime>,
    /// How long the request that waits has run, in nanoseconds.
    pub waited_ns: u64,
    /// What it waits for is not to be answered (`CLIENT REPLY`).
    pub is_muted: bool,
    /// The request in hand reads only, but wants to wait, which takes latches for writing.
    pub latches_for_writing: bool,
    /// What other threads can read of it.
    pub record: Arc<ClientRecord>,
    /// Since when its pending output has been over the soft limit, in Unix milliseconds.
    pub soft_limit_since: Option<Uptime>,
    /// Commands run since the last look at all connections.
    pub recent_commands: u64,
    /// From which stamp on it listens on this thread, if it came from another one.
    pub subscribed_since: u64,
    /// A congested thread that its requests have sent to: those that may send more wait until it is not congested.
    pub overran: Option<usize>,
    /// The other threads' turns that its command waits for.
    pub turns: Turns,
    /// The peer will send no more.
    pub at_eof: bool,
    /// It is being closed: nothing is executed any more.
    pub closing: bool,
    /// It is being moved to this thread.
    pub moving_to: Option<usize>,
    /// Receiving is paused because too much is waiting.
    pub receive_paused: bool,
    /// What it weighed when it began to be closed at once, in bytes.
    pub leaving: u64,
    /// It has complete requests left, which wait for their turn (then it is among the thread's ready ones), or for output to leave.
    pub has_more: bool,
}

/// Turns of other threads that a command waits for, before it looks at all connections.
#[derive(Default)]
pub struct Turns {
    /// How often it asked; answers to earlier questions count no more.
    pub asked: u64,
    /// Threads that have not answered.
    pub awaited: Vec<usize>,
    /// All have, or they took too long: the command may run.
    pub are_over: bool,
}

/// A command that waits for a latch: it is the first request in `query`.
pub struct ParkedCommand {
    /// Latches of lower slots.
    pub kept: HeldLatches<'static>,
    /// The slot it waits for.
    pub busy: Busy,
}

impl Connection {
    /// Whether it executes nothing now, whatever arrives.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.parked.is_some() || self.session.blocked.is_some() || self.closing || self.moving_to.is_some()
    }

    /// Whether it waits for other threads' turns: answers name its token, so that it must keep it.
    #[must_use]
    pub fn awaits_turns(&self) -> bool {
        let blocked = self.session.blocked.as_ref();
        blocked.is_some_and(|blocked| matches!(blocked.reason, BlockReason::Turns | BlockReason::Barrier))
    }

    /// Whether its replies are written, but must not leave yet.
    #[must_use]
    pub fn holds_output(&self) -> bool {
        self.session.blocked.as_ref().is_some_and(|blocked| blocked.reason == BlockReason::Barrier)
    }

    /// Whether `timeout` applies to it now.
    #[must_use]
    pub fn may_time_out(&self) -> bool {
        self.session.blocked.is_none()
            && !self.session.flags.intersects(SessionFlags::MONITOR | SessionFlags::LISTENING)
    }

    /// Puts the unexecuted rest of the taken query buffer back. Nothing arrives while it is away.
    pub fn take_query_back(&mut self, mut query: QueryBuffer, done: usize) {
        debug_assert!(self.query.is_empty());
        query.consume(done);
        // What a very large request took is not kept for one that may never come.
        if !query.is_empty() || query.capacity() <= QUERY_BUFFER_KEPT_MAX {
            self.query = query;
        }
    }

    /// Bytes of replies that are not with the reactor yet.
    #[must_use]
    pub fn output_size(&self) -> usize {
        self.out.len() + self.lent.size_since(0)
    }

    /// Bytes of the buffer of replies, if it is one that is freed when they are sent, and of what was put aside of them.
    #[must_use]
    pub fn passing_output_bytes(&self) -> u64 {
        let size = self.out.capacity();
        let own = if size > SPARE_BUFFER_SIZE_MAX { size } else { 0 };
        (own + self.lent.portions_size()) as u64
    }

    /// Takes back what was written behind a place in `out`.
    pub fn cut_output(&mut self, mark: usize) {
        self.out.truncate(mark);
        self.lent.forget_since(mark);
    }

    /// Gives memory back that a quiet connection does not need.
    pub fn shrink(&mut self) {
        self.is_quiet = true;
        self.query.shrink_to(0);
        self.out.shrink_to(self.out.len());
    }

    /// Gives memory back that the input of a connection has not needed since the last call.
    pub fn trim_query(&mut self) {
        let needed = std::mem::replace(&mut self.query_peak, self.query.len());
        if self.query.capacity() > QUERY_BUFFER_TRIMMED_MIN.max(2 * needed) {
            self.query.shrink_to(needed.max(QUERY_BUFFER_SIZE_MIN));
        }
    }

    /// Keeps input that can't be executed yet. The buffer grows by doubling, but not beyond the end of a large argument
    /// that has been announced, and never on a client's word alone.
    pub fn keep_input(&mut self, data: &[u8]) {
        self.is_quiet = false;
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

    /// Bytes of its input buffer. An argument that was announced counts as if all of it were there, unless nothing comes:
    /// whether there is room for it is decided before it comes in.
    fn query_capacity(&self) -> usize {
        let announced = if self.is_quiet { 0 } else { self.parser.announced().end };
        self.query.capacity().max(announced)
    }

    /// Bytes of memory that it takes.
    fn memory_bytes(&self) -> u64 {
        let session = &self.session;
        let fixed = size_of::<Self>() + size_of::<ClientRecord>() + session.name.len();
        let queued = session.multi.as_ref().map_or(0, |queue| queue.size());
        let watched = session.watching.as_ref().map_or(0, |watching| watching.memory_bytes());
        let names = session.subscriptions.as_ref().map_or(0, |names| names.memory_bytes());
        (fixed + queued + watched + names) as u64 + counted(self.query_capacity()) + counted(self.pending)
    }

    /// Bytes of input before a large argument that is arriving: they are read, and count as input no more.
    fn parsed_size(&self) -> usize {
        let announced = self.parser.announced();
        if announced.len() < BUFFER_COUNTED_MIN { 0 } else { announced.start.min(self.query.len()) }
    }

    /// Weighs it anew. By how much it has grown, wrapping.
    #[must_use]
    pub fn weigh(&self) -> u64 {
        // What is being closed is as good as gone: others must not be evicted for it.
        if self.closing {
            self.release().wrapping_neg()
        } else {
            self.record.memory_charge.set(self.memory_bytes())
        }
    }

    /// It counts no more. What it did.
    pub fn release(&self) -> u64 {
        self.record.memory_charge.release()
    }

    /// Publishes what others may read of what it means.
    pub fn publish_session(&self) {
        crate::clients::publish(&self.record, &self.session);
    }

    /// Publishes what others may read of its buffers.
    pub fn publish_buffers(&self, statistics: &ThreadStatistics) {
        let record = &self.record;
        let query_size = (self.query.len() - self.parsed_size()) as u64;
        record.query_bytes.set(query_size);
        statistics.input_buffer_max.note(query_size);
        record.query_free_bytes.set((self.query_capacity() - self.query.len()) as u64);
        record.reply_buffer_bytes.set(self.reply_buffer.size() as u64);
        record.reply_buffer_peak.set(self.reply_buffer.peak() as u64);
        self.publish_output(statistics);
    }

    /// Publishes what others may read of its output, and of its memory.
    pub fn publish_output(&self, statistics: &ThreadStatistics) {
        let output_size = counted(self.pending);
        self.record.output_bytes.set(output_size);
        statistics.output_buffer_max.note(output_size);
        self.record.memory_bytes.set(self.record.memory_charge.value());
    }
}

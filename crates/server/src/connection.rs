//! One connection: its client, its input and output, and its end. Owned by the worker that serves it.
//!
//! Invariant: a connection whose client waits, or that is being closed or moved, executes nothing. Its input is kept, unless it
//! is being closed.

pub mod client;
pub mod client_sums;
pub mod encryption;
pub mod input;
pub mod large_argument;
pub mod listeners;
pub mod query_buffer;
pub mod recent_time;
pub mod record;
pub mod registry;
pub mod replica;
mod replica_pipe;
pub mod reply_buffers;
pub mod sending;
pub mod token;
pub mod wait_code;

use std::sync::Arc;

use commands::session::{Session, SessionFlags};
use os::clock::Uptime;
use reactor::ConnectionId;

use self::client::Client;
use self::encryption::Encryption;
use self::input::Input;
use self::large_argument::LargeArgument;
use self::query_buffer::QueryBuffer;
use self::record::ClientRecord;
use self::replica::Replica;
use self::sending::Sending;
use self::token::Token;
use crate::monitoring::statistics::WorkerStatistics;

/// Smaller buffers are not counted, in bytes: they exist for one request only.
const BUFFER_COUNTED_MIN: usize = 16 << 10;

/// The bytes of a buffer of this size that count.
fn size_counted(size: usize) -> u64 {
    if size < BUFFER_COUNTED_MIN { 0 } else { size as u64 }
}

/// A connection.
pub struct Connection {
    /// Its id in the reactor.
    pub id: ConnectionId,
    /// What the executor works on.
    pub client: Client,
    /// What is received and not executed.
    pub input: Input,
    /// What is passed to the reactor.
    pub sending: Sending,
    /// Its TLS; `None`: its bytes are plain.
    pub encryption: Option<Box<Encryption>>,
    /// Whether it is served.
    pub life: Life,
    /// The state that other threads can read.
    pub record: Arc<ClientRecord>,
    /// The replica that it belongs to; `None`: it is another client.
    pub replica: Option<Arc<Replica>>,
    /// The stamp from which it is subscribed in this worker, if it was moved here.
    pub subscribed_since: u64,
}

/// Whether a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its requests are executed.
    Open,
    /// It is being moved to the worker with this number.
    Moving(usize),
    /// It is being closed: no further request is executed.
    Closing(Closing),
}

/// How a connection is being closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// When it is closed although its peer still reads output, if its permissions were revoked.
    pub by: Option<Uptime>,
    /// Its memory charge when it began to be closed at once, in bytes; part of `closing_bytes` until it is removed.
    pub charge: u64,
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
            id,
            client: Client::new(token, session, Some(Arc::clone(&record))),
            input: Input::default(),
            sending: Sending::new(now),
            encryption: None,
            life: Life::Open,
            record,
            replica: None,
            subscribed_since: 0,
        }
    }

    /// Whether it is being closed.
    #[must_use]
    #[inline]
    pub fn is_closing(&self) -> bool {
        matches!(self.life, Life::Closing(_))
    }

    /// Whether it is being moved to another worker.
    #[must_use]
    #[inline]
    pub fn is_moving(&self) -> bool {
        matches!(self.life, Life::Moving(_))
    }

    /// Begins to close it, unless that has begun.
    pub fn close(&mut self) -> &mut Closing {
        if !self.is_closing() {
            self.life = Life::Closing(Closing::default());
        }
        match &mut self.life {
            Life::Closing(closing) => closing,
            Life::Open | Life::Moving(_) => unreachable!("it has just begun"),
        }
    }

    /// Whether it executes nothing now, regardless of new input.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.client.is_waiting() || self.life != Life::Open
    }

    /// Whether it may run, however much of its output is unsent: a script that has begun keeps latches until its end.
    #[must_use]
    pub fn may_continue(&self) -> bool {
        !self.sending.pauses_requests || self.client.session.unfinished.is_some()
    }

    /// Whether `timeout` applies to it now.
    #[must_use]
    pub fn may_time_out(&self) -> bool {
        let session = &self.client.session;
        session.blocked.is_none()
            && self.client.forwarding.is_none()
            && !session
                .flags
                .intersects(SessionFlags::MONITOR | SessionFlags::SUBSCRIBED | SessionFlags::REPLICA)
    }

    /// Keeps input that can't be executed yet.
    pub fn keep_input(&mut self, data: &[u8]) {
        // The bytes of the primary are forwarded as they are, so they stay together.
        let divides = self.client.forwarding.is_none();
        self.input.keep(&mut self.client.parser, data, divides);
    }

    /// Returns the unexecuted rest of the query buffer that was taken out. No input arrives meanwhile.
    pub fn take_query_back(&mut self, query: QueryBuffer, done: usize) {
        self.input.take_query_back(&mut self.client.parser, query, done);
    }

    /// Bytes of output that is passed on, but not encrypted yet.
    #[must_use]
    #[inline]
    pub fn queued_output(&self) -> usize {
        self.encryption.as_ref().map_or(0, |encryption| encryption.stream.queued_size())
    }

    /// Frees memory that a quiet connection does not need.
    pub fn shrink(&mut self) {
        self.input.shrink();
        let replies = &mut self.client.replies.bytes;
        replies.shrink_to(replies.len());
    }

    /// Bytes of memory that it uses.
    fn memory_bytes(&self) -> u64 {
        let fixed = size_of::<Self>() + size_of::<ClientRecord>();
        let encryption = self.encryption.as_ref().map_or(0, |encryption| encryption.stream.memory_bytes());
        (fixed + self.client.memory_bytes() + encryption) as u64
            + size_counted(self.input.capacity(&self.client.parser))
            + self.sending.counted()
    }

    /// Updates its charged memory. Returns by how much it has grown, wrapping. That of a connection that is being closed
    /// at once is released and stays so: other connections must not be evicted for it. As in Redis, those of replicas and of the
    /// primary are not charged: their output has a limit of its own.
    #[must_use]
    pub fn weigh(&self) -> u64 {
        self.record.memory_charge.set(if self.is_charged() { self.memory_bytes() } else { 0 })
    }

    /// Whether its memory counts for `maxmemory-clients`.
    pub fn is_charged(&self) -> bool {
        !self.record.is_primary && !self.client.session.flags.contains(SessionFlags::REPLICA)
    }

    /// Ends its charge. Returns the charged bytes.
    pub fn release(&self) -> u64 {
        self.record.memory_charge.release()
    }

    /// Publishes the session's part of the client record.
    pub fn publish_session(&self) {
        self.record.publish(&self.client.session);
    }

    /// Publishes the buffers' part of the client record.
    pub fn publish_buffers(&self, statistics: &WorkerStatistics) {
        let (record, query, parser) = (&self.record, &self.input.query, &self.client.parser);
        let query_size = if query.is_empty() { 0 } else { self.input.unparsed_size(parser) as u64 };
        record.buffers.query.set(query_size);
        statistics.input_buffer_max.note(query_size);
        let arrived_size = query.argument().map_or(0, LargeArgument::arrived_size);
        let free_size = self.input.capacity(parser) - query.len() - arrived_size;
        record.buffers.query_free.set(free_size as u64);
        record.buffers.reply.set(self.sending.reply_buffer.size() as u64);
        record.buffers.reply_peak.set(self.sending.reply_buffer.peak() as u64);
        self.publish_output(statistics);
    }

    /// Publishes the output and memory in the client record.
    pub fn publish_output(&self, statistics: &WorkerStatistics) {
        let output_size = size_counted(self.sending.pending).max(self.sending.counted());
        self.record.buffers.output.set(output_size);
        statistics.output_buffer_max.note(output_size);
        let size = if self.is_charged() { self.record.memory_charge.value() } else { self.memory_bytes() };
        self.record.memory_bytes.set(size);
    }
}

//! A client as its requests see it: the session, the replies, and the state of the current request. All that the
//! executor works on.
//!
//! It has no socket: the client of a [`Connection`](super::Connection) is served by a worker, the one of a replay reads a
//! file.

use std::sync::Arc;
use std::time::Duration;

use base::DbIndex;
use commands::reply_buffers::ReplyParts;
use commands::session::{BlockReason, Blocked, Session};
use keyspace::{Busy, HeldLatches, Tries, Waiter};
use os::clock::Uptime;
use sync::atomic::{AtomicU64, Ordering};
use wire::request::Parser;

use super::recent_time::RecentTime;
use super::record::ClientRecord;
use super::token::Token;
use crate::scripts::ScriptLatches;

/// The largest buffer that is kept for other replies after its own are sent, in bytes.
pub const SPARE_BUFFER_SIZE_MAX: usize = 64 << 10;

/// See the module documentation.
pub struct Client {
    /// Its token for other threads; changes with its worker.
    pub token: Token,
    /// The client as commands see it.
    pub session: Session,
    /// The parser's state in an incomplete request.
    pub parser: Parser,
    /// The replies that are not sent yet.
    pub replies: Replies,
    /// What the current request waits for.
    pub wait: Wait,
    /// Where other threads find the entry that ends its wait; `None`: none does.
    pub record: Option<Arc<ClientRecord>>,
    /// What is known from earlier attempts to run the current request.
    pub attempt: Attempt,
    /// The other workers' turns that its command waits for.
    pub turns: Turns,
    /// A congested worker to which its requests have sent mail: requests that may send more wait for the end of
    /// the congestion.
    pub congested_target: Option<usize>,
    /// Messages that arrived during its transaction, while one of its scripts is paused.
    pub late_messages: Vec<u8>,
    /// The last line of the server's log that its requests have written, unless it is known to be on disk.
    pub logged: Option<Logged>,
    /// What the primary's requests are forwarded with; `None`: it is not the primary.
    pub forwarding: Option<Box<Forwarding>>,
    /// The time that its requests have taken.
    pub recent_time: RecentTime,
}

/// The stream of the primary as this server passes it on. See `executor/forwarding.rs`.
pub struct Forwarding {
    /// The offset up to which its requests have taken effect.
    pub applied: Arc<AtomicU64>,
    /// The database that is selected in the own log, as far as it follows the stream.
    pub db: DbIndex,
    /// Bytes that have been read and belong to a unit that is not complete: those of a transaction.
    pub pending: Vec<u8>,
    /// The bytes of the current batch up to here are passed on.
    pub mark: usize,
    /// Bytes that are pending since earlier batches, which `applied` does not include.
    pub held: u64,
    /// The offset up to which the stream was kept when the connection came to a worker.
    pub kept_until: u64,
    /// Whether input has come that is no request.
    pub is_out_of_step: bool,
}

impl Forwarding {
    /// One that continues at the offset in `applied`, with the database that the stream has selected, and this many kept
    /// bytes of it.
    #[must_use]
    pub fn new(applied: Arc<AtomicU64>, db: DbIndex, kept_size: usize) -> Self {
        let kept_until = applied.load(Ordering::Relaxed) + kept_size as u64;
        Self { applied, db, pending: Vec::new(), mark: 0, held: 0, kept_until, is_out_of_step: false }
    }
}

/// Replies in the order of their requests.
#[derive(Default)]
pub struct Replies {
    /// Their bytes, without those that are shared.
    pub bytes: Vec<u8>,
    /// Shared reply buffers that belong between the bytes, in order.
    pub parts: ReplyParts,
}

/// What a request waits for. It is the first one of the input that is not executed yet.
///
/// | from | to | by |
/// |---|---|---|
/// | nothing | a latch | the executor, which can't acquire it |
/// | a latch | nothing | the latch's release, a refusal because of a long script, the end of the connection |
/// | nothing | blocked | the executor, if the handler has set `session.blocked`; otherwise the worker, at the end of the batch |
/// | blocked | nothing | the end of the wait, or of the connection |
///
/// When a batch has ended, `session.blocked` is set exactly if the wait is `Blocked`.
#[derive(Default)]
pub enum Wait {
    /// Nothing: it runs, or there is none.
    #[default]
    Nothing,
    /// A latch.
    Latch(ParkedRequest),
    /// What its session's [`Blocked`](commands::session::Blocked) names.
    Blocked(BlockedRequest),
}

/// A request that waits for a latch.
pub struct ParkedRequest {
    /// The latches of lower slots.
    pub held: HeldLatches<'static>,
    /// The slot it waits for.
    pub busy: Busy,
}

/// A request that waits for something other than a latch.
#[derive(Default)]
pub struct BlockedRequest {
    /// The latches that it keeps meanwhile.
    pub held_latches: Option<HeldLatches<'static>>,
    /// Its entry in the queues of its awaited keys; in no queue if it waits for something else.
    pub waiter: Option<Arc<Waiter>>,
    /// Its bytes, and those of its entries in their queues.
    pub size: usize,
    /// When its wait times out.
    pub deadline: Option<Uptime>,
    /// How its wait ends if the writer that is serving it does not end it.
    pub end_requested: Option<UnblockReply>,
    /// How long it has run, in nanoseconds.
    pub ran_ns: u64,
    /// Whether it is not to be answered (`CLIENT REPLY`).
    pub is_muted: bool,
}

/// How a blocked client is woken by `CLIENT UNBLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnblockReply {
    /// As if it had timed out.
    Timeout,
    /// With an error.
    Error,
    /// With an error, because the server has become a replica. The connection is closed.
    RoleChange,
    /// With an error, because the append-only file was switched off that it waits for.
    SwitchedOff,
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
    /// How long its parts have run, if it is unfinished, in nanoseconds.
    pub parts_ns: u64,
    /// Whether it is expected to take long, and its connection is to leave the worker before it.
    pub was_expected_long: bool,
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

/// A line of the log that is to be written before the reply to the request that has logged it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The number of the line.
    pub line: u64,
    /// When the reply is sent even if the line is not written; `None`: the reply does not wait yet.
    pub until: Option<Uptime>,
}

impl Replies {
    /// Their bytes, the shared ones included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + self.parts.size_since(0)
    }

    /// Their bytes after a position in `bytes`.
    #[must_use]
    pub fn size_since(&self, mark: usize) -> usize {
        self.bytes.len().wrapping_sub(mark).wrapping_add(self.parts.size_since(mark))
    }

    /// Bytes of the buffer, if it is freed after the replies are sent, and of the reply chunks.
    #[must_use]
    pub fn passing_bytes(&self) -> u64 {
        let size = self.bytes.capacity();
        let own = if size > SPARE_BUFFER_SIZE_MAX { size } else { 0 };
        (own + self.parts.chunks_size()) as u64
    }

    /// Removes what follows a position in `bytes`.
    pub fn truncate(&mut self, mark: usize) {
        self.bytes.truncate(mark);
        self.parts.truncate_to(mark);
    }
}

impl Wait {
    /// The request, if it waits for a latch.
    #[must_use]
    pub fn parked(&self) -> Option<&ParkedRequest> {
        match self {
            Self::Latch(parked) => Some(parked),
            Self::Nothing | Self::Blocked(_) => None,
        }
    }

    /// Ends the wait for a latch, if it is one.
    pub fn take_parked(&mut self) -> Option<ParkedRequest> {
        match std::mem::take(self) {
            Self::Latch(parked) => Some(parked),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The request, if it waits for something else.
    #[must_use]
    pub fn blocked(&self) -> Option<&BlockedRequest> {
        match self {
            Self::Blocked(blocked) => Some(blocked),
            Self::Nothing | Self::Latch(_) => None,
        }
    }

    /// Begins a wait for a latch.
    pub fn park(&mut self, held: HeldLatches<'static>, busy: Busy) {
        assert!(matches!(self, Self::Nothing), "a request waits for one thing");
        *self = Self::Latch(ParkedRequest { held, busy });
    }

    /// Begins a wait for something other than a latch, unless it has begun.
    pub fn begin(&mut self) -> &mut BlockedRequest {
        if matches!(self, Self::Nothing) {
            *self = Self::Blocked(BlockedRequest::default());
        }
        match self {
            Self::Blocked(blocked) => blocked,
            Self::Nothing | Self::Latch(_) => unreachable!("a request waits for one thing"),
        }
    }

    /// Ends the wait for something other than a latch, if it is one.
    pub fn take_blocked(&mut self) -> Option<BlockedRequest> {
        match std::mem::take(self) {
            Self::Blocked(blocked) => Some(blocked),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Its entry in queues of keys, or of those who can end the wait.
    #[must_use]
    pub fn waiter(&self) -> Option<&Arc<Waiter>> {
        self.blocked()?.waiter.as_ref()
    }
}

impl Client {
    /// A client that has sent nothing yet.
    #[must_use]
    pub fn new(token: Token, session: Session, record: Option<Arc<ClientRecord>>) -> Self {
        Self {
            token,
            session,
            parser: Parser::new(),
            replies: Replies::default(),
            wait: Wait::default(),
            record,
            attempt: Attempt::default(),
            turns: Turns::default(),
            congested_target: None,
            late_messages: Vec::new(),
            logged: None,
            forwarding: None,
            recent_time: RecentTime::default(),
        }
    }

    /// Makes its request wait. `timeout`: for how long at most.
    pub fn block(&mut self, reason: BlockReason, timeout: Option<Duration>) {
        self.session.blocked = Some(Blocked { timeout, reason });
    }

    /// Why its request waits, if it waits for something other than a latch.
    #[must_use]
    pub fn block_reason(&self) -> Option<&BlockReason> {
        self.session.blocked.as_ref().map(|blocked| &blocked.reason)
    }

    /// Whether its request waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.wait.parked().is_some() || self.session.blocked.is_some()
    }

    /// Whether it waits for other workers' turns: answers name its token, which therefore must not change.
    #[must_use]
    pub fn awaits_turns(&self) -> bool {
        matches!(self.block_reason(), Some(BlockReason::Turns | BlockReason::Barrier))
    }

    /// Whether its request is to keep its latches while it waits.
    #[must_use]
    pub fn keeps_latches(&self) -> bool {
        self.block_reason() == Some(&BlockReason::Transfer { keeps_latches: true })
    }

    /// Whether it waits for something that ends soon by itself. Then its requests continue, even if its peer is gone.
    #[must_use]
    pub fn waits_briefly(&self) -> bool {
        matches!(
            self.block_reason(),
            Some(
                BlockReason::Turns
                    | BlockReason::Barrier
                    | BlockReason::Congestion
                    | BlockReason::Log
                    | BlockReason::Save
                    | BlockReason::Free
                    | BlockReason::Transfer { .. }
            )
        )
    }

    /// Whether it waits for room in the write log, whose wake-up names its token.
    #[must_use]
    pub fn awaits_log(&self) -> bool {
        self.block_reason() == Some(&BlockReason::Log)
    }

    /// Whether its replies are written, but must not be sent yet.
    #[must_use]
    pub fn holds_replies(&self) -> bool {
        self.block_reason() == Some(&BlockReason::Barrier)
    }

    /// Bytes of memory that it uses, without those of its replies.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let session = &self.session;
        let queued = session.multi.as_ref().map_or(0, |queue| queue.size());
        let watched = session.watching.as_ref().map_or(0, |watching| watching.memory_bytes());
        let subscribed = session.subscriptions.as_ref().map_or(0, |names| names.memory_bytes());
        let waiting = self.wait.blocked().map_or(0, |blocked| blocked.size) + self.late_messages.capacity();
        session.names.client.len() + queued + watched + subscribed + waiting
    }
}

//! One replica of this server, by its connection: what it has declared, how far it is, and what is to be sent next.
//!
//! A replica's connection is an ordinary connection of a worker. `PSYNC` makes it a replica's, and its worker sends it what
//! follows its cursor in the stream (`worker/replicas.rs`).
//!
//! | state | to | by |
//! |---|---|---|
//! | - | online | `PSYNC` with an offset that the backlog still has |
//! | - | waiting | any other `PSYNC`, `SYNC` |
//! | - | awaiting a channel | `PSYNC` of one that asks for its snapshot on another connection afterwards (Redis) |
//! | - | buffering | `PSYNC` of one whose snapshot is sent on another connection (Valkey) |
//! | waiting | receiving a snapshot | a pass begins (`replication/full_sync.rs`); at its cut the replica gets a cursor |
//! | receiving a snapshot | online | its snapshot is complete and sent |
//! | awaiting a channel | buffering | a pass for its other connection begins; at its cut the replica gets a cursor |
//! | buffering | online | it acknowledges something: its snapshot is loaded |
//! | any of these | gone | the connection ends; the snapshot fails; it falls behind what may be kept |

use std::sync::{Arc, PoisonError};

use commands::declared_replica::{ChannelForm, DeclaredReplica};
use os::clock::Uptime;
use rdb::Family;
use replication::feed::{Cursor, Feed, Lost};
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use super::record::ClientRecord;
use super::replica_pipe::{Pipe, Taken};

/// The most bytes that a replica is sent before its connection is closed.
const LAST_SIZE_MAX: usize = 16 << 20;

/// See the module documentation. Shared by the worker of its connection and the thread that takes its snapshot.
pub struct Replica {
    /// The record of its client.
    pub record: Arc<ClientRecord>,
    /// What it has declared.
    pub declared: DeclaredReplica,
    /// When it began to wait, in milliseconds of the monotonic clock.
    pub since: i64,
    state: AtomicU8,
    /// The offset that it has acknowledged as applied, and as durable; -1: it has acknowledged none, and may still be loading
    /// its snapshot.
    applied: AtomicI64,
    /// See `applied`.
    durable: AtomicI64,
    /// When it last acknowledged something, in milliseconds of the monotonic clock.
    pub acknowledged_at: AtomicI64,
    /// Its snapshot on the way.
    pub pipe: Pipe,
    /// Whether the snapshot is on its way, so that line ends can't be sent any more.
    has_begun: AtomicBool,
    /// Whether the stream waits for the first acknowledgement: a receiver finds the mark of its snapshot's end only at the end
    /// of what it has received.
    awaits_ack: AtomicBool,
    /// When its worker last took something for it, in milliseconds of the monotonic clock.
    pub taken_at: AtomicI64,
    /// The offset up to which it is sent what the stream still has for it before its connection is closed; 0: it is sent nothing.
    last_offset: AtomicU64,
    /// Since when it is too far behind, in milliseconds of the monotonic clock; 0: it is not.
    behind_since: AtomicI64,
    /// The bytes that were received from it when that was last looked at.
    seen_bytes: AtomicU64,
    cursor: Mutex<Option<Arc<Cursor>>>,
}

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It waits for the beginning of a snapshot.
    Waiting,
    /// It receives a snapshot.
    Receiving,
    /// It receives the stream.
    Online,
    /// It is going to ask for a snapshot on another connection, and gets the stream on this one.
    AwaitingChannel,
    /// It receives the stream, and keeps it until its snapshot is loaded, which is sent on another connection.
    Buffering,
    /// Its connection is to be closed.
    Gone,
}

/// What follows for a replica.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes to be sent.
    Bytes,
    /// Nothing now; something wakes its worker.
    Nothing,
    /// The last bytes to be sent, if any: its connection is to be closed after them and earlier output.
    Last,
    /// Its connection is to be closed, for this reason.
    Close(&'static str),
    /// Its connection is to be closed: bytes that it lacks are not kept any more.
    TooFarBehind,
}

impl Replica {
    /// A replica that waits for a snapshot.
    #[must_use]
    pub fn waiting(record: Arc<ClientRecord>, declared: DeclaredReplica) -> Self {
        let now = Uptime::now().to_raw();
        Self {
            record,
            declared,
            since: now,
            state: AtomicU8::new(ReplicaState::Waiting as u8),
            applied: AtomicI64::new(-1),
            durable: AtomicI64::new(-1),
            acknowledged_at: AtomicI64::new(now),
            pipe: Pipe::default(),
            has_begun: AtomicBool::new(false),
            awaits_ack: AtomicBool::new(false),
            taken_at: AtomicI64::new(now),
            last_offset: AtomicU64::new(0),
            behind_since: AtomicI64::new(0),
            seen_bytes: AtomicU64::new(0),
            cursor: Mutex::default(),
        }
    }

    /// One that receives the stream from a cursor on: online, or buffering.
    #[must_use]
    pub fn streaming(
        record: Arc<ClientRecord>,
        declared: DeclaredReplica,
        cursor: Arc<Cursor>,
        state: ReplicaState,
    ) -> Self {
        let replica = Self::waiting(record, declared);
        replica.set_cursor(cursor);
        replica.set_state(state);
        replica
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> ReplicaState {
        match self.state.load(Ordering::Acquire) {
            state if state == ReplicaState::Waiting as u8 => ReplicaState::Waiting,
            state if state == ReplicaState::Receiving as u8 => ReplicaState::Receiving,
            state if state == ReplicaState::Online as u8 => ReplicaState::Online,
            state if state == ReplicaState::AwaitingChannel as u8 => ReplicaState::AwaitingChannel,
            state if state == ReplicaState::Buffering as u8 => ReplicaState::Buffering,
            _ => ReplicaState::Gone,
        }
    }

    /// Changes its state, unless it is gone.
    pub fn set_state(&self, state: ReplicaState) {
        let is_alive = |present| (present != ReplicaState::Gone as u8).then_some(state as u8);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_alive);
    }

    /// Changes its state, if it is in another one. Returns whether it was.
    #[must_use]
    pub fn change_state(&self, from: ReplicaState, to: ReplicaState) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The word for its state in `INFO`.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        match self.state() {
            ReplicaState::Waiting | ReplicaState::AwaitingChannel => "wait_bgsave",
            // With a mark, the snapshot is sent while it is taken.
            ReplicaState::Receiving
                if self.awaits_snapshot()
                    || self.declared.is_channel
                    || self.awaits_ack.load(Ordering::Acquire) =>
            {
                "wait_bgsave"
            }
            ReplicaState::Receiving => "send_bulk",
            ReplicaState::Buffering if self.declared.channel_form == Some(ChannelForm::Redis) => {
                "send_bulk_and_stream"
            }
            ReplicaState::Buffering => "bg_transfer",
            ReplicaState::Online => "online",
            ReplicaState::Gone => "closing",
        }
    }

    /// The word for the purpose of its connection in `INFO`.
    #[must_use]
    pub fn purpose_word(&self) -> &'static str {
        match self.state() {
            _ if self.declared.is_channel => "rdb-channel",
            ReplicaState::Buffering => "main-channel",
            _ => "replica",
        }
    }

    /// Notes that its connection has ended or must end.
    pub fn end(&self) {
        self.set_state(ReplicaState::Gone);
        self.pipe.clear();
    }

    /// As [`Self::end`], but it is sent before what the stream has for it up to an offset (0: nothing), if it takes that soon: a
    /// change of the role must not cost it changes that have been acknowledged.
    pub fn end_after_stream(&self, offset: u64) {
        self.last_offset.store(if self.takes_stream() { offset } else { 0 }, Ordering::Release);
        self.end();
    }

    /// Sets its place in the stream.
    pub fn set_cursor(&self, cursor: Arc<Cursor>) {
        *self.cursor.lock().unwrap_or_else(PoisonError::into_inner) = Some(cursor);
    }

    /// Its place in the stream, once its snapshot has begun.
    #[must_use]
    pub fn cursor(&self) -> Option<Arc<Cursor>> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The family of versions of the format that it reads.
    #[must_use]
    pub fn family(&self) -> Family {
        if self.declared.version.is_some() { Family::Valkey } else { Family::Redis }
    }

    /// Its address, as `INFO` and `ROLE` show it.
    #[must_use]
    pub fn address(&self) -> String {
        if let Some(address) = &self.declared.address {
            return address.clone();
        }
        let peer = &self.record.endpoints.peer;
        let host = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    /// Bytes of the stream that it has not been sent.
    #[must_use]
    pub fn lag(&self, end: u64) -> u64 {
        let offset = self.cursor().and_then(|cursor| cursor.offset().ok());
        offset.map_or(0, |offset| end.saturating_sub(offset))
    }

    /// Notes that its snapshot is on its way. `has_mark`: a mark ends it.
    pub fn begin_snapshot(&self, has_mark: bool) {
        self.awaits_ack.store(has_mark, Ordering::Release);
        self.has_begun.store(true, Ordering::Release);
        self.taken_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
    }

    /// Bytes of memory that wait for it alone.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.pipe.size() as u64 + self.record.memory_bytes.value()
    }

    /// The offset that it has acknowledged as applied; 0: none.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire).max(0).unsigned_abs()
    }

    /// Whether it receives the stream, and has acknowledged that it has applied it up to an offset.
    #[must_use]
    pub fn has_applied(&self, offset: u64) -> bool {
        self.state() == ReplicaState::Online && self.applied.load(Ordering::Acquire) >= signed(offset)
    }

    /// As [`Self::has_applied`], and has it on disk.
    #[must_use]
    pub fn has_durable(&self, offset: u64) -> bool {
        self.state() == ReplicaState::Online && self.durable.load(Ordering::Acquire) >= signed(offset)
    }

    /// Notes an acknowledgement.
    pub fn acknowledge(&self, applied: u64, durable: Option<u64>) {
        self.applied.fetch_max(signed(applied), Ordering::AcqRel);
        if let Some(durable) = durable {
            self.durable.fetch_max(signed(durable), Ordering::AcqRel);
        }
        self.acknowledged_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
        self.awaits_ack.store(false, Ordering::Release);
        let _ = self.change_state(ReplicaState::Buffering, ReplicaState::Online);
    }

    /// For how long it is silent. Whatever it sends counts: it sends line ends while it loads.
    #[must_use]
    pub fn silent_ms(&self, now: Uptime) -> i64 {
        let received = self.record.received_bytes.value();
        if self.seen_bytes.swap(received, Ordering::Relaxed) != received {
            self.acknowledged_at.store(now.to_raw(), Ordering::Relaxed);
        }
        now.to_raw() - self.acknowledged_at.load(Ordering::Relaxed)
    }

    /// For how long it lacks more of the stream than a limit; 0: it does not.
    #[must_use]
    pub fn behind_ms(&self, lag_max: u64, end: u64, now: Uptime) -> i64 {
        let since = match self.behind_since.load(Ordering::Relaxed) {
            _ if self.lag(end) <= lag_max => 0,
            0 => now.to_raw().max(1),
            since => since,
        };
        self.behind_since.store(since, Ordering::Relaxed);
        if since == 0 { 0 } else { now.to_raw() - since }
    }

    /// Whether it is sent the stream, rather than a snapshot.
    #[must_use]
    pub fn receives_stream(&self) -> bool {
        matches!(self.state(), ReplicaState::Online | ReplicaState::Buffering)
    }

    /// Whether the stream is what follows for it.
    fn takes_stream(&self) -> bool {
        !self.awaits_ack.load(Ordering::Acquire)
            && match self.state() {
                ReplicaState::Receiving => self.pipe.is_taken() && !self.declared.only_snapshot,
                _ => self.receives_stream(),
            }
    }

    /// Whether nothing can be sent to it any more, whatever of its earlier output is still unsent.
    #[must_use]
    pub fn must_end(&self) -> bool {
        self.state() == ReplicaState::Gone || self.has_lost_stream()
    }

    /// Whether bytes of the stream that it has not been sent are no longer kept.
    fn has_lost_stream(&self) -> bool {
        self.cursor().is_some_and(|cursor| cursor.offset().is_err())
    }

    /// Whether it expects line ends, so that it knows that its snapshot is still to come.
    #[must_use]
    pub fn awaits_snapshot(&self) -> bool {
        match self.state() {
            ReplicaState::Waiting => true,
            ReplicaState::Receiving => !self.has_begun.load(Ordering::Acquire),
            // What is sent to one that awaits a channel would be taken for the stream.
            ReplicaState::AwaitingChannel
            | ReplicaState::Buffering
            | ReplicaState::Online
            | ReplicaState::Gone => false,
        }
    }

    /// Whether its snapshot is on the way. The last parts may have left the pipe.
    #[must_use]
    pub fn receives_snapshot(&self) -> bool {
        self.state() == ReplicaState::Receiving && self.has_begun.load(Ordering::Acquire)
    }

    /// Appends what is to be sent next to `out`: about `size_max` bytes at most, of the stream only what is below `limit`.
    pub fn next(&self, feed: &Feed, limit: u64, size_max: usize, out: &mut Vec<u8>) -> Next {
        loop {
            match self.state() {
                ReplicaState::Gone => {
                    let last = self.last_offset.swap(0, Ordering::AcqRel);
                    let ends_now = last == 0
                        || self.read_stream(feed, last.min(limit), LAST_SIZE_MAX, out) == Next::TooFarBehind;
                    return if ends_now { Next::Close("it must synchronise again") } else { Next::Last };
                }
                // Whatever it still receives or acknowledges before, it can't go on.
                _ if self.has_lost_stream() => return Next::TooFarBehind,
                ReplicaState::Waiting | ReplicaState::AwaitingChannel => return Next::Nothing,
                ReplicaState::Receiving => match self.pipe.take(size_max, out) {
                    Taken::Some => {
                        self.taken_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
                        return Next::Bytes;
                    }
                    Taken::Nothing => return Next::Nothing,
                    Taken::End if self.declared.only_snapshot => {
                        self.end();
                        return Next::Close("it has its snapshot");
                    }
                    Taken::End => {
                        self.acknowledged_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
                        self.set_state(ReplicaState::Online);
                    }
                },
                ReplicaState::Online if self.awaits_ack.load(Ordering::Acquire) => return Next::Nothing,
                ReplicaState::Online | ReplicaState::Buffering => {
                    return self.read_stream(feed, limit, size_max, out);
                }
            }
        }
    }

    fn read_stream(&self, feed: &Feed, limit: u64, size_max: usize, out: &mut Vec<u8>) -> Next {
        let Some(cursor) = self.cursor() else { return Next::Nothing };
        match feed.read(&cursor, limit, size_max, out) {
            Ok(0) => Next::Nothing,
            Ok(_) => Next::Bytes,
            Err(Lost) => Next::TooFarBehind,
        }
    }
}

/// An offset for comparisons with none. No stream becomes so long that it has no such form.
fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

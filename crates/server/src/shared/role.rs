//! The role of the server: a primary, or a replica with its link to the primary.
//!
//! | state of the link | to | by |
//! |---|---|---|
//! | none: a primary | connect | `REPLICAOF host port` |
//! | connect | connecting | the thread of the link, which begins an attempt |
//! | connecting | handshake | the connection is established |
//! | handshake | sync, connected | the answer of the primary |
//! | sync | connected | the snapshot is loaded |
//! | any of these | connect | the attempt has failed, the connection has ended, another `REPLICAOF host port` |
//! | any of these | none | `REPLICAOF NO ONE` |
//!
//! Each change by a command begins an *epoch*: what belongs to an earlier one is given up.

use std::sync::{Arc, PoisonError};

use base::DbIndex;
use os::clock::{self, Uptime};
use reactor::Waker;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

use super::Shared;
use super::awaited_turns::AwaitedTurns;
use super::modes::GlobalFlags;
use crate::connection::record::ClientRecord;
use crate::logging;
use crate::mail::Mail;

/// The interval of messages about changes that can't be written to the disk.
const UNWRITTEN_INTERVAL_MS: i64 = 10_000;

/// See the module documentation.
#[derive(Default)]
pub struct Role {
    is_replica: AtomicBool,
    /// Whether the primary has asked for the offset that is applied (`REPLCONF GETACK`).
    pub is_asked: AtomicBool,
    /// When it was last logged that a change can't be written to the disk.
    unwritten_at: AtomicI64,
    /// The database that the stream of the primary has selected at the end of the own log, or a little later.
    selected_db: AtomicU32,
    /// The bytes of the stream that are kept until the snapshot is loaded, and the most that were kept in this or the last
    /// synchronisation.
    pub kept: AtomicU64,
    /// See `kept`.
    pub kept_peak: AtomicU64,
    state: Mutex<RoleState>,
}

/// The state under the lock.
#[derive(Default)]
pub struct RoleState {
    /// The primary; `None`: this server is one.
    pub primary: Option<PrimaryName>,
    /// Grows with each change by a command.
    pub epoch: u64,
    /// The link to the primary.
    pub link: LinkState,
    /// When the link was lost, Unix time in seconds; 0: it never was connected.
    pub down_since: i64,
    /// Whether the thread of the link runs.
    pub has_thread: bool,
    /// The database that the stream has selected at the offset that is applied.
    pub stream_db: DbIndex,
    /// The connections with a stream that have not ended, former ones included.
    pub stream_count: u32,
    /// Whether the data are a prefix of a primary's stream, so that the link may ask to continue.
    pub may_continue: bool,
    /// The turns in which the server became a replica: clients may still change data in them.
    turns: AwaitedTurns,
    /// Wakes the thread of the link.
    pub waker: Option<Waker>,
}

/// Where a primary is.
#[derive(Clone, Debug)]
pub struct PrimaryName {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl PartialEq for PrimaryName {
    /// Names have no case.
    fn eq(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

impl Eq for PrimaryName {}

/// The state of the link to the primary.
#[derive(Clone, Default)]
pub enum LinkState {
    /// There is no connection.
    #[default]
    Connect,
    /// One is being established.
    Connecting,
    /// The handshake is under way.
    Handshake,
    /// A snapshot is received or loaded.
    Sync(Arc<Transfer>),
    /// The stream is applied.
    Connected(LinkStream),
}

/// The connection with the stream.
#[derive(Clone)]
pub struct LinkStream {
    /// Its record.
    pub record: Arc<ClientRecord>,
    /// The offset that is applied.
    pub applied: Arc<AtomicU64>,
}

/// The progress of receiving a snapshot.
#[derive(Default)]
pub struct Transfer {
    /// The size in bytes; 0: not known.
    pub total: AtomicU64,
    /// The bytes received.
    pub read: AtomicU64,
    /// When bytes came last, Unix time in seconds.
    pub at: AtomicU64,
}

/// A replica, for `INFO`.
pub struct ReplicaFigures {
    /// Its primary.
    pub primary: PrimaryName,
    /// Whether the stream is being applied.
    pub is_up: bool,
    /// The time since data arrived, in seconds; -1: there is no stream.
    pub silent_seconds: i64,
    /// The offset that is received.
    pub received: i64,
    /// The offset that is applied.
    pub applied: i64,
    /// The snapshot that is being received or loaded.
    pub transfer: Option<TransferFigures>,
    /// The time since the stream ended, in seconds; -1: there was none.
    pub down_seconds: i64,
}

/// The progress of receiving a snapshot, for `INFO`.
pub struct TransferFigures {
    /// The size in bytes; 0: not known.
    pub total: u64,
    /// The bytes received.
    pub read: u64,
    /// The time since bytes came, in seconds.
    pub silent_seconds: i64,
}

impl TransferFigures {
    /// The part that is received, in hundredths; 0 if the size is not known.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.read as f64 * 100.0 / self.total as f64 }
    }
}

impl LinkState {
    /// Its word in `ROLE`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync(_) => "sync",
            Self::Connected(_) => "connected",
        }
    }

    /// The stream, if it is connected.
    #[must_use]
    pub fn stream(&self) -> Option<&LinkStream> {
        match self {
            Self::Connected(stream) => Some(stream),
            _ => None,
        }
    }
}

impl RoleState {
    /// Whether the connection of this record is the one with the stream.
    #[must_use]
    pub fn has_stream(&self, record: &Arc<ClientRecord>) -> bool {
        self.link.stream().is_some_and(|stream| Arc::ptr_eq(&stream.record, record))
    }
}

impl Role {
    /// Notes how many bytes of the stream are kept until the snapshot is loaded.
    pub fn note_kept(&self, size: u64) {
        self.kept.store(size, Ordering::Relaxed);
        self.kept_peak.fetch_max(size, Ordering::Relaxed);
    }

    /// The address of the primary, to which a replica redirects clients.
    #[must_use]
    pub fn redirection(&self) -> Option<String> {
        let state = self.lock();
        state.primary.as_ref().map(|primary| format!("{}:{}", primary.host, primary.port))
    }

    /// Whether the server is a replica.
    #[must_use]
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Acquire)
    }

    /// Notes which database the stream of the primary selects, before the log has the request.
    #[inline]
    pub fn select(&self, db: DbIndex) {
        self.selected_db.store(db.0.into(), Ordering::Release);
    }

    /// The database that the stream of the primary has selected; `None`: the server is a primary.
    #[must_use]
    pub fn applied_db(&self) -> Option<DbIndex> {
        self.is_replica().then(|| DbIndex(self.selected_db.load(Ordering::Acquire) as u16))
    }

    /// Whether a replica has data of its primary, which its own replicas may get.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.lock().link.stream().is_some()
    }

    /// Begins to wait for the turns of these workers, now that the role is visible to them.
    pub fn await_turns(&self, workers: impl Iterator<Item = usize>) {
        self.lock().turns = AwaitedTurns::of(workers);
    }

    /// Notes that a worker has ended a turn since an epoch began. Scripts that go on hold latches, or have changed nothing and
    /// are refused to.
    pub fn note_turn(&self, epoch: u64, worker: usize) {
        let mut state = self.lock();
        if state.epoch == epoch {
            state.turns.note(worker);
        }
    }

    /// The epoch, and the workers whose turns are awaited, of those that exist: others run nothing. `None`: they are not known
    /// yet.
    #[must_use]
    pub fn awaited_turns(&self, exists: impl Fn(usize) -> bool) -> (u64, Option<Vec<usize>>) {
        let mut state = self.lock();
        (state.epoch, state.turns.of_existing(exists))
    }

    /// The state, locked briefly.
    pub fn lock(&self) -> MutexGuard<'_, RoleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread of the link.
    pub fn wake(&self) {
        if let Some(waker) = &self.lock().waker {
            waker.wake();
        }
    }

    /// Sets what wakes the thread of the link.
    pub fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    /// The state of a replica at a Unix time in seconds, whose own stream ends at an offset. `None`: the server is a primary.
    #[must_use]
    pub fn figures(&self, now: i64, end: u64) -> Option<ReplicaFigures> {
        let state = self.lock();
        let primary = state.primary.clone()?;
        let stream = state.link.stream();
        let applied = match stream {
            Some(stream) => stream.applied.load(Ordering::Relaxed) as i64,
            None if state.may_continue => end as i64,
            None => 1,
        };
        let silent_seconds = stream.map_or(-1, |stream| {
            let active_at = Uptime::from_raw(stream.record.active_at.load(Ordering::Relaxed));
            Uptime::now().ms_since(active_at) / 1000
        });
        let transfer = match &state.link {
            LinkState::Sync(transfer) => Some(TransferFigures {
                total: transfer.total.load(Ordering::Relaxed),
                read: transfer.read.load(Ordering::Relaxed),
                silent_seconds: now - transfer.at.load(Ordering::Relaxed) as i64,
            }),
            _ => None,
        };
        let down_seconds = if state.down_since == 0 { -1 } else { now - state.down_since };
        let is_up = stream.is_some();
        Some(ReplicaFigures {
            primary,
            is_up,
            silent_seconds,
            received: applied,
            applied,
            transfer,
            down_seconds,
        })
    }

    /// Changes the primary, and begins an epoch. Returns the stream that ends with it.
    pub fn change_primary(&self, primary: Option<PrimaryName>) -> Option<LinkStream> {
        let mut state = self.lock();
        self.is_replica.store(primary.is_some(), Ordering::Release);
        let stream = state.link.stream().cloned();
        // A link that was down stays so: Sentinel takes the age of the data from it.
        state.down_since = match (&primary, &stream) {
            (None, _) => 0,
            (Some(_), Some(_)) => clock::unix_millis() / 1000,
            (Some(_), None) => state.down_since,
        };
        state.primary = primary;
        state.epoch += 1;
        state.turns = AwaitedTurns::default();
        state.link = LinkState::Connect;
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        stream
    }

    /// Takes the stream out, which is to continue from its offset.
    fn take_stream(&self) -> Option<LinkStream> {
        let mut state = self.lock();
        let stream = state.link.stream().cloned()?;
        state.link = LinkState::Connect;
        state.down_since = clock::unix_millis() / 1000;
        Some(stream)
    }

    /// Notes the end of a connection with the stream. After one that was out of step, the link does not ask to continue: it would
    /// receive the same.
    pub fn note_end(&self, record: &Arc<ClientRecord>, db: DbIndex, is_out_of_step: bool) {
        let mut state = self.lock();
        state.stream_count -= 1;
        state.stream_db = db;
        if state.has_stream(record) {
            state.link = LinkState::Connect;
            state.down_since = clock::unix_millis() / 1000;
            state.may_continue &= !is_out_of_step;
        }
        if let Some(waker) = &state.waker {
            waker.wake();
        }
    }
}

impl Shared {
    /// Notes that a change of the primary can't be written to the own disk.
    ///
    /// # Panics
    /// Unless `replica-ignore-disk-write-errors` is set: as in Redis and Valkey, the process ends.
    #[cold]
    pub fn note_unwritten(&self) {
        assert!(
            self.config.load().replica_ignore_disk_write_errors,
            "Replica was unable to write command to disk."
        );
        let now = clock::unix_millis();
        let logged_at = &self.replication.role.unwritten_at;
        let last = logged_at.load(Ordering::Relaxed);
        if now >= last + UNWRITTEN_INTERVAL_MS
            && logged_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            log::warn!("Replica is applying a command even though it is unable to write to disk.");
        }
    }

    /// Ends the stream of the primary, which is to continue from its offset. Its last requests may still run.
    pub fn interrupt_stream(&self) {
        self.close_stream(self.replication.role.take_stream());
    }

    /// Closes the connection with a stream.
    pub fn close_stream(&self, stream: Option<LinkStream>) {
        let Some(stream) = stream else { return };
        self.clients.remove(stream.record.id);
        let token = stream.record.place();
        self.workers.post(token.thread(), Mail::Kill(token, stream.record.id));
    }

    /// Sets the modes of requests by the role, the link and the configuration. After a promotion, clients change nothing until
    /// the former stream has ended: its requests are recorded as the primary's.
    pub fn follow_role(&self) {
        let state = self.replication.role.lock();
        let config = self.config.load();
        let is_replica = state.primary.is_some();
        let follows = is_replica || state.stream_count > 0;
        let is_down = state.link.stream().is_none();
        let flags = &self.modes.flags;
        let has_changed = flags.is_set(GlobalFlags::REPLICA) != follows;
        if has_changed && !follows {
            // The first change selects its database, whatever the replicas have followed.
            self.keyspace.log.forget_database();
        }
        flags.set(GlobalFlags::REPLICA, follows);
        flags.set(GlobalFlags::READ_ONLY, follows && (!is_replica || config.replica_read_only));
        flags.set(GlobalFlags::STALE, is_replica && is_down && !config.replica_serve_stale_data);
        drop(state);
        logging::set_replica(is_replica);
        if has_changed {
            self.update_workers();
        }
    }
}

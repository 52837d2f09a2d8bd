//! All replicas of the server.

use std::sync::{Arc, PoisonError, Weak};

use base::limits::THREAD_COUNT_MAX;
use os::clock::Uptime;
use persist::snapshots::SnapshotId;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

use super::expected_streams::ExpectedStreams;
use crate::connection::replica::{Replica, ReplicaState};
use crate::mail::{Mail, Workers};

/// See the module documentation.
pub struct Replicas {
    list: Mutex<Vec<Arc<Replica>>>,
    /// The last snapshot that was begun for replicas, and which they are, while they may still receive it.
    pass: Mutex<Option<(SnapshotId, Weak<ServedReplicas>)>>,
    /// The streams that replicas are going to ask for whose snapshots are sent on connections of their own.
    pub expected: ExpectedStreams,
    /// For each worker, whether it waits for acknowledgements.
    waiting: Box<[AtomicBool]>,
    workers: &'static Workers,
    /// When the last replica ended, or replicas began to be awaited, in milliseconds of the monotonic clock.
    ended_at: AtomicI64,
    /// When replicas were last sent a `PING`.
    pub pinged_at: AtomicI64,
    /// Synchronisations with a snapshot, without one, and requests for the latter that could not be met.
    pub full_count: AtomicU64,
    /// See `full_count`.
    pub partial_count: AtomicU64,
    /// See `full_count`.
    pub refused_count: AtomicU64,
    /// Bytes that were sent to replicas.
    pub sent_bytes: AtomicU64,
    /// Whether the log says already that a snapshot for replicas waits for another one.
    pub is_delay_logged: AtomicBool,
}

/// The replicas that a snapshot was begun for.
pub struct ServedReplicas {
    replicas: Vec<Arc<Replica>>,
    /// Whether the log says how many have received all of a snapshot without a file.
    is_end_logged: AtomicBool,
}

impl Replicas {
    /// No replicas.
    #[must_use]
    pub fn new(workers: &'static Workers) -> Self {
        Self {
            list: Mutex::default(),
            pass: Mutex::default(),
            expected: ExpectedStreams::default(),
            waiting: (0..THREAD_COUNT_MAX).map(|_| AtomicBool::new(false)).collect(),
            workers,
            ended_at: AtomicI64::new(Uptime::now().to_raw()),
            pinged_at: AtomicI64::new(0),
            full_count: AtomicU64::new(0),
            partial_count: AtomicU64::new(0),
            refused_count: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            is_delay_logged: AtomicBool::new(false),
        }
    }

    /// All of them, in the order in which they came.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.lock().clone()
    }

    /// All of them, without those that are gone, and without the connections for a snapshot alone of replicas that are in the
    /// list by the other one.
    #[must_use]
    pub fn listed(&self) -> Vec<Arc<Replica>> {
        let list = self.lock();
        let has = |client: u64| list.iter().any(|other| other.record.id == client);
        let is_listed = |replica: &&Arc<Replica>| {
            replica.state() != ReplicaState::Gone
                && !(replica.declared.is_channel && replica.declared.other_client.is_some_and(has))
        };
        list.iter().filter(is_listed).cloned().collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The replica whose client has this id.
    #[must_use]
    pub fn find(&self, client: u64) -> Option<Arc<Replica>> {
        self.lock().iter().find(|replica| replica.record.id == client).cloned()
    }

    /// Whether a replica names this client as its other connection.
    #[must_use]
    pub fn has_channel_of(&self, client: u64) -> bool {
        self.lock().iter().any(|replica| replica.declared.other_client == Some(client))
    }

    /// Notes that the channel of a client has ended: it has not been silent before, as it only received there.
    pub fn note_end_of_channel(&self, client: u64) {
        if let Some(replica) = self.find(client) {
            replica.acknowledged_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
        }
    }

    /// Adds one.
    pub fn add(&self, replica: Arc<Replica>) {
        self.lock().push(replica);
    }

    /// Removes one, whose connection has ended.
    pub fn remove(&self, replica: &Arc<Replica>) {
        replica.end();
        self.lock().retain(|other| !Arc::ptr_eq(other, replica));
        // It may be the one that the line was about.
        self.is_delay_logged.store(false, Ordering::Relaxed);
        self.ended_at.store(Uptime::now().to_raw(), Ordering::Relaxed);
        self.wake_waiting();
    }

    /// Sets the numbers of synchronisations and of sent bytes to zero (`CONFIG RESETSTAT`).
    pub fn reset_counts(&self) {
        for count in [&self.full_count, &self.partial_count, &self.refused_count, &self.sent_bytes] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Replicas are awaited from now on: the server has become a primary.
    pub fn await_from(&self, now: Uptime) {
        self.ended_at.store(now.to_raw(), Ordering::Relaxed);
    }

    /// For how long there was no replica; `None`: there is one.
    #[must_use]
    pub fn absent_ms(&self, now: Uptime) -> Option<i64> {
        self.is_empty().then(|| now.to_raw() - self.ended_at.load(Ordering::Relaxed))
    }

    /// The number of replicas that have acknowledged an offset as applied, and as durable.
    #[must_use]
    pub fn acknowledged(&self, offset: u64) -> (i64, i64) {
        let list = self.lock();
        let applied = list.iter().filter(|replica| replica.has_applied(offset)).count();
        let durable = list.iter().filter(|replica| replica.has_durable(offset)).count();
        (applied as i64, durable as i64)
    }

    /// The number of replicas that have acknowledged something within so many seconds.
    #[must_use]
    pub fn good_count(&self, lag_max: u32, now: Uptime) -> u32 {
        let is_good = |replica: &&Arc<Replica>| {
            let lag_ms = now.to_raw() - replica.acknowledged_at.load(Ordering::Relaxed);
            replica.state() == ReplicaState::Online && lag_ms / 1000 <= i64::from(lag_max)
        };
        self.lock().iter().filter(is_good).count() as u32
    }

    /// Notes an acknowledgement, and wakes the workers that wait for one.
    pub fn acknowledge(&self, client: u64, applied: u64, durable: Option<u64>) {
        let Some(replica) = self.find(client) else { return };
        replica.acknowledge(applied, durable);
        self.wake_waiting();
    }

    /// Makes the next acknowledgement wake a worker. The worker looks at the acknowledgements afterwards.
    pub fn request_wake(&self, thread: usize) {
        self.waiting[thread].store(true, Ordering::SeqCst);
    }

    fn wake_waiting(&self) {
        for (thread, waits) in self.waiting.iter().enumerate() {
            if waits.load(Ordering::SeqCst) && waits.swap(false, Ordering::SeqCst) {
                self.workers.post(thread, Mail::Nothing);
            }
        }
    }

    /// Closes all connections of replicas: they synchronise again.
    pub fn disconnect_all(&self) {
        self.disconnect_all_after(0);
    }

    /// As [`Self::disconnect_all`], after what the stream has for them up to an offset; 0: nothing.
    pub fn disconnect_all_after(&self, offset: u64) {
        for replica in self.all() {
            replica.end_after_stream(offset);
            self.wake(&replica);
        }
    }

    /// Wakes the worker of a replica.
    pub fn wake(&self, replica: &Replica) {
        self.workers.post(replica.record.place().thread(), Mail::Nothing);
    }

    /// The last snapshot for replicas. Locked while one begins, so that the end of a replica is not missed.
    pub fn lock_pass(&self) -> MutexGuard<'_, Option<(SnapshotId, Weak<ServedReplicas>)>> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Replica>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServedReplicas {
    /// These replicas.
    #[must_use]
    pub fn new(replicas: Vec<Arc<Replica>>) -> Self {
        Self { replicas, is_end_logged: AtomicBool::new(false) }
    }

    /// The number of those that are not gone.
    #[must_use]
    pub fn present_count(&self) -> usize {
        self.replicas.iter().filter(|replica| replica.state() != ReplicaState::Gone).count()
    }

    /// Logs, once, that a snapshot without a file is complete.
    pub fn log_end(&self) {
        if !self.is_end_logged.swap(true, Ordering::Relaxed) {
            let count = self.present_count();
            log::info!("Diskless rdb transfer, done reading from pipe, {count} replicas still up.");
        }
    }
}

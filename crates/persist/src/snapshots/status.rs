//! The state of saving, for `INFO` and for save points. Written by few threads, read by all.

use std::sync::PoisonError;

use keyspace::CutDatabase;
use os::clock::{self, Uptime};
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::{SaveKind, SnapshotPurpose};

/// See the module documentation. Times in seconds are Unix times; -1: none.
pub struct Status {
    /// Whether the snapshot that is being taken is a dump, and whether it is one for replicas.
    is_dump: AtomicBool,
    is_for_replicas: AtomicBool,
    /// The start of the running snapshot, in milliseconds of the monotonic clock; 0: none is being taken.
    began_ms: AtomicI64,
    last_save: AtomicI64,
    /// When the last dump began, successful or not; 0: never.
    last_try: AtomicI64,
    has_failed: AtomicBool,
    /// Whether a failure of the running dump is one of saving in the background, after which writes are refused.
    reports_failure: AtomicBool,
    last_duration: AtomicI64,
    save_count: AtomicU64,
    /// Failed dumps since the last successful one.
    failure_count: AtomicU64,
    /// Changes of the data up to the cut of the running snapshot, and of the last successful dump.
    dirty_at_cut: AtomicU64,
    dirty_saved: AtomicU64,
    keys_total: AtomicU64,
    keys_processed: AtomicU64,
    /// Whether a dump is to begin when none is being written (`BGSAVE SCHEDULE`).
    is_scheduled: AtomicBool,
    /// The clients that wait for its end.
    waiting: Mutex<Vec<u64>>,
}

/// A reading of [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveFigures {
    /// Whether a dump is being written, or a snapshot for replicas.
    pub is_saving: bool,
    /// Seconds since it began; -1: none.
    pub current_seconds: i64,
    /// When the last dump was complete.
    pub last_save: i64,
    /// Whether the last dump succeeded.
    pub last_ok: bool,
    /// Seconds that the last dump took; -1: none.
    pub last_seconds: i64,
    /// Number of dumps.
    pub save_count: u64,
    /// Number of failed dumps since the last successful one.
    pub failure_count: u64,
    /// Keys of the running snapshot, and those that are written.
    pub keys_total: u64,
    /// See `keys_total`.
    pub keys_processed: u64,
}

impl Status {
    pub(super) fn new(started_at_seconds: i64) -> Self {
        Self {
            waiting: Mutex::default(),
            is_dump: AtomicBool::new(false),
            is_for_replicas: AtomicBool::new(false),
            began_ms: AtomicI64::new(0),
            last_save: AtomicI64::new(started_at_seconds),
            last_try: AtomicI64::new(0),
            has_failed: AtomicBool::new(false),
            reports_failure: AtomicBool::new(true),
            last_duration: AtomicI64::new(-1),
            save_count: AtomicU64::new(0),
            failure_count: AtomicU64::new(0),
            dirty_at_cut: AtomicU64::new(0),
            dirty_saved: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            keys_processed: AtomicU64::new(0),
            is_scheduled: AtomicBool::new(false),
        }
    }

    /// Sets whether a dump is to begin when none is being written.
    pub fn schedule(&self, on: bool) {
        self.is_scheduled.store(on, Ordering::Relaxed);
    }

    /// Schedules a dump, for whose end a client waits.
    pub fn await_scheduled(&self, client: u64) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.schedule(true);
    }

    /// Removes and returns the clients that wait for the end of the scheduled dump.
    #[must_use]
    pub fn take_waiting(&self) -> Vec<u64> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a dump was scheduled. Clears the schedule.
    pub fn take_scheduled(&self) -> bool {
        self.is_scheduled.swap(false, Ordering::Relaxed)
    }

    pub(super) fn begin(&self, purpose: SnapshotPurpose, now: Uptime) {
        let is_dump = matches!(purpose, SnapshotPurpose::Dump(_));
        let is_foreground = purpose == SnapshotPurpose::Dump(SaveKind::Foreground);
        self.reports_failure.store(!is_foreground, Ordering::Relaxed);
        self.is_dump.store(is_dump, Ordering::Relaxed);
        self.is_for_replicas.store(purpose == SnapshotPurpose::Replicas, Ordering::Relaxed);
        self.began_ms.store(now.to_raw().max(1), Ordering::Relaxed);
        if is_dump {
            self.save_count.fetch_add(1, Ordering::Relaxed);
            self.last_try.store(clock::unix_millis() / 1000, Ordering::Relaxed);
        }
    }

    pub(super) fn cut(&self, dirty: u64, databases: &[CutDatabase]) {
        self.dirty_at_cut.store(dirty, Ordering::Relaxed);
        let keys_total = databases.iter().map(|database| database.population.keys).sum();
        self.keys_total.store(keys_total, Ordering::Relaxed);
        self.keys_processed.store(0, Ordering::Relaxed);
    }

    pub(super) fn processed(&self, key_count: u64) {
        self.keys_processed.store(key_count, Ordering::Relaxed);
    }

    /// `None`: it was cancelled.
    pub(super) fn end(&self, is_ok: Option<bool>) {
        let began_ms = self.began_ms.swap(0, Ordering::Relaxed);
        if self.is_dump.swap(false, Ordering::Relaxed) {
            let seconds = (Uptime::now().to_raw() - began_ms) / 1000;
            self.last_duration.store(seconds, Ordering::Relaxed);
            if is_ok == Some(false) {
                self.failure_count.fetch_add(1, Ordering::Relaxed);
            }
            match is_ok {
                Some(true) => self.saved(self.dirty_at_cut.load(Ordering::Relaxed)),
                Some(false) if !self.reports_failure.load(Ordering::Relaxed) => {}
                Some(false) => self.has_failed.store(true, Ordering::Release),
                None => {}
            }
        }
    }

    /// Records that the data is on disk up to this number of changes: after a dump or a load.
    pub fn saved(&self, dirty: u64) {
        self.dirty_saved.store(dirty, Ordering::Relaxed);
        self.failure_count.store(0, Ordering::Relaxed);
        self.last_save.store(clock::unix_millis() / 1000, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Release);
    }

    /// Changes since the last successful dump; `dirty` is the number of all changes.
    #[must_use]
    pub fn changes_since(&self, dirty: u64) -> u64 {
        dirty.saturating_sub(self.dirty_saved.load(Ordering::Relaxed))
    }

    /// Whether the last dump failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// When the last dump began, in seconds; 0: never.
    #[must_use]
    pub fn last_try(&self) -> i64 {
        self.last_try.load(Ordering::Relaxed)
    }

    /// Whether a dump is being written.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.is_dump.load(Ordering::Relaxed)
    }

    /// Whether the snapshot that is being taken is for replicas.
    #[must_use]
    pub fn is_for_replicas(&self) -> bool {
        self.is_for_replicas.load(Ordering::Relaxed)
    }

    /// All figures.
    #[must_use]
    pub fn figures(&self) -> SaveFigures {
        let began_ms = self.began_ms.load(Ordering::Relaxed);
        let is_base = !self.is_saving() && !self.is_for_replicas.load(Ordering::Relaxed);
        let is_saving = began_ms > 0 && !is_base;
        let is_any = began_ms > 0;
        SaveFigures {
            is_saving,
            current_seconds: if is_saving { (Uptime::now().to_raw() - began_ms) / 1000 } else { -1 },
            last_save: self.last_save.load(Ordering::Relaxed),
            last_ok: !self.has_failed(),
            last_seconds: self.last_duration.load(Ordering::Relaxed),
            save_count: self.save_count.load(Ordering::Relaxed),
            failure_count: self.failure_count.load(Ordering::Relaxed),
            keys_total: if is_any { self.keys_total.load(Ordering::Relaxed) } else { 0 },
            keys_processed: if is_any { self.keys_processed.load(Ordering::Relaxed) } else { 0 },
        }
    }
}

//! The state of the append-only file that `INFO` shows. The values need not be of one instant.

use std::time::Duration;

use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::sync_watch::SyncWatch;

/// The state of the append-only file for `INFO`. The values need not be of one instant.
#[derive(Default)]
pub struct Figures {
    /// Whether a thread writes it.
    pub is_on: AtomicBool,
    /// Whether that thread is ending, so that it takes no further message.
    pub is_ending: AtomicBool,
    /// Bytes of all of its files.
    pub size: AtomicU64,
    /// Bytes of all of its files at the start or after the last rewrite.
    pub base_size: AtomicU64,
    /// The LSN up to which the log is written.
    pub written: AtomicU64,
    /// Microseconds that each write is delayed, for tests (`DEBUG AOF-FLUSH-SLEEP`).
    pub write_delay_us: AtomicU64,
    /// Whether some bytes are written but not synchronised.
    pub is_unsynced: AtomicBool,
    /// The synchronisation under way.
    pub syncing: SyncWatch,
    /// The number of synchronisations that took longer than two seconds, including one that still hangs.
    pub delayed_syncs: AtomicU64,
    /// Whether a rewrite waits for another snapshot to end.
    pub is_rewrite_scheduled: AtomicBool,
    /// Whether a rewrite is under way.
    pub is_rewriting: AtomicBool,
    /// Whether the file has no base yet, so that nothing of it would be loaded, or only the files before it.
    pub is_beginning: AtomicBool,
    /// How many rewrites were requested, and how many of these requests the thread has followed.
    rewrites_requested: AtomicU64,
    rewrites_taken: AtomicU64,
    /// Unix time at which the rewrite under way began, in seconds.
    pub rewrite_began: AtomicI64,
    /// How long the last rewrite took, in seconds; -1: there was none.
    pub rewrite_seconds: AtomicI64,
    /// Whether the last rewrite failed.
    pub rewrite_failed: AtomicBool,
    /// The number of rewrites.
    pub rewrites: AtomicU64,
    /// The number of failed rewrites since the last successful one.
    pub rewrite_failures: AtomicU64,
}

impl Figures {
    pub(super) fn new() -> Self {
        Self { rewrite_seconds: AtomicI64::new(-1), ..Self::default() }
    }

    /// Delays a write if a test requires it.
    pub fn delay_write(&self) {
        let micros = self.write_delay_us.load(Ordering::Relaxed);
        if micros > 0 {
            sync::thread::sleep(Duration::from_micros(micros));
        }
    }

    /// Counts a request for a rewrite before it is sent: from now on `INFO` shows it.
    pub fn note_rewrite_requested(&self) {
        self.rewrites_requested.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests whose effect the other figures show.
    pub fn note_rewrites_taken(&self, count: u64) {
        let requested = self.rewrites_requested.load(Ordering::Relaxed);
        let taken = self.rewrites_taken.load(Ordering::Relaxed);
        self.rewrites_taken.store((taken + count).min(requested), Ordering::Relaxed);
    }

    /// Counts all requests but one as followed: a thread begins, and begins with a rewrite.
    pub fn begin_with_rewrite(&self) {
        let requested = self.rewrites_requested.load(Ordering::Relaxed);
        self.rewrites_taken.store(requested.saturating_sub(1), Ordering::Relaxed);
    }

    /// Counts all requests as followed: there is no thread any more.
    pub fn forget_rewrites_requested(&self) {
        self.rewrites_taken.store(self.rewrites_requested.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether there is a request for a rewrite that the other figures do not show yet.
    #[must_use]
    pub fn is_rewrite_requested(&self) -> bool {
        self.rewrites_taken.load(Ordering::Relaxed) < self.rewrites_requested.load(Ordering::Relaxed)
    }
}

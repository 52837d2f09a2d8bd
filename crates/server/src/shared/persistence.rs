//! Persistence as all threads see it: how far the write log is durable, the messages to the thread that writes the
//! append-only file, and the state that `INFO` shows.

mod sync_watch;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::Lsn;
use base::limits::THREAD_COUNT_MAX;
use config::{Appendfsync, Config};
use os::clock::{self, Uptime};
use sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use sync::thread::JoinHandle;
use sync::write_log::{LogReader, LogWake, WriteLog};
use sync::{Condvar, DurableLsn, Mutex, MutexGuard};

use super::Shared;
use super::modes::GlobalFlags;
use crate::connection::token::Token;
use crate::mail::{Mail, Workers};
use sync_watch::SyncWatch;

/// The state of persistence.
pub struct Persistence {
    /// The LSN up to which the write log is on disk. `WAITAOF` waits for it.
    pub durable: DurableLsn,
    /// The LSN up to which replies are sent with `appendfsync always`. Above `durable` only by what was written while
    /// `no-appendfsync-on-rewrite` suspended synchronisation.
    pub released: DurableLsn,
    /// The append-only file.
    pub append_only: AppendOnly,
}

/// The append-only file as other threads see it.
pub struct AppendOnly {
    /// Wakes the thread that writes it.
    signal: Arc<Signal>,
    messages: Mutex<VecDeque<WriterMessage>>,
    /// The number of the snapshot whose cut is expected.
    expected: Mutex<Option<u64>>,
    /// The LSN of the cut of the rewrite under way; `u64::MAX`: the log is not written up to a cut.
    cut: AtomicU64,
    /// Why writing fails.
    failure: Mutex<Option<String>>,
    /// The working directories in which the files in use are.
    homes: Mutex<Vec<PathBuf>>,
    /// The thread that writes it, or the latest that is to write it once the one before has ended.
    thread: Mutex<Option<WriterThread>>,
    /// The state for `INFO`.
    pub figures: Figures,
}

/// A thread that writes the append-only file.
pub struct WriterThread {
    control: Arc<WriterControl>,
    handle: JoinHandle<()>,
}

/// What other threads order of a thread that writes the append-only file, and read of its end.
pub struct WriterControl {
    /// The LSN up to which it writes; [`NO_END`]: it goes on.
    end: AtomicU64,
    lacks_changes: AtomicBool,
}

const NO_END: u64 = u64::MAX;

impl Default for WriterControl {
    fn default() -> Self {
        Self { end: AtomicU64::new(NO_END), lacks_changes: AtomicBool::new(false) }
    }
}

/// A message for the thread that writes the append-only file.
pub enum WriterMessage {
    /// Rewrite the file; whether its base is to be a snapshot in RDB.
    Rewrite {
        /// See the directive `aof-use-rdb-preamble`.
        is_rdb: bool,
    },
    /// The log is read from here on: this is the cut of the snapshot with this number.
    Attached(u64, LogReader),
    /// The snapshot with this number is complete and becomes the base, or the reason why there is none.
    BaseWritten(u64, Result<(), String>),
}

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

/// The latency monitor's event for synchronisations with this policy.
#[must_use]
pub fn sync_event(policy: Appendfsync) -> &'static str {
    match policy {
        Appendfsync::Always => "aof-fsync-always",
        Appendfsync::Everysec | Appendfsync::No => "aof-fsync-everysec",
    }
}

/// A flag with a thread that waits for it.
#[derive(Default)]
pub struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Sets the flag, and ends the wait.
    pub fn set(&self) {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        *is_set = true;
        self.changed.notify_one();
    }

    /// Waits until the flag is set, for this long at most, and clears it.
    pub fn wait(&self, timeout: Duration) {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let waited = self.changed.wait_timeout(is_set, timeout).unwrap_or_else(PoisonError::into_inner);
            is_set = waited.0;
            if waited.1.timed_out() {
                break;
            }
        }
        *is_set = false;
    }
}

impl Persistence {
    /// Persistence that is off, and the write log that it reads.
    pub(super) fn new(config: &Config, workers: &'static Workers) -> (Self, Arc<WriteLog>) {
        let signal = Arc::new(Signal::default());
        let theirs = Arc::clone(&signal);
        let wake = move |wake| match wake {
            LogWake::Reader(_) => theirs.set(),
            LogWake::Writer(token) => workers.post(Token(token).thread(), Mail::Resume(Token(token))),
        };
        let capacity = config.write_log_size.next_power_of_two() as usize;
        // A worker may begin while the former worker of its handle is still ending.
        let log = WriteLog::new(Lsn(0), capacity, 2 * THREAD_COUNT_MAX, wake);
        let append_only = AppendOnly {
            signal,
            messages: Mutex::default(),
            expected: Mutex::default(),
            cut: AtomicU64::new(u64::MAX),
            failure: Mutex::default(),
            thread: Mutex::default(),
            homes: Mutex::default(),
            figures: Figures { rewrite_seconds: AtomicI64::new(-1), ..Figures::default() },
        };
        let lsn = || DurableLsn::new(Lsn(0), THREAD_COUNT_MAX);
        (Self { durable: lsn(), released: lsn(), append_only }, Arc::new(log))
    }
}

impl WriterThread {
    /// Whether it has ended, so that [`Self::join`] does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Orders the thread to end when it has written the log up to `end`, unless it is ending, and waits for that. Returns whether
    /// the file has all changes.
    pub fn join(self, append_only: &AppendOnly, end: Lsn) -> bool {
        self.control.order_end(end);
        append_only.wake();
        if self.handle.join().is_err() {
            log::error!("The append-only thread has panicked");
            return false;
        }
        !self.control.lacks_changes.load(Ordering::Relaxed)
    }
}

impl WriterControl {
    /// Whether the thread must end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.end() != Lsn(NO_END)
    }

    /// The LSN up to which it writes.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Orders the end of the thread. Of several orders the first one holds.
    fn order_end(&self, end: Lsn) {
        self.end.fetch_min(end.0, Ordering::AcqRel);
    }

    /// Notes that the file ends without some changes.
    pub fn note_lack(&self) {
        self.lacks_changes.store(true, Ordering::Relaxed);
    }
}

impl AppendOnly {
    /// Publishes the working directories in which the files are.
    pub fn set_homes(&self, homes: &[PathBuf]) {
        *self.homes.lock().unwrap_or_else(PoisonError::into_inner) = homes.to_vec();
    }

    /// Whether files that are in use are in this working directory.
    #[must_use]
    pub fn is_home(&self, path: &Path) -> bool {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|home| home == path)
    }

    /// Sends a message to the thread that writes the file.
    pub fn send(&self, message: WriterMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.signal.set();
    }

    /// The oldest message that is not taken yet.
    #[must_use]
    pub fn take_message(&self) -> Option<WriterMessage> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for something to write or a message, for this long at most.
    pub fn wait(&self, reader: Option<&mut LogReader>, timeout: Duration) {
        let Some(reader) = reader else { return self.signal.wait(timeout) };
        if reader.prepare_sleep() {
            self.signal.wait(timeout);
            reader.awake();
        }
    }

    /// Waits for a message, for this long at most. What is logged meanwhile wakes nothing.
    pub fn wait_for_message(&self, timeout: Duration) {
        self.signal.wait(timeout);
    }

    /// Expects the cut of the snapshot with this number.
    pub fn expect_cut(&self, number: u64) {
        *self.expected_cut() = Some(number);
    }

    /// Runs `act` at the cut of the snapshot with this number, unless its rewrite has ended: a snapshot that was cancelled
    /// may reach its cut later, even while the next rewrite expects its own.
    pub fn at_cut(&self, number: u64, act: impl FnOnce()) {
        let expected = self.expected_cut();
        if *expected == Some(number) {
            act();
        }
    }

    fn expected_cut(&self) -> MutexGuard<'_, Option<u64>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the cut of a rewrite. All latches are held for writing, so that the LSN is between two records and no
    /// record behind it can be read before this is seen.
    pub fn set_cut(&self, cut: Lsn) {
        self.cut.store(cut.0, Ordering::Release);
    }

    /// The LSN of a rewrite's cut. Must be loaded after the end of the readable bytes.
    #[must_use]
    pub fn cut(&self) -> Option<Lsn> {
        Some(Lsn(self.cut.load(Ordering::Acquire))).filter(|cut| cut.0 != u64::MAX)
    }

    /// Clears the cut, and expects none: the rewrite's increment begins, or the rewrite has ended.
    pub fn clear_cut(&self) {
        let mut expected = self.expected_cut();
        *expected = None;
        self.cut.store(u64::MAX, Ordering::Release);
    }

    /// Removes the messages for a thread that has ended.
    pub fn clear_orders(&self) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Starts a thread that writes the file, in place of the one before.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn start_thread(
        &self,
        body: impl FnOnce(&Arc<WriterControl>) + Send + 'static,
    ) -> std::io::Result<()> {
        let mut thread = self.thread();
        let control = Arc::new(WriterControl::default());
        let theirs = Arc::clone(&control);
        let builder = sync::thread::Builder::new().name("append-only".to_owned());
        let handle = builder.spawn(move || body(&theirs))?;
        *thread = Some(WriterThread { control, handle });
        Ok(())
    }

    /// The thread that writes the file; `None`: there is none.
    #[must_use]
    pub fn take_thread(&self) -> Option<WriterThread> {
        self.thread().take()
    }

    /// Orders the thread to write and synchronise the log up to `end`, and to end.
    pub fn stop_thread(&self, end: Lsn) {
        if let Some(thread) = &*self.thread() {
            thread.control.order_end(end);
        }
        self.signal.set();
    }

    /// Runs `act` at the end of a thread, unless another one takes its place.
    pub fn at_end_of(&self, control: &Arc<WriterControl>, act: impl FnOnce()) {
        let thread = self.thread();
        if thread.as_ref().is_none_or(|thread| Arc::ptr_eq(&thread.control, control)) {
            act();
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<WriterThread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread's sleep.
    pub fn wake(&self) {
        self.signal.set();
    }

    /// Why writing fails; `None` if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    /// Records why writing the append-only file fails, or that it no longer fails. Writes are refused meanwhile, those
    /// that wait for room in the log, too.
    pub fn note_append_failure(&self, failure: Option<String>) {
        let has_failed = failure.is_some();
        *self.persistence.append_only.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        self.modes.flags.set(GlobalFlags::APPEND_FAILED, has_failed);
        if has_failed {
            self.keyspace.log.wake_writers();
        }
    }

    /// Reports the synchronisation under way if it takes too long. Called regularly.
    pub fn check_sync(&self, now: Uptime) {
        if let Some(delay_ms) = self.persistence.append_only.figures.syncing.take_delay(now) {
            self.report_delayed_sync(delay_ms);
        }
    }

    /// Counts and logs a synchronisation that takes too long.
    pub fn report_delayed_sync(&self, delay_ms: i64) {
        self.persistence.append_only.figures.delayed_syncs.fetch_add(1, Ordering::Relaxed);
        log::warn!(
            "Asynchronous AOF fsync is taking too long (disk is busy?). Clients wait only if the write log is full, \
             or for replies with appendfsync always."
        );
        let config = self.config.load();
        let event = sync_event(config.appendfsync);
        self.note_latency(config.latency_monitor_threshold, event, u64::try_from(delay_ms).unwrap_or(0));
    }

    /// Adds a sample to the latency monitor, if it reaches the threshold.
    pub fn note_latency(&self, threshold: u64, event: &'static str, ms: u64) {
        if threshold > 0 && ms >= threshold {
            self.monitoring.latency.add(event, (clock::unix_millis() / 1000) as u32, ms);
        }
    }

    /// Whether the write log is durable up to an LSN, and changes from before the log was switched on are, too: those are in
    /// the first base. Changes after it was switched off are not in it.
    #[must_use]
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        let figures = &self.persistence.append_only.figures;
        lsn <= self.persistence.durable.end()
            && !figures.is_beginning.load(Ordering::Relaxed)
            && !figures.is_ending.load(Ordering::Acquire)
    }

    /// Advances the durable LSN, and makes the workers send the replies that waited for it.
    pub fn advance_durable(&self, end: Lsn) {
        self.persistence.durable.advance(end, |thread| self.workers.post(thread, Mail::Durable));
        self.release_replies(end);
    }

    /// Makes the workers send the replies that show data up to an LSN.
    pub fn release_replies(&self, end: Lsn) {
        let released = &self.persistence.released;
        if end >= released.end() {
            released.advance(end, |thread| self.workers.post(thread, Mail::Durable));
        }
    }
}

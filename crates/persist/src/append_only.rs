//! The append-only file as all threads see it: how far the write log is durable, the messages to the thread that writes the
//! file, and the state that `INFO` shows.
//!
//! | module | contents |
//! |---|---|
//! | [`manifest`] | [`Manifest`](manifest::Manifest): which files make up the data |
//! | [`files`] | [`AppendOnlyFiles`](files::AppendOnlyFiles): appending, syncing and rewriting, recoverable at any point |
//! | [`writer`] | [`Writer`](writer::Writer): the thread that writes them from the write log |
//! | [`reading`] | [`Reader`](reading::Reader): requests and annotations in the bytes of a file; where a damaged file is still valid |
//! | [`stream`] | positions in the replication stream, in the annotations of a file |
//! | [`check`] | `broadloom check-aof`: checks and repairs files |

pub mod check;
mod figures;
pub mod files;
pub mod manifest;
pub mod reading;
pub mod stream;
mod sync_watch;
pub mod writer;
mod writer_thread;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::Lsn;
use base::limits::THREAD_COUNT_MAX;
use sync::atomic::{AtomicU64, Ordering};
use sync::write_log::LogReader;
use sync::{DurableLsn, Mutex, MutexGuard, Signal};

pub use figures::Figures;
pub use writer_thread::{WriterControl, WriterThread};

/// Wakes the worker of a thread's number.
type WakeThread = Box<dyn Fn(usize) + Send + Sync>;

/// See the module documentation.
pub struct AppendOnly {
    /// The LSN up to which the write log is on disk. `WAITAOF` waits for it.
    pub durable: DurableLsn,
    /// The LSN up to which replies are sent with `appendfsync always`. Above `durable` only by what was written while
    /// `no-appendfsync-on-rewrite` suspended synchronisation.
    pub released: DurableLsn,
    /// The state for `INFO`.
    pub figures: Figures,
    /// Wakes the threads that wait for `durable` or `released`.
    wake_thread: WakeThread,
    /// Wakes the thread that writes the file.
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
    /// The thread that writes the file, or the latest that is to write it once the one before has ended.
    thread: Mutex<Option<WriterThread>>,
    /// Held while one thread takes the place of another, or is ordered to end.
    changing: Mutex<()>,
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

impl AppendOnly {
    /// A file that is off. `wake_thread` wakes the thread of a number that waits for an LSN.
    #[must_use]
    pub fn new(wake_thread: impl Fn(usize) + Send + Sync + 'static) -> Self {
        let lsn = || DurableLsn::new(Lsn(0), THREAD_COUNT_MAX);
        Self {
            durable: lsn(),
            released: lsn(),
            figures: Figures::new(),
            wake_thread: Box::new(wake_thread),
            signal: Arc::default(),
            messages: Mutex::default(),
            expected: Mutex::default(),
            cut: AtomicU64::new(u64::MAX),
            failure: Mutex::default(),
            homes: Mutex::default(),
            thread: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// What wakes the thread that writes the file: the log sets it for its reader.
    #[must_use]
    pub fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    /// Whether the write log is durable up to an LSN, and changes from before the log was switched on are, too: those are in
    /// the first base. Changes after it was switched off are not in it.
    #[must_use]
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable.end()
            && !self.figures.is_beginning.load(Ordering::Relaxed)
            && !self.figures.is_ending.load(Ordering::Acquire)
    }

    /// Advances the durable LSN, and makes the workers send the replies that waited for it.
    pub fn advance_durable(&self, end: Lsn) {
        self.durable.advance(end, &self.wake_thread);
        self.release_replies(end);
    }

    /// Makes the workers send the replies that show data up to an LSN.
    pub fn release_replies(&self, end: Lsn) {
        if end >= self.released.end() {
            self.released.advance(end, &self.wake_thread);
        }
    }

    /// Records why writing fails; `None`: it does not.
    pub(crate) fn set_failure(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

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

    /// Starts a thread that writes the file, in place of the one before, which may still be ending. `show` shows its
    /// beginning: what the one before shows later is ignored.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub(crate) fn start_thread(
        &self,
        show: impl FnOnce(),
        body: impl FnOnce(&Arc<WriterControl>) + Send + 'static,
    ) -> std::io::Result<()> {
        let mut thread = self.thread();
        show();
        *thread = Some(WriterThread::start(body)?);
        Ok(())
    }

    /// The lock to be held while a thread is taken to be replaced by another one. Otherwise two threads could be started, of
    /// which nobody would end one.
    pub fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that writes the file; `None`: there is none.
    #[must_use]
    pub fn take_thread(&self) -> Option<WriterThread> {
        self.thread().take()
    }

    /// Switches the file off. The thread writes and synchronises the log up to the end that `log_end` then reads, and ends.
    pub fn switch_off(&self, log_end: impl FnOnce() -> Lsn) {
        let _changing = self.lock_changes();
        self.figures.is_ending.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread() {
            thread.order_end(log_end());
        }
        self.signal.set();
    }

    /// Ends the file: the thread writes and synchronises the log up to `end`. Blocks until then. Returns whether the file has
    /// all changes.
    pub fn end(&self, end: Lsn) -> bool {
        let thread = {
            let _changing = self.lock_changes();
            self.take_thread()
        };
        thread.is_none_or(|thread| thread.join(self, end))
    }

    /// Runs `act` for a thread that may be ending, unless another one takes its place.
    pub fn at_end_of(&self, control: &Arc<WriterControl>, act: impl FnOnce()) {
        let thread = self.thread();
        if thread.as_ref().is_none_or(|thread| thread.is_controlled_by(control)) {
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

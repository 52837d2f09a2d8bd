//! A thread that writes the append-only file, as seen from the threads that end it.

use std::io;
use std::sync::Arc;

use base::Lsn;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::thread::JoinHandle;

use super::AppendOnly;

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

impl WriterThread {
    /// # Errors
    /// The operating system can't start a thread.
    pub(super) fn start(body: impl FnOnce(&Arc<WriterControl>) + Send + 'static) -> io::Result<Self> {
        let control = Arc::new(WriterControl::default());
        let theirs = Arc::clone(&control);
        let builder = sync::thread::Builder::new().name("append-only".to_owned());
        let handle = builder.spawn(move || body(&theirs))?;
        Ok(Self { control, handle })
    }

    /// Whether it is controlled by this.
    pub(super) fn is_controlled_by(&self, control: &Arc<WriterControl>) -> bool {
        Arc::ptr_eq(&self.control, control)
    }

    /// Orders the thread to write and synchronise the log up to `end`, and to end.
    pub(super) fn order_end(&self, end: Lsn) {
        self.control.order_end(end);
    }

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

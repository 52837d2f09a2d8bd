//! The streams that replicas are going to ask for. A replica with Valkey's separate connection for the snapshot asks for the
//! stream when it has been told the offset at which the snapshot was cut. Until then, a cursor keeps the bytes from there on.

use std::sync::{Arc, PoisonError};

use os::clock::Uptime;
use replication::feed::Cursor;
use sync::atomic::{AtomicI64, Ordering};
use sync::{Mutex, MutexGuard};

/// For how long a stream is expected after the connection with its snapshot has ended, unless it is set, in milliseconds.
const GRACE_MS: i64 = 60_000;

/// See the module documentation.
pub struct ExpectedStreams {
    list: Mutex<Vec<ExpectedStream>>,
    grace_ms: AtomicI64,
}

struct ExpectedStream {
    /// The client of the connection with the snapshot.
    client: u64,
    cursor: Arc<Cursor>,
    /// When it is not expected any more; `None`: its snapshot is still being sent.
    until: Option<Uptime>,
}

/// A stream that is not expected any more.
pub struct OverdueStream {
    /// The client of the connection with the snapshot.
    pub client: u64,
    /// Where it begins.
    pub cursor: Arc<Cursor>,
    /// Whether its bytes were too many to be kept. Otherwise the time is over.
    pub is_lost: bool,
}

impl Default for ExpectedStreams {
    fn default() -> Self {
        Self { list: Mutex::default(), grace_ms: AtomicI64::new(GRACE_MS) }
    }
}

impl ExpectedStreams {
    /// Sets for how long one is expected after the connection with its snapshot has ended.
    pub fn set_grace(&self, seconds: i64) {
        self.grace_ms.store(seconds.saturating_mul(1000).clamp(0, i64::from(u32::MAX)), Ordering::Relaxed);
    }

    /// Expects a request for the stream from a cursor on.
    pub fn add(&self, client: u64, cursor: Arc<Cursor>) {
        self.lock().push(ExpectedStream { client, cursor, until: None });
    }

    /// Whether one is expected that belongs to a client with a snapshot.
    #[must_use]
    pub fn has(&self, client: u64) -> bool {
        self.lock().iter().any(|stream| stream.client == client)
    }

    /// The number of those expected.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Ends the expectation of one. Returns its cursor.
    #[must_use]
    pub fn take(&self, client: u64) -> Option<Arc<Cursor>> {
        let mut streams = self.lock();
        let index = streams.iter().position(|stream| stream.client == client)?;
        Some(streams.swap_remove(index).cursor)
    }

    /// Notes that the connection with the snapshot has ended.
    pub fn note_end(&self, client: u64, now: Uptime) {
        if let Some(stream) = self.lock().iter_mut().find(|stream| stream.client == client) {
            stream.until = Some(now.plus_ms(self.grace_ms.load(Ordering::Relaxed)));
        }
    }

    /// Ends the expectation of those whose time is over, or whose bytes are not kept any more.
    #[must_use]
    pub fn take_overdue(&self, now: Uptime) -> Vec<OverdueStream> {
        let mut streams = self.lock();
        let is_lost = |stream: &ExpectedStream| stream.cursor.offset().is_err();
        let is_overdue =
            |stream: &mut ExpectedStream| is_lost(stream) || stream.until.is_some_and(|until| now > until);
        let overdue = streams.extract_if(.., is_overdue);
        overdue
            .map(|stream| {
                let is_lost = is_lost(&stream);
                OverdueStream { client: stream.client, cursor: stream.cursor, is_lost }
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ExpectedStream>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

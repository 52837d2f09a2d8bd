//! The streams that replicas are going to ask for. A replica with Valkey's separate connection for the snapshot asks for the
//! stream when it has been told the offset at which the snapshot was cut. Until then, a cursor keeps the bytes from there on.

use std::sync::{Arc, PoisonError};

use os::clock::Uptime;
use replication::feed::Cursor;
use sync::{Mutex, MutexGuard};

/// For how long a stream is expected after the connection with its snapshot has ended, in milliseconds.
const GRACE_MS: i64 = 60_000;

/// See the module documentation.
#[derive(Default)]
pub struct ExpectedStreams(Mutex<Vec<ExpectedStream>>);

struct ExpectedStream {
    /// The client of the connection with the snapshot.
    client: u64,
    cursor: Arc<Cursor>,
    /// When it is not expected any more; `None`: its snapshot is still being sent.
    until: Option<Uptime>,
}

impl ExpectedStreams {
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
            stream.until = Some(now.plus_ms(GRACE_MS));
        }
    }

    /// Ends the expectation of those whose time is over, or whose bytes are not kept any more. Returns their clients and cursors.
    #[must_use]
    pub fn take_overdue(&self, now: Uptime) -> Vec<(u64, Arc<Cursor>)> {
        let mut streams = self.lock();
        let is_overdue = |stream: &mut ExpectedStream| {
            stream.cursor.offset().is_err() || stream.until.is_some_and(|until| now > until)
        };
        streams.extract_if(.., is_overdue).map(|stream| (stream.client, stream.cursor)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ExpectedStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

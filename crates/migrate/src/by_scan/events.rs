//! The keys that the source changes, by its keyspace events, received on a thread and a connection of their own.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tool::interrupt;
use wire::response::{Reply, encode_command};

use crate::connection::Connection;
use crate::error::MigrateError;
use crate::server::Server;
use crate::servers::DatabaseKey;

/// Time in which the thread notices a request of the main thread.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Changed keys that are kept; with more, the subscription counts as lost.
const CHANGED_MAX: usize = 5_000_000;

#[derive(Default)]
struct Shared {
    changed: Mutex<HashSet<DatabaseKey>>,
    /// The last mark that is wanted, and the last that has come back.
    wanted_mark: AtomicU64,
    seen_mark: AtomicU64,
    is_ending: AtomicBool,
    lost: Mutex<Option<String>>,
}

/// A subscription to all keyspace events. Ends when it is dropped.
pub struct Events {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    server: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// Subscribes.
    pub fn subscribe(server: &Server) -> Result<Self, MigrateError> {
        let failed = |source| MigrateError::Connection { server: server.name(), source };
        let mut connection = server.connection()?;
        if let Reply::Error(text) = connection.call(&["PSUBSCRIBE", "__keyevent@*__:*"]).map_err(failed)? {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(MigrateError::server(server.name(), format!("PSUBSCRIBE: {text}")));
        }
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            if let Err(error) = receive(&mut connection, &of_thread) {
                *lock(&of_thread.lost) = Some(error.to_string());
            }
        });
        Ok(Self { shared, thread: Some(thread), server: server.name() })
    }

    /// Waits until every event has arrived that the source had sent before this call, and takes the changed keys.
    pub fn take(&self, time_max: Duration) -> Result<Vec<DatabaseKey>, MigrateError> {
        let mark = self.shared.wanted_mark.fetch_add(1, Ordering::SeqCst) + 1;
        let deadline = Instant::now() + time_max;
        while self.shared.seen_mark.load(Ordering::SeqCst) < mark {
            if let Some(reason) = lock(&self.shared.lost).as_ref() {
                let text = format!(
                    "the subscription to its keyspace events was lost ({reason}), so changes are missing"
                );
                return Err(MigrateError::server(self.server.clone(), text));
            }
            if Instant::now() >= deadline {
                return Err(MigrateError::server(
                    self.server.clone(),
                    "its keyspace events do not arrive in time",
                ));
            }
            interrupt::sleep(Duration::from_millis(1))?;
        }
        let mut keys: Vec<DatabaseKey> = lock(&self.shared.changed).drain().collect();
        keys.sort_unstable();
        Ok(keys)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

fn receive(connection: &mut Connection, shared: &Shared) -> io::Result<()> {
    let mut sent_mark = 0;
    while !shared.is_ending.load(Ordering::SeqCst) {
        let wanted_mark = shared.wanted_mark.load(Ordering::SeqCst);
        if wanted_mark > sent_mark {
            let mut request = Vec::new();
            encode_command(&["PING", &wanted_mark.to_string()], &mut request);
            connection.send(&request)?;
            sent_mark = wanted_mark;
        }
        let Some(message) = connection.poll(POLL_INTERVAL)? else { continue };
        match message.elements() {
            // The reply to PING comes after the events that the server sent before it.
            Some([kind, mark]) if kind.text() == Some(b"pong") => {
                let mark = mark.text().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                shared.seen_mark.store(mark.unwrap_or_default(), Ordering::SeqCst);
            }
            Some([_, _, channel, key]) => {
                let database = channel.text().and_then(database_of);
                if let Some(event) = database.zip(key.text().map(<[u8]>::to_vec)) {
                    let mut changed = lock(&shared.changed);
                    changed.insert(event);
                    if changed.len() > CHANGED_MAX {
                        return Err(io::Error::other(format!("more than {CHANGED_MAX} keys have changed")));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the number in `__keyevent@0__:set`.
fn database_of(channel: &[u8]) -> Option<u32> {
    let (number, _) = std::str::from_utf8(channel).ok()?.strip_prefix("__keyevent@")?.split_once("__:")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_in_the_channel() {
        assert_eq!(database_of(b"__keyevent@12__:set"), Some(12));
        assert_eq!(database_of(b"__keyspace@12__:set"), None);
    }
}

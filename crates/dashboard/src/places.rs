//! The places of connections. When all are taken, a new connection takes the place of another: of one that has made no request
//! yet, else of the one whose last request is the oldest. So idle or slow clients do not keep others out.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::task::AbortHandle;

/// See the module documentation.
#[derive(Default)]
pub struct Places(Mutex<Open>);

#[derive(Default)]
struct Open {
    connections: Vec<Connection>,
    next_number: u64,
}

struct Connection {
    number: u64,
    progress: Progress,
    /// The time of its last request, or of its start.
    active_at: Instant,
    task: AbortHandle,
}

/// In the order in which connections are ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    NoRequest,
    Requests,
    /// It receives events, and so makes no further request.
    Events,
}

/// A connection's place; free again when this is dropped.
pub struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Reserves a place for a task that is about to be given to [`Self::start`].
    pub fn reserve(self: &Arc<Self>) -> Place {
        let mut open = self.lock();
        open.next_number += 1;
        Place { number: open.next_number, places: Arc::clone(self) }
    }

    /// Gives the place to the task of a connection, and ends another one if there are more than `count_max`.
    pub fn start(&self, number: u64, task: AbortHandle, count_max: usize) {
        let mut open = self.lock();
        if open.connections.len() >= count_max {
            let oldest = open
                .connections
                .iter()
                .enumerate()
                .min_by_key(|(_, connection)| (connection.progress, connection.active_at))
                .map(|(index, _)| index);
            if let Some(index) = oldest {
                open.connections.swap_remove(index).task.abort();
            }
        }
        let progress = Progress::NoRequest;
        open.connections.push(Connection { number, progress, active_at: Instant::now(), task });
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Place {
    /// For [`Places::start`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes a request.
    pub fn note_request(&self) {
        self.note(Progress::Requests);
    }

    /// Notes that the connection receives events.
    pub fn note_events(&self) {
        self.note(Progress::Events);
    }

    fn note(&self, progress: Progress) {
        let mut open = self.places.lock();
        if let Some(connection) =
            open.connections.iter_mut().find(|connection| connection.number == self.number)
        {
            connection.active_at = Instant::now();
            connection.progress = connection.progress.max(progress);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().connections.retain(|connection| connection.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let places = Arc::new(Places::default());
            let begin = || {
                let place = places.reserve();
                let task = tokio::spawn(std::future::pending::<()>());
                places.start(place.number(), task.abort_handle(), 3);
                (place, task)
            };
            let mut connections: Vec<_> = (0..3).map(|_| begin()).collect();
            connections[0].0.note_request();
            connections[1].0.note_events();
            connections.push(begin());
            connections.push(begin());
            // Ended tasks end when they run.
            tokio::task::yield_now().await;
            let ended: Vec<bool> = connections.iter().map(|(_, task)| task.is_finished()).collect();
            // The third had no request, then the fourth.
            assert_eq!(ended, [false, false, true, true, false]);
            drop(connections);
            assert_eq!(places.lock().connections.len(), 0);
        });
    }
}

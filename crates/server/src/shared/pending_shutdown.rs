//! A shutdown that waits for replicas or saves the data first.
//!
//! | from | to | by |
//! |---|---|---|
//! | none | awaiting | [`PendingShutdown::begin_waiting`]: writes are paused, replicas lack changes |
//! | awaiting | awaiting | [`PendingShutdown::join`]: a further client waits for the same end |
//! | awaiting | none | [`PendingShutdown::take_waiting`]: replicas have everything, or the time is over |
//! | none | pending | [`PendingShutdown::begin`]: writes are paused |
//! | pending | saving | [`PendingShutdown::begin_saving`], once no other snapshot is being taken |
//! | saving | pending | [`PendingShutdown::save_again`]: a write was made in between |
//! | awaiting, pending, saving | none | [`PendingShutdown::take`]: the server ends, or the shutdown failed or was aborted |

use std::sync::PoisonError;

use os::clock::Uptime;
use sync::atomic::{AtomicBool, Ordering};
use sync::{Mutex, MutexGuard};

/// See the module documentation.
#[derive(Default)]
pub struct PendingShutdown {
    is_pending: AtomicBool,
    /// Whether a signal could not end the server, so that the next one does.
    has_failed: AtomicBool,
    /// Whether the server ends, because of a signal, without changes that should have been saved.
    has_lost: AtomicBool,
    state: Mutex<Option<State>>,
}

/// A shutdown that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    origin: Origin,
    is_saving: bool,
    /// Until when replicas are awaited; `None`: they are not.
    deadline: Option<Uptime>,
}

/// The origin of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The clients that receive a reply if it fails; none: a signal.
    pub clients: Vec<u64>,
    /// Whether the data is saved; `None`: if there are save points.
    pub save: Option<bool>,
    /// Whether the server ends even if the data can't be saved.
    pub force: bool,
}

impl PendingShutdown {
    /// Whether a shutdown is pending.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Begins a shutdown. `false`: one is already pending.
    #[must_use]
    pub fn begin(&self, origin: Origin) -> bool {
        let mut state = self.lock();
        if state.is_some() {
            return false;
        }
        *state = Some(State { origin, is_saving: false, deadline: None });
        self.is_pending.store(true, Ordering::Release);
        true
    }

    /// Begins a shutdown that waits for replicas. `false`: one is already pending.
    #[must_use]
    pub fn begin_waiting(&self, origin: Origin, deadline: Uptime) -> bool {
        let is_begun = self.begin(origin);
        if is_begun && let Some(state) = &mut *self.lock() {
            state.deadline = Some(deadline);
        }
        is_begun
    }

    /// Adds a client, if any, to a shutdown that waits for replicas. `false`: there is none.
    #[must_use]
    pub fn join(&self, client: Option<u64>) -> bool {
        let mut state = self.lock();
        let waiting = state.as_mut().filter(|state| state.deadline.is_some());
        let is_waiting = waiting.is_some();
        if let Some(state) = waiting {
            state.origin.clients.extend(client);
        }
        is_waiting
    }

    /// Until when replicas are awaited.
    #[must_use]
    pub fn deadline(&self) -> Option<Uptime> {
        self.lock().as_ref()?.deadline
    }

    /// Ends the wait for replicas, with the shutdown, which is then to be begun again.
    pub fn take_waiting(&self) -> Option<Origin> {
        let mut state = self.lock();
        state.as_ref()?.deadline?;
        let origin = state.take().map(|state| state.origin);
        self.is_pending.store(false, Ordering::Release);
        origin
    }

    /// Whether saving must begin now.
    #[must_use]
    pub fn begin_saving(&self) -> bool {
        self.lock().as_mut().is_some_and(|state| !std::mem::replace(&mut state.is_saving, true))
    }

    /// Saving has not begun, or must be repeated.
    pub fn save_again(&self) {
        if let Some(state) = &mut *self.lock() {
            state.is_saving = false;
        }
    }

    /// Ends the pending shutdown.
    pub fn take(&self) -> Option<Origin> {
        let state = self.lock().take();
        self.is_pending.store(false, Ordering::Release);
        state.map(|state| state.origin)
    }

    /// Notes that a signal could not end the server.
    pub fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Notes that the data can be saved again: the next signal is the first one.
    pub fn clear_failure(&self) {
        self.has_failed.store(false, Ordering::Relaxed);
    }

    /// Whether an earlier signal could not end the server.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes that the server ends without changes that should have been saved.
    pub fn note_loss(&self) {
        self.has_lost.store(true, Ordering::Relaxed);
    }

    /// Whether the server ends without changes that should have been saved.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

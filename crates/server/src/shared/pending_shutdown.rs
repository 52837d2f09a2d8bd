//! A shutdown that waits for replicas or saves the data first.
//!
//! | from | to | by |
//! |---|---|---|
//! | none | awaiting | [`PendingShutdown::begin_waiting`]: writes are paused; turns of workers, and then replicas, are awaited |
//! | awaiting | awaiting | [`PendingShutdown::join`]: a further client waits for the same end |
//! | awaiting | none | [`PendingShutdown::take_waiting`]: replicas have everything, or the time is over |
//! | none | pending | [`PendingShutdown::begin`]: writes are paused |
//! | pending | saving | [`PendingShutdown::begin_saving`], once no other snapshot is being taken |
//! | saving | pending | [`PendingShutdown::save_again`]: a write was made in between |
//! | awaiting, pending, saving | none | [`PendingShutdown::take`]: the server ends, or the shutdown failed or was aborted |

use std::sync::PoisonError;

use os::clock::Uptime;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

use super::awaited_turns::AwaitedTurns;

/// See the module documentation.
#[derive(Default)]
pub struct PendingShutdown {
    is_pending: AtomicBool,
    /// Whether a signal could not end the server, so that the next one does.
    has_failed: AtomicBool,
    /// Whether the server ends, because of a signal, without changes that should have been saved.
    has_lost: AtomicBool,
    /// The number of waits for replicas that have begun.
    wait_count: AtomicU64,
    state: Mutex<Option<State>>,
}

/// A shutdown that is not complete.
#[derive(Debug)]
struct State {
    origin: Origin,
    is_saving: bool,
    wait: Option<Wait>,
}

/// A wait for replicas.
#[derive(Debug)]
struct Wait {
    /// Until when.
    deadline: Uptime,
    /// Its number, in the answers of workers.
    number: u64,
    /// The turns in which writes were paused: they may still write.
    turns: AwaitedTurns,
    /// Whether the log says that replicas are awaited.
    is_logged: bool,
}

/// What follows for a shutdown that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStep {
    /// Nothing yet.
    Wait,
    /// Replicas are awaited from now on.
    Begun,
    /// The shutdown goes on.
    Over,
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
        self.begin_with(origin, None)
    }

    fn begin_with(&self, origin: Origin, wait: Option<Wait>) -> bool {
        let mut state = self.lock();
        if state.is_some() {
            return false;
        }
        *state = Some(State { origin, is_saving: false, wait });
        self.is_pending.store(true, Ordering::Release);
        true
    }

    /// Begins a shutdown that waits for replicas. Returns the number of the wait; `None`: a shutdown is already pending.
    #[must_use]
    pub fn begin_waiting(&self, origin: Origin, deadline: Uptime) -> Option<u64> {
        let number = self.wait_count.fetch_add(1, Ordering::Relaxed) + 1;
        let wait = Wait { deadline, number, turns: AwaitedTurns::default(), is_logged: false };
        self.begin_with(origin, Some(wait)).then_some(number)
    }

    /// Adds a client, if any, to a shutdown that waits for replicas. `false`: there is none.
    #[must_use]
    pub fn join(&self, client: Option<u64>) -> bool {
        let mut state = self.lock();
        let waiting = state.as_mut().filter(|state| state.wait.is_some());
        let is_waiting = waiting.is_some();
        if let Some(state) = waiting {
            state.origin.clients.extend(client);
        }
        is_waiting
    }

    /// Until when replicas are awaited; `None`: they are not.
    #[must_use]
    pub fn deadline(&self) -> Option<Uptime> {
        wait_of(&mut self.lock()).map(|wait| wait.deadline)
    }

    /// Begins to wait for the turns of these workers, now that the pause is visible to them.
    pub fn await_turns(&self, number: u64, workers: impl Iterator<Item = usize>) {
        if let Some(wait) = wait_of(&mut self.lock()).filter(|wait| wait.number == number) {
            wait.turns = AwaitedTurns::of(workers);
        }
    }

    /// Notes that a worker has ended its turn. Returns whether it was the last one.
    #[must_use]
    pub fn note_turn(&self, number: u64, worker: usize) -> bool {
        let mut state = self.lock();
        let wait = wait_of(&mut state).filter(|wait| wait.number == number);
        wait.is_some_and(|wait| wait.turns.note(worker))
    }

    /// The number of the wait, and the workers whose turns are awaited, of those that exist: others run nothing. `None`: there
    /// is no wait.
    #[must_use]
    pub fn awaited_turns(&self, exists: impl Fn(usize) -> bool) -> Option<(u64, Vec<usize>)> {
        let mut state = self.lock();
        let wait = wait_of(&mut state)?;
        Some((wait.number, wait.turns.of_existing(exists).unwrap_or_default()))
    }

    /// Looks whether a shutdown that waits goes on, by whether replicas have everything, which is not asked for before all
    /// turns have ended.
    #[must_use]
    pub fn continue_wait(&self, now: Uptime, have_all: impl FnOnce() -> bool) -> WaitStep {
        let mut state = self.lock();
        let Some(wait) = wait_of(&mut state) else { return WaitStep::Wait };
        if now >= wait.deadline || wait.turns.have_ended() && have_all() {
            return WaitStep::Over;
        }
        match std::mem::replace(&mut wait.is_logged, wait.turns.have_ended()) {
            false if wait.is_logged => WaitStep::Begun,
            _ => WaitStep::Wait,
        }
    }

    /// Ends the wait for replicas, with the shutdown, which is then to be begun again.
    pub fn take_waiting(&self) -> Option<Origin> {
        let mut state = self.lock();
        state.as_ref()?.wait.as_ref()?;
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

    /// Whether nothing is awaited but the save of the data, whose place in the stream is to be its end.
    #[must_use]
    pub fn holds_stream_end(&self) -> bool {
        self.is_pending() && self.deadline().is_none()
    }

    /// Ends the pending shutdown.
    pub fn take(&self) -> Option<Origin> {
        Some(self.take_with_save()?.0)
    }

    /// Ends the pending shutdown. Returns also whether its save has begun.
    pub fn take_with_save(&self) -> Option<(Origin, bool)> {
        let state = self.lock().take();
        self.is_pending.store(false, Ordering::Release);
        state.map(|state| (state.origin, state.is_saving))
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

fn wait_of(state: &mut Option<State>) -> Option<&mut Wait> {
    state.as_mut()?.wait.as_mut()
}

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
    /// The number of shutdowns that have begun.
    count: AtomicU64,
    state: Mutex<Option<State>>,
    transition: Mutex<()>,
}

/// A shutdown that is not complete.
#[derive(Debug)]
struct State {
    /// Its number, in the answers of workers and of its save.
    number: u64,
    origin: Origin,
    is_saving: bool,
    wait: Option<Wait>,
}

/// A wait for replicas.
#[derive(Debug)]
struct Wait {
    /// Until when.
    deadline: Uptime,
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
        self.begin_with(origin, None).is_some()
    }

    fn begin_with(&self, origin: Origin, wait: Option<Wait>) -> Option<u64> {
        let mut state = self.lock();
        if state.is_some() {
            return None;
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        *state = Some(State { number, origin, is_saving: false, wait });
        self.is_pending.store(true, Ordering::Release);
        Some(number)
    }

    /// Makes a transition exclusive, with the change of the pause that belongs to it: without this, the end of a shutdown could
    /// end the pause of the next one.
    pub fn hold_transition(&self) -> MutexGuard<'_, ()> {
        self.transition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a shutdown that waits for replicas. Returns its number; `None`: a shutdown is already pending.
    #[must_use]
    pub fn begin_waiting(&self, origin: Origin, deadline: Uptime) -> Option<u64> {
        self.begin_with(origin, Some(Wait { deadline, turns: AwaitedTurns::default(), is_logged: false }))
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
        wait_of(&mut self.lock(), None).map(|wait| wait.deadline)
    }

    /// Begins to wait for the turns of these workers, now that the pause is visible to them.
    pub fn await_turns(&self, number: u64, workers: impl Iterator<Item = usize>) {
        if let Some(wait) = wait_of(&mut self.lock(), Some(number)) {
            wait.turns = AwaitedTurns::of(workers);
        }
    }

    /// Notes that a worker has ended its turn. Returns whether it was the last one.
    #[must_use]
    pub fn note_turn(&self, number: u64, worker: usize) -> bool {
        wait_of(&mut self.lock(), Some(number)).is_some_and(|wait| wait.turns.note(worker))
    }

    /// The number of the wait, and the workers whose turns are awaited, of those that exist: others run nothing. `None`: there
    /// is no wait.
    #[must_use]
    pub fn awaited_turns(&self, exists: impl Fn(usize) -> bool) -> Option<(u64, Vec<usize>)> {
        let mut state = self.lock();
        let number = state.as_ref()?.number;
        Some((number, wait_of(&mut state, None)?.turns.of_existing(exists).unwrap_or_default()))
    }

    /// Looks whether a shutdown that waits goes on, by whether replicas have everything, which is not asked for before all
    /// turns have ended.
    #[must_use]
    pub fn continue_wait(&self, now: Uptime, have_all: impl FnOnce() -> bool) -> WaitStep {
        let mut state = self.lock();
        let Some(wait) = wait_of(&mut state, None) else { return WaitStep::Wait };
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

    /// Whether saving must begin now: the number of the shutdown.
    #[must_use]
    pub fn begin_saving(&self) -> Option<u64> {
        let mut state = self.lock();
        let state = state.as_mut().filter(|state| state.wait.is_none() && !state.is_saving)?;
        state.is_saving = true;
        Some(state.number)
    }

    /// Saving has not begun, or must be repeated, if the shutdown with this number still saves.
    pub fn save_again(&self, number: u64) {
        if let Some(state) = self.lock().as_mut().filter(|state| state.number == number) {
            state.is_saving = false;
        }
    }

    /// The origin of the shutdown with this number; `None`: it is not pending any more.
    #[must_use]
    pub fn origin(&self, number: u64) -> Option<Origin> {
        self.lock().as_ref().filter(|state| state.number == number).map(|state| state.origin.clone())
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

/// The wait of the shutdown with a number, or of any.
fn wait_of(state: &mut Option<State>, number: Option<u64>) -> Option<&mut Wait> {
    let state = state.as_mut().filter(|state| number.is_none_or(|number| number == state.number))?;
    state.wait.as_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_save_of_an_aborted_shutdown_is_not_that_of_the_next_one() {
        let origin = Origin { clients: vec![1], save: Some(true), force: false };
        let pending = PendingShutdown::default();
        assert!(pending.begin(origin.clone()));
        let first = pending.begin_saving().unwrap();
        assert_eq!((pending.begin_saving(), pending.origin(first)), (None, Some(origin.clone())));
        assert_eq!(pending.take_with_save(), Some((origin.clone(), true)));
        let second = pending.begin_waiting(origin.clone(), Uptime::from_raw(100)).unwrap();
        assert_eq!((pending.origin(first), pending.begin_saving()), (None, None), "it waits for replicas");
        assert_eq!(pending.take_waiting(), Some(origin.clone()));
        assert!(pending.begin(origin));
        let third = pending.begin_saving().unwrap();
        assert!(first < second && second < third);
        pending.save_again(first);
        assert_eq!(pending.begin_saving(), None, "the third one saves");
    }

    #[test]
    fn replicas_are_compared_when_all_turns_have_ended() {
        let pending = PendingShutdown::default();
        let origin = Origin { clients: Vec::new(), save: None, force: false };
        let number = pending.begin_waiting(origin, Uptime::from_raw(100)).unwrap();
        let step = |now, have_all| pending.continue_wait(Uptime::from_raw(now), || have_all);
        assert_eq!(step(1, true), WaitStep::Wait);
        pending.await_turns(number, [0, 1].into_iter());
        assert!(!pending.note_turn(number, 1));
        assert!(!pending.note_turn(number + 1, 0), "another shutdown");
        assert_eq!(step(1, true), WaitStep::Wait, "a write may be running");
        assert!(pending.note_turn(number, 0));
        assert_eq!(
            [step(1, false), step(1, false), step(1, true)],
            [WaitStep::Begun, WaitStep::Wait, WaitStep::Over]
        );
        assert_eq!(step(100, false), WaitStep::Over);
    }
}

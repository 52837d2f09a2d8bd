//! `FAILOVER`: the state of a planned change of roles with a replica.
//!
//! | from | to | by |
//! |---|---|---|
//! | none | waiting | [`Failover::begin`]: writes are paused; turns of workers, and then the replica, are awaited |
//! | waiting | in progress | [`Failover::advance`]: a replica has everything, or the time of a forced one is over |
//! | waiting, in progress | none | [`Failover::take`]: it is complete, or is aborted |
//!
//! Invariant: a replica is compared with the end of the stream only when every worker has ended the turn in which the pause
//! began, with the scripts that may write. Nothing changes data from then on.

use std::sync::PoisonError;

use os::clock::Uptime;
use sync::atomic::{AtomicU8, Ordering};
use sync::{Mutex, MutexGuard};

use super::awaited_turns::AwaitedTurns;
use super::role::PrimaryName;

/// See the module documentation.
#[derive(Default)]
pub struct Failover {
    shown: AtomicU8,
    state: Mutex<State>,
    transition: Mutex<()>,
}

#[derive(Default)]
struct State {
    pending: Option<Pending>,
    /// The number of failovers that have begun.
    count: u64,
}

/// A failover that is under way.
struct Pending {
    request: FailoverRequest,
    /// Its number, in the answers of workers.
    number: u64,
    turns: AwaitedTurns,
    is_in_progress: bool,
}

/// What a failover is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverRequest {
    /// The replica that is to become the primary; `None`: the first one that has everything.
    pub target: Option<PrimaryName>,
    /// When the wait for the replica ends; `None`: never.
    pub deadline: Option<Uptime>,
    /// Whether the target becomes the primary at the deadline, whatever it lacks.
    pub is_forced: bool,
}

/// How far a failover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverPhase {
    /// There is none.
    None,
    /// The replica does not have everything yet.
    Waiting,
    /// The server is a replica of the target, which is asked to become the primary.
    InProgress,
}

/// What follows for a failover that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailoverStep {
    /// Nothing yet.
    Wait,
    /// This server becomes a replica of the target, which has everything.
    Synced(PrimaryName),
    /// The same, although the target may lack something.
    Forced(PrimaryName),
    /// The time is over.
    TimedOut,
}

impl FailoverPhase {
    /// Its word in `INFO`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "no-failover",
            Self::Waiting => "waiting-for-sync",
            Self::InProgress => "failover-in-progress",
        }
    }
}

impl Failover {
    /// How far it is.
    #[must_use]
    pub fn phase(&self) -> FailoverPhase {
        match self.shown.load(Ordering::Acquire) {
            phase if phase == FailoverPhase::Waiting as u8 => FailoverPhase::Waiting,
            phase if phase == FailoverPhase::InProgress as u8 => FailoverPhase::InProgress,
            _ => FailoverPhase::None,
        }
    }

    /// Makes a transition exclusive, with the changes of pause, flags and role that belong to it: without this, the end of a
    /// failover could come between its beginning and its pause, which would never end.
    pub fn hold_transition(&self) -> MutexGuard<'_, ()> {
        self.transition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one. Returns its number; `None`: one is under way.
    #[must_use]
    pub fn begin(&self, request: FailoverRequest) -> Option<u64> {
        let mut state = self.lock();
        if state.pending.is_some() {
            return None;
        }
        state.count += 1;
        let number = state.count;
        state.pending =
            Some(Pending { request, number, turns: AwaitedTurns::default(), is_in_progress: false });
        self.show(FailoverPhase::Waiting);
        Some(number)
    }

    /// Begins to wait for the turns of these workers, now that the pause is visible to them.
    pub fn await_turns(&self, number: u64, workers: impl Iterator<Item = usize>) {
        if let Some(pending) = self.lock().pending.as_mut().filter(|pending| pending.number == number) {
            pending.turns = AwaitedTurns::of(workers);
        }
    }

    /// Notes that a worker has ended its turn. Returns whether it was the last one.
    #[must_use]
    pub fn note_turn(&self, number: u64, worker: usize) -> bool {
        let mut state = self.lock();
        let pending = state.pending.as_mut().filter(|pending| pending.number == number);
        pending.is_some_and(|pending| pending.turns.note(worker))
    }

    /// The number of the failover, and the workers whose turns are awaited, of those that exist: others run nothing.
    #[must_use]
    pub fn awaited(&self, exists: impl Fn(usize) -> bool) -> Option<(u64, Vec<usize>)> {
        let mut state = self.lock();
        let pending = state.pending.as_mut()?;
        Some((pending.number, pending.turns.of_existing(exists)?))
    }

    /// Looks whether one that waits goes on. `synced`: the replica that has everything, of all or the one that is named.
    #[must_use]
    pub fn advance(
        &self,
        now: Uptime,
        synced: impl FnOnce(Option<&PrimaryName>) -> Option<PrimaryName>,
    ) -> FailoverStep {
        let mut state = self.lock();
        let Some(pending) = state.pending.as_mut().filter(|pending| !pending.is_in_progress) else {
            return FailoverStep::Wait;
        };
        // Even a forced failover loses only what the target lacks.
        let is_paused = pending.turns.have_ended();
        let is_over = pending.request.deadline.is_some_and(|deadline| deadline <= now);
        let step = match &pending.request {
            FailoverRequest { is_forced: false, .. } if is_over => FailoverStep::TimedOut,
            _ if !is_paused => FailoverStep::Wait,
            FailoverRequest { target: Some(target), .. } if is_over => FailoverStep::Forced(target.clone()),
            FailoverRequest { target, .. } => match synced(target.as_ref()) {
                Some(found) => FailoverStep::Synced(found),
                None => FailoverStep::Wait,
            },
        };
        if let FailoverStep::Synced(target) | FailoverStep::Forced(target) = &step {
            pending.request.target = Some(target.clone());
            pending.is_in_progress = true;
            self.show(FailoverPhase::InProgress);
        }
        step
    }

    /// Whether messages of the server itself must not move the end of the stream.
    #[must_use]
    pub fn holds_end(&self) -> bool {
        if self.phase() == FailoverPhase::None {
            return false;
        }
        self.lock().pending.as_ref().is_some_and(|pending| pending.request.deadline.is_some())
    }

    /// Ends it. Returns what it was to do, and its phase; `None`: there is none, or none in this phase.
    pub fn take(&self, only: Option<FailoverPhase>) -> Option<(FailoverRequest, FailoverPhase)> {
        let mut state = self.lock();
        let phase = self.phase();
        if only.is_some_and(|only| only != phase) {
            return None;
        }
        let pending = state.pending.take()?;
        self.show(FailoverPhase::None);
        Some((pending.request, phase))
    }

    fn show(&self, phase: FailoverPhase) {
        self.shown.store(phase as u8, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> PrimaryName {
        PrimaryName { host: "10.0.0.2".to_owned(), port: 6379 }
    }

    fn request(deadline_ms: i64, is_forced: bool) -> FailoverRequest {
        FailoverRequest { target: Some(target()), deadline: Some(Uptime::from_raw(deadline_ms)), is_forced }
    }

    fn advance(failover: &Failover, now_ms: i64, is_synced: bool) -> FailoverStep {
        failover.advance(Uptime::from_raw(now_ms), |_| is_synced.then(target))
    }

    #[test]
    fn the_replica_is_compared_when_all_turns_have_ended() {
        let failover = Failover::default();
        let number = failover.begin(request(100, true)).unwrap();
        assert_eq!(failover.begin(request(100, true)), None);
        assert_eq!(advance(&failover, 1, true), FailoverStep::Wait);
        failover.await_turns(number, [0, 1, 2].into_iter());
        assert!(!failover.note_turn(number, 1));
        assert!(!failover.note_turn(number + 1, 0), "another failover");
        assert_eq!(advance(&failover, 200, true), FailoverStep::Wait, "a write may be running");
        assert_eq!(failover.awaited(|worker| worker != 2), Some((number, vec![0])));
        assert!(failover.note_turn(number, 0));
        assert!(!failover.note_turn(number, 0), "the answer comes again");
        assert_eq!(failover.phase(), FailoverPhase::Waiting);
        assert_eq!(advance(&failover, 1, false), FailoverStep::Wait);
        assert_eq!(advance(&failover, 1, true), FailoverStep::Synced(target()));
        assert_eq!(failover.phase(), FailoverPhase::InProgress);
        assert_eq!(advance(&failover, 200, true), FailoverStep::Wait, "once only");
        assert_eq!(failover.take(Some(FailoverPhase::Waiting)), None);
        assert!(failover.take(None).is_some());
        assert_eq!((failover.phase(), failover.take(None)), (FailoverPhase::None, None));
    }

    #[test]
    fn the_deadline_decides() {
        let failover = Failover::default();
        for (is_forced, expected) in [(true, FailoverStep::Forced(target())), (false, FailoverStep::TimedOut)]
        {
            let number = failover.begin(request(100, is_forced)).unwrap();
            failover.await_turns(number, [0].into_iter());
            assert!(failover.note_turn(number, 0));
            assert_eq!(advance(&failover, 99, false), FailoverStep::Wait);
            assert_eq!(advance(&failover, 100, false), expected);
            assert!(failover.take(None).is_some());
        }
    }
}

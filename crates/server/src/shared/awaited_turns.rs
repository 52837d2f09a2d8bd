//! The ends of the turns of workers that an event awaits: a turn that has begun before may still act as if it had not happened.

/// See the module documentation.
#[derive(Debug, Default)]
pub struct AwaitedTurns {
    /// The workers whose turns have not ended yet; `None`: they are not known yet.
    workers: Option<Vec<usize>>,
}

impl AwaitedTurns {
    /// Those of these workers, to which the event is visible.
    #[must_use]
    pub fn of(workers: impl Iterator<Item = usize>) -> Self {
        Self { workers: Some(workers.collect()) }
    }

    /// Notes that a worker has ended its turn. Returns whether it was the last one.
    pub fn note(&mut self, worker: usize) -> bool {
        let Some(workers) = &mut self.workers else { return false };
        let before = workers.len();
        workers.retain(|awaited| *awaited != worker);
        workers.is_empty() && before > 0
    }

    /// The workers whose turns are awaited, of those that exist: others run nothing. `None`: they are not known yet.
    #[must_use]
    pub fn of_existing(&mut self, exists: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let workers = self.workers.as_mut()?;
        workers.retain(|worker| exists(*worker));
        Some(workers.clone())
    }

    /// Whether all have ended.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        self.workers.as_ref().is_some_and(Vec::is_empty)
    }
}

//! Background work: frees memory, on a thread of its own that starts with the first work.
//!
//! The queue is bounded by its contents: the thread that adds to it has just removed as much from the keyspace.
//! Evicted keys make room only when they are freed, so beyond [`EVICTED_SIZE_MAX`] the evicting worker frees
//! them itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering};
use sync::mpsc::{self, Sender};

/// Bytes of evicted keys in the queue, beyond which no more of them are queued.
const EVICTED_SIZE_MAX: u64 = 16 << 20;

/// The time slice of threads that serve no clients.
const TIME_SLICE: Duration = Duration::from_millis(20);

/// Lets workers, and threads of other processes, preempt the calling thread when they wake. Its share of time is unchanged.
pub fn let_others_preempt() {
    // Otherwise a worker that wakes on this CPU may wait for the rest of the thread's slice, 3 ms, and that of others.
    if let Err(error) = os::threads::set_time_slice(TIME_SLICE) {
        log::debug!("A background thread has an ordinary time slice: {error}");
    }
}

/// Gives the calling thread, and those that it starts, a third of the time of a worker that needs the same CPU.
pub fn lower_priority() {
    if sync::simulation::is_simulated() {
        return;
    }
    if let Err(error) = os::threads::lower_priority() {
        log::debug!("A background thread has an ordinary priority: {error}");
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The background thread's handle.
#[derive(Default)]
pub struct Background {
    sender: Mutex<Option<Sender<(u64, Work)>>>,
    counts: Arc<Counts>,
    /// The CPUs that it may run on; empty: all.
    cpus: Vec<usize>,
    name: &'static str,
}

/// Counts of keys that are queued and freed.
#[derive(Default)]
struct Counts {
    pending: AtomicU64,
    freed: AtomicU64,
    evicted_bytes: AtomicU64,
}

impl Background {
    /// Returns a background thread of this name for these CPUs; empty: for all.
    pub fn on_cpus(name: &'static str, cpus: Vec<usize>) -> Self {
        Self { cpus, name, ..Self::default() }
    }

    /// Frees a value with `key_count` keys.
    pub fn free(&self, key_count: u64, work: Work) {
        self.counts.pending.fetch_add(key_count, Ordering::Relaxed);
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = self.start();
        }
        let unsent = match &*sender {
            Some(sender) => sender.send((key_count, work)).err().map(|unsent| unsent.0),
            None => Some((key_count, work)),
        };
        drop(sender);
        if let Some((key_count, work)) = unsent {
            self.counts.run(key_count, work);
        }
    }

    /// Starts the thread, which would otherwise begin with the first work, and with the priority of the thread that has this work.
    pub fn prepare(&self) {
        self.free(0, Box::new(|| ()));
    }

    /// Frees an evicted key: on the calling thread if too many are queued.
    pub fn free_evicted(&self, size: u64, work: Work) {
        if self.evicted_bytes() > EVICTED_SIZE_MAX {
            self.counts.pending.fetch_add(1, Ordering::Relaxed);
            return self.counts.run(1, work);
        }
        self.counts.evicted_bytes.fetch_add(size, Ordering::Relaxed);
        let counts = Arc::clone(&self.counts);
        let freed = move || {
            work();
            counts.evicted_bytes.fetch_sub(size, Ordering::Relaxed);
        };
        self.free(1, Box::new(freed));
    }

    /// Ends the thread once its queue is empty. Later work starts another one.
    pub fn end(&self) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(sender);
    }

    /// Bytes of evicted keys that are queued.
    #[must_use]
    pub fn evicted_bytes(&self) -> u64 {
        self.counts.evicted_bytes.load(Ordering::Relaxed)
    }

    /// Keys that are queued.
    #[must_use]
    pub fn pending_key_count(&self) -> u64 {
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// Keys freed here since the start or the last reset.
    #[must_use]
    pub fn freed_key_count(&self) -> u64 {
        self.counts.freed.load(Ordering::Relaxed)
    }

    /// Resets the count of freed keys.
    pub fn reset(&self) {
        self.counts.freed.store(0, Ordering::Relaxed);
    }

    /// Starts the thread. Returns `None` if that fails: then the caller does the work.
    fn start(&self) -> Option<Sender<(u64, Work)>> {
        let (sender, receiver) = mpsc::channel::<(u64, Work)>();
        let counts = Arc::clone(&self.counts);
        let cpus = self.cpus.clone();
        let run = move || {
            if !cpus.is_empty()
                && let Err(error) = os::threads::set_thread_affinity(&cpus)
            {
                log::warn!("The background thread can't be bound to its CPUs: {error}");
            }
            let_others_preempt();
            receiver.iter().for_each(|(key_count, work)| counts.run(key_count, work));
        };
        match sync::thread::Builder::new().name(self.name.to_owned()).spawn(run) {
            Ok(_) => Some(sender),
            Err(error) => {
                log::warn!("Can't start the background thread: {error}");
                None
            }
        }
    }
}

impl Counts {
    fn run(&self, key_count: u64, work: Work) {
        work();
        self.pending.fetch_sub(key_count, Ordering::Relaxed);
        self.freed.fetch_add(key_count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_freed_on_another_thread() {
        let background = Background::default();
        let (done, finished) = mpsc::channel();
        let own = std::thread::current().id();
        background.free(3, Box::new(move || done.send(std::thread::current().id()).expect("is awaited")));
        assert_ne!(finished.recv().expect("the work runs"), own);
    }

    #[test]
    fn evicted_keys_are_freed_in_place_beyond_a_backlog() {
        let background = Background::default();
        let (go_on, held) = mpsc::channel::<()>();
        background.free_evicted(EVICTED_SIZE_MAX, Box::new(move || held.recv().expect("the test resumes")));
        let (done, finished) = mpsc::channel();
        for size in [1, 7, 9] {
            let done = done.clone();
            let work = move || done.send((size, std::thread::current().id())).expect("is awaited");
            background.free_evicted(size, Box::new(work));
        }
        let own = std::thread::current().id();
        let in_place = [finished.try_recv(), finished.try_recv()];
        assert_eq!(in_place, [Ok((7, own)), Ok((9, own))]);
        assert_eq!((background.evicted_bytes(), background.pending_key_count()), (EVICTED_SIZE_MAX + 1, 2));
        go_on.send(()).expect("the job waits for it");
        assert_ne!(finished.recv().expect("the work runs").1, own);
    }
}

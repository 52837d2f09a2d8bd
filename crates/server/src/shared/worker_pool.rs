//! The pool of workers: starting them, retiring some, and the end of the last one.
//!
//! Invariants: worker 0 runs as long as the server. A handle has at most one worker: starting one, and the end
//! of one, require the lock of `taken`. If workers outnumber their CPUs, they do not preempt each other.

use std::io;
use std::sync::PoisonError;

use base::limits::THREAD_COUNT_MAX;
use config::{Config, parse_cpu_list};
use os::clock::Uptime;
use os::threads::Scheduling;
use os::{process, threads};
use sync::atomic::{AtomicU32, Ordering};
use sync::mpsc::{self, Receiver};
use sync::simulation::{self, Gap};
use sync::{Mutex, OnceLock};

use super::Shared;
use super::active_workers::ActiveWorkers;
use super::watchdog::Watchdog;
use crate::connection::listeners::Listeners;
use crate::mail::Mail;

/// The part of its time, in thousandths, above which a worker counts as working.
const WORKING_PERMILLE: u64 = 50;

/// Whether a worker that was started can serve, or why it can't.
pub type Ready = Result<(), String>;

/// Starts the worker of a handle, which reports when it is ready.
pub type StartWorker = fn(&'static Shared, usize, Listeners) -> io::Result<Receiver<Ready>>;

/// The pool of workers.
pub struct WorkerPool {
    /// The handles that have a worker, or will have one in a moment.
    taken: Mutex<[bool; THREAD_COUNT_MAX]>,
    /// Number of workers wanted; those with a higher index retire.
    wanted: AtomicU32,
    /// Number of workers that serve connections.
    active: ActiveWorkers,
    /// Number of workers that have not ended.
    running: AtomicU32,
    /// Called when the last worker has ended.
    ended: OnceLock<Box<dyn Fn() + Send + Sync>>,
    cpus: Cpus,
    /// Reports workers whose turns take too long.
    pub watchdog: Watchdog,
    /// Starts a worker. A worker uses higher layers, so the function comes from there.
    start: StartWorker,
}

/// The CPUs that the workers share.
pub struct Cpus {
    count: usize,
    /// Whether the server may choose the scheduling of its threads: the process was started with the default.
    may_schedule: bool,
}

impl Cpus {
    /// To be called by the first thread of the process, before there are others.
    pub fn new(config: &Config) -> Self {
        let listed = parse_cpu_list(&config.server_cpulist).map_or(0, |listed| listed.len());
        let count = if listed == 0 { process::cpu_count() } else { listed.min(process::cpu_count()) };
        let is_ours = !simulation::is_simulated() && threads::thread_scheduling() == Some(Scheduling::Normal);
        Self { count, may_schedule: is_ours }
    }
}

impl WorkerPool {
    /// Returns a pool without workers. To be called by the first thread of the process, before there are others.
    pub(super) fn new(config: &Config, start: StartWorker) -> Self {
        Self {
            taken: Mutex::new([false; THREAD_COUNT_MAX]),
            wanted: AtomicU32::new(config.io_threads.count()),
            active: ActiveWorkers::new(config),
            running: AtomicU32::new(0),
            ended: OnceLock::new(),
            cpus: Cpus::new(config),
            watchdog: Watchdog::default(),
            start,
        }
    }

    /// Number of workers that are to run.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed) as usize
    }

    /// Number of workers that serve connections: those with a lower index.
    #[inline]
    #[must_use]
    pub fn active(&self) -> usize {
        self.active.count(self.wanted())
    }

    /// Whether the number of active workers follows the load.
    #[must_use]
    pub fn can_scale(&self) -> bool {
        self.active.can_change(self.wanted())
    }

    /// Applies the directives about active workers. Connections of workers that become dormant leave them.
    pub fn change_active(&self, config: &Config) {
        self.active.follow_config(config);
    }

    /// Makes a dormant worker active. Returns its index; `None` if all are active.
    #[must_use]
    pub fn grow(&self, now: Uptime) -> Option<usize> {
        self.active.grow(self.wanted(), now)
    }

    /// Records that a command took long: it should delay others as little as possible.
    pub fn note_long_command(&self, now: Uptime) {
        self.active.note_long_command(now);
    }

    /// Number of workers that have not ended.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Acquire)
    }

    /// Sets the function to be called when the last worker has ended.
    pub fn at_end(&self, ended: impl Fn() + Send + Sync + 'static) {
        self.ended.get_or_init(|| Box::new(ended));
    }

    /// Ends the process without the workers that have not ended.
    pub fn give_up(&self) {
        if let Some(ended) = self.ended.get() {
            ended();
        }
    }

    /// Counts a worker as ended; the last one of an ending server wakes the process's first thread.
    pub fn worker_ended(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(ended) = self.ended.get()
        {
            ended();
        }
    }

    /// Sets the scheduling of the calling worker by the number of workers. If they outnumber the CPUs, each keeps
    /// its time slice: otherwise a worker woken by a request would preempt another one, which would have to be
    /// woken again for its next request.
    pub fn schedule_thread(&self) {
        if !self.cpus.may_schedule {
            return;
        }
        let is_crowded = self.wanted() > self.cpus.count;
        let scheduling = if is_crowded { Scheduling::Batch } else { Scheduling::Normal };
        if let Err(error) = threads::set_thread_scheduling(scheduling) {
            log::debug!("A thread can't be scheduled as {scheduling:?}: {error}");
        }
    }
}

impl Shared {
    /// Makes workers dormant that the load does not need.
    pub fn shrink_active_workers(&self, now: Uptime) {
        let pool = &self.pool;
        if !pool.can_scale() {
            return;
        }
        let load = |worker: usize| self.workers.handle(worker).running_permille();
        let (sum, percent) = match simulation::random_u64() {
            None => {
                ((0..pool.active()).map(load).sum(), u64::from(self.config.load().io_threads_shrink_percent))
            }
            Some(random) => (random % 3000, 100),
        };
        pool.active.shrink(pool.wanted(), sum, percent * 10, now);
    }

    /// Sets the number of workers. Starts the missing ones, and notifies all of the change: surplus workers
    /// retire. If one can't be started or can't serve, the number does not change. Waits until the new workers
    /// are ready.
    pub fn set_thread_count(&'static self, count: u32) -> std::io::Result<()> {
        let mut taken = self.pool.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pool.wanted.swap(count, Ordering::SeqCst);
        let started = self.start_missing(&mut taken[..count as usize]);
        if started.is_err() {
            self.pool.wanted.store(before, Ordering::SeqCst);
        } else if count as usize > self.pool.cpus.count {
            log::info!("{count} threads share the time of {} CPU(s)", self.pool.cpus.count);
        }
        for index in (0..THREAD_COUNT_MAX).filter(|index| taken[*index]) {
            self.workers.post(index, Mail::ThreadCountChanged);
        }
        started
    }

    /// Starts a worker in each free handle. On an error the handles of the workers that do serve are marked.
    fn start_missing(&'static self, taken: &mut [bool]) -> std::io::Result<()> {
        let mut starting = Vec::new();
        let mut result = Ok(());
        for index in (0..taken.len()).filter(|index| !taken[*index]) {
            match self.start_worker(index, Listeners::default()) {
                Ok(ready) => starting.push((index, ready)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // They start at the same time, so that starting all takes hardly longer than one.
        for (index, ready) in starting {
            match ready.recv().unwrap_or_else(|_| Err("it ended at once".to_owned())) {
                Ok(()) => taken[index] = true,
                Err(error) => {
                    log::warn!("Thread {index} can't serve: {error}");
                    result = Err(std::io::Error::other(error));
                }
            }
        }
        result
    }

    /// Whether the worker of a handle may end: it must still retire, and nothing is in flight to it. After a
    /// `true` the handle is free.
    #[must_use]
    pub fn try_vacate(&self, index: usize) -> bool {
        simulation::pass(Gap::LastCheck);
        let mut taken = self.pool.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let may_end = (self.modes.is_stopping() || index >= self.pool.wanted())
            && self.workers.handle(index).try_close();
        if may_end {
            self.workers.handle(index).vacate();
            taken[index] = false;
        }
        may_end
    }

    /// Starts all workers; the first one listens. Returns when that one is ready.
    pub fn start_workers(&'static self, listeners: Listeners) -> Result<(), ()> {
        let ready = {
            let mut taken = self.pool.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken[0] = true;
            self.start_first(listeners)
        };
        match ready.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                log::error!("{error}");
                return Err(());
            }
            Err(_) => return Err(()),
        }
        self.set_thread_count(self.config.load().io_threads.count()).map_err(|error| {
            log::error!("Can't start a thread: {error}");
        })
    }

    /// Starts the first worker. Its log line about the event loop applies to all.
    fn start_first(&'static self, listeners: Listeners) -> Receiver<Ready> {
        self.start_worker(0, listeners).unwrap_or_else(|error| {
            let (sender, receiver) = mpsc::channel();
            // The receiver is held by the caller.
            let _ = sender.send(Err(format!("Can't start a thread: {error}")));
            receiver
        })
    }

    /// Starts the worker of a handle. It reports whether it has an event loop, and ends at once otherwise.
    fn start_worker(&'static self, index: usize, listeners: Listeners) -> io::Result<Receiver<Ready>> {
        self.pool.running.fetch_add(1, Ordering::AcqRel);
        let started = (self.pool.start)(self, index, listeners);
        if started.is_err() {
            self.pool.running.fetch_sub(1, Ordering::AcqRel);
        }
        started
    }

    /// Whether there is work for more than one worker now, or must be assumed to be.
    #[must_use]
    pub fn several_threads_work(&self) -> bool {
        let is_working = |thread: &usize| self.workers.handle(*thread).busy_permille() >= WORKING_PERMILLE;
        if self.pool.wanted() <= 1 {
            return false;
        }
        let occupied = self
            .monitoring
            .statistics
            .threads()
            .map(|(thread, _)| thread)
            .filter(|thread| self.workers.handle(*thread).is_occupied());
        self.config.load().io_threads_always_active
            || self.pool.active() > 1 && occupied.filter(is_working).count() > 1
    }
}

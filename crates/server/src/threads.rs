//! The number of workers: starting them, and retiring some.
//!
//! Invariants: worker 0 runs as long as the server. A handle has at most one worker: starting one, and the end
//! of one, require the lock of [`Roster`]. If workers outnumber their CPUs, they do not preempt each other.

use base::limits::THREAD_COUNT_MAX;
use config::{Config, IoBackend, parse_cpu_list};
use os::threads::Scheduling;
use os::{process, threads};
use reactor::{BackendChoice, Reactor, ReactorOptions};
use sync::Mutex;
use sync::atomic::Ordering;
use sync::mpsc;
use sync::simulation::{self, Gap};

use crate::listeners::Listeners;
use crate::mail::Mail;
use crate::shared::Shared;
use crate::thread::Thread;

/// The handles that have a worker, or will have one in a moment.
pub struct Roster {
    taken: Mutex<[bool; THREAD_COUNT_MAX]>,
}

impl Default for Roster {
    fn default() -> Self {
        Self { taken: Mutex::new([false; THREAD_COUNT_MAX]) }
    }
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

impl Shared {
    /// Sets the scheduling of the calling worker by the number of workers. If they outnumber the CPUs, each keeps
    /// its time slice: otherwise a worker woken by a request would preempt another one, which would have to be
    /// woken again for its next request.
    pub fn schedule_thread(&self) {
        if !self.cpus.may_schedule {
            return;
        }
        let is_crowded = self.wanted_threads() > self.cpus.count;
        let scheduling = if is_crowded { Scheduling::Batch } else { Scheduling::Normal };
        if let Err(error) = threads::set_thread_scheduling(scheduling) {
            log::debug!("A thread can't be scheduled as {scheduling:?}: {error}");
        }
    }

    /// Sets the number of workers. Starts the missing ones, and notifies all of the change: surplus ones
    /// retire. If one can't be started or can't serve, the number does not change. Waits until the new workers
    /// are ready.
    pub fn set_thread_count(&'static self, count: u32) -> std::io::Result<()> {
        let mut taken = self.roster.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = self.thread_count.swap(count, Ordering::SeqCst);
        let started = self.start_missing(&mut taken[..count as usize]);
        if started.is_err() {
            self.thread_count.store(before, Ordering::SeqCst);
        } else if count as usize > self.cpus.count {
            log::info!("{count} threads share the time of {} CPU(s)", self.cpus.count);
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
            match spawn(self, index, Listeners::default()) {
                Ok(ready) => starting.push((index, ready)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // They start at the same time, so that all together take hardly longer than one.
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

    /// Whether the worker of a handle may end: it still is to retire, and nothing is on its way to it. After a
    /// `true` the handle is free.
    #[must_use]
    pub fn let_go(&self, index: usize) -> bool {
        simulation::pass(Gap::LastLook);
        let mut taken = self.roster.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let may_end =
            (self.is_stopping() || index >= self.wanted_threads()) && self.workers.handle(index).try_close();
        if may_end {
            self.workers.handle(index).vacate();
            taken[index] = false;
        }
        may_end
    }
}

/// Starts all workers; the first one listens. Returns when that one is ready.
pub fn start_all(shared: &'static Shared, listeners: Listeners) -> Result<(), ()> {
    let ready = {
        let mut taken = shared.roster.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        taken[0] = true;
        spawn_first(shared, listeners)
    };
    match ready.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            log::error!("{error}");
            return Err(());
        }
        Err(_) => return Err(()),
    }
    shared.set_thread_count(shared.config.load().io_threads.count()).map_err(|error| {
        log::error!("Can't start a thread: {error}");
    })
}

fn choice(config: &Config) -> BackendChoice {
    match config.io_backend {
        IoBackend::Auto => BackendChoice::Auto,
        IoBackend::IoUring => BackendChoice::Uring,
        IoBackend::Epoll => BackendChoice::Epoll,
    }
}

type Ready = Result<(), String>;

/// Starts the first worker. What it logs about its event loop applies to all.
fn spawn_first(shared: &'static Shared, listeners: Listeners) -> mpsc::Receiver<Ready> {
    spawn(shared, 0, listeners).unwrap_or_else(|error| {
        let (tell, told) = mpsc::channel();
        // The receiver is held by the caller.
        let _ = tell.send(Err(format!("Can't start a thread: {error}")));
        told
    })
}

/// Starts the worker of a handle. It reports whether it has an event loop, and ends at once otherwise.
fn spawn(
    shared: &'static Shared,
    index: usize,
    listeners: Listeners,
) -> std::io::Result<mpsc::Receiver<Ready>> {
    shared.running_threads.fetch_add(1, Ordering::AcqRel);
    let (tell, told) = mpsc::channel();
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        if !simulation::is_simulated() {
            pin(&shared.config.load(), index);
        }
        match Reactor::new(choice(&shared.config.load()), ReactorOptions::default()) {
            Ok((reactor, waker)) => {
                if index == 0 {
                    announce_backend(&reactor);
                }
                shared.statistics.thread(index).backend.get_or_init(|| reactor.backend_name());
                shared.workers.handle(index).occupy(waker);
                // The receiver is waiting.
                let _ = tell.send(Ok(()));
                Thread::new(index, shared, reactor, listeners).run();
                shared.statistics.thread(index).turn_since_ms.set(0);
            }
            Err(error) => {
                let _ = tell.send(Err(error.to_string()));
            }
        }
        shared.thread_ended();
    };
    let started = sync::thread::Builder::new().name(format!("broadloom-io-{index}")).spawn(body);
    if started.is_err() {
        shared.running_threads.fetch_sub(1, Ordering::AcqRel);
    }
    started.map(|_| told)
}

fn announce_backend(reactor: &Reactor) {
    match reactor.fallback_reason() {
        Some(reason) => log::info!("I/O backend: {}; not io_uring: {reason}", reactor.backend_name()),
        None => log::info!("I/O backend: {}", reactor.backend_name()),
    }
}

/// Binds the calling thread to its configured CPUs.
fn pin(config: &Config, index: usize) {
    let Ok(listed) = parse_cpu_list(&config.server_cpulist) else { return };
    let cpus = match (config.server_thread_affinity, listed.is_empty()) {
        (false, true) => return,
        (false, false) => listed,
        (true, false) => vec![listed[index % listed.len()]],
        (true, true) => match threads::thread_affinity() {
            Ok(allowed) if !allowed.is_empty() => vec![allowed[index % allowed.len()]],
            _ => return,
        },
    };
    if let Err(error) = threads::set_thread_affinity(&cpus) {
        log::warn!("Thread {index} can't be bound to its CPUs: {error}");
    }
}

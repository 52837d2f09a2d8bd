//! How many server threads there are: starting them, and letting some go.
//!
//! Invariants: thread 0 runs as long as the server. A seat has at most one thread: whoever starts one, and a thread
//! that ends, holds the lock of [`Roster`]. Threads that outnumber their CPUs don't take them from each other.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use base::limits::THREAD_COUNT_MAX;
use config::{Config, IoBackend, parse_cpu_list};
use reactor::process::Scheduling;
use reactor::{BackendChoice, Options, Reactor, process};

use crate::listeners::Listeners;
use crate::mail::Mail;
use crate::shared::Shared;
use crate::thread::Thread;

/// Which seats have a thread, or will have in a moment.
pub struct Roster {
    taken: Mutex<[bool; THREAD_COUNT_MAX]>,
}

impl Default for Roster {
    fn default() -> Self {
        Self { taken: Mutex::new([false; THREAD_COUNT_MAX]) }
    }
}

/// The CPUs that the threads share.
pub struct Cpus {
    count: usize,
    /// Whether it is up to the server how its threads are scheduled: whoever started it has chosen nothing.
    may_schedule: bool,
}

impl Cpus {
    /// To be called by the thread that the process began with, before there are others.
    pub fn new(config: &Config) -> Self {
        let listed = parse_cpu_list(&config.server_cpulist).map_or(0, |listed| listed.len());
        let count = if listed == 0 { process::cpu_count() } else { listed.min(process::cpu_count()) };
        Self { count, may_schedule: process::thread_scheduling() == Some(Scheduling::Normal) }
    }
}

impl Shared {
    /// Has the calling thread, one of the server's, scheduled as their number asks for. Where they are more than CPUs, one
    /// that takes the CPU from another as soon as a request comes would find just that one, and have to be woken for the
    /// next: there, each has its time slice.
    pub fn schedule_thread(&self) {
        if !self.cpus.may_schedule {
            return;
        }
        let is_crowded = self.wanted_threads() > self.cpus.count;
        let scheduling = if is_crowded { Scheduling::Batch } else { Scheduling::Normal };
        if let Err(error) = process::set_thread_scheduling(scheduling) {
            log::debug!("A thread can't be scheduled as {scheduling:?}: {error}");
        }
    }

    /// Makes this the number of threads: starts those that are missing, and tells all, new ones too, that it changed: those
    /// that are too many retire. If one can't be started, the number stays as it was.
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
            self.seats.post(index, Mail::ThreadCountChanged);
        }
        started
    }

    fn start_missing(&'static self, taken: &mut [bool]) -> std::io::Result<()> {
        for (index, is_taken) in taken.iter_mut().enumerate().filter(|(_, is_taken)| !**is_taken) {
            self.seats.seat(index).open();
            spawn(self, index, Listeners::default())?;
            *is_taken = true;
        }
        Ok(())
    }

    /// Whether the thread of a seat may end: it is still not wanted, and nothing is on its way to it. After a `true`
    /// the seat is free.
    #[must_use]
    pub fn let_go(&self, index: usize) -> bool {
        let mut taken = self.roster.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let may_end =
            self.is_stopping() || (index >= self.wanted_threads() && self.seats.seat(index).try_close());
        if may_end {
            self.seats.seat(index).vacate();
            taken[index] = false;
        }
        may_end
    }
}

/// Starts all threads; the first one listens. Returns when that one is ready.
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

/// Starts the first thread. What it has to say about its event loop is told, and goes for all.
fn spawn_first(shared: &'static Shared, listeners: Listeners) -> mpsc::Receiver<Ready> {
    let (tell, told) = mpsc::channel();
    let started = spawn_with(shared, 0, move |made| match made {
        Ok(reactor) => {
            match reactor.fallback_reason() {
                Some(reason) => log::info!("I/O backend: {}; not io_uring: {reason}", reactor.backend_name()),
                None => log::info!("I/O backend: {}", reactor.backend_name()),
            }
            // The receiver waits.
            let _ = tell.send(Ok(()));
            Some(listeners)
        }
        Err(error) => {
            let _ = tell.send(Err(error.to_string()));
            None
        }
    });
    if let Err(error) = started {
        log::error!("Can't start a thread: {error}");
    }
    told
}

fn spawn(shared: &'static Shared, index: usize, listeners: Listeners) -> std::io::Result<()> {
    spawn_with(shared, index, move |made| match made {
        Ok(_) => Some(listeners),
        Err(error) => panic!("thread {index} has no event loop: {error}"),
    })
}

/// Starts the thread of a seat; `begin` sees its reactor and gives it its listeners, or none to end at once.
fn spawn_with(
    shared: &'static Shared,
    index: usize,
    begin: impl FnOnce(&Result<Reactor, reactor::ReactorError>) -> Option<Listeners> + Send + 'static,
) -> std::io::Result<()> {
    shared.running_threads.fetch_add(1, Ordering::AcqRel);
    let body = move || {
        let _handler_stack = reactor::fault::prepare_thread();
        pin(&shared.config.load(), index);
        let made = Reactor::new(choice(&shared.config.load()), Options::default());
        let (made, waker) = match made {
            Ok((reactor, waker)) => (Ok(reactor), Some(waker)),
            Err(error) => (Err(error), None),
        };
        if let (Some(listeners), Ok(reactor), Some(waker)) = (begin(&made), made, waker) {
            shared.statistics.thread(index).backend.get_or_init(|| reactor.backend_name());
            shared.seats.seat(index).occupy(waker);
            Thread::new(index, shared, reactor, listeners).run();
            shared.statistics.thread(index).turn_since_ms.set(0);
        }
        shared.thread_ended();
    };
    let started = std::thread::Builder::new().name(format!("broadloom-io-{index}")).spawn(body);
    if started.is_err() {
        shared.running_threads.fetch_sub(1, Ordering::AcqRel);
    }
    started.map(drop)
}

/// Binds the calling thread to the CPUs it is to use.
fn pin(config: &Config, index: usize) {
    let Ok(listed) = parse_cpu_list(&config.server_cpulist) else { return };
    let cpus = match (config.server_thread_affinity, listed.is_empty()) {
        (false, true) => return,
        (false, false) => listed,
        (true, false) => vec![listed[index % listed.len()]],
        (true, true) => match process::thread_affinity() {
            Ok(allowed) if !allowed.is_empty() => vec![allowed[index % allowed.len()]],
            _ => return,
        },
    };
    if let Err(error) = process::set_thread_affinity(&cpus) {
        log::warn!("Thread {index} can't be bound to its CPUs: {error}");
    }
}

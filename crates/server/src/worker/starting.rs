//! The start of a worker: its thread, its CPUs and its event loop.

use std::io;
use std::rc::Rc;

use base::limits::REPLAY_THREAD;
use config::{Config, parse_cpu_list};
use os::threads;
use reactor::{Reactor, ReactorOptions};
use sync::mpsc::{self, Receiver};
use sync::simulation;

use super::Worker;
use crate::admin::host::WorkerHost;
use crate::connection::listeners::Listeners;
use crate::executor::LogReplay;
use crate::pubsub::LocalSubscriptions;
use crate::script_runs::MakeHost;
use crate::shared::Shared;
use crate::shared::io_backend;
use crate::shared::loading::Replay;
use crate::shared::worker_pool::Ready;

/// Starts the worker of a handle. It reports whether it has an event loop, and ends at once otherwise.
pub fn start(shared: &'static Shared, index: usize, listeners: Listeners) -> io::Result<Receiver<Ready>> {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        if !simulation::is_simulated() {
            pin(&shared.config.load(), index);
        }
        match Reactor::new(io_backend::chosen(&shared.config.load()), ReactorOptions::default()) {
            Ok((reactor, waker)) => {
                if index == 0 {
                    announce_backend(&reactor);
                }
                shared.monitoring.statistics.thread(index).backend.get_or_init(|| reactor.backend_name());
                shared.workers.handle(index).occupy(waker);
                // The receiver is waiting.
                let _ = sender.send(Ok(()));
                Worker::new(index, shared, reactor, listeners).run();
                shared.monitoring.statistics.thread(index).turn.since_ms.set(0);
            }
            Err(error) => {
                let _ = sender.send(Err(error.to_string()));
            }
        }
        shared.pool.worker_ended();
    };
    sync::thread::Builder::new().name(format!("broadloom-io-{index}")).spawn(body).map(|_| receiver)
}

/// Makes a replay of requests on the calling thread, which is not a worker.
pub fn replay(shared: &'static Shared) -> Box<dyn Replay> {
    let make_host = |subscriptions: Rc<LocalSubscriptions>| -> MakeHost {
        Box::new(move || Box::new(WorkerHost::of_script(shared, REPLAY_THREAD, Rc::clone(&subscriptions))))
    };
    Box::new(LogReplay::new(shared, make_host, |subscriptions, scripts| {
        WorkerHost::new(shared, REPLAY_THREAD, subscriptions, scripts)
    }))
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

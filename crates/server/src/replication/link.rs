//! The thread `broadloom-replica`: while the server is a replica, it attempts to connect to the primary, one attempt a
//! second, or sooner if the former one had begun to receive a snapshot, and waits while a worker applies the stream.

use std::io;
use std::time::Duration;

use os::clock::Uptime;
use reactor::{Reactor, ReactorOptions};

use super::attempt::{Attempt, AttemptError};
use super::wire::WireError;
use crate::shared::{Shared, background, io_backend};

use crate::shared::role::{LinkState, PrimaryName};

/// The time between the beginnings of two attempts, in milliseconds.
const RETRY_MS: i64 = 1_000;

/// As [`RETRY_MS`], after an attempt whose snapshot has failed on the way: the primary was there, and the next one may be complete.
const RETRY_SNAPSHOT_MS: i64 = 100;

/// How often the state is checked without a wake-up.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the thread, unless it runs.
///
/// # Errors
/// Of the operating system.
pub fn start(shared: &'static Shared) -> io::Result<()> {
    {
        let mut state = shared.replication.role.lock();
        if std::mem::replace(&mut state.has_thread, true) {
            return Ok(());
        }
    }
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        background::let_others_preempt();
        run(shared);
    };
    let started = sync::thread::Builder::new().name("broadloom-replica".to_owned()).spawn(body);
    started.map(drop).inspect_err(|_| shared.replication.role.lock().has_thread = false)
}

fn run(shared: &'static Shared) {
    let choice = io_backend::chosen(&shared.config.load());
    let role = &shared.replication.role;
    let (mut reactor, waker) = loop {
        match Reactor::new(choice, ReactorOptions::default()) {
            Ok(made) => break made,
            Err(error) => log::error!("The link to the primary needs an event loop: {error}"),
        }
        if task(shared).is_none() {
            return;
        }
        sync::thread::sleep(CHECK_INTERVAL);
    };
    role.set_waker(waker);
    let mut next = Uptime::default();
    while let Some((primary, epoch)) = task(shared) {
        let is_served = epoch_is_served(shared, epoch);
        if is_served || Uptime::now() < next {
            let left = u64::try_from(next.ms_since(Uptime::now())).unwrap_or(0).max(1);
            wait(
                &mut reactor,
                if is_served { CHECK_INTERVAL } else { Duration::from_millis(left).min(CHECK_INTERVAL) },
            );
            if task(shared).is_some_and(|(_, later)| later != epoch) {
                next = Uptime::default();
            }
            continue;
        }
        let begun = Uptime::now();
        next = begun.plus_ms(RETRY_MS);
        let ended = Attempt::new(shared, &primary, epoch).run(&mut reactor);
        if let Err(error) = ended
            && note(shared, &primary, epoch, &error)
        {
            next = begun.plus_ms(RETRY_SNAPSHOT_MS);
        }
    }
}

/// The primary to connect to. `None`: the thread ends, as the server is a primary or ends.
fn task(shared: &Shared) -> Option<(PrimaryName, u64)> {
    let mut state = shared.replication.role.lock();
    let task = state.primary.clone().map(|primary| (primary, state.epoch));
    let task = task.filter(|_| !shared.modes.is_stopping());
    state.has_thread = task.is_some();
    if task.is_none() {
        // A next thread sets its own.
        state.waker = None;
    }
    task
}

/// Whether the stream is being applied.
fn epoch_is_served(shared: &Shared, epoch: u64) -> bool {
    let state = shared.replication.role.lock();
    state.epoch == epoch && state.link.stream().is_some()
}

fn wait(reactor: &mut Reactor, time: Duration) {
    if let Err(error) = reactor.wait(Some(time)) {
        log::error!("The event loop of the link to the primary fails: {error}");
        sync::thread::sleep(CHECK_INTERVAL);
    }
    while reactor.next_event().is_some() {}
}

/// Logs the end of an attempt. Returns whether its snapshot was on the way.
fn note(shared: &Shared, primary: &PrimaryName, epoch: u64, error: &AttemptError) -> bool {
    match error {
        AttemptError::Wire(WireError::GivenUp) => {}
        AttemptError::Connection(error) => {
            log::warn!("Error condition on socket for SYNC with {}:{}: {error}", primary.host, primary.port);
        }
        AttemptError::Wire(WireError::TimedOut) => {
            log::warn!("Timeout connecting to the PRIMARY...");
        }
        error => log::warn!("{error}"),
    }
    let had_snapshot = {
        let mut state = shared.replication.role.lock();
        let is_on_the_way = matches!(error, AttemptError::Wire(_) | AttemptError::Snapshot(_));
        let had_snapshot = is_on_the_way && state.epoch == epoch && matches!(state.link, LinkState::Sync(_));
        if state.epoch == epoch && state.link.stream().is_none() {
            state.link = LinkState::Connect;
        }
        had_snapshot
    };
    shared.follow_role();
    had_snapshot
}

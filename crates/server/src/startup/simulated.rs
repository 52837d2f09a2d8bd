//! A whole server within a simulation, without the parts of the process (signals, pid file, log, supervisor, title).
//!
//! Its threads are simulated threads, its clocks and random numbers are the simulation's, and its sockets are
//! those that the reactor gives to simulated threads. Several servers may run in one simulation, each with its
//! own data and threads.
//!
//! The shared state is leaked, here as in the process, because threads refer to it without counting. A server
//! that has ended has freed its connections, and its keys after a `FLUSHALL`, but not its tables: some
//! megabytes. So a process should run some dozens of simulations and then be replaced by a new one; that also
//! removes the threads that a failed simulation leaves behind.

use std::sync::Arc;

use base::DbIndex;
use keyspace::Key;
use os::process;
use sync::{Condvar, Mutex, simulation};

use crate::admin::shutdown::Cause;
use crate::connection::listeners::ListenSockets;
use crate::disk;
use crate::persistence::append_only;
use crate::persistence::loading::reload;
use crate::process::identity::Identity;
use crate::replication::change;
use crate::shared::Shared;
use crate::shared::loading::Loading;
use crate::startup::start::load_and_log;
use crate::startup::users;
use crate::worker;

#[cfg(feature = "simulation")]
pub use persist::disk::crashing::{CrashingDisk, Failing};

/// A server that runs in the caller's simulation.
pub struct Server {
    shared: &'static Shared,
    ended: Arc<Ended>,
}

/// Whether the server's threads have ended.
#[derive(Default)]
struct Ended {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl Server {
    /// Starts a server with the text of a configuration file. It accepts connections when this returns. Its append-only
    /// files are on the disk that is the simulation's extension now.
    ///
    /// # Errors
    /// The configuration is wrong, its address is taken, or a thread can't be started.
    ///
    /// # Panics
    /// The caller belongs to no simulation.
    pub fn start(config: &str) -> Result<Self, String> {
        assert!(simulation::is_simulated(), "the caller belongs to no simulation");
        let loaded = config::load_text(config.as_bytes(), &mut config::disk::Disk);
        let mut loaded = loaded.map_err(|error| error.to_string())?;
        loaded.config.io_threads.resolve(process::cpu_count());
        let users = users::declared(&loaded).map_err(|error| error.to_string())?;
        let users = users::at_start(users, &loaded.config)?;
        let listen_sockets = ListenSockets::default();
        let listeners = listen_sockets.bind(&loaded.config).map_err(|error| format!("{error:?}"))?;
        let identity = Identity::new(None, "broadloom".to_owned(), None);
        let shared =
            Shared::leak(loaded.config, users, &loaded.renames, identity, listen_sockets, worker::start);
        shared.loading.with(worker::replay, reload::begin);
        let ended = Arc::new(Ended::default());
        let theirs = Arc::clone(&ended);
        shared.pool.at_end(move || theirs.notify());
        shared.guard_writes(&shared.config.load());
        // Not from the disk of the process.
        if disk::is_simulated() {
            shared.loading.begin(&shared.modes.flags, 0);
            load_and_log(shared).map_err(|_| "the data can't be loaded".to_owned())?;
        }
        change::begin(shared);
        Loading::end(&shared.modes.flags);
        shared.start_workers(listeners).map_err(|()| "a thread can't be started".to_owned())?;
        shared.pool.watchdog.set_period(&shared.monitoring.statistics, shared.config.load().watchdog_period);
        change::connect(shared);
        Ok(Self { shared, ended })
    }

    /// Begins to end the server, as `SIGTERM` does.
    ///
    /// # Errors
    /// The configuration forbids it.
    pub fn stop(&self) -> Result<(), String> {
        let flags = self.shared.config.load().shutdown_on_sigterm;
        self.shared.shut_down(Cause::Signal(flags)).map(drop).map_err(|error| format!("{error:?}"))
    }

    /// Blocks until all of its threads have ended, after [`Self::stop`] or `SHUTDOWN`.
    pub fn wait(&self) {
        self.ended.wait();
        // The thread of the link ends by itself, and acquires all latches at times.
        while self.shared.replication.role.lock().has_thread {
            sync::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.shared.connections.listen_sockets.close();
        append_only::end(self.shared);
        self.shared.memory.background.end();
        self.shared.memory.pages.end();
        self.shared.pool.watchdog.end();
        self.shared.snapshots.end();
    }

    /// The state that must not remain when no client is connected: a line for each item. For a server that
    /// runs or has ended.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let shared = self.shared;
        let mut leftovers = Vec::new();
        let latched = shared.keyspace.latched_slots();
        leftovers.extend(latched.map(|slot| format!("slot {} is latched", slot.index())));
        if shared.clients.len() > 0 {
            leftovers.push(format!("{} connections are registered", shared.clients.len()));
        }
        if shared.hub.underway_bytes() > 0 {
            leftovers.push(format!("{} bytes of messages are undelivered", shared.hub.underway_bytes()));
        }
        // As they are: the sums that the server uses hide a negative one.
        let statistics = &shared.monitoring.statistics;
        let charged = statistics.sum(|thread| &thread.memory.clients) as i64;
        let closing = statistics.sum(|thread| &thread.memory.closing) as i64;
        if (charged, closing) != (0, 0) {
            leftovers
                .push(format!("{charged} bytes of connections are charged, and {closing} of closing ones"));
        }
        leftovers
    }

    /// Bytes used by its keys and values.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.shared.keyspace.used_bytes()
    }

    /// The first `count` keys of the form `mate:NUMBER` in the slot of `mate:0`. They depend on the seed.
    #[must_use]
    pub fn slot_mates(&self, count: usize) -> Vec<String> {
        let hasher = self.shared.keyspace.hasher();
        let slot = |name: &String| Key::new(hasher, name.as_bytes(), DbIndex(0)).slot;
        let mut names = (0_u64..).map(|number| format!("mate:{number}"));
        let first = names.next().expect("at least one worker exists");
        let wanted = slot(&first);
        std::iter::once(first).chain(names.filter(|name| slot(name) == wanted)).take(count).collect()
    }

    /// Number of keys in all databases.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.shared.keyspace.key_count()
    }

    /// Number of threads that have not ended.
    #[must_use]
    pub fn thread_count(&self) -> u32 {
        self.shared.pool.running()
    }
}

impl Ended {
    fn notify(&self) {
        *self.has_ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut has_ended = self.has_ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !*has_ended {
            has_ended = self.changed.wait(has_ended).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

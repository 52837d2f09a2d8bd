//! State shared by the clients of a run: observations for the checks, and the number of active clients.
//!
//! No lock of it is held across a scheduling point.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use trials::linearisability::collections::Act;
use trials::linearisability::search::Operation;
use trials::linearisability::store::Op;

use crate::plan::{Load, Plan};

/// State shared by the clients.
pub struct World {
    /// The plan of the run.
    pub plan: Plan,
    /// Listening address of the server.
    pub address: SocketAddr,
    /// Commands on one string, with their replies.
    pub strings: Mutex<Vec<Operation<Op>>>,
    /// Commands on several strings.
    pub many_strings: Mutex<Vec<Operation<Op>>>,
    /// Commands on collections.
    pub collections: Mutex<Vec<Operation<Act>>>,
    /// Elements pushed, with the number of times each was popped.
    pub queued: Mutex<BTreeMap<String, usize>>,
    /// For each cache key, the last value whose write was acknowledged.
    pub acknowledged: Mutex<BTreeMap<usize, i64>>,
    /// Steps of the wall clock so far.
    pub clock_steps: AtomicU64,
    /// Clients with a finite amount of work.
    pub working: AtomicUsize,
    /// Producers of queues that have ended.
    pub done_producers: AtomicUsize,
    /// Number of decreases of the thread count, in plans that exercise them.
    pub shrink_count: AtomicU64,
    /// Keys of one slot, if the plan needs them.
    pub slot_mates: OnceLock<Vec<String>>,
    /// Whether the client that changes a small table has ended.
    pub is_table_done: AtomicBool,
    /// Whether the iterating client has ended.
    pub are_scans_done: AtomicBool,
    /// For each client that waits for elements, the number of its replies; [`u64::MAX`] once it waits no
    /// more.
    pub waits: Box<[AtomicU64]>,
    /// The rights of the user whose rights change.
    pub rights: Mutex<Rights>,
    moments: AtomicU64,
}

impl World {
    /// Creates a world without observations.
    #[must_use]
    pub fn new(plan: Plan, address: SocketAddr) -> Self {
        let consumer_count = if plan.loads.contains(&Load::Queues) { plan.client_count } else { 0 };
        Self {
            waits: (0..consumer_count).map(|_| AtomicU64::new(0)).collect(),
            plan,
            address,
            strings: Mutex::default(),
            many_strings: Mutex::default(),
            collections: Mutex::default(),
            queued: Mutex::default(),
            acknowledged: Mutex::default(),
            clock_steps: AtomicU64::new(0),
            working: AtomicUsize::new(0),
            done_producers: AtomicUsize::new(0),
            are_scans_done: AtomicBool::new(false),
            shrink_count: AtomicU64::new(0),
            is_table_done: AtomicBool::new(false),
            slot_mates: OnceLock::new(),
            rights: Mutex::default(),
            moments: AtomicU64::new(0),
        }
    }

    /// Returns keys of one slot, for a load that requested them in [`Plan::slot_mate_count`].
    #[must_use]
    pub fn slot_mates(&self) -> &[String] {
        self.slot_mates.get().map_or(&[], Vec::as_slice)
    }

    /// Returns a timestamp later than all previous ones.
    pub fn tick(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether any client with finite work is active.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.working.load(Ordering::Relaxed) > 0
    }
}

/// Locks shared state.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rights of the user, as far as the replies of the changes tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Odd while a change is under way.
    pub epoch: u64,
    /// Whether the user exists.
    pub exists: bool,
    /// Number of the password.
    pub password: u64,
    /// Whether it may run commands that write, and use its keys.
    pub writes: bool,
    /// Whether it may use its channel.
    pub channels: bool,
    /// Deletions so far, that of the change under way included.
    pub deletion_count: u64,
    /// The same with the removals of the right to use the channel.
    pub removal_count: u64,
    /// Whether the last change is made: the user is deleted.
    pub is_over: bool,
}

impl Rights {
    /// Whether no change was under way between this observation and a later one.
    pub fn lasts(&self, later: &Self) -> bool {
        self.epoch.is_multiple_of(2) && self.epoch == later.epoch
    }
}

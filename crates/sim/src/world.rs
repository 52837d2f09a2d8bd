//! What the clients of a run share: what they saw, for the checks, and how many are still at work.
//!
//! Its locks are held for no scheduling point.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use trials::linearisability::collections::Act;
use trials::linearisability::search::Operation;
use trials::linearisability::store::Op;

use crate::plan::{Load, Plan};

/// What the clients share.
pub struct World {
    /// What they do.
    pub plan: Plan,
    /// Where the server listens.
    pub address: SocketAddr,
    /// Commands on one string, with their answers.
    pub strings: Mutex<Vec<Operation<Op>>>,
    /// Commands on several strings.
    pub many_strings: Mutex<Vec<Operation<Op>>>,
    /// Commands on collections.
    pub collections: Mutex<Vec<Operation<Act>>>,
    /// Elements that were pushed and not popped yet.
    pub queued: Mutex<BTreeMap<String, usize>>,
    /// For each key of the caches, the last value whose writing was acknowledged.
    pub acknowledged: Mutex<BTreeMap<usize, i64>>,
    /// Steps of the wall clock so far.
    pub clock_steps: AtomicU64,
    /// Clients with work that has an end.
    pub working: AtomicUsize,
    /// Producers of queues that are done.
    pub done_producers: AtomicUsize,
    /// How often the number of threads was made smaller, where a plan is about that.
    pub shrink_count: AtomicU64,
    /// Keys of one slot, if the plan wants any.
    pub slot_mates: OnceLock<Vec<String>>,
    /// Whether the client that changes a small table is done.
    pub is_table_done: AtomicBool,
    /// Whether the client that iterates is done.
    pub are_scans_done: AtomicBool,
    /// For each client that waits for elements, how many answers it has had; [`u64::MAX`]: it waits no more.
    pub waits: Box<[AtomicU64]>,
    moments: AtomicU64,
}

impl World {
    /// A world in which nothing has happened.
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
            moments: AtomicU64::new(0),
        }
    }

    /// Keys of one slot, for a load that has asked for them in [`Plan::slot_mate_count`].
    #[must_use]
    pub fn slot_mates(&self) -> &[String] {
        self.slot_mates.get().map_or(&[], Vec::as_slice)
    }

    /// A moment after all those before.
    pub fn tick(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether any load goes on.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.working.load(Ordering::Relaxed) > 0
    }
}

/// Locks what clients share.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

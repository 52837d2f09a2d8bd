//! Blocked clients: which client waits for which key, in order of arrival, recorded in the key's slot.
//!
//! Owns a queue for each key with blocked clients, guarded by the slot's latch like the data. A [`Waiter`] is
//! in the queue of each of its keys, shared with its connection; its [`Wait`] decides which event ends it. A
//! writer that changes a key calls [`Latched::note_change`](crate::Latched::note_change), which records the key
//! as *ready* if it has a queue. Before the latches are released, the server takes the ready keys
//! ([`Latched::take_ready`](crate::Latched::take_ready)) and serves the waiters
//! ([`Latched::next_waiter`](crate::Latched::next_waiter),
//! [`Latched::remove_served`](crate::Latched::remove_served)). A key that became ready where no waiter was
//! served (for example by expiry) stays recorded until it is taken.
//!
//! Invariants:
//! 1. A waiter whose wait has not ended is in the queue of each of its keys, behind all earlier waiters.
//! 2. There is no empty queue. Waiters whose wait has ended are removed at once where their slot is free
//!    ([`Latching::leave`](crate::Latching::leave)), and are always at most half of a queue longer than [`SWEEP_LEN_MIN`].
//! 3. The counters' `waited_keys` is the number of queues.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::{DbIndex, Slot};
use collections::Kind;
use sync::OnceLock;
use sync::Wait;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::store::counters::Counters;
use crate::store::key::{Key, slot_of_hash};
use crate::store::slot_data::SlotData;

/// Queues shorter than this are not swept.
const SWEEP_LEN_MIN: usize = 8;

/// A new key is compared with this many of the last recorded keys. A key recorded twice costs one extra lookup.
const NOTED_LATELY_COUNT: usize = 8;

/// Number of waiters so far in the process.
static WAITER_COUNT: AtomicU64 = AtomicU64::new(0);

/// A key that outlives its request.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedKey {
    hash: u64,
    db: DbIndex,
    bytes: Box<[u8]>,
}

impl OwnedKey {
    /// The key.
    #[must_use]
    pub fn key(&self) -> Key<'_> {
        Key::with_hash(&self.bytes, self.hash, self.db)
    }

    /// The key's slot.
    #[must_use]
    pub fn slot(&self) -> Slot {
        slot_of_hash(self.hash)
    }

    fn is(&self, key: Key<'_>) -> bool {
        self.hash == key.hash && self.db == key.db && *self.bytes == *key.bytes
    }
}

impl Hash for OwnedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self { hash: key.hash, db: key.db, bytes: key.bytes.into() }
    }
}

/// A blocked client.
pub struct Waiter {
    /// Its number in the order of creation.
    number: u64,
    /// Decides which event ends the wait.
    pub wait: Wait,
    /// The client.
    pub client: u64,
    /// The owner's data for serving it; opaque to the keyspace.
    pub request: Box<dyn Any + Send + Sync>,
    needs: Needs,
    /// The token of the waiter's connection; opaque to this crate.
    address: AtomicU64,
    /// Distinct keys. Set before the latches under which it is added to the queues are released.
    keys: OnceLock<Box<[Arc<OwnedKey>]>>,
    /// Whether one of its keys has held a value of another type during the wait.
    had_other_type: AtomicBool,
}

/// The value that a waiter requires to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// A value of this type.
    pub kind: Kind,
    /// Also served without such a value: when the key is deleted or becomes another type (`XREADGROUP`).
    pub or_none: bool,
}

impl Needs {
    fn is_met_by(self, present: Option<Kind>) -> bool {
        self.or_none || present == Some(self.kind)
    }
}

impl Waiter {
    pub(crate) fn new(
        client: u64,
        address: u64,
        needs: Needs,
        request: Box<dyn Any + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self {
            number: WAITER_COUNT.fetch_add(1, Ordering::Relaxed),
            wait: Wait::new(),
            client,
            request,
            needs,
            address: AtomicU64::new(address),
            keys: OnceLock::new(),
            had_other_type: AtomicBool::new(false),
        })
    }

    /// A client that waits for no key (`WAIT`).
    #[must_use]
    pub fn without_keys(client: u64, address: u64) -> Arc<Self> {
        Self::new(client, address, Needs { kind: Kind::String, or_none: false }, Box::new(()))
    }

    /// The waiter's address for its thread.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address.load(Ordering::Acquire)
    }

    /// Sets the address after a move. Messages to the new address must arrive from now on.
    pub fn set_address(&self, address: u64) {
        self.address.store(address, Ordering::Release);
    }

    /// Sets the keys it waits for, once.
    pub(crate) fn set_keys(&self, keys: Box<[Arc<OwnedKey>]>) {
        let set = self.keys.set(keys);
        debug_assert!(set.is_ok(), "its keys are set once");
    }

    /// The keys it waits for.
    #[must_use]
    pub fn keys(&self) -> &[Arc<OwnedKey>] {
        self.keys.get().map_or(&[], |keys| keys)
    }

    /// Whether one of its keys has held a value of another type since the wait began: then its request may
    /// fail though another key has a suitable value. Exact under the latch of the key that has it.
    #[must_use]
    pub fn had_other_type(&self) -> bool {
        self.had_other_type.load(Ordering::Acquire)
    }
}

/// The queues of a slot.
#[derive(Default)]
pub(crate) struct Waits {
    /// Ascending by hash.
    queues: Vec<Queue>,
}

struct Queue {
    /// The hash of the key; the key itself is in the waiter.
    hash: u64,
    key: Arc<OwnedKey>,
    /// By their numbers. A waiter is created under the latches of its keys, so this is the order of arrival.
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// Number of waiters that are also served on a deletion.
    or_none_count: usize,
    /// Length at which waiters whose wait has ended are removed.
    sweep_at: usize,
}

impl Queue {
    fn push(&mut self, waiter: Arc<Waiter>, counters: &Counters) {
        if self.waiters.len() >= self.sweep_at.max(SWEEP_LEN_MIN) {
            self.waiters.retain(|_, waiter| !waiter.wait.is_over());
            self.sweep_at = 2 * self.waiters.len();
            self.count_or_none(self.waiters.values().filter(|waiter| waiter.needs.or_none).count(), counters);
        }
        let or_none = usize::from(waiter.needs.or_none);
        self.waiters.insert(waiter.number, waiter);
        self.count_or_none(self.or_none_count + or_none, counters);
    }

    fn remove(&mut self, number: u64, counters: &Counters) {
        if let Some(waiter) = self.waiters.remove(&number) {
            self.count_or_none(self.or_none_count - usize::from(waiter.needs.or_none), counters);
        }
    }

    fn count_or_none(&mut self, count: usize, counters: &Counters) {
        let change = i64::from(count > 0) - i64::from(self.or_none_count > 0);
        counters.waited_keys_or_none.add(change as u64);
        self.or_none_count = count;
    }
}

impl Waits {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    fn place(&self, key: Key<'_>) -> Result<usize, usize> {
        let first = self.queues.partition_point(|queue| queue.hash < key.hash);
        let same_hash = self.queues[first..].iter().take_while(|queue| queue.hash == key.hash);
        same_hash.enumerate().find(|(_, queue)| queue.key.is(key)).map_or(Err(first), |(i, _)| Ok(first + i))
    }

    fn queue(&mut self, key: Key<'_>) -> Option<&mut Queue> {
        let place = self.place(key).ok()?;
        Some(&mut self.queues[place])
    }

    fn queue_or_new(&mut self, key: Key<'_>, counters: &Counters) -> &mut Queue {
        let place = self.place(key).unwrap_or_else(|place| {
            counters.waited_keys.add(1);
            let key = Arc::new(OwnedKey::from(key));
            let waiters = BTreeMap::new();
            self.queues.insert(place, Queue { hash: key.hash, key, waiters, or_none_count: 0, sweep_at: 0 });
            place
        });
        &mut self.queues[place]
    }

    /// Adds a waiter to the queue of a key. Returns the key, unless it is a repeated one.
    pub(crate) fn add_waiter(
        &mut self,
        key: Key<'_>,
        waiter: &Arc<Waiter>,
        counters: &Counters,
    ) -> Option<Arc<OwnedKey>> {
        let queue = self.queue_or_new(key, counters);
        if queue.waiters.contains_key(&waiter.number) {
            return None;
        }
        queue.push(Arc::clone(waiter), counters);
        Some(Arc::clone(&queue.key))
    }

    /// The next waiter of a key, from a number on, that can be served with a value of the type `present`. `from` is then the
    /// number behind it.
    pub(crate) fn next(
        &mut self,
        key: Key<'_>,
        present: Option<Kind>,
        from: &mut u64,
        counters: &Counters,
    ) -> Option<Arc<Waiter>> {
        let mut found = None;
        self.change_queue(key, counters, |queue| {
            while let Some((&number, waiter)) = queue.waiters.range(*from..).next() {
                *from = number + 1;
                if waiter.wait.is_over() {
                    queue.remove(number, counters);
                } else if waiter.needs.is_met_by(present) {
                    found = Some(Arc::clone(waiter));
                    break;
                } else if present.is_some() {
                    // Pairs with `had_other_type`, which is read under the latch of another key.
                    waiter.had_other_type.store(true, Ordering::Release);
                }
            }
        });
        found
    }

    /// Runs `change`, which removes waiters from a key's queue, and drops the queue if it is empty.
    fn change_queue(&mut self, key: Key<'_>, counters: &Counters, change: impl FnOnce(&mut Queue)) {
        let Ok(place) = self.place(key) else { return };
        change(&mut self.queues[place]);
        if self.queues[place].waiters.is_empty() {
            self.queues.remove(place);
            counters.waited_keys.add(u64::MAX);
        }
    }

    /// Records a key with waiters as ready, unless it is already recorded.
    pub(crate) fn note_ready(&mut self, key: Key<'_>, ready: &mut VecDeque<Arc<OwnedKey>>) {
        if let Some(queue) = self.queue(key) {
            note(&queue.key, ready);
        }
    }

    /// Records every key of a database with waiters as ready: it may have changed.
    pub(crate) fn note_all_ready(&mut self, db: DbIndex, ready: &mut VecDeque<Arc<OwnedKey>>) {
        let of_db = self.queues.iter().filter(|queue| queue.key.db == db);
        ready.extend(of_db.map(|queue| Arc::clone(&queue.key)));
    }
}

/// Records a key as ready, unless it was recorded just before.
pub(crate) fn note(key: &Arc<OwnedKey>, ready: &mut VecDeque<Arc<OwnedKey>>) {
    if !ready.iter().rev().take(NOTED_LATELY_COUNT).any(|noted| Arc::ptr_eq(noted, key)) {
        ready.push_back(Arc::clone(key));
    }
}

impl SlotData {
    /// Removes a waiter from a key's queue.
    pub(crate) fn remove_waiter(&mut self, key: Key<'_>, waiter: &Arc<Waiter>, counters: &Counters) {
        let Some(waits) = self.waits_mut() else { return };
        waits.change_queue(key, counters, |queue| queue.remove(waiter.number, counters));
        self.drop_empty_lists();
    }
}

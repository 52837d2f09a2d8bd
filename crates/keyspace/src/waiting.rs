//! Blocked clients: which client waits for which key, in order of arrival, recorded in the key's slot.
//!
//! Owns a queue for each key with blocked clients, guarded by the slot's latch like the data. A [`Waiter`]
//! is in the queue of each of its keys, shared with its connection; its [`Wait`] decides which event ends
//! it. A writer that changes a key calls [`View::note_change`], which records the key as *ready* if it has
//! a queue. Before the latches are released, the server takes the ready keys ([`View::take_ready`]) and
//! serves the waiters ([`View::next_waiter`], [`View::dismiss`]). A key that became ready where no waiter
//! was served (for example by expiry) stays recorded until it is taken.
//!
//! Invariants:
//! 1. A waiter whose wait has not ended is in the queue of each of its keys, behind all earlier waiters.
//! 2. There is no empty queue. Waiters whose wait has ended are removed at once where their slot is free
//!    ([`View::leave`]), and are always at most half of a queue longer than [`SWEEP_LEN_MIN`].
//! 3. The counters' `waited_keys` is the number of queues.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{DbIndex, Slot};
use collections::Kind;
use sync::OnceLock;
use sync::Wait;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::counters::Counters;
use crate::key::{Key, slot_of_hash};
use crate::keyspace::SlotData;
use crate::view::View;

/// Queues shorter than this are not swept.
const SWEEP_LEN_MIN: usize = 8;

/// Number of the last recorded keys with which a new one is compared. A key recorded twice costs one extra
/// lookup.
const NOTED_LATELY_COUNT: usize = 8;

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

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self { hash: key.hash, db: key.db, bytes: key.bytes.into() }
    }
}

/// A blocked client.
pub struct Waiter {
    /// Decides which event ends the wait.
    pub wait: Wait,
    /// The client.
    pub client: u64,
    /// The owner's data for serving it; opaque to the keyspace.
    pub request: Box<dyn Any + Send + Sync>,
    needs: Needs,
    /// The waiter's address for its thread; opaque to this crate.
    address: AtomicU64,
    /// Distinct keys. Set before the latches under which it is added to the queues are released.
    keys: OnceLock<Box<[Arc<OwnedKey>]>>,
    /// Whether one of its keys has held a value that it can't be served with.
    has_met_other: AtomicBool,
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
    fn new(client: u64, address: u64, needs: Needs, request: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        Arc::new(Self {
            wait: Wait::new(),
            client,
            request,
            needs,
            address: AtomicU64::new(address),
            keys: OnceLock::new(),
            has_met_other: AtomicBool::new(false),
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

    /// The keys it waits for.
    #[must_use]
    pub fn keys(&self) -> &[Arc<OwnedKey>] {
        self.keys.get().map_or(&[], |keys| keys)
    }

    /// Whether one of its keys has held a value of another type since the wait began: then its request may
    /// fail though another key has a suitable value. Exact under the latch of the key that has it.
    #[must_use]
    pub fn has_met_other(&self) -> bool {
        self.has_met_other.load(Ordering::Acquire)
    }
}

/// The queues of a slot.
#[derive(Default)]
pub(crate) struct Waits {
    /// Ascending by hash.
    queues: Vec<Queue>,
}

struct Queue {
    /// The hash of the key, which is stored elsewhere.
    hash: u64,
    key: Arc<OwnedKey>,
    /// In order of arrival.
    waiters: VecDeque<Arc<Waiter>>,
    /// Number of waiters that are also served on a deletion.
    or_none_count: usize,
    /// Length at which waiters whose wait has ended are removed.
    sweep_at: usize,
}

impl Queue {
    fn push(&mut self, waiter: Arc<Waiter>, counters: &Counters) {
        if self.waiters.len() >= self.sweep_at.max(SWEEP_LEN_MIN) {
            self.waiters.retain(|waiter| !waiter.wait.is_over());
            self.sweep_at = 2 * self.waiters.len();
            self.count_or_none(self.waiters.iter().filter(|waiter| waiter.needs.or_none).count(), counters);
        }
        let or_none = usize::from(waiter.needs.or_none);
        self.waiters.push_back(waiter);
        self.count_or_none(self.or_none_count + or_none, counters);
    }

    fn remove(&mut self, place: usize, counters: &Counters) {
        if let Some(waiter) = self.waiters.remove(place) {
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
            let waiters = VecDeque::with_capacity(1);
            self.queues.insert(place, Queue { hash: key.hash, key, waiters, or_none_count: 0, sweep_at: 0 });
            place
        });
        &mut self.queues[place]
    }

    /// Runs `change`, which removes waiters from a key's queue, and drops the queue if it is empty.
    fn thin(&mut self, key: Key<'_>, counters: &Counters, change: impl FnOnce(&mut Queue)) {
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

impl View<'_> {
    /// Whether the slots of these keys are held for writing, so that a wait for them can begin.
    pub fn may_enlist<'k>(&self, mut keys: impl Iterator<Item = Key<'k>>) -> bool {
        keys.all(|key| self.holds_for_writing(key.slot))
    }

    /// Begins a client's wait for keys, which are held for writing.
    pub fn enlist<'k>(
        &mut self,
        keys: impl Iterator<Item = Key<'k>>,
        needs: Needs,
        client: u64,
        address: u64,
        request: Box<dyn Any + Send + Sync>,
    ) -> Arc<Waiter> {
        let counters = self.counters;
        let waiter = Waiter::new(client, address, needs, request);
        let mut owned: Vec<Arc<OwnedKey>> = Vec::with_capacity(keys.size_hint().0);
        for key in keys {
            let queue = self.slot_data_mut(key.slot).waits_or_new().queue_or_new(key, counters);
            // No other waiter can be added meanwhile: for a repeated key it is already the last in the
            // queue.
            if !queue.waiters.back().is_some_and(|last| Arc::ptr_eq(last, &waiter)) {
                queue.push(Arc::clone(&waiter), counters);
                owned.push(Arc::clone(&queue.key));
            }
        }
        let set = waiter.keys.set(owned.into());
        debug_assert!(set.is_ok(), "its keys are set here only");
        waiter
    }

    /// Removes a waiter whose wait has ended from the queues whose slots are free now. Returns whether
    /// these were all.
    pub fn leave(&mut self, waiter: &Arc<Waiter>) -> bool {
        let counters = self.counters;
        let mut all = true;
        for key in waiter.keys() {
            let slot = key.slot();
            if self.holds_for_writing(slot) {
                self.slot_data_mut(slot).remove_waiter(key.key(), waiter, counters);
            } else if self.held_data(slot).is_none()
                && let Some(mut guard) = self.keyspace.slots().try_write_now(slot.index())
            {
                guard.remove_waiter(key.key(), waiter, counters);
            } else {
                all = false;
            }
        }
        all
    }

    /// Whether keys with waiters are ready.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Records a key that is held for writing as ready if it has waiters, though for its watches the value
    /// has not changed.
    pub fn note_ready_if_waited(&mut self, key: Key<'_>) {
        let mut ready = std::mem::take(&mut self.ready);
        if let Some(waits) = self.slot_data_mut(key.slot).waits_mut() {
            waits.note_ready(key, &mut ready);
        }
        self.ready = ready;
    }

    /// Records a key as ready, unless it is already recorded.
    pub fn note_ready(&mut self, key: &Arc<OwnedKey>) {
        note(key, &mut self.ready);
    }

    /// The next key that has become ready, in the order of the changes.
    pub fn take_ready(&mut self) -> Option<Arc<OwnedKey>> {
        self.ready.pop_front()
    }

    /// The next waiter of a key, from a place in its queue on, that can be served with the key's present
    /// value; `place` is then its place. The key's slot is held for writing.
    pub fn next_waiter(&mut self, key: Key<'_>, place: &mut usize) -> Option<Arc<Waiter>> {
        let counters = self.counters;
        let present = self.peek(key).map(|entry| entry.kind());
        let waits = self.slot_data_mut(key.slot).waits_mut()?;
        let mut found = None;
        waits.thin(key, counters, |queue| {
            while let Some(waiter) = queue.waiters.get(*place) {
                if waiter.wait.is_over() {
                    queue.remove(*place, counters);
                } else if waiter.needs.is_met_by(present) {
                    found = Some(Arc::clone(waiter));
                    break;
                } else {
                    if present.is_some() {
                        // Pairs with `has_met_other`, which is read under the latch of another key.
                        waiter.has_met_other.store(true, Ordering::Release);
                    }
                    *place += 1;
                }
            }
        });
        if found.is_none() {
            self.slot_data_mut(key.slot).drop_empty_lists();
        }
        found
    }

    /// Removes a served waiter from the queues of its keys whose slots are held. Returns whether these were
    /// all.
    pub fn dismiss(&mut self, waiter: &Arc<Waiter>) -> bool {
        let counters = self.counters;
        let mut all = true;
        for key in waiter.keys() {
            if self.holds_for_writing(key.slot()) {
                self.slot_data_mut(key.slot()).remove_waiter(key.key(), waiter, counters);
            } else {
                all = false;
            }
        }
        all
    }
}

/// Records a key as ready, unless it was recorded just before.
fn note(key: &Arc<OwnedKey>, ready: &mut VecDeque<Arc<OwnedKey>>) {
    if !ready.iter().rev().take(NOTED_LATELY_COUNT).any(|noted| Arc::ptr_eq(noted, key)) {
        ready.push_back(Arc::clone(key));
    }
}

impl SlotData {
    fn remove_waiter(&mut self, key: Key<'_>, waiter: &Arc<Waiter>, counters: &Counters) {
        let Some(waits) = self.waits_mut() else { return };
        waits.thin(key, counters, |queue| {
            if let Some(place) = queue.waiters.iter().position(|other| Arc::ptr_eq(other, waiter)) {
                queue.remove(place, counters);
            }
        });
        self.drop_empty_lists();
    }
}

//! The data of the latched slots, as it is accessible to a command's handler: finding, changing and reporting
//! keys.
//!
//! Never latches, parks or releases: that is done by [`Latching`](crate::Latching), which owns the
//! data and passes it to a handler.
//! Invariants:
//! 1. Data is accessed only through a held latch: access to a key whose slot is not held is a fault, and
//!    ends the process.
//! 2. Every insertion, removal and change of expiry is counted, and the slot's hint follows.
//!
//! Reading is in `reading.rs`, writing in `writing.rs`, whole databases in `databases.rs`.

mod databases;
pub(crate) mod epochs;
pub(crate) mod events;
pub(crate) mod held;
pub(crate) mod instant;
mod logging;
mod readers;
mod reading;
mod waiting;
mod watching;
mod writing;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use base::{DbIndex, Millis, Slot};
use collections::{AllocContext, Entry, Heap, KeyHasher, OwnedEntry, Table};

pub use self::databases::Cleared;
use self::epochs::Epochs;
pub use self::events::Events;
use self::held::HeldSlots;
use self::instant::Instant;
use self::logging::LogAccess;
pub use self::writing::{Edited, NotOfThisType, WasThere};
use crate::store::aging::Aging;
use crate::store::counters::{Counters, Population};
use crate::store::effects::{EffectArg, EffectOrigin, EffectSink, deletion_name};
use crate::store::key::Key;
use crate::store::keyspace::Keyspace;
use crate::store::random::Random;
use crate::store::slot_data::SlotData;
use crate::store::waiting::OwnedKey;
use crate::store::watching::Watching;

/// Expired keys that reads may note until they are deleted. The expiry cycle deletes the others.
const FOUND_EXPIRED_MAX: usize = 10_000;

/// The data of the slots that are held for a command.
pub struct Latched<'k> {
    pub(crate) keyspace: &'k Keyspace,
    /// The number of its thread.
    pub(crate) thread: usize,
    pub(crate) slots: HeldSlots<'k>,
    /// The counters of this thread.
    pub counters: &'k Counters,
    /// How the command accesses the data.
    pub mode: AccessMode,
    /// The events that it reports.
    pub events: Events,
    /// Its effects, for the write log.
    pub effects: EffectSink,
    /// Its access to the write log, and the LSNs that its replies depend on.
    pub(crate) log: LogAccess,
    /// The work that it defers.
    pub deferred: Deferred,
    /// What it observes of slots that are not held.
    pub(crate) instant: Instant<'k>,
    random: Random,
    pub(crate) epochs: Epochs<'k>,
}

/// How a command accesses the data.
#[derive(Clone, Copy, Debug)]
pub struct AccessMode {
    /// The time the command runs at.
    pub now: Millis,
    /// How accesses are recorded.
    pub aging: Aging,
    /// Whether accesses are recorded at all (`CLIENT NO-TOUCH`).
    pub touch: bool,
    /// Whether expired keys are visible (for a client that imports keys).
    pub sees_expired: bool,
    /// Whether keys whose slots are not held appear absent. Set while a waiter is served with one of its keys:
    /// its other keys have no data for it, or their writer would have served it.
    pub hides_unheld: bool,
    /// Whether expired entries may be left as garbage (`lazyfree-lazy-expire`).
    pub lazy_expire: bool,
    /// Whether evicted entries are freed in the background (`lazyfree-lazy-eviction`).
    pub lazy_eviction: bool,
    /// Whether a script runs while the memory limit is exceeded.
    pub is_over_memory_limit: bool,
}

/// The work that commands defer until after their execution.
#[derive(Default)]
pub struct Deferred {
    /// Whether a read found an expired key, which must be deleted under a write latch.
    pub saw_expired: Cell<bool>,
    /// The expired keys that reads found, in their order, to be deleted once their slots can be latched for writing.
    pub(crate) found_expired: RefCell<Vec<(DbIndex, Box<[u8]>)>>,
    /// So many of them, from the first one, are in slots that are not held for writing.
    pub(crate) examined_count: usize,
    /// Entries that are costly to drop, to be freed by another thread once the latches are released.
    pub garbage: Vec<OwnedEntry>,
    /// Changed keys with blocked clients, in the order of the changes.
    pub(crate) ready: VecDeque<Arc<OwnedKey>>,
    /// Ended watches, some in slots that were not held.
    pub(crate) unwatched: Vec<Watching>,
}

impl Deferred {
    /// Whether watches have ended in slots that were not held.
    #[must_use]
    #[inline]
    pub fn has_ended_watches(&self) -> bool {
        !self.unwatched.is_empty()
    }
}

impl AccessMode {
    fn new() -> Self {
        Self {
            now: Millis(0),
            aging: Aging::lru(0),
            touch: true,
            sees_expired: false,
            hides_unheld: false,
            lazy_expire: true,
            lazy_eviction: true,
            is_over_memory_limit: false,
        }
    }
}

impl<'k> Latched<'k> {
    /// The data of no slots, for one thread. `thread` selects its counters.
    pub(crate) fn new(keyspace: &'k Keyspace, thread: usize, seed: u64) -> Self {
        Self {
            keyspace,
            thread,
            slots: HeldSlots::none(),
            counters: keyspace.counters.thread(thread),
            mode: AccessMode::new(),
            events: Events::default(),
            effects: EffectSink::default(),
            log: LogAccess::default(),
            deferred: Deferred::default(),
            instant: Instant::default(),
            random: Random::new(seed),
            epochs: Epochs::new(),
        }
    }

    /// Another holder of latches for the same thread. A script runs with it, so that the script's latches are
    /// kept while it is paused. It appends nothing to the write log.
    #[must_use]
    pub fn companion(&self, seed: u64) -> Self {
        Self::new(self.keyspace, self.thread, seed)
    }

    /// Exchanges the held latches, the recorded effects, and the deferred work and events with the other holder. The events
    /// that are wanted, the client whose command runs, and whose changes these are, stay those of `self` in both. The replies
    /// of `self` also depend on the changes that the other holder has read. `self` gets all changed keys: those of earlier
    /// requests are announced before the replies to them, however long the other holder is paused.
    pub fn exchange(&mut self, other: &mut Self) {
        let (wanted, client, origin) = (self.events.wanted, self.events.client, self.effects.origin());
        std::mem::swap(&mut self.slots, &mut other.slots);
        std::mem::swap(&mut self.effects, &mut other.effects);
        std::mem::swap(&mut self.deferred, &mut other.deferred);
        std::mem::swap(&mut self.events, &mut other.events);
        let own = std::mem::take(&mut other.events.changed_keys);
        self.events.changed_keys.splice(..0, own);
        self.log.pass_on(&mut other.log);
        for holder in [self, other] {
            (holder.events.wanted, holder.events.client) = (wanted, client);
            holder.effects.set_origin(origin);
        }
    }

    /// Whether no latch is held.
    #[must_use]
    #[inline]
    pub fn holds_nothing(&self) -> bool {
        self.slots.are_none()
    }

    /// Whether a latch is held for writing.
    #[must_use]
    pub fn holds_any_for_writing(&self) -> bool {
        self.slots.is_written()
    }

    /// Number of databases.
    #[must_use]
    pub fn db_count(&self) -> usize {
        self.keyspace.db_count()
    }

    /// Totals of one database.
    #[must_use]
    pub fn population(&self, db: DbIndex) -> Population {
        self.keyspace.counters.population(db.0 as usize)
    }

    /// The hasher of keys.
    #[must_use]
    pub fn hasher(&self) -> &'k KeyHasher {
        self.keyspace.hasher()
    }

    /// The allocation context of a key's collection.
    #[must_use]
    #[inline]
    pub fn alloc_context(&self, key: Key<'_>) -> AllocContext<'k> {
        AllocContext { heap: self.keyspace.heap(key.slot), hasher: self.keyspace.hasher() }
    }

    /// The slots that are held, in any order.
    #[must_use]
    pub fn held_slots(&self) -> Vec<Slot> {
        match &self.slots.held {
            held::Held::Nothing => Vec::new(),
            held::Held::Read(slot, _) => vec![*slot],
            held::Held::Write(slot, _) => vec![*slot],
            held::Held::Several(guards) => guards.iter().map(|(slot, _)| *slot).collect(),
        }
    }

    /// Whether all slots are held.
    #[must_use]
    pub fn holds_everything(&self) -> bool {
        matches!(&self.slots.held, held::Held::Several(guards) if guards.len() == base::limits::SLOT_COUNT)
    }

    /// Whether effects are recorded. Exact while a latch is held.
    #[inline]
    pub fn logs(&self) -> bool {
        self.keyspace.log.is_on()
    }

    /// Whether the changes are those of a replica: of its primary's stream, or of its own clients.
    #[must_use]
    pub fn is_of_replica(&self) -> bool {
        self.effects.origin() != EffectOrigin::Own
    }

    /// Records a request that replicas run, too, and that changes no data. No latch is necessary.
    pub fn record_for_replicas<'a>(&mut self, db: DbIndex, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.keyspace.log.has_replicas() {
            self.effects.record_for_replicas(db, args);
        }
    }

    /// Records an effect of the running command for the append-only file only, if the log is on.
    pub fn record_for_file<'a>(&mut self, db: DbIndex, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.logs() {
            self.effects.record_for_file(db, args);
        }
    }

    /// Records an effect of the running command, if the log is on.
    pub fn record_effect<'a, A: Into<EffectArg<'a>>>(
        &mut self,
        db: DbIndex,
        args: impl ExactSizeIterator<Item = A>,
    ) {
        if self.logs() {
            self.effects.record(db, args);
        }
    }

    /// Records the only effect of the running command, a request in the format of the log, if the log is on.
    #[inline]
    pub fn record_encoded(&mut self, db: DbIndex, request: &[u8]) {
        if !self.logs() {
            return;
        }
        match self.slots.held {
            held::Held::Write(slot, _) if self.effects.appends_at_once() => {
                self.append_encoded(slot, db, request);
            }
            _ => self.effects.record_encoded(db, request),
        }
    }

    /// Records that a key was deleted below its command. `lazy`: its value may be freed in the background.
    #[inline]
    pub(crate) fn record_deletion(&mut self, key: Key<'_>, lazy: bool) {
        if self.logs() {
            self.effects.record(key.db, [deletion_name(lazy), key.bytes].into_iter());
        }
    }

    /// This thread's random numbers.
    pub fn random(&self) -> &Random {
        &self.random
    }

    #[inline(always)]
    pub(crate) fn slot_data(&self, slot: Slot) -> &SlotData {
        self.slots.data(slot).unwrap_or_else(|| not_held(slot))
    }

    /// The data of a slot, if it is held.
    #[inline(always)]
    pub(crate) fn held_data(&self, slot: Slot) -> Option<&SlotData> {
        self.slots.data(slot)
    }

    /// Whether a slot is held in any mode.
    #[must_use]
    pub fn holds(&self, slot: Slot) -> bool {
        self.held_data(slot).is_some()
    }

    /// Whether a slot is held for writing.
    #[must_use]
    pub fn holds_for_writing(&self, slot: Slot) -> bool {
        self.slots.is_writable(slot)
    }

    #[inline(always)]
    pub(crate) fn slot_data_mut(&mut self, slot: Slot) -> &mut SlotData {
        self.slots.data_mut(slot).unwrap_or_else(|| not_held(slot))
    }

    #[inline(always)]
    pub(crate) fn table(&self, key: Key<'_>) -> Option<&Table> {
        match self.held_data(key.slot) {
            Some(data) => data.table(self.keyspace.place(key.db.0 as usize)),
            None if self.mode.hides_unheld => None,
            None => not_held(key.slot),
        }
    }

    /// Whether a key appears absent only because its slot is not held.
    #[must_use]
    pub fn is_hidden(&self, key: Key<'_>) -> bool {
        self.mode.hides_unheld && self.held_data(key.slot).is_none()
    }

    /// Runs `change` on the key's table, then updates the slot's hint.
    #[inline(always)]
    pub(crate) fn change<R>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Table, &Heap) -> R) -> R {
        let keyspace = self.keyspace;
        let place = keyspace.place(key.db.0 as usize);
        let is_saving = keyspace.snapshot.is_on();
        if is_saving {
            self.preserve(key);
        }
        let table = self.slot_data_mut(key.slot).table_mut(place);
        let result = change(table, keyspace.heap(key.slot));
        if is_saving {
            keyspace.snapshot.note_preserved(key.slot, key.db, table, key.hash);
        }
        let retired_size = keyspace.publish(key.slot, place, table);
        if retired_size != 0 {
            self.epochs.note_retired(keyspace, retired_size);
        }
        result
    }

    /// Passes a key that is about to change to the running snapshot, if the snapshot needs it.
    #[cold]
    #[inline(never)]
    fn preserve(&self, key: Key<'_>) {
        let table = self.slot_data(key.slot).table(self.keyspace.place(key.db.0 as usize));
        let alloc = self.alloc_context(key);
        self.keyspace.snapshot.preserve(self.thread, key.slot, key.db, table, key.hash, alloc);
    }

    /// The number of the current pass: memory that this thread prefetched in it may still be read. 0 while it may
    /// not prefetch.
    #[inline]
    #[must_use]
    pub fn pass(&self) -> u64 {
        self.epochs.pass()
    }

    /// Whether an entry is expired.
    #[inline(always)]
    pub(crate) fn is_expired(&self, entry: Entry<'_>) -> bool {
        entry.expiry().is_some_and(|at| at <= self.due())
    }

    /// The Unix time in milliseconds up to which keys and hash fields are expired.
    #[must_use]
    #[inline]
    pub fn due(&self) -> i64 {
        if self.mode.sees_expired { i64::MIN } else { self.mode.now.0 }
    }

    /// Records an expired key that a read found, to be deleted.
    #[cold]
    pub fn note_expired(&self, key: &[u8], db: DbIndex) {
        self.deferred.saw_expired.set(true);
        let mut found = self.deferred.found_expired.borrow_mut();
        let is_last = found.last().is_some_and(|(of, last)| *of == db && **last == *key);
        if !is_last && found.len() < FOUND_EXPIRED_MAX {
            found.push((db, key.into()));
        }
    }

    /// Deletes the expired keys that the reads of a transaction or script have found, where their slots are held for
    /// writing: before its next command runs. The others are deleted after it.
    pub fn delete_held_expired(&mut self) {
        let mut left = self.deferred.found_expired.take();
        let (examined_count, mut index) = (self.deferred.examined_count, 0);
        left.retain(|(db, bytes)| {
            index += 1;
            if index <= examined_count {
                return true;
            }
            let key = Key::new(self.hasher(), bytes, *db);
            let is_held = self.holds_for_writing(key.slot);
            if is_held {
                self.expire_if_due(key);
            }
            !is_held
        });
        if left.is_empty() {
            self.deferred.saw_expired.set(false);
            self.report_late_misses();
        }
        self.deferred.examined_count = left.len();
        *self.deferred.found_expired.get_mut() = left;
    }
}

#[cold]
fn not_held(slot: Slot) -> ! {
    panic!("slot {} is used without its latch", slot.index())
}

//! A command's access to the keyspace: the slots latched for it, and the data in them.
//!
//! Owns the latches while a command runs. Touches the entries of latched slots and the counters of its thread.
//! Invariants:
//! 1. Data is accessed only through a held latch: access to a key whose slot is not held is a fault, and
//!    ends the process.
//! 2. Several latches are waited for in ascending order of their slots; a few that were all free may be held in any order.
//! 3. Every insertion, removal and change of expiry is counted, and the slot's hint follows.
//!
//! Latching is in `latching.rs`, reading in `reading.rs`, writing in `writing.rs`, whole databases in `databases.rs`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Millis, Slot};
use collections::{AllocContext, Entry, Heap, Hint, OwnedEntry, Retired, Table};
use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Participant;
use sync::{Guard, ReadGuard, WriteGuard};

use crate::aging::Aging;
use crate::counters::Counters;
use crate::events::WantedEvents;
use crate::hints::NO_PASS;
use crate::key::Key;
use crate::keyspace::{Keyspace, SlotData};
use crate::readers::ChangedKey;
use crate::waiting::OwnedKey;

/// A slot held for reading or writing.
pub(crate) type SlotGuard<'k> = Guard<'k, Hint, SlotData>;

/// The latches that a command holds.
#[derive(Default)]
pub enum Held<'k> {
    /// None.
    #[default]
    Nothing,
    /// One slot, for reading.
    Read(Slot, ReadGuard<'k, Hint, SlotData>),
    /// One slot, for writing.
    Write(Slot, WriteGuard<'k, Hint, SlotData>),
    /// Several: ascending if they are more than [`FEW`].
    Several(Vec<(Slot, SlotGuard<'k>)>),
}

/// Number of latches that may be held in any order.
pub(crate) const FEW: usize = 64;

/// The probable places of the guards of several slots: for each value of the slot's low bits, the place
/// last recorded. For more than [`FEW`] guards there is also an exact table: a binary search for each of
/// thousands of keys would take most of the time.
pub(crate) struct Places {
    few: [u8; Self::COUNT],
    /// By slot; empty until needed.
    many: Vec<u16>,
}

impl Places {
    const COUNT: usize = 128;

    pub(crate) const fn new() -> Self {
        Self { few: [0; Self::COUNT], many: Vec::new() }
    }

    /// Records the places of more than [`FEW`] guards.
    #[cold]
    pub(crate) fn note_many(&mut self, guards: &[(Slot, SlotGuard<'_>)]) {
        self.many.resize(SLOT_COUNT, 0);
        for (place, (slot, _)) in guards.iter().enumerate() {
            self.many[slot.index()] = place as u16;
        }
    }

    #[inline(always)]
    pub(crate) fn note(&mut self, slot: Slot, place: usize) {
        // A place beyond 255 is truncated to a wrong one, which a search then corrects.
        self.few[slot.index() % Self::COUNT] = place as u8;
    }

    /// The place of a slot's guard, if it is the probable one.
    #[inline(always)]
    pub(crate) fn guess(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        let place = usize::from(self.few[slot.index() % Self::COUNT]);
        guards.get(place).filter(|(held, _)| *held == slot).map(|_| place)
    }

    /// The place of a slot's guard, if it is held.
    #[inline(always)]
    fn place_of(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        self.guess(slot, guards).or_else(|| self.search(slot, guards))
    }

    #[inline(never)]
    fn search(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        match guards.len() {
            ..=FEW => return guards.iter().position(|(held, _)| *held == slot),
            SLOT_COUNT => return Some(slot.index()),
            _ => {}
        }
        let noted = self.many.get(slot.index()).map(|place| usize::from(*place));
        noted
            .filter(|place| guards.get(*place).is_some_and(|(held, _)| *held == slot))
            .or_else(|| guards.binary_search_by_key(&slot, |(held, _)| *held).ok())
    }
}

/// A command's access to the keyspace.
pub struct View<'k> {
    pub(crate) keyspace: &'k Keyspace,
    /// Number of the thread that uses it.
    pub(crate) thread: usize,
    pub(crate) held: Held<'k>,
    /// Always empty: memory for the next `Held::Several`.
    pub(crate) spare_guards: Vec<(Slot, SlotGuard<'k>)>,
    /// The places of the guards, when there are several.
    pub(crate) places: Places,
    /// The counters of this thread.
    pub counters: &'k Counters,
    /// The time the command runs at.
    pub now: Millis,
    /// Whether expired keys are visible (for a client that imports keys).
    pub sees_expired: bool,
    /// How accesses are recorded.
    pub aging: Aging,
    /// Whether accesses are recorded at all (`CLIENT NO-TOUCH`).
    pub touch: bool,
    /// Whether a read found an expired key, which is to be deleted under a write latch.
    pub saw_expired: Cell<bool>,
    /// The events that the observer receives.
    pub wanted: WantedEvents,
    /// Number of the client that the view is used for; 0 if none.
    pub client: u64,
    /// Keys that changed, if a client tracks every change.
    pub changed_keys: Vec<ChangedKey>,
    /// Misses of expired keys, if the observer receives such events.
    pub(crate) late_misses: RefCell<Vec<(DbIndex, Box<[u8]>)>>,
    /// Expired keys that a walk found, to be deleted once no latch is held.
    pub(crate) walked_expired: Vec<(DbIndex, Box<[u8]>)>,
    /// Entries that are costly to drop, to be freed elsewhere once the latches are released.
    pub garbage: Vec<OwnedEntry>,
    /// Whether expired entries may be among them (`lazyfree-lazy-expire`).
    pub lazy_expire: bool,
    /// Whether keys whose slots are not held appear absent: for a waiter that is served with one of its
    /// keys. The other keys hold nothing for it, or their writer would have served it.
    pub hides_unheld: bool,
    /// Changed keys with blocked clients.
    pub(crate) ready: VecDeque<Arc<OwnedKey>>,
    pub(crate) random: Random,
    /// The thread's participant in the epochs, if it prefetches.
    participant: Option<Participant<'k, Retired>>,
    /// The number of the pass, see [`Self::pass`].
    pass: u64,
    /// The number of the last pass, also while there is none.
    last_pass: u64,
    /// Bytes retired in this pass.
    retired_size: usize,
    /// Segments that may be freed.
    retired: Vec<Retired>,
}

/// Number of participants in the process so far. Distinguishes their passes: a participant must not read
/// what another has prefetched.
static PARTICIPANT_COUNT: AtomicU64 = AtomicU64::new(0);

/// Bits of a pass's number that count the passes of one participant: enough for years, a turn each 10 us. Above them is the
/// participant's number.
const PASS_BITS: u32 = 44;

/// Bytes of segments that one thread replaces before it frees some.
const RETIRED_SIZE_MAX: usize = 1 << 20;

/// A small random number generator (xorshift64*), one for each thread: sampling needs speed, not secrecy.
#[derive(Clone, Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// A generator that starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed | 1))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

impl<'k> View<'k> {
    /// A view for one thread, without latches. `thread` selects its counters.
    #[must_use]
    pub fn new(keyspace: &'k Keyspace, thread: usize, seed: u64) -> Self {
        Self {
            keyspace,
            thread,
            held: Held::Nothing,
            spare_guards: Vec::new(),
            places: Places::new(),
            counters: keyspace.counters.thread(thread),
            now: Millis(0),
            sees_expired: false,
            aging: Aging::lru(0),
            touch: true,
            saw_expired: Cell::new(false),
            wanted: WantedEvents::default(),
            client: 0,
            changed_keys: Vec::new(),
            late_misses: RefCell::default(),
            walked_expired: Vec::new(),
            garbage: Vec::new(),
            lazy_expire: true,
            hides_unheld: false,
            ready: VecDeque::new(),
            random: Random::new(seed),
            participant: None,
            pass: NO_PASS,
            last_pass: NO_PASS,
            retired_size: 0,
            retired: Vec::new(),
        }
    }

    /// The keyspace.
    #[must_use]
    pub fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    /// The allocation context of a key's collection.
    #[must_use]
    #[inline]
    pub fn home(&self, key: Key<'_>) -> AllocContext<'k> {
        AllocContext { heap: self.keyspace.heap(key.slot), hasher: self.keyspace.hasher() }
    }

    /// This thread's random numbers.
    pub fn random(&self) -> &Random {
        &self.random
    }

    #[inline(always)]
    pub(crate) fn slot_data(&self, slot: Slot) -> &SlotData {
        self.held_data(slot).unwrap_or_else(|| not_held(slot))
    }

    /// The data of a slot, if it is held.
    #[inline(always)]
    pub(crate) fn held_data(&self, slot: Slot) -> Option<&SlotData> {
        match &self.held {
            Held::Read(held, guard) if *held == slot => Some(guard),
            Held::Write(held, guard) if *held == slot => Some(guard),
            Held::Several(guards) => Some(&guards[self.places.place_of(slot, guards)?].1),
            Held::Nothing | Held::Read(..) | Held::Write(..) => None,
        }
    }

    /// Whether a slot is held for writing.
    pub(crate) fn holds_for_writing(&self, slot: Slot) -> bool {
        match &self.held {
            Held::Write(held, _) => *held == slot,
            Held::Several(guards) => {
                let place = self.places.place_of(slot, guards);
                place.is_some_and(|index| matches!(guards[index].1, Guard::Write(_)))
            }
            Held::Nothing | Held::Read(..) => false,
        }
    }

    #[inline(always)]
    pub(crate) fn slot_data_mut(&mut self, slot: Slot) -> &mut SlotData {
        match &mut self.held {
            Held::Write(held, guard) if *held == slot => guard,
            Held::Several(guards) => {
                let guard = self.places.place_of(slot, guards).and_then(|place| guards[place].1.as_mut());
                guard.unwrap_or_else(|| not_held(slot))
            }
            _ => not_held(slot),
        }
    }

    #[inline(always)]
    pub(crate) fn table(&self, key: Key<'_>) -> Option<&Table> {
        match self.held_data(key.slot) {
            Some(data) => data.table(key.db.0 as usize),
            None if self.hides_unheld => None,
            None => not_held(key.slot),
        }
    }

    /// Whether a key appears absent only because its slot is not held.
    #[must_use]
    pub fn is_hidden(&self, key: Key<'_>) -> bool {
        self.hides_unheld && self.held_data(key.slot).is_none()
    }

    /// Runs `change` on the key's table, then updates the slot's hint.
    #[inline(always)]
    pub(crate) fn change<R>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Table, &Heap) -> R) -> R {
        let keyspace = self.keyspace;
        let db = key.db.0 as usize;
        let table = self.slot_data_mut(key.slot).table_mut(db);
        let result = change(table, keyspace.heap(key.slot));
        let retired_size = keyspace.publish(key.slot, db, table);
        if retired_size != 0 {
            self.note_retired(retired_size);
        }
        result
    }

    /// Registers this thread in the keyspace's epochs, so that it may prefetch. `false`: all places are
    /// taken.
    pub fn take_part(&mut self) -> bool {
        let number = PARTICIPANT_COUNT.fetch_add(1, Ordering::Relaxed);
        assert!(number < 1 << (u64::BITS - PASS_BITS), "threads start now and then only");
        self.participant = self.keyspace.segments.register();
        self.last_pass = number << PASS_BITS;
        self.begin_pass();
        self.participant.is_some()
    }

    /// The number of the current pass: what this thread prefetched in it may still be read. 0 while it may
    /// not prefetch.
    #[inline]
    #[must_use]
    pub fn pass(&self) -> u64 {
        self.pass
    }

    #[inline]
    fn begin_pass(&mut self) {
        if self.participant.is_some() {
            self.last_pass += 1;
            self.pass = self.last_pass;
        }
    }

    /// Marks the thread quiescent, which releases the segments replaced so far: memory prefetched earlier
    /// is not read any more.
    #[inline]
    pub fn quiescent(&mut self) {
        if self.pass != NO_PASS {
            self.begin_pass();
        }
        if let Some(participant) = &self.participant {
            participant.quiescent();
        }
    }

    /// Marks the thread asleep: it prefetches nothing until it is [`Self::online`].
    pub fn offline(&mut self) {
        self.pass = NO_PASS;
        if let Some(participant) = &self.participant {
            participant.offline();
        }
    }

    /// Marks the thread awake.
    pub fn online(&mut self) {
        if let Some(participant) = &self.participant {
            participant.online();
        }
        self.begin_pass();
    }

    /// Passes a quiescent state within a command or turn that replaces many segments: otherwise none could
    /// be freed before its end. What was prefetched earlier must not be read afterwards.
    #[cold]
    fn note_retired(&mut self, size: usize) {
        self.retired_size += size;
        if self.retired_size < RETIRED_SIZE_MAX {
            return;
        }
        self.retired_size = 0;
        if self.participant.is_some() {
            self.quiescent();
            // Frees all: it is no more than this thread has just retired.
            loop {
                self.keyspace.reclaim(&mut self.retired);
                if self.retired.is_empty() {
                    break;
                }
            }
        }
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
        if self.sees_expired { i64::MIN } else { self.now.0 }
    }
}

#[cold]
fn not_held(slot: Slot) -> ! {
    panic!("slot {} is used without its latch", slot.index())
}

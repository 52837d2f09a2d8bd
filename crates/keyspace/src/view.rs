//! What one command sees of the keyspace: the slots latched for it, and the data in them.
//!
//! Owns the latches while a command runs. Touches the entries of latched slots and the counters of its thread.
//! Invariants:
//! 1. Data is only reached through a held latch: a key whose slot is not held is a fault, and ends the process.
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

/// So many latches may be held in any order.
pub(crate) const FEW: usize = 64;

/// Where the guards of several slots probably stand: each where the last one of the same low bits was put. Of more than [`FEW`]
/// guards there is an exact table, too: a binary search for each of thousands of keys would take most of the time.
pub(crate) struct Places {
    few: [u8; Self::COUNT],
    /// By slot; empty until it is needed.
    many: Vec<u16>,
}

impl Places {
    const COUNT: usize = 128;

    pub(crate) const fn new() -> Self {
        Self { few: [0; Self::COUNT], many: Vec::new() }
    }

    /// Takes note of more than a few.
    #[cold]
    pub(crate) fn note_many(&mut self, guards: &[(Slot, SlotGuard<'_>)]) {
        self.many.resize(SLOT_COUNT, 0);
        for (place, (slot, _)) in guards.iter().enumerate() {
            self.many[slot.index()] = place as u16;
        }
    }

    #[inline(always)]
    pub(crate) fn note(&mut self, slot: Slot, place: usize) {
        // Of a place beyond 255 that makes a wrong one, which is looked for anyway.
        self.few[slot.index() % Self::COUNT] = place as u8;
    }

    /// Where the guard of a slot stands, if it is where it probably is.
    #[inline(always)]
    pub(crate) fn guess(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        let place = usize::from(self.few[slot.index() % Self::COUNT]);
        guards.get(place).filter(|(held, _)| *held == slot).map(|_| place)
    }

    /// Where the guard of a slot stands, if it is held.
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

/// A command's sight of the keyspace.
pub struct View<'k> {
    pub(crate) keyspace: &'k Keyspace,
    /// Number of the thread that uses it.
    pub(crate) thread: usize,
    pub(crate) held: Held<'k>,
    /// Empty: memory for the next `Held::Several`.
    pub(crate) spare_guards: Vec<(Slot, SlotGuard<'k>)>,
    /// Of the guards, when they are several.
    pub(crate) places: Places,
    /// What this thread counts.
    pub counters: &'k Counters,
    /// The time the command runs at.
    pub now: Millis,
    /// Whether keys are there even when their time is over (for a client that imports them from elsewhere).
    pub sees_expired: bool,
    /// How accesses are recorded.
    pub aging: Aging,
    /// Whether accesses are recorded at all (`CLIENT NO-TOUCH`).
    pub touch: bool,
    /// Whether a read came upon a key whose time is over: somebody should delete it under a write latch.
    pub saw_expired: Cell<bool>,
    /// Events that the observer wants to hear of.
    pub wanted: WantedEvents,
    /// Number of the client on whose behalf it is used; 0: nobody's.
    pub client: u64,
    /// Keys that changed, if somebody asks for every change.
    pub changed_keys: Vec<ChangedKey>,
    /// Keys that were missed because their time was over, if the observer wants to hear of it.
    pub(crate) late_misses: RefCell<Vec<(DbIndex, Box<[u8]>)>>,
    /// Keys that a walk came upon when their time was over: somebody should delete them once no latch is held.
    pub(crate) walked_expired: Vec<(DbIndex, Box<[u8]>)>,
    /// Entries that are costly to drop, for whoever runs the command to free elsewhere once the latches are let go.
    pub garbage: Vec<OwnedEntry>,
    /// Whether expired entries may be among them (`lazyfree-lazy-expire`).
    pub lazy_expire: bool,
    /// Whether keys whose slots are not held are simply not there: for a waiter that is served with one of its keys. The
    /// others hold nothing for it, or whoever wrote them would have served it.
    pub hides_unheld: bool,
    /// Keys that somebody waits for, and that changed.
    pub(crate) ready: VecDeque<Arc<OwnedKey>>,
    pub(crate) random: Random,
    /// The thread as one that prefetches, if it does.
    participant: Option<Participant<'k, Retired>>,
    /// The number of the pass, see [`Self::pass`].
    pass: u64,
    /// The number of the last one, also while there is none.
    last_pass: u64,
    /// Bytes retired since then.
    retired_size: usize,
    /// What may be freed, and is not yet.
    retired: Vec<Retired>,
}

/// Participants of the process so far: what one has prefetched is not for another.
static PARTICIPANT_COUNT: AtomicU64 = AtomicU64::new(0);

/// Bits of a pass's number that count the passes of one participant: enough for years, a turn each 10 us. Above them is the
/// participant's number.
const PASS_BITS: u32 = 44;

/// Bytes of segments that one thread replaces before it frees some.
const RETIRED_SIZE_MAX: usize = 1 << 20;

/// A small generator of random numbers (xorshift64*), one a thread: sampling needs speed, not secrecy.
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
    /// A view for one thread, holding nothing. `thread` numbers its counters.
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

    /// What the collection of a key is handed.
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

    /// Whether a key looks as if it did not exist only because its slot is not held.
    #[must_use]
    pub fn is_hidden(&self, key: Key<'_>) -> bool {
        self.hides_unheld && self.held_data(key.slot).is_none()
    }

    /// Runs `change` on the key's table, then makes the slot's hint follow.
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

    /// From here on this thread takes part in the keyspace's epochs, and may prefetch. False: all seats are taken.
    pub fn take_part(&mut self) -> bool {
        let number = PARTICIPANT_COUNT.fetch_add(1, Ordering::Relaxed);
        assert!(number < 1 << (u64::BITS - PASS_BITS), "threads start now and then only");
        self.participant = self.keyspace.segments.register();
        self.last_pass = number << PASS_BITS;
        self.begin_pass();
        self.participant.is_some()
    }

    /// A number that stands for what may still be looked at of what this thread has prefetched; 0 while it may not prefetch.
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

    /// Lets segments go that were replaced up to now: nothing is looked at any more that was prefetched before.
    #[inline]
    pub fn quiescent(&mut self) {
        if self.pass != NO_PASS {
            self.begin_pass();
        }
        if let Some(participant) = &self.participant {
            participant.quiescent();
        }
    }

    /// The thread sleeps: it prefetches nothing until it is [`Self::online`].
    pub fn offline(&mut self) {
        self.pass = NO_PASS;
        if let Some(participant) = &self.participant {
            participant.offline();
        }
    }

    /// The thread is awake.
    pub fn online(&mut self) {
        if let Some(participant) = &self.participant {
            participant.online();
        }
        self.begin_pass();
    }

    /// Where a command, or a turn, replaces much, this thread is quiescent in its midst: else nothing of it could be freed
    /// before the end. From here on it must not look at what it has prefetched earlier.
    #[cold]
    fn note_retired(&mut self, size: usize) {
        self.retired_size += size;
        if self.retired_size < RETIRED_SIZE_MAX {
            return;
        }
        self.retired_size = 0;
        if self.participant.is_some() {
            self.quiescent();
            // All of it: it is no more than this thread has just made.
            loop {
                self.keyspace.reclaim(&mut self.retired);
                if self.retired.is_empty() {
                    break;
                }
            }
        }
    }

    /// Whether an entry's time is over.
    #[inline(always)]
    pub(crate) fn is_expired(&self, entry: Entry<'_>) -> bool {
        entry.expiry().is_some_and(|at| at <= self.due())
    }

    /// The Unix time in milliseconds up to which keys, and fields of hashes, that expire are gone.
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

//! The latching side of a command: acquires, parks, resumes and releases its latches, and passes the data
//! behind them to its handler.
//!
//! Owns the [`Latched`] data of one thread. Invariant: latches are waited for in ascending order of slots, so
//! that no cycle of waits arises; a few that were all free may be held in any order. A command holds the
//! latches of lower slots while it waits for one; no worker sleeps meanwhile. A command that needs several
//! latches first makes attempts: it releases all that it holds and waits for one latch alone, so that no
//! other command waits for it behind that latch. After [`TRY_COUNT_MAX`] attempts it keeps them.

mod latches;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use base::Slot;
use base::limits::SLOT_COUNT;
use sync::write_log::LogWriter;
use sync::{Claim, Mode, Parked};

pub use self::latches::Latches;
use crate::latched::Latched;
use crate::latched::held::Held;
use crate::store::key::Key;
use crate::store::keyspace::Keyspace;
use crate::store::places::{TablePlace, wanted_inline};
use crate::store::waiting::Waiter;
use crate::store::watching::Watching;

/// How often a command releases its latches when another one is taken. After that it waits in ascending order,
/// and that wait ends whatever other commands do.
pub const TRY_COUNT_MAX: u8 = 8;

/// Keys with an expiry that [`Latching::delete_local_expired`] visits at a time.
const LOCAL_EXPIRY_COUNT: usize = 400;

/// The progress of a command in latching several slots.
#[derive(Debug, Default)]
pub struct Tries {
    /// How often it has released its latches.
    count: u8,
    /// Whether it waits for one latch, or has waited for it, with all others released.
    is_alone: bool,
    /// Whether its attempts are used up: from now on it keeps its latches while it waits.
    keeps_latches: bool,
}

impl Tries {
    /// Whether the command keeps its latches while it waits. Then [`SCRIPT_TOKEN`] must be among its slots.
    #[must_use]
    #[inline]
    pub fn keeps_latches(&self) -> bool {
        self.keeps_latches
    }
}

/// The script token: a slot without keys, whose latch permits holding other latches while waiting for further ones. It is
/// the first in the order, so a session that waits for it holds no latch. A script that may access undeclared
/// keys holds it for writing; a command that keeps its latches while it waits has it among its slots. So of the
/// latches that such a script waits for, none is kept by a waiting command (see `docs/design/scripts.md`).
pub const SCRIPT_TOKEN: Slot = Slot::new(0);

/// A slot whose latch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub Slot);

/// Latches that a command keeps while it waits for another one.
#[derive(Default)]
pub struct HeldLatches<'k> {
    held: Held<'k>,
}

/// The latches of a thread and the data behind them. Dereferences to the data, as a guard does.
pub struct Latching<'k> {
    latches: Latches<'k>,
    data: Latched<'k>,
}

impl<'k> Deref for Latching<'k> {
    type Target = Latched<'k>;

    #[inline(always)]
    fn deref(&self) -> &Latched<'k> {
        &self.data
    }
}

impl<'k> DerefMut for Latching<'k> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Latched<'k> {
        &mut self.data
    }
}

impl<'k> Latching<'k> {
    /// The latching side of one thread, without latches. `thread` selects its counters.
    #[must_use]
    pub fn new(keyspace: &'k Keyspace, thread: usize, seed: u64) -> Self {
        Self { latches: Latches::default(), data: Latched::new(keyspace, thread, seed) }
    }

    /// The keyspace.
    #[must_use]
    pub fn keyspace(&self) -> &'k Keyspace {
        self.data.keyspace
    }

    /// Borrows the data and, separately, the operations on its latches.
    #[inline(always)]
    pub fn split(&mut self) -> (&mut Latches<'k>, &mut Latched<'k>) {
        (&mut self.latches, &mut self.data)
    }

    /// Latches one slot. No latch may be held.
    #[inline(always)]
    pub fn latch(&mut self, slot: Slot, mode: Mode) -> Result<(), Busy> {
        self.latches.latch(&mut self.data, slot, mode)
    }

    /// Latches several slots (ascending, distinct), continuing after those that are already held.
    pub fn latch_several(&mut self, wanted: impl Iterator<Item = Slot>, mode: Mode) -> Result<(), Busy> {
        self.latches.latch_several(&mut self.data, wanted, mode)
    }

    /// Latches every slot, continuing after those that are already held.
    pub fn latch_all(&mut self, mode: Mode) -> Result<(), Busy> {
        self.latches.reserve_all(&mut self.data);
        self.latch_several((0..SLOT_COUNT as u16).map(Slot::new), mode)
    }

    /// Makes the database with nearly all keys the inline one (`store/places.rs`), if it is not yet and all
    /// slots are free now. No latch may be held. The exchange takes about a millisecond, under all latches.
    /// Returns whether it was made.
    pub fn settle_inline_database(&mut self) -> bool {
        let keyspace = self.keyspace();
        let inline = keyspace.places.db_in(TablePlace::INLINE);
        let key_count = |db| keyspace.counters.population(db).keys;
        let Some(db) = wanted_inline(inline, key_count, keyspace.db_count()) else { return false };
        let is_free = self.latch_all(Mode::Write).is_ok();
        if is_free {
            self.data.make_inline(db);
        }
        self.release();
        is_free
    }

    /// Releases all latches.
    #[inline(always)]
    pub fn release(&mut self) {
        self.latches.release(&mut self.data);
    }

    /// Parks in the slot's queue, unless the latch is free now: then returns `true`, and it is held.
    #[must_use]
    pub fn park(&mut self, busy: Busy, mode: Mode, token: u64) -> bool {
        match self.data.keyspace.slots().park(busy.0.index(), mode, token) {
            Parked::Acquired(guard) => {
                self.data.slots.hold(busy.0, guard);
                true
            }
            Parked::Waiting => false,
        }
    }

    /// Begins to latch the slots of a command, or continues after the latch that it has waited for. A latch
    /// that was waited for alone is released first: lower ones come before it.
    #[inline]
    pub fn begin_latching(&mut self, tries: &mut Tries) {
        if std::mem::take(&mut tries.is_alone) {
            self.release();
        }
    }

    /// Waits for a latch that was taken: as [`Self::park`], but releases the lower ones as long as there
    /// are attempts left. Returns `true` if the command need not wait, and continues to latch.
    #[must_use]
    pub fn wait_for(&mut self, busy: Busy, mode: Mode, token: u64, tries: &mut Tries) -> bool {
        let has_others = match &self.data.slots.held {
            Held::Nothing => false,
            Held::Several(guards) => !guards.is_empty(),
            Held::Read(..) | Held::Write(..) => true,
        };
        if !has_others || tries.keeps_latches {
            return self.park(busy, mode, token);
        }
        if tries.count == TRY_COUNT_MAX {
            // Begins again, with the script token.
            tries.keeps_latches = true;
            self.release();
            return true;
        }
        tries.count += 1;
        self.release();
        let is_held = self.park(busy, mode, token);
        if is_held {
            self.release();
        }
        tries.is_alone = !is_held;
        is_held
    }

    /// Claims the latch for which the session with this token was woken. `false`: it must wait again.
    #[must_use]
    pub fn claim(&mut self, busy: Busy, token: u64) -> bool {
        match self.data.keyspace.slots().claim(busy.0.index(), token) {
            Claim::Acquired(guard) => {
                self.data.slots.hold(busy.0, guard);
                true
            }
            Claim::Pending => false,
            Claim::NotWaiting => {
                panic!("session {token} claims slot {} without waiting for it", busy.0.index())
            }
        }
    }

    /// Takes a latch back that was handed over to a session and that it has not claimed for a while since an earlier call for
    /// the slot. Returns whether a latch is handed over and not claimed, so that another call is due. `now_us` is of one clock
    /// for all threads.
    pub fn take_back(&self, slot: Slot, now_us: i64) -> bool {
        self.data.keyspace.slots().take_back(slot.index(), now_us)
    }

    /// Takes the latches out of the data, to be kept while their command waits.
    #[must_use]
    pub fn keep(&mut self) -> HeldLatches<'k> {
        HeldLatches { held: std::mem::take(&mut self.data.slots.held) }
    }

    /// Puts kept latches back.
    pub fn restore(&mut self, kept: HeldLatches<'k>) {
        debug_assert!(matches!(self.data.slots.held, Held::Nothing));
        self.data.slots.held = kept.held;
    }

    /// Ends the wait of a closed session for a latch.
    pub fn cancel(&self, busy: Busy, token: u64) {
        self.data.keyspace.slots().cancel(busy.0.index(), token);
    }

    /// Removes a waiter whose wait has ended from the queues whose slots are free now. Returns whether
    /// these were all.
    pub fn leave(&mut self, waiter: &Arc<Waiter>) -> bool {
        let counters = self.data.counters;
        let mut all = true;
        for key in waiter.keys() {
            let slot = key.slot();
            if self.data.holds_for_writing(slot) {
                self.data.slot_data_mut(slot).remove_waiter(key.key(), waiter, counters);
            } else if self.data.held_data(slot).is_none()
                && let Some(mut guard) = self.data.keyspace.slots().try_write_now(slot.index())
            {
                guard.remove_waiter(key.key(), waiter, counters);
            } else {
                all = false;
            }
        }
        all
    }

    /// Deletes the expired keys that reads found, where the slots are free. No latch may be held.
    pub fn delete_found_expired(&mut self) {
        self.data.deferred.examined_count = 0;
        for (db, bytes) in self.data.deferred.found_expired.take() {
            let key = Key::new(self.data.hasher(), &bytes, db);
            if self.latch(key.slot, Mode::Write).is_ok() {
                self.data.expire_if_due(key);
                self.release();
            }
        }
    }

    /// Deletes expired keys of a writable replica whose expiry its clients have set, where the slots are free. No latch may be held.
    pub fn delete_local_expired(&mut self) {
        let keyspace = self.data.keyspace;
        let expiries = &keyspace.local_expiries;
        for place in expiries.next(LOCAL_EXPIRY_COUNT) {
            let key = Key::new(self.data.hasher(), &place.1, place.0);
            if self.latch(key.slot, Mode::Write).is_ok() {
                self.data.expire_if_due(key);
                if !self.data.has_expiry(key) {
                    expiries.remove(&place);
                }
                self.release();
            }
        }
    }

    /// Discards the record of expired keys that reads found.
    pub fn discard_found_expired(&mut self) {
        self.data.deferred.examined_count = 0;
        self.data.deferred.found_expired.get_mut().clear();
    }

    /// Ends a session's watches, in the slots that are held for writing or free now.
    pub fn end_watches(&mut self, watching: Watching) {
        self.data.unwatch(watching);
        self.remove_ended_watches();
    }

    /// Removes the ended watches that handlers have left in slots that were not held, where the slots are
    /// free. The remaining ones are dead, and are dropped when their list is swept.
    pub fn remove_ended_watches(&mut self) {
        for watching in std::mem::take(&mut self.data.deferred.unwatched) {
            for slot in watching.slots() {
                if self.data.held_data(slot).is_none()
                    && let Some(mut guard) = self.data.keyspace.slots().try_write_now(slot.index())
                {
                    guard.remove_watches(&watching);
                }
            }
        }
    }

    /// Lets this thread append its effects to the write log. `false`: all lanes of the log are taken.
    #[must_use]
    pub fn join_log(&mut self) -> bool {
        self.data.log.writer = self.data.keyspace.log.any_writer();
        self.data.log.writer.is_some()
    }

    /// Sets whether [`Latched::take_reply_lsn`] includes the changes that commands have only read.
    pub fn note_reads(&mut self, is_wanted: bool) {
        self.data.log.notes_reads = is_wanted;
    }

    /// Wakes the readers of the write log. Called after latches were released, before the thread waits for anything.
    #[inline]
    pub fn notify_log(&mut self) {
        if let Some(writer) = &mut self.data.log.writer {
            writer.notify();
        }
    }

    /// Whether this thread has appended to the write log since the last call of [`Self::notify_log`].
    #[inline]
    #[must_use]
    pub fn has_appended(&self) -> bool {
        self.data.log.writer.as_ref().is_some_and(LogWriter::has_appended)
    }

    /// Registers this thread in the keyspace's epochs, so that it may prefetch. `false`: the number of
    /// participants is at its maximum.
    pub fn join_epochs(&mut self) -> bool {
        self.data.epochs.join(self.data.keyspace)
    }

    /// Marks the thread quiescent, which releases the segments replaced so far: memory prefetched earlier
    /// is not read any more. No command runs, and what cycles have changed under latches of their own is released.
    #[inline]
    pub fn quiescent(&mut self) {
        self.data.counters.changing.end();
        self.data.epochs.quiescent();
    }

    /// Marks the thread asleep: it prefetches nothing until it is [`Self::online`].
    pub fn offline(&mut self) {
        self.data.epochs.offline();
    }

    /// Marks the thread awake.
    pub fn online(&mut self) {
        self.data.epochs.online();
    }
}

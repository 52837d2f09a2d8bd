//! Acquiring and releasing the latches of a command.
//!
//! Invariant: latches are waited for in ascending order of slots, so that no cycle of waits arises. A
//! command keeps the latches of lower slots while it waits for one; no thread sleeps meanwhile. A command
//! that needs several latches first makes attempts: it releases all that it holds and waits for one latch
//! alone, so that no other command waits for it behind that latch. After [`TRY_COUNT_MAX`] attempts it
//! keeps them.

use base::Slot;
use base::limits::SLOT_COUNT;
use sync::{Claim, Guard, Mode, Parked};

use crate::keyspace::Slots;
use crate::view::{FEW, Held, SlotGuard, View};

/// Latches for which capacity is kept from one command to the next, so that the latches of a few keys
/// allocate nothing.
const SPARE_GUARD_COUNT_MAX: usize = 512;

/// How often a command releases its latches when another one is taken. Then it waits in ascending order,
/// which ends whatever other commands do.
pub const TRY_COUNT_MAX: u8 = 8;

/// The progress of a command in latching several slots.
#[derive(Debug, Default)]
pub struct Tries {
    /// How often it has released its latches.
    count: u8,
    /// Whether it waits for one latch, or has waited for it, with all others released.
    is_alone: bool,
}

/// A slot whose latch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub Slot);

/// Latches that a command keeps while it waits for another one.
#[derive(Default)]
pub struct HeldLatches<'k> {
    held: Held<'k>,
}

impl<'k> View<'k> {
    /// Latches one slot. No latch may be held.
    #[inline(always)]
    pub fn latch(&mut self, slot: Slot, mode: Mode) -> Result<(), Busy> {
        assert!(self.holds_nothing());
        let slots = self.keyspace.slots();
        let held = match mode {
            Mode::Read => slots.try_read(slot.index()).map(|guard| Held::Read(slot, guard)),
            Mode::Write => slots.try_write(slot.index()).map(|guard| Held::Write(slot, guard)),
        };
        let Some(held) = held else { return Err(Busy(slot)) };
        // The old value, `Nothing`, needs no drop; the compiler cannot see that.
        std::mem::forget(std::mem::replace(&mut self.held, held));
        Ok(())
    }

    /// Releases the held latches and latches one slot. A latch that is already held is kept, unless it has
    /// a waiter: so a waiter waits for at most one command, however many follow on the slot.
    #[inline(always)]
    pub fn latch_next(&mut self, slot: Slot, mode: Mode) -> Result<(), Busy> {
        let is_kept = match (mode, &self.held) {
            (Mode::Read, Held::Read(held, guard)) => *held == slot && !guard.is_wanted(),
            (Mode::Write, Held::Write(held, guard)) => *held == slot && !guard.is_wanted(),
            _ => false,
        };
        if is_kept {
            return Ok(());
        }
        self.release();
        self.latch(slot, mode)
    }

    /// Latches a few slots, in any order, if all of them are free now. Otherwise none is held, and they
    /// have to be waited for in ascending order. No latch may be held before. Also returns `false` if there
    /// are too many slots.
    #[must_use]
    pub fn latch_at_once(&mut self, wanted: impl ExactSizeIterator<Item = Slot>, mode: Mode) -> bool {
        debug_assert!(self.holds_nothing());
        if wanted.len() > FEW {
            return false;
        }
        match mode {
            Mode::Read => self.latch_free(wanted, Slots::try_read_now, Guard::Read),
            Mode::Write => self.latch_free(wanted, Slots::try_write_now, Guard::Write),
        }
    }

    /// [`Self::latch_at_once`] for one mode.
    #[inline(always)]
    fn latch_free<G>(
        &mut self,
        wanted: impl ExactSizeIterator<Item = Slot>,
        try_now: impl Fn(&'k Slots, usize) -> Option<G>,
        guard: impl Fn(G) -> SlotGuard<'k>,
    ) -> bool {
        let slots = self.keyspace.slots();
        let guards = several(&mut self.held, &mut self.spare_guards);
        guards.reserve(wanted.len());
        for slot in wanted {
            // A repeated slot that is not detected is held twice for reading; for writing, it is not free.
            if self.places.guess(slot, guards).is_some() {
                continue;
            }
            let Some(held) = try_now(slots, slot.index()) else {
                self.release();
                return false;
            };
            self.places.note(slot, guards.len());
            // With this assertion a guard is written directly to its place, without the code path that
            // grows the vector.
            assert!(guards.len() < guards.capacity(), "there is room for all");
            guards.push((slot, guard(held)));
        }
        true
    }

    /// Latches several slots (ascending, distinct), continuing after those that are already held.
    pub fn latch_several(&mut self, wanted: impl Iterator<Item = Slot>, mode: Mode) -> Result<(), Busy> {
        let slots = self.keyspace.slots();
        let guards = ascending(several(&mut self.held, &mut self.spare_guards));
        let last = guards.last().map(|(slot, _)| *slot);
        for slot in wanted.skip_while(|slot| last.is_some_and(|last| *slot <= last)) {
            let guard = match mode {
                Mode::Read => slots.try_read(slot.index()).map(Guard::Read),
                Mode::Write => slots.try_write(slot.index()).map(Guard::Write),
            };
            self.places.note(slot, guards.len());
            guards.push((slot, guard.ok_or(Busy(slot))?));
        }
        if guards.len() > FEW && guards.len() < SLOT_COUNT {
            self.places.note_many(guards);
        }
        Ok(())
    }

    /// Latches every slot, continuing after those that are already held.
    pub fn latch_all(&mut self, mode: Mode) -> Result<(), Busy> {
        let guards = several(&mut self.held, &mut self.spare_guards);
        guards.reserve_exact(SLOT_COUNT - guards.len());
        self.latch_several((0..SLOT_COUNT as u16).map(Slot::new), mode)
    }

    /// Parks in the slot's queue, unless the latch is free now: then returns `true`, and it is held.
    #[must_use]
    pub fn park(&mut self, busy: Busy, mode: Mode, token: u64) -> bool {
        match self.keyspace.slots().park(busy.0.index(), mode, token) {
            Parked::Acquired(guard) => {
                self.hold(busy.0, guard);
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
        let has_others = match &self.held {
            Held::Nothing => false,
            Held::Several(guards) => !guards.is_empty(),
            Held::Read(..) | Held::Write(..) => true,
        };
        if !has_others || tries.count == TRY_COUNT_MAX {
            return self.park(busy, mode, token);
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
        match self.keyspace.slots().claim(busy.0.index(), token) {
            Claim::Acquired(guard) => {
                self.hold(busy.0, guard);
                true
            }
            Claim::Pending => false,
            Claim::NotWaiting => {
                panic!("session {token} claims slot {} without waiting for it", busy.0.index())
            }
        }
    }

    /// Latches one more slot for writing, out of order and therefore only if it is free: waiting out of
    /// order could deadlock. Returns whether it is held now.
    #[must_use]
    pub fn try_latch_extra(&mut self, slot: Slot) -> bool {
        if self.held_data(slot).is_some() {
            return self.holds_for_writing(slot);
        }
        let Some(guard) = self.keyspace.slots().try_write(slot.index()) else { return false };
        let guards = ascending(several(&mut self.held, &mut self.spare_guards));
        let place = guards.partition_point(|(held, _)| *held < slot);
        guards.insert(place, (slot, Guard::Write(guard)));
        true
    }

    /// Latches for writing those of some more slots (ascending, distinct) that are free now.
    pub fn latch_free_too(&mut self, wanted: &[Slot]) {
        let slots = self.keyspace.slots();
        let guards = ascending(several(&mut self.held, &mut self.spare_guards));
        let held_before = guards.len();
        for slot in wanted {
            if guards[..held_before].binary_search_by_key(slot, |(held, _)| *held).is_err()
                && let Some(guard) = slots.try_write(slot.index())
            {
                guards.push((*slot, Guard::Write(guard)));
            }
        }
        guards.sort_unstable_by_key(|(slot, _)| *slot);
    }

    /// Whether no latch is held.
    #[must_use]
    #[inline]
    pub fn holds_nothing(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Releases all latches.
    #[inline(always)]
    pub fn release(&mut self) {
        match &self.held {
            Held::Several(_) => self.release_several(),
            // Dropped in place: moving it out first takes longer than all the rest.
            _ => self.held = Held::Nothing,
        }
    }

    #[inline(never)]
    fn release_several(&mut self) {
        let Held::Several(mut guards) = std::mem::take(&mut self.held) else { return };
        guards.clear();
        if guards.capacity() <= SPARE_GUARD_COUNT_MAX {
            self.spare_guards = guards;
        }
    }

    /// Takes the latches out of the view, to be kept while their command waits.
    #[must_use]
    pub fn keep(&mut self) -> HeldLatches<'k> {
        HeldLatches { held: std::mem::take(&mut self.held) }
    }

    /// Puts kept latches back.
    pub fn restore(&mut self, kept: HeldLatches<'k>) {
        debug_assert!(matches!(self.held, Held::Nothing));
        self.held = kept.held;
    }

    fn hold(&mut self, slot: Slot, guard: SlotGuard<'k>) {
        match &mut self.held {
            Held::Several(guards) => guards.push((slot, guard)),
            held => {
                *held = match guard {
                    Guard::Read(guard) => Held::Read(slot, guard),
                    Guard::Write(guard) => Held::Write(slot, guard),
                }
            }
        }
    }
}

/// The held latches, as several.
fn several<'a, 'k>(
    held: &'a mut Held<'k>,
    spare: &mut Vec<(Slot, SlotGuard<'k>)>,
) -> &'a mut Vec<(Slot, SlotGuard<'k>)> {
    *held = match std::mem::take(held) {
        Held::Nothing => Held::Several(std::mem::take(spare)),
        Held::Several(guards) => Held::Several(guards),
        Held::Read(slot, guard) => Held::Several(vec![(slot, Guard::Read(guard))]),
        Held::Write(slot, guard) => Held::Several(vec![(slot, Guard::Write(guard))]),
    };
    match held {
        Held::Several(guards) => guards,
        _ => unreachable!("made so above"),
    }
}

/// Sorts the guards in ascending order.
fn ascending<'a, 'k>(guards: &'a mut Vec<(Slot, SlotGuard<'k>)>) -> &'a mut Vec<(Slot, SlotGuard<'k>)> {
    if guards.len() <= FEW && !guards.is_sorted_by_key(|(slot, _)| *slot) {
        guards.sort_unstable_by_key(|(slot, _)| *slot);
    }
    guards
}

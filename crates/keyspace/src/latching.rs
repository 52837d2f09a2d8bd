//! Taking and letting go the latches of a command.
//!
//! Invariant: latches are waited for in ascending order of slots, so that there is no circle of waiting. One that can't be had
//! is waited for with the lower ones kept; nobody sleeps meanwhile. A command that needs several first tries: it lets go all that
//! it has and waits for the one alone, so that nobody waits for it behind that one. After [`TRY_COUNT_MAX`] of these it keeps them.

use base::Slot;
use base::limits::SLOT_COUNT;
use sync::{Claim, Guard, Mode, Parked};

use crate::keyspace::Slots;
use crate::view::{FEW, Held, SlotGuard, View};

/// Latches for which room is kept from one command to the next, so that those of a few keys allocate nothing.
const SPARE_GUARD_COUNT_MAX: usize = 512;

/// How often a command lets its latches go when it can't have another one: then it waits in ascending order, which ends whatever the others do.
pub const TRY_COUNT_MAX: u8 = 8;

/// How far a command has got with latching several slots.
#[derive(Debug, Default)]
pub struct Tries {
    /// How often it has let its latches go.
    count: u8,
    /// It waits for one latch, or has waited for it, and has let go all others.
    is_alone: bool,
}

/// A slot that could not be latched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub Slot);

/// Latches kept by a command that waits for another one.
#[derive(Default)]
pub struct HeldLatches<'k> {
    held: Held<'k>,
}

impl<'k> View<'k> {
    /// Latches one slot. None is held.
    #[inline(always)]
    pub fn latch(&mut self, slot: Slot, mode: Mode) -> Result<(), Busy> {
        assert!(self.holds_nothing());
        let slots = self.keyspace.slots();
        let held = match mode {
            Mode::Read => slots.try_read(slot.index()).map(|guard| Held::Read(slot, guard)),
            Mode::Write => slots.try_write(slot.index()).map(|guard| Held::Write(slot, guard)),
        };
        let Some(held) = held else { return Err(Busy(slot)) };
        // What was there, nothing, need not be dropped; the compiler does not know.
        std::mem::forget(std::mem::replace(&mut self.held, held));
        Ok(())
    }

    /// Lets what is held go and latches one slot. If it is what is held, it is kept, unless somebody waits for it: who has
    /// begun to wait waits for one command, however many follow.
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

    /// Latches a few slots, in any order, if all of them are free just now. If not, none is held: they have to be waited for in
    /// ascending order. None is held before. `false` also if they are too many.
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

    /// What [`Self::latch_at_once`] does, in one mode.
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
            // A slot that comes again and is not noticed is held twice for reading; for writing, it is not free.
            if self.places.guess(slot, guards).is_some() {
                continue;
            }
            let Some(held) = try_now(slots, slot.index()) else {
                self.release();
                return false;
            };
            self.places.note(slot, guards.len());
            // Said here, a guard goes straight to its place, and not by the way of one that has to wait for room.
            assert!(guards.len() < guards.capacity(), "there is room for all");
            guards.push((slot, guard(held)));
        }
        true
    }

    /// Latches several slots (ascending, distinct), going on behind those that are held already.
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

    /// Latches every slot, going on behind those that are held already.
    pub fn latch_all(&mut self, mode: Mode) -> Result<(), Busy> {
        let guards = several(&mut self.held, &mut self.spare_guards);
        guards.reserve_exact(SLOT_COUNT - guards.len());
        self.latch_several((0..SLOT_COUNT as u16).map(Slot::new), mode)
    }

    /// Waits in the slot's queue, unless the latch can be had now: then `true`, and it is held.
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

    /// Begins to latch what a command needs, or goes on behind the latch that it has waited for. If it was waited for alone, it is let go:
    /// lower ones come first.
    #[inline]
    pub fn begin_latching(&mut self, tries: &mut Tries) {
        if std::mem::take(&mut tries.is_alone) {
            self.release();
        }
    }

    /// Waits for a latch that a command could not have: as [`Self::park`] does, but without the lower ones as long as there are tries
    /// left. `true`: it need not wait, and goes on latching.
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

    /// Takes the latch that the session with this token was woken for. `false`: it must wait on.
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

    /// Latches one more slot for writing, out of order and so only if it is free: whoever waits out of order may wait for
    /// ever. Whether it is held now.
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

    /// Latches of some more slots (ascending, distinct) those for writing that are free just now.
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

    /// Lets all latches go.
    #[inline(always)]
    pub fn release(&mut self) {
        match &self.held {
            Held::Several(_) => self.release_several(),
            // Dropped where it is: moving it out first takes longer than all the rest.
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

    /// Takes the latches away, to be kept while their command waits.
    #[must_use]
    pub fn keep(&mut self) -> HeldLatches<'k> {
        HeldLatches { held: std::mem::take(&mut self.held) }
    }

    /// Gives kept latches back.
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

/// What is held, as several.
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

/// The same, in ascending order.
fn ascending<'a, 'k>(guards: &'a mut Vec<(Slot, SlotGuard<'k>)>) -> &'a mut Vec<(Slot, SlotGuard<'k>)> {
    if guards.len() <= FEW && !guards.is_sorted_by_key(|(slot, _)| *slot) {
        guards.sort_unstable_by_key(|(slot, _)| *slot);
    }
    guards
}

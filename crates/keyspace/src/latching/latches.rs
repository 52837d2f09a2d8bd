//! Acquires and releases latches for the data passed to handlers: while a run of requests shares one context, its
//! [`Latched`] is in that context, and only the latches are accessible.
//!
//! Latching never parks; that is in `latching.rs`.

use base::Slot;
use base::limits::SLOT_COUNT;
use sync::{Guard, Mode};

use super::Busy;
use crate::latched::Latched;
use crate::latched::held::{FEW, Held, SlotGuard};
use crate::store::keyspace::Slots;

/// Latches for which capacity is kept from one command to the next, so that the latches of a few keys
/// allocate nothing.
const SPARE_GUARD_COUNT_MAX: usize = 512;

/// The operations that change which latches are held. The guards are in the [`Latched`] that each function
/// takes; one `Latches` is used with one `Latched` only.
#[derive(Default)]
pub struct Latches<'k> {
    /// Always empty: memory for the next `Held::Several`.
    spare_guards: Vec<(Slot, SlotGuard<'k>)>,
}

impl<'k> Latches<'k> {
    /// Latches one slot. No latch may be held.
    #[inline(always)]
    pub fn latch(&mut self, data: &mut Latched<'k>, slot: Slot, mode: Mode) -> Result<(), Busy> {
        assert!(data.slots.are_none());
        let slots = data.keyspace.slots();
        let held = match mode {
            Mode::Read => slots.try_read(slot.index()).map(|guard| Held::Read(slot, guard)),
            Mode::Write => slots.try_write(slot.index()).map(|guard| Held::Write(slot, guard)),
        };
        let Some(held) = held else { return Err(Busy(slot)) };
        // The old value, `Nothing`, needs no drop; the compiler cannot prove that.
        std::mem::forget(std::mem::replace(&mut data.slots.held, held));
        Ok(())
    }

    /// Releases the held latches and latches one slot. A latch that is already held is kept, unless it has
    /// a waiter: so a waiter waits for at most one command, however many follow on the slot.
    #[inline(always)]
    pub fn latch_next(&mut self, data: &mut Latched<'k>, slot: Slot, mode: Mode) -> Result<(), Busy> {
        let is_kept = match (mode, &data.slots.held) {
            (Mode::Read, Held::Read(held, guard)) => *held == slot && !guard.is_wanted(),
            (Mode::Write, Held::Write(held, guard)) => *held == slot && !guard.is_wanted(),
            _ => false,
        };
        if is_kept {
            return Ok(());
        }
        self.release(data);
        self.latch(data, slot, mode)
    }

    /// Latches a few slots, in any order, if all of them are free now. Otherwise holds none, and the caller
    /// must wait for them in ascending order. No latch may be held before. Also returns `false` if there
    /// are too many slots.
    #[must_use]
    pub fn latch_at_once(
        &mut self,
        data: &mut Latched<'k>,
        wanted: impl ExactSizeIterator<Item = Slot>,
        mode: Mode,
    ) -> bool {
        debug_assert!(data.slots.are_none());
        if wanted.len() > FEW {
            return false;
        }
        match mode {
            Mode::Read => self.latch_free(data, wanted, Slots::try_read_now, Guard::Read),
            Mode::Write => self.latch_free(data, wanted, Slots::try_write_now, Guard::Write),
        }
    }

    /// [`Self::latch_at_once`] for one mode.
    #[inline(always)]
    fn latch_free<G>(
        &mut self,
        data: &mut Latched<'k>,
        wanted: impl ExactSizeIterator<Item = Slot>,
        try_now: impl Fn(&'k Slots, usize) -> Option<G>,
        guard: impl Fn(G) -> SlotGuard<'k>,
    ) -> bool {
        let slots = data.keyspace.slots();
        let guards = several(&mut data.slots.held, &mut self.spare_guards);
        guards.reserve(wanted.len());
        for slot in wanted {
            // A repeated slot that is not detected is held twice for reading; for writing, it is not free.
            if data.slots.places.probable(slot, guards).is_some() {
                continue;
            }
            let Some(held) = try_now(slots, slot.index()) else {
                self.release(data);
                return false;
            };
            data.slots.places.note(slot, guards.len());
            // With this assertion a guard is written directly to its place, without the code path that
            // grows the vector.
            assert!(guards.len() < guards.capacity(), "there is room for all");
            guards.push((slot, guard(held)));
        }
        true
    }

    /// Latches several slots (ascending, distinct), continuing after those that are already held.
    pub fn latch_several(
        &mut self,
        data: &mut Latched<'k>,
        wanted: impl Iterator<Item = Slot>,
        mode: Mode,
    ) -> Result<(), Busy> {
        let slots = data.keyspace.slots();
        let guards = ascending(several(&mut data.slots.held, &mut self.spare_guards));
        let last = guards.last().map(|(slot, _)| *slot);
        for slot in wanted.skip_while(|slot| last.is_some_and(|last| *slot <= last)) {
            let guard = match mode {
                Mode::Read => slots.try_read(slot.index()).map(Guard::Read),
                Mode::Write => slots.try_write(slot.index()).map(Guard::Write),
            };
            data.slots.places.note(slot, guards.len());
            guards.push((slot, guard.ok_or(Busy(slot))?));
        }
        if guards.len() > FEW && guards.len() < SLOT_COUNT {
            data.slots.places.note_many(guards);
        }
        Ok(())
    }

    /// Releases all latches.
    #[inline(always)]
    pub fn release(&mut self, data: &mut Latched<'k>) {
        match &data.slots.held {
            Held::Several(_) => self.release_several(data),
            _ => {
                if !data.effects.is_empty() {
                    data.log_effects();
                }
                if data.notes_reads() {
                    data.note_read_changes();
                }
                // What was counted is in the log then.
                data.counters.changing.end();
                // Dropped in place: moving it out first takes longer than the rest of this function.
                data.slots.held = Held::Nothing;
            }
        }
    }

    #[inline(never)]
    fn release_several(&mut self, data: &mut Latched<'k>) {
        data.log_effects();
        if data.notes_reads() {
            data.note_read_changes();
        }
        data.counters.changing.end();
        let Held::Several(mut guards) = std::mem::take(&mut data.slots.held) else { return };
        guards.clear();
        data.instant.end();
        if guards.capacity() <= SPARE_GUARD_COUNT_MAX {
            self.spare_guards = guards;
        }
    }

    /// Latches one more slot for writing, out of order and therefore only if it is free: waiting out of
    /// order could deadlock. Returns whether it is held now.
    #[must_use]
    pub fn try_latch_extra(&mut self, data: &mut Latched<'k>, slot: Slot) -> bool {
        if data.held_data(slot).is_some() {
            return data.holds_for_writing(slot);
        }
        let Some(guard) = data.keyspace.slots().try_write(slot.index()) else { return false };
        let guards = ascending(several(&mut data.slots.held, &mut self.spare_guards));
        let place = guards.partition_point(|(held, _)| *held < slot);
        guards.insert(place, (slot, Guard::Write(guard)));
        true
    }

    /// Latches one more slot for reading, if it is free. Returns whether it is held now, in any mode.
    #[must_use]
    pub fn try_latch_extra_to_read(&mut self, data: &mut Latched<'k>, slot: Slot) -> bool {
        if data.held_data(slot).is_some() {
            return true;
        }
        let Some(guard) = data.keyspace.slots().try_read(slot.index()) else { return false };
        let guards = ascending(several(&mut data.slots.held, &mut self.spare_guards));
        let place = guards.partition_point(|(held, _)| *held < slot);
        guards.insert(place, (slot, Guard::Read(guard)));
        true
    }

    /// Latches for writing as many of these further slots (ascending, distinct) as are free now.
    pub fn latch_free_too(&mut self, data: &mut Latched<'k>, wanted: &[Slot]) {
        let slots = data.keyspace.slots();
        let guards = ascending(several(&mut data.slots.held, &mut self.spare_guards));
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

    /// Room for guards of every slot.
    pub(super) fn reserve_all(&mut self, data: &mut Latched<'k>) {
        let guards = several(&mut data.slots.held, &mut self.spare_guards);
        guards.reserve_exact(SLOT_COUNT - guards.len());
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

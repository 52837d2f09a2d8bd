//! The slots whose latches are held, and the guards that lead to their data.
//!
//! Invariant: several guards are in ascending order of their slots if they are more than [`FEW`].

use base::Slot;
use base::limits::SLOT_COUNT;
use collections::Hint;
use sync::{Guard, ReadGuard, WriteGuard};

use crate::store::slot_data::SlotData;

/// A slot held for reading or writing.
pub(crate) type SlotGuard<'k> = Guard<'k, Hint, SlotData>;

/// The latches that a command holds.
#[derive(Default)]
pub(crate) enum Held<'k> {
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

    /// The place of a slot's guard, if it is at its probable place.
    #[inline(always)]
    pub(crate) fn probable(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        let place = usize::from(self.few[slot.index() % Self::COUNT]);
        guards.get(place).filter(|(held, _)| *held == slot).map(|_| place)
    }

    /// The place of a slot's guard, if it is held.
    #[inline(always)]
    fn place_of(&self, slot: Slot, guards: &[(Slot, SlotGuard<'_>)]) -> Option<usize> {
        self.probable(slot, guards).or_else(|| self.search(slot, guards))
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

/// The slots held for a command.
pub(crate) struct HeldSlots<'k> {
    pub(crate) held: Held<'k>,
    /// The places of the guards, when there are several.
    pub(crate) places: Places,
}

impl<'k> HeldSlots<'k> {
    /// No slots.
    pub(crate) const fn none() -> Self {
        Self { held: Held::Nothing, places: Places::new() }
    }

    /// Whether no slot is held.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Whether a slot is held for writing.
    pub(crate) fn is_written(&self) -> bool {
        match &self.held {
            Held::Nothing | Held::Read(..) => false,
            Held::Write(..) => true,
            Held::Several(guards) => guards.iter().any(|(_, guard)| matches!(guard, Guard::Write(_))),
        }
    }

    /// The data of a slot, if it is held.
    #[inline(always)]
    pub(crate) fn data(&self, slot: Slot) -> Option<&SlotData> {
        match &self.held {
            Held::Read(held, guard) if *held == slot => Some(guard),
            Held::Write(held, guard) if *held == slot => Some(guard),
            Held::Several(guards) => Some(&guards[self.places.place_of(slot, guards)?].1),
            Held::Nothing | Held::Read(..) | Held::Write(..) => None,
        }
    }

    /// The data of a slot, if it is held for writing.
    #[inline(always)]
    pub(crate) fn data_mut(&mut self, slot: Slot) -> Option<&mut SlotData> {
        match &mut self.held {
            Held::Write(held, guard) if *held == slot => Some(guard),
            Held::Several(guards) => {
                self.places.place_of(slot, guards).and_then(|place| guards[place].1.as_mut())
            }
            _ => None,
        }
    }

    /// Whether a slot is held for writing.
    pub(crate) fn is_writable(&self, slot: Slot) -> bool {
        match &self.held {
            Held::Write(held, _) => *held == slot,
            Held::Several(guards) => {
                let place = self.places.place_of(slot, guards);
                place.is_some_and(|index| matches!(guards[index].1, Guard::Write(_)))
            }
            Held::Nothing | Held::Read(..) => false,
        }
    }

    /// Adds a guard.
    pub(crate) fn hold(&mut self, slot: Slot, guard: SlotGuard<'k>) {
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

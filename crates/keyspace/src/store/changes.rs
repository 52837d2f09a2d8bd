//! For each slot, the end of the last record in the write log about its keys: a reply that shows a value may leave
//! once the log is durable up to there.

use base::limits::SLOT_COUNT;
use base::{Lsn, Slot};
use sync::atomic::{AtomicU64, Ordering};

/// The last change of each slot. A slot's entry is accessed under its latch, and stored with the latch held for
/// writing, which orders the accesses.
pub(crate) struct LastChanges {
    of_slots: Box<[AtomicU64]>,
    /// The end of the last record of a command that held all slots.
    of_all: AtomicU64,
}

impl LastChanges {
    pub(crate) fn new() -> Self {
        Self { of_slots: (0..SLOT_COUNT).map(|_| AtomicU64::new(0)).collect(), of_all: AtomicU64::new(0) }
    }

    /// Records a change. The slot is held for writing.
    #[inline]
    pub(crate) fn note(&self, slot: Slot, end: Lsn) {
        self.of_slots[slot.index()].store(end.0, Ordering::Relaxed);
    }

    /// Prefetches the entry of a slot, which a write stores just before it releases its latch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: usize) {
        sync::prefetch_for_writing((&raw const self.of_slots[slot]).cast());
    }

    /// Records a change of any slot. All are held for writing.
    pub(crate) fn note_all(&self, end: Lsn) {
        self.of_all.store(end.0, Ordering::Relaxed);
    }

    /// The end of the last record about a slot's keys. The slot is held.
    #[inline]
    pub(crate) fn of(&self, slot: Slot) -> Lsn {
        let of_all = self.of_all.load(Ordering::Relaxed);
        Lsn(self.of_slots[slot.index()].load(Ordering::Relaxed).max(of_all))
    }

    /// As [`Self::of`], for all slots, which are held.
    pub(crate) fn of_any(&self) -> Lsn {
        let newest = self.of_slots.iter().map(|of_slot| of_slot.load(Ordering::Relaxed)).max();
        Lsn(newest.unwrap_or(0).max(self.of_all.load(Ordering::Relaxed)))
    }
}

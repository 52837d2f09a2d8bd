//! What a transaction observes of slots that it does not hold: the number of keys, and random keys. As what its other commands
//! observe, these have to be of one instant.
//!
//! | observed | the instant |
//! |---|---|
//! | the number of keys | the share of the other threads is read when the transaction holds its latches, while none of them changes keys; its own share is read when a command needs it, and contains its own changes |
//! | random keys | the latches of their slots are kept until the transaction ends |
//!
//! Both together would be two instants; then the transaction holds all latches, as it does if there is no such instant, or
//! no key to fall back on. `docs/design/latching.md` has the argument.

use std::cell::RefCell;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::Hint;
use sync::ReadGuard;

use crate::latched::Latched;
use crate::store::slot_data::SlotData;

/// Random slots tried for a key to fall back on. In a database with fewer keys than that, walking over all slots takes as
/// long as latching them.
const FALLBACK_TRIES: usize = 256;

/// Entries of such a slot that are looked at.
const FALLBACK_ENTRIES: usize = 4;

/// What the running transaction observes of slots that it does not hold.
#[derive(Default)]
pub(crate) struct Instant<'k> {
    /// A database, and the share of the other threads in its number of keys.
    pub(crate) key_count: Option<(DbIndex, u64)>,
    /// Slots that are kept for reading. The first one has a key without expiry. Empty: slots are not kept.
    pub(crate) sampled: RefCell<Vec<(Slot, ReadGuard<'k, Hint, SlotData>)>>,
}

impl Instant<'_> {
    /// Whether the slots of random keys are kept.
    pub(crate) fn keeps_sampled(&self) -> bool {
        !self.sampled.borrow().is_empty()
    }

    /// Ends with its transaction.
    pub(crate) fn end(&mut self) {
        self.key_count = None;
        self.sampled.get_mut().clear();
    }
}

impl Latched<'_> {
    /// Number of keys of a database: in a transaction for which [`Self::fix_key_count`] has succeeded, of its instant.
    #[must_use]
    pub fn key_count(&self, db: DbIndex) -> u64 {
        match self.instant.key_count {
            Some((fixed, others)) if fixed == db => {
                others.wrapping_add(self.counters.keys(usize::from(db.0)))
            }
            _ => self.population(db).keys,
        }
    }

    /// Fixes the number of keys for a transaction that holds its latches, until they are released. `writes`: it may change
    /// keys. Returns whether there is an instant at which no other command has changed a part of its keys.
    #[must_use]
    pub fn fix_key_count(&mut self, db: DbIndex, writes: bool) -> bool {
        let counters = self.counters;
        // A cycle of this thread may have changed keys under a latch of its own, and has released it.
        counters.changing.end();
        if writes {
            // Of two such transactions, at least one sees the other, and holds all latches instead. Otherwise neither
            // would count the keys of the other.
            counters.changing.announce();
        }
        let others = self.keyspace.counters.keys_of_others(counters, usize::from(db.0));
        self.instant.key_count = others.map(|keys| (db, keys));
        others.is_some()
    }

    /// Makes random keys of a database part of a transaction that holds its latches: their slots are kept until these are
    /// released. Returns whether there is a key that the transaction cannot delete, as its slot is another one.
    #[must_use]
    pub fn keep_sampled_slots(&mut self, db: DbIndex) -> bool {
        let keyspace = self.keyspace;
        let place = keyspace.place(usize::from(db.0));
        for _ in 0..FALLBACK_TRIES {
            let slot = Slot::new(self.random().below(SLOT_COUNT as u64) as u16);
            if self.held_data(slot).is_some() {
                continue;
            }
            let Some(guard) = keyspace.slots().try_read_now(slot.index()) else { continue };
            let has_lasting = guard.table(place).is_some_and(|table| {
                table.iter().take(FALLBACK_ENTRIES).any(|entry| entry.expiry().is_none())
            });
            if has_lasting {
                self.instant.sampled.get_mut().push((slot, guard));
                return true;
            }
        }
        false
    }
}

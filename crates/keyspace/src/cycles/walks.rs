//! Scanning and sampling a database: the slots that the command does not hold are latched one after the
//! other, each for one step.
//!
//! The guard of a slot is dropped at the end of the step: the caller receives entries only. A slot that stays
//! latched ends the step early or is skipped, so that no handler waits.

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{Entry, Table};

use crate::latched::Latched;

/// Random slots tried for an entry. If one slot in a hundred has entries, this finds one in more than nine of
/// ten cases.
const RANDOM_SLOT_TRIES: usize = 256;

/// Bits of a position inside a slot.
const POSITION_BITS: u32 = 24;

/// Where a scan continues: slot and position in hash order. One more than its number is the cursor of
/// `SCAN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanPosition(u64);

impl ScanPosition {
    /// The start of a scan.
    pub const START: Self = Self(0);

    /// The position with this cursor; `None` if no scan returns such a cursor.
    #[must_use]
    pub fn from_cursor(cursor: u64) -> Option<Self> {
        let position = cursor.saturating_sub(1);
        (position < (SLOT_COUNT as u64) << POSITION_BITS).then_some(Self(position))
    }

    /// The cursor of this position. Never 0, which marks the start and the end of a scan.
    #[must_use]
    pub fn cursor(self) -> u64 {
        self.0 + 1
    }

    fn new(slot: usize, position: u32) -> Option<Self> {
        (slot < SLOT_COUNT).then_some(Self((slot as u64) << POSITION_BITS | u64::from(position)))
    }

    fn slot(self) -> usize {
        (self.0 >> POSITION_BITS) as usize
    }

    fn position(self) -> u32 {
        (self.0 & ((1 << POSITION_BITS) - 1)) as u32
    }
}

/// Whether an entry is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Visible.
    Live,
    /// Expired, not yet deleted.
    Expired,
}

/// A walk over a database, for a command that holds all, some or none of its slots.
pub struct DatabaseWalk<'a, 'k> {
    data: &'a Latched<'k>,
    db: DbIndex,
}

impl<'a, 'k> DatabaseWalk<'a, 'k> {
    /// A walk over a database.
    #[must_use]
    pub fn new(data: &'a Latched<'k>, db: DbIndex) -> Self {
        Self { data, db }
    }

    /// Visits entries from a position on, with whether they are expired, until `enough` returns true
    /// (called after each bucket) or the database ends. Returns where to continue; `None` at the end.
    /// Latches slots that are not held, and releases them; a slot that is not free ends the step.
    pub fn scan(
        &self,
        from: ScanPosition,
        mut visit: impl FnMut(Entry<'_>, Liveness),
        mut enough: impl FnMut() -> bool,
    ) -> Option<ScanPosition> {
        let (data, db) = (self.data, self.db.0 as usize);
        let mut visit = |entry: Entry<'_>| {
            visit(entry, if data.is_expired(entry) { Liveness::Expired } else { Liveness::Live });
        };
        let mut at = from;
        loop {
            let slot = at.slot();
            let stopped_at = if let Some(held) = data.held_data(Slot::new(slot as u16)) {
                scan_table(held.table(data.keyspace.place(db)), at.position(), &mut visit, &mut enough)
            } else {
                let guard = data.keyspace.slots().try_read(slot);
                let Some(guard) = guard else { return Some(at) };
                data.note_slot_read(Slot::new(slot as u16));
                scan_table(guard.table(data.keyspace.place(db)), at.position(), &mut visit, &mut enough)
            };
            match stopped_at {
                Stopped::Within(position) => return ScanPosition::new(slot, position),
                Stopped::BehindLast => return ScanPosition::new(slot + 1, 0),
                Stopped::Not => at = ScanPosition::new(slot + 1, 0)?,
            }
        }
    }

    /// Calls `visit` with a random live entry; `None` if none is found. In a transaction that keeps sampled slots, one is
    /// found.
    pub fn with_random_entry<R>(&self, visit: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let (data, db) = (self.data, self.db.0 as usize);
        let keeps_slots = data.instant.keeps_sampled();
        let key_count = data.keyspace.counters.population(db).keys.max(u64::from(keeps_slots));
        if key_count == 0 {
            data.note_all_changes();
            return None;
        }
        let start = data.random().below(SLOT_COUNT as u64) as usize;
        // In a large database a random slot soon has an entry. In a small one entries are counted off:
        // taking the next nonempty slot would favour entries behind a gap.
        let mut passed_over = 0;
        for tries in 0..RANDOM_SLOT_TRIES + 2 * SLOT_COUNT {
            if tries == RANDOM_SLOT_TRIES {
                passed_over = data.random().below(key_count) as usize;
            } else if tries == RANDOM_SLOT_TRIES + SLOT_COUNT {
                // There are fewer entries than counted: any entry is accepted.
                passed_over = 0;
            }
            let slot = match tries {
                ..RANDOM_SLOT_TRIES => data.random().below(SLOT_COUNT as u64) as usize,
                _ => (start + tries) % SLOT_COUNT,
            };
            let slot = Slot::new(slot as u16);
            let mut guard = None;
            let held = match data.held_data(slot) {
                Some(held) => held,
                None => {
                    let Some(read) = data.keyspace.slots().try_read_now(slot.index()) else { continue };
                    data.note_slot_read(slot);
                    guard.insert(read)
                }
            };
            let Some(table) = held.table(data.keyspace.place(db)) else { continue };
            if table.len() <= passed_over {
                passed_over -= table.len();
                continue;
            }
            match table.sample(data.random().next_u64()) {
                Some(entry) if data.is_expired(entry) => data.note_expired(entry.key(), self.db),
                Some(entry) => {
                    let visited = visit(entry);
                    if keeps_slots {
                        data.instant.sampled.borrow_mut().extend(guard.map(|guard| (slot, guard)));
                    }
                    return Some(visited);
                }
                None => {}
            }
            passed_over = 0;
        }
        self.with_fallback_entry(visit)
    }

    /// Calls `visit` with an entry of the first slot that a transaction keeps.
    fn with_fallback_entry<R>(&self, visit: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let sampled = self.data.instant.sampled.borrow();
        let (slot, kept) = sampled.first()?;
        self.data.note_slot_read(*slot);
        let mut entries = kept.table(self.data.keyspace.place(usize::from(self.db.0)))?.iter();
        entries.find(|entry| !self.data.is_expired(*entry)).map(visit)
    }
}

/// Why a scan stopped in a table.
enum Stopped {
    Within(u32),
    BehindLast,
    Not,
}

fn scan_table(
    table: Option<&Table>,
    from: u32,
    visit: &mut impl FnMut(Entry<'_>),
    enough: &mut impl FnMut() -> bool,
) -> Stopped {
    let Some(table) = table.filter(|table| !table.is_empty()) else { return Stopped::Not };
    let mut position = from;
    loop {
        let next = table.scan(position, &mut *visit);
        match (next, enough()) {
            (Some(next), true) => return Stopped::Within(next),
            (Some(next), false) => position = next,
            (None, true) => return Stopped::BehindLast,
            (None, false) => return Stopped::Not,
        }
    }
}

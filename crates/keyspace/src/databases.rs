//! Whole databases: scanning, sampling, clearing and swapping them.
//!
//! Scanning and sampling latch one slot after the other where it is not held, and only with attempts: a
//! slot that stays latched ends the step early or is skipped, so that no handler waits. Clearing and
//! swapping run under all latches, which the planner has acquired.

use std::sync::Arc;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{Entry, Retired, Table};
use sync::Mode;
use sync::epoch::Domain;

use crate::counters::Population;
use crate::key::Key;
use crate::view::View;

/// Random slots tried for an entry: if the database has entries for a hundredth of the slots, this mostly
/// finds one.
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

/// Tables taken out of a database, to be dropped later or by another thread.
pub struct Cleared {
    tables: Vec<Table>,
    /// Number of entries in them.
    pub key_count: u64,
    /// The epoch in which the last of their hints was replaced.
    epoch: u64,
    domain: Arc<Domain<Retired>>,
}

impl Cleared {
    /// Frees the entries, and also the segments unless a prefetch may still read them: otherwise workers
    /// would free the segments while they serve clients. O(number of entries).
    pub fn free(self) {
        let mut has_passed = false;
        for table in self.tables {
            has_passed = has_passed || self.domain.has_passed(self.epoch);
            if has_passed {
                drop(table.into_memory());
            } else {
                drop(table);
            }
        }
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

impl View<'_> {
    /// Records an expired key that a walk found, to be deleted once no latch is held.
    pub fn note_walked_expired(&mut self, db: DbIndex, key: Box<[u8]>) {
        self.saw_expired.set(true);
        self.walked_expired.push((db, key));
    }

    /// Deletes the expired keys that walks found, where the slots are free. No latch may be held.
    pub fn expire_walked(&mut self) {
        for (db, bytes) in std::mem::take(&mut self.walked_expired) {
            let key = Key::new(self.keyspace.hasher(), &bytes, db);
            if self.latch(key.slot, Mode::Write).is_ok() {
                self.expire_if_due(key);
                self.release();
            }
        }
    }

    /// Discards the record of expired keys that walks found.
    pub fn spare_walked(&mut self) {
        self.walked_expired.clear();
    }

    /// Visits entries from a position on, with whether they are expired, until `enough` returns true
    /// (called after each bucket) or the database ends. Returns where to continue; `None` at the end.
    /// Latches slots that are not held, and releases them; a slot that is not free ends the step.
    pub fn scan(
        &mut self,
        db: DbIndex,
        from: ScanPosition,
        mut visit: impl FnMut(Entry<'_>, Liveness),
        mut enough: impl FnMut() -> bool,
    ) -> Option<ScanPosition> {
        let db = db.0 as usize;
        let mut visit = |entry: Entry<'_>| {
            visit(entry, if self.is_expired(entry) { Liveness::Expired } else { Liveness::Live });
        };
        let mut at = from;
        loop {
            let slot = at.slot();
            let stopped_at = if let Some(data) = self.held_data(Slot::new(slot as u16)) {
                scan_table(data.table(db), at.position(), &mut visit, &mut enough)
            } else {
                let guard = self.keyspace.slots().try_read(slot);
                let Some(guard) = guard else { return Some(at) };
                scan_table(guard.table(db), at.position(), &mut visit, &mut enough)
            };
            match stopped_at {
                Stopped::Within(position) => return ScanPosition::new(slot, position),
                Stopped::BehindLast => return ScanPosition::new(slot + 1, 0),
                Stopped::Not => at = ScanPosition::new(slot + 1, 0)?,
            }
        }
    }

    /// Visits every live entry of a database. All slots must be held.
    pub fn for_each(&self, db: DbIndex, mut visit: impl FnMut(Entry<'_>)) {
        for slot in 0..SLOT_COUNT as u16 {
            let Some(table) = self.slot_data(Slot::new(slot)).table(db.0 as usize) else { continue };
            table.iter().filter(|entry| !self.is_expired(*entry)).for_each(&mut visit);
        }
    }

    /// Calls `see` with a random live entry of a database; `None` if none is found.
    pub fn with_random_entry<R>(&self, db: DbIndex, see: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let db = db.0 as usize;
        let key_count = self.keyspace.counters.population(db).keys;
        if key_count == 0 {
            return None;
        }
        let start = self.random.below(SLOT_COUNT as u64) as usize;
        // In a large database a random slot soon has an entry. In a small one entries are counted off:
        // taking the next nonempty slot would favour entries behind a gap.
        let mut passed_over = 0;
        for tries in 0..RANDOM_SLOT_TRIES + 2 * SLOT_COUNT {
            if tries == RANDOM_SLOT_TRIES {
                passed_over = self.random.below(key_count) as usize;
            } else if tries == RANDOM_SLOT_TRIES + SLOT_COUNT {
                // There are fewer entries than counted: any entry is accepted.
                passed_over = 0;
            }
            let slot = match tries {
                ..RANDOM_SLOT_TRIES => self.random.below(SLOT_COUNT as u64) as usize,
                _ => (start + tries) % SLOT_COUNT,
            };
            let guard;
            let data = match self.held_data(Slot::new(slot as u16)) {
                Some(data) => data,
                None => {
                    let Some(read) = self.keyspace.slots().try_read_now(slot) else { continue };
                    guard = read;
                    &guard
                }
            };
            let Some(table) = data.table(db) else { continue };
            if table.len() <= passed_over {
                passed_over -= table.len();
                continue;
            }
            if let Some(entry) = table.sample(self.random.next_u64())
                && !self.is_expired(entry)
            {
                return Some(see(entry));
            }
            passed_over = 0;
        }
        None
    }

    /// Takes all entries out of a database (`None`: of all). All slots must be held for writing.
    #[must_use]
    pub fn clear(&mut self, db: Option<DbIndex>) -> Cleared {
        let keyspace = self.keyspace;
        // Capacity for all tables: all slots are held meanwhile, and growing would touch several times as
        // many new pages.
        let mut tables = Vec::with_capacity(SLOT_COUNT);
        let dbs = match db {
            Some(db) => db.0 as usize..db.0 as usize + 1,
            None => 0..keyspace.db_count(),
        };
        let now = self.now.0;
        let mut ready = std::mem::take(&mut self.ready);
        for slot in (0..SLOT_COUNT as u16).map(Slot::new) {
            let data = self.slot_data_mut(slot);
            // The caller invalidates the keys of all readers at once.
            if data.has_readers() {
                data.readers_or_new().clear(&keyspace.remembered);
            }
            let mut has_empty = data.has_further_tables();
            for db in dbs.clone() {
                match data.table(db) {
                    None if !data.has_further_tables() => break,
                    None => continue,
                    Some(table) if table.is_empty() => {
                        has_empty |= table.memory_bytes() > 0;
                        continue;
                    }
                    Some(_) => {}
                }
                if data.is_attended() {
                    data.note_replacement(DbIndex(db as u16), None, now, &mut ready);
                }
                let table = data.table_mut(db);
                tables.push(table.take());
                keyspace.publish(slot, db, table);
            }
            // Taken tables are empty already; a search for others in each slot takes as long as all the
            // rest.
            if has_empty {
                data.drop_empty_tables(|db, table| {
                    keyspace.publish(slot, db, table);
                });
            }
        }
        self.ready = ready;
        let mut key_count = 0;
        for db in dbs {
            let gone = keyspace.counters.population(db);
            key_count += gone.keys;
            self.counters.cleared(db, gone);
        }
        let domain = Arc::clone(&keyspace.segments);
        Cleared { tables, key_count, epoch: domain.end_epoch(), domain }
    }

    /// Exchanges two databases. All slots must be held for writing.
    pub fn swap(&mut self, one: DbIndex, other: DbIndex) {
        let (one, other) = (one.0 as usize, other.0 as usize);
        if one == other {
            return;
        }
        let keyspace = self.keyspace;
        keyspace.pair_hints([one, other]);
        let now = self.now.0;
        let mut ready = std::mem::take(&mut self.ready);
        for slot in (0..SLOT_COUNT as u16).map(Slot::new) {
            let data = self.slot_data_mut(slot);
            if !data_has(data, one) && !data_has(data, other) {
                continue;
            }
            if data.is_attended() {
                let (one, other) = (DbIndex(one as u16), DbIndex(other as u16));
                data.note_replacement(one, Some(other), now, &mut ready);
                data.note_replacement(other, Some(one), now, &mut ready);
            }
            let mut first = data.table_mut(one).take();
            data.table_mut(other).exchange(&mut first);
            data.table_mut(one).exchange(&mut first);
            for db in [one, other] {
                keyspace.publish(slot, db, data.table_mut(db));
            }
        }
        self.ready = ready;
        let [of_one, of_other] = [one, other].map(|db| keyspace.counters.population(db));
        self.counters.cleared(one, difference(of_one, of_other));
        self.counters.cleared(other, difference(of_other, of_one));
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

fn data_has(data: &crate::keyspace::SlotData, db: usize) -> bool {
    data.table(db).is_some_and(|table| !table.is_empty())
}

fn difference(from: Population, to: Population) -> Population {
    Population {
        keys: from.keys.wrapping_sub(to.keys),
        volatile: from.volatile.wrapping_sub(to.volatile),
        volatile_members: from.volatile_members.wrapping_sub(to.volatile_members),
        expiry_sum: from.expiry_sum.wrapping_sub(to.expiry_sum),
    }
}

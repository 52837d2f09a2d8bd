//! Whole databases: visiting, clearing and swapping them, under all latches, which the planner has acquired.

use std::ops::Range;
use std::sync::Arc;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{Entry, Retired, Table};
use sync::atomic::{AtomicUsize, Ordering};
use sync::epoch::Domain;

use crate::latched::Latched;
use crate::store::counters::Population;
use crate::store::keyspace::Keyspace;
use crate::store::places::TablePlace;

/// Tables taken out of a database, to be dropped later or by another thread.
pub struct Cleared {
    tables: Vec<Table>,
    /// Number of entries in them.
    pub key_count: u64,
    /// What they use.
    memory: ClearedMemory,
    /// The epoch in which the last of their hints was replaced.
    epoch: u64,
    domain: Arc<Domain<Retired>>,
}

impl Cleared {
    /// Frees the entries, and also the segments unless a prefetch may still read them: otherwise workers
    /// would free the segments while they serve clients. O(number of entries).
    pub fn free(mut self) {
        let mut has_passed = false;
        for table in self.tables {
            self.memory.note_freed(table.len());
            has_passed = has_passed || self.domain.has_passed(self.epoch);
            if has_passed {
                drop(table.into_memory());
            } else {
                drop(table);
            }
        }
    }
}

/// The memory of cleared tables, which no longer counts as used. It is known only if no other keys are left, and decreases with
/// the number of freed keys, an estimate.
struct ClearedMemory {
    keyspace_bytes: Arc<AtomicUsize>,
    bytes_left: usize,
    bytes_per_key: f64,
}

impl ClearedMemory {
    /// Called before the keys are no longer counted.
    fn new(keyspace: &Keyspace, tables: &[Table]) -> Self {
        let databases = keyspace.databases().chain(keyspace.staged_databases());
        let key_count: u64 = databases.map(|db| keyspace.counters.population(db).keys).sum();
        let cleared_count: u64 = tables.iter().map(|table| table.len() as u64).sum();
        let bytes_left = if cleared_count == key_count { keyspace.data_bytes() } else { 0 };
        let bytes_per_key = bytes_left as f64 / key_count.max(1) as f64;
        let keyspace_bytes = Arc::clone(&keyspace.cleared_bytes);
        keyspace_bytes.fetch_add(bytes_left, Ordering::Relaxed);
        Self { keyspace_bytes, bytes_left, bytes_per_key }
    }

    /// Subtracts the memory of keys that are about to be freed.
    fn note_freed(&mut self, count: usize) {
        let freed = ((self.bytes_per_key * count as f64) as usize).min(self.bytes_left);
        self.bytes_left -= freed;
        self.keyspace_bytes.fetch_sub(freed, Ordering::Relaxed);
    }
}

impl Drop for ClearedMemory {
    fn drop(&mut self) {
        self.keyspace_bytes.fetch_sub(self.bytes_left, Ordering::Relaxed);
    }
}

impl Latched<'_> {
    /// Visits every live entry of a database. All slots must be held.
    pub fn for_each(&self, db: DbIndex, mut visit: impl FnMut(Entry<'_>)) {
        for slot in 0..SLOT_COUNT as u16 {
            let place = self.keyspace.place(db.0 as usize);
            let Some(table) = self.slot_data(Slot::new(slot)).table(place) else { continue };
            table.iter().filter(|entry| !self.is_expired(*entry)).for_each(&mut visit);
        }
    }

    /// Removes all entries of a database (`None`: of all). All slots must be held for writing.
    #[must_use]
    pub fn clear(&mut self, db: Option<DbIndex>) -> Cleared {
        match db {
            Some(db) => self.clear_databases(usize::from(db.0)..usize::from(db.0) + 1),
            None => {
                self.keyspace.local_expiries.clear();
                self.clear_databases(self.keyspace.databases())
            }
        }
    }

    /// Removes all entries that were loaded beside the data. All slots must be held for writing.
    #[must_use]
    pub fn clear_staged(&mut self) -> Cleared {
        self.clear_databases(self.keyspace.staged_databases())
    }

    /// Makes the data that were loaded beside the present ones take their place. Returns the former ones. All slots must be held
    /// for writing.
    #[must_use]
    pub fn swap_in_staged(&mut self) -> Cleared {
        let keyspace = self.keyspace;
        keyspace.local_expiries.clear();
        for db in keyspace.databases().map(|db| DbIndex(db as u16)) {
            let staged = keyspace.staged(db);
            if [db, staged].iter().any(|db| keyspace.counters.population(usize::from(db.0)).keys > 0) {
                self.swap(db, staged);
            }
        }
        self.clear_staged()
    }

    /// Removes all entries of these databases.
    fn clear_databases(&mut self, dbs: Range<usize>) -> Cleared {
        let keyspace = self.keyspace;
        // Capacity for all tables: all slots are held meanwhile, and growing would touch several times as
        // many new pages.
        let mut tables = Vec::with_capacity(SLOT_COUNT);
        // Most slots have the inline table only, which is looked at first.
        let mut cleared_places: Vec<TablePlace> = dbs.clone().map(|db| keyspace.place(db)).collect();
        cleared_places.sort_unstable();
        let now = self.mode.now.0;
        let mut ready = std::mem::take(&mut self.deferred.ready);
        for slot in (0..SLOT_COUNT as u16).map(Slot::new) {
            let data = self.slot_data_mut(slot);
            // The caller invalidates the keys of all readers at once.
            if data.has_readers() {
                data.readers_or_new().clear(&keyspace.reader_totals);
            }
            let mut has_empty = data.has_further_tables();
            for place in cleared_places.iter().copied() {
                match data.table(place) {
                    None if !data.has_further_tables() => break,
                    None => continue,
                    Some(table) if table.is_empty() => {
                        has_empty |= table.memory_bytes() > 0;
                        continue;
                    }
                    Some(_) => {}
                }
                let db = keyspace.places.db_in(place);
                if data.is_observed() {
                    data.note_replacement(db, None, &keyspace.places, now, &mut ready);
                }
                let table = data.table_mut(place);
                let mut taken = table.take();
                keyspace.publish(slot, place, table);
                keyspace.snapshot.detach_tracked(slot, db, &mut taken, keyspace.heap(slot));
                tables.extend(keyspace.snapshot.take_over(slot, db, taken));
            }
            // The taken tables are already empty. Searching each slot for others would double the time of this
            // function.
            if has_empty {
                data.drop_empty_tables(|place, table| {
                    keyspace.publish(slot, place, table);
                });
            }
        }
        self.deferred.ready = ready;
        let memory = ClearedMemory::new(keyspace, &tables);
        let mut key_count = 0;
        for db in dbs {
            keyspace.snapshot.remove_database(DbIndex(db as u16));
            let gone = keyspace.counters.population(db);
            key_count += gone.keys;
            self.counters.cleared(db, gone, &keyspace.counters.sizes(db));
        }
        let domain = Arc::clone(&keyspace.segments);
        Cleared { tables, key_count, memory, epoch: domain.end_epoch(), domain }
    }

    /// Exchanges two databases by exchanging their places; no table moves. All slots must be held for writing.
    pub fn swap(&mut self, one: DbIndex, other: DbIndex) {
        let (one, other) = (one.0 as usize, other.0 as usize);
        if one == other {
            return;
        }
        let keyspace = self.keyspace;
        let now = self.mode.now.0;
        let mut ready = std::mem::take(&mut self.deferred.ready);
        for slot in (0..SLOT_COUNT as u16).map(Slot::new) {
            let data = self.slot_data_mut(slot);
            if data.is_observed() {
                let (one, other) = (DbIndex(one as u16), DbIndex(other as u16));
                data.note_replacement(one, Some(other), &keyspace.places, now, &mut ready);
                data.note_replacement(other, Some(one), &keyspace.places, now, &mut ready);
            }
        }
        keyspace.places.exchange(one, other);
        keyspace.snapshot.swap_databases(DbIndex(one as u16), DbIndex(other as u16));
        self.deferred.ready = ready;
        let [of_one, of_other] = [one, other].map(|db| keyspace.counters.population(db));
        let [sizes_of_one, sizes_of_other] = [one, other].map(|db| keyspace.counters.sizes(db));
        self.counters.cleared(one, difference(of_one, of_other), &sizes_of_one.minus(&sizes_of_other));
        self.counters.cleared(other, difference(of_other, of_one), &sizes_of_other.minus(&sizes_of_one));
    }

    /// Stores the tables of a database in the slots, where they take a cache line less. All slots must be held for
    /// writing.
    pub fn make_inline(&mut self, db: DbIndex) {
        let keyspace = self.keyspace;
        let place = keyspace.place(usize::from(db.0));
        if place == TablePlace::INLINE {
            return;
        }
        keyspace.pair_hints([TablePlace::INLINE, place]);
        for slot in (0..SLOT_COUNT as u16).map(Slot::new) {
            let data = self.slot_data_mut(slot);
            if [TablePlace::INLINE, place].iter().all(|place| data.table(*place).is_none_or(Table::is_empty))
            {
                continue;
            }
            let mut first = data.table_mut(TablePlace::INLINE).take();
            data.table_mut(place).exchange(&mut first);
            data.table_mut(TablePlace::INLINE).exchange(&mut first);
            for place in [TablePlace::INLINE, place] {
                keyspace.publish(slot, place, data.table_mut(place));
            }
            data.drop_empty_tables(|place, table| {
                keyspace.publish(slot, place, table);
            });
        }
        let inline = keyspace.places.db_in(TablePlace::INLINE);
        keyspace.places.exchange(usize::from(inline.0), usize::from(db.0));
    }
}

fn difference(from: Population, to: Population) -> Population {
    Population {
        keys: from.keys.wrapping_sub(to.keys),
        volatile: from.volatile.wrapping_sub(to.volatile),
        volatile_members: from.volatile_members.wrapping_sub(to.volatile_members),
        expiry_sum: from.expiry_sum.wrapping_sub(to.expiry_sum),
    }
}

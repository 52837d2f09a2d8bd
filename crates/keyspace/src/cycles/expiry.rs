//! The active expiry cycle: each thread walks its share of the slots and deletes expired keys, in steps
//! that a budget can end at any time. The next cycle continues there.

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{AllocContext, OwnedEntry, Table};

use crate::latching::Latching;
use crate::store::effects::deletion_name;
use crate::store::events::EventClass;
use crate::store::key::Key;

/// Buckets walked under one latch. Bounds the time for which it is held: a few microseconds.
const STEP_BUCKET_COUNT: usize = 16;

/// The position of a thread's walk.
pub struct ExpiryCycle {
    thread: usize,
    slot: usize,
    db: usize,
    position: u32,
}

/// A key that the cycle deleted.
pub struct Expired {
    /// The database it was in.
    pub db: DbIndex,
    /// Its entry.
    pub removed: OwnedEntry,
}

impl ExpiryCycle {
    /// A walk over the share of the thread with this number.
    #[must_use]
    pub fn new(thread: usize) -> Self {
        Self { thread, slot: thread, db: 0, position: 0 }
    }

    /// Walks until the share has been visited once or `go_on`, called after each step, returns false.
    /// `threads` is the number of threads that share the slots.
    pub fn run(
        &mut self,
        latching: &mut Latching<'_>,
        threads: usize,
        mut go_on: impl FnMut() -> bool,
        mut expired: impl FnMut(Expired),
    ) {
        let counters = &latching.keyspace().counters;
        let dbs: Vec<usize> =
            (0..latching.keyspace().db_count()).filter(|db| counters.population(*db).volatile > 0).collect();
        if dbs.is_empty() {
            return;
        }
        for _ in (0..SLOT_COUNT).step_by(threads.max(1)) {
            if self.slot % threads.max(1) != self.thread % threads.max(1) || self.slot >= SLOT_COUNT {
                self.slot = self.thread % threads.max(1);
            }
            for db in dbs.iter().copied().filter(|db| *db >= self.db).collect::<Vec<_>>() {
                self.db = db;
                while self.step(latching, &mut expired) {
                    if !go_on() {
                        return;
                    }
                }
                self.position = 0;
            }
            self.db = 0;
            self.slot += threads.max(1);
            if self.slot % 1024 < threads && !go_on() {
                return;
            }
        }
    }

    /// One step in one table. Returns whether the table has more entries.
    fn step(&mut self, latching: &mut Latching<'_>, expired: &mut impl FnMut(Expired)) -> bool {
        let keyspace = latching.keyspace();
        let now = latching.mode.now.0;
        let due = {
            let Some(guard) = keyspace.slots().try_read_now(self.slot) else { return false };
            let Some(table) = guard.table(keyspace.place(self.db)) else { return false };
            if table.volatile_len() == 0 {
                return false;
            }
            let walk = table.expire_walk(self.position, STEP_BUCKET_COUNT, now, |_| {});
            if walk.expired_count == 0 {
                self.position = walk.next.unwrap_or(0);
                return walk.next.is_some();
            }
            walk.expired_count
        };
        debug_assert!(due > 0);
        let Some(mut guard) = keyspace.slots().try_write_now(self.slot) else { return false };
        let db = self.db;
        let counters = latching.counters;
        let slot = Slot::new(self.slot as u16);
        let heap = keyspace.heap(slot);
        let is_observed = guard.is_observed();
        let mut watched: Vec<Box<[u8]>> = Vec::new();
        let (logs, name) = (latching.logs(), deletion_name(latching.mode.lazy_expire));
        let mut effects = std::mem::take(&mut latching.effects);
        let table: &mut Table = guard.table_mut(keyspace.place(db));
        if keyspace.snapshot.is_on() {
            let (thread, alloc) = (latching.thread, AllocContext { heap, hasher: keyspace.hasher() });
            table.expire_walk(self.position, STEP_BUCKET_COUNT, now, |entry| {
                let hash = keyspace.hasher().hash(entry.key());
                keyspace.snapshot.preserve(thread, slot, DbIndex(db as u16), Some(table), hash, alloc);
            });
        }
        let walk = table.remove_expired(heap, self.position, STEP_BUCKET_COUNT, now, |removed| {
            counters.population(db, -1, removed.entry());
            counters.expired_keys.add(1);
            counters.expired_keys_active.add(1);
            latching.announce(
                EventClass::Expired,
                "expired",
                Key { slot, ..Key::with_hash(removed.entry().key(), 0, DbIndex(db as u16)) },
            );
            if logs {
                effects.record(DbIndex(db as u16), [name, removed.entry().key()].into_iter());
                effects.end_command();
            }
            if is_observed || latching.events.wanted.every_change() {
                watched.push(removed.entry().key().into());
            }
            expired(Expired { db: DbIndex(db as u16), removed });
        });
        for bytes in &watched {
            latching.note_change_in(&mut guard, Key::new(keyspace.hasher(), bytes, DbIndex(db as u16)), now);
        }
        latching.effects = effects;
        latching.log_effects_in(slot);
        let place = keyspace.place(db);
        keyspace.publish(slot, place, guard.table_mut(place));
        self.position = walk.next.unwrap_or(0);
        walk.next.is_some()
    }
}

//! The active expiry of hash fields: each thread walks its share of the slots for keys with expired fields,
//! and deletes these fields in steps that a budget can end at any time. The next cycle continues there.
//!
//! The tables record which keys have fields with an expiry, and each such hash records its earliest one. So
//! a cycle visits these keys only, and reads only hashes with expired fields.

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use collections::{AllocContext, Collection, Hash, Kind, Object, OwnedEntry, Table, ValueRef, ValueSize};

use crate::latching::Latching;
use crate::store::events::EventClass;
use crate::store::key::Key;

/// Buckets walked under one latch for reading: a few microseconds.
const STEP_BUCKET_COUNT: usize = 16;

/// The position of a thread's walk.
pub struct FieldExpiryCycle {
    thread: usize,
    slot: usize,
    db: usize,
    position: u32,
}

/// The result of one step for one key, reported under its latch.
pub struct FieldsExpired<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Fields that were deleted; at least one.
    pub count: usize,
    /// The key's entry, if these were its last fields.
    pub removed: Option<OwnedEntry>,
}

impl FieldExpiryCycle {
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
        mut expired: impl FnMut(FieldsExpired<'_>),
    ) {
        let counters = &latching.keyspace().counters;
        let has_any = |db: &usize| counters.population(*db).volatile_members > 0;
        let dbs: Vec<usize> = (0..latching.keyspace().db_count()).filter(has_any).collect();
        if dbs.is_empty() {
            return;
        }
        let threads = threads.max(1);
        for _ in (0..SLOT_COUNT).step_by(threads) {
            if self.slot % threads != self.thread % threads || self.slot >= SLOT_COUNT {
                self.slot = self.thread % threads;
            }
            let first = self.db;
            for &db in dbs.iter().filter(|db| **db >= first) {
                self.db = db;
                while self.step(latching, &mut expired) {
                    if !go_on() {
                        return;
                    }
                }
                self.position = 0;
            }
            self.db = 0;
            self.slot += threads;
            if self.slot % 1024 < threads && !go_on() {
                return;
            }
        }
    }

    /// One step in one table. Returns whether the table has more entries.
    fn step(&mut self, latching: &mut Latching<'_>, expired: &mut impl FnMut(FieldsExpired<'_>)) -> bool {
        let now = latching.mode.now.0;
        let due = {
            let keyspace = latching.keyspace();
            let Some(guard) = keyspace.slots().try_read_now(self.slot) else { return false };
            let Some(table) = guard.table(keyspace.place(self.db)) else { return false };
            let mut due = None;
            let next = table.volatile_members_walk(self.position, STEP_BUCKET_COUNT, |entry| {
                let is_due = is_due(entry.value(), now);
                if is_due {
                    due = Some(Box::<[u8]>::from(entry.key()));
                }
                is_due
            });
            self.position = next.unwrap_or(0);
            match due {
                Some(due) => due,
                None => return next.is_some(),
            }
        };
        let key = Key::new(latching.keyspace().hasher(), &due, DbIndex(self.db as u16));
        if !self.expire_fields(latching, key, expired) {
            // The key stays the next one, and the walk does not wait for it: it continues behind its
            // bucket.
            return self.skip_bucket(latching);
        }
        true
    }

    /// Deletes some of a key's expired fields. Returns whether its slot was free.
    fn expire_fields(
        &self,
        latching: &mut Latching<'_>,
        key: Key<'_>,
        expired: &mut impl FnMut(FieldsExpired<'_>),
    ) -> bool {
        let keyspace = latching.keyspace();
        let (now, counters) = (latching.mode.now.0, latching.counters);
        let Some(mut guard) = keyspace.slots().try_write_now(self.slot) else { return false };
        let heap = keyspace.heap(Slot::new(self.slot as u16));
        let place = keyspace.place(self.db);
        let table: &mut Table = guard.table_mut(place);
        if keyspace.snapshot.is_on() {
            // The entry stays where it is, or is removed: it keeps its mark.
            let alloc = AllocContext { heap, hasher: keyspace.hasher() };
            keyspace.snapshot.preserve(latching.thread, key.slot, key.db, Some(table), key.hash, alloc);
        }
        let Some(mut entry) = table.find_mut(heap, key.hash, key.bytes) else { return true };
        let had_volatile_members = entry.has_volatile_members();
        let Some(hash) = entry.object_mut().and_then(Hash::of_mut) else { return true };
        let (logs, size_before) = (latching.logs(), ValueSize::new(Kind::Hash, hash.len()));
        let mut fields: Vec<Box<[u8]>> = Vec::new();
        let count = hash
            .expire(heap, now, |field| {
                if logs {
                    fields.push(field.into());
                }
            })
            .expired_count;
        counters.size(self.db, size_before, ValueSize::new(Kind::Hash, hash.len()));
        let (is_gone, has_volatile_members) = (hash.is_empty(), hash.has_volatile_members());
        entry.note_volatile_members(has_volatile_members);
        counters.members(self.db, had_volatile_members, has_volatile_members);
        if count == 0 {
            return true;
        }
        counters.expired_fields.add(count as u64);
        counters.expired_fields_active.add(count as u64);
        latching.announce(EventClass::Expired, "hexpired", key);
        let removed = is_gone.then(|| {
            counters.population(self.db, -1, entry.entry());
            latching.announce(EventClass::Generic, "del", key);
            entry.remove()
        });
        keyspace.publish(key.slot, place, guard.table_mut(place));
        latching.note_change_in(&mut guard, key, now);
        if logs {
            let fields = fields.iter().map(|field| &field[..]);
            let args: Vec<&[u8]> = [&b"HDEL"[..], key.bytes].into_iter().chain(fields).collect();
            latching.effects.record(key.db, args.into_iter());
            latching.log_effects_in(key.slot);
        }
        expired(FieldsExpired { key, count, removed });
        true
    }

    /// Continues behind a bucket. Returns whether the table has more entries.
    fn skip_bucket(&mut self, latching: &Latching<'_>) -> bool {
        let keyspace = latching.keyspace();
        let Some(guard) = keyspace.slots().try_read_now(self.slot) else { return false };
        let table = guard.table(keyspace.place(self.db));
        let next = table.and_then(|table| table.volatile_members_walk(self.position, 1, |_| false));
        self.position = next.unwrap_or(0);
        next.is_some()
    }
}

/// Whether a value is a hash with a field that may be expired.
fn is_due(value: ValueRef<'_>, now: i64) -> bool {
    match value {
        ValueRef::Object(Object::Hash(hash)) => hash.earliest_expiry().is_some_and(|at| at <= now),
        _ => false,
    }
}

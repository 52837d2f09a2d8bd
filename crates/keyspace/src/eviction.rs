//! Eviction: which key goes when memory is used up, by Redis's policies. Candidates are sampled, and the best of
//! several rounds are kept in a small pool, so that a few samples come near the true order.

use base::DbIndex;
use base::Slot;
use base::limits::SLOT_COUNT;
use collections::{Entry, Removed, Table};

use crate::aging::Aging;
use crate::events::EventClass;
use crate::key::Key;
use crate::view::View;

/// Candidates kept from one eviction to the next.
const POOL_SIZE: usize = 16;

/// Buckets looked at for a key with an expiry.
const VOLATILE_BUCKET_COUNT: usize = 32;

/// Slots tried for one sample before giving up.
const SLOT_TRY_COUNT: usize = 4 * SLOT_COUNT;

/// Who may be evicted, and who first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Only keys with an expiry.
    pub volatile_only: bool,
    /// Who first.
    pub order: EvictionOrder,
}

/// Which candidate goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// The one whose [`Aging`] says so: least recently or least frequently used.
    Aging,
    /// Any.
    Random,
    /// The one that expires first.
    Ttl,
}

struct Candidate {
    score: u64,
    db: DbIndex,
    key: Box<[u8]>,
}

/// Finds victims. One a thread.
#[derive(Default)]
pub struct Evictor {
    /// Ascending by score: the best victim last.
    pool: Vec<Candidate>,
}

/// A key that was evicted.
pub struct Evicted {
    /// The database it was in.
    pub db: DbIndex,
    /// Its entry; dropping it frees the memory.
    pub removed: Removed,
}

impl Evictor {
    /// Takes one key out by the policy, looking at `sample_count` keys. `None`: there is nobody to evict (or whoever
    /// might be is in use just now). Holds no latch before and after.
    pub fn evict(
        &mut self,
        view: &mut View<'_>,
        policy: EvictionPolicy,
        sample_count: usize,
    ) -> Option<Evicted> {
        let dbs = populated(view, policy);
        if dbs.is_empty() {
            return None;
        }
        if policy.order == EvictionOrder::Random {
            // Another thread may be at the same slot, or be faster.
            for _ in 0..POOL_SIZE {
                let (db, key) = self.sample(view, policy, &dbs, |entry| entry.key().to_vec())?;
                if let Some(evicted) = take(view, db, &key) {
                    return Some(evicted);
                }
            }
            return None;
        }
        for _ in 0..POOL_SIZE {
            for _ in 0..sample_count.max(1) {
                let aging = view.aging;
                let sampled = self
                    .sample(view, policy, &dbs, |entry| (score(entry, policy, aging), entry.key().into()));
                let Some((db, (score, key))) = sampled else { break };
                self.offer(Candidate { score, db, key });
            }
            while let Some(best) = self.pool.pop() {
                if let Some(evicted) = take(view, best.db, &best.key) {
                    return Some(evicted);
                }
            }
        }
        None
    }

    fn offer(&mut self, candidate: Candidate) {
        if self.pool.iter().any(|known| known.db == candidate.db && known.key == candidate.key) {
            return;
        }
        let place = self.pool.partition_point(|known| known.score < candidate.score);
        if self.pool.len() < POOL_SIZE {
            self.pool.insert(place, candidate);
        } else if place > 0 {
            self.pool.remove(0);
            self.pool.insert(place - 1, candidate);
        }
    }

    fn sample<R>(
        &self,
        view: &View<'_>,
        policy: EvictionPolicy,
        dbs: &[DbIndex],
        see: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<(DbIndex, R)> {
        let random = view.random();
        let start = random.below(SLOT_COUNT as u64) as usize;
        let db = dbs[random.below(dbs.len() as u64) as usize];
        for tries in 0..SLOT_TRY_COUNT.min(SLOT_COUNT) {
            let slot = (start + tries) % SLOT_COUNT;
            let Some(guard) = view.keyspace.slots().try_read_now(slot) else { continue };
            let Some(table) = guard.table(db.0 as usize) else { continue };
            if let Some(entry) = sample_table(table, policy, random.next_u64()) {
                return Some((db, see(entry)));
            }
        }
        None
    }
}

fn sample_table(table: &Table, policy: EvictionPolicy, random: u64) -> Option<Entry<'_>> {
    if table.is_empty() {
        None
    } else if policy.volatile_only {
        table.sample_volatile(random, VOLATILE_BUCKET_COUNT)
    } else {
        table.sample(random)
    }
}

/// Databases that have somebody to evict.
fn populated(view: &View<'_>, policy: EvictionPolicy) -> Vec<DbIndex> {
    let has_some = |db: &usize| {
        let population = view.keyspace.counters.population(*db);
        if policy.volatile_only { population.volatile > 0 } else { population.keys > 0 }
    };
    (0..view.keyspace.db_count()).filter(has_some).map(|db| DbIndex(db as u16)).collect()
}

fn score(entry: Entry<'_>, policy: EvictionPolicy, aging: Aging) -> u64 {
    match policy.order {
        EvictionOrder::Ttl => u64::MAX - entry.expiry().map_or(u64::MAX, |at| at.max(0) as u64),
        EvictionOrder::Aging | EvictionOrder::Random => aging.victim_score(entry.access()),
    }
}

/// Takes a key out, if it is still there and its slot is free.
fn take(view: &mut View<'_>, db: DbIndex, key: &[u8]) -> Option<Evicted> {
    let key: Key<'_> = Key::new(view.keyspace.hasher(), key, db);
    let slot: Slot = key.slot;
    view.latch(slot, sync::Mode::Write).ok()?;
    let removed = view.remove(key);
    if removed.is_some() {
        view.announce(EventClass::Evicted, "evicted", key);
    }
    view.note_change(key);
    // The last key of a slot takes the table with it: in a small database the tables are most of the memory.
    let keyspace = view.keyspace;
    let data = view.slot_data_mut(slot);
    data.drop_empty_tables();
    keyspace.slots().shared(slot.index()).publish(data.table_mut(0));
    view.release();
    let removed = removed?;
    view.counters.evicted_keys.add(1);
    Some(Evicted { db, removed })
}

//! The channels with their audiences: shards of tables, each behind a lock that is held for one lookup or change.
//!
//! A name, its audience and its place in the table take about 80 bytes, without an allocation for the usual case of
//! subscribers on one worker.
//! Invariants:
//! 1. A name is in its table exactly as long as it has subscribers.
//! 2. Stamps of a name grow with each change of its audience: they are taken under the lock of its shard.
//! 3. `count` is the number of names; the counts of shards are 0 exactly for empty ones.

use commands::subscriptions::{Name, shrink_if_sparse};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Padded, RwLock, RwLockReadGuard};

use super::names::{Audience, Change, NamedAudience};

/// A table grows as a whole, under the lock: of a million names, one shard's is below a millisecond.
const SHARD_COUNT: usize = 512;

/// Channels, found by name.
pub struct Channels {
    shards: Box<[Padded<Shard>]>,
    count: Padded<AtomicUsize>,
    /// The number of names that keyspace events may have.
    event_count: Padded<AtomicUsize>,
}

/// The names of some hashes.
#[derive(Default)]
struct Shard {
    /// The number of names, to skip the lock of an empty shard.
    count: AtomicUsize,
    table: RwLock<HashTable<NamedAudience>>,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            shards: (0..SHARD_COUNT).map(|_| Padded::default()).collect(),
            count: Padded::default(),
            event_count: Padded::default(),
        }
    }
}

impl Shard {
    fn read(&self) -> RwLockReadGuard<'_, HashTable<NamedAudience>> {
        self.table.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn hash_of(named: &NamedAudience) -> u64 {
    named.name.hash_value()
}

/// Whether keyspace events may be published with this name.
fn is_event_name(name: &[u8]) -> bool {
    name.starts_with(b"__key")
}

impl Channels {
    /// Number of names.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether any name may be that of keyspace events.
    #[inline]
    pub fn has_event_names(&self) -> bool {
        self.event_count.load(Ordering::SeqCst) > 0
    }

    /// The tables use the lowest and the highest bits of hashes.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 40) as usize % SHARD_COUNT].0
    }

    /// Passes a name's audience to `visit`, if it has one. `visit` runs under the lock of its shard.
    #[inline]
    pub fn with_audience<T>(&self, hash: u64, name: &[u8], visit: impl FnOnce(&Audience) -> T) -> Option<T> {
        let shard = self.shard(hash);
        // A subscription made before the caller's request was received is counted: whoever saw it synchronized with its worker.
        if shard.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let table = shard.read();
        Some(visit(&table.find(hash, |known| known.name.is(hash, name))?.audience))
    }

    /// Changes a name's audience. Returns the shared name.
    pub fn change(&self, hash: u64, name: &[u8], change: Change<'_>) -> Name {
        let shard = self.shard(hash);
        let mut table = shard.table.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        match table.entry(hash, |known| known.name.is(hash, name), hash_of) {
            Entry::Occupied(mut known) => {
                change(&mut known.get_mut().audience);
                if !known.get().audience.is_empty() {
                    return known.get().name.clone();
                }
                let name = known.remove().0.name;
                shard.count.store(table.len(), Ordering::SeqCst);
                self.count.fetch_sub(1, Ordering::SeqCst);
                self.event_count.fetch_sub(is_event_name(&name).into(), Ordering::SeqCst);
                shrink_if_sparse(&mut table, hash_of);
                name
            }
            Entry::Vacant(place) => {
                let mut audience = Audience::default();
                change(&mut audience);
                let name = Name::new(hash, name);
                if !audience.is_empty() {
                    place.insert(NamedAudience { name: name.clone(), audience });
                    shard.count.store(table.len(), Ordering::SeqCst);
                    self.count.fetch_add(1, Ordering::SeqCst);
                    self.event_count.fetch_add(is_event_name(&name).into(), Ordering::SeqCst);
                }
                name
            }
        }
    }

    /// All names.
    pub fn names(&self) -> Vec<Name> {
        let mut names = Vec::with_capacity(self.len());
        for shard in &self.shards {
            names.extend(shard.read().iter().map(|named| named.name.clone()));
        }
        names
    }

    /// Checks the invariants.
    #[cfg(test)]
    fn check(&self) {
        let mut count = 0;
        for (index, shard) in self.shards.iter().enumerate() {
            let table = shard.read();
            assert_eq!(table.len(), shard.count.load(Ordering::SeqCst));
            count += table.len();
            for NamedAudience { name, audience } in &*table {
                assert!(!audience.is_empty() && audience.count() > 0, "{name:?} has no subscribers");
                assert!(std::ptr::eq(self.shard(name.hash_value()), &self.shards[index].0));
                let found = table.find(name.hash_value(), |known| known.name == *name);
                assert!(found.is_some_and(|found| std::ptr::eq(&found.audience, audience)));
            }
        }
        assert_eq!(count, self.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use commands::subscriptions::CAPACITY_KEPT;

    use super::*;

    /// A poor one: many names share a hash, and many a shard.
    fn hash(name: &[u8]) -> u64 {
        name.iter().map(|byte| u64::from(*byte)).sum::<u64>() << 38
    }

    #[test]
    fn channels_are_as_in_a_map() {
        const NAME_COUNT: u64 = 500;
        let channels = Channels::default();
        let mut model: BTreeMap<Vec<u8>, BTreeMap<usize, u64>> = BTreeMap::new();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..20_000 {
            let name = format!("name-{}", random(NAME_COUNT)).into_bytes();
            let thread = random(4) as usize;
            let known = model.entry(name.clone()).or_default();
            // First more begin than end, then fewer.
            let ends = random(100) < if step < 10_000 { 30 } else { 70 };
            if ends && known.contains_key(&thread) {
                channels.change(hash(&name), &name, &mut |audience| audience.remove(thread));
                *known.get_mut(&thread).expect("known") -= 1;
                known.retain(|_, count| *count > 0);
            } else if !ends {
                channels.change(hash(&name), &name, &mut |audience| audience.add(thread));
                *known.entry(thread).or_default() += 1;
            }
            if known.is_empty() {
                model.remove(&name);
            }
            if step % 1000 == 0 {
                channels.check();
            }
        }
        channels.check();
        let mut names = channels.names();
        names.sort_unstable();
        assert!(names.iter().map(|name| name.to_vec()).eq(model.keys().cloned()));
        for number in 0..NAME_COUNT {
            let name = format!("name-{number}").into_bytes();
            let found = channels.with_audience(hash(&name), &name, |audience| {
                let mut threads: Vec<usize> = audience.threads().collect();
                threads.sort_unstable();
                (audience.count(), threads)
            });
            let known = model.get(&name).map(|known| (known.values().sum(), known.keys().copied().collect()));
            assert_eq!(found, known, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn removed_names_leave_little_memory() {
        let channels = Channels::default();
        let all: Vec<String> = (0..200_000).map(|number| format!("name-{number}")).collect();
        let spread = |name: &str| {
            name.bytes().fold(14_695_981_039_346_656_037_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211).rotate_left(23)
            })
        };
        let size = || {
            channels.shards.iter().map(|shard| shard.read().allocation_size()).sum::<usize>() / SHARD_COUNT
        };
        all.iter().for_each(|name| {
            channels.change(spread(name), name.as_bytes(), &mut |audience| audience.add(1));
        });
        assert!(size() > 10_000);
        all.iter().for_each(|name| {
            channels.change(spread(name), name.as_bytes(), &mut |audience| audience.remove(1));
        });
        channels.check();
        assert!(channels.len() == 0 && size() <= 2 * CAPACITY_KEPT * size_of::<NamedAudience>());
    }
}

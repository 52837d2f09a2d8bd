//! Client-side caching: which clients have read which key, recorded in the key's slot beside its watches.
//!
//! Owns a list for each slot where a tracking client has read a key, guarded by the slot's latch: recording
//! requires it for writing. A change of a key notifies its readers in the same step as its watchers,
//! through the [`Observer`](crate::Observer), and removes them: each read is notified once.
//!
//! Keys are recorded without their database, as in Redis, and a client by its number. A client that no
//! longer exists is detected when it is notified. Clients that track every change are served from
//! [`Events::changed_keys`](crate::Events::changed_keys).
//!
//! Invariant: the numbers in [`ReaderTotals`] are those of the keys and clients in all lists.

use std::collections::BTreeSet;

use base::limits::SLOT_BITS;
use collections::KeyHasher;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sync::atomic::{AtomicUsize, Ordering};

use crate::store::key::Key;

/// Which clients have read the keys of a slot.
#[derive(Default)]
pub(crate) struct Readers {
    keys: HashTable<ReadKey>,
}

/// A key, and the clients that have read it.
struct ReadKey {
    key: Box<[u8]>,
    clients: Clients,
}

/// The hash of a key for its slot's table, which uses the lowest and the highest bits: the keys of a slot have the highest in common.
fn place_of(hash: u64) -> u64 {
    hash ^ hash << SLOT_BITS
}

/// Clients by number. Nearly always there is one, for which a set would take four times the memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Clients(ClientSet);

#[derive(Debug, PartialEq, Eq)]
enum ClientSet {
    One(u64),
    #[allow(clippy::box_collection, reason = "a third less memory for each key with one client")]
    Several(Box<BTreeSet<u64>>),
}

impl Clients {
    /// One client.
    #[must_use]
    pub fn one(client: u64) -> Self {
        Self(ClientSet::One(client))
    }

    /// Adds a client. Returns whether it is new.
    pub fn insert(&mut self, client: u64) -> bool {
        match &mut self.0 {
            ClientSet::One(only) if *only == client => false,
            ClientSet::One(only) => {
                self.0 = ClientSet::Several(Box::new(BTreeSet::from([*only, client])));
                true
            }
            ClientSet::Several(all) => all.insert(client),
        }
    }

    /// How many there are: at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match &self.0 {
            ClientSet::One(_) => 1,
            ClientSet::Several(all) => all.len(),
        }
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (one, several) = match &self.0 {
            ClientSet::One(only) => (Some(*only), None),
            ClientSet::Several(all) => (None, Some(all.iter().copied())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

/// The numbers of keys and readers recorded in all slots.
#[derive(Default)]
pub struct ReaderTotals {
    keys: AtomicUsize,
    readers: AtomicUsize,
}

/// A key that changed, and the client that changed it.
pub struct ChangedKey {
    /// The key's name.
    pub key: Box<[u8]>,
    /// Number of the client; 0 if none.
    pub by: u64,
}

impl ReaderTotals {
    /// Number of keys.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Number of readers: a client counts once for each key that it has read.
    #[must_use]
    pub fn reader_count(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    fn subtract(&self, key_count: usize, reader_count: usize) {
        self.keys.fetch_sub(key_count, Ordering::Relaxed);
        self.readers.fetch_sub(reader_count, Ordering::Relaxed);
    }
}

impl Readers {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a reader of a key, whose hash is by `hasher`.
    pub(crate) fn insert(
        &mut self,
        key: Key<'_>,
        client: u64,
        hasher: &KeyHasher,
        reader_totals: &ReaderTotals,
    ) {
        let hash_of = |known: &ReadKey| place_of(hasher.hash(&known.key));
        let is_new = match self.keys.entry(place_of(key.hash), |known| *known.key == *key.bytes, hash_of) {
            Entry::Occupied(mut known) => known.get_mut().clients.insert(client),
            Entry::Vacant(place) => {
                place.insert(ReadKey { key: key.bytes.into(), clients: Clients::one(client) });
                reader_totals.keys.fetch_add(1, Ordering::Relaxed);
                true
            }
        };
        if is_new {
            reader_totals.readers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes and returns the readers of a key.
    pub(crate) fn take(&mut self, key: Key<'_>, reader_totals: &ReaderTotals) -> Option<Clients> {
        let found = self.keys.find_entry(place_of(key.hash), |known| *known.key == *key.bytes);
        let clients = found.ok()?.remove().0.clients;
        reader_totals.subtract(1, clients.len());
        if self.keys.is_empty() {
            *self = Self::default();
        }
        Some(clients)
    }

    /// Up to `count` of the keys.
    pub(crate) fn some_keys(&self, count: usize) -> Vec<Box<[u8]>> {
        self.keys.iter().take(count).map(|known| known.key.clone()).collect()
    }

    /// Removes all readers without notifying them.
    pub(crate) fn clear(&mut self, reader_totals: &ReaderTotals) {
        reader_totals.subtract(self.keys.len(), self.keys.iter().map(|known| known.clients.len()).sum());
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use base::DbIndex;

    use super::*;

    #[test]
    fn reader_counts_are_exact() {
        let (mut readers, reader_totals) = (Readers::default(), ReaderTotals::default());
        let hasher = KeyHasher::new([1, 2, 3, 4]);
        let key = |bytes| Key::new(&hasher, bytes, DbIndex(0));
        for (bytes, client) in [(b"a", 1), (b"a", 2), (b"a", 1), (b"b", 1)] {
            readers.insert(key(bytes), client, &hasher, &reader_totals);
        }
        assert_eq!((reader_totals.key_count(), reader_totals.reader_count()), (2, 3));
        let taken = readers.take(key(b"a"), &reader_totals).expect("it has readers");
        assert_eq!((taken.iter().collect::<Vec<_>>(), taken.len()), (vec![1, 2], 2));
        assert_eq!(readers.take(key(b"a"), &reader_totals), None);
        assert_eq!((reader_totals.key_count(), reader_totals.reader_count()), (1, 1));
        readers.clear(&reader_totals);
        assert_eq!((reader_totals.key_count(), reader_totals.reader_count()), (0, 0));
        assert!(readers.is_empty());
    }

    #[test]
    fn keys_of_a_slot_are_spread_over_its_table() {
        let of_slot = |number: u64| {
            5 << (u64::BITS - SLOT_BITS) | number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> SLOT_BITS
        };
        let places: Vec<u64> = (1..=128).map(|number| place_of(of_slot(number))).collect();
        let different = |part: fn(u64) -> u64| {
            let parts: std::collections::BTreeSet<u64> = places.iter().map(|place| part(*place)).collect();
            parts.len()
        };
        assert!(different(|place| place & 127) > 60);
        assert!(different(|place| place >> 57) > 60);
    }

    #[test]
    fn keys_are_found_after_the_table_has_grown() {
        let (mut readers, reader_totals) = (Readers::default(), ReaderTotals::default());
        let hasher = KeyHasher::new([1, 2, 3, 4]);
        let names: Vec<[u8; 4]> = (0..1000_u32).map(u32::to_le_bytes).collect();
        for name in &names {
            readers.insert(Key::new(&hasher, name, DbIndex(0)), 7, &hasher, &reader_totals);
        }
        assert_eq!((reader_totals.key_count(), readers.some_keys(2000).len()), (1000, 1000));
        for name in &names {
            let taken = readers.take(Key::new(&hasher, name, DbIndex(0)), &reader_totals);
            assert_eq!(taken, Some(Clients::one(7)));
        }
        assert!(readers.is_empty() && reader_totals.reader_count() == 0);
    }
}

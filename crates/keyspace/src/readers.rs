//! Client-side caching: which clients have read which key, recorded in the key's slot beside its watches.
//!
//! Owns a list for each slot where a tracking client has read a key, guarded by the slot's latch: recording
//! requires it for writing. A change of a key notifies its readers in the same step as its watchers,
//! through the [`Observer`](crate::Observer), and removes them: each read is notified once.
//!
//! Keys are recorded without their database, as in Redis, and a client by its number: that a client has
//! left is detected when it is notified. Clients that track every change are served from
//! [`View::changed_keys`].
//!
//! Invariant: the numbers in [`Remembered`] are those of the keys and clients in all lists.

use std::collections::BTreeSet;

use base::Slot;
use base::limits::SLOT_COUNT;
use sync::HashMap;
use sync::atomic::{AtomicUsize, Ordering};

use crate::key::Key;
use crate::view::View;

/// Which clients have read the keys of a slot.
#[derive(Default)]
pub(crate) struct Readers {
    keys: HashMap<Box<[u8]>, BTreeSet<u64>>,
}

/// The numbers of keys and readers recorded in all slots.
#[derive(Default)]
pub struct Remembered {
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

impl Remembered {
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

    pub(crate) fn insert(&mut self, key: &[u8], client: u64, remembered: &Remembered) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), BTreeSet::new());
            remembered.keys.fetch_add(1, Ordering::Relaxed);
        }
        if self.keys.get_mut(key).is_some_and(|clients| clients.insert(client)) {
            remembered.readers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes and returns the readers of a key.
    pub(crate) fn take(&mut self, key: &[u8], remembered: &Remembered) -> BTreeSet<u64> {
        let Some(clients) = self.keys.remove(key) else { return BTreeSet::new() };
        remembered.subtract(1, clients.len());
        if self.keys.is_empty() {
            *self = Self::default();
        }
        clients
    }

    /// Removes all readers without notifying them.
    pub(crate) fn clear(&mut self, remembered: &Remembered) {
        remembered.subtract(self.keys.len(), self.keys.values().map(BTreeSet::len).sum());
        *self = Self::default();
    }
}

impl View<'_> {
    /// Records that a client has read a key, whose slot is held for writing.
    pub fn remember_reader(&mut self, key: Key<'_>, client: u64) {
        let keyspace = self.keyspace;
        self.slot_data_mut(key.slot).readers_or_new().insert(key.bytes, client, &keyspace.remembered);
    }

    /// Notifies the readers of a key that it is not valid any more.
    #[cold]
    pub(crate) fn tell_readers(&self, key: &[u8], readers: &BTreeSet<u64>) {
        if let Some(observer) = self.keyspace.observer().filter(|_| !readers.is_empty()) {
            observer.stale(self.thread, key, readers, self.client);
        }
    }

    /// Records a key that changed, for clients that track every change.
    #[cold]
    pub(crate) fn note_changed_key(&mut self, key: &[u8]) {
        self.changed_keys.push(ChangedKey { key: key.into(), by: self.client });
    }

    /// Notifies and removes readers of random keys until at most `key_count_max` keys are recorded. Visits
    /// `slot_count` slots that are free now, from a random one on.
    pub fn limit_remembered(&mut self, key_count_max: usize, slot_count: usize) {
        let keyspace = self.keyspace;
        let start = self.random.below(SLOT_COUNT as u64) as usize;
        for slot in (0..slot_count.min(SLOT_COUNT)).map(|offset| (start + offset) % SLOT_COUNT) {
            if keyspace.remembered.key_count() <= key_count_max {
                return;
            }
            if self.held_data(Slot::new(slot as u16)).is_some() {
                continue;
            }
            let Some(mut guard) = keyspace.slots().try_write_now(slot) else { continue };
            if !guard.has_readers() {
                continue;
            }
            let readers = guard.readers_or_new();
            let excess = keyspace.remembered.key_count().saturating_sub(key_count_max);
            let keys: Vec<Box<[u8]>> = readers.keys.keys().take(excess).cloned().collect();
            for key in keys {
                let clients = readers.take(&key, &keyspace.remembered);
                self.tell_readers(&key, &clients);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow() {
        let (mut readers, remembered) = (Readers::default(), Remembered::default());
        for (key, client) in [(b"a", 1), (b"a", 2), (b"a", 1), (b"b", 1)] {
            readers.insert(key, client, &remembered);
        }
        assert_eq!((remembered.key_count(), remembered.reader_count()), (2, 3));
        assert_eq!(readers.take(b"a", &remembered), BTreeSet::from([1, 2]));
        assert!(readers.take(b"a", &remembered).is_empty());
        assert_eq!((remembered.key_count(), remembered.reader_count()), (1, 1));
        readers.clear(&remembered);
        assert_eq!((remembered.key_count(), remembered.reader_count()), (0, 0));
        assert!(readers.is_empty());
    }
}

//! The keys with an expiry that clients of a writable replica have set: its primary does not know them, so the replica deletes them
//! itself.
//!
//! A key is added under its latch, and removed under its latch once it has no expiry. Others may remain, for example of a key
//! that was renamed: they are removed when they are visited.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::DbIndex;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Mutex, MutexGuard};

/// Databases from this one on are not covered, as in Redis and Valkey.
const DB_COUNT_MAX: u16 = 64;

type Place = (DbIndex, Box<[u8]>);

/// See the module documentation.
#[derive(Default)]
pub struct LocalExpiries {
    keys: Mutex<Keys>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Keys {
    keys: BTreeSet<Place>,
    /// The one that was visited last; `None`: the next round begins.
    visited: Option<Place>,
}

impl LocalExpiries {
    /// The number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Forgets all keys.
    pub fn clear(&self) {
        if self.count() > 0 {
            self.change(|it| *it = Keys::default());
        }
    }

    pub(crate) fn add(&self, db: DbIndex, key: &[u8]) {
        if db.0 < DB_COUNT_MAX {
            self.change(|it| _ = it.keys.insert((db, key.into())));
        }
    }

    pub(crate) fn remove(&self, place: &Place) {
        self.change(|it| _ = it.keys.remove(place));
    }

    /// The next keys to visit, at most so many.
    pub(crate) fn next(&self, count_max: usize) -> Vec<Place> {
        let mut it = self.lock();
        let from = it.visited.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<Place> = it.keys.range((from, Bound::Unbounded)).take(count_max).cloned().collect();
        it.visited = next.last().filter(|_| next.len() == count_max).cloned();
        next
    }

    fn change(&self, change: impl FnOnce(&mut Keys)) {
        let mut it = self.lock();
        change(&mut it);
        self.count.store(it.keys.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visited_in_turn() {
        let expiries = LocalExpiries::default();
        expiries.add(DbIndex(DB_COUNT_MAX), b"x");
        for (db, key) in [(0, b"a"), (1, b"a"), (0, b"b"), (0, b"a")] {
            expiries.add(DbIndex(db), key);
        }
        assert_eq!(expiries.count(), 3);
        let visit = |count_max| -> Vec<(u16, u8)> {
            expiries.next(count_max).iter().map(|(db, key)| (db.0, key[0])).collect()
        };
        assert_eq!(visit(2), [(0, b'a'), (0, b'b')]);
        assert_eq!(visit(2), [(1, b'a')]);
        assert_eq!(visit(3), [(0, b'a'), (0, b'b'), (1, b'a')]);
        assert_eq!(visit(1), [], "the end of the round");
        expiries.remove(&(DbIndex(0), b"a".as_slice().into()));
        assert_eq!((visit(1), expiries.count()), (vec![(0, b'b')], 2));
        expiries.clear();
        assert_eq!((visit(1), expiries.count()), (vec![], 0));
    }
}

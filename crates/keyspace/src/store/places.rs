//! Where the slots store the tables of each database: the *places* of their tables.
//!
//! The tables of one place, the *inline* one, are in the slots themselves, with the latch and the hint in one cache line.
//! Those of the other places are stored beside the slots, which takes another line and another hint for each request.
//! At first each database has the place of its number. If nearly all keys are in a database that is not inline, it
//! changes places with the inline one, with the tables, so a store that is used in database 3 only costs what it costs in
//! database 0. `SWAPDB` exchanges the places of two databases, and moves no table.
//!
//! Invariants:
//! 1. Places and databases correspond one to one. This changes only under all write latches: a thread that holds a
//!    latch reads the current state.
//! 2. Without a latch it is read for prefetches only: a stale value costs them their benefit.

use base::DbIndex;
use sync::SettledNumber;

/// A database with fewer keys stays where it is: it is in the caches anyway.
const KEY_COUNT_MIN: u64 = 4096;

/// How many times the keys of the inline database another one must have.
const KEY_COUNT_FACTOR: u64 = 8;

/// Databases that are compared by their numbers of keys: the first ones.
const COMPARED_DB_COUNT: usize = 64;

/// Where the slots store the table of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TablePlace(u16);

/// The places of all databases.
pub(crate) struct Places {
    inline_db: SettledNumber,
    by_db: Box<[SettledNumber]>,
    dbs: Box<[SettledNumber]>,
}

impl TablePlace {
    /// In the slot.
    pub(crate) const INLINE: TablePlace = TablePlace(0);

    /// The number of the place, from 0 on.
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The place with this number.
    pub(crate) fn numbered(number: usize) -> TablePlace {
        TablePlace(number as u16)
    }
}

impl Places {
    pub(crate) fn new(db_count: usize) -> Self {
        let numbers = || (0..db_count as u32).map(SettledNumber::new).collect();
        Self { inline_db: SettledNumber::new(0), by_db: numbers(), dbs: numbers() }
    }

    /// The place of a database.
    #[inline(always)]
    pub(crate) fn of(&self, db: usize) -> TablePlace {
        if db as u32 == self.inline_db.value() {
            return TablePlace::INLINE;
        }
        TablePlace(self.by_db[db].value() as u16)
    }

    /// The database with this place.
    pub(crate) fn db_in(&self, place: TablePlace) -> DbIndex {
        DbIndex(self.dbs[place.number()].value() as u16)
    }

    /// Exchanges the places of two databases. Under all write latches.
    pub(crate) fn exchange(&self, one: usize, other: usize) {
        for (db, place) in [(one, self.of(other)), (other, self.of(one))] {
            self.by_db[db].set(u32::from(place.0));
            self.dbs[place.number()].set(db as u32);
            if place == TablePlace::INLINE {
                self.inline_db.set(db as u32);
            }
        }
    }
}

/// The database that should be the inline one, if it is not yet: by the numbers of keys of the first databases, and the
/// inline one of now.
pub(crate) fn wanted_inline(
    inline: DbIndex,
    key_count: impl Fn(usize) -> u64,
    db_count: usize,
) -> Option<DbIndex> {
    let dbs = (0..db_count.min(COMPARED_DB_COUNT)).map(|db| (key_count(db), db));
    let (keys, db) = dbs.max_by_key(|(keys, _)| *keys)?;
    let is_wanted = db != usize::from(inline.0)
        && keys >= KEY_COUNT_MIN
        && keys / KEY_COUNT_FACTOR >= key_count(usize::from(inline.0));
    is_wanted.then_some(DbIndex(db as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_change_places() {
        let places = Places::new(4);
        let numbers = |places: &Places| [0, 1, 2, 3].map(|db| places.of(db).number());
        assert_eq!(numbers(&places), [0, 1, 2, 3]);
        for ((one, other), expected) in [
            ((0, 2), [2, 1, 0, 3]),
            ((3, 1), [2, 3, 0, 1]),
            ((2, 3), [2, 3, 1, 0]),
            ((1, 1), [2, 3, 1, 0]),
            ((0, 3), [0, 3, 1, 2]),
        ] {
            places.exchange(one, other);
            assert_eq!(numbers(&places), expected);
            assert!((0..4).all(|db| places.db_in(places.of(db)) == DbIndex(db as u16)));
        }
    }

    #[test]
    fn a_database_with_nearly_all_keys_is_wanted_inline() {
        let wanted = |inline, keys: [u64; 4]| wanted_inline(DbIndex(inline), |db| keys[db], 4).map(|db| db.0);
        assert_eq!(wanted(0, [0, 0, 0, 5000]), Some(3));
        assert_eq!(wanted(3, [0, 0, 0, 5000]), None);
        assert_eq!(wanted(0, [5000, 0, 0, 30_000]), None);
        assert_eq!(wanted(0, [5000, 0, 0, 40_000]), Some(3));
        assert_eq!(wanted(0, [0, 0, 1000, 0]), None);
        assert_eq!(wanted(3, [5000, 0, 0, 600]), Some(0));
        assert_eq!(wanted_inline(DbIndex(0), |_| 0, 0), None);
    }
}

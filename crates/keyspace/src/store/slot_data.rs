//! The data that a slot's latch guards: the slot's tables, and the watches, waiters and readers of its keys.
//!
//! Invariants:
//! 1. The tables of further databases are those that have been written here, each once.
//! 2. `may_be_observed` is set while a list has any content.

use base::DbIndex;
use collections::Table;

use crate::store::readers::Readers;
use crate::store::waiting::Waits;
use crate::store::watching::Watches;

/// The data that a slot's latch guards: its table in each database, and the watches, waiters and readers of
/// its keys.
pub struct SlotData {
    /// Database 0, inline: with the latch and the hint it fills one cache line.
    first: Table,
    /// The parts that most slots do not need.
    more: Option<Box<More>>,
}

/// The parts that most slots do not need. Finding the table of a further database reads one line more than
/// for database 0.
#[repr(align(64))]
#[derive(Default)]
struct More {
    /// The number of the further database that was written here first; its table is `further`.
    further_db: u16,
    /// Whether `lists` may have any content: reading it touches another line.
    may_be_observed: bool,
    further: Option<Table>,
    /// The databases after the first further one.
    others: Option<Box<Others>>,
    lists: Option<Box<Lists>>,
}

const _: () = assert!(size_of::<More>() == 64);

/// The tables of other further databases, with their numbers, ascending.
#[derive(Default)]
struct Others(Vec<(usize, Table)>);

/// The watches, waiters and readers of a slot's keys.
#[derive(Default)]
struct Lists {
    watches: Watches,
    waits: Waits,
    readers: Readers,
}

/// The tables of a slot.
pub(crate) struct Tables<'a> {
    first: &'a Table,
    further_db: u16,
    further: Option<&'a Table>,
    others: Option<&'a Others>,
}

impl SlotData {
    pub(super) fn new() -> Self {
        Self { first: Table::with_hint(), more: None }
    }

    /// The table of a database; `None`: empty, not created yet.
    #[inline]
    pub(crate) fn table(&self, db: usize) -> Option<&Table> {
        if db == 0 {
            return Some(&self.first);
        }
        let more = self.more.as_deref()?;
        further_table(more.further_db, more.further.as_ref(), more.others.as_deref(), db)
    }

    /// Whether there are tables of databases other than 0.
    pub(crate) fn has_further_tables(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.further.is_some())
    }

    /// Frees the memory of empty tables. `publish` is called with each of them when it has no segments any
    /// more.
    pub(crate) fn drop_empty_tables(&mut self, mut publish: impl FnMut(usize, &mut Table)) {
        let mut empty = |db, table: &mut Table| {
            if table.is_empty() {
                table.clear();
                publish(db, table);
            }
        };
        empty(0, &mut self.first);
        let Some(more) = &mut self.more else { return };
        if let Some(others) = &mut more.others {
            others.0.iter_mut().for_each(|(db, table)| empty(*db, table));
            others.0.retain(|(_, table)| !table.is_empty());
            others.0.shrink_to_fit();
        }
        if let Some(further) = &mut more.further {
            empty(usize::from(more.further_db), further);
            if further.is_empty() {
                let next = more.others.as_mut().and_then(|others| others.take_first());
                (more.further_db, more.further) =
                    next.map_or((0, None), |(db, table)| (db as u16, Some(table)));
            }
        }
        if more.others.as_ref().is_some_and(|others| others.0.is_empty()) {
            more.others = None;
        }
        self.drop_empty_lists();
    }

    /// Frees the memory of the rarer parts if they are empty.
    pub(crate) fn drop_empty_lists(&mut self) {
        let Some(more) = &mut self.more else { return };
        if more.lists.as_deref().is_some_and(Lists::are_empty) {
            more.lists = None;
            more.may_be_observed = false;
        }
        if more.lists.is_none() && more.further.is_none() {
            self.more = None;
        }
    }

    /// The table of a database, created if necessary.
    #[inline]
    pub(crate) fn table_mut(&mut self, db: usize) -> &mut Table {
        if db == 0 { &mut self.first } else { self.further_table_mut(db) }
    }

    #[inline(never)]
    fn further_table_mut(&mut self, db: usize) -> &mut Table {
        let more = self.more.get_or_insert_default();
        let first_db = &mut more.further_db;
        let further = more.further.get_or_insert_with(|| {
            *first_db = db as u16;
            Table::with_hint()
        });
        if usize::from(more.further_db) == db {
            further
        } else {
            more.others.get_or_insert_default().table_mut(db)
        }
    }

    /// Whether a key of this slot has a watch, a waiter, or a reader that may have cached it.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        let Some(more) = &self.more else { return false };
        more.may_be_observed && more.lists.as_deref().is_some_and(|lists| !lists.are_empty())
    }

    /// Called after a removal from the lists.
    pub(crate) fn note_removal(&mut self) {
        if let Some(more) = &mut self.more {
            more.may_be_observed = more.lists.as_deref().is_some_and(|lists| !lists.are_empty());
        }
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.lists().is_some_and(|lists| !lists.readers.is_empty())
    }

    pub(crate) fn readers_or_new(&mut self) -> &mut Readers {
        &mut self.lists_or_new().readers
    }

    pub(crate) fn waits_mut(&mut self) -> Option<&mut Waits> {
        let lists = self.more.as_mut()?.lists.as_mut()?;
        Some(&mut lists.waits).filter(|waits| !waits.is_empty())
    }

    pub(crate) fn waits_or_new(&mut self) -> &mut Waits {
        &mut self.lists_or_new().waits
    }

    pub(crate) fn watches(&self) -> Option<&Watches> {
        self.lists().map(|lists| &lists.watches)
    }

    pub(crate) fn watches_or_new(&mut self) -> &mut Watches {
        &mut self.lists_or_new().watches
    }

    pub(crate) fn watches_and_tables(&mut self) -> Option<(&mut Watches, Tables<'_>)> {
        let More { further_db, further, others, lists, .. } = &mut **self.more.as_mut()?;
        let tables = Tables {
            first: &self.first,
            further_db: *further_db,
            further: further.as_ref(),
            others: others.as_deref(),
        };
        Some((&mut lists.as_mut()?.watches, tables))
    }

    #[inline]
    fn lists(&self) -> Option<&Lists> {
        self.more.as_ref()?.lists.as_deref()
    }

    fn lists_or_new(&mut self) -> &mut Lists {
        let more = self.more.get_or_insert_default();
        more.may_be_observed = true;
        more.lists.get_or_insert_default()
    }
}

impl Lists {
    fn are_empty(&self) -> bool {
        self.watches.is_empty() && self.waits.is_empty() && self.readers.is_empty()
    }
}

impl Tables<'_> {
    /// The table of a database; `None`: empty, not created yet.
    pub(crate) fn of(&self, db: DbIndex) -> Option<&Table> {
        match db.0 {
            0 => Some(self.first),
            db => further_table(self.further_db, self.further, self.others, usize::from(db)),
        }
    }
}

/// The table of a database other than 0.
#[inline]
fn further_table<'a>(
    first_db: u16,
    first: Option<&'a Table>,
    others: Option<&'a Others>,
    db: usize,
) -> Option<&'a Table> {
    let first = first?;
    if usize::from(first_db) == db { Some(first) } else { others?.table(db) }
}

impl Others {
    #[inline(never)]
    fn table(&self, db: usize) -> Option<&Table> {
        let place = self.0.binary_search_by_key(&db, |(number, _)| *number).ok()?;
        Some(&self.0[place].1)
    }

    /// The table, created if necessary.
    #[inline(never)]
    fn table_mut(&mut self, db: usize) -> &mut Table {
        let place = self.0.binary_search_by_key(&db, |(number, _)| *number).unwrap_or_else(|place| {
            self.0.reserve_exact(1);
            self.0.insert(place, (db, Table::with_hint()));
            place
        });
        &mut self.0[place].1
    }

    fn take_first(&mut self) -> Option<(usize, Table)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use collections::Heap;

    use super::*;
    use crate::store::readers::Remembered;

    #[test]
    fn a_slot_has_tables_of_those_databases_only_that_were_written() {
        let heap = Heap::new();
        let mut data = SlotData::new();
        assert!(!data.has_further_tables());
        for db in [9, 3, 15, 3, 0] {
            data.table_mut(db);
        }
        let numbers = |data: &SlotData| -> Vec<usize> {
            let Some(more) = &data.more else { return Vec::new() };
            let others = more.others.iter().flat_map(|others| others.0.iter().map(|(db, _)| *db));
            others.chain(more.further.iter().map(|_| usize::from(more.further_db))).collect()
        };
        assert_eq!(numbers(&data), [3, 15, 9]);
        assert!(data.table(3).is_some() && data.table(4).is_none() && data.table(16).is_none());
        data.table_mut(15).set_int(&heap, 7, b"key", 1);
        let mut unlinked = Vec::new();
        data.drop_empty_tables(|db, table| unlinked.push((db, table.memory_bytes())));
        assert_eq!((numbers(&data), unlinked), (vec![15], vec![(0, 0), (3, 0), (9, 0)]));
        assert_eq!(data.table(15).map(Table::len), Some(1));
        data.table_mut(15).clear();
        data.drop_empty_tables(|_, _| {});
        assert!(data.more.is_none());
    }

    #[test]
    fn a_slot_is_observed_while_there_is_something_in_its_lists() {
        let remembered = Remembered::default();
        let mut data = SlotData::new();
        data.table_mut(3);
        assert!(!data.is_observed());
        for _ in 0..2 {
            data.watches_or_new();
            assert!(!data.is_observed());
            data.readers_or_new().insert(b"key", 7, &remembered);
            assert!(data.is_observed());
            data.readers_or_new().take(b"key", &remembered);
            data.note_removal();
            assert!(!data.is_observed());
        }
        data.drop_empty_lists();
        assert!(data.more.as_ref().is_some_and(|more| more.lists.is_none()) && data.table(3).is_some());
    }
}

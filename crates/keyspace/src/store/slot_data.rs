//! The data that a slot's latch guards: the slot's tables, and the watches, waiters and readers of its keys.
//! Tables are addressed by their places: see `places.rs`.
//!
//! Invariants:
//! 1. The tables in further places are those that have been written here, each once.
//! 2. `may_be_observed` is set while a list has any content.

use base::DbIndex;
use collections::Table;

use crate::store::places::{Places, TablePlace};
use crate::store::readers::Readers;
use crate::store::waiting::Waits;
use crate::store::watching::Watches;

/// The data that a slot's latch guards: its table in each database, and the watches, waiters and readers of
/// its keys.
pub struct SlotData {
    /// The table of the inline database: with the latch and the hint it fills one cache line.
    first: Table,
    /// The parts that most slots do not need.
    more: Option<Box<More>>,
}

/// The parts that most slots do not need. Finding a table in a further place reads one line more than
/// for the inline one.
#[repr(align(64))]
#[derive(Default)]
struct More {
    /// The number of the further place that was written here first; its table is `further`.
    further_place: u16,
    /// Whether `lists` may have any content: reading it touches another line.
    may_be_observed: bool,
    further: Option<Table>,
    /// The places after the first further one.
    others: Option<Box<Others>>,
    lists: Option<Box<Lists>>,
}

const _: () = assert!(size_of::<More>() == 64);

/// The tables in other further places, with their numbers, ascending.
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
    places: &'a Places,
    first: &'a Table,
    further_place: u16,
    further: Option<&'a Table>,
    others: Option<&'a Others>,
}

impl SlotData {
    pub(super) fn new() -> Self {
        Self { first: Table::with_hint(), more: None }
    }

    /// The table in a place; `None`: empty, not created yet.
    #[inline]
    pub(crate) fn table(&self, place: TablePlace) -> Option<&Table> {
        if place == TablePlace::INLINE {
            return Some(&self.first);
        }
        let more = self.more.as_deref()?;
        further_table(more.further_place, more.further.as_ref(), more.others.as_deref(), place.number())
    }

    /// Whether there are tables of databases other than the inline one.
    pub(crate) fn has_further_tables(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.further.is_some())
    }

    /// Frees the memory of empty tables. `publish` is called with each of them when it has no segments any
    /// more.
    pub(crate) fn drop_empty_tables(&mut self, mut publish: impl FnMut(TablePlace, &mut Table)) {
        let mut empty = |place, table: &mut Table| {
            if table.is_empty() {
                table.clear();
                publish(TablePlace::numbered(place), table);
            }
        };
        empty(TablePlace::INLINE.number(), &mut self.first);
        let Some(more) = &mut self.more else { return };
        if let Some(others) = &mut more.others {
            others.0.iter_mut().for_each(|(place, table)| empty(*place, table));
            others.0.retain(|(_, table)| !table.is_empty());
            others.0.shrink_to_fit();
        }
        if let Some(further) = &mut more.further {
            empty(usize::from(more.further_place), further);
            if further.is_empty() {
                let next = more.others.as_mut().and_then(|others| others.take_first());
                (more.further_place, more.further) =
                    next.map_or((0, None), |(place, table)| (place as u16, Some(table)));
            }
        }
        if more.others.as_ref().is_some_and(|others| others.0.is_empty()) {
            more.others = None;
        }
        self.drop_empty_lists();
    }

    /// Frees the memory of `more` if it is empty.
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

    /// The table in a place, created if necessary.
    #[inline]
    pub(crate) fn table_mut(&mut self, place: TablePlace) -> &mut Table {
        if place == TablePlace::INLINE { &mut self.first } else { self.further_table_mut(place.number()) }
    }

    #[inline(never)]
    fn further_table_mut(&mut self, place: usize) -> &mut Table {
        let more = self.more.get_or_insert_default();
        let first_place = &mut more.further_place;
        let further = more.further.get_or_insert_with(|| {
            *first_place = place as u16;
            Table::with_hint()
        });
        if usize::from(more.further_place) == place {
            further
        } else {
            more.others.get_or_insert_default().table_mut(place)
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

    pub(crate) fn watches_and_tables<'a>(
        &'a mut self,
        places: &'a Places,
    ) -> Option<(&'a mut Watches, Tables<'a>)> {
        let More { further_place, further, others, lists, .. } = &mut **self.more.as_mut()?;
        let tables = Tables {
            places,
            first: &self.first,
            further_place: *further_place,
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
        match self.places.of(usize::from(db.0)) {
            TablePlace::INLINE => Some(self.first),
            place => further_table(self.further_place, self.further, self.others, place.number()),
        }
    }
}

/// The table in a further place.
#[inline]
fn further_table<'a>(
    first_place: u16,
    first: Option<&'a Table>,
    others: Option<&'a Others>,
    place: usize,
) -> Option<&'a Table> {
    let first = first?;
    if usize::from(first_place) == place { Some(first) } else { others?.table(place) }
}

impl Others {
    #[inline(never)]
    fn table(&self, place: usize) -> Option<&Table> {
        let index = self.0.binary_search_by_key(&place, |(number, _)| *number).ok()?;
        Some(&self.0[index].1)
    }

    /// The table, created if necessary.
    #[inline(never)]
    fn table_mut(&mut self, place: usize) -> &mut Table {
        let index = self.0.binary_search_by_key(&place, |(number, _)| *number).unwrap_or_else(|index| {
            self.0.reserve_exact(1);
            self.0.insert(index, (place, Table::with_hint()));
            index
        });
        &mut self.0[index].1
    }

    fn take_first(&mut self) -> Option<(usize, Table)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use base::DbIndex;
    use collections::{Heap, KeyHasher};

    use super::*;
    use crate::store::key::Key;
    use crate::store::readers::ReaderTotals;

    #[test]
    fn a_slot_has_tables_in_those_places_only_that_were_written() {
        let heap = Heap::new();
        let mut data = SlotData::new();
        assert!(!data.has_further_tables());
        for place in [9, 3, 15, 3, 0] {
            data.table_mut(TablePlace::numbered(place));
        }
        let numbers = |data: &SlotData| -> Vec<usize> {
            let Some(more) = &data.more else { return Vec::new() };
            let others = more.others.iter().flat_map(|others| others.0.iter().map(|(place, _)| *place));
            others.chain(more.further.iter().map(|_| usize::from(more.further_place))).collect()
        };
        assert_eq!(numbers(&data), [3, 15, 9]);
        let has = |data: &SlotData, place| data.table(TablePlace::numbered(place)).is_some();
        assert!(has(&data, 3) && !has(&data, 4) && !has(&data, 16));
        data.table_mut(TablePlace::numbered(15)).set_int(&heap, 7, b"key", 1);
        let mut unlinked = Vec::new();
        data.drop_empty_tables(|place, table| unlinked.push((place.number(), table.memory_bytes())));
        assert_eq!((numbers(&data), unlinked), (vec![15], vec![(0, 0), (3, 0), (9, 0)]));
        assert_eq!(data.table(TablePlace::numbered(15)).map(Table::len), Some(1));
        data.table_mut(TablePlace::numbered(15)).clear();
        data.drop_empty_tables(|_, _| {});
        assert!(data.more.is_none());
    }

    #[test]
    fn a_slot_is_observed_while_its_lists_are_nonempty() {
        let reader_totals = ReaderTotals::default();
        let hasher = KeyHasher::new([1, 2, 3, 4]);
        let key = Key::new(&hasher, b"key", DbIndex(0));
        let mut data = SlotData::new();
        data.table_mut(TablePlace::numbered(3));
        assert!(!data.is_observed());
        for _ in 0..2 {
            data.watches_or_new();
            assert!(!data.is_observed());
            data.readers_or_new().insert(key, 7, &hasher, &reader_totals);
            assert!(data.is_observed());
            data.readers_or_new().take(key, &reader_totals);
            data.note_removal();
            assert!(!data.is_observed());
        }
        data.drop_empty_lists();
        assert!(data.more.as_ref().is_some_and(|more| more.lists.is_none()));
        assert!(data.table(TablePlace::numbered(3)).is_some());
    }
}

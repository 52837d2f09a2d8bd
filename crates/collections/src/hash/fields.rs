//! The large form of a hash, and the only one in which fields expire: a table whose entries are the fields.
//!
//! Invariants ([`Fields::check`])
//! 1. Those of the table.
//! 2. No field expires before `earliest`; nor before `pass_earliest`, if its position is below `cursor`.

use super::{Field, FieldExpiry, FieldWas};
use crate::collection::Home;
use crate::entry::{Entry, ValueRef};
use crate::heap::Heap;
use crate::packed::Item;
use crate::removed::{ExpiryChange, NewValue};
use crate::table::Table;

/// Buckets that a step of expiry walks.
const STEP_BUCKET_COUNT: usize = 16;

/// Random fields looked at before it is believed that none is left whose time is not over.
const SAMPLE_TRY_COUNT_MAX: usize = 100;

pub(super) struct Fields {
    pub(super) table: Table,
    /// No field expires earlier.
    pub(super) earliest: i64,
    /// No field that the walk of [`Self::expire`] has passed expires earlier.
    pass_earliest: i64,
    /// Where that walk goes on.
    cursor: u32,
    /// Whether it is a `listpack` by name, for thresholds may be set very high.
    pub(super) is_listpack: bool,
}

impl Fields {
    pub(super) fn new(is_listpack: bool) -> Self {
        Self { table: Table::new(), earliest: i64::MAX, pass_earliest: i64::MAX, cursor: 0, is_listpack }
    }

    #[inline]
    pub(super) fn find(&self, home: Home<'_>, field: &[u8], due: i64) -> Option<Field<'_>> {
        let entry = self.table.find(home.hasher.hash(field), field)?;
        is_live(entry, due).then(|| Field { value: value_of(entry), expiry: entry.expiry() })
    }

    pub(super) fn set(
        &mut self,
        home: Home<'_>,
        field: &[u8],
        value: &[u8],
        expiry: ExpiryChange,
        due: i64,
    ) -> FieldWas {
        let hash = home.hasher.hash(field);
        if let ExpiryChange::At(at) = expiry {
            self.note_expiry(at);
        }
        let Some(mut entry) = self.table.find_mut(home.heap, hash, field) else {
            self.table.upsert(home.heap, hash, field, NewValue::Auto(value), expiry);
            return FieldWas::Absent;
        };
        let is_over = !is_live(entry.entry(), due);
        let expiry = if is_over && expiry == ExpiryChange::Keep { ExpiryChange::Clear } else { expiry };
        entry.set(NewValue::Auto(value), expiry);
        if is_over { FieldWas::Expired } else { FieldWas::Present }
    }

    pub(super) fn remove(&mut self, home: Home<'_>, field: &[u8], due: i64) -> bool {
        let hash = home.hasher.hash(field);
        let Some(entry) = self.table.find_mut(home.heap, hash, field) else { return false };
        let is_live = is_live(entry.entry(), due);
        if is_live {
            entry.remove();
        }
        is_live
    }

    pub(super) fn set_expiry(&mut self, home: Home<'_>, field: &[u8], expiry: Option<i64>) {
        expiry.into_iter().for_each(|at| self.note_expiry(at));
        self.table.set_expiry(home.heap, home.hasher.hash(field), field, expiry);
    }

    pub(super) fn live(&self, due: i64) -> impl Iterator<Item = (Item<'_>, Item<'_>)> {
        self.table.iter().filter(move |entry| is_live(*entry, due)).map(items_of)
    }

    pub(super) fn scan<'a>(
        &'a self,
        from: u32,
        due: i64,
        mut visit: impl FnMut(Item<'a>, Item<'a>),
    ) -> Option<u32> {
        self.table.scan(from, |entry| {
            if is_live(entry, due) {
                let (field, value) = items_of(entry);
                visit(field, value);
            }
        })
    }

    pub(super) fn sample(&self, due: i64, mut random: impl FnMut() -> u64) -> Option<(Item<'_>, Item<'_>)> {
        (0..SAMPLE_TRY_COUNT_MAX)
            .filter_map(|_| self.table.sample(random()))
            .find(|entry| is_live(*entry, due))
            .map(items_of)
    }

    pub(super) fn expire(&mut self, heap: &Heap, now: i64) -> FieldExpiry {
        if self.earliest > now && self.cursor == 0 {
            return FieldExpiry::default();
        }
        let walk = self.table.remove_expired(heap, self.cursor, STEP_BUCKET_COUNT, now, drop);
        self.pass_earliest = self.pass_earliest.min(walk.earliest.unwrap_or(i64::MAX));
        self.cursor = walk.next.unwrap_or(0);
        if walk.next.is_none() {
            self.earliest = std::mem::replace(&mut self.pass_earliest, i64::MAX);
        }
        FieldExpiry { expired_count: walk.expired_count, has_more: walk.next.is_some() }
    }

    /// A field is going to expire then.
    fn note_expiry(&mut self, at: i64) {
        self.earliest = self.earliest.min(at);
        self.pass_earliest = self.pass_earliest.min(at);
    }

    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { table: self.table.to_copy(heap), cursor: 0, pass_earliest: i64::MAX, ..*self }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.table.iter().map(Entry::allocated_bytes).sum();
        size_of::<Self>() + self.table.memory_bytes() + entries
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.table.check()?;
        let mut expiries = self.table.iter().filter_map(Entry::expiry);
        if expiries.any(|at| at < self.earliest) {
            return Err("2: a field expires before the earliest".to_owned());
        }
        Ok(())
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.table.iter()).finish()
    }
}

#[inline]
fn is_live(entry: Entry<'_>, due: i64) -> bool {
    entry.expiry().is_none_or(|at| at > due)
}

#[inline]
fn value_of(entry: Entry<'_>) -> Item<'_> {
    match entry.value() {
        ValueRef::Int(value) => Item::Int(value),
        ValueRef::Bytes(bytes) => Item::Bytes(bytes),
        ValueRef::Object(_) => unreachable!("fields are set to strings only"),
    }
}

/// Field and value. The field comes as bytes, even if it is the text of an integer.
#[inline]
fn items_of(entry: Entry<'_>) -> (Item<'_>, Item<'_>) {
    (Item::Bytes(entry.key()), value_of(entry))
}

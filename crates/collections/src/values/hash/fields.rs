//! The large form of a hash: fields with their values in packed leaves, and a table of the long fields and those
//! with an expiry.
//!
//! Invariants ([`Fields::check`])
//! 1. The invariants of the members.
//! 2. No field expires before `earliest`; nor before `walked_earliest`, if its position is below `cursor`.

use super::{Field, FieldExpiry, FieldWas};
use crate::entry::owned_entry::{ExpiryChange, NewValue, OwnedEntry};
use crate::entry::{Entry, ValueRef};
use crate::memory::heap::Heap;
use crate::number::DecimalBuffer;
use crate::packed::Item;
use crate::table::Table;
use crate::values::members::{Keyed, Member, MemberPlace, Members, PrefetchStep};
use crate::values::parameters::AllocContext;
use crate::values::tracking::{Element, Tracker, Walkable};

/// Buckets that a step of expiry walks.
const STEP_BUCKET_COUNT: usize = 16;

/// Random fields tried before a sample returns that none is unexpired.
const SAMPLE_TRY_COUNT_MAX: usize = 100;

pub(super) struct Fields {
    members: Members<Pair>,
    /// A lower bound of all fields' expiries.
    pub(super) earliest: i64,
    /// A lower bound of the expiries of the fields that the walk of [`Self::expire`] has passed.
    walked_earliest: i64,
    /// Where that walk continues.
    cursor: u32,
    /// Whether the encoding is reported as `listpack`, as thresholds may be set very high.
    pub(super) is_listpack: bool,
}

/// A field and its value: the length of the field in a byte, the field, the value.
enum Pair {}

impl Keyed for Pair {
    /// Above this size an entry of the side table takes hardly more memory, and is not moved when other fields
    /// change their lengths.
    const SIZE_MAX: usize = 128;

    #[inline]
    fn key(element: &[u8]) -> &[u8] {
        &element[1..][..usize::from(element[0])]
    }

    #[inline]
    fn element(element: &[u8]) -> Element<'_> {
        let (field, value) = pair_items(element);
        Element::Field(field, value, None)
    }
}

impl Member for Pair {
    fn side_table_element(entry: Entry<'_>) -> Element<'_> {
        let (field, value) = items_of(entry);
        Element::Field(field, value, entry.expiry())
    }
}

impl Pair {
    #[inline]
    fn value(element: &[u8]) -> &[u8] {
        &element[1 + usize::from(element[0])..]
    }

    /// Calls `use_pair` with the pair and returns its result; `None` if the pair is too long for a leaf.
    #[inline]
    fn with<R>(field: &[u8], value: &[u8], use_pair: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let size = 1 + field.len() + value.len();
        let mut buffer = [0; Self::SIZE_MAX];
        let pair = buffer.get_mut(..size)?;
        pair[0] = field.len() as u8;
        pair[1..=field.len()].copy_from_slice(field);
        pair[1 + field.len()..].copy_from_slice(value);
        Some(use_pair(pair))
    }
}

impl Fields {
    /// The largest cursor of [`Self::scan`].
    pub(super) const CURSOR_MAX: u64 = Members::<Pair>::CURSOR_MAX;

    pub(super) fn new(is_listpack: bool) -> Self {
        Self {
            members: Members::new(),
            earliest: i64::MAX,
            walked_earliest: i64::MAX,
            cursor: 0,
            is_listpack,
        }
    }

    /// A `hashtable` of these fields, with their values and expiries.
    pub(super) fn of_volatile<'a>(
        alloc: AllocContext<'_>,
        elements: impl Iterator<Item = (Item<'a>, Item<'a>, Option<i64>)>,
    ) -> Self {
        let mut fields = Self::new(false);
        let mut buffers = [DecimalBuffer::new(), DecimalBuffer::new()];
        let [field_buffer, value_buffer] = &mut buffers;
        for (field, value, expiry) in elements {
            let (field, value) = (field.text(field_buffer), value.text(value_buffer));
            let expiry = expiry.map_or(ExpiryChange::Clear, ExpiryChange::At);
            fields.set(alloc, field, value, expiry, i64::MIN);
        }
        fields
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    #[inline]
    pub(super) fn has_volatile(&self) -> bool {
        self.members.side_table().is_some_and(|side_table| side_table.volatile_len() > 0)
    }

    #[inline(always)]
    pub(super) fn prefetch_index(&self) {
        self.members.prefetch_head();
    }

    /// See [`Members::prefetch_member`]; the index is prefetched in the first step.
    #[inline]
    pub(super) fn prefetch_field(&self, hash: u64, step: PrefetchStep) {
        self.members.prefetch_member(hash, step);
    }

    #[inline]
    pub(super) fn find(&self, alloc: AllocContext<'_>, field: &[u8], due: i64) -> Option<Field<'_>> {
        let hash = alloc.hasher.hash(field);
        if let Some(place) = self.members.find(hash, field) {
            return Some(Field { value: Item::Bytes(Pair::value(self.members.at(place))), expiry: None });
        }
        let entry = self.members.side_table()?.find(hash, field)?;
        is_live(entry, due).then(|| Field { value: value_of(entry), expiry: entry.expiry() })
    }

    pub(super) fn set(
        &mut self,
        alloc: AllocContext<'_>,
        field: &[u8],
        value: &[u8],
        expiry: ExpiryChange,
        due: i64,
    ) -> FieldWas {
        let hash = alloc.hasher.hash(field);
        if let ExpiryChange::At(at) = expiry {
            self.note_expiry(at);
        }
        let expires = matches!(expiry, ExpiryChange::At(_));
        if let Some(place) = self.members.find(hash, field) {
            let replace = |pair: &[u8]| self.members.try_replace(alloc, place, pair);
            if expires || Pair::with(field, value, replace) != Some(true) {
                self.members.remove_at(alloc, place, side_table_adder(alloc));
                self.set_in_side_table(alloc, hash, field, value, expiry);
            }
            return FieldWas::Present;
        }
        let entry = self
            .members
            .side_table_mut(hash)
            .and_then(|side_table| side_table.find_mut(alloc.heap, hash, field));
        if let Some(mut entry) = entry {
            let is_over = !is_live(entry.entry(), due);
            let expiry = if is_over && expiry == ExpiryChange::Keep { ExpiryChange::Clear } else { expiry };
            entry.set(NewValue::Auto(value), expiry);
            return if is_over { FieldWas::Expired } else { FieldWas::Present };
        }
        let add = |pair: &[u8]| self.members.try_add(alloc, hash, pair);
        if expires || Pair::with(field, value, add) != Some(true) {
            self.set_in_side_table(alloc, hash, field, value, expiry);
        }
        FieldWas::Absent
    }

    pub(super) fn remove(&mut self, alloc: AllocContext<'_>, field: &[u8], due: i64) -> bool {
        let hash = alloc.hasher.hash(field);
        if let Some(place) = self.members.find(hash, field) {
            self.members.remove_at(alloc, place, side_table_adder(alloc));
            return true;
        }
        let entry = self
            .members
            .side_table_mut(hash)
            .and_then(|side_table| side_table.find_mut(alloc.heap, hash, field));
        let Some(entry) = entry.filter(|entry| is_live(entry.entry(), due)) else { return false };
        entry.remove();
        self.members.make_compact(alloc, side_table_adder(alloc));
        true
    }

    pub(super) fn set_expiry(&mut self, alloc: AllocContext<'_>, field: &[u8], expiry: Option<i64>) {
        let hash = alloc.hasher.hash(field);
        expiry.into_iter().for_each(|at| self.note_expiry(at));
        match (self.members.find(hash, field), expiry) {
            (Some(place), Some(at)) => self.move_to_side_table(alloc, hash, place, ExpiryChange::At(at)),
            (Some(_), None) => {}
            (None, _) => {
                if let Some(side_table) = self.members.side_table_mut(hash) {
                    side_table.set_expiry(alloc.heap, hash, field, expiry);
                }
            }
        }
    }

    pub(super) fn live(&self, due: i64) -> impl Iterator<Item = (Item<'_>, Item<'_>)> {
        let side_table = self.members.side_table().into_iter().flat_map(Table::iter);
        let live = side_table.filter(move |entry| is_live(*entry, due)).map(items_of);
        self.members.iter_leaves().map(pair_items).chain(live)
    }

    pub(super) fn scan<'a>(
        &'a self,
        alloc: AllocContext<'_>,
        from: u64,
        due: i64,
        mut visit: impl FnMut(Item<'a>, Item<'a>, Option<i64>),
    ) -> Option<u64> {
        let mut side_table = Vec::new();
        let visit_pair = |pair| {
            let (field, value) = pair_items(pair);
            visit(field, value, None);
        };
        let next = self.members.scan(alloc, from, visit_pair, |entry| side_table.push(entry));
        for entry in side_table.into_iter().filter(|entry| is_live(*entry, due)) {
            let (field, value) = items_of(entry);
            visit(field, value, entry.expiry());
        }
        next
    }

    pub(super) fn sample(&self, due: i64, mut random: impl FnMut() -> u64) -> Option<(Item<'_>, Item<'_>)> {
        if self.len() == 0 {
            return None;
        }
        (0..SAMPLE_TRY_COUNT_MAX).find_map(|_| match self.members.sample(&mut random) {
            Some(place) => Some(pair_items(self.members.at(place))),
            None => {
                let entry = self.members.sample_side_table(random())?;
                is_live(entry, due).then(|| items_of(entry))
            }
        })
    }

    pub(super) fn expire(&mut self, heap: &Heap, now: i64, expired: impl FnMut(OwnedEntry)) -> FieldExpiry {
        if self.earliest > now && self.cursor == 0 {
            return FieldExpiry::default();
        }
        let side_table = self.members.side_table_to_expire(self.cursor, STEP_BUCKET_COUNT, now);
        let Some(side_table) = side_table else { return FieldExpiry::default() };
        let walk = side_table.remove_expired(heap, self.cursor, STEP_BUCKET_COUNT, now, expired);
        self.walked_earliest = self.walked_earliest.min(walk.earliest.unwrap_or(i64::MAX));
        self.cursor = walk.next.unwrap_or(0);
        if walk.next.is_none() {
            self.earliest = std::mem::replace(&mut self.walked_earliest, i64::MAX);
        }
        FieldExpiry { expired_count: walk.expired_count, has_more: walk.next.is_some() }
    }

    /// Records the expiry of a field.
    fn note_expiry(&mut self, at: i64) {
        self.earliest = self.earliest.min(at);
        self.walked_earliest = self.walked_earliest.min(at);
    }

    /// Adds an absent field to the table.
    fn set_in_side_table(
        &mut self,
        alloc: AllocContext<'_>,
        hash: u64,
        field: &[u8],
        value: &[u8],
        expiry: ExpiryChange,
    ) {
        self.members.side_table_or_new(alloc, hash).upsert(
            alloc.heap,
            hash,
            field,
            NewValue::Auto(value),
            expiry,
        );
    }

    /// Moves a field from its leaf to the table.
    fn move_to_side_table(
        &mut self,
        alloc: AllocContext<'_>,
        hash: u64,
        place: MemberPlace,
        expiry: ExpiryChange,
    ) {
        let pair: Box<[u8]> = self.members.at(place).into();
        self.members.remove_at(alloc, place, side_table_adder(alloc));
        self.set_in_side_table(alloc, hash, Pair::key(&pair), Pair::value(&pair), expiry);
    }

    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        Self { members: self.members.to_copy(heap), cursor: 0, walked_earliest: i64::MAX, ..*self }
    }

    pub(super) fn estimated_bytes(&self, sample_len: usize) -> usize {
        size_of::<Self>() + self.members.estimated_bytes(sample_len)
    }

    pub(super) fn allocation_count(&self) -> usize {
        self.members.allocation_count()
    }

    pub(super) fn is_large(&self) -> bool {
        self.members.is_large()
    }

    pub(super) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        self.members.tracked()
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        self.members.check(alloc)?;
        let mut expiries =
            self.members.side_table().into_iter().flat_map(Table::iter).filter_map(Entry::expiry);
        if expiries.any(|at| at < self.earliest) {
            return Err("2: a field expires before the earliest".to_owned());
        }
        Ok(())
    }
}

/// Moves a pair that does not fit its leaf into the table.
fn side_table_adder(alloc: AllocContext<'_>) -> impl FnMut(&mut Table, &[u8]) {
    move |side_table, pair| {
        let (field, value) = (Pair::key(pair), NewValue::Auto(Pair::value(pair)));
        side_table.upsert(alloc.heap, alloc.hasher.hash(field), field, value, ExpiryChange::Clear);
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.live(i64::MIN)).finish()
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

/// Field and value. The field is returned as bytes, even if it is the text of an integer.
#[inline]
fn items_of(entry: Entry<'_>) -> (Item<'_>, Item<'_>) {
    (Item::Bytes(entry.key()), value_of(entry))
}

#[inline]
fn pair_items(pair: &[u8]) -> (Item<'_>, Item<'_>) {
    (Item::Bytes(Pair::key(pair)), Item::Bytes(Pair::value(pair)))
}

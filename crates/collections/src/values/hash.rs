//! A hash: fields with their values and expiries; the value of the `H` family of commands.
//!
//! | form | when |
//! |---|---|
//! | packed pairs | up to 8 KiB, and no field has had an expiry: one allocation, searched by tags |
//! | packed pairs with expiries (`hash/volatile.rs`) | up to 8 KiB |
//! | [`Fields`] | else: packed leaves, and a table for fields that are long or expire |
//!
//! The encoding reported to the client (`listpack`, `hashtable`) follows Redis's thresholds
//! ([`CollectionLimits`]) and is independent of the form. The encoding never changes back from `hashtable`, nor
//! the form to an earlier one of this list.
//!
//! An expired field is absent for readers, but stays until it is set again or [`Hash::expire`] deletes it;
//! so [`Hash::len`] counts it. `due` is the time up to which fields are expired, in Unix milliseconds.
//!
//! Owns its fields. Start reading at [`Hash::find`] and [`Hash::set`].

mod fields;
mod volatile;

use crate::entry::owned_entry::ExpiryChange;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::number::DecimalBuffer;
use crate::packed::{Item, Packed};
use crate::values::members::PrefetchStep;
use crate::values::parameters::{AllocContext, CollectionLimits};
use crate::values::tracking::{Tracker, Walkable};
use fields::Fields;
use volatile::{EXPIRY_SIZE_MAX, Earliest, VolatilePairs};

/// Bytes of elements up to which the packed form is kept: twice the size of a hash of 50 fields with values
/// of 70 bytes. The best limit has not been measured. Less under Miri.
const PACKED_SIZE_MAX: usize = if crate::IS_TINY { 512 } else { 8 * 1024 };

/// Allocations above which a hash is dropped in the background.
const COSTLY_ALLOCATION_COUNT: usize = 64;

/// The value of a hash key.
#[derive(Debug)]
pub struct Hash {
    form: HashForm,
}

#[derive(Debug)]
enum HashForm {
    /// A `listpack`.
    Packed(Packed<2>),
    /// A `hashtable` that is small enough to be one allocation.
    PackedHashtable(Packed<2>),
    /// Likewise, with fields that may expire.
    Volatile {
        pairs: VolatilePairs,
        earliest: Earliest,
    },
    Table(Box<Fields>),
}

const _: () = assert!(size_of::<Hash>() == 16);

/// The state of a field before it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWas {
    /// It did not exist.
    Absent,
    /// It existed, but was expired.
    Expired,
    /// It existed.
    Present,
}

/// A field that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its value.
    pub value: Item<'a>,
    /// When it expires, Unix time in milliseconds.
    pub expiry: Option<i64>,
}

/// The result of a step of expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldExpiry {
    /// Number of fields deleted.
    pub expired_count: usize,
    /// Whether more fields may be expired now.
    pub has_more: bool,
}

impl Hash {
    /// Whether it has fields with an expiry of their own.
    #[must_use]
    #[inline]
    pub fn has_volatile_members(&self) -> bool {
        match &self.form {
            HashForm::Packed(_) | HashForm::PackedHashtable(_) => false,
            HashForm::Volatile { earliest, .. } => *earliest != Earliest::NONE,
            HashForm::Table(fields) => fields.has_volatile(),
        }
    }

    /// Number of fields, including expired ones that are not yet deleted.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.len(),
            HashForm::Volatile { pairs, .. } => pairs.len(),
            HashForm::Table(fields) => fields.len(),
        }
    }

    /// See [`crate::Object::prefetch_parts`].
    #[inline(always)]
    pub(crate) fn prefetch_parts(&self) {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.prefetch_head(),
            HashForm::Volatile { pairs, .. } => pairs.prefetch_head(),
            HashForm::Table(fields) => prefetch::line(std::ptr::from_ref(&**fields).addr()),
        }
    }

    /// See [`crate::Object::prefetch_index`].
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.prefetch_index(),
            HashForm::Volatile { pairs, .. } => pairs.prefetch_index(),
            HashForm::Table(fields) => fields.prefetch_index(),
        }
    }

    /// See [`crate::Object::prefetch_member`].
    #[inline(always)]
    pub(crate) fn prefetch_field(&self, hash: u64, step: PrefetchStep) {
        if let HashForm::Table(fields) = &self.form {
            fields.prefetch_field(hash, step);
        }
    }

    /// A field.
    #[inline]
    #[must_use]
    pub fn find(&self, alloc: AllocContext<'_>, field: &[u8], due: i64) -> Option<Field<'_>> {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                let [_, value] = packed.at(packed.find(field, 0)?);
                Some(Field { value, expiry: None })
            }
            HashForm::Volatile { pairs, .. } => volatile::find(pairs, field, due),
            HashForm::Table(fields) => fields.find(alloc, field, due),
        }
    }

    /// Reserves space for fields and their values, in turn, that are about to be set, if the hash has no memory yet.
    pub fn reserve<'t>(&mut self, heap: &Heap, texts: impl ExactSizeIterator<Item = &'t [u8]> + Clone) {
        if let HashForm::Packed(packed) | HashForm::PackedHashtable(packed) = &mut self.form
            && texts.clone().map(<[u8]>::len).sum::<usize>() <= PACKED_SIZE_MAX
        {
            packed.reserve_in(heap, texts.len() / 2, texts);
        }
    }

    /// Gives back space that [`Self::reserve`] has reserved for fields that were equal.
    #[cold]
    pub fn shrink_if_roomy(&mut self) {
        if let HashForm::Packed(packed) | HashForm::PackedHashtable(packed) = &mut self.form {
            packed.shrink_if_reserved();
        }
    }

    /// Sets a field. An expiry makes the hash a `hashtable`.
    pub fn set(
        &mut self,
        alloc: AllocContext<'_>,
        limits: CollectionLimits,
        field: &[u8],
        value: &[u8],
        expiry: ExpiryChange,
        due: i64,
    ) -> FieldWas {
        if field.len().max(value.len()) > limits.value_size_max {
            self.report_as_hashtable();
        }
        if matches!(expiry, ExpiryChange::At(_)) {
            self.make_volatile(alloc.heap);
        }
        if let HashForm::Packed(packed) | HashForm::PackedHashtable(packed) = &mut self.form {
            let index = packed.find(field, 0);
            // A replaced value counts as if the old one stayed: that is rare enough, and safe.
            let added = value.len() + if index.is_none() { field.len() } else { 0 };
            if packed.size() + added <= PACKED_SIZE_MAX {
                let Some(index) = index else {
                    if packed.is_empty() {
                        packed.reserve_in(alloc.heap, 1, [field, value].into_iter());
                    }
                    packed.push_back([field, value]);
                    let len = packed.len();
                    if len > limits.entry_count_max {
                        self.report_as_hashtable();
                    }
                    return FieldWas::Absent;
                };
                packed.replace(index, 1, value);
                return FieldWas::Present;
            }
            self.make_table(alloc);
        } else if let HashForm::Volatile { pairs, earliest } = &mut self.form {
            if pairs.size() + field.len() + value.len() + EXPIRY_SIZE_MAX <= PACKED_SIZE_MAX {
                return volatile::set(pairs, earliest, [field, value], expiry, due);
            }
            self.make_table(alloc);
        }
        let HashForm::Table(fields) = &mut self.form else { unreachable!("the packed forms have returned") };
        let was = fields.set(alloc, field, value, expiry, due);
        if was == FieldWas::Absent && self.len() > limits.entry_count_max {
            self.report_as_hashtable();
        }
        was
    }

    /// Reports the encoding as `hashtable` from now on.
    pub fn report_as_hashtable(&mut self) {
        match &mut self.form {
            HashForm::Packed(packed) => self.form = HashForm::PackedHashtable(std::mem::take(packed)),
            HashForm::PackedHashtable(_) | HashForm::Volatile { .. } => {}
            HashForm::Table(fields) => fields.is_listpack = false,
        }
    }

    /// Removes a field. Returns whether it existed.
    pub fn remove(&mut self, alloc: AllocContext<'_>, field: &[u8], due: i64) -> bool {
        match &mut self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                let index = packed.find(field, 0);
                index.into_iter().for_each(|index| packed.remove(index));
                index.is_some()
            }
            HashForm::Volatile { pairs, earliest } => volatile::remove(pairs, earliest, field, due),
            HashForm::Table(fields) => fields.remove(alloc, field, due),
        }
    }

    /// Sets or clears the expiry of a field. Returns whether the field exists; otherwise nothing changes.
    /// An expiry makes the hash a `hashtable`.
    pub fn set_expiry(
        &mut self,
        alloc: AllocContext<'_>,
        field: &[u8],
        expiry: Option<i64>,
        due: i64,
    ) -> bool {
        if self.find(alloc, field, due).is_none() {
            return false;
        }
        if expiry.is_some() {
            self.make_volatile(alloc.heap);
        }
        if let HashForm::Volatile { pairs, earliest } = &mut self.form {
            if expiry.is_none() || pairs.size() + EXPIRY_SIZE_MAX <= PACKED_SIZE_MAX {
                volatile::set_expiry(pairs, earliest, field, expiry);
                return true;
            }
            self.make_table(alloc);
        }
        if let HashForm::Table(fields) = &mut self.form {
            fields.set_expiry(alloc, field, expiry);
        }
        true
    }

    /// Visits all fields with their values until `visit` returns false.
    #[inline]
    pub fn visit<'a>(&'a self, due: i64, mut visit: impl FnMut(Item<'a>, Item<'a>) -> bool) {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                let _ = packed.iter().all(|[field, value]| visit(field, value));
            }
            HashForm::Volatile { pairs, .. } => {
                let _ = volatile::live(pairs, due).all(|(field, value, _)| visit(field, value));
            }
            HashForm::Table(fields) => {
                let _ = fields.live(due).all(|(field, value)| visit(field, value));
            }
        }
    }

    /// Whether it is one allocation, small enough for a walk over all of it.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        !matches!(self.form, HashForm::Table(_))
    }

    /// Whether fields may expire, so that [`Self::len`] may exceed the number that [`Self::visit`] visits.
    #[must_use]
    pub fn has_expiries(&self) -> bool {
        self.has_volatile_members()
    }

    /// The largest cursor of [`Self::scan`].
    pub const CURSOR_MAX: u64 = Fields::CURSOR_MAX;

    /// Visits some fields from a position on (0 to begin), those of a packed hash all at once. Returns
    /// where to continue; `None` at the end.
    pub fn scan<'a>(
        &'a self,
        alloc: AllocContext<'_>,
        from: u64,
        due: i64,
        mut visit: impl FnMut(Item<'a>, Item<'a>),
    ) -> Option<u64> {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                packed.iter().for_each(|[field, value]| visit(field, value));
                None
            }
            HashForm::Volatile { pairs, .. } => {
                volatile::live(pairs, due).for_each(|(field, value, _)| visit(field, value));
                None
            }
            HashForm::Table(fields) => fields.scan(alloc, from, due, |field, value, _| visit(field, value)),
        }
    }

    /// As [`Self::scan`], with the expiry of each field, and also fields that are expired but not yet deleted.
    pub fn scan_with_expiries<'a>(
        &'a self,
        alloc: AllocContext<'_>,
        from: u64,
        mut visit: impl FnMut(Item<'a>, Item<'a>, Option<i64>),
    ) -> Option<u64> {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                packed.iter().for_each(|[field, value]| visit(field, value, None));
                None
            }
            HashForm::Volatile { pairs, .. } => {
                volatile::live(pairs, i64::MIN).for_each(|(field, value, at)| visit(field, value, at));
                None
            }
            HashForm::Table(fields) => fields.scan(alloc, from, i64::MIN, visit),
        }
    }

    /// A random field with its value, given random bits; `None` if no unexpired field was found.
    #[must_use]
    pub fn sample(&self, due: i64, mut random: impl FnMut() -> u64) -> Option<(Item<'_>, Item<'_>)> {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                let index = (u128::from(random()) * packed.len() as u128) >> 64;
                let [field, value] = packed.at(index as usize);
                Some((field, value))
            }
            HashForm::Volatile { pairs, .. } => volatile::sample(pairs, due, random),
            HashForm::Table(fields) => fields.sample(due, random),
        }
    }

    /// A lower bound of the fields' expiries, Unix time in milliseconds; the field may be deleted already.
    #[must_use]
    pub fn earliest_expiry(&self) -> Option<i64> {
        match &self.form {
            HashForm::Volatile { earliest, .. } => earliest.at(),
            HashForm::Table(fields) if self.has_volatile_members() => Some(fields.earliest),
            _ => None,
        }
    }

    /// Deletes fields that are expired at `now`, in a bounded step: call it again while it has more.
    pub fn expire(&mut self, heap: &Heap, now: i64, mut expired: impl FnMut(&[u8])) -> FieldExpiry {
        match &mut self.form {
            HashForm::Volatile { pairs, earliest } => volatile::expire(pairs, earliest, now, expired),
            HashForm::Table(fields) if fields.has_volatile() => fields.expire(heap, now, |removed| {
                expired(removed.entry().key());
            }),
            _ => FieldExpiry::default(),
        }
    }

    /// Makes a packed hash one with fields that may expire.
    fn make_volatile(&mut self, heap: &Heap) {
        match &mut self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => {
                let (pairs, earliest) = (volatile::of_pairs(heap, packed), Earliest::NONE);
                self.form = HashForm::Volatile { pairs, earliest };
            }
            HashForm::Volatile { .. } => {}
            HashForm::Table(fields) => fields.is_listpack = false,
        }
    }

    fn make_table(&mut self, alloc: AllocContext<'_>) {
        let (packed, is_listpack) = match &self.form {
            HashForm::Packed(packed) => (packed, true),
            HashForm::PackedHashtable(packed) => (packed, false),
            HashForm::Volatile { pairs, .. } => {
                let fields = Fields::of_volatile(alloc, volatile::live(pairs, i64::MIN));
                self.form = HashForm::Table(Box::new(fields));
                return;
            }
            HashForm::Table(_) => return,
        };
        let mut fields = Box::new(Fields::new(is_listpack));
        let mut buffers = [DecimalBuffer::new(), DecimalBuffer::new()];
        let [field_buffer, value_buffer] = &mut buffers;
        for [field, value] in packed {
            let (field, value) = (field.text(field_buffer), value.text(value_buffer));
            fields.set(alloc, field, value, ExpiryChange::Clear, i64::MIN);
        }
        self.form = HashForm::Table(fields);
    }

    pub(crate) fn encoding_name(&self) -> &'static str {
        match &self.form {
            HashForm::Packed(_) => "listpack",
            HashForm::Table(fields) if fields.is_listpack => "listpack",
            HashForm::PackedHashtable(_) | HashForm::Volatile { .. } | HashForm::Table(_) => "hashtable",
        }
    }

    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        let form = match &self.form {
            HashForm::Packed(packed) => HashForm::Packed(packed.to_copy(heap)),
            HashForm::PackedHashtable(packed) => HashForm::PackedHashtable(packed.to_copy(heap)),
            HashForm::Volatile { pairs, earliest } => {
                HashForm::Volatile { pairs: pairs.to_copy(heap), earliest: *earliest }
            }
            HashForm::Table(fields) => HashForm::Table(Box::new(fields.to_copy(heap))),
        };
        Self { form }
    }

    /// See [`crate::Object::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match &mut self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.relocate(heap),
            HashForm::Volatile { pairs, .. } => pairs.relocate(heap),
            HashForm::Table(_) => false,
        }
    }

    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.memory_bytes(),
            HashForm::Volatile { pairs, .. } => pairs.memory_bytes(),
            HashForm::Table(fields) => fields.estimated_bytes(sample_len),
        }
    }

    pub(crate) fn is_costly_to_drop(&self) -> bool {
        matches!(&self.form, HashForm::Table(fields) if fields.allocation_count() > COSTLY_ALLOCATION_COUNT)
    }

    /// See [`crate::Object::is_large`].
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.form, HashForm::Table(fields) if !fields.is_listpack && fields.is_large())
    }

    /// See [`crate::Object::tracked`].
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        if let HashForm::Table(fields) = &self.form { fields.tracked() } else { None }
    }

    /// Verifies the invariants of the forms.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        match &self.form {
            HashForm::Packed(packed) | HashForm::PackedHashtable(packed) => packed.check(),
            HashForm::Volatile { pairs, earliest } => volatile::check(pairs, *earliest),
            HashForm::Table(fields) => fields.check(alloc),
        }
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self { form: HashForm::Packed(Packed::new()) }
    }
}

//! Mutable access to an entry of a table. A value may move to another block; the table's word is updated.

use crate::entry::exclusive::ExclusiveEntry;
use crate::entry::owned_entry::{ExpiryChange, NewValue, OwnedEntry};
use crate::entry::volatility::Volatility;
use crate::entry::{Entry, ValueForm};
use crate::memory::heap::Heap;
use crate::table::bucket::BucketItem;
use crate::table::segment::{EntryPlace, Segment};
use crate::table::{NotAString, Table};
use crate::values::object::Object;

/// One key of a table, under the write latch.
///
/// Invariant: `place` is a place of the table, in `segment`, and has the entry of `place.item`, unless a
/// panic lost it.
pub struct EntryMut<'a> {
    table: &'a mut Table,
    heap: &'a Heap,
    segment: Segment<'a>,
    place: EntryPlace<'a>,
}

impl<'a> EntryMut<'a> {
    /// # Safety
    /// 1. `segment` is a segment of the table, and `place` is in it.
    /// 2. The table has `place.item` at `place`: nothing was changed since it was found.
    #[inline]
    pub(crate) unsafe fn new(
        table: &'a mut Table,
        heap: &'a Heap,
        segment: Segment<'a>,
        place: EntryPlace<'a>,
    ) -> Self {
        Self { table, heap, segment, place }
    }

    /// The key with its value and expiry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        // SAFETY: (1) the invariant.
        unsafe { self.table.entry_of(self.place.item) }
    }

    /// As [`Self::entry`], for as long as the table is borrowed.
    #[inline]
    #[must_use]
    pub fn into_entry(self) -> Entry<'a> {
        // SAFETY: (1) the invariant.
        unsafe { self.table.entry_of(self.place.item) }
    }

    /// Sets value and expiry. Returns the old entry if dropping it is costly.
    #[inline(always)]
    pub fn set(&mut self, value: NewValue<'_>, expiry: ExpiryChange) -> Option<OwnedEntry> {
        if let NewValue::Auto(text) = value
            && expiry == ExpiryChange::Clear
            && self.exclusive().try_overwrite(text)
        {
            return None;
        }
        self.set_anyhow(value, expiry)
    }

    #[inline(never)]
    fn set_anyhow(&mut self, value: NewValue<'_>, expiry: ExpiryChange) -> Option<OwnedEntry> {
        let expiry = expiry.apply(self.entry().expiry());
        let mut costly = None;
        self.update(|old, heap| {
            if !old.is_costly_to_drop() {
                return old.with_value(heap, value, expiry);
            }
            let new = OwnedEntry::new(heap, old.entry().key(), value, expiry);
            new.entry().set_access(old.entry().access());
            costly = Some(old);
            new
        });
        costly
    }

    /// Sets an integer and keeps the expiry.
    #[inline]
    pub fn set_int(&mut self, value: i64) -> Option<OwnedEntry> {
        if self.overwrite_int(value) {
            return None;
        }
        self.set(NewValue::Int(value), ExpiryChange::Keep)
    }

    /// Overwrites an integer value in place. Returns whether the value is an integer.
    #[inline]
    pub(crate) fn overwrite_int(&mut self, value: i64) -> bool {
        self.exclusive().overwrite_int(value)
    }

    /// Sets or clears the expiry.
    pub fn set_expiry(&mut self, expiry: Option<i64>) {
        self.update(|old, heap| old.with_expiry(heap, expiry));
    }

    /// Appends to a string. Returns its new length.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, NotAString> {
        self.require_string()?;
        self.update(|old, heap| old.with_suffix(heap, bytes));
        self.entry().value().text_len().ok_or(NotAString)
    }

    /// Truncates a string or extends it with zeros to this length. Returns its bytes.
    pub fn resize(&mut self, len: usize) -> Result<&mut [u8], NotAString> {
        self.set_len(len)?;
        self.bytes_mut().ok_or(NotAString)
    }

    /// As [`Self::resize`], for as long as the table is borrowed.
    pub fn into_resized(mut self, len: usize) -> Result<&'a mut [u8], NotAString> {
        self.set_len(len)?;
        self.into_exclusive().into_bytes().ok_or(NotAString)
    }

    /// The bytes of a string that is not stored as an integer.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.exclusive().into_bytes()
    }

    /// Whether members of the value had an expiry at the last [`Self::note_volatile_members`].
    #[inline]
    #[must_use]
    pub fn has_volatile_members(&self) -> bool {
        self.place.item.has_volatile_members()
    }

    /// Records in the table whether members of the value have an expiry. Required after changes by
    /// [`Self::object_mut`].
    #[inline]
    pub fn note_volatile_members(&mut self, has_volatile_members: bool) {
        let old = self.place.item.volatility();
        if old.has_volatile_members() == has_volatile_members {
            return;
        }
        let new = Volatility::new(old.is_volatile(), has_volatile_members);
        self.place.item = self.place.item.with_volatility(new);
        self.place.bucket.store(self.place.index, self.place.item);
        self.table.forget_volatility(old);
        self.table.note_volatility(new);
    }

    /// The value, if it is a collection. After a change, [`Self::note_volatile_members`] must be called.
    pub fn object_mut(&mut self) -> Option<&mut Object> {
        self.exclusive().into_object()
    }

    /// As [`Self::object_mut`], for as long as the table is borrowed.
    #[must_use]
    pub fn into_object(self) -> Option<&'a mut Object> {
        self.into_exclusive().into_object()
    }

    /// Removes the key from the table.
    pub fn remove(self) -> OwnedEntry {
        // SAFETY: (1, 2) the invariant, and `self` ends here.
        let removed = unsafe { self.table.take_out(self.segment, self.place) };
        self.table.make_compact(self.heap, self.place.item.position);
        removed
    }

    /// Replaces this entry by another of the same key.
    pub(crate) fn replace(mut self, new: OwnedEntry) -> OwnedEntry {
        let mut replaced = None;
        self.update(|old, _| {
            replaced = Some(old);
            new
        });
        replaced.expect("the update has run")
    }

    /// Moves the entry, and the memory of a small collection in it, out of sparse spans. Returns whether anything has
    /// moved.
    pub(crate) fn leave_sparse_spans(&mut self) -> bool {
        let (heap, entry) = (self.heap, self.entry());
        // SAFETY: (1) the table's entry, live and of this size.
        let is_sparse = unsafe { heap.is_sparse_at(entry.block(), entry.shape().size()) };
        if is_sparse {
            self.relocate();
        }
        self.object_mut().is_some_and(|object| object.relocate(heap)) || is_sparse
    }

    /// Moves the entry to another block of the same size. It stays preserved if it was.
    fn relocate(&mut self) {
        let is_preserved = self.place.item.is_preserved();
        self.update(OwnedEntry::relocated);
        self.place.item = self.place.item.with_preserved(is_preserved);
        self.place.bucket.store(self.place.index, self.place.item);
    }

    fn set_len(&mut self, len: usize) -> Result<(), NotAString> {
        self.require_string()?;
        self.update(|old, heap| old.with_len(heap, len));
        Ok(())
    }

    #[inline(always)]
    fn exclusive(&mut self) -> ExclusiveEntry<'_> {
        // SAFETY: (1) the invariant: the table owns the entry, and is borrowed mutably.
        unsafe { ExclusiveEntry::of_block(self.place.item.block()) }
    }

    #[inline(always)]
    fn into_exclusive(self) -> ExclusiveEntry<'a> {
        // SAFETY: (1) the invariant: the table owns the entry, and stays borrowed for `'a`; `self` ends here.
        unsafe { ExclusiveEntry::of_block(self.place.item.block()) }
    }

    fn require_string(&self) -> Result<(), NotAString> {
        if self.entry().form() == ValueForm::Object { Err(NotAString) } else { Ok(()) }
    }

    #[inline]
    fn update(&mut self, change: impl FnOnce(OwnedEntry, &Heap) -> OwnedEntry) {
        let item = self.place.item;
        // Vacant during the change, so that a panic in `change` loses the key instead of leaving a dangling
        // word.
        self.place.bucket.clear(self.place.index);
        self.place.item = BucketItem::lost(item.position);
        // SAFETY: (1) the invariant: the table owned the entry and no longer refers to it.
        let old = unsafe { OwnedEntry::from_block(item.block()) };
        let new = change(old, self.heap);
        let volatility = new.entry().volatility();
        self.place.item = BucketItem::new(item.position, new.into_block(), volatility);
        self.place.bucket.store(self.place.index, self.place.item);
        self.table.note_volatility(volatility);
        self.table.forget_volatility(item.volatility());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::kind::Kind;
    use crate::entry::{Encoding, ValueRef};

    fn test_value(size: usize) -> NewValue<'static> {
        NewValue::Object(Box::new(Object::TestValue(vec![7; size])))
    }

    fn test_value_len(entry: Entry<'_>) -> usize {
        let ValueRef::Object(Object::TestValue(bytes)) = entry.value() else { panic!("not a test value") };
        bytes.len()
    }

    #[test]
    fn objects_are_stored_changed_copied_and_moved() {
        let (heap, mut table) = (Heap::new(), Table::new());
        table.upsert(&heap, 1, b"object", test_value(10), ExpiryChange::At(9));
        let mut entry = table.find_mut(&heap, 1, b"object").expect("just set");
        let Object::TestValue(bytes) = entry.object_mut().expect("the entry is an object") else {
            panic!("not a test value")
        };
        bytes.push(1);
        entry.set_expiry(None);
        assert_eq!((entry.entry().kind(), entry.entry().encoding()), (Kind::Hash, Encoding::Object));
        assert_eq!(test_value_len(entry.entry()), 11);
        assert!(entry.entry().allocated_bytes() >= 11 + 8 + 6 + 8);
        assert_eq!(entry.bytes_mut(), None);
        assert_eq!(entry.append(b"x"), Err(NotAString));
        assert_eq!(entry.resize(3), Err(NotAString));

        let other_heap = Heap::new();
        let mut other = Table::new();
        let source = table.find(1, b"object").expect("still there");
        assert!(other.insert_copy(&other_heap, 2, b"a longer name", source).is_none());
        let moved = table.remove(&heap, 1, b"object").expect("still there");
        let replaced =
            other.insert_owned(&other_heap, 2, b"a longer name", moved).expect("the copy was there");
        assert_eq!(test_value_len(replaced.entry()), 11);
        assert_eq!(other.find(2, b"a longer name").map(test_value_len), Some(11));
        assert!(table.is_empty());
    }

    #[test]
    fn overwriting_returns_the_old_object() {
        let (heap, mut table) = (Heap::new(), Table::new());
        table.upsert(&heap, 1, b"key", test_value(10), ExpiryChange::At(9));
        let access = |table: &Table| table.find(1, b"key").map(Entry::access);
        table.find(1, b"key").expect("just set").set_access(0x12_3456);
        let upserted = table.upsert(&heap, 1, b"key", NewValue::Auto(b"12"), ExpiryChange::Keep);
        assert_eq!((upserted.existed, upserted.old_expiry), (true, Some(9)));
        assert_eq!(upserted.entry.expiry(), Some(9));
        let old = upserted.old.expect("objects are costly to drop");
        assert_eq!(test_value_len(old.entry()), 10);
        assert_eq!(access(&table), Some(0x12_3456));
        assert_eq!(table.check(), Ok(()));
        table.upsert(&heap, 1, b"key", test_value(3), ExpiryChange::Clear);
        assert_eq!(table.find(1, b"key").map(test_value_len), Some(3));
        assert_eq!(access(&table), Some(0x12_3456));
    }

    #[test]
    fn strings_keep_their_bytes_across_encodings() {
        let (heap, mut table) = (Heap::new(), Table::new());
        let mut expected = b"-123".to_vec();
        table.upsert_string(&heap, 1, b"key", &expected, ExpiryChange::At(5));
        let mut entry = table.find_mut(&heap, 1, b"key").expect("just set");
        assert_eq!((entry.entry().encoding(), entry.bytes_mut()), (Encoding::Int, None));
        for size in [0usize, 1, 100, 900, 30, 5_000, 200_000, 1] {
            let suffix = vec![size as u8; size];
            expected.extend_from_slice(&suffix);
            assert_eq!(entry.append(&suffix), Ok(expected.len()));
            assert_eq!(entry.bytes_mut(), Some(&mut expected[..]));
            assert_eq!(entry.entry().encoding(), Encoding::Raw);
        }
        for len in [210_000usize, 2_000, 3, 2_000, 500, 600, 10, 0] {
            expected.resize(len, 0);
            assert_eq!(entry.resize(len), Ok(&mut expected[..]));
        }
        assert_eq!(entry.entry().expiry(), Some(5));
        assert_eq!(heap.used_bytes() as usize, entry.entry().allocated_bytes() + 64);
        let removed = entry.remove();
        assert_eq!(removed.entry().key(), b"key");
        drop(removed);
        assert_eq!(heap.used_bytes(), 64);
    }

    #[test]
    fn a_panic_in_a_change_removes_only_that_key() {
        let (heap, mut table) = (Heap::new(), Table::new());
        table.upsert(&heap, 1, b"key", NewValue::Int(3), ExpiryChange::Clear);
        let mut entry = table.find_mut(&heap, 1, b"key").expect("just set");
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            entry.update(|_old, _| panic!("on purpose"));
        }));
        assert!(result.is_err());
        assert!(table.find(1, b"key").is_none());
    }
}

//! Changes of an entry in its block, whose owner keeps it.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::writer::EntryWriter;
use super::{EMBSTR_SIZE_MAX, Entry, EntryLayout, INLINE_SIZE_MAX, ValueForm};
use crate::entry::kind::Kind;
use crate::memory::heap;
use crate::number::may_be_canonical;
use crate::values::object::Object;

/// Exclusive use of an entry.
///
/// Invariant: the block holds a complete entry, which nothing else uses for the whole of `'a`.
pub(crate) struct ExclusiveEntry<'a> {
    block: NonNull<u8>,
    lifetime: PhantomData<&'a mut Object>,
}

impl<'a> ExclusiveEntry<'a> {
    /// # Safety
    /// 1. The block holds a complete entry, of which the caller has exclusive use for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn of_block(block: NonNull<u8>) -> Self {
        Self { block, lifetime: PhantomData }
    }

    #[inline(always)]
    fn entry(&self) -> Entry<'_> {
        // SAFETY: (1) the invariant; changes need `self` mutably or by value.
        unsafe { Entry::from_block(self.block) }
    }

    /// Overwrites a string without expiry by another one in its block: the most frequent case. `false`: this is not possible
    /// ([`OwnedEntry::with_value`](super::owned_entry::OwnedEntry::with_value) is needed), and nothing has changed.
    #[inline(always)]
    pub(crate) fn try_overwrite(self, text: &[u8]) -> bool {
        let entry = self.entry();
        let old = entry.shape();
        let shape = EntryLayout { value_size: text.len(), ..old };
        let is_inline = matches!(entry.form(), ValueForm::Int | ValueForm::Embstr | ValueForm::Raw);
        let fits = text.len() <= INLINE_SIZE_MAX && !old.has_expiry && shape.same_block(old);
        if !is_inline || !fits || may_be_canonical(text) {
            return false;
        }
        let form = if text.len() <= EMBSTR_SIZE_MAX { ValueForm::Embstr } else { ValueForm::Raw };
        let access = entry.access();
        // SAFETY: (1) the block holds the layout, and `self` ends here. (2) The key stays, all else is written.
        let mut writer = unsafe { EntryWriter::of_block(self.block, shape) };
        writer.write_head(Kind::String, form, access);
        writer.write_bytes(text);
        true
    }

    /// Overwrites an integer. Returns whether the value is one.
    #[inline]
    pub(crate) fn overwrite_int(self, value: i64) -> bool {
        let is_int = self.entry().form() == ValueForm::Int;
        if is_int {
            // SAFETY: (1) it is the entry's layout, and `self` ends here. (2) All but the integer stays.
            unsafe { EntryWriter::of_block(self.block, self.entry().shape()) }.write_int(value);
        }
        is_int
    }

    /// The bytes of a string, unless it is stored as an integer.
    pub(crate) fn into_bytes(mut self) -> Option<&'a mut [u8]> {
        let shape = self.entry().shape();
        let (address, len) = match self.entry().form() {
            ValueForm::Embstr | ValueForm::Raw => {
                (self.block.as_ptr().wrapping_add(shape.value_offset()), shape.value_size)
            }
            ValueForm::Large => self.edit_large(|text| {
                let buffer = Arc::make_mut(text);
                (buffer.as_mut_ptr(), buffer.len())
            }),
            ValueForm::Int | ValueForm::Object => return None,
        };
        // SAFETY: these are the bytes of the value, exclusive for `'a`, and `self` ends here.
        Some(unsafe { std::slice::from_raw_parts_mut(address, len) })
    }

    /// The value, if it is an object.
    pub(crate) fn into_object(self) -> Option<&'a mut Object> {
        if self.entry().form() != ValueForm::Object {
            return None;
        }
        // SAFETY: by its form the entry owns an object, exclusive for `'a`, and `self` ends here.
        Some(unsafe { &mut *self.entry().object_address() })
    }

    /// Calls `edit` to change a long string, whose previous text may be shared.
    ///
    /// # Panics
    /// If the form is another one than [`ValueForm::Large`].
    pub(super) fn edit_large<T>(&mut self, edit: impl FnOnce(&mut Arc<Vec<u8>>) -> T) -> T {
        let entry = self.entry();
        assert_eq!(entry.form(), ValueForm::Large, "the string is long");
        let shape = entry.shape();
        let target = self.block.as_ptr().wrapping_add(shape.value_offset()).cast::<*const Vec<u8>>();
        // SAFETY: (1) the form was just tested.
        let address = unsafe { entry.large_address() };
        // SAFETY: (1) the block is live and of this size.
        let core = unsafe { heap::core_of(self.block, shape.size()) };
        // SAFETY: (1) the entry holds a reference count of the text; the address is written back before it
        // is read again.
        let text = ManuallyDrop::new(unsafe { Arc::from_raw(address) });
        let mut edited = EditedText { size_before: text.capacity(), text, target, core };
        edit(&mut edited.text)
    }
}

/// A long string during a change. Its address returns to the entry, and its bytes to the count, also in a
/// panic.
struct EditedText<'a> {
    text: ManuallyDrop<Arc<Vec<u8>>>,
    size_before: usize,
    /// Invariant: the place of the address in the entry, which is exclusive to this change.
    target: *mut *const Vec<u8>,
    core: &'a heap::HeapCore,
}

impl Drop for EditedText<'_> {
    fn drop(&mut self) {
        self.core.note_external(self.text.capacity() as isize - self.size_before as isize);
        // SAFETY: the text is taken only here.
        let text = unsafe { ManuallyDrop::take(&mut self.text) };
        // SAFETY: the invariant.
        unsafe { self.target.write_unaligned(Arc::into_raw(text)) };
    }
}

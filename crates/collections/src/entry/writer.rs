//! Writing an entry, part by part.

use std::ptr::NonNull;
use std::sync::Arc;

use super::owned_entry::OwnedEntry;
use super::owned_entry::content::ValueContent;
use super::{EntryHead, EntryLayout, ValueForm};
use crate::entry::kind::Kind;
use crate::memory::heap::Heap;
use crate::values::object::Object;

/// A block in which an entry is written.
///
/// Invariant: the block has room for the layout and is aligned to 8, and nothing else uses it meanwhile.
pub(super) struct EntryWriter {
    block: NonNull<u8>,
    layout: EntryLayout,
}

impl EntryWriter {
    /// Allocates the block.
    pub(super) fn allocate(heap: &Heap, layout: EntryLayout) -> Self {
        Self { block: heap.allocate(layout.size()), layout }
    }

    /// Writes to the block of an entry.
    ///
    /// # Safety
    /// 1. The block has room for the layout, and belongs to the caller, who uses it only after the writer.
    /// 2. What is written makes the entry complete before it is read.
    #[inline(always)]
    pub(super) unsafe fn of_block(block: NonNull<u8>, layout: EntryLayout) -> Self {
        Self { block, layout }
    }

    /// The entry.
    ///
    /// # Safety
    /// 1. All parts were written, and the block was allocated.
    pub(super) unsafe fn finish(self) -> OwnedEntry {
        // SAFETY: (1) the block holds an entry, which has no other owner.
        unsafe { OwnedEntry::from_block(self.block) }
    }

    #[inline(always)]
    pub(super) fn write_head(&mut self, kind: Kind, form: ValueForm, access: u32) {
        let head = EntryHead::new(kind, form, access, self.layout);
        // SAFETY: every layout begins with a head, and the block is aligned.
        unsafe { self.block.cast::<EntryHead>().write(head) };
    }

    /// Writes the expiry of a layout that has one.
    pub(super) fn write_expiry(&mut self, at: i64) {
        debug_assert!(self.layout.has_expiry);
        let target = self.at(EntryLayout::expiry_offset()).cast::<i64>();
        // SAFETY: the layout has an expiry at this address.
        unsafe { target.write_unaligned(at) };
    }

    /// Writes the key, which has the length of the layout's.
    pub(super) fn write_key(&mut self, key: &[u8]) {
        debug_assert_eq!(self.layout.key_len, key.len());
        if let Some(offset) = self.layout.long_key_len_offset() {
            let target = self.at(offset).cast::<u32>();
            // SAFETY: the layout has a long key length here.
            unsafe { target.write_unaligned(key.len() as u32) };
        }
        let target = self.at(self.layout.key_offset());
        // SAFETY: the layout has space for the key here, and the block is not shared.
        unsafe { target.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
    }

    /// Writes the value, for which the layout was made. Counts the memory of a long string in `heap`.
    pub(super) fn write_content(&mut self, heap: &Heap, content: ValueContent<'_>) {
        debug_assert_eq!(content.shape(self.layout.has_expiry, self.layout.key_len), self.layout);
        match content {
            ValueContent::Int(value) => self.write_int(value),
            ValueContent::Inline(_, bytes) => self.write_bytes(bytes),
            ValueContent::Large(text) => {
                heap.core().note_external(text.capacity() as isize);
                let target = self.at(self.layout.value_offset()).cast::<*const Vec<u8>>();
                // SAFETY: the layout has room for the address here.
                unsafe { target.write_unaligned(Arc::into_raw(text)) };
            }
            ValueContent::Object(object) => {
                let target = self.at(self.layout.object_offset()).cast::<Object>();
                // SAFETY: the layout has room for an object here, and a block is aligned to 8.
                unsafe { target.write(object) };
            }
        }
    }

    /// Writes an integer, for which the layout was made.
    #[inline(always)]
    pub(super) fn write_int(&mut self, value: i64) {
        debug_assert_eq!(self.layout.value_size, size_of::<i64>());
        let target = self.at(self.layout.value_offset()).cast::<i64>();
        // SAFETY: the layout has eight bytes here.
        unsafe { target.write_unaligned(value) };
    }

    /// Writes the bytes of a string, for which the layout was made.
    #[inline(always)]
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.layout.value_size, bytes.len());
        let target = self.at(self.layout.value_offset());
        // SAFETY: the layout has space for these bytes here, and the block is not shared.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Writes what another entry has stored as its value: an object, or else its first bytes, as many as the layout has.
    ///
    /// # Safety
    /// 1. The value of `source` is not used again, if it is no string in the entry itself.
    pub(super) unsafe fn write_stored(&mut self, source: &OwnedEntry) {
        let entry = source.entry();
        let old = entry.shape();
        let (from, to, size) = if entry.form() == ValueForm::Object {
            (old.object_offset(), self.layout.object_offset(), size_of::<Object>())
        } else {
            (old.value_offset(), self.layout.value_offset(), self.layout.value_size.min(old.value_size))
        };
        let from = entry.block().as_ptr().wrapping_add(from);
        // SAFETY: both ranges lie inside their entries, which are distinct.
        unsafe { self.at(to).copy_from_nonoverlapping(from, size) };
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> *mut u8 {
        self.block.as_ptr().wrapping_add(offset)
    }
}

//! The unique owner of an entry: the meaning of a table's word, the entry of a removed key, and the entry
//! that a loader creates before it has the latch.
//!
//! Owns the entry's block and the value's memory outside it. Frees both when dropped, on any thread, so a
//! large value can be freed by another thread.
//!
//! Changes have the form "old owner in, new owner out" ([`OwnedEntry::with_value`] and similar): they reuse
//! the block if the size class stays the same, and otherwise move to a new one.

pub(super) mod content;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::entry::exclusive::ExclusiveEntry;
use crate::entry::kind::Kind;
use crate::entry::writer::EntryWriter;
use crate::entry::{Encoding, Entry, EntryLayout, INLINE_SIZE_MAX, ValueForm, ValueRef};
use crate::memory::heap::{self, Heap};
use crate::number::DecimalBuffer;
use crate::values::object::Object;

use self::content::ValueContent;

/// A value to be stored.
#[derive(Debug)]
pub enum NewValue<'v> {
    /// A string, stored as an integer where it is the canonical text of one.
    Auto(&'v [u8]),
    /// A string, stored as these bytes.
    Bytes(&'v [u8]),
    /// A string whose encoding is `raw` for any length.
    Raw(&'v [u8]),
    /// A `raw` string in a buffer, which is taken over if the string is long.
    Buffer(&'v mut Vec<u8>),
    /// A string that is no integer, in a buffer that is shared if the string is long.
    Shared(&'v Arc<Vec<u8>>),
    /// A string that is the decimal text of this integer.
    Int(i64),
    /// A collection. Boxed, because every string set is passed on in this type, too, and takes a third
    /// longer if it is larger.
    Object(Box<Object>),
}

/// The change of a key's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryChange {
    /// The expiry stays.
    Keep,
    /// The expiry is removed.
    Clear,
    /// The expiry becomes this Unix time in milliseconds.
    At(i64),
}

impl ExpiryChange {
    /// The expiry after the change.
    #[must_use]
    pub fn apply(self, old: Option<i64>) -> Option<i64> {
        match self {
            Self::Keep => old,
            Self::Clear => None,
            Self::At(at) => Some(at),
        }
    }
}

/// An entry that is in no table. Dropping it frees the key and its value.
pub struct OwnedEntry {
    block: NonNull<u8>,
}

// SAFETY: an entry owns plain data and an `Object`, which is Send, and any thread may free blocks of a
// heap.
unsafe impl Send for OwnedEntry {}
// SAFETY: a shared reference gives access only to an `Entry`, which is Sync.
unsafe impl Sync for OwnedEntry {}

impl OwnedEntry {
    /// The key, value and expiry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        // SAFETY: the block holds a complete entry, borrowed for as long as `self` is.
        unsafe { Entry::from_block(self.block) }
    }

    /// Creates an entry that is in no table yet, for [`crate::Table::insert_owned`].
    #[must_use]
    pub fn new(heap: &Heap, key: &[u8], value: NewValue<'_>, expiry: Option<i64>) -> Self {
        Self::build(heap, key, ValueContent::of(value), expiry, 0)
    }

    /// A deep copy with another key, in `heap`.
    #[must_use]
    pub fn copy_of(source: Entry<'_>, heap: &Heap, key: &[u8]) -> Self {
        let content = match source.value() {
            ValueRef::Int(value) => ValueContent::Int(value),
            ValueRef::Object(object) => ValueContent::Object(object.to_copy(heap)),
            ValueRef::Bytes(bytes) if source.form() == ValueForm::Large => {
                ValueContent::large(bytes.to_vec())
            }
            ValueRef::Bytes(bytes) => ValueContent::Inline(source.form(), bytes),
        };
        Self::build(heap, key, content, source.expiry(), source.access())
    }

    /// The same value, expiry and access clock under another key and in another heap.
    pub(crate) fn with_key(self, heap: &Heap, key: &[u8]) -> Self {
        let shape = self.entry().shape();
        // SAFETY: (1) the block is live and of this size.
        if self.entry().has_key(key) && unsafe { heap.owns(self.block, shape.size()) } {
            return self;
        }
        self.moved(heap, Some(key), shape.has_expiry)
    }

    /// The entry moved to another block.
    pub(crate) fn relocated(self, heap: &Heap) -> Self {
        let has_expiry = self.entry().shape().has_expiry;
        self.moved(heap, None, has_expiry)
    }

    /// The same key with another value and expiry. The access clock stays.
    pub(crate) fn with_value(mut self, heap: &Heap, value: NewValue<'_>, expiry: Option<i64>) -> Self {
        let old = self.entry().shape();
        let keeps_expiry_field = old.has_expiry == expiry.is_some();
        if keeps_expiry_field
            && self.entry().form() == ValueForm::Large
            && let NewValue::Auto(bytes) | NewValue::Bytes(bytes) | NewValue::Raw(bytes) = value
            && bytes.len() > INLINE_SIZE_MAX
        {
            self.exclusive().edit_large(|buffer| overwrite(buffer, bytes));
            return self.with_expiry(heap, expiry);
        }
        let content = ValueContent::of(value);
        let shape = content.shape(old.has_expiry, old.key_len);
        if !keeps_expiry_field || !shape.same_block(old) {
            let entry = self.entry();
            return Self::build(heap, entry.key(), content, expiry, entry.access());
        }
        let (kind, form, access) = (content.kind(), content.form(), self.entry().access());
        // SAFETY: (1) the new content overwrites them below.
        unsafe { self.drop_value() };
        // SAFETY: (1) the block has room for the shape. (2) The key stays; a new expiry follows, if there is one.
        let mut writer = unsafe { EntryWriter::of_block(self.block, shape) };
        writer.write_head(kind, form, access);
        writer.write_content(heap, content);
        self.with_expiry(heap, expiry)
    }

    /// The same key and value with another expiry.
    pub(crate) fn with_expiry(mut self, heap: &Heap, expiry: Option<i64>) -> Self {
        let shape = self.entry().shape();
        if expiry.is_some() != shape.has_expiry {
            self = self.moved(heap, None, expiry.is_some());
        }
        if let Some(at) = expiry {
            // SAFETY: (1) it is the entry's layout. (2) The entry has an expiry, since it was moved if not before.
            unsafe { EntryWriter::of_block(self.block, self.entry().shape()) }.write_expiry(at);
        }
        self
    }

    /// The same string extended with zeros or truncated to `len` bytes, as `raw`. Must not hold an object.
    pub(crate) fn with_len(mut self, heap: &Heap, len: usize) -> Self {
        let entry = self.entry();
        let mut decimal = DecimalBuffer::new();
        match entry.form() {
            ValueForm::Object => unreachable!("callers have checked that the value is a string"),
            ValueForm::Large => {
                let resize = |text: &mut Arc<Vec<u8>>| {
                    let buffer = Arc::make_mut(text);
                    reserve_amortised(buffer, len);
                    buffer.resize(len, 0);
                };
                self.exclusive().edit_large(resize);
                self
            }
            ValueForm::Int | ValueForm::Embstr | ValueForm::Raw if len > INLINE_SIZE_MAX => {
                let text = entry.value().text(&mut decimal).expect("a string has text");
                let mut buffer = Vec::with_capacity(len);
                buffer.extend_from_slice(text);
                buffer.resize(len, 0);
                Self::build(heap, entry.key(), ValueContent::large(buffer), entry.expiry(), entry.access())
            }
            ValueForm::Int => {
                let ValueRef::Int(value) = entry.value() else { unreachable!("the form says so") };
                let text = decimal.format(value);
                let expiry = entry.expiry();
                self.with_value(heap, NewValue::Raw(text), expiry).with_len(heap, len)
            }
            // SAFETY: (1) the form was just tested.
            ValueForm::Embstr | ValueForm::Raw => unsafe { self.with_inline_len(heap, len) },
        }
    }

    /// The same string with `bytes` after it, as `raw`. Must not hold an object.
    pub(crate) fn with_suffix(mut self, heap: &Heap, bytes: &[u8]) -> Self {
        if self.entry().form() == ValueForm::Large {
            let append = |text: &mut Arc<Vec<u8>>| {
                let buffer = Arc::make_mut(text);
                reserve_amortised(buffer, buffer.len() + bytes.len());
                buffer.extend_from_slice(bytes);
            };
            self.exclusive().edit_large(append);
            return self;
        }
        let old_len =
            self.entry().value().text_len().expect("callers have checked that the value is a string");
        self = self.with_len(heap, old_len + bytes.len());
        let text = self.exclusive().into_bytes().expect("a resized string is not an integer");
        text[old_len..].copy_from_slice(bytes);
        self
    }

    /// Exclusive use of the entry.
    #[inline]
    fn exclusive(&mut self) -> ExclusiveEntry<'_> {
        // SAFETY: (1) `self` owns the entry, and is borrowed mutably.
        unsafe { ExclusiveEntry::of_block(self.block) }
    }

    /// Whether dropping it may take long, so that it should be left to another thread.
    #[must_use]
    pub fn is_costly_to_drop(&self) -> bool {
        match (self.entry().encoding(), self.entry().value()) {
            (_, ValueRef::Object(object)) => object.is_costly_to_drop(),
            (Encoding::Raw, _) => self.entry().allocated_bytes() > COSTLY_SIZE_MIN,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn into_block(self) -> NonNull<u8> {
        ManuallyDrop::new(self).block
    }

    /// # Safety
    /// 1. The block came from [`Self::into_block`], and has no other owner.
    #[inline]
    pub(crate) unsafe fn from_block(block: NonNull<u8>) -> Self {
        Self { block }
    }

    fn build(heap: &Heap, key: &[u8], content: ValueContent<'_>, expiry: Option<i64>, access: u32) -> Self {
        let shape = content.shape(expiry.is_some(), key.len());
        let mut writer = EntryWriter::allocate(heap, shape);
        writer.write_head(content.kind(), content.form(), access);
        if let Some(at) = expiry {
            writer.write_expiry(at);
        }
        writer.write_key(key);
        writer.write_content(heap, content);
        // SAFETY: (1) all parts were written.
        unsafe { writer.finish() }
    }

    /// Moves the value to another block, under the same key unless a new one is given. The expiry is copied if there is one
    /// before and after.
    fn moved(self, heap: &Heap, key: Option<&[u8]>, has_expiry: bool) -> Self {
        let value_size = self.entry().shape().value_size;
        // SAFETY: (1) the value keeps its size.
        unsafe { self.moved_with_size(heap, key, has_expiry, value_size) }
    }

    /// As [`Self::moved`], but of a string that is stored in the entry only the first `value_size` bytes.
    ///
    /// # Safety
    /// 1. `value_size` is the value's size, unless the value is a string's bytes; if it is larger, the
    ///    caller writes the further bytes before they are read.
    unsafe fn moved_with_size(
        self,
        heap: &Heap,
        key: Option<&[u8]>,
        has_expiry: bool,
        value_size: usize,
    ) -> Self {
        let entry = self.entry();
        let key = key.unwrap_or(entry.key());
        let shape = if entry.form() == ValueForm::Object {
            EntryLayout::of_object(has_expiry, key.len())
        } else {
            EntryLayout { has_expiry, key_len: key.len(), value_size }
        };
        let mut writer = EntryWriter::allocate(heap, shape);
        writer.write_head(entry.kind(), entry.form(), entry.access());
        if has_expiry {
            writer.write_expiry(entry.expiry().unwrap_or_default());
        }
        writer.write_key(key);
        // SAFETY: (1) only the block is freed below.
        unsafe { writer.write_stored(&self) };
        if entry.form() == ValueForm::Large {
            // SAFETY: (1) the form was just tested.
            let capacity = unsafe { entry.large_text() }.capacity() as isize;
            heap.core().note_external(capacity);
            self.core().note_external(-capacity);
        }
        self.free_block();
        // SAFETY: (1) all parts were written, but for further bytes of the value, which (1) the caller writes.
        unsafe { writer.finish() }
    }

    /// # Safety
    /// 1. The form is [`ValueForm::Embstr`] or [`ValueForm::Raw`].
    unsafe fn with_inline_len(mut self, heap: &Heap, len: usize) -> Self {
        let old = self.entry().shape();
        let shape = EntryLayout { value_size: len, ..old };
        if !shape.same_block(old) {
            // SAFETY: (1) the value is a string's bytes; further bytes are written below.
            self = unsafe { self.moved_with_size(heap, None, old.has_expiry, len) };
        }
        let access = self.entry().access();
        // SAFETY: (1) the block has space for the shape. (2) Key and bytes stay, further bytes follow.
        unsafe { EntryWriter::of_block(self.block, shape) }.write_head(Kind::String, ValueForm::Raw, access);
        if len > old.value_size {
            let tail = self.at(shape.value_offset() + old.value_size);
            // SAFETY: the tail lies inside the entry, whose block holds the new shape.
            unsafe { tail.write_bytes(0, len - old.value_size) };
        }
        self
    }

    /// Frees the value's memory outside the block; its stored bytes are stale afterwards.
    ///
    /// # Safety
    /// 1. The caller overwrites or frees the stored bytes before they are read.
    unsafe fn drop_value(&mut self) {
        match self.entry().form() {
            ValueForm::Int | ValueForm::Embstr | ValueForm::Raw => {}
            ValueForm::Large => {
                // SAFETY: (1) of the callee: the form was just tested.
                let address = unsafe { self.entry().large_address() };
                // SAFETY: (1) created by `Arc::into_raw`; the address is not used again.
                let text = unsafe { Arc::from_raw(address) };
                self.core().note_external(-(text.capacity() as isize));
            }
            ValueForm::Object => {
                // SAFETY: (1) the entry owns the object, whose bytes are not used again.
                unsafe { self.entry().object_address().drop_in_place() };
            }
        }
    }

    /// Frees the block without the value's memory outside it.
    fn free_block(self) {
        let size = self.entry().shape().size();
        let block = self.into_block();
        // SAFETY: the block was allocated for an entry of the same class, and has no owner any more.
        unsafe { heap::free(block, size) };
    }

    fn core(&self) -> &heap::HeapCore {
        // SAFETY: the block is live and of this size.
        unsafe { heap::core_of(self.block, self.entry().shape().size()) }
    }

    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        self.block.as_ptr().wrapping_add(offset)
    }
}

/// Values larger than this are freed by another thread.
const COSTLY_SIZE_MIN: usize = 64 * 1024;

impl Drop for OwnedEntry {
    fn drop(&mut self) {
        let size = self.entry().shape().size();
        // SAFETY: (1) the block is freed below.
        unsafe { self.drop_value() };
        // SAFETY: the block was allocated for an entry of the same class, and `self` was its only owner.
        unsafe { heap::free(self.block, size) };
    }
}

impl std::fmt::Debug for OwnedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OwnedEntry").field(&self.entry()).finish()
    }
}

/// Replaces a text, in its buffer if it is not shared.
fn overwrite(text: &mut Arc<Vec<u8>>, bytes: &[u8]) {
    match Arc::get_mut(text) {
        // Also requires that the buffer is neither too small nor wastes more than the allocator would.
        Some(buffer) if (bytes.len()..=bytes.len() / 8 * 9).contains(&buffer.capacity()) => {
            buffer.clear();
            buffer.extend_from_slice(bytes);
        }
        _ => *text = Arc::new(bytes.to_vec()),
    }
}

/// Reserves space for `len` bytes: doubles up to 1 MiB and then grows by 1 MiB at a time, for repeated
/// appends.
fn reserve_amortised(buffer: &mut Vec<u8>, len: usize) {
    const SLACK_SIZE_MAX: usize = 1024 * 1024;
    if len > buffer.capacity() {
        buffer.reserve_exact(len + len.min(SLACK_SIZE_MAX) - buffer.len());
    }
}

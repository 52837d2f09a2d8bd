//! The unique owner of an entry: the meaning of a table's word, the entry of a removed key, and the entry
//! that a loader creates before it has the latch.
//!
//! Owns the entry's block and the value's memory outside it. Frees both when dropped, on any thread, so a
//! large value can be freed by another thread.
//!
//! Changes have the form "old owner in, new owner out" ([`OwnedEntry::with_value`] and similar): they reuse
//! the block if the size class stays the same, and otherwise move to a new one.

mod content;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::entry::kind::Kind;
use crate::entry::{EMBSTR_SIZE_MAX, Encoding, Entry, EntryLayout, Form, Head, INLINE_SIZE_MAX, ValueRef};
use crate::memory::heap::{self, Heap};
use crate::number::{DecimalBuffer, may_be_canonical};
use crate::values::object::Object;

use self::content::Content;

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
        Self::build(heap, key, Content::of(value), expiry, 0)
    }

    /// A deep copy with another key, in `heap`.
    #[must_use]
    pub fn copy_of(source: Entry<'_>, heap: &Heap, key: &[u8]) -> Self {
        let content = match source.value() {
            ValueRef::Int(value) => Content::Int(value),
            ValueRef::Object(object) => Content::Object(object.to_copy(heap)),
            ValueRef::Bytes(bytes) if source.form() == Form::Large => Content::large(bytes.to_vec()),
            ValueRef::Bytes(bytes) => Content::Inline(source.form(), bytes),
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
        // SAFETY: (1) the value keeps its size.
        unsafe { self.moved(heap, Some(key), shape.has_expiry, shape.value_size) }
    }

    /// The entry moved to another block.
    pub(crate) fn relocated(self, heap: &Heap) -> Self {
        let shape = self.entry().shape();
        // SAFETY: (1) the value keeps its size.
        unsafe { self.moved(heap, None, shape.has_expiry, shape.value_size) }
    }

    /// The same key with another value and expiry. The access clock stays.
    pub(crate) fn with_value(mut self, heap: &Heap, value: NewValue<'_>, expiry: Option<i64>) -> Self {
        let old = self.entry().shape();
        let keeps_expiry_field = old.has_expiry == expiry.is_some();
        if keeps_expiry_field
            && self.entry().form() == Form::Large
            && let NewValue::Auto(bytes) | NewValue::Bytes(bytes) | NewValue::Raw(bytes) = value
            && bytes.len() > INLINE_SIZE_MAX
        {
            // SAFETY: (1) `self` owns the entry, whose form was just tested, and is not used meanwhile.
            unsafe { Self::edit_large(self.block, |buffer| overwrite(buffer, bytes)) };
            return self.with_expiry(heap, expiry);
        }
        let content = Content::of(value);
        let shape = content.shape(old.has_expiry, old.key_len);
        if !keeps_expiry_field || !shape.same_block(old) {
            let entry = self.entry();
            return Self::build(heap, entry.key(), content, expiry, entry.access());
        }
        let (kind, form, access) = (content.kind(), content.form(), self.entry().access());
        // SAFETY: (1) the new content overwrites them below.
        unsafe { self.drop_value() };
        // SAFETY: (1) the block has room for the shape, and (2) the new content follows.
        unsafe { self.write_head(kind, form, access, shape) };
        // SAFETY: (1) the block has room for the shape, which is the content's.
        unsafe { self.write_content(heap, content, shape) };
        self.with_expiry(heap, expiry)
    }

    /// The same key and value with another expiry.
    pub(crate) fn with_expiry(mut self, heap: &Heap, expiry: Option<i64>) -> Self {
        let shape = self.entry().shape();
        if expiry.is_some() != shape.has_expiry {
            // SAFETY: (1) the value keeps its size.
            self = unsafe { self.moved(heap, None, expiry.is_some(), shape.value_size) };
        }
        if let Some(at) = expiry {
            // SAFETY: (1) the entry has an expiry, since it was moved if not before.
            unsafe { self.write_expiry(at) };
        }
        self
    }

    /// The same string extended with zeros or truncated to `len` bytes, as `raw`. Must not hold an object.
    pub(crate) fn with_len(self, heap: &Heap, len: usize) -> Self {
        let entry = self.entry();
        let mut decimal = DecimalBuffer::new();
        match entry.form() {
            Form::Object => unreachable!("callers have checked that the value is a string"),
            Form::Large => {
                let resize = |text: &mut Arc<Vec<u8>>| {
                    let buffer = Arc::make_mut(text);
                    reserve_amortised(buffer, len);
                    buffer.resize(len, 0);
                };
                // SAFETY: (1) `self` owns the entry, whose form was just tested, and is not used meanwhile.
                unsafe { Self::edit_large(self.block, resize) };
                self
            }
            Form::Int | Form::Embstr | Form::Raw if len > INLINE_SIZE_MAX => {
                let text = entry.value().text(&mut decimal).expect("a string has text");
                let mut buffer = Vec::with_capacity(len);
                buffer.extend_from_slice(text);
                buffer.resize(len, 0);
                Self::build(heap, entry.key(), Content::large(buffer), entry.expiry(), entry.access())
            }
            Form::Int => {
                let ValueRef::Int(value) = entry.value() else { unreachable!("the form says so") };
                let text = decimal.format(value);
                let expiry = entry.expiry();
                self.with_value(heap, NewValue::Raw(text), expiry).with_len(heap, len)
            }
            // SAFETY: (1) the form was just tested.
            Form::Embstr | Form::Raw => unsafe { self.with_inline_len(heap, len) },
        }
    }

    /// The same string with `bytes` after it, as `raw`. Must not hold an object.
    pub(crate) fn with_suffix(mut self, heap: &Heap, bytes: &[u8]) -> Self {
        if self.entry().form() == Form::Large {
            let append = |text: &mut Arc<Vec<u8>>| {
                let buffer = Arc::make_mut(text);
                reserve_amortised(buffer, buffer.len() + bytes.len());
                buffer.extend_from_slice(bytes);
            };
            // SAFETY: (1) `self` owns the entry, whose form was just tested, and is not used meanwhile.
            unsafe { Self::edit_large(self.block, append) };
            return self;
        }
        let old_len =
            self.entry().value().text_len().expect("callers have checked that the value is a string");
        self = self.with_len(heap, old_len + bytes.len());
        // SAFETY: (1) `self` owns the entry and is not used meanwhile.
        let text = unsafe { Self::bytes_of_block(self.block) }.expect("a resized string is not an integer");
        text[old_len..].copy_from_slice(bytes);
        self
    }

    /// Overwrites a string without expiry by another one in its block: the most frequent case. `false`:
    /// this is not possible ([`Self::with_value`] is needed), and nothing has changed.
    ///
    /// # Safety
    /// 1. The block holds a complete entry, of which the caller has exclusive use.
    #[inline(always)]
    pub(crate) unsafe fn try_overwrite(block: NonNull<u8>, text: &[u8]) -> bool {
        // SAFETY: (1) the entry does not change meanwhile.
        let entry = unsafe { Entry::from_block(block) };
        let old = entry.shape();
        let shape = EntryLayout { value_size: text.len(), ..old };
        let is_inline = matches!(entry.form(), Form::Int | Form::Embstr | Form::Raw);
        let fits = text.len() <= INLINE_SIZE_MAX && !old.has_expiry && shape.same_block(old);
        if !is_inline || !fits || may_be_canonical(text) {
            return false;
        }
        let form = if text.len() <= EMBSTR_SIZE_MAX { Form::Embstr } else { Form::Raw };
        let head = Head::new(Kind::String, form, entry.access(), shape);
        // SAFETY: (1) a block starts with its head.
        unsafe { block.cast::<Head>().write(head) };
        let target = block.as_ptr().wrapping_add(shape.value_offset());
        // SAFETY: (1) the block holds the shape, which has space for these bytes here.
        unsafe { target.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        true
    }

    /// The bytes of the string in an entry's block, unless it is stored as an integer.
    ///
    /// # Safety
    /// 1. The caller has exclusive use of the entry for `'a`.
    pub(crate) unsafe fn bytes_of_block<'a>(block: NonNull<u8>) -> Option<&'a mut [u8]> {
        // SAFETY: (1) the entry does not change meanwhile.
        let entry = unsafe { Entry::from_block(block) };
        let shape = entry.shape();
        let (address, len) = match entry.form() {
            Form::Embstr | Form::Raw => (block.as_ptr().wrapping_add(shape.value_offset()), shape.value_size),
            Form::Large => {
                let own = |text: &mut Arc<Vec<u8>>| {
                    let buffer = Arc::make_mut(text);
                    (buffer.as_mut_ptr(), buffer.len())
                };
                // SAFETY: (1) the form was just tested.
                unsafe { Self::edit_large(block, own) }
            }
            Form::Int | Form::Object => return None,
        };
        // SAFETY: (1) these are the bytes of the value, exclusive to the caller.
        Some(unsafe { std::slice::from_raw_parts_mut(address, len) })
    }

    /// Overwrites the integer in an entry's block. Returns whether the value is one.
    ///
    /// # Safety
    /// 1. The caller has exclusive use of the entry.
    #[inline]
    pub(crate) unsafe fn overwrite_int_of_block(block: NonNull<u8>, value: i64) -> bool {
        // SAFETY: (1) the entry does not change meanwhile.
        let entry = unsafe { Entry::from_block(block) };
        let is_int = entry.form() == Form::Int;
        if is_int {
            let target = block.as_ptr().wrapping_add(entry.shape().value_offset()).cast::<i64>();
            // SAFETY: (1) by the form there is an integer here, exclusive to the caller.
            unsafe { target.write_unaligned(value) };
        }
        is_int
    }

    /// The object in an entry's block, if the value is one.
    ///
    /// # Safety
    /// 1. The caller has exclusive use of the entry for `'a`.
    pub(crate) unsafe fn object_of_block<'a>(block: NonNull<u8>) -> Option<&'a mut Object> {
        // SAFETY: (1) the entry does not change meanwhile.
        let entry = unsafe { Entry::from_block(block) };
        if entry.form() != Form::Object {
            return None;
        }
        // SAFETY: (1) the entry owns the object, and is exclusive to the caller.
        Some(unsafe { &mut *entry.object_address() })
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

    fn build(heap: &Heap, key: &[u8], content: Content<'_>, expiry: Option<i64>, access: u32) -> Self {
        let shape = content.shape(expiry.is_some(), key.len());
        // Nothing panics before it is complete.
        let mut new = Self { block: heap.allocate(shape.size()) };
        // SAFETY: (1) the block was allocated for the shape, and (2) its content is written below.
        unsafe { new.write_head(content.kind(), content.form(), access, shape) };
        if let Some(at) = expiry {
            // SAFETY: (1) the shape has an expiry.
            unsafe { new.write_expiry(at) };
        }
        // SAFETY: (1) the block was allocated for the shape, which has a key of this length.
        unsafe { new.write_key(key, shape) };
        // SAFETY: (1) the block was allocated for the shape, which is the content's.
        unsafe { new.write_content(heap, content, shape) };
        new
    }

    /// Moves the value (of a string, its first `value_size` stored bytes) to a block of another shape,
    /// under the same key unless a new one is given. The expiry is copied if there is one before and after.
    ///
    /// # Safety
    /// 1. `value_size` is the value's size, unless the value is a string's bytes; if it is larger, the
    ///    caller writes the further bytes before they are read.
    unsafe fn moved(self, heap: &Heap, key: Option<&[u8]>, has_expiry: bool, value_size: usize) -> Self {
        let entry = self.entry();
        let old = entry.shape();
        let key = key.unwrap_or(entry.key());
        let is_object = entry.form() == Form::Object;
        let shape = if is_object {
            EntryLayout::of_object(has_expiry, key.len())
        } else {
            EntryLayout { has_expiry, key_len: key.len(), value_size }
        };
        let mut new = Self { block: heap.allocate(shape.size()) };
        // SAFETY: (1) the block was allocated for the shape, and (2) its content is written below.
        unsafe { new.write_head(entry.kind(), entry.form(), entry.access(), shape) };
        if has_expiry {
            // SAFETY: (1) the shape has an expiry.
            unsafe { new.write_expiry(entry.expiry().unwrap_or_default()) };
        }
        // SAFETY: (1) the block was allocated for the shape, which has a key of this length.
        unsafe { new.write_key(key, shape) };
        let (source, target, size) = if is_object {
            (old.object_offset(), shape.object_offset(), size_of::<Object>())
        } else {
            (old.value_offset(), shape.value_offset(), value_size.min(old.value_size))
        };
        // SAFETY: both ranges lie inside their entries, which are distinct.
        unsafe { new.at(target).copy_from_nonoverlapping(self.at(source), size) };
        if entry.form() == Form::Large {
            // SAFETY: (1) the form was just tested.
            let capacity = unsafe { entry.large_text() }.capacity() as isize;
            heap.core().note_external(capacity);
            self.core().note_external(-capacity);
        }
        self.free_block();
        new
    }

    /// # Safety
    /// 1. The form is [`Form::Embstr`] or [`Form::Raw`].
    unsafe fn with_inline_len(mut self, heap: &Heap, len: usize) -> Self {
        let old = self.entry().shape();
        let shape = EntryLayout { value_size: len, ..old };
        if !shape.same_block(old) {
            // SAFETY: (1) the value is a string's bytes; further bytes are written below.
            self = unsafe { self.moved(heap, None, old.has_expiry, len) };
        }
        let access = self.entry().access();
        // SAFETY: (1) the block has space for the shape, and (2) further bytes follow.
        unsafe { self.write_head(Kind::String, Form::Raw, access, shape) };
        if len > old.value_size {
            let tail = self.at(shape.value_offset() + old.value_size);
            // SAFETY: the tail lies inside the entry, whose block holds the new shape.
            unsafe { tail.write_bytes(0, len - old.value_size) };
        }
        self
    }

    /// Calls `edit` to change a long string, whose previous text may be shared.
    ///
    /// # Safety
    /// 1. The block holds a complete entry of the form `Large`, of which the caller has exclusive use.
    unsafe fn edit_large<T>(block: NonNull<u8>, edit: impl FnOnce(&mut Arc<Vec<u8>>) -> T) -> T {
        // SAFETY: (1) the entry does not change meanwhile.
        let entry = unsafe { Entry::from_block(block) };
        let shape = entry.shape();
        let target = block.as_ptr().wrapping_add(shape.value_offset()).cast::<*const Vec<u8>>();
        // SAFETY: (1) by the form of the entry.
        let address = unsafe { entry.large_address() };
        // SAFETY: (1) the block is live and of this size.
        let core = unsafe { heap::core_of(block, shape.size()) };
        // SAFETY: (1) the entry holds a reference count of the text; the address is written back before it
        // is read again.
        let text = ManuallyDrop::new(unsafe { Arc::from_raw(address) });
        let mut edited = EditedText { size_before: text.capacity(), text, target, core };
        edit(&mut edited.text)
    }

    /// # Safety
    /// 1. The block has room for the shape, which is that of the content.
    unsafe fn write_content(&mut self, heap: &Heap, content: Content<'_>, shape: EntryLayout) {
        let target = self.at(shape.value_offset());
        match content {
            Content::Int(value) => {
                // SAFETY: (1) the shape has eight bytes here.
                unsafe { target.cast::<i64>().write_unaligned(value) };
            }
            Content::Inline(_, bytes) => {
                // SAFETY: (1) the shape has space for these bytes here, and the block is not shared.
                unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            Content::Large(text) => {
                heap.core().note_external(text.capacity() as isize);
                // SAFETY: (1) the shape has room for the address here.
                unsafe { target.cast::<*const Vec<u8>>().write_unaligned(Arc::into_raw(text)) };
            }
            Content::Object(object) => {
                let target = self.at(shape.object_offset()).cast::<Object>();
                // SAFETY: (1) the shape has room for an object here, and a block is aligned to 8.
                unsafe { target.write(object) };
            }
        }
    }

    /// # Safety
    /// 1. The block has room for the shape.
    /// 2. The caller writes all that the head describes before it is read.
    unsafe fn write_head(&mut self, kind: Kind, form: Form, access: u32, shape: EntryLayout) {
        // SAFETY: (1) a block is aligned to 8, and every shape has a head.
        unsafe { self.block.cast::<Head>().write(Head::new(kind, form, access, shape)) };
    }

    /// # Safety
    /// 1. The entry has an expiry.
    unsafe fn write_expiry(&mut self, at: i64) {
        let target = self.at(EntryLayout::expiry_offset()).cast::<i64>();
        // SAFETY: (1) the expiry is at this address.
        unsafe { target.write_unaligned(at) };
    }

    /// # Safety
    /// 1. The block has room for the shape, which has a key of this length.
    unsafe fn write_key(&mut self, key: &[u8], shape: EntryLayout) {
        if let Some(offset) = shape.long_key_len_offset() {
            let target = self.at(offset).cast::<u32>();
            // SAFETY: (1) the shape has a long key length here.
            unsafe { target.write_unaligned(key.len() as u32) };
        }
        let target = self.at(shape.key_offset());
        // SAFETY: (1) the shape has space for the key here, and the block is not shared.
        unsafe { target.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
    }

    /// Frees the value's memory outside the block; its stored bytes are stale afterwards.
    ///
    /// # Safety
    /// 1. The caller overwrites or frees the stored bytes before they are read.
    unsafe fn drop_value(&mut self) {
        match self.entry().form() {
            Form::Int | Form::Embstr | Form::Raw => {}
            Form::Large => {
                // SAFETY: (1) of the callee: the form was just tested.
                let address = unsafe { self.entry().large_address() };
                // SAFETY: (1) created by `Arc::into_raw`; the address is not used again.
                let text = unsafe { Arc::from_raw(address) };
                self.core().note_external(-(text.capacity() as isize));
            }
            Form::Object => {
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

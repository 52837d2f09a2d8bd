//! An entry: header, expiry, key and value of one key in a single allocation, and the shared view of it.
//!
//! ```text
//! offset  size
//! 0       4     type (4 bits), form (3 bits), has expiry (1 bit), access clock (24 bits)
//! 4       4     key length (8 bits; 255: see below), stored value size in bytes (24 bits)
//! 8       8     expiry, Unix time in ms, if there is one
//!         4     key length, if the 8 bits say 255
//!         n     key
//!         n     value, by form: the integer (8), the bytes, a pointer to a shared text (8),
//!               or padding and the aligned `Object` (24)
//! ```
//! A key of 16 bytes with a value of 64 takes 88 bytes. Behind the header only objects are aligned.
//!
//! Any number of threads may hold an [`Entry`] and set its access clock; all other changes go through
//! [`crate::OwnedEntry`], its unique owner.

pub(crate) mod exclusive;
pub(crate) mod kind;
pub(crate) mod owned_entry;
pub(crate) mod value_size;
pub(crate) mod volatility;
mod writer;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use sync::atomic::{AtomicU32, Ordering};

use crate::entry::kind::Kind;
use crate::entry::value_size::ValueSize;
use crate::entry::volatility::Volatility;
use crate::memory::size_class::{BLOCK_SIZE_MAX, class_of, class_size};
use crate::number::{DecimalBuffer, decimal_len};
use crate::values::object::Object;

/// Longest string value whose encoding may be `embstr`: with an empty key.
pub const EMBSTR_SIZE_MAX: usize = 114;

/// Largest object, in bytes with its key and expiry as Valkey counts them, that `OBJECT ENCODING` reports as
/// `embstr`.
const EMBEDDED_SIZE_MAX: usize = 128;

/// Longest string value kept inside its entry; longer values have a separate buffer.
pub const INLINE_SIZE_MAX: usize = 1024;

/// Bits of the access clock.
pub const ACCESS_BITS: u32 = 24;

const HEAD_SIZE: usize = 8;
const KEY_LEN_ESCAPE: u32 = 255;

/// The encoding of a stored value, as `OBJECT ENCODING` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A string that is an integer.
    Int,
    /// A short string, unchanged since it was set.
    Embstr,
    /// A string that is long or was changed in place.
    Raw,
    /// The encoding that the object names.
    Object,
}

/// A stored value.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// A string that is the decimal text of this integer.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
    /// A collection.
    Object(&'a Object),
}

impl<'a> ValueRef<'a> {
    /// The bytes of a string value (an integer is formatted into `buffer`); `None` for a collection.
    #[must_use]
    pub fn text<'b>(self, buffer: &'b mut DecimalBuffer) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        match self {
            Self::Int(value) => Some(buffer.format(value)),
            Self::Bytes(bytes) => Some(bytes),
            Self::Object(_) => None,
        }
    }

    /// The length of a string value's text in bytes; `None` for a collection.
    #[must_use]
    pub fn text_len(self) -> Option<usize> {
        match self {
            Self::Int(value) => Some(decimal_len(value)),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::Object(_) => None,
        }
    }
}

/// The interpretation of an entry's value bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ValueForm {
    Int = 0,
    Embstr = 1,
    Raw = 2,
    Large = 3,
    Object = 4,
}

impl ValueForm {
    #[inline]
    const fn from_bits(bits: u32) -> Self {
        match bits & 7 {
            0 => Self::Int,
            1 => Self::Embstr,
            2 => Self::Raw,
            3 => Self::Large,
            _ => Self::Object,
        }
    }
}

/// The first eight bytes of an entry.
#[repr(C)]
pub(crate) struct EntryHead {
    flags: AtomicU32,
    sizes: AtomicU32,
}

const FORM_SHIFT: u32 = 4;
const HAS_EXPIRY: u32 = 1 << 7;
const FLAG_BITS: u32 = 8;
const FLAG_MASK: u32 = (1 << FLAG_BITS) - 1;

impl EntryHead {
    pub(crate) fn new(kind: Kind, form: ValueForm, access: u32, shape: EntryLayout) -> Self {
        let expiry = if shape.has_expiry { HAS_EXPIRY } else { 0 };
        let flags = kind as u32 | (form as u32) << FORM_SHIFT | expiry | access << FLAG_BITS;
        let key_len = if shape.key_len_is_long() { KEY_LEN_ESCAPE } else { shape.key_len as u32 };
        let sizes = key_len | (shape.value_size as u32) << 8;
        Self { flags: AtomicU32::new(flags), sizes: AtomicU32::new(sizes) }
    }
}

/// The properties that determine the offsets in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryLayout {
    pub(crate) has_expiry: bool,
    pub(crate) key_len: usize,
    /// Bytes of the stored value, below 2^24.
    pub(crate) value_size: usize,
}

impl EntryLayout {
    #[inline]
    const fn key_len_is_long(self) -> bool {
        self.key_len >= KEY_LEN_ESCAPE as usize
    }

    #[inline]
    pub(crate) const fn expiry_offset() -> usize {
        HEAD_SIZE
    }

    /// The offset of the long key length, if there is one.
    #[inline]
    pub(crate) const fn long_key_len_offset(self) -> Option<usize> {
        if self.key_len_is_long() { Some(HEAD_SIZE + 8 * self.has_expiry as usize) } else { None }
    }

    #[inline]
    pub(crate) const fn key_offset(self) -> usize {
        HEAD_SIZE + 8 * self.has_expiry as usize + 4 * self.key_len_is_long() as usize
    }

    #[inline]
    pub(crate) const fn value_offset(self) -> usize {
        self.key_offset() + self.key_len
    }

    /// The layout of an entry that holds an object.
    pub(crate) const fn of_object(has_expiry: bool, key_len: usize) -> Self {
        let shape = Self { has_expiry, key_len, value_size: 0 };
        let value_size = shape.object_offset() + size_of::<Object>() - shape.value_offset();
        Self { value_size, ..shape }
    }

    /// The offset of the object in the value of an entry that holds one.
    #[inline]
    pub(crate) const fn object_offset(self) -> usize {
        self.value_offset().next_multiple_of(align_of::<Object>())
    }

    #[inline]
    pub(crate) const fn size(self) -> usize {
        self.value_offset() + self.value_size
    }

    /// Whether an entry of this layout fits the block of an entry with the layout `other`.
    #[inline(always)]
    pub(crate) fn same_block(self, other: Self) -> bool {
        let (size, other_size) = (self.size(), other.size());
        if size == other_size {
            return true;
        }
        if size > BLOCK_SIZE_MAX || other_size > BLOCK_SIZE_MAX {
            return size == other_size;
        }
        class_of(size) == class_of(other_size)
    }

    /// The bytes of its block.
    pub(crate) fn block_size(self) -> usize {
        let size = self.size();
        if size > BLOCK_SIZE_MAX { size } else { class_size(class_of(size)) }
    }
}

/// A shared view of one key with its value, expiry and access clock. Two words, cheap to copy.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    block: NonNull<u8>,
    lifetime: PhantomData<&'a Object>,
}

// SAFETY: an entry is plain data, an atomic, and an `Object`, which is Sync; only the atomic is changed
// through it.
unsafe impl Send for Entry<'_> {}
// SAFETY: likewise.
unsafe impl Sync for Entry<'_> {}

impl<'a> Entry<'a> {
    /// # Safety
    /// 1. `block` holds a complete entry for the whole of `'a`, and it is not changed during that time,
    ///    except for the flags word through its atomic.
    #[inline]
    pub(crate) unsafe fn from_block(block: NonNull<u8>) -> Self {
        Self { block, lifetime: PhantomData }
    }

    /// The address of its block.
    #[inline]
    pub(crate) fn block(self) -> NonNull<u8> {
        self.block
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        let shape = self.shape();
        // SAFETY: (1) the entry has its key at this offset.
        unsafe { self.bytes(shape.key_offset(), shape.key_len) }
    }

    /// Whether this is the entry of `key`.
    #[inline(always)]
    #[must_use]
    pub fn has_key(self, key: &[u8]) -> bool {
        let head = self.head();
        let stored = head.sizes.load(Ordering::Relaxed) & 0xFF;
        if stored == KEY_LEN_ESCAPE {
            return self.has_long_key(key);
        }
        let has_expiry = head.flags.load(Ordering::Relaxed) & HAS_EXPIRY != 0;
        let shape = EntryLayout { has_expiry, key_len: stored as usize, value_size: 0 };
        // SAFETY: (1) the stored key, if it has this length.
        stored as usize == key.len() && is_same(unsafe { self.bytes(shape.key_offset(), key.len()) }, key)
    }

    #[cold]
    fn has_long_key(self, key: &[u8]) -> bool {
        self.key() == key
    }

    /// The expiry of the key, as a Unix time in milliseconds.
    #[inline]
    #[must_use]
    pub fn expiry(self) -> Option<i64> {
        if self.flags() & HAS_EXPIRY == 0 {
            return None;
        }
        // SAFETY: the flag says that the entry has an expiry.
        Some(unsafe { self.at(EntryLayout::expiry_offset()).cast::<i64>().read_unaligned() })
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn value(self) -> ValueRef<'a> {
        let shape = self.shape();
        let offset = shape.value_offset();
        match self.form() {
            // SAFETY: the form says that the value is an integer.
            ValueForm::Int => ValueRef::Int(unsafe { self.at(offset).cast::<i64>().read_unaligned() }),
            ValueForm::Embstr | ValueForm::Raw => {
                // SAFETY: (1) the form says that the value is these bytes.
                ValueRef::Bytes(unsafe { self.bytes(offset, shape.value_size) })
            }
            // SAFETY: (1) the form was just checked.
            ValueForm::Large => ValueRef::Bytes(unsafe { self.large_text() }),
            ValueForm::Object => {
                // SAFETY: the form says that the value is an object, aligned and owned by the entry.
                ValueRef::Object(unsafe { &*self.object_address() })
            }
        }
    }

    /// The type and the size of the value.
    #[inline]
    #[must_use]
    pub fn value_size(self) -> ValueSize {
        match self.form() {
            ValueForm::Embstr | ValueForm::Raw => ValueSize::new(Kind::String, self.shape().value_size),
            _ => self.size_of_other(),
        }
    }

    fn size_of_other(self) -> ValueSize {
        match self.value() {
            ValueRef::Int(value) => ValueSize::of_integer(value),
            ValueRef::Bytes(bytes) => ValueSize::new(Kind::String, bytes.len()),
            ValueRef::Object(object) => ValueSize::new(object.kind(), object.element_count()),
        }
    }

    /// The type of the value.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Kind {
        Kind::from_bits(self.flags() & 0xF)
    }

    /// The encoding of the value.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        match self.form() {
            ValueForm::Int => Encoding::Int,
            ValueForm::Embstr => Encoding::Embstr,
            ValueForm::Raw | ValueForm::Large => Encoding::Raw,
            ValueForm::Object => Encoding::Object,
        }
    }

    /// Whether key, expiry and value together are small enough for Valkey to keep them in one object.
    fn is_embedded(self) -> bool {
        let shape = self.shape();
        let key_size = self.key().len();
        let key_header_size = match key_size {
            0..32 => 1,
            32..256 => 3,
            _ => 5,
        };
        // Valkey's overheads: 8 for the object, header size and a zero for the key, 3 and a zero for the
        // value.
        let size = 8
            + (1 + key_header_size + key_size + 1)
            + 8 * usize::from(shape.has_expiry)
            + (3 + shape.value_size + 1);
        size <= EMBEDDED_SIZE_MAX
    }

    /// The name of the encoding, as `OBJECT ENCODING` reports it.
    #[must_use]
    pub fn encoding_name(self) -> &'static str {
        match (self.encoding(), self.value()) {
            (_, ValueRef::Object(object)) => object.encoding_name(),
            (Encoding::Int, _) => "int",
            (Encoding::Embstr, _) if self.is_embedded() => "embstr",
            (Encoding::Embstr | Encoding::Raw | Encoding::Object, _) => "raw",
        }
    }

    /// The 24 bits of access clock (LRU time, or LFU time and counter; interpreted by the caller).
    #[inline]
    #[must_use]
    pub fn access(self) -> u32 {
        self.flags() >> FLAG_BITS
    }

    /// Sets the access clock to the low 24 bits of `access`. Readers may call it concurrently: the last store
    /// wins.
    #[inline]
    pub fn set_access(self, access: u32) {
        let flags = self.flags();
        let new = flags & FLAG_MASK | access << FLAG_BITS;
        // Avoids a needless write to a line that readers on several cores share.
        if new != flags {
            self.head().flags.store(new, Ordering::Relaxed);
        }
    }

    /// A shared reference to a long string in its current state, without a copy: a later change of the value
    /// copies it while the reference exists. `None`: the value is short, or not a string.
    #[must_use]
    pub fn shared_text(self) -> Option<Arc<Vec<u8>>> {
        if self.form() != ValueForm::Large {
            return None;
        }
        // SAFETY: (1) the form was just checked.
        let address = unsafe { self.large_address() };
        // SAFETY: it comes from `Arc::into_raw`, and the entry holds a count of it.
        unsafe { Arc::increment_strong_count(address) };
        // SAFETY: likewise; the count is the one just added.
        Some(unsafe { Arc::from_raw(address) })
    }

    /// Bytes of memory of the key: the entry's block and the memory that it owns outside, without its place
    /// in the table.
    #[must_use]
    pub fn allocated_bytes(self) -> usize {
        let outside = match (self.form(), self.value()) {
            // SAFETY: (1) the form was just checked.
            (ValueForm::Large, _) => unsafe { self.large_text() }.capacity(),
            (_, ValueRef::Object(object)) => object.memory_bytes(),
            _ => 0,
        };
        self.shape().block_size() + outside
    }

    /// As [`Self::allocated_bytes`], but estimates a large collection from a few of its parts.
    #[must_use]
    pub fn approximate_bytes(self) -> usize {
        match self.value() {
            ValueRef::Object(object) => self.shape().block_size() + object.approximate_bytes(),
            _ => self.allocated_bytes(),
        }
    }

    /// Whether the value has members with an expiry.
    #[inline]
    #[must_use]
    pub fn has_volatile_members(self) -> bool {
        match self.value() {
            ValueRef::Object(object) => object.has_volatile_members(),
            _ => false,
        }
    }

    /// Whether its key, or members of its value, have an expiry.
    #[inline]
    pub(crate) fn volatility(self) -> Volatility {
        let has_expiry = self.flags() & HAS_EXPIRY != 0;
        Volatility::new(has_expiry, self.form() == ValueForm::Object && self.has_volatile_members())
    }

    #[inline]
    pub(crate) fn shape(self) -> EntryLayout {
        let head = self.head();
        let sizes = head.sizes.load(Ordering::Relaxed);
        let has_expiry = head.flags.load(Ordering::Relaxed) & HAS_EXPIRY != 0;
        let mut shape =
            EntryLayout { has_expiry, key_len: (sizes & 0xFF) as usize, value_size: (sizes >> 8) as usize };
        if let Some(offset) = shape.long_key_len_offset() {
            // SAFETY: the escape value says that the entry has a long key length.
            shape.key_len = unsafe { self.at(offset).cast::<u32>().read_unaligned() } as usize;
        }
        shape
    }

    #[inline]
    pub(crate) fn form(self) -> ValueForm {
        ValueForm::from_bits(self.flags() >> FORM_SHIFT)
    }

    /// The address of a string longer than [`INLINE_SIZE_MAX`]: made by `Arc::into_raw`.
    ///
    /// # Safety
    /// 1. The form is [`ValueForm::Large`].
    pub(crate) unsafe fn large_address(self) -> *const Vec<u8> {
        debug_assert_eq!(self.form(), ValueForm::Large);
        // SAFETY: (1) the value is the address.
        unsafe { self.at(self.shape().value_offset()).cast::<*const Vec<u8>>().read_unaligned() }
    }

    /// The string that [`Self::large_address`] leads to.
    ///
    /// # Safety
    /// 1. The form is [`ValueForm::Large`].
    pub(crate) unsafe fn large_text(self) -> &'a Vec<u8> {
        // SAFETY: (1) is the callee's condition, too.
        let address = unsafe { self.large_address() };
        // SAFETY: the entry holds a count of it, and a change of the text requires exclusive use of the
        // entry.
        unsafe { &*address }
    }

    /// The address of the object. Valid only if the form is [`ValueForm::Object`].
    pub(crate) fn object_address(self) -> *mut Object {
        debug_assert_eq!(self.form(), ValueForm::Object);
        self.at(self.shape().object_offset()).cast::<Object>().cast_mut()
    }

    #[inline]
    fn flags(self) -> u32 {
        self.head().flags.load(Ordering::Relaxed)
    }

    #[inline]
    fn head(self) -> &'a EntryHead {
        // SAFETY: an entry starts with its head.
        unsafe { self.block.cast::<EntryHead>().as_ref() }
    }

    #[inline]
    fn at(self, offset: usize) -> *const u8 {
        self.block.as_ptr().wrapping_add(offset)
    }

    /// # Safety
    /// 1. The entry has `len` bytes at this offset, which are initialised and not changed through atomics.
    #[inline]
    unsafe fn bytes(self, offset: usize, len: usize) -> &'a [u8] {
        // SAFETY: (1), and the entry is live for the whole of `'a`.
        unsafe { std::slice::from_raw_parts(self.at(offset), len) }
    }
}

/// Whether two keys of the same length are equal; keys of 8 to 16 bytes are compared without a call.
#[inline(always)]
fn is_same(left: &[u8], right: &[u8]) -> bool {
    if let (Some(left_head), Some(right_head)) = (left.first_chunk::<8>(), right.first_chunk::<8>())
        && let (Some(left_tail), Some(right_tail)) = (left.last_chunk::<8>(), right.last_chunk::<8>())
        && left.len() <= 16
    {
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let difference = (word(left_head) ^ word(right_head)) | (word(left_tail) ^ word(right_tail));
        return difference == 0;
    }
    left == right
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("expiry", &self.expiry())
            .field("value", &self.value())
            .finish()
    }
}

//! A value's form in an entry, and its size there.

use std::sync::Arc;

use super::NewValue;
use crate::entry::kind::Kind;
use crate::entry::{EMBSTR_SIZE_MAX, EntryLayout, INLINE_SIZE_MAX, ValueForm};
use crate::number::parse_canonical;
use crate::values::object::Object;

/// A value in the form in which it will be stored.
pub(in crate::entry) enum ValueContent<'v> {
    Int(i64),
    Inline(ValueForm, &'v [u8]),
    Large(Arc<Vec<u8>>),
    Object(Object),
}

impl<'v> ValueContent<'v> {
    pub(in crate::entry) fn of(value: NewValue<'v>) -> Self {
        match value {
            NewValue::Int(value) => Self::Int(value),
            NewValue::Object(object) => Self::Object(*object),
            NewValue::Auto(text) => parse_canonical(text).map_or_else(|| Self::of_bytes(text), Self::Int),
            NewValue::Bytes(bytes) => Self::of_bytes(bytes),
            NewValue::Raw(bytes) if bytes.len() <= INLINE_SIZE_MAX => Self::Inline(ValueForm::Raw, bytes),
            NewValue::Raw(bytes) => Self::large(bytes.to_vec()),
            NewValue::Buffer(bytes) if bytes.len() <= INLINE_SIZE_MAX => Self::Inline(ValueForm::Raw, bytes),
            NewValue::Buffer(bytes) => Self::large(std::mem::take(bytes)),
            NewValue::Shared(text) if text.len() <= INLINE_SIZE_MAX => Self::of_bytes(text),
            NewValue::Shared(text) => Self::Large(Arc::clone(text)),
        }
    }

    /// A string that is longer than those kept inside of entries.
    pub(in crate::entry) fn large(bytes: Vec<u8>) -> Self {
        Self::Large(Arc::new(bytes))
    }

    fn of_bytes(bytes: &'v [u8]) -> Self {
        if bytes.len() <= EMBSTR_SIZE_MAX {
            Self::Inline(ValueForm::Embstr, bytes)
        } else {
            Self::of(NewValue::Raw(bytes))
        }
    }

    /// The shape of an entry that holds it.
    pub(in crate::entry) fn shape(&self, has_expiry: bool, key_len: usize) -> EntryLayout {
        let value_size = match self {
            Self::Int(_) => size_of::<i64>(),
            Self::Inline(_, bytes) => bytes.len(),
            Self::Large(_) => size_of::<*const Vec<u8>>(),
            Self::Object(_) => return EntryLayout::of_object(has_expiry, key_len),
        };
        EntryLayout { has_expiry, key_len, value_size }
    }

    pub(in crate::entry) fn kind(&self) -> Kind {
        if let Self::Object(object) = self { object.kind() } else { Kind::String }
    }

    pub(in crate::entry) fn form(&self) -> ValueForm {
        match self {
            Self::Int(_) => ValueForm::Int,
            Self::Inline(form, _) => *form,
            Self::Large(_) => ValueForm::Large,
            Self::Object(_) => ValueForm::Object,
        }
    }
}

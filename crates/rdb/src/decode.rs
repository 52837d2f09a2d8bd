//! Decodes the bytes of a value, in the caller's heap.

mod collection;
mod stream;

use std::borrow::Cow;

use collections::{
    AllocContext, Collection, CollectionLimits, Hash, List, ListLimits, Object, Set, SetLimits, SortedSet,
    SortedSetLimits, stream::NodeLimits,
};

use crate::error::{Error, Fault};
use crate::input::{Input, Progress, Text};
use crate::value_type::ValueType;

/// The limits that determine the storage form of values, and the encoding that clients see.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of lists.
    pub list: ListLimits,
    /// Of sets.
    pub set: SetLimits,
    /// Of hashes.
    pub hash: CollectionLimits,
    /// Of sorted sets.
    pub sorted_set: SortedSetLimits,
    /// Of the nodes of streams.
    pub stream: NodeLimits,
}

/// How values are built.
#[derive(Clone, Copy)]
pub struct DecodeContext<'a> {
    /// Where they are built.
    pub alloc: AllocContext<'a>,
    /// The limits that determine their encodings.
    pub limits: Limits,
    /// Fields of hashes with an expiry before this Unix time in milliseconds are left out.
    pub drop_fields_before: Option<i64>,
}

/// A decoded value.
#[derive(Debug)]
pub enum Value<'a> {
    /// A string.
    Bytes(Cow<'a, [u8]>),
    /// A string that is the text of this integer.
    Int(i64),
    /// A collection with at least one element, or a stream.
    Object(Object),
    /// A collection without elements, which no key can have: the file has none, or all fields are expired.
    Empty,
}

/// Decodes a value. `base` is the offset of `bytes` in the file, for errors.
///
/// # Errors
///
/// The bytes are not a valid value of this type, or the type is a module's.
pub fn decode<'a>(
    value_type: ValueType,
    bytes: &'a [u8],
    base: u64,
    context: DecodeContext<'_>,
) -> Result<Value<'a>, Error> {
    decode_all(value_type, Input::new(bytes, base), context)
}

/// [`decode`], with calls of `progress` for each mebibyte, or more, that is decoded, but the last: a large collection takes
/// long.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_noting<'a>(
    value_type: ValueType,
    bytes: &'a [u8],
    base: u64,
    context: DecodeContext<'_>,
    progress: &'a Progress<'a>,
) -> Result<Value<'a>, Error> {
    decode_all(value_type, Input::new(bytes, base).noting(progress), context)
}

fn decode_all<'a>(
    value_type: ValueType,
    mut input: Input<'a>,
    context: DecodeContext<'_>,
) -> Result<Value<'a>, Error> {
    let value = decode_from(value_type, &mut input, context)?;
    match input.is_at_end() {
        true => Ok(value),
        false => Err(input.error(Fault::Trailing)),
    }
}

fn decode_from<'a>(
    value_type: ValueType,
    input: &mut Input<'a>,
    context: DecodeContext<'_>,
) -> Result<Value<'a>, Error> {
    match value_type {
        ValueType::String => Ok(match input.text()? {
            Text::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Text::Unpacked(bytes) => Value::Bytes(Cow::Owned(bytes)),
            Text::Int(value) => Value::Int(value),
        }),
        ValueType::List | ValueType::ListZiplist | ValueType::ListOfZiplists | ValueType::ListOfListpacks => {
            collection::list(value_type, input, context).map(List::into_value)
        }
        ValueType::Set | ValueType::SetIntset | ValueType::SetListpack => {
            collection::set(value_type, input, context).map(Set::into_value)
        }
        ValueType::SortedSetText
        | ValueType::SortedSet
        | ValueType::SortedSetZiplist
        | ValueType::SortedSetListpack => {
            collection::sorted_set(value_type, input, context).map(SortedSet::into_value)
        }
        ValueType::Hash
        | ValueType::HashZipmap
        | ValueType::HashZiplist
        | ValueType::HashListpack
        | ValueType::HashWithTimes
        | ValueType::HashAbsolute
        | ValueType::HashListpackAbsolute
        | ValueType::HashRelative
        | ValueType::HashListpackWithEarliest => {
            collection::hash(value_type, input, context).map(Hash::into_value)
        }
        ValueType::Stream(form) => stream::decode(form, input, context.limits.stream)
            .map(|stream| Value::Object(stream.into_object())),
        ValueType::Module => Err(input.error(Fault::Module)),
    }
}

/// A collection as a value, which is empty without elements.
trait IntoValue: Collection {
    fn into_value<'a>(self) -> Value<'a> {
        if self.is_empty() { Value::Empty } else { Value::Object(self.into_object()) }
    }
}

impl<C: Collection> IntoValue for C {}

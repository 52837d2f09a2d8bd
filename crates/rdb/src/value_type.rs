//! The types of values in a file: the meanings of the type byte before a key.

use collections::Kind;

use crate::error::Fault;
use crate::version::Family;

/// A type of values, as the file has it. A type that clients see has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A string.
    String,
    /// A list, element by element.
    List,
    /// A set, member by member.
    Set,
    /// A sorted set with scores as text.
    SortedSetText,
    /// A hash, field by field.
    Hash,
    /// A sorted set with binary scores.
    SortedSet,
    /// A value of a module.
    Module,
    /// A hash as a zipmap (Redis 2.2).
    HashZipmap,
    /// A list as a ziplist.
    ListZiplist,
    /// A set of integers.
    SetIntset,
    /// A sorted set as a ziplist.
    SortedSetZiplist,
    /// A hash as a ziplist.
    HashZiplist,
    /// A list of ziplists.
    ListOfZiplists,
    /// A stream.
    Stream(StreamForm),
    /// A hash as a listpack.
    HashListpack,
    /// A sorted set as a listpack.
    SortedSetListpack,
    /// A list of listpacks and long elements.
    ListOfListpacks,
    /// A set as a listpack.
    SetListpack,
    /// A hash whose fields have absolute expiries after their values (Valkey).
    HashWithTimes,
    /// A hash whose fields have absolute expiries before them (Redis 7.4 before its release).
    HashAbsolute,
    /// A hash as a listpack of fields, values and absolute expiries (Redis 7.4 before its release).
    HashListpackAbsolute,
    /// A hash whose fields have expiries relative to the earliest one (Redis).
    HashRelative,
    /// [`Self::HashListpackAbsolute`] after the earliest expiry (Redis).
    HashListpackWithEarliest,
}

/// Which parts a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamForm {
    /// Redis 5.0.
    V1,
    /// Redis 7.0: counts entries that were added.
    V2,
    /// Redis 7.2: consumers have the time of their last delivery.
    V3,
    /// Redis 8.6: producers with the ids of their messages.
    V4,
    /// Redis 8.8: entries that consumers have given back.
    V5,
}

impl ValueType {
    /// The type with this number.
    ///
    /// # Errors
    ///
    /// This family has no readable type with this number.
    pub fn of_byte(byte: u8, family: Family) -> Result<Self, Fault> {
        Ok(match (byte, family) {
            (0, _) => Self::String,
            (1, _) => Self::List,
            (2, _) => Self::Set,
            (3, _) => Self::SortedSetText,
            (4, _) => Self::Hash,
            (5, _) => Self::SortedSet,
            (7, _) => Self::Module,
            (9, _) => Self::HashZipmap,
            (10, _) => Self::ListZiplist,
            (11, _) => Self::SetIntset,
            (12, _) => Self::SortedSetZiplist,
            (13, _) => Self::HashZiplist,
            (14, _) => Self::ListOfZiplists,
            (15, _) => Self::Stream(StreamForm::V1),
            (16, _) => Self::HashListpack,
            (17, _) => Self::SortedSetListpack,
            (18, _) => Self::ListOfListpacks,
            (19, _) => Self::Stream(StreamForm::V2),
            (20, _) => Self::SetListpack,
            (21, _) => Self::Stream(StreamForm::V3),
            (22, Family::Valkey) => Self::HashWithTimes,
            (22, Family::Redis) => Self::HashAbsolute,
            (23, Family::Redis) => Self::HashListpackAbsolute,
            (24, Family::Redis) => Self::HashRelative,
            (25, Family::Redis) => Self::HashListpackWithEarliest,
            (26, Family::Redis) => Self::Stream(StreamForm::V4),
            (27, Family::Redis) => Self::Stream(StreamForm::V5),
            _ => return Err(Fault::UnknownType(byte)),
        })
    }

    /// The type that clients see; `None` for a module's.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::String => Kind::String,
            Self::List | Self::ListZiplist | Self::ListOfZiplists | Self::ListOfListpacks => Kind::List,
            Self::Set | Self::SetIntset | Self::SetListpack => Kind::Set,
            Self::SortedSetText | Self::SortedSet | Self::SortedSetZiplist | Self::SortedSetListpack => {
                Kind::SortedSet
            }
            Self::Hash
            | Self::HashZipmap
            | Self::HashZiplist
            | Self::HashListpack
            | Self::HashWithTimes
            | Self::HashAbsolute
            | Self::HashListpackAbsolute
            | Self::HashRelative
            | Self::HashListpackWithEarliest => Kind::Hash,
            Self::Stream(_) => Kind::Stream,
            Self::Module => return None,
        })
    }
}

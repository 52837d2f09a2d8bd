//! The types of values.

/// The type of a value, as the `TYPE` command names it. At most 16 types: an entry stores four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A string, including integers.
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A hash.
    Hash = 4,
    /// A stream.
    Stream = 5,
}

impl Kind {
    /// Every type.
    pub const ALL: [Self; 6] =
        [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::String,
            1 => Self::List,
            2 => Self::Set,
            3 => Self::SortedSet,
            4 => Self::Hash,
            _ => Self::Stream,
        }
    }
}

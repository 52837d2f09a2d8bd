//! Values that are more than a string: what an entry holds behind one pointer.
//!
//! Collection types add their variant to [`Object`] and its [`Kind`]; the table only moves, clones and drops
//! objects and never looks inside.

/// The type of a value, as the `TYPE` command names it. At most 16: it has four bits in an entry.
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

/// A value that is not a string.
#[derive(Debug)]
#[non_exhaustive]
pub enum Object {
    /// Stands in for a collection in this crate's own tests.
    #[cfg(test)]
    Probe(Vec<u8>),
}

impl Object {
    /// The type that this value has for the client.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match *self {
            #[cfg(test)]
            Self::Probe(_) => Kind::Hash,
        }
    }

    /// The name of the encoding, as `OBJECT ENCODING` answers it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        match *self {
            #[cfg(test)]
            Self::Probe(_) => "probe",
        }
    }

    /// A deep copy.
    #[must_use]
    pub fn to_boxed(&self) -> Box<Self> {
        match *self {
            #[cfg(test)]
            Self::Probe(ref bytes) => Box::new(Self::Probe(bytes.clone())),
        }
    }

    /// Bytes of memory behind the entry's pointer.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match *self {
            #[cfg(test)]
            Self::Probe(ref bytes) => size_of::<Self>() + bytes.capacity(),
        }
    }
}

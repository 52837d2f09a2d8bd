//! Encodes values as bytes.
//!
//! A collection is written in the form that Redis stores: one that clients see as `listpack` or `intset` in that form,
//! others element by element, in pieces, so that the caller need not hold a latch for a whole value.

mod small;
mod stream;

use collections::{AllocContext, Element, Hash, List, Object, Set, SortedSet, ValueRef};

use crate::listpack::Builder;
use crate::lzf::Packer;
use crate::output::{write_int_text, write_len, write_text};
use crate::version::Version;

/// The version can't hold a hash's field expiries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this version has no field expiries")]
pub struct FieldExpiriesLost;

/// Writes values in one version of the format.
#[derive(Debug)]
pub struct Encoder {
    version: Version,
    packer: Option<Packer>,
    listpack: Builder,
    ints: Vec<i64>,
}

/// How the elements of a collection are written, by its state when its head was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementForm(Times);

/// How the expiries of fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// There are none.
    None,
    /// Behind the field.
    Absolute,
    /// Before the field, as the distance to this one.
    Since(i64),
}

/// The progress of writing a value.
#[derive(Debug)]
pub struct Pieces(Stage);

#[derive(Debug)]
enum Stage {
    Whole,
    Members {
        from: u64,
    },
    Fields {
        from: u64,
    },
    /// Elements of a sorted set that are left: from the highest score down.
    Scores {
        left: usize,
    },
    Done,
}

/// Elements of a sorted set in a piece.
const PIECE_LEN: usize = 256;

/// The form in which a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    String,
    PlainList,
    ListOfListpacks,
    PlainSet,
    Intset,
    SetListpack,
    PlainSortedSet,
    SortedSetListpack,
    PlainHash,
    HashListpack,
    HashWithTimes,
    HashRelative,
    Stream,
}

impl Encoder {
    /// An encoder for a version. `is_packing`: long strings are compressed.
    #[must_use]
    pub fn new(version: Version, is_packing: bool) -> Self {
        let packer = is_packing.then(Packer::new);
        Self { version, packer, listpack: Builder::new(), ints: Vec::new() }
    }

    /// The version that is written.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the version has no place for something of a value that can be left out. That is only so for streams before
    /// version 11: their counters of entries added and read, the greatest deleted id, and when consumers were active.
    #[must_use]
    pub fn loses_part_of(&self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Object(Object::Stream(stream)) if self.version.number < Version::V11.number => {
                stream::has_newer_parts(stream)
            }
            _ => false,
        }
    }

    /// Appends a string, such as a key or a property of the file.
    pub fn write_string(&mut self, text: &[u8], out: &mut Vec<u8>) {
        write_text(text, self.packer.as_mut(), out);
    }

    /// The byte of a value's type, which precedes its key.
    ///
    /// # Errors
    ///
    /// A hash has field expiries and the version has none.
    pub fn type_byte(&self, value: ValueRef<'_>) -> Result<u8, FieldExpiriesLost> {
        Ok(match self.layout(value)? {
            Layout::String => 0,
            Layout::PlainList => 1,
            Layout::ListOfListpacks => 18,
            Layout::PlainSet => 2,
            Layout::Intset => 11,
            Layout::SetListpack => 20,
            Layout::PlainSortedSet => 5,
            Layout::SortedSetListpack => 17,
            Layout::PlainHash => 4,
            Layout::HashListpack => 16,
            Layout::HashWithTimes => 22,
            Layout::HashRelative => 24,
            Layout::Stream if self.version.number < Version::V11.number => 15,
            Layout::Stream => 21,
        })
    }

    /// Appends a value. Its type byte is not part of it.
    ///
    /// # Errors
    ///
    /// As [`Self::type_byte`].
    pub fn write_value(
        &mut self,
        alloc: AllocContext<'_>,
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FieldExpiriesLost> {
        let mut pieces = self.begin(value, out)?;
        while self.write_piece(alloc, value, &mut pieces, out) {}
        Ok(())
    }

    /// Appends the beginning of a value. [`Self::write_piece`] appends the rest.
    ///
    /// # Errors
    ///
    /// As [`Self::type_byte`].
    pub fn begin(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<Pieces, FieldExpiriesLost> {
        Ok(Pieces(match (self.layout(value)?, value) {
            (Layout::PlainSet, ValueRef::Object(Object::Set(set))) => {
                write_len(set.len() as u64, out);
                Stage::Members { from: 0 }
            }
            (Layout::PlainSortedSet, ValueRef::Object(Object::SortedSet(set))) => {
                write_len(set.len() as u64, out);
                Stage::Scores { left: set.len() }
            }
            (layout, ValueRef::Object(Object::Hash(hash))) if layout != Layout::HashListpack => {
                if layout == Layout::HashRelative {
                    out.extend(earliest(hash).to_le_bytes());
                }
                write_len(hash.len() as u64, out);
                Stage::Fields { from: 0 }
            }
            _ => Stage::Whole,
        }))
    }

    /// Appends the beginning of a collection whose elements, of which the caller appends each once
    /// ([`Self::write_element`]), are the rest but for the end ([`Self::write_end`]). The elements of lists and streams are to
    /// be appended in order, in the parts of [`Element`]. `None` if it is written in another form: then nothing is appended.
    ///
    /// # Errors
    ///
    /// As [`Self::type_byte`].
    pub fn begin_elements(
        &mut self,
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<ElementForm>, FieldExpiriesLost> {
        let times = match (self.layout(value)?, value) {
            (Layout::PlainSet | Layout::PlainSortedSet, _) => Times::None,
            (Layout::HashListpack, _) => return Ok(None),
            (_, ValueRef::Object(Object::Hash(hash))) => self.times(hash),
            (layout, ValueRef::Object(Object::List(list))) if list.is_quicklist() => {
                let has_nodes = layout == Layout::ListOfListpacks;
                write_len(if has_nodes { list.part_count() } else { list.len() } as u64, out);
                return Ok(Some(ElementForm(Times::None)));
            }
            (_, ValueRef::Object(Object::Stream(stream))) => {
                write_len(stream.node_count() as u64, out);
                return Ok(Some(ElementForm(Times::None)));
            }
            _ => return Ok(None),
        };
        self.begin(value, out)?;
        Ok(Some(ElementForm(times)))
    }

    /// Appends the part of a collection after its elements: the groups of a stream. It describes the value as
    /// it is now; for a collection that may change, call it at the moment of [`Self::begin_elements`], with
    /// another `out`.
    pub fn write_end(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>) {
        if let ValueRef::Object(Object::Stream(stream)) = value {
            self.stream_end(stream, out);
        }
    }

    /// Appends an element of a collection.
    pub fn write_element(&mut self, form: ElementForm, element: Element<'_>, out: &mut Vec<u8>) {
        let packer = &mut self.packer;
        match element {
            Element::Member(member) => write_text(member, packer.as_mut(), out),
            Element::Scored(member, score) => {
                write_text(member, packer.as_mut(), out);
                out.extend(score.to_le_bytes());
            }
            Element::Field(field, value, expiry) => {
                if let Times::Since(earliest) = form.0 {
                    write_len(expiry.map_or(0, |at| at.wrapping_sub(earliest) as u64 + 1), out);
                }
                small::write_item(field, packer.as_mut(), out);
                small::write_item(value, packer.as_mut(), out);
                if form.0 == Times::Absolute {
                    out.extend(expiry.unwrap_or(-1).to_le_bytes());
                }
            }
            Element::Items(part) if self.version.number >= Version::V11.number => self.list_part(part, out),
            Element::Items(part) => part.for_each(|item| small::write_item(item, packer.as_mut(), out)),
            Element::Entries(part) => self.stream_node(part.entries(), part.len(), out),
        }
    }

    fn times(&self, hash: &Hash) -> Times {
        match self.version.family {
            _ if !hash.has_expiries() => Times::None,
            crate::Family::Valkey => Times::Absolute,
            crate::Family::Redis => Times::Since(earliest(hash)),
        }
    }

    /// Appends the next piece of a value that has not changed since [`Self::begin`]. Returns whether there are more.
    pub fn write_piece(
        &mut self,
        alloc: AllocContext<'_>,
        value: ValueRef<'_>,
        pieces: &mut Pieces,
        out: &mut Vec<u8>,
    ) -> bool {
        pieces.0 = match (&pieces.0, value) {
            (Stage::Members { from }, ValueRef::Object(Object::Set(set))) => {
                self.members(alloc, set, *from, out)
            }
            (Stage::Fields { from }, ValueRef::Object(Object::Hash(hash))) => {
                self.fields(alloc, hash, *from, out)
            }
            (Stage::Scores { left }, ValueRef::Object(Object::SortedSet(set))) => {
                self.scores(set, *left, out)
            }
            (Stage::Whole, _) => {
                self.whole(value, out);
                Stage::Done
            }
            _ => Stage::Done,
        };
        !matches!(pieces.0, Stage::Done)
    }

    fn layout(&self, value: ValueRef<'_>) -> Result<Layout, FieldExpiriesLost> {
        let has_listpacks = self.version.number >= Version::V11.number;
        Ok(match value {
            ValueRef::Int(_) | ValueRef::Bytes(_) => Layout::String,
            ValueRef::Object(Object::List(_)) if has_listpacks => Layout::ListOfListpacks,
            ValueRef::Object(Object::List(_)) => Layout::PlainList,
            ValueRef::Object(Object::Set(set)) if set.is_intset() => Layout::Intset,
            ValueRef::Object(Object::Set(set)) if has_listpacks && set.is_compact() => Layout::SetListpack,
            ValueRef::Object(Object::Set(_)) => Layout::PlainSet,
            ValueRef::Object(Object::SortedSet(set)) if has_listpacks && set.is_listpack() => {
                Layout::SortedSetListpack
            }
            ValueRef::Object(Object::SortedSet(_)) => Layout::PlainSortedSet,
            ValueRef::Object(Object::Hash(hash)) if hash.has_expiries() => {
                if !self.version.has_field_expiries() {
                    return Err(FieldExpiriesLost);
                }
                let is_valkey = self.version.family == crate::Family::Valkey;
                if is_valkey { Layout::HashWithTimes } else { Layout::HashRelative }
            }
            ValueRef::Object(object @ Object::Hash(_))
                if has_listpacks && object.encoding_name() == "listpack" =>
            {
                Layout::HashListpack
            }
            ValueRef::Object(Object::Hash(_)) => Layout::PlainHash,
            ValueRef::Object(_) => Layout::Stream,
        })
    }

    fn members(&mut self, alloc: AllocContext<'_>, set: &Set, from: u64, out: &mut Vec<u8>) -> Stage {
        let packer = &mut self.packer;
        let next = set.scan(alloc, from, |member| small::write_item(member, packer.as_mut(), out));
        next.map_or(Stage::Done, |from| Stage::Members { from })
    }

    fn fields(&mut self, alloc: AllocContext<'_>, hash: &Hash, from: u64, out: &mut Vec<u8>) -> Stage {
        let form = ElementForm(self.times(hash));
        let next = hash.scan_with_expiries(alloc, from, |field, value, expiry| {
            self.write_element(form, Element::Field(field, value, expiry), out);
        });
        next.map_or(Stage::Done, |from| Stage::Fields { from })
    }

    /// From the highest score down: Redis inserts one by one, and loads this order fastest.
    fn scores(&mut self, set: &SortedSet, left: usize, out: &mut Vec<u8>) -> Stage {
        let Some(start) = left.checked_sub(1) else { return Stage::Done };
        for (member, score) in set.range_backward(start, PIECE_LEN) {
            self.write_element(ElementForm(Times::None), Element::Scored(member, score), out);
        }
        match left.saturating_sub(PIECE_LEN) {
            0 => Stage::Done,
            left => Stage::Scores { left },
        }
    }

    fn whole(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>) {
        match value {
            ValueRef::Int(value) => write_int_text(value, out),
            ValueRef::Bytes(text) => write_text(text, self.packer.as_mut(), out),
            ValueRef::Object(Object::List(list)) => self.list(list, out),
            ValueRef::Object(Object::Set(set)) => self.small_set(set, out),
            ValueRef::Object(Object::SortedSet(set)) => self.small_sorted_set(set, out),
            ValueRef::Object(Object::Hash(hash)) => self.small_hash(hash, out),
            ValueRef::Object(Object::Stream(stream)) => self.stream(stream, out),
            ValueRef::Object(_) => {}
        }
    }

    fn list(&mut self, list: &List, out: &mut Vec<u8>) {
        if self.version.number >= Version::V11.number {
            return self.list_of_listpacks(list, out);
        }
        write_len(list.len() as u64, out);
        list.walk(0, |_, item| {
            small::write_item(item, self.packer.as_mut(), out);
            true
        });
    }
}

/// The time to which relative expiries refer.
fn earliest(hash: &Hash) -> i64 {
    hash.earliest_expiry().unwrap_or(0)
}

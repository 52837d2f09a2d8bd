//! Neighbouring entries of a stream in one run of bytes.
//!
//! Owns the bytes. The ids are written as differences from the node's first id, and names of fields that are those of the
//! node's first entry are not repeated. An entry that is deleted keeps its bytes and is marked, until enough of them are.
//!
//! ```text
//! node:   number of names │ names                                    numbers are LEB128, texts have their length before them
//! entry:  flags 1 │ ms since the first │ seq │ size of the rest │ values, or number of pairs and pairs
//! ```
//! `seq` is a difference within the first id's millisecond, and itself in later ones.
//!
//! Invariants ([`Node::check`])
//! 1. Entries ascend by id, and the first is not below the node's id.
//! 2. `live_count` and `deleted_count` are the numbers of entries without and with the mark.
//! 3. `last` is the id of the last entry, deleted or not.

use super::id::StreamId;

/// The entry is deleted.
const DELETED: u8 = 1;
/// It has the names of the node's first entry.
const SAME_NAMES: u8 = 2;

/// Deleted entries a node may keep whatever the others are.
const DELETED_COUNT_KEPT: u32 = 16;

/// Entries that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Node {
    bytes: Vec<u8>,
    /// Where the entries begin.
    entries_at: u32,
    pub(super) live_count: u32,
    pub(super) deleted_count: u32,
    pub(super) last: StreamId,
}

/// An entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// Its id.
    pub id: StreamId,
    /// The names, if they are those of the node's first entry.
    names: Option<&'a [u8]>,
    /// The number of pairs, then values or pairs.
    body: &'a [u8],
    pair_count: usize,
}

/// An entry with its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) entry: StreamEntry<'a>,
    pub(super) at: u32,
    is_deleted: bool,
}

impl Node {
    /// A node with this entry.
    pub(super) fn new<'f>(id: StreamId, pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone) -> Self {
        let mut bytes = Vec::new();
        write_number(&mut bytes, pairs.clone().count() as u64);
        pairs.clone().for_each(|(name, _)| write_text(&mut bytes, name));
        let entries_at = bytes.len() as u32;
        let mut node = Self { bytes, entries_at, live_count: 0, deleted_count: 0, last: id };
        node.push(id, id, pairs);
        node
    }

    /// Adds an entry, whose id is above all others'. `first` is the node's id.
    pub(super) fn push<'f>(
        &mut self,
        first: StreamId,
        id: StreamId,
        pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) {
        let has_same_names = self.names_are(pairs.clone().map(|(name, _)| name));
        let flags = if has_same_names { SAME_NAMES } else { 0 };
        let body_size: usize = if has_same_names {
            pairs.clone().map(|(_, value)| text_size(value)).sum()
        } else {
            let count = pairs.clone().count();
            number_size(count as u64)
                + pairs.clone().map(|(name, value)| text_size(name) + text_size(value)).sum::<usize>()
        };
        self.bytes.reserve(body_size + 25);
        self.bytes.push(flags);
        write_number(&mut self.bytes, id.ms - first.ms);
        write_number(&mut self.bytes, if id.ms == first.ms { id.seq - first.seq } else { id.seq });
        write_number(&mut self.bytes, body_size as u64);
        if !has_same_names {
            write_number(&mut self.bytes, pairs.clone().count() as u64);
        }
        for (name, value) in pairs {
            if !has_same_names {
                write_text(&mut self.bytes, name);
            }
            write_text(&mut self.bytes, value);
        }
        self.live_count += 1;
        self.last = id;
    }

    /// Bytes in use.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Entries, deleted ones included.
    pub(super) fn entry_count(&self) -> u32 {
        self.live_count + self.deleted_count
    }

    /// Gives back the memory kept for more entries.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The live entries, ascending, as the node's id is `first`.
    pub(super) fn iter(&self, first: StreamId) -> impl Iterator<Item = Placed<'_>> {
        self.all(first).filter(|placed| !placed.is_deleted)
    }

    /// Where the first entry is.
    pub(super) fn first_place(&self) -> u32 {
        self.entries_at
    }

    /// The first live entry at a place or behind it, and the place behind that one.
    pub(super) fn entry_from(&self, first: StreamId, mut at: u32) -> Option<(StreamEntry<'_>, u32)> {
        while (at as usize) < self.bytes.len() {
            let (placed, next) = self.read(first, at);
            if !placed.is_deleted {
                return Some((placed.entry, next));
            }
            at = next;
        }
        None
    }

    /// The live entry at a place that [`Self::iter`] gave.
    pub(super) fn at(&self, first: StreamId, at: u32) -> StreamEntry<'_> {
        self.read(first, at).0.entry
    }

    /// Marks the live entry with this id as deleted. Whether it was there.
    pub(super) fn delete(&mut self, first: StreamId, id: StreamId) -> bool {
        let found =
            self.iter(first).take_while(|placed| placed.entry.id <= id).find(|placed| placed.entry.id == id);
        let Some(at) = found.map(|placed| placed.at) else { return false };
        self.mark_deleted(at);
        self.compact(first);
        true
    }

    /// Marks the live entries at the front as deleted as long as `goes` says so. Returns their number.
    pub(super) fn delete_front(&mut self, first: StreamId, mut goes: impl FnMut(StreamId) -> bool) -> u32 {
        let places: Vec<u32> =
            self.iter(first).take_while(|placed| goes(placed.entry.id)).map(|placed| placed.at).collect();
        places.iter().for_each(|at| self.mark_deleted(*at));
        self.compact(first);
        places.len() as u32
    }

    fn mark_deleted(&mut self, at: u32) {
        self.bytes[at as usize] |= DELETED;
        self.live_count -= 1;
        self.deleted_count += 1;
    }

    /// Drops the bytes of deleted entries when they are too many. The last entry stays, so that ids go on from it.
    fn compact(&mut self, first: StreamId) {
        if self.deleted_count <= DELETED_COUNT_KEPT.max(2 * self.live_count) || self.live_count == 0 {
            return;
        }
        let mut kept = self.bytes[..self.entries_at as usize].to_vec();
        let mut at = self.entries_at;
        while (at as usize) < self.bytes.len() {
            let (placed, next) = self.read(first, at);
            if !placed.is_deleted {
                kept.extend_from_slice(&self.bytes[at as usize..next as usize]);
            }
            at = next;
        }
        kept.shrink_to_fit();
        self.bytes = kept;
        self.deleted_count = 0;
        self.last = self.all(first).last().map_or(self.last, |placed| placed.entry.id);
    }

    fn all(&self, first: StreamId) -> impl Iterator<Item = Placed<'_>> {
        let mut at = self.entries_at;
        std::iter::from_fn(move || {
            if at as usize >= self.bytes.len() {
                return None;
            }
            let (placed, next) = self.read(first, at);
            at = next;
            Some(placed)
        })
    }

    fn read(&self, first: StreamId, at: u32) -> (Placed<'_>, u32) {
        let flags = self.bytes[at as usize];
        let mut rest = &self.bytes[at as usize + 1..];
        let ms_since = read_number(&mut rest);
        let seq = read_number(&mut rest);
        let body_size = read_number(&mut rest) as usize;
        let id = StreamId::new(first.ms + ms_since, if ms_since == 0 { first.seq + seq } else { seq });
        let next = (self.bytes.len() - rest.len() + body_size) as u32;
        let mut body = &rest[..body_size];
        let (names, pair_count) = if flags & SAME_NAMES != 0 {
            let mut names = &self.bytes[..self.entries_at as usize];
            let count = read_number(&mut names);
            (Some(names), count)
        } else {
            (None, read_number(&mut body))
        };
        let entry = StreamEntry { id, names, body, pair_count: pair_count as usize };
        (Placed { entry, at, is_deleted: flags & DELETED != 0 }, next)
    }

    fn names_are<'f>(&self, mut names: impl Iterator<Item = &'f [u8]>) -> bool {
        let mut own = &self.bytes[..self.entries_at as usize];
        let count = read_number(&mut own);
        (0..count).all(|_| names.next() == Some(read_text(&mut own))) && names.next().is_none()
    }

    /// Panics if an invariant does not hold.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self, first: StreamId) {
        let ids: Vec<StreamId> = self.all(first).map(|placed| placed.entry.id).collect();
        assert!(ids.is_sorted() && ids.first().is_some_and(|id| *id >= first), "1");
        let deleted_count = self.all(first).filter(|placed| placed.is_deleted).count();
        assert_eq!(
            (self.deleted_count as usize, self.entry_count() as usize),
            (deleted_count, ids.len()),
            "2"
        );
        assert_eq!(ids.last(), Some(&self.last), "3");
    }
}

impl<'a> StreamEntry<'a> {
    /// Number of pairs of names and values.
    #[must_use]
    pub fn pair_count(&self) -> usize {
        self.pair_count
    }

    /// Names and values, in the order in which they were given.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (mut names, mut body) = (self.names, self.body);
        (0..self.pair_count).map(move |_| {
            let name = match &mut names {
                Some(names) => read_text(names),
                None => read_text(&mut body),
            };
            (name, read_text(&mut body))
        })
    }
}

fn number_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn text_size(text: &[u8]) -> usize {
    number_size(text.len() as u64) + text.len()
}

fn write_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[inline]
fn read_number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

#[inline]
fn read_text<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = read_number(bytes) as usize;
    let (text, rest) = bytes.split_at(len);
    *bytes = rest;
    text
}

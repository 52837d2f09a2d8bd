//! Neighbouring entries of a stream in one run of bytes.
//!
//! Owns the bytes. Ids are stored as differences from the node's first id, and field names equal to those
//! of the node's first entry are not repeated. A deleted entry keeps its bytes and is marked, until enough
//! of them are.
//!
//! ```text
//! node:   names                                                      numbers are LEB128, texts have their length before them
//! entry:  flags 1 │ ms since the first │ seq │ size of the rest │ values, or number of pairs and pairs │ size of all before
//! ```
//! The size at the end is encoded so that it can be read backwards (`write_number_back`): so the last
//! entries are found without decoding the earlier ones. `seq` is a difference within the first id's
//! millisecond, and absolute in later ones.
//!
//! Invariants ([`StreamNode::check`])
//! 1. Entries ascend by id, and the first is not below the node's id.
//! 2. `live_count` and `deleted_count` are the numbers of entries without and with the mark.
//! 3. `last` is the id of the last entry, deleted or not.
//! 4. A backward walk visits the same entries.

use super::id::StreamId;
use super::listpack_size::{FRAME_SIZE, entry_size, head_size, number_size as listpack_number_size};

/// The entry is deleted.
const DELETED: u8 = 1;
/// The entry has the names of the node's first entry.
const SAME_NAMES: u8 = 2;

/// Number of deleted entries that a node may always keep.
const DELETED_COUNT_KEPT: u32 = 16;

/// Consecutive entries.
#[derive(Clone, Debug)]
pub(super) struct StreamNode {
    bytes: Vec<u8>,
    /// The offset of the first entry.
    entries_at: u32,
    /// Number of names before them.
    name_count: u32,
    pub(super) live_count: u32,
    pub(super) deleted_count: u32,
    /// The size of names and entries in a listpack. Deleted entries count although they are dropped here.
    listpack_size: u32,
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

impl StreamNode {
    /// A node with this entry.
    pub(super) fn new<'f>(id: StreamId, pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone) -> Self {
        let mut bytes = Vec::new();
        let name_count = pairs.clone().count() as u32;
        pairs.clone().for_each(|(name, _)| write_text(&mut bytes, name));
        let entries_at = bytes.len() as u32;
        let listpack_size = (FRAME_SIZE + head_size(pairs.clone().map(|(name, _)| name))) as u32;
        let (live_count, deleted_count) = (0, 0);
        let mut node =
            Self { bytes, entries_at, name_count, live_count, deleted_count, listpack_size, last: id };
        node.push(id, id, pairs);
        node
    }

    /// Adds an entry, whose id is above all others. `first` is the node's id.
    pub(super) fn push<'f>(
        &mut self,
        first: StreamId,
        id: StreamId,
        pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) {
        let has_same_names = self.names_are(pairs.clone().map(|(name, _)| name));
        let flags = if has_same_names { SAME_NAMES } else { 0 };
        let differences = (id.ms.wrapping_sub(first.ms) as i64, id.seq.wrapping_sub(first.seq) as i64);
        self.listpack_size += entry_size(differences, has_same_names, pairs.clone()) as u32;
        let body_size: usize = if has_same_names {
            pairs.clone().map(|(_, value)| text_size(value)).sum()
        } else {
            let count = pairs.clone().count();
            number_size(count as u64)
                + pairs.clone().map(|(name, value)| text_size(name) + text_size(value)).sum::<usize>()
        };
        self.bytes.reserve(body_size + 30);
        let start = self.bytes.len();
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
        let size = self.bytes.len() - start;
        write_number_back(&mut self.bytes, size as u64);
        self.live_count += 1;
        self.last = id;
    }

    /// The size of this node as a listpack, which the limits of nodes refer to.
    pub(super) fn listpack_size(&self) -> usize {
        let counts =
            [self.live_count, self.deleted_count].map(|count| listpack_number_size(i64::from(count)));
        self.listpack_size as usize + counts[0] + counts[1]
    }

    /// Bytes allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Entries, deleted ones included.
    pub(super) fn entry_count(&self) -> u32 {
        self.live_count + self.deleted_count
    }

    /// Frees the memory reserved for more entries.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The live entries, ascending. `first` is the node's id.
    pub(super) fn iter(&self, first: StreamId) -> impl Iterator<Item = Placed<'_>> {
        self.all(first).filter(|placed| !placed.is_deleted)
    }

    /// The place of the first entry.
    pub(super) fn first_place(&self) -> u32 {
        self.entries_at
    }

    /// The first live entry at or after a place, and the place after that entry.
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

    /// Where the last entry ends.
    pub(super) fn end_place(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// The last live entry that ends at or before a place, and the place where it starts.
    pub(super) fn entry_before(&self, first: StreamId, mut end: u32) -> Option<(StreamEntry<'_>, u32)> {
        while end > self.entries_at {
            let mut before = &self.bytes[..end as usize];
            let size = read_number_back(&mut before) as usize;
            end = (before.len() - size) as u32;
            let (placed, _) = self.read(first, end);
            if !placed.is_deleted {
                return Some((placed.entry, end));
            }
        }
        None
    }

    /// The last live entry.
    pub(super) fn last_entry(&self, first: StreamId) -> Option<StreamEntry<'_>> {
        self.entry_before(first, self.end_place()).map(|(entry, _)| entry)
    }

    /// Marks the live entry with this id as deleted. Returns whether it existed.
    pub(super) fn delete(&mut self, first: StreamId, id: StreamId) -> bool {
        let found =
            self.iter(first).take_while(|placed| placed.entry.id <= id).find(|placed| placed.entry.id == id);
        let Some(at) = found.map(|placed| placed.at) else { return false };
        self.mark_deleted(at);
        self.compact(first);
        true
    }

    /// Marks the live entries at the front as deleted while `is_deleted` returns true. Returns their number.
    pub(super) fn delete_front(
        &mut self,
        first: StreamId,
        mut is_deleted: impl FnMut(StreamId) -> bool,
    ) -> u32 {
        let places: Vec<u32> = self
            .iter(first)
            .take_while(|placed| is_deleted(placed.entry.id))
            .map(|placed| placed.at)
            .collect();
        places.iter().for_each(|at| self.mark_deleted(*at));
        self.compact(first);
        places.len() as u32
    }

    fn mark_deleted(&mut self, at: u32) {
        self.bytes[at as usize] |= DELETED;
        self.live_count -= 1;
        self.deleted_count += 1;
    }

    /// Drops the bytes of deleted entries when they are too many. Keeps the last entry, so that later ids
    /// follow it.
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

    #[inline]
    fn read(&self, first: StreamId, at: u32) -> (Placed<'_>, u32) {
        let flags = self.bytes[at as usize];
        let mut rest = &self.bytes[at as usize + 1..];
        let ms_since = read_number(&mut rest);
        let seq = read_number(&mut rest);
        let body_size = read_number(&mut rest) as usize;
        let id = StreamId::new(first.ms + ms_since, if ms_since == 0 { first.seq + seq } else { seq });
        let body_end = self.bytes.len() - rest.len() + body_size;
        let next = (body_end + number_size((body_end - at as usize) as u64)) as u32;
        let mut body = &rest[..body_size];
        let (names, pair_count) = if flags & SAME_NAMES != 0 {
            (Some(&self.bytes[..self.entries_at as usize]), u64::from(self.name_count))
        } else {
            (None, read_number(&mut body))
        };
        let entry = StreamEntry { id, names, body, pair_count: pair_count as usize };
        (Placed { entry, at, is_deleted: flags & DELETED != 0 }, next)
    }

    fn names_are<'f>(&self, mut names: impl Iterator<Item = &'f [u8]>) -> bool {
        let mut own = &self.bytes[..self.entries_at as usize];
        (0..self.name_count).all(|_| names.next() == Some(read_text(&mut own))) && names.next().is_none()
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
        let live: Vec<StreamId> = self.iter(first).map(|placed| placed.entry.id).collect();
        let mut end = self.end_place();
        for id in live.iter().rev() {
            let (entry, start) = self.entry_before(first, end).expect("another entry precedes the end");
            assert_eq!(entry.id, *id, "4");
            end = start;
        }
        assert!(self.entry_before(first, end).is_none(), "4");
    }
}

impl<'a> StreamEntry<'a> {
    /// Number of pairs of names and values.
    #[must_use]
    pub fn pair_count(&self) -> usize {
        self.pair_count
    }

    /// Whether the names are those that the node of the other entry stores for several entries.
    #[must_use]
    #[inline]
    pub fn shares_names_with(&self, other: &StreamEntry<'_>) -> bool {
        self.names.zip(other.names).is_some_and(|(own, other)| std::ptr::eq(own, other))
    }

    /// The values, in their original order.
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (has_names, mut body) = (self.names.is_none(), self.body);
        (0..self.pair_count).map(move |_| {
            if has_names {
                read_text(&mut body);
            }
            read_text(&mut body)
        })
    }

    /// Names and values, in their original order.
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

/// Writes a number that [`read_number_back`] reads: the lowest seven bits are in the last byte.
fn write_number_back(out: &mut Vec<u8>, value: u64) {
    let size = number_size(value);
    // The first byte terminates the number, so only the later ones are marked.
    out.extend((0..size).rev().map(|group| {
        let mark = if group + 1 < size { 0x80 } else { 0 };
        (value >> (7 * group)) as u8 & 0x7F | mark
    }));
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[inline(always)]
fn read_number(bytes: &mut &[u8]) -> u64 {
    let (first, rest) = bytes.split_first().expect("a number ends within the bytes");
    *bytes = rest;
    if *first < 0x80 { u64::from(*first) } else { read_long_number(*first, bytes) }
}

/// The rest of a number of several bytes after the first.
fn read_long_number(first: u8, bytes: &mut &[u8]) -> u64 {
    let mut value = u64::from(first & 0x7F);
    let mut shift = 7;
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

/// Reads the number at the end of the bytes, and cuts it off.
#[inline]
fn read_number_back(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let [before @ .., byte] = *bytes {
        *bytes = before;
        value |= u64::from(byte & 0x7F) << shift;
        if *byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

#[inline]
fn read_text<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = read_number(bytes) as usize;
    let (text, rest) = bytes.split_at(len);
    *bytes = rest;
    text
}

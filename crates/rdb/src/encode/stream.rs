//! Streams, see [`crate::decode`] for the form of their nodes.

use collections::Item;
use collections::stream::{Group, Stream, StreamEntry, StreamId};

use super::Encoder;
use crate::output::{write_blob, write_len, write_text};
use crate::version::Version;

/// Entries up to which neighbouring nodes are written as one.
const NODE_LEN: usize = 100;
/// Bytes up to which neighbouring nodes are written as one.
const NODE_SIZE: usize = 4096;
/// The entry has the names of the node's first one.
const SAME_NAMES: i64 = 2;
/// The time of a consumer that was never delivered an entry.
const NEVER: i64 = -1;

impl Encoder {
    pub(super) fn stream(&mut self, stream: &Stream, out: &mut Vec<u8>) {
        let nodes = node_lens(stream);
        write_len(nodes.len() as u64, out);
        let mut entries = stream.range(StreamId::MIN, StreamId::MAX);
        for len in nodes {
            self.stream_node(entries.by_ref().take(len), len, out);
        }
        self.stream_end(stream, out);
    }

    /// What follows the nodes.
    pub(super) fn stream_end(&mut self, stream: &Stream, out: &mut Vec<u8>) {
        write_len(stream.len(), out);
        write_id(stream.last_id, out);
        let is_new = self.version.number >= Version::V11.number;
        if is_new {
            write_id(stream.first_id(), out);
            write_id(stream.max_deleted_id, out);
            write_len(stream.entries_added, out);
        }
        write_len(stream.group_count() as u64, out);
        for (name, group) in stream.groups() {
            write_blob(name, self.packer.as_mut(), out);
            write_id(group.last_id, out);
            if is_new {
                write_len(group.entries_read.unwrap_or(u64::MAX), out);
            }
            self.group(group, is_new, out);
        }
    }

    pub(super) fn stream_node<'a>(
        &mut self,
        entries: impl Iterator<Item = StreamEntry<'a>>,
        len: usize,
        out: &mut Vec<u8>,
    ) {
        self.listpack.clear();
        let mut first: Option<StreamEntry<'_>> = None;
        for entry in entries {
            let first = match &first {
                Some(first) => first,
                None => {
                    self.node_head(&entry, len);
                    first.insert(entry)
                }
            };
            self.stream_entry(&entry, first);
        }
        if let Some(first) = first {
            out.push(16);
            out.extend(raw_id(first.id));
            self.write_listpack(out);
        }
    }

    fn node_head(&mut self, first: &StreamEntry<'_>, len: usize) {
        self.listpack.push(Item::Int(len as i64));
        self.listpack.push(Item::Int(0));
        self.listpack.push(Item::Int(first.pair_count() as i64));
        first.pairs().for_each(|(name, _)| self.listpack.push_text(name));
        self.listpack.push(Item::Int(0));
    }

    fn stream_entry(&mut self, entry: &StreamEntry<'_>, first: &StreamEntry<'_>) {
        let has_same_names = entry.shares_names_with(first)
            || entry.pair_count() == first.pair_count()
                && entry.pairs().zip(first.pairs()).all(|(own, of_first)| own.0 == of_first.0);
        self.listpack.push(Item::Int(if has_same_names { SAME_NAMES } else { 0 }));
        self.listpack.push(Item::Int(entry.id.ms.wrapping_sub(first.id.ms) as i64));
        self.listpack.push(Item::Int(entry.id.seq.wrapping_sub(first.id.seq) as i64));
        let mut element_count = 3 + entry.pair_count();
        if !has_same_names {
            self.listpack.push(Item::Int(entry.pair_count() as i64));
            element_count += 1 + entry.pair_count();
        }
        if has_same_names {
            entry.values().for_each(|value| self.listpack.push_text(value));
        } else {
            for (name, value) in entry.pairs() {
                self.listpack.push_text(name);
                self.listpack.push_text(value);
            }
        }
        self.listpack.push(Item::Int(element_count as i64));
    }

    fn group(&mut self, group: &Group, is_new: bool, out: &mut Vec<u8>) {
        write_len(group.pending_count() as u64, out);
        for (id, delivery) in group.pending_from(StreamId::MIN) {
            out.extend(raw_id(id));
            out.extend(delivery.at.to_le_bytes());
            write_len(delivery.count, out);
        }
        write_len(group.consumer_count() as u64, out);
        for (index, consumer) in group.consumers() {
            write_text(&consumer.name, self.packer.as_mut(), out);
            out.extend(consumer.seen_at.to_le_bytes());
            if is_new {
                out.extend(consumer.active_at.unwrap_or(NEVER).to_le_bytes());
            }
            write_len(consumer.pending_count() as u64, out);
            for (id, _) in group.pending_of(index, StreamId::MIN) {
                out.extend(raw_id(id));
            }
        }
    }
}

/// Whether a stream has what only versions from 11 on hold.
pub(super) fn has_newer_parts(stream: &Stream) -> bool {
    stream.entries_added != stream.len()
        || stream.max_deleted_id != StreamId::MIN
        || stream.groups().any(|(_, group)| {
            group.entries_read.is_some()
                || group.consumers().any(|(_, consumer)| consumer.active_at.is_some())
        })
}

/// The number of entries of each node: those of the stream, and small neighbours as one.
fn node_lens(stream: &Stream) -> Vec<usize> {
    let mut lens: Vec<usize> = Vec::new();
    let mut size = 0;
    for (len, node_size) in stream.nodes() {
        match lens.last_mut() {
            Some(last) if *last + len <= NODE_LEN && size + node_size <= NODE_SIZE => {
                *last += len;
                size += node_size;
            }
            _ => {
                lens.push(len);
                size = node_size;
            }
        }
    }
    lens
}

fn raw_id(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn write_id(id: StreamId, out: &mut Vec<u8>) {
    write_len(id.ms, out);
    write_len(id.seq, out);
}

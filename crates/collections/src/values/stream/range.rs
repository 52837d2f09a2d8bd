//! Walking over a stream's entries, ascending or descending.

use std::collections::{BTreeMap, btree_map};

use super::id::StreamId;
use super::node::{StreamEntry, StreamNode};

/// The entries between two ids, ascending. Decodes only the entries that it visits.
pub struct StreamRange<'a> {
    nodes: btree_map::Range<'a, StreamId, StreamNode>,
    /// The current node, its id, and the place where the walk continues.
    current: Option<(StreamId, &'a StreamNode, u32)>,
    start: StreamId,
    end: StreamId,
}

/// The entries between two ids, descending. Decodes only the entries that it visits.
pub struct StreamRangeDown<'a> {
    nodes: btree_map::Range<'a, StreamId, StreamNode>,
    /// The current node, its id, and the end of the remaining entries.
    current: Option<(StreamId, &'a StreamNode, u32)>,
    start: StreamId,
    end: StreamId,
}

fn nodes_between(
    nodes: &BTreeMap<StreamId, StreamNode>,
    start: StreamId,
    end: StreamId,
) -> btree_map::Range<'_, StreamId, StreamNode> {
    if start > end {
        return nodes.range(..StreamId::MIN);
    }
    let first = nodes.range(..=start).next_back().map_or(start, |(first, _)| *first);
    nodes.range(first..=end)
}

impl<'a> StreamRange<'a> {
    pub(super) fn new(nodes: &'a BTreeMap<StreamId, StreamNode>, start: StreamId, end: StreamId) -> Self {
        Self { nodes: nodes_between(nodes, start, end), current: None, start, end }
    }
}

impl<'a> Iterator for StreamRange<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Some((first, node, at)) = self.current else {
                let (first, node) = self.nodes.next()?;
                self.current = Some((*first, node, node.first_place()));
                continue;
            };
            let Some((placed, next)) = node.entry_from(first, at) else {
                self.current = None;
                continue;
            };
            self.current = Some((first, node, next));
            if placed.id > self.end {
                return None;
            }
            if placed.id >= self.start {
                return Some(placed);
            }
        }
    }
}

impl<'a> StreamRangeDown<'a> {
    pub(super) fn new(nodes: &'a BTreeMap<StreamId, StreamNode>, start: StreamId, end: StreamId) -> Self {
        Self { nodes: nodes_between(nodes, start, end), current: None, start, end }
    }
}

impl<'a> Iterator for StreamRangeDown<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Some((first, node, end)) = self.current else {
                let (first, node) = self.nodes.next_back()?;
                self.current = Some((*first, node, node.end_place()));
                continue;
            };
            let Some((entry, start)) = node.entry_before(first, end) else {
                self.current = None;
                continue;
            };
            self.current = Some((first, node, start));
            if entry.id < self.start {
                return None;
            }
            if entry.id <= self.end {
                return Some(entry);
            }
        }
    }
}

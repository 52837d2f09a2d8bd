//! A stream while a snapshot walks it in portions, see `tracking.rs`.
//!
//! The entries are written in their order, node by node. The nodes that changes preserve are *kept* here until
//! the walk reaches them: a node that changes for the first time is copied, and one that is removed is moved.
//! The ids at which nodes begin are their positions.
//!
//! Invariant: each node of the cut that is not walked is kept, or in the stream as it was at the cut. A node of the stream
//! is of the cut, unless it begins behind `cut_end`, or `added` has its id, or a kept node has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::Stream;
use super::id::StreamId;
use super::node::{Node, StreamEntry};
use crate::estimate::SAMPLE_LEN;
use crate::values::tracking::{Element, PortionLimits, State, Tracker, Walkable, is_large};

/// The nodes of a stream at the cut.
#[derive(Default)]
pub(crate) struct StreamOrder {
    /// Where the last node of the cut begins.
    cut_end: StreamId,
    /// Where the last node that is walked begins.
    walked: StreamId,
    kept: BTreeMap<StreamId, Node>,
    /// Nodes that were added since the cut, but begin before `cut_end`: `XSETID` has lowered the last id.
    added: BTreeSet<StreamId>,
    kept_size: usize,
}

/// Consecutive entries of a stream that are written as one node.
#[derive(Clone, Copy, Debug)]
pub struct StreamPart<'a> {
    first: StreamId,
    node: &'a Node,
}

impl<'a> StreamPart<'a> {
    /// Number of entries.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a part is never empty")]
    pub fn len(&self) -> usize {
        self.node.live_count as usize
    }

    /// The entries, ascending.
    pub fn entries(&self) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        self.node.iter(self.first).map(|placed| placed.entry)
    }
}

impl StreamOrder {
    /// Bytes of the nodes that are kept, approximately.
    pub(crate) fn kept_size(&self) -> usize {
        self.kept_size
    }

    /// Whether a node of the stream is as it was at the cut, and not walked.
    fn is_due(&self, first: StreamId) -> bool {
        first > self.walked
            && first <= self.cut_end
            && !self.kept.contains_key(&first)
            && !self.added.contains(&first)
    }

    fn keep(&mut self, first: StreamId, node: Node) {
        self.kept_size += size_of::<Node>() + node.allocated_bytes();
        self.kept.insert(first, node);
    }

    pub(super) fn before_change(&mut self, first: StreamId, node: &Node) {
        if self.is_due(first) {
            self.keep(first, node.clone());
        }
    }

    /// Takes over a node that was removed, if it is needed.
    pub(super) fn note_removed(&mut self, first: StreamId, node: Node) {
        if self.is_due(first) {
            self.keep(first, node);
        }
    }

    /// Takes out the first kept node, if it begins before the next node of the stream.
    fn take_kept_before(&mut self, next: Option<StreamId>) -> Option<(StreamId, Node)> {
        let kept = self.kept.first_entry().filter(|kept| next.is_none_or(|next| *kept.key() < next))?;
        let (first, node) = kept.remove_entry();
        self.kept_size -= size_of::<Node>() + node.allocated_bytes();
        Some((first, node))
    }

    pub(super) fn note_added(&mut self, first: StreamId) {
        if first <= self.cut_end && !self.kept.contains_key(&first) {
            self.added.insert(first);
        }
    }
}

impl Stream {
    pub(crate) fn is_large(&self) -> bool {
        is_large(usize::try_from(self.len).unwrap_or(usize::MAX), || self.estimated_bytes(SAMPLE_LEN))
    }

    pub(crate) fn tracked(&self) -> (&Tracker, &dyn Walkable) {
        (&self.tracker, self)
    }
}

impl Walkable for Stream {
    fn held_size(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn begin(&self, state: &mut State) {
        let cut_end = self.nodes.last_key_value().map_or(StreamId::MIN, |(first, _)| *first);
        state.stream = StreamOrder { cut_end, ..StreamOrder::default() };
    }

    fn walk(&self, state: &mut State, limits: PortionLimits) -> bool {
        let unwalked = (Bound::Excluded(state.stream.walked), Bound::Included(state.stream.cut_end));
        let mut live = self.nodes.range(unwalked).peekable();
        while !state.is_enough(limits) {
            while live.next_if(|(first, _)| !state.stream.is_due(**first)).is_some() {}
            let next = live.peek().map(|(first, _)| **first);
            if let Some((first, node)) = state.stream.take_kept_before(next) {
                state.add_entries(StreamPart { first, node: &node });
            } else if let Some((first, node)) = live.next() {
                state.add_entries(StreamPart { first: *first, node });
            } else {
                return true;
            }
        }
        false
    }
}

impl State {
    fn add_entries(&mut self, part: StreamPart<'_>) {
        self.stream.walked = part.first;
        self.visit(part.len());
        self.sink.add(Element::Entries(part));
    }
}

impl Drop for Stream {
    #[inline]
    fn drop(&mut self) {
        if self.tracker.is_set() {
            let mut parts = Self::default();
            std::mem::swap(&mut parts.nodes, &mut self.nodes);
            self.tracker.detach(|| Box::new(parts));
        }
    }
}

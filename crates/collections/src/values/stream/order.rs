//! The nodes of a stream at the cut of a snapshot, which walks it in portions: see `tracking.rs`.
//!
//! The entries are written in their order, node by node. The nodes that changes preserve are *kept* here until
//! the walk reaches them: a node that changes for the first time is copied, and one that is removed is moved.
//! The ids at which nodes begin are their positions.
//!
//! Invariant: each node of the cut that is not walked is kept, or in the stream as it was at the cut. A node of the stream
//! is of the cut, unless it begins behind `cut_end`, or `added` has its id, or a kept node has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::id::StreamId;
use super::node::{StreamEntry, StreamNode};

/// The nodes of a stream at the cut.
#[derive(Default)]
pub(crate) struct StreamOrder {
    /// Where the last node of the cut begins.
    cut_end: StreamId,
    /// Where the last node that is walked begins.
    walked: StreamId,
    kept: BTreeMap<StreamId, StreamNode>,
    /// Nodes that were added since the cut, but begin before `cut_end`: `XSETID` has lowered the last id.
    added: BTreeSet<StreamId>,
    kept_size: usize,
}

/// Consecutive entries of a stream that are written as one node.
#[derive(Clone, Copy, Debug)]
pub struct StreamPart<'a> {
    first: StreamId,
    node: &'a StreamNode,
}

impl<'a> StreamPart<'a> {
    pub(super) fn new(first: StreamId, node: &'a StreamNode) -> Self {
        Self { first, node }
    }

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
    /// That of a stream whose last node begins at `cut_end`.
    pub(super) fn new(cut_end: StreamId) -> Self {
        Self { cut_end, ..Self::default() }
    }

    /// The first ids of nodes that may be walked.
    pub(super) fn unwalked(&self) -> (Bound<StreamId>, Bound<StreamId>) {
        (Bound::Excluded(self.walked), Bound::Included(self.cut_end))
    }

    pub(super) fn note_walked(&mut self, part: &StreamPart<'_>) {
        self.walked = part.first;
    }

    /// Bytes of the nodes that are kept, approximately.
    pub(crate) fn kept_size(&self) -> usize {
        self.kept_size
    }

    /// Whether a node of the stream is as it was at the cut, and not walked.
    pub(super) fn is_due(&self, first: StreamId) -> bool {
        first > self.walked
            && first <= self.cut_end
            && !self.kept.contains_key(&first)
            && !self.added.contains(&first)
    }

    fn keep(&mut self, first: StreamId, node: StreamNode) {
        self.kept_size += size_of::<StreamNode>() + node.allocated_bytes();
        self.kept.insert(first, node);
    }

    pub(super) fn before_change(&mut self, first: StreamId, node: &StreamNode) {
        if self.is_due(first) {
            self.keep(first, node.clone());
        }
    }

    /// Takes over a node that was removed, if it is needed.
    pub(super) fn note_removed(&mut self, first: StreamId, node: StreamNode) {
        if self.is_due(first) {
            self.keep(first, node);
        }
    }

    /// Takes out the first kept node, if it begins before the next node of the stream.
    pub(super) fn take_kept_before(&mut self, next: Option<StreamId>) -> Option<(StreamId, StreamNode)> {
        let kept = self.kept.first_entry().filter(|kept| next.is_none_or(|next| *kept.key() < next))?;
        let (first, node) = kept.remove_entry();
        self.kept_size -= size_of::<StreamNode>() + node.allocated_bytes();
        Some((first, node))
    }

    pub(super) fn note_added(&mut self, first: StreamId) {
        if first <= self.cut_end && !self.kept.contains_key(&first) {
            self.added.insert(first);
        }
    }
}

//! A list while a snapshot walks it in portions, see `tracking.rs`.
//!
//! The nodes of the cut are in `order.rs`.

use std::collections::VecDeque;
use std::ops::Range;

use super::node::ListNode;
use super::nodes::Nodes;
use super::order::{CutNode, ListPart, PartSize};
use crate::values::estimate::SAMPLE_LEN;
use crate::values::tracking::{Element, PortionLimits, Tracker, TrackingState, Walkable, is_large};

impl Nodes {
    pub(super) fn is_large(&self) -> bool {
        self.is_quicklist && is_large(self.len(), || self.listpack_size)
    }

    pub(super) fn tracked(&self) -> (&Tracker, &dyn Walkable) {
        (&self.tracker, self)
    }

    /// Number of [`ListPart`]s in which the list is written.
    pub(super) fn part_count(&self) -> usize {
        let (mut count, mut part) = (0, PartSize::default());
        for node in &self.nodes {
            if !part.takes(node) {
                count += 1;
                part = PartSize::default();
                part.takes(node);
            }
        }
        count + usize::from(!part.is_empty())
    }

    /// Called before a node changes.
    #[inline(always)]
    pub(super) fn before_change(&mut self, place: usize) {
        if self.tracker.is_set() {
            self.preserve(place);
        }
    }

    #[cold]
    fn preserve(&mut self, place: usize) {
        let Self { nodes, tracker, .. } = self;
        tracker.preserve(|state| state.list.before_change(place, &nodes[place]));
    }

    /// Adds a node.
    pub(super) fn insert_node(&mut self, place: usize, node: ListNode) {
        self.nodes.insert(place, node);
        if self.tracker.is_set() {
            self.tracker.preserve(|state| state.list.note_added(place));
        }
    }

    /// Removes nodes. Returns them, as far as the snapshot does not need them.
    pub(super) fn remove_nodes(&mut self, places: Range<usize>) -> VecDeque<ListNode> {
        let mut removed = self.nodes.drain(places.clone()).collect();
        if self.tracker.is_set() {
            self.tracker.preserve(|state| {
                removed = state.list.note_removed(places, std::mem::take(&mut removed));
            });
        }
        removed
    }

    /// Replaces a node.
    pub(super) fn replace_node(&mut self, place: usize, node: ListNode) {
        drop(self.remove_nodes(place..place + 1));
        self.insert_node(place, node);
    }

    /// Removes the nodes without elements.
    pub(super) fn remove_empty(&mut self) {
        if self.tracker.is_set() {
            let nodes = &self.nodes;
            self.tracker.preserve(|state| {
                let mut place = 0;
                state.list.retain(|| {
                    place += 1;
                    nodes[place - 1].len() > 0
                });
            });
        }
        self.nodes.retain(|node| node.len() > 0);
    }
}

impl Walkable for Nodes {
    fn held_size(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn begin(&self, state: &mut TrackingState) {
        state.list.begin(self.nodes.len());
    }

    fn walk(&self, state: &mut TrackingState, limits: PortionLimits) -> bool {
        let (mut place, mut found) = (usize::MAX, Vec::new());
        while !state.is_enough(limits) {
            let mut part = PartSize::default();
            while let Some(node) = state.list.take(&self.nodes, &mut place, &mut part) {
                found.push(node);
            }
            if found.is_empty() {
                return true;
            }
            let node_of = |found| match found {
                &CutNode::At(place) => &self.nodes[place],
                CutNode::Kept(node) => node,
            };
            let nodes: Vec<&ListNode> = found.iter().map(node_of).collect();
            let part = ListPart { nodes: &nodes };
            state.visit(part.len());
            state.sink.add(Element::Items(part));
            found.clear();
        }
        false
    }
}

impl Drop for Nodes {
    #[inline]
    fn drop(&mut self) {
        if self.tracker.is_set() {
            let nodes = std::mem::take(&mut self.nodes);
            self.tracker.detach(|| Box::new(Self { nodes, tracker: Tracker::default(), ..*self }));
        }
    }
}

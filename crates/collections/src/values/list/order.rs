//! The nodes of a list at the cut of a snapshot, which walks it in portions: see `tracking.rs`.
//!
//! The elements of a list are written in their order, so the elements that changes preserve are not passed to
//! the sink at once: they are *kept* here until the walk reaches them. The unit is the node. At the cut each
//! node gets its number; a node that changes for the first time is copied, and one that is removed is moved, to
//! the nodes that are kept.
//!
//! Invariants
//! 1. `numbers` has an element for each node of the list, ascending without [`CHANGED`]. Those without this mark are the
//!    numbers of nodes that are as they were at the cut.
//! 2. Each node of the cut that is not walked is either in the list without the mark, or kept.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::node::{ListNode, NodeContent};
use crate::packed::Item;

/// Bytes of a listpack in a file up to which it takes nodes: the default of Redis.
const PART_SIZE_MAX: usize = if crate::IS_TINY { 256 } else { 8192 };

/// The mark of nodes that are not as at the cut, or were not there. The number of such a node is that of a node before it.
const CHANGED: u32 = 1 << 31;

/// The nodes of a list at the cut.
#[derive(Default)]
pub(crate) struct ListOrder {
    numbers: VecDeque<u32>,
    /// The number of the next node of the walk.
    next: u32,
    /// The number behind the last node of the cut.
    end: u32,
    /// Runs of nodes with consecutive numbers, by the first number. The walk removes nodes from the first run only.
    kept: BTreeMap<u32, VecDeque<ListNode>>,
    /// Bytes of the nodes that are kept, approximately.
    kept_size: usize,
}

/// Consecutive elements of a list that are written as one node.
#[derive(Clone, Copy)]
pub struct ListPart<'a> {
    pub(super) nodes: &'a [&'a ListNode],
}

/// Collects nodes for a part.
#[derive(Default)]
pub(super) struct PartSize(usize);

impl PartSize {
    /// Whether a node belongs to the part; it is counted then.
    pub(super) fn takes(&mut self, node: &ListNode) -> bool {
        let size = node.listpack_size(0, node.len());
        if self.0 > 0 && self.0 + size > PART_SIZE_MAX {
            return false;
        }
        self.0 += size;
        true
    }

    /// Whether the part has no nodes yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl ListPart<'_> {
    /// Number of elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a part is never empty")]
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| node.len()).sum()
    }

    /// The element, if it is the only one, and longer than the elements that share a node in Redis.
    #[must_use]
    pub fn single(&self) -> Option<&[u8]> {
        match self.nodes {
            [ListNode { content: NodeContent::Single(text), .. }] if text.len() > PART_SIZE_MAX => Some(text),
            _ => None,
        }
    }

    /// Visits the elements.
    pub fn for_each(&self, mut visit: impl FnMut(Item<'_>)) {
        for node in self.nodes {
            match &node.content {
                NodeContent::Several(elements) => elements.iter().for_each(|[item]| visit(item)),
                NodeContent::Uniform(elements) => {
                    elements.iter().for_each(|element| visit(Item::Bytes(element)));
                }
                NodeContent::Single(text) => visit(Item::Bytes(text)),
            }
        }
    }
}

impl std::fmt::Debug for ListPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} elements", self.len())
    }
}

/// A node of the cut.
pub(super) enum CutNode {
    /// It was kept.
    Kept(ListNode),
    /// It is in the list, at this place.
    At(usize),
}

impl ListOrder {
    /// Bytes of the nodes that are kept, approximately.
    pub(crate) fn kept_size(&self) -> usize {
        self.kept_size
    }

    pub(super) fn begin(&mut self, node_count: usize) {
        self.end = u32::try_from(node_count).map_or(0, |count| count + 1);
        // Nodes that are added in front get number 0.
        (self.next, self.numbers) = (1, (1..self.end).collect());
    }

    /// Marks a node. Returns its number, if it is to be kept.
    fn mark(&mut self, place: usize) -> Option<u32> {
        let number = self.numbers.get_mut(place)?;
        let before = std::mem::replace(number, *number | CHANGED);
        (before & CHANGED == 0 && before >= self.next).then_some(before)
    }

    pub(super) fn before_change(&mut self, place: usize, node: &ListNode) {
        if let Some(number) = self.mark(place) {
            let copy = node.clone();
            self.kept_size += copy.size();
            self.kept.insert(number, [copy].into());
        }
    }

    pub(super) fn note_added(&mut self, place: usize) {
        let before = place.checked_sub(1).and_then(|before| self.numbers.get(before));
        self.numbers.insert(place, before.map_or(CHANGED, |number| number | CHANGED));
    }

    /// Removes the numbers of nodes for which `stays` is false; it is called once for each node, in order.
    pub(super) fn retain(&mut self, mut stays: impl FnMut() -> bool) {
        self.numbers.retain(|_| stays());
    }

    /// Takes over the nodes that were at these places. Returns those that are not needed.
    pub(super) fn note_removed(
        &mut self,
        places: Range<usize>,
        nodes: VecDeque<ListNode>,
    ) -> VecDeque<ListNode> {
        let (mut unneeded, mut run, mut first) = (VecDeque::new(), VecDeque::new(), 0);
        for (number, node) in self.numbers.drain(places).zip(nodes) {
            if number & CHANGED != 0 || number < self.next {
                unneeded.push_back(node);
                continue;
            }
            if number != first + run.len() as u32 || run.is_empty() {
                if !run.is_empty() {
                    self.kept.insert(first, std::mem::take(&mut run));
                }
                first = number;
            }
            self.kept_size += node.size();
            run.push_back(node);
        }
        if !run.is_empty() {
            self.kept.insert(first, run);
        }
        unneeded
    }

    /// The next node of the walk, if the part takes it. `place`: where it may be in the list.
    pub(super) fn take(
        &mut self,
        nodes: &VecDeque<ListNode>,
        place: &mut usize,
        part: &mut PartSize,
    ) -> Option<CutNode> {
        if self.next == self.end {
            return None;
        }
        if let Some(mut run) = self.kept.first_entry().filter(|run| *run.key() <= self.next) {
            if !run.get().front().is_some_and(|node| part.takes(node)) {
                return None;
            }
            self.next += 1;
            let node = run.get_mut().pop_front()?;
            if run.get().is_empty() {
                run.remove();
            }
            self.kept_size -= node.size();
            return Some(CutNode::Kept(node));
        }
        if self.numbers.get(*place) != Some(&self.next) {
            *place = self.numbers.partition_point(|number| number & !CHANGED < self.next);
        }
        debug_assert_eq!(self.numbers.get(*place), Some(&self.next), "invariant 2");
        if !nodes.get(*place).is_some_and(|node| part.takes(node)) {
            return None;
        }
        self.next += 1;
        *place += 1;
        Some(CutNode::At(*place - 1))
    }
}

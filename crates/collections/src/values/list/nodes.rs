//! A list of several nodes. Invariants: see `list.rs`.

use std::collections::VecDeque;

use super::elements::{Elements, End, SMALL_SIZE_MAX, roomy_len};
use super::limits::{ListLimits, listpack_size};
use super::node::{ListNode, NodeContent};
use crate::memory::prefetch;
use crate::packed::Item;
use crate::values::estimate::estimated_sum;
use crate::values::tracking::Tracker;

/// Number of nodes from which on a new node at an end is allocated with its full capacity.
const ROOMY_NODE_COUNT_MIN: usize = if crate::IS_TINY { 3 } else { 8 };

/// Number of nodes whose dropping takes a few microseconds.
pub(super) const CHEAP_NODE_COUNT_MAX: usize = 64;

/// The place of an element: its node, and its index there.
pub(super) type ListPlace = (usize, usize);

/// The nodes of a list. They change only as `tracked.rs` permits: after [`Self::before_change`], or by its functions.
pub(super) struct Nodes {
    pub(super) nodes: VecDeque<ListNode>,
    pub(super) len: usize,
    /// Bytes that the elements take in a listpack.
    pub(super) listpack_size: usize,
    /// Whether the encoding is `quicklist`.
    pub(super) is_quicklist: bool,
    pub(super) tracker: Tracker,
}

impl Default for Nodes {
    fn default() -> Self {
        Self::of_small(Elements::new(), 0, false)
    }
}

impl Clone for Nodes {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), tracker: Tracker::default(), ..*self }
    }
}

impl Nodes {
    pub(super) fn of_small(elements: Elements, listpack_size: u32, is_quicklist: bool) -> Self {
        let mut nodes = VecDeque::with_capacity(4);
        let len = elements.len();
        if len > 0 {
            nodes.push_back(ListNode::of_several(elements, listpack_size as usize));
        }
        Self { nodes, len, listpack_size: listpack_size as usize, is_quicklist, tracker: Tracker::default() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Prefetches the descriptions of the first and the last node.
    #[inline(always)]
    pub(super) fn prefetch_ends(&self) {
        for node in [self.nodes.front(), self.nodes.back()].into_iter().flatten() {
            prefetch::line(std::ptr::from_ref(node).addr());
        }
    }

    /// The node of an element, and its index there. Panics beyond the end.
    #[inline]
    pub(super) fn place(&self, index: usize) -> ListPlace {
        assert!(index < self.len, "beyond the end");
        let last = self.nodes.len() - 1;
        match index {
            0 => (0, 0),
            _ if index == self.len - 1 => (last, self.nodes[last].len() - 1),
            _ => self.place_inside(index),
        }
    }

    fn place_inside(&self, index: usize) -> ListPlace {
        if index < self.len / 2 {
            let mut left = index;
            for (place, node) in self.nodes.iter().enumerate() {
                if left < node.len() {
                    return (place, left);
                }
                left -= node.len();
            }
        }
        let mut behind = self.len - index;
        for (place, node) in self.nodes.iter().enumerate().rev() {
            if behind <= node.len() {
                return (place, node.len() - behind);
            }
            behind -= node.len();
        }
        unreachable!("the lengths of the nodes add up to that of the list")
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> Item<'_> {
        let (place, within) = self.place(index);
        self.nodes[place].at(within)
    }

    pub(super) fn walk<'a>(&'a self, from: usize, mut visit: impl FnMut(usize, Item<'a>) -> bool) {
        if from >= self.len {
            return;
        }
        let (place, mut within) = self.place(from);
        let mut index = from;
        for node in self.nodes.range(place..) {
            match &node.content {
                NodeContent::Several(elements) => {
                    for [item] in elements.iter_from(within) {
                        if !visit(index, item) {
                            return;
                        }
                        index += 1;
                    }
                }
                NodeContent::Uniform(elements) => {
                    for element in elements.iter_from(within) {
                        if !visit(index, Item::Bytes(element)) {
                            return;
                        }
                        index += 1;
                    }
                }
                NodeContent::Single(text) => {
                    if !visit(index, Item::Bytes(text)) {
                        return;
                    }
                    index += 1;
                }
            }
            within = 0;
        }
    }

    pub(super) fn walk_back<'a>(&'a self, from: usize, mut visit: impl FnMut(usize, Item<'a>) -> bool) {
        let (place, within) = self.place(from);
        let mut index = from + 1;
        let mut end = within + 1;
        for node in self.nodes.range(..=place).rev() {
            let end_here = std::mem::replace(&mut end, usize::MAX).min(node.len());
            for at in (0..end_here).rev() {
                index -= 1;
                if !visit(index, node.at(at)) {
                    return;
                }
            }
        }
    }

    pub(super) fn insert(&mut self, index: usize, text: &[u8]) {
        let size = listpack_size(Item::of_text(text));
        self.listpack_size += size;
        self.len += 1;
        if index == 0 {
            self.insert_at_end(0, 0, text, size);
        } else if index == self.len - 1 {
            let last = self.nodes.len() - 1;
            self.insert_at_end(last, self.nodes[last].len(), text, size);
        } else {
            self.len -= 1;
            let (place, within) = self.place(index);
            self.len += 1;
            self.insert_at(place, within, text, size);
        }
    }

    /// Adds an element at an end of the list, which is an end of this node, or to a new node beyond it.
    #[inline]
    fn insert_at_end(&mut self, place: usize, within: usize, text: &[u8], size: usize) {
        let Some(node) = self.nodes.get(place) else {
            self.insert_node(place, self.new_end(text));
            return;
        };
        if node.has_room_for(text.len()) {
            self.before_change(place);
            self.nodes[place].insert(within, text, size);
            return;
        }
        if matches!(node.content, NodeContent::Uniform(_)) {
            self.before_change(place);
            if self.nodes[place].try_insert_sealed(within, text, size) {
                return;
            }
        }
        // Its elements stay the same.
        self.nodes[place].seal();
        self.insert_node(if within == 0 { place } else { place + 1 }, self.new_end(text));
    }

    /// A node of one element for one of the ends. In a long list it has capacity for more, which is little
    /// in comparison with the other nodes.
    fn new_end(&self, text: &[u8]) -> ListNode {
        let mut node = ListNode::of(text);
        if self.nodes.len() >= ROOMY_NODE_COUNT_MIN
            && let NodeContent::Several(elements) = &mut node.content
        {
            let count = roomy_len(text.len());
            elements.reserve(count, count * text.len());
        }
        node
    }

    /// Adds an element before the element at `within` of a node, or to a new node there.
    fn insert_at(&mut self, place: usize, within: usize, text: &[u8], size: usize) {
        if self.nodes[place].has_room_for(text.len()) {
            self.before_change(place);
            self.nodes[place].insert(within, text, size);
        } else if within == 0 {
            match place.checked_sub(1).filter(|before| self.nodes[*before].has_room_for(text.len())) {
                Some(before) => {
                    self.before_change(before);
                    let node = &mut self.nodes[before];
                    node.insert(node.len(), text, size);
                }
                None => self.insert_node(place, ListNode::of(text)),
            }
        } else {
            self.before_change(place);
            let Some(tail) = self.nodes[place].split_off(within) else { return };
            self.insert_node(place + 1, tail);
            if self.nodes[place].has_room_for(text.len()) {
                self.nodes[place].insert(within, text, size);
            } else {
                self.insert_node(place + 1, ListNode::of(text));
            }
        }
    }

    pub(super) fn set(&mut self, index: usize, text: &[u8]) {
        let (place, within) = self.place(index);
        let old = self.nodes[place].at(within);
        let old_size = listpack_size(old);
        let size = listpack_size(Item::of_text(text));
        self.listpack_size = self.listpack_size - old_size + size;
        if !matches!(self.nodes[place].content, NodeContent::Single(_)) {
            self.before_change(place);
        }
        if self.nodes[place].try_set(within, text, size) {
            return;
        }
        if self.nodes[place].len() == 1 {
            self.replace_node(place, ListNode::of(text));
            return;
        }
        self.nodes[place].remove_range(within, 1);
        if within == self.nodes[place].len() {
            self.insert_node(place + 1, ListNode::of(text));
        } else {
            self.insert_at(place, within, text, size);
        }
    }

    /// Whether the removal of an element changes only one node, which stays.
    #[inline]
    pub(super) fn keeps_form_without(&self, (place, _): ListPlace) -> bool {
        self.nodes.len() > 1 && self.nodes[place].len() > 1
    }

    /// Removes an element after passing it to `visit`, where [`Self::keeps_form_without`] holds.
    #[inline]
    pub(super) fn take(&mut self, (place, within): ListPlace, visit: impl FnOnce(Item<'_>)) {
        self.before_change(place);
        let node = &mut self.nodes[place];
        let mut taken_size = 0;
        let visit = |item: Item<'_>| {
            taken_size = listpack_size(item);
            visit(item);
        };
        match &mut node.content {
            NodeContent::Several(elements) => elements.take(within, |[item]| visit(item)),
            NodeContent::Uniform(elements) => {
                visit(Item::Bytes(elements.at(within)));
                elements.remove_range(within, 1);
            }
            NodeContent::Single(_) => unreachable!("a node of several elements stays"),
        }
        self.listpack_size -= taken_size;
        node.listpack_size -= taken_size as u32;
        node.len -= 1;
        self.len -= 1;
    }

    /// Removes `count` elements from `index` on. Returns the nodes that have become empty, if they are many.
    pub(super) fn cut(&mut self, index: usize, count: usize) -> Option<Nodes> {
        assert!(count <= self.len - index, "beyond the end");
        let mut left = count;
        let mut at = if count > 0 { self.place(index) } else { return None };
        let mut emptied = at.0..at.0;
        while left > 0 {
            let (place, within) = at;
            let len = self.nodes[place].len();
            let removed = left.min(len - within);
            self.listpack_size -= self.nodes[place].listpack_size(within, removed);
            if removed == len {
                if emptied.is_empty() {
                    emptied = place..place;
                }
                emptied.end = place + 1;
            } else {
                self.before_change(place);
                self.nodes[place].remove_range(within, removed);
            }
            left -= removed;
            at = (place + 1, 0);
        }
        self.len -= count;
        let gone = self.remove_nodes(emptied);
        self.shrink_capacity();
        (gone.len() > CHEAP_NODE_COUNT_MAX).then(|| Nodes {
            len: gone.iter().map(ListNode::len).sum(),
            listpack_size: gone.iter().map(|node| node.listpack_size(0, node.len())).sum(),
            nodes: gone,
            is_quicklist: self.is_quicklist,
            tracker: Tracker::default(),
        })
    }

    /// Removes elements that are equal to `text`, at most `count_max` of them, beginning at one end. Returns how many.
    pub(super) fn remove_equal(&mut self, text: &[u8], from: End, count_max: usize) -> usize {
        let size = listpack_size(Item::of_text(text));
        let (mut left, mut has_emptied) = (count_max, false);
        for nth in 0..self.nodes.len() {
            let place = if from == End::Left { nth } else { self.nodes.len() - 1 - nth };
            if self.tracker.is_set() && self.nodes[place].has(text) {
                self.before_change(place);
            }
            let node = &mut self.nodes[place];
            left -= node.remove_equal(text, size, from, left);
            has_emptied |= node.len == 0;
            if left == 0 {
                break;
            }
        }
        let removed = count_max - left;
        self.len -= removed;
        self.listpack_size -= removed * size;
        if has_emptied {
            self.remove_empty();
            self.shrink_capacity();
        }
        removed
    }

    /// Shrinks the capacity for nodes after many were removed.
    fn shrink_capacity(&mut self) {
        if self.nodes.capacity() > 64 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(2 * self.nodes.len());
        }
    }

    /// The elements with their size and encoding, if they have become few enough for one packed sequence.
    pub(super) fn take_small(&mut self) -> Option<(Elements, u32, bool)> {
        if self.nodes.len() == 1 && self.tracker.is_set() {
            self.before_change(0);
        }
        let elements = match self.nodes.len() {
            0 => Elements::new(),
            1 => self.nodes[0].take_elements(SMALL_SIZE_MAX / 2)?,
            _ => return None,
        };
        Some((elements, self.listpack_size as u32, self.is_quicklist))
    }

    /// Whether an element is too large for a listpack in Redis.
    pub(super) fn has_element_beyond(&self, limits: ListLimits) -> bool {
        self.nodes.iter().any(|node| match &node.content {
            NodeContent::Single(text) => text.len() > limits.shared_size_max(),
            NodeContent::Several(_) | NodeContent::Uniform(_) => false,
        })
    }

    pub(super) fn estimated_bytes(&self, sample_len: usize) -> usize {
        size_of::<Self>()
            + self.nodes.capacity() * size_of::<ListNode>()
            + estimated_sum(self.nodes.iter().map(ListNode::content_bytes), self.nodes.len(), sample_len)
    }

    pub(super) fn check(&self) {
        let mut len = 0;
        let mut sum = 0;
        for node in &self.nodes {
            node.check();
            len += node.len();
            sum += node.listpack_size(0, node.len());
        }
        assert_eq!((len, sum), (self.len, self.listpack_size));
    }
}

//! A counted B+ tree over the members of a sorted set, in order: ranks, ranges and insertions in O(log n).
//!
//! Owns: its nodes. The entries that its leaves link to belong to the table beside it. The caller that
//! inserts a link ensures that its entry stays at its address until the link is removed.
//!
//! An inner node stores for each child its first element (order and link, so that a search reads the member
//! only where orders are equal) and the number of elements below. There are no links between leaves: a
//! [`super::cursor::Cursor`] keeps its path.
//!
//! Invariants ([`Tree::check`])
//! 1. All leaves are equally deep, and no node is empty.
//! 2. `counts` are the numbers of elements below, `orders` and `firsts` the first elements.
//! 3. The elements of all leaves in sequence are in ascending order (`leaf.rs` has its own invariants).
//! 4. An inner root has at least two children.
//!
//! Cost: an insertion or removal changes one leaf and the nodes above; at most one node a level is split or
//! merged, 62 words or 32 children each. A node that becomes sparse merges with a neighbour if they fill at
//! most three quarters of one. Where elements are added at an end, the nodes behind stay full. Ordered
//! elements of a whole set are written into leaves directly ([`Tree::of_ordered`]).
//!
//! Start reading at [`Tree::insert`].

use super::leaf::{LEAF_LEN_MAX, Link, TreeLeaf};
use super::order::{SearchTarget, partition_point};
use crate::entry::Entry;
use crate::values::estimate::estimated_sum;

/// Children of a full inner node; few under Miri, where trees are small and are to be deep.
const FANOUT: usize = if crate::IS_TINY { 4 } else { 32 };

/// The tree; without a root if it is empty.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) root: Option<TreeNode>,
}

pub(super) enum TreeNode {
    Leaf(Box<TreeLeaf>),
    Inner(Box<InnerNode>),
}

pub(super) struct InnerNode {
    pub(super) len: usize,
    orders: [u64; FANOUT],
    firsts: [Link; FANOUT],
    counts: [u32; FANOUT],
    pub(super) children: [Option<TreeNode>; FANOUT],
}

/// An element to be inserted.
struct New<'a> {
    order: u64,
    member: &'a [u8],
    link: Link,
}

/// Whether a node lies at the start or the end of the whole tree.
#[derive(Clone, Copy)]
struct Edge {
    left: bool,
    right: bool,
}

/// The effect of an insertion on a node.
struct Inserted {
    /// Whether the new element is the node's first.
    is_first: bool,
    /// The new node behind it, if the node was split.
    sibling: Option<Child>,
}

/// A node with the data that its parent stores for it.
struct Child {
    order: u64,
    first: Link,
    count: u32,
    node: TreeNode,
}

/// The effect of a removal on a node.
struct Removal {
    link: Link,
    /// The node's new first element, if it changed.
    new_first: Option<(u64, Link)>,
}

impl Tree {
    /// Adds an element.
    ///
    /// # Safety
    /// 1. The entry stays at its address until it is removed from the tree, and changes only under the
    ///    tree's exclusive borrow.
    pub(super) unsafe fn insert(&mut self, order: u64, entry: Entry<'_>) {
        // SAFETY: (1) is the callee's condition, too.
        let link = unsafe { Link::new(entry) };
        let new = New { order, member: entry.key(), link };
        let root = self.root.get_or_insert_with(|| TreeNode::Leaf(TreeLeaf::new()));
        let inserted = root.insert(&new, Edge { left: true, right: true });
        let Some(sibling) = inserted.sibling else { return };
        let left = self.root.take().expect("it has just been split");
        let mut root = InnerNode::new();
        root.insert_child(0, left.into_child());
        root.insert_child(1, sibling);
        self.root = Some(TreeNode::Inner(root));
    }

    /// A tree of elements in order, no two equal: its nodes are full but for the last of each level.
    pub(super) fn of_ordered(elements: &[(u64, Link)]) -> Self {
        let leaf = |some: &[(u64, Link)]| Child {
            order: some[0].0,
            first: some[0].1,
            count: some.len() as u32,
            node: TreeNode::Leaf(TreeLeaf::of_ordered(some)),
        };
        let mut level: Vec<Child> = elements.chunks(LEAF_LEN_MAX).map(leaf).collect();
        while level.len() > 1 {
            let mut children = level.into_iter().peekable();
            level = Vec::new();
            while children.peek().is_some() {
                let mut inner = InnerNode::new();
                for child in children.by_ref().take(FANOUT) {
                    inner.insert_child(inner.len, child);
                }
                level.push(TreeNode::Inner(inner).into_child());
            }
        }
        Self { root: level.pop().map(|child| child.node) }
    }

    /// Removes the element at a rank below the length, and returns its link.
    pub(super) fn remove_at(&mut self, rank: usize) -> Link {
        let root = self.root.as_mut().expect("the rank is below the length");
        let removal = root.remove(rank);
        while let Some(TreeNode::Inner(inner)) = &mut self.root
            && inner.len == 1
        {
            self.root = inner.children[0].take();
        }
        if self.root.as_ref().is_some_and(|root| root.len() == 0) {
            self.root = None;
        }
        removal.link
    }

    /// Changes the order of an element, if that is possible within its leaf. The entry still has its old
    /// score, and the caller writes the new one right after; if impossible, nothing changes.
    pub(super) fn try_reorder(&mut self, old: u64, new: u64, entry: Entry<'_>) -> bool {
        let target = SearchTarget::Element(old, entry.key());
        let mut node = self.root.as_mut();
        while let Some(TreeNode::Inner(inner)) = node {
            let index = inner.child_with(&target, entry);
            node = inner.children[index].as_mut();
        }
        let Some(TreeNode::Leaf(leaf)) = node else { unreachable!("no inner node is empty") };
        let from = leaf.find(old, entry).expect("the element exists");
        let position = leaf.position(&SearchTarget::Element(new, entry.key()));
        let to = position - usize::from(from < position);
        // Only strictly inside: the parents store the first element and the bound behind the last.
        let is_inside = from > 0 && to > 0 && to + 1 < leaf.len();
        if is_inside {
            leaf.reorder(from, to, new);
        }
        is_inside
    }

    /// Number of elements before the target.
    pub(super) fn rank(&self, target: &SearchTarget<'_>) -> usize {
        let (mut node, mut rank) = (self.root.as_ref(), 0);
        while let Some(TreeNode::Inner(inner)) = node {
            let index = inner.child_of(target);
            rank += inner.count_before(index);
            node = inner.children[index].as_ref();
        }
        let Some(TreeNode::Leaf(leaf)) = node else { return rank };
        rank + leaf.position(target)
    }

    /// The rank of an existing element.
    pub(super) fn rank_of(&self, order: u64, entry: Entry<'_>) -> usize {
        let target = SearchTarget::Element(order, entry.key());
        let (mut node, mut rank) = (self.root.as_ref(), 0);
        while let Some(TreeNode::Inner(inner)) = node {
            let index = inner.child_with(&target, entry);
            rank += inner.count_before(index);
            node = inner.children[index].as_ref();
        }
        let Some(TreeNode::Leaf(leaf)) = node else { unreachable!("no inner node is empty") };
        rank + leaf.find(order, entry).expect("the element exists")
    }

    /// Bytes of memory of the nodes.
    pub(super) fn estimated_bytes(&self, sample_len: usize) -> usize {
        self.root.as_ref().map_or(0, |root| root.estimated_bytes(sample_len))
    }

    /// Verifies the invariants in the header of this file. Returns the number of elements.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) -> Result<usize, String> {
        let Some(root) = &self.root else { return Ok(0) };
        if let TreeNode::Inner(inner) = root
            && inner.len < 2
        {
            return Err("tree 4: a root with one child".to_owned());
        }
        let mut last = None;
        root.check(&mut last).map(|(len, _)| len)
    }
}

impl TreeNode {
    /// Elements of a leaf, or children.
    fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(inner) => inner.len,
        }
    }

    fn len_max(&self) -> usize {
        match self {
            Self::Leaf(_) => LEAF_LEN_MAX,
            Self::Inner(_) => FANOUT,
        }
    }

    fn into_child(self) -> Child {
        let (order, first, count) = match &self {
            Self::Leaf(leaf) => (leaf.order(0), leaf.link(0), leaf.len() as u32),
            Self::Inner(inner) => (inner.orders[0], inner.firsts[0], inner.count()),
        };
        Child { order, first, count, node: self }
    }

    fn insert(&mut self, new: &New<'_>, edge: Edge) -> Inserted {
        match self {
            Self::Leaf(leaf) => insert_into_leaf(leaf, new, edge),
            Self::Inner(inner) => inner.insert(new, edge),
        }
    }

    fn remove(&mut self, rank: usize) -> Removal {
        match self {
            Self::Leaf(leaf) => {
                let link = leaf.remove(rank);
                let is_changed = rank == 0 && leaf.len() > 0;
                Removal { link, new_first: is_changed.then(|| (leaf.order(0), leaf.link(0))) }
            }
            Self::Inner(inner) => inner.remove(rank),
        }
    }

    /// Appends the contents of the next node, which must fit.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.append(&right),
            (Self::Inner(left), Self::Inner(mut right)) => left.append(&mut right),
            _ => unreachable!("neighbours are equally deep"),
        }
    }

    fn estimated_bytes(&self, sample_len: usize) -> usize {
        match self {
            Self::Leaf(_) => size_of::<TreeLeaf>(),
            Self::Inner(inner) => {
                let children = inner.children().map(|child| child.estimated_bytes(sample_len));
                size_of::<InnerNode>() + estimated_sum(children, inner.len, sample_len)
            }
        }
    }

    /// Returns the number of elements and the depth below.
    #[cfg(any(test, debug_assertions))]
    fn check<'a>(&'a self, last: &mut Option<(u64, &'a [u8])>) -> Result<(usize, usize), String> {
        if self.len() == 0 {
            return Err("tree 1: an empty node".to_owned());
        }
        let inner = match self {
            Self::Inner(inner) => inner,
            Self::Leaf(leaf) => {
                leaf.check()?;
                let element = |index: usize| (leaf.order(index), leaf.entry(index).key());
                if last.is_some_and(|last| last >= element(0)) {
                    return Err("tree 3: leaves are not in order".to_owned());
                }
                *last = Some(element(leaf.len() - 1));
                return Ok((leaf.len(), 0));
            }
        };
        let (mut sum, mut depth) = (0, None);
        for (index, child) in inner.children().enumerate() {
            let (count, child_depth) = child.check(last)?;
            if *depth.get_or_insert(child_depth) != child_depth {
                return Err("tree 1: leaves are not equally deep".to_owned());
            }
            let (order, first) = match child {
                Self::Leaf(leaf) => (leaf.order(0), leaf.link(0)),
                Self::Inner(inner) => (inner.orders[0], inner.firsts[0]),
            };
            let known = (inner.counts[index] as usize, inner.orders[index], inner.firsts[index]);
            if known != (count, order, first) {
                return Err(format!("tree 2: what is known of child {index} is wrong"));
            }
            sum += count;
        }
        Ok((sum, depth.unwrap_or(0) + 1))
    }
}

fn insert_into_leaf(leaf: &mut Box<TreeLeaf>, new: &New<'_>, edge: Edge) -> Inserted {
    let index = leaf.position(&SearchTarget::Element(new.order, new.member));
    let is_first = index == 0;
    if !leaf.is_full() {
        leaf.insert(index, new.order, new.link);
        return Inserted { is_first, sibling: None };
    }
    let len = leaf.len();
    let middle = match index {
        0 if edge.left => 0,
        _ if index == len && edge.right => len,
        _ => len / 2,
    };
    let mut right = leaf.split_off(middle);
    // An empty leaf receives the element.
    if index < middle || leaf.len() == 0 {
        leaf.insert(index, new.order, new.link);
    } else {
        right.insert(index - middle, new.order, new.link);
    }
    Inserted { is_first, sibling: Some(TreeNode::Leaf(right).into_child()) }
}

impl InnerNode {
    fn new() -> Box<Self> {
        Box::new(Self {
            len: 0,
            orders: [0; FANOUT],
            firsts: [Link::NONE; FANOUT],
            counts: [0; FANOUT],
            children: [const { None }; FANOUT],
        })
    }

    fn children(&self) -> impl Iterator<Item = &TreeNode> {
        self.children[..self.len].iter().flatten()
    }

    fn child_mut(&mut self, index: usize) -> &mut TreeNode {
        self.children[index].as_mut().expect("below the length there are children")
    }

    fn count(&self) -> u32 {
        self.counts[..self.len].iter().sum()
    }

    #[inline]
    fn count_before(&self, index: usize) -> usize {
        self.counts[..index].iter().sum::<u32>() as usize
    }

    fn first(&self, index: usize) -> Entry<'_> {
        // SAFETY: (1) the first element of a child is in the tree (invariant 2), so its entry is kept.
        unsafe { self.firsts[index].entry() }
    }

    /// The child that contains the target's place: the last one whose first element lies before it, or the
    /// first.
    #[inline]
    fn child_of(&self, target: &SearchTarget<'_>) -> usize {
        let is_behind = |index: usize| target.is_behind(self.orders[index], || self.first(index).key());
        match target.order() {
            None => partition_point(1, self.len, is_behind) - 1,
            Some(order) => {
                // Where the order decides, as it usually does, this reads no member.
                let start = self.orders[1..self.len].partition_point(|first| *first < order) + 1;
                let end =
                    start + self.orders[start..self.len].iter().take_while(|first| **first == order).count();
                partition_point(start, end, is_behind) - 1
            }
        }
    }

    /// The child that has the target's element.
    #[inline]
    fn child_with(&self, target: &SearchTarget<'_>, entry: Entry<'_>) -> usize {
        let index = self.child_of(target);
        let is_next = index + 1 < self.len && self.firsts[index + 1].leads_to(entry);
        index + usize::from(is_next)
    }

    /// The child that has the element with this rank, which becomes the rank within the child.
    #[inline]
    pub(super) fn child_of_rank(&self, rank: &mut usize) -> usize {
        for (index, count) in self.counts[..self.len].iter().enumerate() {
            let count = *count as usize;
            if *rank < count {
                return index;
            }
            *rank -= count;
        }
        unreachable!("the rank is below the number of elements")
    }

    fn insert(&mut self, new: &New<'_>, edge: Edge) -> Inserted {
        let index = self.child_of(&SearchTarget::Element(new.order, new.member));
        let is_last = index + 1 == self.len;
        let edge = Edge { left: edge.left && index == 0, right: edge.right && is_last };
        let inserted = self.child_mut(index).insert(new, edge);
        self.counts[index] += 1;
        if inserted.is_first {
            (self.orders[index], self.firsts[index]) = (new.order, new.link);
        }
        let is_first = inserted.is_first && index == 0;
        let Some(child) = inserted.sibling else { return Inserted { is_first, sibling: None } };
        self.counts[index] -= child.count;
        if self.len < FANOUT {
            self.insert_child(index + 1, child);
            return Inserted { is_first, sibling: None };
        }
        let middle = match index {
            _ if edge.right => FANOUT,
            0 if edge.left => 1,
            _ => FANOUT / 2,
        };
        let mut right = self.split_off(middle);
        if index < middle && middle < FANOUT {
            self.insert_child(index + 1, child);
        } else {
            right.insert_child(index + 1 - middle, child);
        }
        Inserted { is_first, sibling: Some(TreeNode::Inner(right).into_child()) }
    }

    fn remove(&mut self, rank: usize) -> Removal {
        let mut rank = rank;
        let index = self.child_of_rank(&mut rank);
        let child = self.child_mut(index);
        let removal = child.remove(rank);
        let is_sparse = child.len() <= child.len_max() / 4;
        self.counts[index] -= 1;
        let mut new_first = None;
        if let Some((order, first)) = removal.new_first {
            (self.orders[index], self.firsts[index]) = (order, first);
            new_first = (index == 0).then_some((order, first));
        }
        if self.counts[index] == 0 {
            drop(self.remove_child(index));
            if index == 0 && self.len > 0 {
                new_first = Some((self.orders[0], self.firsts[0]));
            }
        } else if is_sparse {
            self.try_merge(index);
        }
        Removal { link: removal.link, new_first }
    }

    /// Merges a sparse child with a neighbour, if together they leave space.
    fn try_merge(&mut self, index: usize) {
        let left = index.saturating_sub(1);
        for left in [left, index] {
            if left + 1 >= self.len {
                continue;
            }
            let len_max = self.child_mut(left).len_max();
            if self.child_mut(left).len() + self.child_mut(left + 1).len() <= len_max * 3 / 4 {
                let right = self.remove_child(left + 1);
                self.counts[left] += right.count;
                self.child_mut(left).append(right.node);
                return;
            }
        }
    }

    fn insert_child(&mut self, index: usize, child: Child) {
        let len = self.len;
        self.orders.copy_within(index..len, index + 1);
        self.firsts.copy_within(index..len, index + 1);
        self.counts.copy_within(index..len, index + 1);
        self.children[index..=len].rotate_right(1);
        self.orders[index] = child.order;
        self.firsts[index] = child.first;
        self.counts[index] = child.count;
        self.children[index] = Some(child.node);
        self.len += 1;
    }

    fn remove_child(&mut self, index: usize) -> Child {
        let len = self.len;
        let (order, first, count) = (self.orders[index], self.firsts[index], self.counts[index]);
        let node = self.children[index].take().expect("below the length there are children");
        self.orders.copy_within(index + 1..len, index);
        self.firsts.copy_within(index + 1..len, index);
        self.counts.copy_within(index + 1..len, index);
        self.children[index..len].rotate_left(1);
        self.len -= 1;
        Child { order, first, count, node }
    }

    /// Moves the children from `index` on into a new node.
    fn split_off(&mut self, index: usize) -> Box<Self> {
        let mut right = Self::new();
        let moved = self.len - index;
        right.orders[..moved].copy_from_slice(&self.orders[index..self.len]);
        right.firsts[..moved].copy_from_slice(&self.firsts[index..self.len]);
        right.counts[..moved].copy_from_slice(&self.counts[index..self.len]);
        for (to, from) in right.children.iter_mut().zip(&mut self.children[index..self.len]) {
            *to = from.take();
        }
        right.len = moved;
        self.len = index;
        right
    }

    /// Appends all children of the next node, which must fit.
    fn append(&mut self, right: &mut Self) {
        while right.len > 0 {
            let child = right.remove_child(0);
            self.insert_child(self.len, child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};
    use crate::memory::heap::Heap;
    use crate::table::Table;
    use crate::values::sorted_set::order::score_key;

    #[test]
    fn planted_faults_are_noticed() {
        let (heap, mut table, mut tree) = (Heap::new(), Table::new(), Tree::default());
        for number in 0..200u64 {
            let score = number as f64;
            let value = NewValue::Int(score.to_bits() as i64);
            let member = number.to_string();
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let upserted = table.upsert(&heap, hash, member.as_bytes(), value, ExpiryChange::Clear);
            // SAFETY: (1) the table is not changed below.
            unsafe { tree.insert(score_key(score), upserted.entry) };
        }
        assert_eq!(tree.check(), Ok(200));
        let plant = |tree: &mut Tree, fault: fn(&mut InnerNode)| {
            let Some(TreeNode::Inner(inner)) = &mut tree.root else { panic!("200 are more than a leaf") };
            fault(inner);
            tree.check()
        };
        let wrong_count = plant(&mut tree, |inner| inner.counts[1] += 1);
        assert!(wrong_count.is_err_and(|fault| fault.starts_with("tree 2")));
        plant(&mut tree, |inner| inner.counts[1] -= 1).expect("the fault is taken back");
        let wrong_first = plant(&mut tree, |inner| inner.orders[1] -= 1);
        assert!(wrong_first.is_err_and(|fault| fault.starts_with("tree 2")));
        plant(&mut tree, |inner| inner.orders[1] += 1).expect("the fault is taken back");
        let wrong_order = plant(&mut tree, |inner| {
            inner.children.swap(0, 1);
            inner.orders.swap(0, 1);
            inner.firsts.swap(0, 1);
            inner.counts.swap(0, 1);
        });
        assert!(wrong_order.is_err_and(|fault| fault.starts_with("tree 3")));
    }
}

//! Walking over a tree's elements, in order or in reverse, with prefetches of the entries ahead.
//!
//! Owns nothing: a cursor is a path from the root to a leaf, while the tree is borrowed. A step within a
//! leaf costs no more than the entry; a step to the next leaf climbs as far as necessary.

use super::leaf::TreeLeaf;
use super::tree::{InnerNode, Tree, TreeNode};
use crate::entry::Entry;

/// Largest number of inner levels; trees of up to 2^32 elements have fewer.
const DEPTH_MAX: usize = 12;

/// The place of an element in the tree, with its path.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    path: [Option<(&'a InnerNode, usize)>; DEPTH_MAX],
    depth: usize,
    leaf: &'a TreeLeaf,
    index: usize,
}

/// Number of elements ahead whose entries a walk prefetches.
const PREFETCH_DISTANCE: usize = 8;

impl<'a> Cursor<'a> {
    /// A cursor at the element with this rank, which is below the length.
    pub(super) fn new(tree: &'a Tree, rank: usize) -> Self {
        let (mut node, mut rank) = (tree.root.as_ref(), rank);
        let (mut path, mut depth) = ([None; DEPTH_MAX], 0);
        while let Some(TreeNode::Inner(inner)) = node {
            let index = inner.child_of_rank(&mut rank);
            path[depth] = Some((&**inner, index));
            depth += 1;
            node = inner.children[index].as_ref();
        }
        let Some(TreeNode::Leaf(leaf)) = node else { unreachable!("the rank is below the length") };
        Self { path, depth, leaf, index: rank }
    }

    /// The element.
    #[inline]
    pub(super) fn entry(&self) -> Entry<'a> {
        // SAFETY: (1) the tree, which is borrowed for `'a`, has the element, so its entry is kept.
        unsafe { self.leaf.link(self.index).entry() }
    }

    /// Prefetches the first elements of a walk of `count`, towards the end or the start.
    pub(super) fn prefetch(&self, count: usize, is_backward: bool) {
        for distance in 0..count.min(PREFETCH_DISTANCE) {
            let index = if is_backward { self.index.wrapping_sub(distance) } else { self.index + distance };
            self.leaf.prefetch(index);
        }
    }

    /// Moves to the next element. Returns whether there is one.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        self.index += 1;
        self.leaf.prefetch(self.index + PREFETCH_DISTANCE - 1);
        if self.index < self.leaf.len() {
            return true;
        }
        self.next_leaf()
    }

    /// Moves to the previous element. Returns whether there is one.
    #[inline]
    pub(super) fn step_back(&mut self) -> bool {
        if self.index > 0 {
            self.index -= 1;
            self.leaf.prefetch(self.index.wrapping_sub(PREFETCH_DISTANCE - 1));
            return true;
        }
        self.previous_leaf()
    }

    fn next_leaf(&mut self) -> bool {
        let climb = |(inner, index): (&'a InnerNode, usize)| (index + 1 < inner.len).then_some(index + 1);
        let Some(node) = self.turn(climb) else { return false };
        self.descend(node, |_| 0);
        self.prefetch(PREFETCH_DISTANCE, false);
        true
    }

    fn previous_leaf(&mut self) -> bool {
        let climb = |(_, index): (&'a InnerNode, usize)| index.checked_sub(1);
        let Some(node) = self.turn(climb) else { return false };
        self.descend(node, |len| len - 1);
        self.prefetch(PREFETCH_DISTANCE, true);
        true
    }

    /// Climbs to the next node that has another child in the requested direction, and enters that child.
    fn turn(&mut self, neighbour: impl Fn((&'a InnerNode, usize)) -> Option<usize>) -> Option<&'a TreeNode> {
        for depth in (0..self.depth).rev() {
            let (inner, index) = self.path[depth].expect("as deep as the path");
            if let Some(index) = neighbour((inner, index)) {
                self.path[depth] = Some((inner, index));
                self.depth = depth + 1;
                return inner.children[index].as_ref();
            }
        }
        None
    }

    fn descend(&mut self, node: &'a TreeNode, choose: impl Fn(usize) -> usize) {
        let mut node = node;
        while let TreeNode::Inner(inner) = node {
            let index = choose(inner.len);
            self.path[self.depth] = Some((&**inner, index));
            self.depth += 1;
            node = inner.children[index].as_ref().expect("below the length there are children");
        }
        let TreeNode::Leaf(leaf) = node else { unreachable!("inner nodes were visited before") };
        self.leaf = leaf;
        self.index = choose(leaf.len());
    }
}

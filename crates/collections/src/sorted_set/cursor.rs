//! Walking over a tree's elements, in order or in reverse, with the entries ahead asked for early.
//!
//! Owns nothing: a path from the root to a leaf, while the tree is borrowed. A step within a leaf costs no more than the
//! entry; one to the next leaf climbs as far as it must.

use super::leaf::Leaf;
use super::tree::{Inner, Node, Tree};
use crate::entry::Entry;

/// Inner nodes above each other, which no tree of up to 2^32 elements needs.
const DEPTH_MAX: usize = 12;

/// A place at an element of the tree, and the way there.
pub(super) struct Cursor<'a> {
    path: [Option<(&'a Inner, usize)>; DEPTH_MAX],
    depth: usize,
    leaf: &'a Leaf,
    index: usize,
}

/// Elements ahead whose entries a walk asks for.
const PREFETCH_DISTANCE: usize = 8;

impl<'a> Cursor<'a> {
    /// A cursor at the element with this rank, which is below the length.
    pub(super) fn new(tree: &'a Tree, rank: usize) -> Self {
        let (mut node, mut rank) = (tree.root.as_ref(), rank);
        let (mut path, mut depth) = ([None; DEPTH_MAX], 0);
        while let Some(Node::Inner(inner)) = node {
            let index = inner.child_of_rank(&mut rank);
            path[depth] = Some((&**inner, index));
            depth += 1;
            node = inner.children[index].as_ref();
        }
        let Some(Node::Leaf(leaf)) = node else { unreachable!("the rank is below the length") };
        Self { path, depth, leaf, index: rank }
    }

    /// The element.
    #[inline]
    pub(super) fn entry(&self) -> Entry<'a> {
        // SAFETY: (1) the tree, which is borrowed for `'a`, has the element, so its entry is kept.
        unsafe { self.leaf.link(self.index).entry() }
    }

    /// Asks for the elements that a walk of `count` begins with, towards the end or the start.
    pub(super) fn prefetch(&self, count: usize, is_backward: bool) {
        for distance in 0..count.min(PREFETCH_DISTANCE) {
            let index = if is_backward { self.index.wrapping_sub(distance) } else { self.index + distance };
            self.leaf.prefetch(index);
        }
    }

    /// Goes to the next element. Whether there is one.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        self.index += 1;
        self.leaf.prefetch(self.index + PREFETCH_DISTANCE - 1);
        if self.index < self.leaf.len() {
            return true;
        }
        self.next_leaf()
    }

    /// Goes to the element before. Whether there is one.
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
        let climb = |(inner, index): (&'a Inner, usize)| (index + 1 < inner.len).then_some(index + 1);
        let Some(node) = self.turn(climb) else { return false };
        self.descend(node, |_| 0);
        self.prefetch(PREFETCH_DISTANCE, false);
        true
    }

    fn previous_leaf(&mut self) -> bool {
        let climb = |(_, index): (&'a Inner, usize)| index.checked_sub(1);
        let Some(node) = self.turn(climb) else { return false };
        self.descend(node, |len| len - 1);
        self.prefetch(PREFETCH_DISTANCE, true);
        true
    }

    /// Climbs to the next node that has another child in the wanted direction, and turns to that child.
    fn turn(&mut self, neighbour: impl Fn((&'a Inner, usize)) -> Option<usize>) -> Option<&'a Node> {
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

    fn descend(&mut self, node: &'a Node, choose: impl Fn(usize) -> usize) {
        let mut node = node;
        while let Node::Inner(inner) = node {
            let index = choose(inner.len);
            self.path[self.depth] = Some((&**inner, index));
            self.depth += 1;
            node = inner.children[index].as_ref().expect("below the length there are children");
        }
        let Node::Leaf(leaf) = node else { unreachable!("all else was gone through") };
        self.leaf = leaf;
        self.index = choose(leaf.len());
    }
}

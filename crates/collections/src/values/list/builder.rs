//! A list that is filled from its left end to its right one: node by node, not element by element.

use super::elements::{NODE_SIZE_MAX, SMALL_SIZE_MAX, has_room};
use super::limits::listpack_size;
use super::node::ListNode;
use super::nodes::Nodes;
use super::{List, ListForm};
use crate::memory::heap::Heap;
use crate::packed::{Builder, Item};

/// A list that a loader fills.
#[derive(Default)]
pub struct ListBuilder {
    /// The nodes that are complete; none while the list may be small.
    nodes: Option<Box<Nodes>>,
    /// The elements behind them.
    run: Builder,
    run_listpack_size: usize,
}

impl ListBuilder {
    /// A builder of an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an element at the right end.
    // Passing the item through memory takes as long as the rest.
    #[inline(always)]
    pub fn push(&mut self, item: Item<'_>) {
        let item = match item {
            Item::Int(_) => item,
            // Foreign files may have an integer as its text, which has one form only here.
            Item::Bytes(text) => Item::of_text(text),
        };
        let size = item.len();
        let fits = if self.nodes.is_some() {
            has_room(self.run.size(), self.run.len(), size)
        } else {
            self.run.size() + size <= SMALL_SIZE_MAX
        };
        if !fits {
            self.end_run();
            if let Item::Bytes(text) = item
                && size > NODE_SIZE_MAX
            {
                self.push_node(ListNode::of(text), listpack_size(item), 1);
                return;
            }
        }
        self.run.push(item);
        self.run_listpack_size += listpack_size(item);
    }

    /// The list, in `heap` if it is small.
    #[must_use]
    pub fn finish(mut self, heap: &Heap) -> List {
        if self.nodes.is_none() {
            let (elements, listpack_size) = (self.run.finish(Some(heap)), self.run_listpack_size as u32);
            return List { form: ListForm::Small { elements, listpack_size, is_quicklist: false } };
        }
        self.end_run();
        self.nodes.map_or_else(List::default, |nodes| List { form: ListForm::Large(nodes) })
    }

    /// Makes a node of the elements, if there are any.
    fn end_run(&mut self) {
        let (len, size) = (self.run.len(), std::mem::take(&mut self.run_listpack_size));
        if len > 0 {
            let mut node = ListNode::of_several(self.run.finish(None), size);
            node.seal();
            self.push_node(node, size, len);
        } else {
            self.nodes.get_or_insert_default();
        }
    }

    fn push_node(&mut self, node: ListNode, listpack_size: usize, len: usize) {
        let nodes = self.nodes.get_or_insert_default();
        nodes.nodes.push_back(node);
        nodes.listpack_size += listpack_size;
        nodes.len += len;
    }
}

impl std::fmt::Debug for ListBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} elements in the run", self.run.len())
    }
}

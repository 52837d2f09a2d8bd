//! A node of a list: some elements in a packed sequence, or a single large one.

use super::elements::{Elements, End, NODE_SIZE_MAX, remove_equal};
use super::limits::listpack_size;
use crate::packed::Item;

/// One node.
#[derive(Clone)]
pub(super) struct ListNode {
    /// Number of elements: stored here, so that finding an index does not touch the elements of other
    /// nodes.
    pub(super) len: u32,
    /// Bytes that its elements take in a listpack; 0 for a single one, whose size follows from its length.
    pub(super) listpack_size: u32,
    pub(super) content: NodeContent,
}

const _: () = assert!(size_of::<ListNode>() == size_of::<NodeContent>() + 8);

#[derive(Clone)]
pub(super) enum NodeContent {
    Several(Elements),
    /// One element that is too large to share a node.
    Single(Box<[u8]>),
}

impl ListNode {
    /// A node of one element.
    pub(super) fn of(text: &[u8]) -> Self {
        if text.len() > NODE_SIZE_MAX {
            return Self { len: 1, listpack_size: 0, content: NodeContent::Single(text.into()) };
        }
        let mut elements = Elements::new();
        elements.push_back([text]);
        Self::of_several(elements, listpack_size(Item::of_text(text)))
    }

    pub(super) fn of_several(elements: Elements, listpack_size: usize) -> Self {
        let (len, listpack_size) = (elements.len() as u32, listpack_size as u32);
        Self { len, listpack_size, content: NodeContent::Several(elements) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> Item<'_> {
        match &self.content {
            NodeContent::Several(elements) => elements.at(index)[0],
            NodeContent::Single(text) => Item::Bytes(text),
        }
    }

    /// Whether an element of this size may be added.
    #[inline]
    pub(super) fn has_room_for(&self, text_size: usize) -> bool {
        match &self.content {
            NodeContent::Several(elements) => {
                elements.size() + text_size <= NODE_SIZE_MAX && elements.fits(text_size)
            }
            NodeContent::Single(_) => false,
        }
    }

    /// Adds an element that fits. `size`: its size in a listpack.
    #[inline]
    pub(super) fn insert(&mut self, index: usize, text: &[u8], size: usize) {
        if let NodeContent::Several(elements) = &mut self.content {
            elements.insert(index, [text]);
            self.len += 1;
            self.listpack_size += size as u32;
        }
    }

    pub(super) fn remove_range(&mut self, index: usize, count: usize) {
        let size = self.listpack_size(index, count);
        if let NodeContent::Several(elements) = &mut self.content {
            elements.remove_range(index, count);
            self.len -= count as u32;
            self.listpack_size -= size as u32;
        }
    }

    /// Removes elements that are equal to `text`, whose size in a listpack is `size`, at most `count_max` of them.
    /// Returns how many.
    pub(super) fn remove_equal(&mut self, text: &[u8], size: usize, from: End, count_max: usize) -> usize {
        let removed = match &mut self.content {
            NodeContent::Several(elements) => {
                let removed = remove_equal(elements, text, from, count_max);
                self.listpack_size -= (removed * size) as u32;
                removed
            }
            NodeContent::Single(own) => usize::from(count_max > 0 && **own == *text),
        };
        self.len -= removed as u32;
        removed
    }

    /// Whether an element is equal to `text`.
    pub(super) fn has(&self, text: &[u8]) -> bool {
        match &self.content {
            NodeContent::Several(elements) => elements.count_of(text) > 0,
            NodeContent::Single(own) => **own == *text,
        }
    }

    /// Splits off the elements from `index` on. Both parts must be nonempty.
    pub(super) fn split_off(&mut self, index: usize) -> Option<Self> {
        let NodeContent::Several(elements) = &mut self.content else { return None };
        let tail = elements.split_off(index);
        let size = tail.iter().map(|[item]| listpack_size(item)).sum();
        self.len = index as u32;
        self.listpack_size -= size as u32;
        Some(Self::of_several(tail, size))
    }

    /// Bytes that some of the elements take in a listpack. Of all, it is known.
    pub(super) fn listpack_size(&self, index: usize, count: usize) -> usize {
        match &self.content {
            NodeContent::Several(_) if count == self.len() => self.listpack_size as usize,
            NodeContent::Several(elements) => {
                elements.iter_from(index).take(count).map(|[item]| listpack_size(item)).sum()
            }
            NodeContent::Single(text) => listpack_size(Item::Bytes(text)),
        }
    }

    /// Bytes that it takes, approximately.
    pub(super) fn size(&self) -> usize {
        let content = match &self.content {
            NodeContent::Several(elements) => elements.memory_bytes(),
            NodeContent::Single(text) => text.len(),
        };
        size_of::<Self>() + content
    }
}

//! A node of a list: some elements in a packed sequence, or a single large one.
//!
//! A node at an end that is full is *sealed* when another one is added beyond it: its block gets the size of the
//! elements, which become a uniform sequence if they are equally long. It becomes a packed sequence again if another
//! change than a removal needs it.

use super::elements::{Elements, End, NODE_SIZE_MAX, has_room, remove_equal};
use super::limits::listpack_size;
use crate::packed::{Item, Uniform};

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
    /// Elements of a sealed node.
    Uniform(Uniform),
    /// One element that is too large to share a node.
    // Boxed twice, so that a node takes a word less than with a length here.
    Single(Box<Box<[u8]>>),
}

const _: () = assert!(size_of::<NodeContent>() == 16);

impl ListNode {
    /// A node of one element.
    pub(super) fn of(text: &[u8]) -> Self {
        if text.len() > NODE_SIZE_MAX {
            return Self { len: 1, listpack_size: 0, content: NodeContent::Single(Box::new(text.into())) };
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
            NodeContent::Uniform(elements) => Item::Bytes(elements.at(index)),
            NodeContent::Single(text) => Item::Bytes(text),
        }
    }

    /// Frees the memory reserved for more elements.
    #[cold]
    pub(super) fn seal(&mut self) {
        if let NodeContent::Several(elements) = &mut self.content {
            match Uniform::of(elements) {
                Some(uniform) => self.content = NodeContent::Uniform(uniform),
                None => elements.shrink_to_fit(),
            }
        }
    }

    /// Makes a uniform sequence a packed one again.
    #[cold]
    fn unseal(&mut self) {
        if let NodeContent::Uniform(elements) = &self.content {
            self.content = NodeContent::Several(elements.to_packed());
        }
    }

    /// Whether an element of this size may be added by [`Self::insert`].
    #[inline]
    pub(super) fn has_room_for(&self, text_size: usize) -> bool {
        match &self.content {
            NodeContent::Several(elements) => {
                has_room(elements.size(), elements.len(), text_size) && elements.fits(text_size)
            }
            // A node that is half full is worth the effort.
            NodeContent::Uniform(elements) => {
                let size = elements.len() * (elements.element_size() + 1);
                size <= NODE_SIZE_MAX / 2 && has_room(size, elements.len(), text_size)
            }
            NodeContent::Single(_) => false,
        }
    }

    /// Adds an element that fits ([`Self::has_room_for`]). `size`: its size in a listpack.
    #[inline]
    pub(super) fn insert(&mut self, index: usize, text: &[u8], size: usize) {
        self.unseal_if_uniform();
        if let NodeContent::Several(elements) = &mut self.content {
            elements.insert(index, [text]);
            self.len += 1;
            self.listpack_size += size as u32;
        }
    }

    /// Adds an element at an end of a sealed node, where others were removed. Returns whether it was possible.
    #[inline]
    pub(super) fn try_insert_sealed(&mut self, index: usize, text: &[u8], size: usize) -> bool {
        let NodeContent::Uniform(elements) = &mut self.content else { return false };
        let is_added = elements.try_insert(index, text);
        self.len += u32::from(is_added);
        self.listpack_size += if is_added { size as u32 } else { 0 };
        is_added
    }

    #[inline]
    fn unseal_if_uniform(&mut self) {
        if matches!(self.content, NodeContent::Uniform(_)) {
            self.unseal();
        }
    }

    pub(super) fn remove_range(&mut self, index: usize, count: usize) {
        let size = self.listpack_size(index, count);
        match &mut self.content {
            NodeContent::Several(elements) => elements.remove_range(index, count),
            NodeContent::Uniform(elements) => elements.remove_range(index, count),
            NodeContent::Single(_) => return,
        }
        self.len -= count as u32;
        self.listpack_size -= size as u32;
    }

    /// Removes elements that are equal to `text`, whose size in a listpack is `size`, at most `count_max` of them.
    /// Returns how many.
    pub(super) fn remove_equal(&mut self, text: &[u8], size: usize, from: End, count_max: usize) -> usize {
        if matches!(self.content, NodeContent::Uniform(_)) {
            if count_max == 0 || !self.has(text) {
                return 0;
            }
            self.unseal();
        }
        let removed = match &mut self.content {
            NodeContent::Several(elements) => {
                let removed = remove_equal(elements, text, from, count_max);
                self.listpack_size -= (removed * size) as u32;
                removed
            }
            NodeContent::Single(own) => usize::from(count_max > 0 && ***own == *text),
            NodeContent::Uniform(_) => unreachable!("made a packed sequence above"),
        };
        self.len -= removed as u32;
        removed
    }

    /// Whether an element is equal to `text`.
    pub(super) fn has(&self, text: &[u8]) -> bool {
        match &self.content {
            NodeContent::Several(elements) => elements.count_of(text) > 0,
            NodeContent::Uniform(elements) => elements.iter().any(|element| element == text),
            NodeContent::Single(own) => ***own == *text,
        }
    }

    /// Splits off the elements from `index` on. Both parts must be nonempty.
    pub(super) fn split_off(&mut self, index: usize) -> Option<Self> {
        let is_sealed = matches!(self.content, NodeContent::Uniform(_));
        self.unseal_if_uniform();
        let NodeContent::Several(elements) = &mut self.content else { return None };
        let tail = elements.split_off(index);
        if is_sealed {
            elements.shrink_to_fit();
        }
        let size = tail.iter().map(|[item]| listpack_size(item)).sum();
        self.len = index as u32;
        self.listpack_size -= size as u32;
        Some(Self::of_several(tail, size))
    }

    /// Bytes that some of the elements take in a listpack. Of all, it is known.
    pub(super) fn listpack_size(&self, index: usize, count: usize) -> usize {
        match &self.content {
            NodeContent::Several(_) | NodeContent::Uniform(_) if count == self.len() => {
                self.listpack_size as usize
            }
            NodeContent::Several(elements) => {
                elements.iter_from(index).take(count).map(|[item]| listpack_size(item)).sum()
            }
            NodeContent::Uniform(_) if count == 0 => 0,
            NodeContent::Uniform(elements) => count * listpack_size(Item::Bytes(elements.at(index))),
            NodeContent::Single(text) => listpack_size(Item::Bytes(text)),
        }
    }

    /// Replaces an element, if the node does not become too large. `size`: that of the element in a listpack.
    pub(super) fn try_set(&mut self, index: usize, text: &[u8], size: usize) -> bool {
        let old = self.at(index);
        let (old_size, old_len) = (listpack_size(old), old.len());
        let is_set = match &mut self.content {
            NodeContent::Several(elements) => {
                let fits = (text.len() <= old_len || elements.size() + text.len() <= NODE_SIZE_MAX + old_len)
                    && elements.fits(text.len());
                if fits {
                    elements.replace(index, 0, text);
                }
                fits
            }
            NodeContent::Uniform(elements) => elements.try_replace(index, text),
            NodeContent::Single(_) => false,
        };
        if is_set {
            self.listpack_size = (self.listpack_size as usize - old_size + size) as u32;
        }
        is_set
    }

    /// The elements of a node that becomes the whole list, if they are at most this many bytes.
    pub(super) fn take_elements(&mut self, size_max: usize) -> Option<Elements> {
        if let NodeContent::Uniform(elements) = &self.content
            && elements.len() * (elements.element_size() + 1) <= size_max
        {
            self.unseal();
        }
        match &mut self.content {
            NodeContent::Several(elements) if elements.size() <= size_max => Some(std::mem::take(elements)),
            _ => None,
        }
    }

    /// Bytes that the elements take in memory.
    pub(super) fn content_bytes(&self) -> usize {
        match &self.content {
            NodeContent::Several(elements) => elements.memory_bytes(),
            NodeContent::Uniform(elements) => elements.memory_bytes(),
            NodeContent::Single(text) => size_of::<Box<[u8]>>() + text.len(),
        }
    }

    /// Bytes that it takes, approximately.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.content_bytes()
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) {
        assert!(self.len > 0, "an empty node");
        let elements = match &self.content {
            NodeContent::Several(elements) => elements,
            NodeContent::Uniform(elements) => {
                elements.check().expect("a sound sequence");
                &elements.to_packed()
            }
            NodeContent::Single(_) => return,
        };
        let size: usize = elements.iter().map(|[item]| listpack_size(item)).sum();
        assert_eq!(size, self.listpack_size as usize);
        elements.check().expect("a sound sequence");
        assert_eq!(elements.len(), self.len());
    }
}

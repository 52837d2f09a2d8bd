//! Lists: one packed sequence while they are small, then a deque of nodes.
//!
//! Lists are mostly used at their ends: a packed sequence has a gap before the elements (`packed/gap.rs`),
//! so that changes at either end move none. A change elsewhere moves elements and the offsets of the index;
//! so nodes are small ([`elements::NODE_SIZE_MAX`]), smaller than `list-max-listpack-size` permits. An element larger
//! than a node is a separate node. Finding an index walks the nodes, whose lengths are stored side by side,
//! from the nearer end; within a node the packed sequence's index finds it.
//!
//! The encoding of `OBJECT ENCODING` is independent of the form: the size as a listpack is counted, and
//! compared with the directive before elements are added ([`List::expect`]) and after removals
//! ([`List::shrunk`]), as in Redis.
//!
//! Invariants ([`List::check`])
//! 1. `listpack_size` is the size of all elements in a listpack, without its head and end.
//! 2. If there are several nodes, none is empty; `len` is the sum of their lengths.

mod builder;
mod elements;
mod limits;
mod node;
mod nodes;
pub(crate) mod order;
mod tracked;

use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::packed::Item;
use crate::values::tracking::{Tracker, Walkable};

pub use builder::ListBuilder;
pub use elements::End;
use elements::{Elements, SMALL_SIZE_MAX, remove_equal};
pub use limits::ListLimits;
use limits::{EMPTY_LISTPACK_SIZE, listpack_size};
use nodes::{CHEAP_NODE_COUNT_MAX, Nodes};
pub use order::ListPart;

/// A list.
#[derive(Debug)]
pub struct List {
    form: ListForm,
}

enum ListForm {
    Small { elements: Elements, listpack_size: u32, is_quicklist: bool },
    Large(Box<Nodes>),
}

impl List {
    /// Number of elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.form {
            ListForm::Small { elements, .. } => elements.len(),
            ListForm::Large(nodes) => nodes.len(),
        }
    }

    /// See [`crate::Object::prefetch_parts`].
    #[inline(always)]
    pub(crate) fn prefetch_parts(&self) {
        match &self.form {
            ListForm::Small { elements, .. } => elements.prefetch_head(),
            ListForm::Large(nodes) => prefetch::line(std::ptr::from_ref(&**nodes).addr()),
        }
    }

    /// See [`crate::Object::prefetch_index`].
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        match &self.form {
            ListForm::Small { elements, .. } => elements.prefetch_index(),
            ListForm::Large(nodes) => nodes.prefetch_ends(),
        }
    }

    /// The element at an index. Panics beyond the end.
    #[inline]
    #[must_use]
    pub fn at(&self, index: usize) -> Item<'_> {
        match &self.form {
            ListForm::Small { elements, .. } => elements.at(index)[0],
            ListForm::Large(nodes) => nodes.at(index),
        }
    }

    /// The index of the element at one end. Panics if the list is empty.
    #[inline]
    #[must_use]
    pub fn index_of_end(&self, end: End) -> usize {
        match end {
            End::Left => 0,
            End::Right => self.len() - 1,
        }
    }

    /// Visits the elements from `from` on until `visit` returns false.
    pub fn walk<'a>(&'a self, from: usize, mut visit: impl FnMut(usize, Item<'a>) -> bool) {
        match &self.form {
            ListForm::Small { elements, .. } => {
                for (index, [item]) in (from..).zip(elements.iter_from(from)) {
                    if !visit(index, item) {
                        return;
                    }
                }
            }
            ListForm::Large(nodes) => nodes.walk(from, visit),
        }
    }

    /// Visits the elements from `from` on towards the front until `visit` returns false.
    pub fn walk_back<'a>(&'a self, from: usize, mut visit: impl FnMut(usize, Item<'a>) -> bool) {
        match &self.form {
            ListForm::Small { elements, .. } => {
                for index in (0..=from).rev() {
                    if !visit(index, elements.at(index)[0]) {
                        return;
                    }
                }
            }
            ListForm::Large(nodes) => nodes.walk_back(from, visit),
        }
    }

    /// Updates the encoding before this many elements with this many bytes of text are added.
    #[inline]
    pub fn expect(&mut self, count: usize, text_size: usize, limits: ListLimits) {
        if !self.is_quicklist()
            && limits.are_exceeded(self.listpack_size() + text_size, self.len().saturating_add(count))
        {
            self.set_quicklist(true);
        }
    }

    /// Updates the encoding after elements were removed or became smaller.
    #[inline]
    pub fn shrunk(&mut self, limits: ListLimits) {
        if self.is_quicklist()
            && limits.are_half_kept(self.listpack_size(), self.len())
            && !self.has_element_beyond(limits)
        {
            self.set_quicklist(false);
        }
    }

    /// Updates the encoding after the elements were added otherwise than one by one.
    pub fn rebalance(&mut self, limits: ListLimits) {
        let exceeded = limits.are_exceeded(self.listpack_size(), self.len());
        self.set_quicklist(exceeded);
    }

    /// Makes the encoding `quicklist`, regardless of the size.
    pub fn report_as_quicklist(&mut self) {
        self.set_quicklist(true);
    }

    /// Adds an element at one end.
    #[inline]
    pub fn push(&mut self, end: End, text: &[u8]) {
        let index = if end == End::Left { 0 } else { self.len() };
        self.insert(index, text);
    }

    /// Adds an element before the element at `index`, or at the end. Panics beyond that.
    pub fn insert(&mut self, index: usize, text: &[u8]) {
        if let ListForm::Small { elements, listpack_size: sum, .. } = &mut self.form {
            if elements.size() + text.len() <= SMALL_SIZE_MAX && elements.fits(text.len()) {
                *sum += listpack_size(Item::of_text(text)) as u32;
                elements.insert(index, [text]);
                return;
            }
            self.make_large();
        }
        if let ListForm::Large(nodes) = &mut self.form {
            nodes.insert(index, text);
        }
    }

    /// Replaces an element. Panics beyond the end.
    pub fn set(&mut self, index: usize, text: &[u8]) {
        if let ListForm::Small { elements, listpack_size: sum, .. } = &mut self.form {
            let old = elements.at(index)[0];
            if elements.size() + text.len() <= SMALL_SIZE_MAX + old.len() && elements.fits(text.len()) {
                *sum -= listpack_size(old) as u32;
                *sum += listpack_size(Item::of_text(text)) as u32;
                elements.replace(index, 0, text);
                return;
            }
            self.make_large();
        }
        if let ListForm::Large(nodes) = &mut self.form {
            nodes.set(index, text);
        }
    }

    /// Removes an element after passing it to `visit`. Panics beyond the end.
    #[inline]
    pub fn take(&mut self, index: usize, visit: impl FnOnce(Item<'_>)) {
        match &mut self.form {
            ListForm::Small { elements, listpack_size: sum, .. } => elements.take(index, |[item]| {
                *sum -= listpack_size(item) as u32;
                visit(item);
            }),
            ListForm::Large(nodes) => {
                let place = nodes.place(index);
                if nodes.keeps_form_without(place) {
                    return nodes.take(place, visit);
                }
                visit(nodes.at(index));
                self.remove_range(index, 1);
            }
        }
    }

    /// Removes `count` elements from `index` on. Panics beyond the end.
    pub fn remove_range(&mut self, index: usize, count: usize) {
        drop(self.cut(index, count));
    }

    /// [`Self::remove_range`]; returns most of the removed elements, if dropping them may take long.
    pub fn cut(&mut self, index: usize, count: usize) -> Option<List> {
        match &mut self.form {
            ListForm::Small { elements, listpack_size: sum, .. } => {
                let removed = elements.iter_from(index).take(count);
                *sum -= removed.map(|[item]| listpack_size(item) as u32).sum::<u32>();
                elements.remove_range(index, count);
                None
            }
            ListForm::Large(nodes) => {
                let removed = nodes.cut(index, count);
                self.become_small_if_few();
                removed.map(|nodes| Self { form: ListForm::Large(Box::new(nodes)) })
            }
        }
    }

    /// Removes at most `count_max` elements equal to `text`, beginning at one end, in one pass. Returns the
    /// number removed.
    pub fn remove_equal(&mut self, text: &[u8], from: End, count_max: usize) -> usize {
        match &mut self.form {
            ListForm::Small { elements, listpack_size: sum, .. } => {
                let removed = remove_equal(elements, text, from, count_max);
                *sum -= (removed * listpack_size(Item::of_text(text))) as u32;
                removed
            }
            ListForm::Large(nodes) => {
                let removed = nodes.remove_equal(text, from, count_max);
                self.become_small_if_few();
                removed
            }
        }
    }

    /// The name of the encoding, as `OBJECT ENCODING` reports it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        if self.is_quicklist() { "quicklist" } else { "listpack" }
    }

    /// Number of packed sequences that hold the elements.
    #[must_use]
    pub fn node_count(&self) -> usize {
        match &self.form {
            ListForm::Small { .. } => 1,
            ListForm::Large(nodes) => nodes.node_count(),
        }
    }

    /// Bytes of memory in addition to the value itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.estimated_bytes(usize::MAX)
    }

    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        match &self.form {
            ListForm::Small { elements, .. } => elements.memory_bytes(),
            ListForm::Large(nodes) => nodes.estimated_bytes(sample_len),
        }
    }

    /// Whether dropping it may take long.
    #[must_use]
    pub fn is_costly_to_drop(&self) -> bool {
        matches!(&self.form, ListForm::Large(nodes) if nodes.node_count() > CHEAP_NODE_COUNT_MAX)
    }

    /// Reserves space in `heap` for these elements, if the list has no memory yet.
    pub fn reserve<'e>(&mut self, heap: &Heap, elements: impl ExactSizeIterator<Item = &'e [u8]> + Clone) {
        if let ListForm::Small { elements: own, .. } = &mut self.form
            && elements.clone().map(<[u8]>::len).sum::<usize>() <= SMALL_SIZE_MAX
        {
            own.reserve_in(heap, elements.len(), elements);
        }
    }

    /// See [`crate::Object::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match &mut self.form {
            ListForm::Small { elements, .. } => elements.relocate(heap),
            ListForm::Large(_) => false,
        }
    }

    /// A deep copy, in `heap` if it is small.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        let form = match &self.form {
            ListForm::Small { elements, listpack_size, is_quicklist } => ListForm::Small {
                elements: elements.to_copy(heap),
                listpack_size: *listpack_size,
                is_quicklist: *is_quicklist,
            },
            ListForm::Large(nodes) => ListForm::Large(nodes.clone()),
        };
        Self { form }
    }

    /// Whether a snapshot writes it in portions.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.form, ListForm::Large(nodes) if nodes.is_large())
    }

    /// See [`crate::Object::tracked`].
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        match &self.form {
            ListForm::Large(nodes) => Some(nodes.tracked()),
            ListForm::Small { .. } => None,
        }
    }

    /// Number of [`ListPart`]s in which a snapshot writes it. `O(nodes)`.
    #[must_use]
    pub fn part_count(&self) -> usize {
        match &self.form {
            ListForm::Large(nodes) => nodes.part_count(),
            ListForm::Small { .. } => usize::from(self.len() > 0),
        }
    }

    /// Whether the encoding is `quicklist`.
    #[inline]
    #[must_use]
    pub fn is_quicklist(&self) -> bool {
        match &self.form {
            ListForm::Small { is_quicklist, .. } => *is_quicklist,
            ListForm::Large(nodes) => nodes.is_quicklist,
        }
    }

    #[inline]
    fn set_quicklist(&mut self, named_so: bool) {
        match &mut self.form {
            ListForm::Small { is_quicklist, .. } => *is_quicklist = named_so,
            ListForm::Large(nodes) => nodes.is_quicklist = named_so,
        }
    }

    /// Size of the list as one listpack, in bytes.
    #[inline]
    fn listpack_size(&self) -> usize {
        EMPTY_LISTPACK_SIZE
            + match &self.form {
                ListForm::Small { listpack_size, .. } => *listpack_size as usize,
                ListForm::Large(nodes) => nodes.listpack_size,
            }
    }

    fn has_element_beyond(&self, limits: ListLimits) -> bool {
        matches!(&self.form, ListForm::Large(nodes) if nodes.has_element_beyond(limits))
    }

    fn become_small_if_few(&mut self) {
        if let ListForm::Large(nodes) = &mut self.form
            && let Some((elements, listpack_size, is_quicklist)) = nodes.take_small()
        {
            self.form = ListForm::Small { elements, listpack_size, is_quicklist };
        }
    }

    #[cold]
    fn make_large(&mut self) {
        if let ListForm::Small { elements, listpack_size, is_quicklist } = &mut self.form {
            // Nodes are not moved by a defragmentation, so none may have a block of the heap.
            let mut own = Elements::new();
            own.append(elements);
            *elements = Elements::new();
            let nodes = Nodes::of_small(own, *listpack_size, *is_quicklist);
            self.form = ListForm::Large(Box::new(nodes));
        }
    }

    /// Checks the invariants.
    #[doc(hidden)]
    pub fn check(&self) {
        match &self.form {
            ListForm::Small { elements, listpack_size: sum, .. } => {
                elements.check().expect("a sound sequence");
                let counted: usize = elements.iter().map(|[item]| listpack_size(item)).sum();
                assert_eq!(counted, *sum as usize);
            }
            ListForm::Large(nodes) => nodes.check(),
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self { form: ListForm::Small { elements: Elements::new(), listpack_size: 0, is_quicklist: false } }
    }
}

impl std::fmt::Debug for ListForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Small { elements, .. } => write!(f, "{} elements in one node", elements.len()),
            Self::Large(nodes) => write!(f, "{} elements in {} nodes", nodes.len(), nodes.node_count()),
        }
    }
}

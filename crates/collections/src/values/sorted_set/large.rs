//! The large form of a sorted set: a table from member to score, and a tree of the same entries in order.
//!
//! Owns both. Invariants ([`Large::check`])
//! 1. The tree has exactly the entries of the table, each under the order of the score that it holds.
//! 2. An entry's block stays the same until it is removed from the tree: a score is overwritten in place,
//!    and nothing here sets an expiry or defragments.

use super::SortedSetUpdated;
use super::cursor::Cursor;
use super::leaf::{Link, score_of};
use super::order::{SearchTarget, score_key};
use super::tree::Tree;
use crate::entry::Entry;
use crate::entry::owned_entry::{ExpiryChange, NewValue};
use crate::memory::heap::Heap;
use crate::table::Table;
use crate::values::parameters::AllocContext;
use crate::values::tracking::{Element, Grains, PortionLimits, Tracker, TrackingState, Walkable, is_large};

#[derive(Default)]
pub(super) struct Large {
    table: Table,
    tree: Tree,
    tracker: Tracker,
    /// Whether the encoding is reported as `listpack`, as thresholds may be set very high.
    pub(super) is_reported_as_listpack: bool,
}

impl Large {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn estimated_bytes(&self, sample_len: usize) -> usize {
        let entries = self.table.iter().take(SAMPLE_LEN).map(Entry::allocated_bytes).sum::<usize>();
        let sampled = self.len().clamp(1, SAMPLE_LEN);
        size_of::<Self>()
            + self.table.memory_bytes()
            + self.tree.estimated_bytes(sample_len)
            + entries * self.len() / sampled
    }

    #[inline]
    pub(super) fn score(&self, hash: u64, member: &[u8]) -> Option<f64> {
        self.table.find(hash, member).map(score_of)
    }

    pub(super) fn rank(&self, hash: u64, member: &[u8]) -> Option<(usize, f64)> {
        let entry = self.table.find(hash, member)?;
        let score = score_of(entry);
        Some((self.tree.rank_of(score_key(score), entry), score))
    }

    pub(super) fn position(&self, target: &SearchTarget<'_>) -> usize {
        self.tree.rank(target)
    }

    pub(super) fn cursor(&self, rank: usize) -> Cursor<'_> {
        Cursor::new(&self.tree, rank)
    }

    /// Adds an absent member.
    pub(super) fn insert(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8], score: f64) {
        self.before_change(hash);
        let value = NewValue::Int(score.to_bits() as i64);
        let upserted = self.table.upsert(alloc.heap, hash, member, value, ExpiryChange::Clear);
        assert!(!upserted.existed, "the member is not there");
        // SAFETY: (1) (invariant 2) the entry stays until `remove_at` removes it from the tree, and is
        // inserted once.
        unsafe { self.tree.insert(score_key(score), upserted.entry) };
    }

    /// Sets a member's score to the result of `decide`, which receives the present score; on `None` nothing
    /// changes.
    pub(super) fn update(
        &mut self,
        alloc: AllocContext<'_>,
        hash: u64,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> SortedSetUpdated {
        self.before_change(hash);
        let Some(entry) = self.table.find_mut(alloc.heap, hash, member) else {
            let new = decide(None);
            if let Some(score) = new {
                self.insert(alloc, hash, member, score);
            }
            return SortedSetUpdated { old: None, new };
        };
        let mut entry = entry;
        let old = score_of(entry.entry());
        let new = decide(Some(old));
        let Some(score) = new else { return SortedSetUpdated { old: Some(old), new } };
        let (old_order, order) = (score_key(old), score_key(score));
        let bits = score.to_bits() as i64;
        if order == old_order || self.tree.try_reorder(old_order, order, entry.entry()) {
            entry.overwrite_int(bits);
            return SortedSetUpdated { old: Some(old), new };
        }
        self.tree.remove_at(self.tree.rank_of(old_order, entry.entry()));
        entry.overwrite_int(bits);
        // SAFETY: (1) as in `insert`.
        unsafe { self.tree.insert(order, entry.entry()) };
        SortedSetUpdated { old: Some(old), new }
    }

    pub(super) fn remove(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8]) -> Option<f64> {
        self.before_change(hash);
        let entry = self.table.find(hash, member)?;
        let score = score_of(entry);
        self.tree.remove_at(self.tree.rank_of(score_key(score), entry));
        drop(self.table.remove(alloc.heap, hash, member));
        Some(score)
    }

    /// Removes `count` elements from rank `start` on.
    pub(super) fn remove_ranks(&mut self, alloc: AllocContext<'_>, start: usize, count: usize) {
        let kept_len_max = if self.tracker.is_set() { KEPT_LEN_MAX.min(count) } else { 0 };
        if self.len() - count <= kept_len_max {
            return self.keep_ranks(alloc, start, count);
        }
        let mut links = [Link::NONE; REMOVED_TOGETHER];
        let mut left = count;
        while left > 0 {
            let links = &mut links[..left.min(REMOVED_TOGETHER)];
            left -= links.len();
            for link in links.iter_mut() {
                *link = self.tree.remove_at(start);
                link.prefetch();
            }
            // SAFETY: (1) the table still has the entry.
            let hash_of = |link: &Link| alloc.hasher.hash(unsafe { link.entry() }.key());
            links.iter().for_each(|link| self.table.prefetch_home(hash_of(link)));
            for link in links.iter() {
                // SAFETY: (1) the table still has the entry.
                let entry = unsafe { link.entry() };
                // The tree no longer has the element; the snapshot preserves the table's entry.
                let hash = hash_of(link);
                self.before_change(hash);
                let removed = self.table.remove(alloc.heap, hash, entry.key());
                if !removed.as_ref().is_some_and(|removed| link.leads_to(removed.entry())) {
                    // The entry is not freed: the tree still links to it.
                    std::mem::forget(removed);
                    panic!("each member exists once");
                }
            }
        }
    }

    /// Removes `count` elements from rank `start` on by copying the others. A snapshot takes over the former contents, so
    /// that nothing is preserved element by element.
    fn keep_ranks(&mut self, alloc: AllocContext<'_>, start: usize, count: usize) {
        let after = start + count;
        let elements = self.elements(0, start).chain(self.elements(after, self.len() - after));
        let mut kept = Self::of_ordered(alloc, elements);
        kept.is_reported_as_listpack = self.is_reported_as_listpack;
        *self = kept;
    }

    /// The elements from rank `start` on, `count` of them.
    fn elements(&self, start: usize, count: usize) -> impl Iterator<Item = (&[u8], f64)> {
        let mut cursor = (count > 0).then(|| self.cursor(start));
        (0..count).map_while(move |_| {
            let entry = cursor.as_ref()?.entry();
            if !cursor.as_mut()?.step() {
                cursor = None;
            }
            Some((entry.key(), score_of(entry)))
        })
    }

    /// A set of distinct members given in order.
    pub(super) fn of_ordered<'m>(
        alloc: AllocContext<'_>,
        elements: impl Iterator<Item = (&'m [u8], f64)>,
    ) -> Self {
        let mut table = Table::default();
        let mut links = Vec::with_capacity(elements.size_hint().0);
        let mut together = Vec::with_capacity(ADDED_TOGETHER);
        let mut elements = elements.peekable();
        while elements.peek().is_some() {
            for (member, score) in elements.by_ref().take(ADDED_TOGETHER) {
                let hash = alloc.hasher.hash(member);
                table.prefetch_home(hash);
                together.push((hash, member, score));
            }
            for (hash, member, score) in together.drain(..) {
                let entry =
                    table.add_new(alloc.heap, hash, member, NewValue::Int(score.to_bits() as i64), None);
                // SAFETY: (1) as in `insert`.
                links.push((score_key(score), unsafe { Link::new(entry) }));
            }
        }
        Self {
            table,
            tree: Tree::of_ordered(&links),
            tracker: Tracker::default(),
            is_reported_as_listpack: false,
        }
    }

    pub(super) fn to_copy(&self, heap: &Heap) -> Self {
        let table = self.table.to_copy(heap);
        let mut entries: Vec<_> = table.iter().map(|entry| (score_key(score_of(entry)), entry)).collect();
        entries.sort_unstable_by(|(a, left), (b, right)| a.cmp(b).then_with(|| left.key().cmp(right.key())));
        // SAFETY: (1) as in `insert`.
        let link = |(order, entry)| (order, unsafe { Link::new(entry) });
        let links: Vec<_> = entries.into_iter().map(link).collect();
        let tree = Tree::of_ordered(&links);
        Self {
            table,
            tree,
            tracker: Tracker::default(),
            is_reported_as_listpack: self.is_reported_as_listpack,
        }
    }

    /// Verifies the invariants in the header of this file, the table's and the tree's.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) -> Result<(), String> {
        self.table.check()?;
        if self.tree.check()? != self.table.len() {
            return Err("large 1: table and tree differ in length".to_owned());
        }
        let mut last_rank = vec![false; self.len()];
        for entry in self.table.iter() {
            let rank = self.tree.rank_of(score_key(score_of(entry)), entry);
            if std::mem::replace(&mut last_rank[rank], true) {
                return Err("large 1: two entries have one rank".to_owned());
            }
        }
        Ok(())
    }
}

impl Large {
    pub(super) fn is_large(&self) -> bool {
        is_large(self.len(), || self.estimated_bytes(SAMPLE_LEN))
    }

    pub(super) fn tracked(&self) -> (&Tracker, &dyn Walkable) {
        (&self.tracker, self)
    }

    /// Called before a member with this hash is added, changed or removed from the table.
    #[inline]
    fn before_change(&mut self, hash: u64) {
        if self.tracker.is_set() {
            self.tracker.preserve(|state| state.preserve_in_table(&self.table, hash, element_of, is_ahead));
        }
    }
}

impl Walkable for Large {
    fn held_size(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn walk(&self, state: &mut TrackingState, limits: PortionLimits) -> bool {
        let before = match &state.last {
            None => self.len(),
            Some((order, member)) => self.tree.rank(&SearchTarget::Element(*order, member)),
        };
        let Some(start) = before.checked_sub(1) else { return true };
        let mut cursor = self.cursor(start);
        cursor.prefetch(before, true);
        loop {
            let entry = cursor.entry();
            let position = || Table::position(state.hasher.hash(entry.key())) << Grains::TABLE_SHIFT;
            if !state.table.has_marks() || !state.table.is_preserved(position()) {
                state.sink.add(element_of(entry));
            }
            state.visit(1);
            if state.is_enough(limits) {
                state.last = Some((score_key(score_of(entry)), entry.key().into()));
                return false;
            }
            if !cursor.step_back() {
                return true;
            }
        }
    }
}

impl Drop for Large {
    #[inline]
    fn drop(&mut self) {
        if self.tracker.is_set() {
            let Self { table, tree, tracker, is_reported_as_listpack } = self;
            tracker.detach(|| {
                let (table, tree) = (std::mem::take(table), std::mem::take(tree));
                let is_reported_as_listpack = *is_reported_as_listpack;
                Box::new(Self { table, tree, tracker: Tracker::default(), is_reported_as_listpack })
            });
        }
    }
}

fn element_of(entry: Entry<'_>) -> Element<'_> {
    Element::Scored(entry.key(), score_of(entry))
}

/// Whether a walk that visited `last` before has not visited an entry.
fn is_ahead(entry: Entry<'_>, last: Option<&(u64, Box<[u8]>)>) -> bool {
    last.is_none_or(|(order, member)| {
        let own = score_key(score_of(entry));
        own < *order || own == *order && entry.key() < &**member
    })
}

/// If a snapshot needs the elements and a removal leaves at most so many, these are copied.
const KEPT_LEN_MAX: usize = if crate::IS_TINY { 30 } else { 16 << 10 };

/// Number of elements removed from the tree before they are removed from the table: their cache misses
/// overlap.
const REMOVED_TOGETHER: usize = 16;

/// Number of elements whose places in the table are prefetched together.
const ADDED_TOGETHER: usize = 16;

/// Number of entries sampled to estimate the size of all.
const SAMPLE_LEN: usize = 64;

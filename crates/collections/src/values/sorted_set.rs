//! A sorted set: members, each with a score, in the order of scores; the value of the `Z` family of
//! commands.
//!
//! | form | when |
//! |---|---|
//! | [`Brief`] | up to 15 members of 1 KiB together: one allocation without an index |
//! | [`Small`] | up to 128 members of 32 KiB together: one allocation |
//! | [`Large`] | more, or a member of more than 4 KiB: a table and a tree |
//!
//! The encoding reported to the client (`listpack`, `skiplist`) follows Redis's thresholds
//! ([`SortedSetLimits`]) and is independent of the form. The encoding never changes back from `skiplist`, nor
//! the form to a smaller one.
//!
//! Owns its members. Scores are never NaN; -0 and 0 are equal.
//! Start reading at [`SortedSet::update`].

mod brief;
mod copying;
mod cursor;
mod large;
mod leaf;
mod member_len;
mod order;
mod small;
mod tree;

pub use order::Bound;

use crate::memory::prefetch;
use crate::values::parameters::AllocContext;
use crate::values::tracking::{Tracker, Walkable};
use brief::{Brief, BriefIter};
use cursor::Cursor;
use large::Large;
use leaf::score_of;
use order::SearchTarget;
use small::{Small, tag_of};

/// The limits up to which a sorted set's encoding is `listpack`.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// `zset-max-listpack-entries`
    pub entry_count_max: usize,
    /// `zset-max-listpack-value`, in bytes
    pub value_size_max: usize,
}

impl SortedSetLimits {
    /// Whether a set of this length, to which the member has been added, is too large for a `listpack`.
    #[inline]
    fn are_passed(self, len: usize, member: &[u8]) -> bool {
        len > self.entry_count_max || member.len() > self.value_size_max
    }
}

/// The value of a sorted set's key.
pub struct SortedSet {
    form: SortedSetForm,
}

enum SortedSetForm {
    Brief { brief: Brief, is_skiplist: bool },
    Small { small: Small, is_skiplist: bool },
    Large(Box<Large>),
}

const _: () = assert!(size_of::<SortedSet>() == 16);

/// Elements from which on another thread drops a large set.
const COSTLY_LEN_MIN: usize = 64;

/// Elements up to which a set is filled one by one, as they may fit the small form.
const FEW_LEN_MAX: usize = if crate::IS_TINY { 20 } else { 200 };

/// The result of an update of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SortedSetUpdated {
    /// The previous score; `None` if the member did not exist.
    pub old: Option<f64>,
    /// The new score, if one was set.
    pub new: Option<f64>,
}

impl SortedSetUpdated {
    /// Whether the member is new.
    #[must_use]
    pub fn is_added(self) -> bool {
        self.old.is_none() && self.new.is_some()
    }
}

impl SortedSet {
    /// See [`crate::Object::prefetch_parts`].
    #[inline(always)]
    pub(crate) fn prefetch_parts(&self) {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.prefetch_head(),
            SortedSetForm::Small { small, .. } => small.prefetch_head(),
            SortedSetForm::Large(large) => prefetch::line(std::ptr::from_ref(&**large).addr()),
        }
    }

    /// See [`crate::Object::prefetch_index`].
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        if let SortedSetForm::Small { small, .. } = &self.form {
            small.prefetch_index();
        }
    }

    /// An empty set whose encoding is `skiplist` from the start.
    #[must_use]
    pub fn new_skiplist() -> Self {
        Self { form: SortedSetForm::Brief { brief: Brief::default(), is_skiplist: true } }
    }

    /// Prepares for adding this many members, the longest of this many bytes: if they can't all be in a
    /// `listpack`, the encoding becomes `skiplist`.
    pub fn prepare(&mut self, entry_count: usize, value_size: usize, limits: SortedSetLimits) {
        if entry_count > limits.entry_count_max || value_size > limits.value_size_max {
            self.report_as_skiplist();
        }
    }

    /// Reports the encoding as `skiplist` from now on.
    fn report_as_skiplist(&mut self) {
        match &mut self.form {
            SortedSetForm::Brief { is_skiplist, .. } | SortedSetForm::Small { is_skiplist, .. } => {
                *is_skiplist = true;
            }
            SortedSetForm::Large(large) => large.is_reported_as_listpack = false,
        }
    }

    /// Reserves space for elements that are about to be added to an empty set, if they are few.
    pub fn reserve<'m>(
        &mut self,
        alloc: AllocContext<'_>,
        elements: impl Iterator<Item = (&'m [u8], f64)> + Clone,
    ) {
        let SortedSetForm::Brief { brief, is_skiplist } = &mut self.form else { return };
        let (count, size) =
            elements.clone().fold((0, 0), |(count, size), (member, _)| (count + 1, size + member.len()));
        if brief.len() > 0 || count < 2 {
            return;
        }
        if brief.has_room_for_all(count, size) {
            brief.reserve(alloc.heap, count, size, elements.map(|(_, score)| score));
        } else if Small::holds(count, size) {
            let (small, is_skiplist) = (Small::with_room(alloc.heap, count, size), *is_skiplist);
            self.form = SortedSetForm::Small { small, is_skiplist };
        }
    }

    /// Gives back space that [`Self::reserve`] has reserved for members that were equal.
    #[cold]
    pub fn shrink_if_roomy(&mut self, alloc: AllocContext<'_>) {
        match &mut self.form {
            SortedSetForm::Brief { brief, .. } => brief.shrink_if_roomy(alloc.heap),
            SortedSetForm::Small { small, is_skiplist } => match small.to_brief(alloc.heap) {
                Some(brief) => self.form = SortedSetForm::Brief { brief, is_skiplist: *is_skiplist },
                None => small.make_compact(alloc.heap),
            },
            SortedSetForm::Large(_) => {}
        }
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.len(),
            SortedSetForm::Small { small, .. } => small.len(),
            SortedSetForm::Large(large) => large.len(),
        }
    }

    /// Whether the set is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    #[must_use]
    pub fn score(&self, alloc: AllocContext<'_>, member: &[u8]) -> Option<f64> {
        let hash = || alloc.hasher.hash(member);
        match &self.form {
            SortedSetForm::Brief { brief, .. } => Some(brief.score_at(brief.find(member)?)),
            SortedSetForm::Small { small, .. } => Some(small.score(small.find(tag_of(hash()), member)?)),
            SortedSetForm::Large(large) => large.score(hash(), member),
        }
    }

    /// The rank of a member, counted from the lowest score, and its score.
    #[inline]
    #[must_use]
    pub fn rank(&self, alloc: AllocContext<'_>, member: &[u8]) -> Option<(usize, f64)> {
        let hash = || alloc.hasher.hash(member);
        match &self.form {
            SortedSetForm::Brief { brief, .. } => {
                let place = brief.find(member)?;
                Some((place.index, brief.score_at(place)))
            }
            SortedSetForm::Small { small, .. } => {
                let index = small.find(tag_of(hash()), member)?;
                Some((index, small.score(index)))
            }
            SortedSetForm::Large(large) => large.rank(hash(), member),
        }
    }

    /// Number of elements before a bound: the rank of the first element after it.
    #[must_use]
    pub fn rank_of(&self, bound: Bound<'_>) -> usize {
        self.position(&bound.target())
    }

    fn position(&self, target: &SearchTarget<'_>) -> usize {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.position(target),
            SortedSetForm::Small { small, .. } => small.position(target),
            SortedSetForm::Large(large) => large.position(target),
        }
    }

    /// Sets a member's score to the result of `decide`, which receives the present score; on `None` nothing
    /// changes. An absent member is added. A listpack has no -0: it becomes 0.
    #[inline]
    pub fn update(
        &mut self,
        alloc: AllocContext<'_>,
        limits: SortedSetLimits,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> SortedSetUpdated {
        match &mut self.form {
            SortedSetForm::Brief { .. } => self.update_brief(alloc, limits, member, decide),
            SortedSetForm::Small { .. } => self.update_small(alloc, limits, member, decide),
            SortedSetForm::Large(large) => {
                let is_listpack = large.is_reported_as_listpack;
                let decide = |old| decide(old).map(|score| if is_listpack { score + 0.0 } else { score });
                let updated = large.update(alloc, alloc.hasher.hash(member), member, decide);
                if large.is_reported_as_listpack
                    && updated.is_added()
                    && limits.are_passed(large.len(), member)
                {
                    large.is_reported_as_listpack = false;
                }
                updated
            }
        }
    }

    fn update_brief(
        &mut self,
        alloc: AllocContext<'_>,
        limits: SortedSetLimits,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> SortedSetUpdated {
        let SortedSetForm::Brief { brief, is_skiplist } = &mut self.form else {
            unreachable!("callers have seen the form")
        };
        let found = brief.find(member);
        let old = found.map(|place| brief.score_at(place));
        let new = decide(old);
        let Some(score) = new else { return SortedSetUpdated { old, new } };
        *is_skiplist |= old.is_none() && limits.are_passed(brief.len() + 1, member);
        let stored = if *is_skiplist { score } else { score + 0.0 };
        if let Some(place) = found {
            brief.set_score_at(alloc.heap, place, stored);
        } else if brief.has_room_for(member.len()) {
            brief.insert(alloc.heap, member, stored);
        } else {
            self.outgrow_brief(alloc);
            self.update_small(alloc, limits, member, |_| new);
        }
        SortedSetUpdated { old, new }
    }

    fn update_small(
        &mut self,
        alloc: AllocContext<'_>,
        limits: SortedSetLimits,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> SortedSetUpdated {
        let SortedSetForm::Small { small, is_skiplist } = &mut self.form else {
            unreachable!("callers have seen the form")
        };
        let hash = alloc.hasher.hash(member);
        let tag = tag_of(hash);
        if let Some(index) = small.find(tag, member) {
            let old = Some(small.score(index));
            let new = decide(old);
            if let Some(score) = new {
                small.set_score_at(index, if *is_skiplist { score } else { score + 0.0 });
            }
            return SortedSetUpdated { old, new };
        }
        let new = decide(None);
        let Some(score) = new else { return SortedSetUpdated { old: None, new } };
        *is_skiplist |= limits.are_passed(small.len() + 1, member);
        let score = if *is_skiplist { score } else { score + 0.0 };
        if small.has_room_for(member.len()) {
            small.insert(alloc.heap, tag, member, score);
        } else {
            self.enlarge(alloc).insert(alloc, hash, member, score);
        }
        SortedSetUpdated { old: None, new }
    }

    /// Converts a brief set to the small form.
    #[cold]
    fn outgrow_brief(&mut self, alloc: AllocContext<'_>) {
        let SortedSetForm::Brief { brief, is_skiplist } = &self.form else { return };
        let small = Small::of_brief(brief, alloc.heap, |member| tag_of(alloc.hasher.hash(member)));
        self.form = SortedSetForm::Small { small, is_skiplist: *is_skiplist };
    }

    /// Sets the score of a member, which is added if it is absent. Returns its previous score.
    pub fn insert(
        &mut self,
        alloc: AllocContext<'_>,
        limits: SortedSetLimits,
        member: &[u8],
        score: f64,
    ) -> Option<f64> {
        self.update(alloc, limits, member, |_| Some(score)).old
    }

    /// Fills an empty set with ordered elements, each member once.
    pub fn fill_in_order<'m>(
        &mut self,
        alloc: AllocContext<'_>,
        limits: SortedSetLimits,
        elements: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone,
    ) {
        debug_assert!(self.is_empty());
        if elements.len() <= FEW_LEN_MAX {
            self.reserve(alloc, elements.clone());
            for (member, score) in elements {
                self.insert(alloc, limits, member, score);
            }
            return;
        }
        let (mut is_listpack, mut len) = (self.is_listpack(), 0);
        let named = elements.map(|(member, score)| {
            len += 1;
            is_listpack = is_listpack && !limits.are_passed(len, member);
            (member, if is_listpack { score + 0.0 } else { score })
        });
        let mut large = Box::new(Large::of_ordered(alloc, named));
        large.is_reported_as_listpack = is_listpack;
        self.form = SortedSetForm::Large(large);
    }

    /// Removes a member. Returns its score.
    pub fn remove(&mut self, alloc: AllocContext<'_>, member: &[u8]) -> Option<f64> {
        let hash = || alloc.hasher.hash(member);
        match &mut self.form {
            SortedSetForm::Large(large) => large.remove(alloc, hash(), member),
            SortedSetForm::Brief { brief, .. } => {
                let place = brief.find(member)?;
                let score = brief.score_at(place);
                brief.remove(alloc.heap, place.index, 1);
                Some(score)
            }
            SortedSetForm::Small { small, .. } => {
                let index = small.find(tag_of(hash()), member)?;
                let score = small.score(index);
                small.remove(alloc.heap, index, 1);
                Some(score)
            }
        }
    }

    /// Removes `count` elements from rank `start` on, which must exist.
    pub fn remove_ranks(&mut self, alloc: AllocContext<'_>, start: usize, count: usize) {
        match &mut self.form {
            SortedSetForm::Brief { brief, .. } => brief.remove(alloc.heap, start, count),
            SortedSetForm::Small { small, .. } => small.remove(alloc.heap, start, count),
            SortedSetForm::Large(large) => large.remove_ranks(alloc, start, count),
        }
    }

    /// The element with this rank, which is below the length.
    #[must_use]
    pub fn at(&self, rank: usize) -> (&[u8], f64) {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.at(rank),
            SortedSetForm::Small { small, .. } => (small.member(rank), small.score(rank)),
            SortedSetForm::Large(large) => {
                let entry = large.cursor(rank).entry();
                (entry.key(), score_of(entry))
            }
        }
    }

    /// All elements in order.
    pub fn iter(&self) -> SortedSetIter<'_> {
        self.range(0, self.len())
    }

    /// The elements from rank `start` on, up to `count`, in order.
    #[must_use]
    pub fn range(&self, start: usize, count: usize) -> SortedSetIter<'_> {
        self.walk(start, count.min(self.len().saturating_sub(start)), false)
    }

    /// The elements from rank `start` down, up to `count`. The rank must exist, unless `count` is 0.
    #[must_use]
    pub fn range_backward(&self, start: usize, count: usize) -> SortedSetIter<'_> {
        self.walk(start, count.min(start + 1), true)
    }

    fn walk(&self, start: usize, left: usize, is_backward: bool) -> SortedSetIter<'_> {
        let place = match &self.form {
            _ if left == 0 => Walk::Done,
            SortedSetForm::Brief { brief, .. } if is_backward => Walk::BriefBackward(brief, start),
            SortedSetForm::Brief { brief, .. } => Walk::Brief(brief.iter_from(start)),
            SortedSetForm::Small { small, .. } => Walk::Small(small, start),
            SortedSetForm::Large(large) => {
                let cursor = large.cursor(start);
                cursor.prefetch(left, is_backward);
                Walk::Large(cursor)
            }
        };
        SortedSetIter { place, left, is_backward }
    }

    /// Visits some elements of a large set from position `from` on (0 to begin), or all of a small one.
    /// Returns where to continue, or `None` at the end. An element that stays is visited in every full
    /// walk.
    pub fn scan<'a>(&'a self, from: u32, mut visit: impl FnMut(&'a [u8], f64)) -> Option<u32> {
        match &self.form {
            SortedSetForm::Large(large) => {
                large.table().scan(from, |entry| visit(entry.key(), score_of(entry)))
            }
            SortedSetForm::Brief { .. } | SortedSetForm::Small { .. } => {
                self.iter().for_each(|(member, score)| visit(member, score));
                None
            }
        }
    }

    /// The name of the encoding, as `OBJECT ENCODING` reports it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        if self.is_listpack() { "listpack" } else { "skiplist" }
    }

    /// Whether the encoding is `listpack`.
    #[inline]
    #[must_use]
    pub fn is_listpack(&self) -> bool {
        match &self.form {
            SortedSetForm::Brief { is_skiplist, .. } | SortedSetForm::Small { is_skiplist, .. } => {
                !is_skiplist
            }
            SortedSetForm::Large(large) => large.is_reported_as_listpack,
        }
    }

    /// See [`crate::Object::is_large`].
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.form, SortedSetForm::Large(large) if !large.is_reported_as_listpack && large.is_large())
    }

    /// See [`crate::Object::tracked`].
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        if let SortedSetForm::Large(large) = &self.form { Some(large.tracked()) } else { None }
    }

    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.memory_bytes(),
            SortedSetForm::Small { small, .. } => small.memory_bytes(),
            SortedSetForm::Large(large) => large.estimated_bytes(sample_len),
        }
    }

    pub(crate) fn is_costly_to_drop(&self) -> bool {
        matches!(self.form, SortedSetForm::Large(_)) && self.len() > COSTLY_LEN_MIN
    }

    /// Converts the set to the large form.
    fn enlarge(&mut self, alloc: AllocContext<'_>) -> &mut Large {
        if !matches!(self.form, SortedSetForm::Large(_)) {
            let mut large = Box::new(Large::default());
            for (member, score) in self.iter() {
                large.insert(alloc, alloc.hasher.hash(member), member, score);
            }
            large.is_reported_as_listpack = self.is_listpack();
            self.form = SortedSetForm::Large(large);
        }
        let SortedSetForm::Large(large) = &mut self.form else { unreachable!("it has just been made") };
        large
    }
}

impl Default for SortedSet {
    fn default() -> Self {
        Self { form: SortedSetForm::Brief { brief: Brief::default(), is_skiplist: false } }
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedSet")
            .field("len", &self.len())
            .field("encoding", &self.encoding_name())
            .finish()
    }
}

/// A walk over elements in order, or in reverse.
#[derive(Clone)]
pub struct SortedSetIter<'a> {
    place: Walk<'a>,
    left: usize,
    is_backward: bool,
}

#[derive(Clone)]
enum Walk<'a> {
    Brief(BriefIter<'a>),
    BriefBackward(&'a Brief, usize),
    Small(&'a Small, usize),
    Large(Cursor<'a>),
    Done,
}

impl<'a> Iterator for SortedSetIter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.place {
            Walk::Brief(elements) => elements.next(),
            Walk::BriefBackward(brief, index) => {
                let element = brief.at(*index);
                *index = index.wrapping_sub(1);
                Some(element)
            }
            Walk::Small(small, index) => {
                let element = (small.member(*index), small.score(*index));
                *index = if self.is_backward { index.wrapping_sub(1) } else { *index + 1 };
                Some(element)
            }
            Walk::Large(cursor) => {
                let entry = cursor.entry();
                if self.left > 0 {
                    let is_there = if self.is_backward { cursor.step_back() } else { cursor.step() };
                    debug_assert!(is_there, "the count is limited to the existing elements");
                }
                Some((entry.key(), score_of(entry)))
            }
            Walk::Done => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SortedSetIter<'_> {}

#[cfg(any(test, debug_assertions))]
impl SortedSet {
    /// Verifies the invariants of its form.
    pub fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        match &self.form {
            SortedSetForm::Brief { brief, .. } => brief.check(),
            SortedSetForm::Small { small, .. } => small.check(|member| tag_of(alloc.hasher.hash(member))),
            SortedSetForm::Large(large) => large.check(),
        }
    }
}

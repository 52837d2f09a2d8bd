//! Distinct byte strings, by linear hashing with packed leaves: the members of a set that is not all
//! integers, and the fields of a hash with their values.
//!
//! Up to 128 members are one leaf. More are stored in a [`LinearHashDirectory`] of leaves: the hash's low
//! bits select a member's leaf. With every 24 members the directory grows by one leaf, which takes its
//! share from the next leaf in split order; with as many fewer it loses its last leaf again. So no step
//! moves more than one leaf's members, at any size. A member of 14 bytes takes about 20, where an
//! allocation of its own would take 24 and its place in a table 10.
//!
//! A member that is longer than [`Keyed::SIZE_MAX`], does not fit its leaf, or has an expiry, is stored in the
//! *side table*, a [`Table`] beside the directory. It stays there until it is removed: a scan visits the side
//! table last, and must not miss it.
//!
//! Order for [`Members::scan`]: members are visited by the bits of their hashes, lowest first (a leaf's
//! members share their low bits). A position in that order keeps its meaning for any number of leaves.
//!
//! Invariants ([`Members::check`])
//! 1. The invariants of the directory and the table.
//! 2. No key is in both.
//!
//! Cost: a search reads the reference to the leaf's block, the leaf's tags and the member. Start reading at
//! [`Members::find`].

mod leaf;
mod linear_hash;
pub(crate) mod position;
mod single;
mod slabs;
mod tracked;
mod whole;

use crate::entry::Entry;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::table::Table;
use crate::values::estimate::SAMPLE_LEN;
use crate::values::parameters::AllocContext;
use crate::values::tracking::{Element, Tracker, Walkable, is_large};
pub(crate) use leaf::Keyed;
use leaf::{LEAF_SIZE_MAX, Leaf};
use linear_hash::{LOAD, LinearHashDirectory};
pub(crate) use position::{MemberPlace, PrefetchStep};
use position::{ORDER_BITS, scan_position, tag_of};
use single::Single;
pub(crate) use whole::Whole;

/// Members whose long and volatile ones are entries of the side table.
pub(crate) trait Member: Keyed {
    /// An entry of the side table, in the form in which a snapshot stores it.
    fn side_table_element(entry: Entry<'_>) -> Element<'_>;
}

/// Distinct byte strings.
pub(crate) enum Members<K: Member> {
    /// Few enough for one leaf.
    One(Single),
    /// More.
    Many(Box<Many<K>>),
}

/// The members of a larger set.
pub(crate) struct Many<K: Member> {
    directory: LinearHashDirectory<K>,
    side_table: Table,
    tracker: Tracker,
}

/// Largest number of members in a single leaf without a directory. At this number its tags fill two cache
/// lines, and most sets need no directory, whose search steps each cost a cache miss. Few under Miri.
const ONE_LEAF_LEN_MAX: usize = if crate::IS_TINY { 16 } else { 128 };

/// Bytes of members up to which a single leaf has space reserved for them.
const RESERVED_SIZE_MAX: usize = LEAF_SIZE_MAX / 2;

impl<K: Member> Members<K> {
    /// Prefetches the start of its memory.
    #[inline(always)]
    pub(crate) fn prefetch_head(&self) {
        match self {
            Self::One(single) => single.prefetch_head(),
            Self::Many(many) => prefetch::line(std::ptr::from_ref(&**many).addr()),
        }
    }

    /// Reads that start, and prefetches the memory that a search for any member reads next.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        match self {
            Self::One(single) => single.leaf().prefetch_index(),
            Self::Many(many) => many.directory.prefetch(),
        }
    }

    /// Prefetches the memory that a search for a member with this hash reads next, after the previous steps'
    /// prefetches.
    #[inline]
    pub(crate) fn prefetch_member(&self, hash: u64, step: PrefetchStep) {
        match (self, step) {
            (Self::One(single), PrefetchStep::Place) => single.leaf().prefetch_element(tag_of(hash)),
            (Self::One(_), _) => {}
            (Self::Many(many), step) => many.directory.prefetch_element(hash, step),
        }
    }

    /// An empty collection. Allocates nothing.
    pub(crate) fn new() -> Self {
        Self::One(Single::default())
    }

    /// Number of members.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(single) => single.leaf().len(),
            Self::Many(many) => many.directory.len() + many.side_table.len(),
        }
    }

    /// Bytes of memory that it owns.
    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        match self {
            Self::One(single) => single.memory_bytes(),
            Self::Many(many) => many.estimated_bytes(sample_len),
        }
    }

    /// See [`crate::Object::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match self {
            Self::One(single) => single.relocate(heap),
            Self::Many(_) => false,
        }
    }

    /// Approximate number of allocations that it owns.
    pub(crate) fn allocation_count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.directory.allocation_count() + many.side_table.len(),
        }
    }

    /// The place of the member with this key, unless it is in the table. `hash` is the key's hash.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<MemberPlace> {
        match self {
            Self::One(single) => {
                let index = single.leaf().find::<K>(tag_of(hash), key)?;
                Some(MemberPlace { leaf: 0, index: index as u32 })
            }
            Self::Many(many) => many.directory.find(hash, key),
        }
    }

    /// The member at a place.
    #[inline]
    pub(crate) fn at(&self, place: MemberPlace) -> &[u8] {
        match self {
            Self::One(single) => single.leaf().at(place.index as usize),
            Self::Many(many) => many.directory.at(place),
        }
    }

    /// The table, if it has entries.
    #[inline]
    pub(crate) fn side_table(&self) -> Option<&Table> {
        match self {
            Self::One(_) => None,
            Self::Many(many) => (!many.side_table.is_empty()).then_some(&many.side_table),
        }
    }

    /// The mutable table, if it has entries, to change the entry with this hash. After a removal the caller calls
    /// [`Self::make_compact`].
    #[inline]
    pub(crate) fn side_table_mut(&mut self, hash: u64) -> Option<&mut Table> {
        match self {
            Self::Many(many) if !many.side_table.is_empty() => {
                many.before_side_table_changes(hash);
                Some(&mut many.side_table)
            }
            _ => None,
        }
    }

    /// The table, created if there is none, for a key with this hash that is not in a leaf.
    pub(crate) fn side_table_or_new(&mut self, alloc: AllocContext<'_>, hash: u64) -> &mut Table {
        let many = self.many_mut(alloc);
        many.before_side_table_changes(hash);
        &mut many.side_table
    }

    /// Adds a member whose key is absent, if it fits its leaf; otherwise it belongs in the table.
    #[inline]
    pub(crate) fn try_add(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8]) -> bool {
        if let Self::One(single) = self
            && member.len() <= K::SIZE_MAX
            && single.leaf().len() < ONE_LEAF_LEN_MAX
            && single.leaf().has_room(member.len())
        {
            single.push::<K>(alloc, tag_of(hash), member);
            return true;
        }
        let many = self.many_mut(alloc);
        many.before_leaf_changes(hash);
        many.directory.try_add(alloc, hash, member)
    }

    /// Reserves space for this many more members, with this many bytes together, if they are few.
    pub(crate) fn reserve(&mut self, alloc: AllocContext<'_>, count: usize, size: usize) {
        if let Self::One(single) = self
            && single.leaf().len() + count <= ONE_LEAF_LEN_MAX
            && single.leaf().size() + size <= RESERVED_SIZE_MAX
        {
            single.reserve::<K>(alloc, count, size);
        }
    }

    /// Gives back space that was reserved for more than are there.
    pub(crate) fn shrink_if_roomy(&mut self, alloc: AllocContext<'_>) {
        if let Self::One(single) = self {
            single.shrink_if_roomy::<K>(alloc);
        }
    }

    /// Replaces a member by another one with the same key, if that fits the leaf.
    #[inline]
    pub(crate) fn try_replace(&mut self, alloc: AllocContext<'_>, place: MemberPlace, member: &[u8]) -> bool {
        match self {
            Self::One(single) => single.replace::<K>(alloc, place.index as usize, member),
            Self::Many(many) => {
                many.before_change_at(place);
                many.directory.try_replace(alloc.heap, place, member)
            }
        }
    }

    /// Removes the member at a place.
    pub(crate) fn remove_at(
        &mut self,
        alloc: AllocContext<'_>,
        place: MemberPlace,
        add_to_side_table: impl FnMut(&mut Table, &[u8]),
    ) {
        match self {
            Self::One(single) => single.remove::<K>(alloc, place.index as usize),
            Self::Many(many) => {
                many.before_change_at(place);
                many.directory.take_out(alloc.heap, place);
                self.make_compact(alloc, add_to_side_table);
            }
        }
    }

    /// Frees one leaf if there are too many for the remaining members. Members that no longer fit are
    /// passed to `add_to_side_table`.
    pub(crate) fn make_compact(
        &mut self,
        alloc: AllocContext<'_>,
        mut add_to_side_table: impl FnMut(&mut Table, &[u8]),
    ) {
        let Self::Many(many) = self else { return };
        if many.directory.leaf_count() > 1 && many.directory.len() * 2 < many.directory.leaf_count() * LOAD {
            many.before_merge();
        }
        let Many { directory, side_table, .. } = &mut **many;
        if directory.leaf_count() == 1 {
            if side_table.is_empty() && directory.len() <= LOAD {
                let leaf = directory.leaf(0);
                let mut single = Single::default();
                single.reserve::<K>(alloc, leaf.len(), leaf.size());
                for (index, member) in leaf.iter().enumerate() {
                    single.push::<K>(alloc, leaf.tag(index), member);
                }
                *self = Self::One(single);
            }
        } else if directory.len() * 2 < directory.leaf_count() * LOAD {
            directory.merge(alloc, |member| add_to_side_table(side_table, member));
        }
    }

    /// The largest cursor of [`Self::scan`].
    pub(crate) const CURSOR_MAX: u64 = (2 << ORDER_BITS) - 1;

    /// The place of a random member, uniformly distributed; `None` if a member of the table is drawn, or if
    /// there is none: see [`Self::sample_side_table`]. Must not be empty.
    pub(crate) fn sample(&self, random: &mut impl FnMut() -> u64) -> Option<MemberPlace> {
        match self {
            Self::One(single) => {
                Some(MemberPlace { leaf: 0, index: below(random(), single.leaf().len()) as u32 })
            }
            Self::Many(many)
                if !many.side_table.is_empty() && below(random(), self.len()) >= many.directory.len() =>
            {
                None
            }
            Self::Many(many) => Some(many.directory.sample(random)),
        }
    }

    /// A random member of the table.
    pub(crate) fn sample_side_table(&self, random: u64) -> Option<Entry<'_>> {
        self.side_table()?.sample(random)
    }

    /// Every member of the leaves, in the order in which they are stored.
    pub(crate) fn iter_leaves(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match self {
            Self::One(single) => (Some(single.leaf()), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|many| many.directory.leaves())).flat_map(Leaf::iter)
    }

    /// Visits the members of one leaf from a position on (0 to begin), or of one bucket of the table.
    /// Returns where to continue, or `None` at the end.
    pub(crate) fn scan<'a>(
        &'a self,
        alloc: AllocContext<'_>,
        from: u64,
        mut visit: impl FnMut(&'a [u8]),
        visit_side_table: impl FnMut(Entry<'a>),
    ) -> Option<u64> {
        let many = match self {
            Self::One(single) => {
                let from = u32::try_from(from).ok()?;
                let members = single.leaf().iter();
                let is_left =
                    |member: &[u8]| from == 0 || scan_position(alloc.hasher.hash(K::key(member))) >= from;
                members.filter(|member| is_left(member)).for_each(visit);
                return None;
            }
            Self::Many(many) => many,
        };
        if let Ok(from) = u32::try_from(from) {
            let next = many.directory.scan(alloc.hasher, from, &mut visit);
            return (next < 1 << ORDER_BITS || !many.side_table.is_empty()).then_some(next);
        }
        let position = u32::try_from(from - (1 << ORDER_BITS)).ok()?;
        let next = many.side_table.scan(position, visit_side_table)?;
        Some((1 << ORDER_BITS) + u64::from(next))
    }

    /// A deep copy in `heap`.
    pub(crate) fn to_copy(&self, heap: &Heap) -> Self {
        match self {
            Self::One(single) => Self::One(single.to_copy(heap)),
            Self::Many(many) => Self::Many(Box::new(Many {
                directory: many.directory.to_copy(heap),
                side_table: many.side_table.to_copy(heap),
                tracker: Tracker::default(),
            })),
        }
    }

    /// Verifies the invariants.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        let many = match self {
            Self::One(single) => return check_leaf::<K>(alloc, single.leaf(), |_| true),
            Self::Many(many) => many,
        };
        many.directory.check(alloc)?;
        let is_twice =
            |entry: Entry<'_>| many.directory.find(alloc.hasher.hash(entry.key()), entry.key()).is_some();
        if many.side_table.iter().any(is_twice) {
            return Err("a member is in two places".to_owned());
        }
        many.side_table.check()
    }

    /// The parts that a snapshot walks, and the place that leads to their tracking, unless they are one leaf.
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        if let Self::Many(many) = self { Some((many.tracker(), &**many)) } else { None }
    }

    /// Whether a snapshot walks them in portions.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Many(_)) && is_large(self.len(), || self.estimated_bytes(SAMPLE_LEN))
    }

    /// The mutable table, to remove expired entries from these buckets.
    pub(crate) fn side_table_to_expire(
        &mut self,
        from: u32,
        bucket_count_max: usize,
        now: i64,
    ) -> Option<&mut Table> {
        match self {
            Self::Many(many) if !many.side_table.is_empty() => {
                many.before_expiry(from, bucket_count_max, now);
                Some(&mut many.side_table)
            }
            _ => None,
        }
    }

    fn many_mut(&mut self, alloc: AllocContext<'_>) -> &mut Many<K> {
        if let Self::One(single) = self {
            let mut directory = LinearHashDirectory::new();
            for member in single.leaf().iter() {
                let is_added = directory.try_add(alloc, alloc.hasher.hash(K::key(member)), member);
                debug_assert!(is_added, "the new leaf has room for the elements of the old one");
            }
            *self = Self::Many(Box::new(Many {
                directory,
                side_table: Table::new(),
                tracker: Tracker::default(),
            }));
        }
        match self {
            Self::Many(many) => many,
            Self::One(_) => unreachable!("made a directory above"),
        }
    }
}

/// Maps 64 random bits to a number below `bound`.
#[inline]
pub(crate) fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

#[cfg(any(test, debug_assertions))]
fn check_leaf<K: Keyed>(
    alloc: AllocContext<'_>,
    leaf: Leaf<'_>,
    belongs: impl Fn(u64) -> bool,
) -> Result<(), String> {
    leaf.check()?;
    for (index, member) in leaf.iter().enumerate() {
        let hash = alloc.hasher.hash(K::key(member));
        if !belongs(hash) || !leaf.is_unindexed() && leaf.tag(index) != tag_of(hash) {
            return Err(format!("{member:?} is in the wrong leaf or has the wrong tag"));
        }
        if leaf.find::<K>(tag_of(hash), K::key(member)) != Some(index) {
            return Err(format!("{member:?} is there twice"));
        }
    }
    Ok(())
}

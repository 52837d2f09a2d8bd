//! The members of a set that is not all integers: byte strings, each once, by linear hashing with packed leaves.
//!
//! A set of up to 128 is one [`Leaf`]. A larger one has a row of them: the hash's low bits say in which leaf a member is. With
//! every 24 members the row grows by one leaf, which takes its share from the one whose turn it is, and with as many
//! fewer it loses its last one again. So no step moves more than one leaf's members, at any size, and a member of 14
//! bytes takes about 20, where an allocation of its own would take 24 and its place in a table 10.
//!
//! A member longer than [`MEMBER_SIZE_MAX`], or one that finds no room in its leaf, lives in a [`Table`] beside the row.
//!
//! Order for [`Members::scan`]: members are visited by the bits of their hashes, lowest first (a leaf's members have
//! their low bits in common). A position in that order means the same place whatever number of leaves there is by then.
//!
//! Invariants ([`Members::check`])
//! 1. A member is in the leaf of its hash, with the tag of its hash, or in the table of overlong ones; never in both.
//! 2. `Row::len` is the number of members in the leaves.
//! 3. All chunks but the last have [`CHUNK`] leaves, the last has at least one.
//!
//! Cost: a search reads a chunk's word, the leaf's tags and the member. Start reading at [`Members::contains`].

mod leaf;

use crate::collection::Home;
use crate::prefetch;
use crate::removed::{ExpiryChange, NewValue};
use crate::table::Table;
use leaf::{Leaf, MEMBER_SIZE_MAX};

/// Byte strings, each once.
pub(crate) enum Members {
    /// Few enough for one leaf.
    One(Leaf),
    /// More.
    Many(Box<Row>),
}

/// The leaves of a larger set.
pub(crate) struct Row {
    chunks: Vec<Vec<Leaf>>,
    leaf_count: usize,
    len: usize,
    overlong: Table,
}

/// Where a member is, until something is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    leaf: u32,
    index: u32,
}

/// The steps of a search for a member behind those that are the same for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStep {
    /// To the leaf's place in the row, or to the member if there is one leaf only.
    Place,
    /// To the beginning of the leaf.
    Head,
    /// To the member there.
    Member,
}

impl PrefetchStep {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Place, Self::Head, Self::Member];
}

/// Members for each leaf; up to twice as many where its turn to be split has not come. Few under Miri, as with the next two.
const LOAD: usize = if cfg!(miri) { 6 } else { 24 };

/// Members that a single leaf has before there is a row of them: so many that its tags are two cache lines, and that
/// most sets have no row, on the way through which each step waits for memory.
const ONE_LEAF_LEN_MAX: usize = if cfg!(miri) { 16 } else { 128 };

/// Leaves of a chunk.
const CHUNK: usize = if cfg!(miri) { 4 } else { 256 };

/// Bits of the hash that are the order of a scan; a position with the next higher bit is one among the overlong ones.
const ORDER_BITS: u32 = 32;

/// The tag of a hash, from bits that choose no leaf.
#[inline]
const fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The place of a hash in the order of a scan.
#[inline]
const fn order_of(hash: u64) -> u32 {
    (hash as u32).reverse_bits()
}

impl Members {
    /// Asks for the beginning of what is behind it.
    #[inline(always)]
    pub(crate) fn prefetch_head(&self) {
        match self {
            Self::One(leaf) => leaf.prefetch_head(),
            Self::Many(row) => prefetch::line(std::ptr::from_ref(&**row).addr()),
        }
    }

    /// Reads that beginning, and asks for what a search reads next, whatever the member.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        match self {
            Self::One(leaf) => leaf.prefetch_index(),
            Self::Many(row) => prefetch::line(row.chunks.as_ptr().addr()),
        }
    }

    /// Asks for what a search for a member with this hash reads next, after what the steps before have asked for.
    #[inline]
    pub(crate) fn prefetch_member(&self, hash: u64, step: PrefetchStep) {
        match (self, step) {
            (Self::One(leaf), PrefetchStep::Place) => leaf.prefetch_member(tag_of(hash)),
            (Self::One(_), _) => {}
            (Self::Many(row), step) => {
                let leaf = row.leaf(row.leaf_index(hash));
                match step {
                    PrefetchStep::Place => prefetch::line(std::ptr::from_ref(leaf).addr()),
                    PrefetchStep::Head => leaf.prefetch_head(),
                    PrefetchStep::Member => leaf.prefetch_member(tag_of(hash)),
                }
            }
        }
    }

    /// None. Allocates nothing.
    pub(crate) fn new() -> Self {
        Self::One(Leaf::default())
    }

    /// Number of members.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(leaf) => leaf.len(),
            Self::Many(row) => row.len + row.overlong.len(),
        }
    }

    /// Bytes of memory behind it, without the overlong members themselves, which the heap counts.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::One(leaf) => leaf.memory_bytes(),
            Self::Many(row) => {
                let leaves: usize = row.leaves().map(|leaf| size_of::<Leaf>() + leaf.memory_bytes()).sum();
                let overlong: usize = row.overlong.iter().map(|entry| entry.allocated_bytes()).sum();
                size_of::<Row>() + leaves + row.overlong.memory_bytes() + overlong
            }
        }
    }

    /// Number of allocations behind it, about.
    pub(crate) fn allocation_count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(row) => row.leaf_count + row.overlong.len(),
        }
    }

    /// Whether a member is there. `hash` is that of its bytes.
    #[inline]
    pub(crate) fn contains(&self, hash: u64, member: &[u8]) -> bool {
        match self {
            Self::One(leaf) => leaf.find(tag_of(hash), member).is_some(),
            Self::Many(row) => {
                row.leaf(row.leaf_index(hash)).find(tag_of(hash), member).is_some()
                    || (!row.overlong.is_empty() && row.overlong.find(hash, member).is_some())
            }
        }
    }

    /// Adds a member. Whether it was new.
    #[inline]
    pub(crate) fn add(&mut self, home: Home<'_>, hash: u64, member: &[u8]) -> bool {
        if self.contains(hash, member) {
            return false;
        }
        self.add_new(home, hash, member);
        true
    }

    /// Adds a member that is not there.
    pub(crate) fn add_new(&mut self, home: Home<'_>, hash: u64, member: &[u8]) {
        if let Self::One(leaf) = self {
            let fits = member.len() <= MEMBER_SIZE_MAX && leaf.len() < ONE_LEAF_LEN_MAX;
            if fits && leaf.has_room(member.len()) {
                leaf.push(tag_of(hash), member);
                return;
            }
        }
        self.row_mut().add_new(home, hash, member);
    }

    /// Removes a member. Whether it was there.
    pub(crate) fn remove(&mut self, home: Home<'_>, hash: u64, member: &[u8]) -> bool {
        let row = match self {
            Self::One(leaf) => {
                let found = leaf.find(tag_of(hash), member);
                found.into_iter().for_each(|index| leaf.remove(index));
                return found.is_some();
            }
            Self::Many(row) => row,
        };
        let leaf = row.leaf_mut(row.leaf_index(hash));
        if let Some(index) = leaf.find(tag_of(hash), member) {
            leaf.remove(index);
            row.len -= 1;
        } else if row.overlong.remove(home.heap, hash, member).is_none() {
            return false;
        }
        self.make_compact(home);
        true
    }

    /// The place of a random member, each with the same probability; `None` if there is none, or if it is an overlong
    /// one: see [`Self::sample_overlong`]. Must not be empty.
    pub(crate) fn sample(&self, random: &mut impl FnMut() -> u64) -> Option<Place> {
        match self {
            Self::One(leaf) => Some(Place { leaf: 0, index: below(random(), leaf.len()) as u32 }),
            Self::Many(row) if !row.overlong.is_empty() && below(random(), self.len()) >= row.len => None,
            Self::Many(row) => Some(row.sample(random)),
        }
    }

    /// A random overlong member.
    pub(crate) fn sample_overlong(&self, random: u64) -> Option<&[u8]> {
        match self {
            Self::One(_) => None,
            Self::Many(row) => row.overlong.sample(random).map(|entry| entry.key()),
        }
    }

    /// The member at a place.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> &[u8] {
        match self {
            Self::One(leaf) => leaf.at(place.index as usize),
            Self::Many(row) => row.leaf(place.leaf as usize).at(place.index as usize),
        }
    }

    /// Removes the member at a place.
    pub(crate) fn remove_at(&mut self, home: Home<'_>, place: Place) {
        match self {
            Self::One(leaf) => leaf.remove(place.index as usize),
            Self::Many(row) => {
                row.leaf_mut(place.leaf as usize).remove(place.index as usize);
                row.len -= 1;
                self.make_compact(home);
            }
        }
    }

    /// Every member, in the order in which they are stored.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (one, row) = match self {
            Self::One(leaf) => (Some(leaf), None),
            Self::Many(row) => (None, Some(row)),
        };
        let leaves = one.into_iter().chain(row.into_iter().flat_map(|row| row.leaves()));
        let overlong = row.into_iter().flat_map(|row| row.overlong.iter().map(|entry| entry.key()));
        leaves.flat_map(Leaf::iter).chain(overlong)
    }

    /// No cursor of [`Self::scan`] is larger.
    pub(crate) const CURSOR_MAX: u64 = (2 << ORDER_BITS) - 1;

    /// Visits the members of one leaf from a position on (0 to begin). Returns where to go on, or `None` at the end.
    pub(crate) fn scan<'a>(
        &'a self,
        home: Home<'_>,
        from: u64,
        mut visit: impl FnMut(&'a [u8]),
    ) -> Option<u64> {
        let row = match self {
            Self::One(leaf) => {
                let from = u32::try_from(from).ok()?;
                visit_from(home, leaf, from, from == 0, &mut visit);
                return None;
            }
            Self::Many(row) => row,
        };
        if let Ok(from) = u32::try_from(from) {
            return row.scan(home, from, &mut visit);
        }
        let position = u32::try_from(from - (1 << ORDER_BITS)).ok()?;
        let next = row.overlong.scan(position, |entry| visit(entry.key()))?;
        Some((1 << ORDER_BITS) + u64::from(next))
    }

    /// A deep copy, whose overlong members are in `heap`.
    pub(crate) fn to_copy(&self, heap: &crate::Heap) -> Self {
        match self {
            Self::One(leaf) => Self::One(leaf.clone()),
            Self::Many(row) => Self::Many(Box::new(Row {
                chunks: row.chunks.clone(),
                leaf_count: row.leaf_count,
                len: row.len,
                overlong: row.overlong.to_copy(heap),
            })),
        }
    }

    /// Ends if an invariant does not hold.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, home: Home<'_>) -> Result<(), String> {
        let row = match self {
            Self::One(leaf) => return check_leaf(home, leaf, |_| true),
            Self::Many(row) => row,
        };
        let (last, others) = row.chunks.split_last().ok_or("no chunk")?;
        if last.is_empty() || others.iter().any(|chunk| chunk.len() != CHUNK) {
            return Err("a chunk is not full, or the last one is empty".to_owned());
        }
        if row.leaves().count() != row.leaf_count || row.leaves().map(Leaf::len).sum::<usize>() != row.len {
            return Err(format!("counts are wrong: {} leaves, {} members", row.leaf_count, row.len));
        }
        for (index, leaf) in row.leaves().enumerate() {
            check_leaf(home, leaf, |hash| row.leaf_index(hash) == index)?;
        }
        let twice = |entry: &crate::Entry<'_>| {
            let hash = home.hasher.hash(entry.key());
            row.leaf(row.leaf_index(hash)).find(tag_of(hash), entry.key()).is_some()
        };
        if row.overlong.iter().any(|entry| twice(&entry)) {
            return Err("a member is in two places".to_owned());
        }
        row.overlong.check()
    }

    fn row_mut(&mut self) -> &mut Row {
        if let Self::One(leaf) = self {
            let leaf = std::mem::take(leaf);
            let len = leaf.len();
            *self = Self::Many(Box::new(Row {
                chunks: vec![vec![leaf]],
                leaf_count: 1,
                len,
                overlong: Table::new(),
            }));
        }
        match self {
            Self::Many(row) => row,
            Self::One(_) => unreachable!("made a row above"),
        }
    }

    /// Gives back one leaf if there are too many for the members that are left.
    fn make_compact(&mut self, home: Home<'_>) {
        let Self::Many(row) = self else { return };
        if row.leaf_count == 1 {
            if row.overlong.is_empty() && row.len <= LOAD {
                *self = Self::One(std::mem::take(row.leaf_mut(0)));
            }
        } else if row.len * 2 < row.leaf_count * LOAD {
            row.merge(home);
        }
    }
}

impl Row {
    fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.chunks.iter().flatten()
    }

    #[inline]
    fn leaf(&self, index: usize) -> &Leaf {
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    #[inline]
    fn leaf_mut(&mut self, index: usize) -> &mut Leaf {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }

    /// The leaf of a hash.
    #[inline]
    fn leaf_index(&self, hash: u64) -> usize {
        let half = self.half();
        let index = hash as u32 as usize & (2 * half - 1);
        if index < self.leaf_count { index } else { index & (half - 1) }
    }

    /// The largest power of two not above the number of leaves: the leaves from there on have been split off the first
    /// ones of this round.
    #[inline]
    fn half(&self) -> usize {
        1 << self.leaf_count.ilog2()
    }

    /// Low bits of the hash that all members of a leaf have in common.
    fn depth(&self, index: usize) -> u32 {
        let half = self.half();
        let is_split = index >= half || index < self.leaf_count - half;
        half.ilog2() + u32::from(is_split)
    }

    fn add_new(&mut self, home: Home<'_>, hash: u64, member: &[u8]) {
        let leaf = self.leaf_mut(self.leaf_index(hash));
        if member.len() > MEMBER_SIZE_MAX || !leaf.has_room(member.len()) {
            self.overlong.upsert(home.heap, hash, member, NewValue::Bytes(&[]), ExpiryChange::Clear);
            return;
        }
        leaf.push(tag_of(hash), member);
        self.len += 1;
        if self.len > self.leaf_count * LOAD && self.leaf_count < 1 << (ORDER_BITS - 1) {
            self.split(home);
        }
    }

    /// Adds a leaf with the members of another one whose hashes have the next bit set.
    fn split(&mut self, home: Home<'_>) {
        let half = self.half();
        let source = std::mem::take(self.leaf_mut(self.leaf_count - half));
        let mut goes = [false; 1 + u8::MAX as usize];
        let (mut len, mut size) = (0, 0);
        for (member, goes) in source.iter().zip(&mut goes) {
            *goes = home.hasher.hash(member) as usize & half != 0;
            len += usize::from(*goes);
            size += if *goes { member.len() } else { 0 };
        }
        let mut stays = Leaf::with_room(source.len() - len, source.size() - size);
        let mut new = Leaf::with_room(len, size);
        for (index, (member, goes)) in source.iter().zip(goes).enumerate() {
            (if goes { &mut new } else { &mut stays }).push(source.tag(index), member);
        }
        *self.leaf_mut(self.leaf_count - half) = stays;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(new),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(new);
                self.chunks.push(chunk);
            }
        }
        self.leaf_count += 1;
    }

    /// Puts the members of the last leaf where they came from. There must be two leaves.
    fn merge(&mut self, home: Home<'_>) {
        let is_only_chunk = self.chunks.len() == 1;
        let chunk = self.chunks.last_mut().expect("there is a leaf");
        let last = chunk.pop().expect("no chunk is empty");
        if chunk.is_empty() {
            self.chunks.pop();
        } else if chunk.len() * 2 < chunk.capacity() && is_only_chunk {
            chunk.shrink_to(chunk.len() + chunk.len() / 4);
        }
        self.leaf_count -= 1;
        let half = self.half();
        let source = std::mem::take(self.leaf_mut(self.leaf_count - half));
        let mut merged = Leaf::with_room(source.len() + last.len(), source.size() + last.size());
        for leaf in [source, last] {
            for (index, member) in leaf.iter().enumerate() {
                if merged.has_room(member.len()) {
                    merged.push(leaf.tag(index), member);
                } else {
                    let hash = home.hasher.hash(member);
                    self.overlong.upsert(home.heap, hash, member, NewValue::Bytes(&[]), ExpiryChange::Clear);
                    self.len -= 1;
                }
            }
        }
        *self.leaf_mut(self.leaf_count - half) = merged;
    }

    /// A random member of the leaves. Leaves are drawn as often as their share of the hashes says, and kept as often as
    /// they are full for that share, so that every member is as likely as any other.
    fn sample(&self, random: &mut impl FnMut() -> u64) -> Place {
        let half = self.half();
        // Twice the mean of what shares the low bits, and what chance may add to that.
        let bound = 2 * (self.len / half) + 24;
        loop {
            let bits = random();
            let leaf = self.leaf_index(bits);
            let bound = if self.depth(leaf) == half.ilog2() { bound } else { bound / 2 };
            let len = self.leaf(leaf).len();
            let index = (((bits >> 32) * bound.max(len) as u64) >> 32) as usize;
            if index < len {
                return Place { leaf: leaf as u32, index: index as u32 };
            }
        }
    }

    fn scan<'a>(&'a self, home: Home<'_>, from: u32, visit: &mut impl FnMut(&'a [u8])) -> Option<u64> {
        let index = self.leaf_index(u64::from(from.reverse_bits()));
        // Positions that the leaf's members may have, so many from a multiple of that number on.
        let span = 1u64 << (ORDER_BITS - self.depth(index));
        let is_whole = u64::from(from) & (span - 1) == 0;
        visit_from(home, self.leaf(index), from, is_whole, visit);
        let next = (u64::from(from) & !(span - 1)) + span;
        (next < 1 << ORDER_BITS || !self.overlong.is_empty()).then_some(next)
    }
}

/// Visits the members of a leaf that are at `from` or behind it in the order of scans: all of them, if `is_whole`.
fn visit_from<'a>(
    home: Home<'_>,
    leaf: &'a Leaf,
    from: u32,
    is_whole: bool,
    visit: &mut impl FnMut(&'a [u8]),
) {
    for member in leaf.iter() {
        if is_whole || order_of(home.hasher.hash(member)) >= from {
            visit(member);
        }
    }
}

/// A number below `bound` from 64 random bits.
#[inline]
pub(crate) fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

#[cfg(any(test, debug_assertions))]
fn check_leaf(home: Home<'_>, leaf: &Leaf, belongs: impl Fn(u64) -> bool) -> Result<(), String> {
    leaf.check()?;
    for (index, member) in leaf.iter().enumerate() {
        let hash = home.hasher.hash(member);
        if !belongs(hash) || leaf.tag(index) != tag_of(hash) {
            return Err(format!("{member:?} is in the wrong leaf or has the wrong tag"));
        }
        if leaf.find(tag_of(hash), member) != Some(index) {
            return Err(format!("{member:?} is there twice"));
        }
    }
    Ok(())
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

// Not under Miri: what checks is safe code.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Heap, KeyHasher};

    #[test]
    fn planted_faults_are_noticed() {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
        let home = Home { heap: &heap, hasher: &hasher };
        let filled = || {
            let mut members = Members::new();
            for number in 0..200 {
                let member = format!("member:{number}");
                assert!(members.add(home, hasher.hash(member.as_bytes()), member.as_bytes()));
            }
            members
        };
        assert_eq!(filled().check(home), Ok(()));
        let faults: [fn(&mut Row); 4] = [
            |row| row.len += 1,
            |row| row.chunks[0].swap(0, 1),
            |row| row.leaf_mut(2).push(0, b"a stranger"),
            |row| {
                let member: Box<[u8]> = row.leaf(1).at(0).into();
                let tag = row.leaf(1).tag(0);
                row.leaf_mut(1).push(tag, &member);
                row.len += 1;
            },
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            let mut members = filled();
            fault(members.row_mut());
            assert!(members.check(home).is_err(), "fault {number}");
        }
    }
}

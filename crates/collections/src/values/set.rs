//! A set, in a form that suits its members; the value type of the `SADD` family.
//!
//! | encoding for the client | form |
//! |---|---|
//! | `intset` | [`IntSet`]: all members are integers, and few |
//! | `listpack` | [`Members`]: few and short members |
//! | `hashtable` | [`Members`]: any |
//!
//! The encoding follows Redis's thresholds ([`SetLimits`]) as members are added, and does not change back as
//! they are removed. The last two have the same form, so exceeding their threshold moves nothing.
//!
//! Start reading at [`Set::add`].

mod intset;

use crate::memory::heap::Heap;
use crate::number::{DecimalBuffer, decimal_len, parse_canonical};
use crate::packed::Item;
use crate::values::members::{MemberPlace, Members, PrefetchStep, Whole, below};
use crate::values::parameters::AllocContext;
use crate::values::tracking::{Tracker, Walkable};
use intset::IntSet;

/// The thresholds of the compact encodings.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`
    pub intset_len_max: usize,
    /// `set-max-listpack-entries`
    pub listpack_len_max: usize,
    /// `set-max-listpack-value`, in bytes
    pub listpack_value_size_max: usize,
}

/// Distinct byte strings in no order.
pub struct Set {
    form: SetForm,
}

enum SetForm {
    Ints(IntSet),
    Listpack(Members<Whole>),
    Hashtable(Members<Whole>),
}

/// The place of a member of a set, valid until a member is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetPlace(Spot);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spot {
    Int(u32),
    Member(MemberPlace),
}

/// A random member, borrowed from its set.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// The member.
    pub item: Item<'a>,
    /// Its place; `None` for a member of the side table, which has no place.
    pub place: Option<SetPlace>,
}

/// A member to be looked up in several sets: it is hashed and parsed as an integer at most once, on demand.
pub struct SoughtMember<'a> {
    bytes: &'a [u8],
    hash: Option<u64>,
    int: Option<Option<i64>>,
}

impl<'a> SoughtMember<'a> {
    /// The member `item`; `buffer` holds the text of an integer.
    #[must_use]
    pub fn new(item: Item<'a>, buffer: &'a mut DecimalBuffer) -> Self {
        let int = if let Item::Int(value) = item { Some(Some(value)) } else { None };
        Self { bytes: item.text(buffer), hash: None, int }
    }

    /// The member with these bytes.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes, hash: None, int: None }
    }

    /// The bytes of the member.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The integer, if the member is the canonical text of one.
    #[must_use]
    pub fn int(&mut self) -> Option<i64> {
        *self.int.get_or_insert_with(|| parse_canonical(self.bytes))
    }

    #[inline]
    fn hash(&mut self, alloc: AllocContext<'_>) -> u64 {
        *self.hash.get_or_insert_with(|| alloc.hasher.hash(self.bytes))
    }
}

impl Set {
    /// See [`crate::Object::prefetch_parts`].
    #[inline(always)]
    pub(crate) fn prefetch_parts(&self) {
        match &self.form {
            SetForm::Ints(ints) => ints.prefetch_head(),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.prefetch_head(),
        }
    }

    /// See [`crate::Object::prefetch_index`].
    #[inline(always)]
    pub(crate) fn prefetch_index(&self) {
        if let SetForm::Listpack(members) | SetForm::Hashtable(members) = &self.form {
            members.prefetch_index();
        }
    }

    /// See [`crate::Object::prefetch_member`].
    #[inline(always)]
    pub(crate) fn prefetch_member(&self, hash: u64, step: PrefetchStep) {
        if let SetForm::Listpack(members) | SetForm::Hashtable(members) = &self.form {
            members.prefetch_member(hash, step);
        }
    }

    /// An empty set in the encoding that suits `len` members, including this one.
    #[must_use]
    pub fn suiting(member: &[u8], len: usize, limits: SetLimits) -> Self {
        let form = if len <= limits.intset_len_max && parse_canonical(member).is_some() {
            SetForm::Ints(IntSet::new())
        } else if len <= limits.listpack_len_max {
            SetForm::Listpack(Members::new())
        } else {
            SetForm::Hashtable(Members::new())
        };
        Self { form }
    }

    /// An empty set of encoding `listpack`.
    #[must_use]
    pub fn new_listpack() -> Self {
        Self { form: SetForm::Listpack(Members::new()) }
    }

    /// An empty set of encoding `hashtable`.
    #[must_use]
    pub fn new_hashtable() -> Self {
        Self { form: SetForm::Hashtable(Members::new()) }
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.form {
            SetForm::Ints(ints) => ints.len(),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.len(),
        }
    }

    /// Whether the set has no members.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the encoding, as `OBJECT ENCODING` reports it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        match &self.form {
            SetForm::Ints(_) => "intset",
            SetForm::Listpack(_) => "listpack",
            SetForm::Hashtable(_) => "hashtable",
        }
    }

    /// Whether all members are stored as integers.
    #[must_use]
    pub fn is_intset(&self) -> bool {
        matches!(self.form, SetForm::Ints(_))
    }

    /// Whether the encoding is compact, so that one scan step visits all members.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        !matches!(self.form, SetForm::Hashtable(_))
    }

    /// Bytes of memory beside the set itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.estimated_bytes(usize::MAX)
    }

    pub(crate) fn estimated_bytes(&self, sample_len: usize) -> usize {
        match &self.form {
            SetForm::Ints(ints) => ints.memory_bytes(),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.estimated_bytes(sample_len),
        }
    }

    /// See [`crate::Object::relocate`].
    pub(crate) fn relocate(&mut self, heap: &Heap) -> bool {
        match &mut self.form {
            SetForm::Ints(ints) => ints.relocate(heap),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.relocate(heap),
        }
    }

    /// Whether dropping it may take long, because it has many allocations.
    #[must_use]
    pub fn is_costly_to_drop(&self) -> bool {
        match &self.form {
            SetForm::Ints(_) => false,
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                members.allocation_count() > COSTLY_ALLOCATION_COUNT
            }
        }
    }

    /// Whether the set has a member.
    #[inline]
    #[must_use]
    pub fn contains(&self, alloc: AllocContext<'_>, member: &[u8]) -> bool {
        match &self.form {
            SetForm::Ints(ints) => parse_canonical(member).is_some_and(|value| ints.contains(value)),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                let found = members.contains_unindexed(member);
                found.unwrap_or_else(|| members.contains(alloc.hasher.hash(member), member))
            }
        }
    }

    /// Whether an intset has an integer.
    #[inline]
    #[must_use]
    pub fn has_int(&self, value: i64) -> bool {
        matches!(&self.form, SetForm::Ints(ints) if ints.contains(value))
    }

    /// Whether the set has this member.
    #[inline]
    #[must_use]
    pub fn has(&self, alloc: AllocContext<'_>, wanted: &mut SoughtMember<'_>) -> bool {
        match &self.form {
            SetForm::Ints(ints) => wanted.int().is_some_and(|value| ints.contains(value)),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                members.contains(wanted.hash(alloc), wanted.bytes)
            }
        }
    }

    /// Updates the encoding before `len` members are added at once.
    pub fn expect_len(&mut self, alloc: AllocContext<'_>, len: usize, limits: SetLimits) {
        let too_many = match &self.form {
            SetForm::Ints(_) => len > limits.intset_len_max,
            SetForm::Listpack(_) => len > limits.listpack_len_max,
            SetForm::Hashtable(_) => false,
        };
        if too_many {
            self.become_hashtable(alloc);
        }
    }

    /// Reserves space for members that are about to be added to an empty set, if they are few.
    pub fn reserve<'m>(&mut self, alloc: AllocContext<'_>, members: impl Iterator<Item = &'m [u8]> + Clone) {
        let count = members.clone().count();
        match &mut self.form {
            SetForm::Ints(ints) if count <= RESERVED_INTS_MAX => {
                // Nearly always one of the widest integers.
                let longest = members.max_by_key(|member| member.len());
                if let Some(value) = longest.and_then(parse_canonical) {
                    ints.reserve(alloc.heap, count, value);
                }
            }
            SetForm::Ints(_) => {}
            SetForm::Listpack(of_set) | SetForm::Hashtable(of_set) => {
                of_set.reserve(alloc, count, members.map(<[u8]>::len).sum());
            }
        }
    }

    /// Gives back space that [`Self::reserve`] has reserved for members that were equal.
    #[cold]
    pub fn shrink_if_roomy(&mut self, alloc: AllocContext<'_>) {
        match &mut self.form {
            SetForm::Ints(ints) => ints.shrink_if_roomy(alloc.heap),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.shrink_if_roomy(alloc),
        }
    }

    /// Adds a member. Returns whether it was new.
    #[inline]
    pub fn add(&mut self, alloc: AllocContext<'_>, member: &[u8], limits: SetLimits) -> bool {
        match &mut self.form {
            SetForm::Hashtable(members) => members.add(alloc, alloc.hasher.hash(member), member),
            SetForm::Listpack(members) => {
                let is_added = members.try_add_unindexed(alloc, member);
                let is_new =
                    is_added.unwrap_or_else(|| members.add(alloc, alloc.hasher.hash(member), member));
                if is_new
                    && (members.len() > limits.listpack_len_max
                        || member.len() > limits.listpack_value_size_max)
                {
                    self.become_hashtable(alloc);
                }
                is_new
            }
            SetForm::Ints(_) => self.add_to_ints(alloc, member, limits),
        }
    }

    /// Adds a member obtained from a set. Returns whether it was new.
    pub fn add_item(&mut self, alloc: AllocContext<'_>, item: Item<'_>, limits: SetLimits) -> bool {
        self.add(alloc, item.text(&mut DecimalBuffer::new()), limits)
    }

    /// Removes a member. Returns whether it was present.
    #[inline]
    pub fn remove(&mut self, alloc: AllocContext<'_>, member: &[u8]) -> bool {
        match &mut self.form {
            SetForm::Ints(ints) => {
                parse_canonical(member).is_some_and(|value| ints.remove(alloc.heap, value))
            }
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                let is_removed = members.try_remove_unindexed(alloc, member);
                is_removed.unwrap_or_else(|| members.remove(alloc, alloc.hasher.hash(member), member))
            }
        }
    }

    /// A uniformly random member. The set must not be empty.
    #[must_use]
    pub fn sample(&self, random: &mut impl FnMut() -> u64) -> Sampled<'_> {
        match &self.form {
            SetForm::Ints(ints) => {
                let index = below(random(), ints.len());
                Sampled { item: Item::Int(ints.at(index)), place: Some(SetPlace(Spot::Int(index as u32))) }
            }
            SetForm::Listpack(members) | SetForm::Hashtable(members) => match members.sample(random) {
                Some(place) => Sampled {
                    item: Item::Bytes(members.at(place)),
                    place: Some(SetPlace(Spot::Member(place))),
                },
                None => {
                    let entry =
                        members.sample_side_table(random()).expect("a set without leaves has members");
                    Sampled { item: Item::Bytes(entry.key()), place: None }
                }
            },
        }
    }

    /// Passes a random member to `visit` and removes it. The set must not be empty.
    pub fn pop(
        &mut self,
        alloc: AllocContext<'_>,
        random: &mut impl FnMut() -> u64,
        visit: impl FnOnce(Item<'_>),
    ) {
        let Sampled { item, place } = self.sample(random);
        visit(item);
        let Some(SetPlace(spot)) = place else {
            let member: Box<[u8]> = item.text(&mut DecimalBuffer::new()).into();
            self.remove(alloc, &member);
            return;
        };
        match (&mut self.form, spot) {
            (SetForm::Ints(ints), Spot::Int(index)) => ints.remove_at(alloc.heap, index as usize),
            (SetForm::Listpack(members) | SetForm::Hashtable(members), Spot::Member(place)) => {
                members.remove_member(alloc, place);
            }
            _ => unreachable!("the spot is of this set's form"),
        }
    }

    /// Visits the members in the order of [`Self::iter`] until `visit` returns false.
    #[inline]
    pub fn walk<'a>(&'a self, mut visit: impl FnMut(Item<'a>) -> bool) {
        match &self.form {
            SetForm::Ints(ints) => _ = (0..ints.len()).all(|index| visit(Item::Int(ints.at(index)))),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                members.walk(|member| visit(Item::Bytes(member)));
            }
        }
    }

    /// Iterates over the members in storage order: ascending in an intset, otherwise unspecified.
    pub fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        let (ints, members) = match &self.form {
            SetForm::Ints(ints) => (Some(ints), None),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => (None, Some(members)),
        };
        let ints = ints.into_iter().flat_map(|ints| (0..ints.len()).map(|index| Item::Int(ints.at(index))));
        ints.chain(members.into_iter().flat_map(Members::iter).map(Item::Bytes))
    }

    /// Upper bound of the cursors of [`Self::scan`].
    pub const CURSOR_MAX: u64 = Members::<Whole>::CURSOR_MAX;

    /// Visits some members from a position on (0 to begin); all members if the encoding is compact. Returns
    /// the position to continue from, or `None` at the end. A member that is present throughout a full walk
    /// is visited exactly once.
    pub fn scan<'a>(
        &'a self,
        alloc: AllocContext<'_>,
        from: u64,
        mut visit: impl FnMut(Item<'a>),
    ) -> Option<u64> {
        match &self.form {
            SetForm::Ints(_) | SetForm::Listpack(_) => {
                self.iter().for_each(visit);
                None
            }
            SetForm::Hashtable(members) => {
                let mut side_table = Vec::new();
                let next = members.scan(
                    alloc,
                    from,
                    |member| visit(Item::Bytes(member)),
                    |entry| side_table.push(entry),
                );
                side_table.into_iter().for_each(|entry| visit(Item::Bytes(entry.key())));
                next
            }
        }
    }

    /// Converts to an `intset` if every member is an integer and their number is within the limit.
    pub fn become_intset_if_all(&mut self, alloc: AllocContext<'_>, limits: SetLimits) {
        let (SetForm::Listpack(members) | SetForm::Hashtable(members)) = &self.form else { return };
        if members.len() > limits.intset_len_max.min(intset::LEN_END / 2) {
            return;
        }
        let mut values = Vec::with_capacity(members.len());
        for member in members.iter() {
            let Some(value) = parse_canonical(member) else { return };
            values.push(value);
        }
        values.sort_unstable();
        let mut ints = IntSet::new();
        if let [first, .., last] = *values {
            ints.reserve(alloc.heap, values.len(), first);
            ints.reserve(alloc.heap, values.len(), last);
        }
        values.into_iter().for_each(|value| {
            ints.add(alloc.heap, value);
        });
        self.form = SetForm::Ints(ints);
    }

    /// A deep copy with the same encoding and its larger parts in `heap`.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        let form = match &self.form {
            SetForm::Ints(ints) => SetForm::Ints(ints.to_copy(heap)),
            SetForm::Listpack(members) => SetForm::Listpack(members.to_copy(heap)),
            SetForm::Hashtable(members) => SetForm::Hashtable(members.to_copy(heap)),
        };
        Self { form }
    }

    /// See [`crate::Object::is_large`].
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.form, SetForm::Hashtable(members) if members.is_large())
    }

    /// See [`crate::Object::tracked`].
    pub(crate) fn tracked(&self) -> Option<(&Tracker, &dyn Walkable)> {
        match &self.form {
            SetForm::Ints(_) => None,
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.tracked(),
        }
    }

    /// Verifies the invariants.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, alloc: AllocContext<'_>) -> Result<(), String> {
        match &self.form {
            SetForm::Ints(ints) => ints.check(),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => members.check(alloc),
        }
    }

    fn add_to_ints(&mut self, alloc: AllocContext<'_>, member: &[u8], limits: SetLimits) -> bool {
        let SetForm::Ints(ints) = &mut self.form else { unreachable!("callers have seen the form") };
        if let Some(value) = parse_canonical(member) {
            let is_new = ints.add(alloc.heap, value);
            if is_new && ints.len() > limits.intset_len_max.min(intset::LEN_END / 2) {
                self.become_hashtable(alloc);
            }
            return is_new;
        }
        let (len, last) = (ints.len(), ints.len().saturating_sub(1));
        let longest = if len == 0 { 0 } else { decimal_len(ints.at(0)).max(decimal_len(ints.at(last))) };
        let is_listpack =
            len < limits.listpack_len_max && member.len().max(longest) <= limits.listpack_value_size_max;
        let mut members = members_of(alloc, ints);
        members.add(alloc, alloc.hasher.hash(member), member);
        self.form = if is_listpack { SetForm::Listpack(members) } else { SetForm::Hashtable(members) };
        true
    }

    fn become_hashtable(&mut self, alloc: AllocContext<'_>) {
        let members = match &mut self.form {
            SetForm::Ints(ints) => members_of(alloc, ints),
            SetForm::Listpack(members) | SetForm::Hashtable(members) => {
                std::mem::replace(members, Members::new())
            }
        };
        self.form = SetForm::Hashtable(members);
    }
}

/// Integers for which space is reserved at most.
const RESERVED_INTS_MAX: usize = 512;

/// Number of allocations above which another thread frees a set.
const COSTLY_ALLOCATION_COUNT: usize = 64;

fn members_of(alloc: AllocContext<'_>, ints: &IntSet) -> Members<Whole> {
    let mut members = Members::new();
    let mut buffer = DecimalBuffer::new();
    for index in 0..ints.len() {
        let text = buffer.format(ints.at(index));
        members.add_new(alloc, alloc.hasher.hash(text), text);
    }
    members
}

impl Default for Set {
    fn default() -> Self {
        Self { form: SetForm::Ints(IntSet::new()) }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.encoding_name())?;
        f.debug_set().entries(self.iter()).finish()
    }
}

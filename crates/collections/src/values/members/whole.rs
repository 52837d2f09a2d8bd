//! Members that are their own keys: those of sets.

use super::position::MemberPlace;
use super::single::Single;
use super::{Keyed, Member, Members};
use crate::entry::Entry;
use crate::entry::owned_entry::{ExpiryChange, NewValue};
use crate::table::Table;
use crate::values::parameters::AllocContext;
use crate::values::tracking::Element;

/// Members that consist of their keys only.
pub(crate) enum Whole {}

impl Keyed for Whole {
    const SIZE_MAX: usize = 255;

    #[inline]
    fn key(element: &[u8]) -> &[u8] {
        element
    }

    #[inline]
    fn element(element: &[u8]) -> Element<'_> {
        Element::Member(element)
    }
}

impl Member for Whole {
    fn side_table_element(entry: Entry<'_>) -> Element<'_> {
        Element::Member(entry.key())
    }
}

impl Members<Whole> {
    /// Whether a member exists. `hash` is the hash of its bytes.
    #[inline]
    pub(crate) fn contains(&self, hash: u64, member: &[u8]) -> bool {
        self.find(hash, member).is_some()
            || self.side_table().is_some_and(|side_table| side_table.find(hash, member).is_some())
    }

    /// Whether a member exists, if there is no index, which would need its hash.
    #[inline]
    pub(crate) fn contains_unindexed(&self, member: &[u8]) -> Option<bool> {
        let single = self.unindexed()?;
        Some(single.leaf().find::<Whole>(0, member).is_some())
    }

    /// [`Self::add`], if there is no index, and none is needed for one member more.
    #[inline]
    pub(crate) fn try_add_unindexed(&mut self, alloc: AllocContext<'_>, member: &[u8]) -> Option<bool> {
        let Self::One(single) = self else { return None };
        single.try_add_unindexed::<Whole>(alloc, member)
    }

    /// [`Self::remove`], if there is no index.
    #[inline]
    pub(crate) fn try_remove_unindexed(&mut self, alloc: AllocContext<'_>, member: &[u8]) -> Option<bool> {
        let index = self.unindexed()?.leaf().find::<Whole>(0, member);
        if let (Self::One(single), Some(index)) = (self, index) {
            single.remove::<Whole>(alloc, index);
        }
        Some(index.is_some())
    }

    #[inline]
    fn unindexed(&self) -> Option<&Single> {
        let Self::One(single) = self else { return None };
        (single.leaf().slots() == 0).then_some(single)
    }

    /// Adds a member. Returns whether it was new.
    #[inline]
    pub(crate) fn add(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8]) -> bool {
        if self.contains(hash, member) {
            return false;
        }
        self.add_new(alloc, hash, member);
        true
    }

    /// Adds an absent member.
    #[inline]
    pub(crate) fn add_new(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8]) {
        if !self.try_add(alloc, hash, member) {
            add_to_side_table(self.side_table_or_new(alloc, hash), alloc, hash, member);
        }
    }

    /// Removes a member. Returns whether it existed.
    pub(crate) fn remove(&mut self, alloc: AllocContext<'_>, hash: u64, member: &[u8]) -> bool {
        if let Some(place) = self.find(hash, member) {
            self.remove_member(alloc, place);
            return true;
        }
        let removed =
            self.side_table_mut(hash).and_then(|side_table| side_table.remove(alloc.heap, hash, member));
        if removed.is_some() {
            self.make_compact(alloc, side_table_adder(alloc));
        }
        removed.is_some()
    }

    /// Removes the member at a place.
    pub(crate) fn remove_member(&mut self, alloc: AllocContext<'_>, place: MemberPlace) {
        self.remove_at(alloc, place, side_table_adder(alloc));
    }

    /// Visits the members in the order of [`Self::iter`] until `visit` returns false.
    #[inline]
    pub(crate) fn walk<'a>(&'a self, visit: impl FnMut(&'a [u8]) -> bool) {
        match self {
            Self::One(single) => _ = single.leaf().iter().all(visit),
            Self::Many(_) => _ = self.iter().all(visit),
        }
    }

    /// Every member, in the order in which they are stored.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let side_table = self.side_table().into_iter().flat_map(Table::iter);
        self.iter_leaves().chain(side_table.map(|entry| entry.key()))
    }
}

fn add_to_side_table(side_table: &mut Table, alloc: AllocContext<'_>, hash: u64, member: &[u8]) {
    side_table.upsert(alloc.heap, hash, member, NewValue::Bytes(&[]), ExpiryChange::Clear);
}

fn side_table_adder(alloc: AllocContext<'_>) -> impl FnMut(&mut Table, &[u8]) {
    move |side_table, member| add_to_side_table(side_table, alloc, alloc.hasher.hash(member), member)
}

impl std::fmt::Debug for Members<Whole> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

// Not under Miri: the tested code is safe.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::linear_hash::LinearHashDirectory;
    use super::*;
    use crate::{Heap, KeyHasher};

    #[test]
    fn planted_faults_are_noticed() {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
        let alloc = AllocContext { heap: &heap, hasher: &hasher };
        let filled = || {
            let mut members = Members::new();
            for number in 0..200 {
                let member = format!("member:{number}");
                assert!(members.add(alloc, hasher.hash(member.as_bytes()), member.as_bytes()));
            }
            members
        };
        assert_eq!(filled().check(alloc), Ok(()));
        let faults: [fn(&Heap, &mut LinearHashDirectory<Whole>); 4] = [
            |_, directory| *directory.parts().1 += 1,
            |_, directory| directory.parts().0[0].swap(0, 1),
            |heap, directory| directory.push_anyway(heap, 2, 7, b"unexpected"),
            |heap, directory| {
                let member: Box<[u8]> = directory.leaf(1).at(0).into();
                let tag = directory.leaf(1).tag(0);
                directory.push_anyway(heap, 1, tag, &member);
                *directory.parts().1 += 1;
            },
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            let mut members = filled();
            fault(&heap, &mut members.many_mut(alloc).directory);
            assert!(members.check(alloc).is_err(), "fault {number}");
        }
    }
}

//! How a member is found: the bits of its hash, its place, the steps of a prefetch.

/// A member's place, valid until a member is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemberPlace {
    pub(super) leaf: u32,
    pub(super) index: u32,
}

/// The steps of a search after those that are equal for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStep {
    /// To the leaf's place in the directory, or to the member if there is only one leaf.
    Place,
    /// To the start of the leaf.
    Head,
    /// To the member in the leaf.
    Member,
}

impl PrefetchStep {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Place, Self::Head, Self::Member];
}

/// Bits of the hash that define the order of a scan; the next higher bit marks a position in the table.
pub(super) const ORDER_BITS: u32 = 32;

/// The tag of a hash, from bits that select no leaf.
#[inline]
pub(super) const fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The position of a hash in the order of a scan.
#[inline]
pub(super) const fn scan_position(hash: u64) -> u32 {
    (hash as u32).reverse_bits()
}

//! Reading groups of elements from bytes: one, past one, or in sequence.

use std::ops::Range;

use super::Packed;
use super::element::{Item, size_at, split};

/// Groups from front to back; from the back each costs as much as [`Packed::at`].
#[derive(Clone)]
pub struct PackedIter<'a, const N: usize, const FIND: bool> {
    packed: &'a Packed<N, FIND>,
    rest: &'a [u8],
    range: Range<usize>,
}

impl<'a, const N: usize, const FIND: bool> PackedIter<'a, N, FIND> {
    /// The groups of `range`; the first is at the start of `rest`.
    #[inline]
    pub(super) fn new(packed: &'a Packed<N, FIND>, rest: &'a [u8], range: Range<usize>) -> Self {
        Self { packed, rest, range }
    }
}

impl<'a, const N: usize, const FIND: bool> Iterator for PackedIter<'a, N, FIND> {
    type Item = [Item<'a>; N];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.range.next()?;
        let (items, rest) = read_group(self.rest);
        self.rest = rest;
        Some(items)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl<const N: usize, const FIND: bool> DoubleEndedIterator for PackedIter<'_, N, FIND> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let index = self.range.next_back()?;
        Some(self.packed.at(index))
    }
}

impl<const N: usize, const FIND: bool> ExactSizeIterator for PackedIter<'_, N, FIND> {}

#[inline]
pub(super) fn read_group<const N: usize>(source: &[u8]) -> ([Item<'_>; N], &[u8]) {
    let mut rest = source;
    let items = std::array::from_fn(|_| {
        let (item, behind) = split(rest);
        rest = behind;
        item
    });
    (items, rest)
}

/// The bytes behind the first group.
#[inline]
pub(super) fn skip<const N: usize>(mut source: &[u8]) -> &[u8] {
    for _ in 0..N {
        source = &source[size_at(source)..];
    }
    source
}

#[inline]
pub(super) fn read_u16(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

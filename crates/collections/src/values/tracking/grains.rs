//! The positions of one part of a tracked collection: how far it is walked, and which positions are preserved.
//!
//! Positions have 32 bits. Marks are bits for *grains*: ranges of positions, about four for each element, so that a
//! change preserves little more than it changes, and the memory for marks is bounded.

use std::ops::Range;

pub(crate) struct Grains {
    /// The first position that is not walked; [`END`] after all.
    walked: u64,
    /// Bits of a position that its grain does not have.
    shift: u32,
    /// A bit for each grain; empty before the first mark.
    marks: Vec<u64>,
}

/// The position after all others.
const END: u64 = 1 << 32;

/// Smallest and largest number of grains, as a power of two.
const GRAIN_BITS: Range<u32> = 6..25;

impl Grains {
    /// Bits by which a position in a table is shifted.
    pub(crate) const TABLE_SHIFT: u32 = 8;

    /// Unmarked grains for this many elements.
    pub(crate) fn new(len: usize) -> Self {
        let bits = (len.max(1).ilog2() + 2).clamp(GRAIN_BITS.start, GRAIN_BITS.end - 1);
        Self { walked: 0, shift: 32 - bits, marks: Vec::new() }
    }

    /// The position from which the walk goes on; `None` at the end.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        u32::try_from(self.walked).ok()
    }

    /// Records how far the walk is; `None`: at the end.
    pub(crate) fn advance(&mut self, next: Option<u64>) {
        self.walked = next.unwrap_or(END);
    }

    /// Whether any position is preserved.
    #[inline]
    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Whether a position is preserved.
    #[inline]
    pub(crate) fn is_preserved(&self, position: u32) -> bool {
        let grain = (position >> self.shift) as usize;
        self.marks.get(grain / 64).is_some_and(|word| word >> (grain % 64) & 1 != 0)
    }

    /// Marks the grain of a position. Returns its positions that the walk has not visited, if they have to be
    /// preserved now.
    pub(crate) fn begin_change(&mut self, position: u32) -> Option<Range<u64>> {
        let grain = position >> self.shift;
        let positions = u64::from(grain) << self.shift..(u64::from(grain) + 1) << self.shift;
        if positions.end <= self.walked || self.is_preserved(position) {
            return None;
        }
        if self.marks.is_empty() {
            self.marks = vec![0; 1 << (32 - self.shift - 6)];
        }
        self.marks[grain as usize / 64] |= 1 << (grain % 64);
        Some(positions.start.max(self.walked)..positions.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grain_is_preserved_once_and_only_ahead_of_the_walk() {
        let mut grains = Grains::new(1);
        let size = 1u64 << 26;
        assert!(!grains.has_marks() && !grains.is_preserved(0));
        grains.advance(Some(3 * size + 5));
        assert_eq!(grains.begin_change((3 * size - 1) as u32), None);
        assert_eq!(grains.begin_change((3 * size) as u32), Some(3 * size + 5..4 * size));
        assert_eq!(grains.begin_change((4 * size - 1) as u32), None);
        assert_eq!(grains.begin_change(u32::MAX), Some(END - size..END));
        assert!(grains.is_preserved(u32::MAX) && !grains.is_preserved((4 * size) as u32));
        assert_eq!(grains.next(), Some((3 * size + 5) as u32));
        grains.advance(None);
        assert_eq!((grains.next(), grains.begin_change(5 << 26)), (None, None));
    }
}

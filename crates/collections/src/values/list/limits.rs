//! `list-max-listpack-size`: up to which size Redis keeps a list in one listpack, and the size of its
//! elements there.

use crate::packed::Item;

/// Head and end of a listpack, in bytes.
pub(super) const EMPTY_LISTPACK_SIZE: usize = 7;

/// The largest listpack where the directive limits the number of elements.
const SAFE_SIZE_MAX: usize = 8192;

/// The limit up to which a list's encoding is `listpack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    size_max: Option<usize>,
    len_max: usize,
}

impl ListLimits {
    /// The limit for a value of the directive: 4, 8, 16, 32 or 64 KiB for -1 to -5, otherwise a number of
    /// elements.
    #[must_use]
    pub fn of_directive(fill: i64) -> Self {
        match fill {
            ..0 => {
                let size_max = 4096 << (fill.max(-5).unsigned_abs() - 1);
                Self { size_max: Some(size_max), len_max: usize::MAX }
            }
            _ => Self { size_max: None, len_max: usize::try_from(fill.max(1)).unwrap_or(usize::MAX) },
        }
    }

    /// Whether a listpack of this size and length is too large.
    #[inline]
    pub(super) fn are_exceeded(self, size: usize, len: usize) -> bool {
        match self.size_max {
            Some(size_max) => size > size_max,
            None => size > SAFE_SIZE_MAX || len > self.len_max,
        }
    }

    /// Whether half of the limit suffices; where the directive limits the number of elements, with any safe
    /// size.
    #[inline]
    pub(super) fn are_half_kept(self, size: usize, len: usize) -> bool {
        size <= self.size_max.map_or(SAFE_SIZE_MAX, |size_max| size_max / 2) && len <= self.len_max / 2
    }

    /// The largest element that shares a node with others.
    pub(super) fn shared_size_max(self) -> usize {
        self.size_max.unwrap_or(SAFE_SIZE_MAX)
    }
}

/// Bytes that an element takes in a listpack.
#[inline]
pub(super) fn listpack_size(item: Item<'_>) -> usize {
    let size = match item {
        Item::Int(0..=127) => 1,
        Item::Int(-4096..=4095) => 2,
        Item::Int(-32768..=32767) => 3,
        Item::Int(-8_388_608..=8_388_607) => 4,
        Item::Int(-2_147_483_648..=2_147_483_647) => 5,
        Item::Int(_) => 9,
        Item::Bytes(bytes) => match bytes.len() {
            len @ 0..=63 => 1 + len,
            len @ 64..=4095 => 2 + len,
            len => 5 + len,
        },
    };
    // Each entry ends with its own length, seven bits a byte.
    size + match size {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

//! The bins in which values are counted by type and size. A change of a value compares two of them, and most changes leave
//! the value in its bin.

use crate::values::object::Kind;

/// Number of types that are counted, which are the first ones. Streams are not counted.
const KIND_COUNT: usize = 5;

const _: () = assert!(Kind::Hash as usize + 1 == KIND_COUNT && Kind::Stream as usize == KIND_COUNT);
const _: () = assert!(SizeBin::COUNT < SizeBin::UNCOUNTED.0 as usize);

/// A type, and the sizes with the same number of binary digits: 0, 1, 2 to 3, 4 to 7, and so on. The size of a string is its
/// bytes, that of a collection its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin(u8);

impl SizeBin {
    /// Number of bins of a type. The last one has all sizes from 2^47 on.
    pub const COUNT_BY_KIND: usize = 49;

    /// Number of bins of all types that are counted.
    pub const COUNT: usize = KIND_COUNT * Self::COUNT_BY_KIND;

    /// That of the values that are not counted.
    const UNCOUNTED: Self = Self(u8::MAX);

    /// The bin of a value.
    #[inline]
    #[must_use]
    pub const fn of(kind: Kind, size: usize) -> Self {
        if kind as usize >= KIND_COUNT {
            return Self::UNCOUNTED;
        }
        let digit_count = (usize::BITS - size.leading_zeros()) as usize;
        let last = Self::COUNT_BY_KIND - 1;
        let bin = if digit_count < last { digit_count } else { last };
        Self((kind as usize * Self::COUNT_BY_KIND + bin) as u8)
    }

    /// Its number, below [`Self::COUNT`]: those of a type follow each other, in the order of the types. `None`: the type is not
    /// counted.
    #[inline]
    #[must_use]
    pub fn index(self) -> Option<usize> {
        (self != Self::UNCOUNTED).then_some(usize::from(self.0))
    }
}

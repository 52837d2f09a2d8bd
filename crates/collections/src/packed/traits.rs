//! Traits of the standard library for packed sequences: default, clone, debug output, iteration.

use super::{Packed, PackedIter};
use crate::packed::Item;

impl<const N: usize, const FIND: bool> Default for Packed<N, FIND> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, const FIND: bool> Clone for Packed<N, FIND> {
    fn clone(&self) -> Self {
        // Including its index, which takes longer to write than to copy, unless much of the block is
        // vacant.
        if !self.is_roomy() {
            return Self { block: self.block.to_copy() };
        }
        let mut copy = Self::new();
        copy.append(self);
        copy
    }
}

impl<const N: usize, const FIND: bool> std::fmt::Debug for Packed<N, FIND> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, const N: usize, const FIND: bool> IntoIterator for &'a Packed<N, FIND> {
    type Item = [Item<'a>; N];
    type IntoIter = PackedIter<'a, N, FIND>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

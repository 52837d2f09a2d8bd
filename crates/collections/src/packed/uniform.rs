//! A sequence of equally long strings, one behind the other: what a packed sequence of them becomes once it is full.
//!
//! Without a length and an offset for each element, 20 bytes take 20 instead of 23. Elements are removed at any place,
//! and added only at an end where others were removed. When less than half of the block is used, it shrinks.
//!
//! Owns its block, whose head has the size of an element, their number, and the number of places before the first
//! one.
//!
//! Invariant ([`Uniform::check`]): the places fit the block, and no element is the text of an integer, which a packed
//! sequence would store as such.

use super::block::PackedBlock;
use super::element::{Item, SHORT_LEN_MAX};
use super::{Packed, USED_MAX, WASTE_SIZE_MIN};
use crate::short_bytes::copy_short;

/// Equally long strings.
pub(crate) struct Uniform {
    block: PackedBlock,
}

impl Uniform {
    /// The elements of a packed sequence in a block of their size; `None` if they are not equally long strings.
    pub(crate) fn of(elements: &Packed<1, false>) -> Option<Self> {
        let len = elements.len();
        if len < 2 {
            return None;
        }
        let bytes = &elements.block.bytes()[elements.start()..elements.end()];
        let size = usize::from(bytes[0]);
        if size == 0 || size > SHORT_LEN_MAX || bytes.len() != len * (1 + size) || len * size > USED_MAX {
            return None;
        }
        if bytes.iter().step_by(1 + size).any(|head| usize::from(*head) != size) {
            return None;
        }
        let mut block = PackedBlock::new();
        block.resize(len * size);
        let (mut target, mut source) = (block.bytes_mut(), bytes);
        for _ in 0..len {
            let (from, behind) = source.split_at(1 + size);
            let (to, rest) = target.split_at_mut(size);
            copy_short(&from[1..], to);
            (source, target) = (behind, rest);
        }
        block.update(|head| (head.used, head.len) = (size as u16, len as u16));
        Some(Self { block })
    }

    /// The elements as a packed sequence.
    pub(crate) fn to_packed(&self) -> Packed<1, false> {
        let mut packed = Packed::new();
        packed.reserve(self.len(), self.len() * self.element_size());
        self.iter().for_each(|element| packed.push_back([element]));
        packed
    }

    /// Number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.block.head().len)
    }

    /// Bytes of an element.
    #[inline]
    pub(crate) fn element_size(&self) -> usize {
        usize::from(self.block.head().used)
    }

    /// Bytes of memory in addition to its one word.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.size()
    }

    /// The element at an index. Panics beyond the end.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        assert!(index < self.len(), "beyond the end");
        let size = self.element_size();
        &self.block.bytes()[(self.place() + index) * size..][..size]
    }

    /// All elements.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.iter_from(0)
    }

    /// The elements from an index on.
    #[inline]
    pub(crate) fn iter_from(&self, index: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let (len, size, place) = (self.len(), self.element_size(), self.place());
        let elements = &self.block.bytes()[(place + index.min(len)) * size..(place + len) * size];
        elements.chunks_exact(size)
    }

    /// Adds an element at an end, if it is as long as the others and there is a place.
    pub(crate) fn try_insert(&mut self, index: usize, text: &[u8]) -> bool {
        let (len, size, place) = (self.len(), self.element_size(), self.place());
        if !self.takes(text) {
            return false;
        }
        let new_place = if index == len && (place + len + 1) * size <= self.block.capacity() {
            place
        } else if index == 0 && place > 0 {
            place - 1
        } else {
            return false;
        };
        self.block.update(|head| {
            head.len += 1;
            head.set_place(new_place as u16);
        });
        self.block.bytes_mut()[(new_place + index) * size..][..size].copy_from_slice(text);
        true
    }

    /// Replaces an element, if the other one is as long. Panics beyond the end.
    pub(crate) fn try_replace(&mut self, index: usize, text: &[u8]) -> bool {
        assert!(index < self.len(), "beyond the end");
        let (size, place) = (self.element_size(), self.place());
        if self.takes(text) {
            self.block.bytes_mut()[(place + index) * size..][..size].copy_from_slice(text);
            return true;
        }
        false
    }

    /// Removes `count` elements from an index on. Panics beyond the end.
    #[inline]
    pub(crate) fn remove_range(&mut self, index: usize, count: usize) {
        let (len, size, place) = (self.len(), self.element_size(), self.place());
        assert!(index + count <= len, "beyond the end");
        let mut new_place = place;
        if index == 0 {
            new_place += count;
        } else if index + count < len {
            let behind = (place + index + count) * size..(place + len) * size;
            self.block.bytes_mut().copy_within(behind, (place + index) * size);
        }
        self.block.update(|head| {
            head.len -= count as u16;
            head.set_place(new_place as u16);
        });
        if self.block.capacity() > 2 * (len - count) * size + WASTE_SIZE_MIN {
            self.shrink();
        }
    }

    /// Moves the elements to a block of their size.
    #[cold]
    fn shrink(&mut self) {
        let (len, size, start) = (self.len(), self.element_size(), self.place() * self.element_size());
        let mut block = PackedBlock::new();
        block.resize(len * size);
        block.bytes_mut()[..len * size].copy_from_slice(&self.block.bytes()[start..start + len * size]);
        block.update(|head| (head.used, head.len) = (size as u16, len as u16));
        self.block = block;
    }

    /// Verifies the invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        if (self.place() + self.len()) * self.element_size() > self.block.capacity() {
            return Err("elements beyond the block".to_owned());
        }
        if self.element_size() == 0 || !self.iter().all(|element| self.takes(element)) {
            return Err("an integer as its text".to_owned());
        }
        Ok(())
    }

    /// Whether a text can be an element.
    #[inline]
    fn takes(&self, text: &[u8]) -> bool {
        text.len() == self.element_size() && matches!(Item::of_text(text), Item::Bytes(_))
    }

    /// Number of places before the first element.
    #[inline]
    fn place(&self) -> usize {
        usize::from(self.block.head().place())
    }
}

impl Clone for Uniform {
    fn clone(&self) -> Self {
        Self { block: self.block.to_copy() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(texts: &[&str]) -> Packed<1, false> {
        let mut packed = Packed::new();
        texts.iter().for_each(|text| packed.push_back([text.as_bytes()]));
        packed
    }

    #[test]
    fn only_equally_long_strings_become_uniform() {
        for size in (1..=127).step_by(if cfg!(miri) { 42 } else { 1 }) {
            let texts: Vec<String> =
                (0..9).map(|number| "x".repeat(size - 1) + &("abcdefghi")[number..=number]).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let uniform = Uniform::of(&packed(&texts)).expect("they are equally long");
            assert!(uniform.iter().eq(texts.iter().map(|text| text.as_bytes())));
        }
        assert!(Uniform::of(&packed(&["ab", "cd", "ef"])).is_some());
        let long = "x".repeat(128);
        let others: [&[&str]; 6] =
            [&[], &["ab"], &["", ""], &["ab", "c", "def"], &["ab", "17"], &[&long, &long]];
        for other in others {
            assert!(Uniform::of(&packed(other)).is_none(), "{other:?}");
        }
    }

    #[test]
    fn changes_agree_with_a_vector() {
        let mut model: Vec<String> =
            (100..if cfg!(miri) { 106 } else { 140 }).map(|number| format!("x{number}")).collect();
        let texts: Vec<&str> = model.iter().map(String::as_str).collect();
        let mut uniform = Uniform::of(&packed(&texts)).expect("they are equally long");
        let mut bits = 5u64;
        while model.len() > 1 {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let index = [0, model.len() - 1, (bits >> 40) as usize % model.len()][(bits >> 20) as usize % 3];
            let text = format!("y{}", 100 + (bits >> 50) % 900);
            match bits >> 61 {
                0 | 1 => {
                    let at = if index == 0 { 0 } else { model.len() };
                    if uniform.try_insert(at, text.as_bytes()) {
                        model.insert(at, text);
                    }
                }
                2 => {
                    assert!(uniform.try_replace(index, text.as_bytes()));
                    model[index] = text;
                }
                3 => assert!(!uniform.try_replace(index, b"1234") && !uniform.try_insert(0, b"long one")),
                _ => {
                    let count = 1 + (bits >> 30) as usize % 2.min(model.len() - index);
                    uniform.remove_range(index, count);
                    model.drain(index..index + count);
                }
            }
            assert_eq!(uniform.check(), Ok(()));
            assert!(uniform.memory_bytes() <= 2 * 4 * model.len() + 72, "room is given back");
            assert!(uniform.iter().eq(model.iter().map(String::as_bytes)));
            let copy = uniform.clone().to_packed();
            assert!(copy.iter().eq(model.iter().map(|text| [Item::Bytes(text.as_bytes())])));
        }
    }

    #[test]
    fn a_planted_fault_is_noticed() {
        let mut uniform = Uniform::of(&packed(&["a1", "a2"])).expect("they are equally long");
        uniform.block.bytes_mut()[2] = b'4';
        assert!(uniform.check().is_err());
        uniform.block.bytes_mut()[2] = b'a';
        assert_eq!(uniform.check(), Ok(()));
        uniform.block.update(|head| head.set_place(100));
        assert!(uniform.check().is_err());
    }
}

//! A packed sequence of single elements that is written at once: loaders know all elements of it.

use super::block::PackedBlock;
use super::element::Encoded;
use super::{Item, Packed, USED_MAX};
use crate::memory::heap::Heap;

/// The elements of the next sequence, encoded.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    offsets: Vec<u16>,
}

impl Builder {
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of the elements.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an element at the end. An integer must not be passed as its text. Panics beyond 64 KiB.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'_>) {
        let at = self.bytes.len();
        let encoded = Encoded::new(item);
        assert!(at + encoded.size() <= USED_MAX, "callers check first whether it fits");
        self.offsets.push(at as u16);
        encoded.append_to(&mut self.bytes);
    }

    /// The sequence, in a block of its size, in `heap` if there is one. The builder is empty afterwards.
    pub(crate) fn finish(&mut self, heap: Option<&Heap>) -> Packed<1, false> {
        let mut packed = Packed::new();
        let (used, len) = (self.bytes.len(), self.offsets.len());
        if len == 0 {
            return packed;
        }
        let index_capacity = Packed::<1, false>::index_capacity_of_new(len);
        let capacity = used + index_capacity * Packed::<1, false>::INDEX_ITEM_SIZE;
        packed.block = match heap {
            Some(heap) => PackedBlock::in_heap(heap, capacity, &self.bytes),
            None => PackedBlock::with_start(capacity, &self.bytes),
        };
        packed.block.update(|head| {
            head.used = used as u16;
            head.len = len as u16;
            head.set_index_capacity(index_capacity);
        });
        if index_capacity > 0 {
            for (target, offset) in packed.offsets_mut().as_chunks_mut().0.iter_mut().zip(&self.offsets) {
                *target = offset.to_le_bytes();
            }
        }
        self.bytes.clear();
        self.offsets.clear();
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_sequence_equals_one_that_was_filled() {
        let (heap, mut builder) = (Heap::new(), Builder::default());
        for len in [0, 1, 31, 32, 33, 200] {
            let mut expected = Packed::<1, false>::new();
            for number in 0..len {
                let text = if number % 3 == 0 { number.to_string() } else { "x".repeat(number) };
                builder.push(Item::of_text(text.as_bytes()));
                expected.push_back([text.as_bytes()]);
            }
            assert_eq!((builder.len(), builder.size()), (expected.len(), expected.size()));
            let mut built = builder.finish(len.is_multiple_of(2).then_some(&heap));
            assert_eq!(built.check(), Ok(()));
            assert!(built.iter().eq(expected.iter()) && builder.len() == 0);
            built.push_back([b"behind"]);
            built.push_front([b"before"]);
            assert_eq!(built.check(), Ok(()));
            assert_eq!(built.len(), len + 2);
        }
    }
}

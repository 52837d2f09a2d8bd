//! The block sizes of spans.
//!
//! From 16 to 512 bytes in steps of 8, so that an entry wastes 3.5 bytes on average; to 2 KiB in steps of 3
//! to 6 %; then the sizes of larger table segments, which fill a span almost exactly, and a whole span. Every
//! size that is a multiple of 64 yields blocks aligned to a cache line.

use crate::memory::span_pool::SPAN_SIZE;

/// Bytes of a cache line.
pub(crate) const LINE_SIZE: usize = 64;

/// Largest block that shares a span; larger blocks, except whole spans, come from the global allocator.
pub(crate) const BLOCK_SIZE_MAX: usize = 4096;

/// The size of a block that is a whole span.
pub(crate) const SPAN_BLOCK_SIZE: usize = 32 * 1024;

/// Number of size classes.
pub(crate) const CLASS_COUNT: usize = COARSE_START + 16 + SEGMENT_SIZES.len();

/// First class whose freed blocks may be subdivided for smaller blocks: 1152 bytes.
pub(crate) const SUBDIVIDED_CLASS_START: usize = class_of(1152);

/// Number of classes whose freed blocks may be subdivided.
pub(crate) const SUBDIVIDED_CLASS_COUNT: usize = CLASS_COUNT - SUBDIVIDED_CLASS_START;

/// End of the classes for which blocks may be subdivided: up to 256 bytes.
pub(crate) const INNER_CLASS_END: usize = class_of(256) + 1;

const BLOCK_SIZE_MIN: usize = 16;
const FINE_MAX: usize = 512;
const MIDDLE_MAX: usize = 1024;
const COARSE_MAX: usize = 2048;
const MIDDLE_START: usize = (FINE_MAX - BLOCK_SIZE_MIN) / 8 + 1;
const COARSE_START: usize = MIDDLE_START + 16;
const SEGMENT_START: usize = COARSE_START + 16;
const SEGMENT_SIZES: [usize; 7] = [
    36 * LINE_SIZE,
    42 * LINE_SIZE,
    46 * LINE_SIZE,
    51 * LINE_SIZE,
    56 * LINE_SIZE,
    BLOCK_SIZE_MAX,
    SPAN_BLOCK_SIZE,
];

/// Whether blocks of this size come from the global allocator.
#[inline]
pub(crate) const fn is_large(size: usize) -> bool {
    size > BLOCK_SIZE_MAX && size != SPAN_BLOCK_SIZE
}

/// The smallest class whose blocks hold `size` bytes, which must not be large.
#[inline]
pub(crate) const fn class_of(size: usize) -> usize {
    debug_assert!(!is_large(size));
    if size <= FINE_MAX {
        let size = if size < BLOCK_SIZE_MIN { BLOCK_SIZE_MIN } else { size };
        (size - BLOCK_SIZE_MIN).div_ceil(8)
    } else if size <= MIDDLE_MAX {
        MIDDLE_START - 1 + (size - FINE_MAX).div_ceil(32)
    } else if size <= COARSE_MAX {
        COARSE_START - 1 + (size - MIDDLE_MAX).div_ceil(64)
    } else {
        let mut index = 0;
        while SEGMENT_SIZES[index] < size {
            index += 1;
        }
        SEGMENT_START + index
    }
}

/// The bytes of a block of this class.
#[inline]
pub(crate) const fn class_size(class: usize) -> usize {
    CLASS_SIZES[class] as usize
}

const CLASS_SIZES: [u16; CLASS_COUNT] = {
    let mut sizes = [0u16; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        let size = if class < MIDDLE_START {
            BLOCK_SIZE_MIN + class * 8
        } else if class < COARSE_START {
            FINE_MAX + (class - MIDDLE_START + 1) * 32
        } else if class < SEGMENT_START {
            MIDDLE_MAX + (class - COARSE_START + 1) * 64
        } else {
            SEGMENT_SIZES[class - SEGMENT_START]
        };
        sizes[class] = size as u16;
        class += 1;
    }
    sizes
};

const _: () = assert!(SPAN_BLOCK_SIZE == SPAN_SIZE);
const _: () = assert!(CLASS_COUNT <= u8::MAX as usize);
// The classes of a block and of its outer span determine whether it lies in a subdivided block (`span.rs`).
const _: () = assert!(INNER_CLASS_END <= SUBDIVIDED_CLASS_START);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 1..=BLOCK_SIZE_MAX {
            let class = class_of(size);
            assert!(class_size(class) >= size, "{size}");
            assert!(class == 0 || class_size(class - 1) < size, "{size}");
        }
    }

    #[test]
    fn sizes_ascend_and_are_multiples_of_eight() {
        for class in 1..CLASS_COUNT {
            assert!(class_size(class) > class_size(class - 1));
            assert_eq!(class_size(class) % 8, 0);
        }
    }
}

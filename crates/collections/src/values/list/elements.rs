//! The elements of a list in one packed sequence, and how large it becomes.

use crate::packed::Packed;

/// A packed sequence of list elements: found by index, never by content.
pub(super) type Elements = Packed<1, false>;

/// Bytes of elements up to which a list is one packed sequence; few under Miri, as in nodes.
pub(super) const SMALL_SIZE_MAX: usize = if crate::IS_TINY { 512 } else { 4096 };

/// Longest element that shares a node.
pub(super) const NODE_SIZE_MAX: usize = SMALL_SIZE_MAX / 2;

/// Bytes of the elements of a node and their index, up to which it accepts elements: what a block of 2.5 KiB has
/// behind its head.
const NODE_BLOCK_SIZE: usize = SMALL_SIZE_MAX / 8 * 5 - 8;

/// Bytes of equally long elements, which become a [`crate::packed::Uniform`] sequence: what a block of 4 KiB has
/// behind its head.
const UNIFORM_BLOCK_SIZE: usize = SMALL_SIZE_MAX - 8;

/// Whether a node of `len` elements, which take `size` bytes in a packed sequence, accepts one of `text_size`.
#[inline]
pub(super) fn has_room(size: usize, len: usize, text_size: usize) -> bool {
    if looks_uniform(size, len, text_size) {
        return (len + 1) * text_size <= UNIFORM_BLOCK_SIZE;
    }
    let index_size = 2 * (len + 1).next_multiple_of(8);
    size + text_size + ELEMENT_OVERHEAD_MAX + index_size <= NODE_BLOCK_SIZE
}

/// Number of elements for which a new node at an end has space, if they are all as long as this one. Equally long
/// ones may become more.
pub(super) fn roomy_len(text_size: usize) -> usize {
    (NODE_BLOCK_SIZE - 2 * 8) / (text_size + 3)
}

/// Whether the elements may be as long as this text, each behind one byte.
#[inline]
fn looks_uniform(size: usize, len: usize, text_size: usize) -> bool {
    text_size > 0 && text_size < 128 && size == len * (text_size + 1)
}

/// Most bytes of an element in a packed sequence in addition to its text.
const ELEMENT_OVERHEAD_MAX: usize = 3;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first element.
    Left,
    /// The last element.
    Right,
}

/// Removes at most `count_max` elements equal to `text`, beginning at one end. Returns the number removed.
pub(super) fn remove_equal(elements: &mut Elements, text: &[u8], from: End, count_max: usize) -> usize {
    let equal_count = elements.count_of(text);
    let removed_count = equal_count.min(count_max);
    if removed_count == 0 {
        return 0;
    }
    let passed_count = if from == End::Left { 0 } else { equal_count - removed_count };
    let removed = passed_count..passed_count + removed_count;
    let mut nth = 0;
    elements.retain(|[item]| {
        if nth == removed.end || !item.is(text) {
            return true;
        }
        nth += 1;
        !removed.contains(&(nth - 1))
    });
    removed_count
}

//! The elements of a list in one packed sequence, and how large it becomes.

use crate::packed::Packed;

/// A packed sequence of list elements: found by index, never by content.
pub(super) type Elements = Packed<1, false>;

/// Bytes of elements up to which a list is one packed sequence; few under Miri, as in nodes.
pub(super) const SMALL_SIZE_MAX: usize = if crate::IS_TINY { 512 } else { 4096 };

/// Bytes of elements up to which a node accepts elements.
pub(super) const NODE_SIZE_MAX: usize = SMALL_SIZE_MAX / 2;

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

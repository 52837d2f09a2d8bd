//! The size that a node would have as a listpack of Redis.
//!
//! The limits of a node, `stream-node-max-bytes` above all, and an approximate trim, which deletes whole nodes, refer to this
//! size. So nodes have the same boundaries as in Redis and Valkey, although they are stored in another form.

use crate::number::parse_canonical;

/// Bytes before the first element and after the last one.
pub(super) const FRAME_SIZE: usize = 7;

/// The size of the elements before the entries, besides the numbers of live and of deleted entries.
pub(super) fn head_size<'f>(names: impl Iterator<Item = &'f [u8]> + Clone) -> usize {
    let count = names.clone().count() as i64;
    number_size(count) + names.map(text_size).sum::<usize>() + number_size(0)
}

/// The size of an entry: `ms` and `seq` are the differences from the id of the node.
pub(super) fn entry_size<'f>(
    (ms, seq): (i64, i64),
    has_same_names: bool,
    pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> usize {
    const FLAGS: i64 = 0;
    let pair_count = pairs.clone().count() as i64;
    let values_size: usize = pairs.clone().map(|(_, value)| text_size(value)).sum();
    let mut size = number_size(FLAGS) + number_size(ms) + number_size(seq) + values_size;
    let mut element_count = pair_count + 3;
    if !has_same_names {
        size += number_size(pair_count) + pairs.map(|(name, _)| text_size(name)).sum::<usize>();
        element_count += pair_count + 1;
    }
    size + number_size(element_count)
}

/// The size of a number with the length that follows it.
pub(super) fn number_size(number: i64) -> usize {
    with_back_length(match number {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7FFF => 3,
        -0x80_0000..=0x7F_FFFF => 4,
        -0x8000_0000..=0x7FFF_FFFF => 5,
        _ => 9,
    })
}

fn text_size(text: &[u8]) -> usize {
    if let Some(number) = parse_canonical(text) {
        return number_size(number);
    }
    let header_size = match text.len() {
        ..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    with_back_length(header_size + text.len())
}

/// The size of an element with its length behind it, which takes one byte for seven bits.
fn with_back_length(size: usize) -> usize {
    size + match size {
        ..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

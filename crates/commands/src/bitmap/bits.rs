//! Bits of byte strings: counting and finding them, and integers of any width at any offset.
//!
//! Bit 0 is the highest bit of the first byte. Independent of keys and requests.

use std::ops::Range;

use collections::count_ones;

/// Bytes compared in one step.
const BLOCK_SIZE: usize = 64;

/// Counts the set bits in a range of bit numbers, which lies in `bytes`.
pub fn count_ones_in(bytes: &[u8], range: Range<usize>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let before = bytes[first] & !low_bits(8 - range.start % 8);
    let after = bytes[last] & low_bits(7 - (range.end - 1) % 8);
    count_ones(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Returns a byte with the lowest `count` bits set.
fn low_bits(count: usize) -> u8 {
    ((1_u32 << count) - 1) as u8
}

/// Returns the first bit equal to `wanted` in a range of bit numbers, which lies in `bytes`.
pub fn find_bit(bytes: &[u8], wanted: bool, range: Range<usize>) -> Option<usize> {
    if range.is_empty() {
        return None;
    }
    // Inverted if needed, so that the search is always for a set bit.
    let turn = if wanted { 0 } else { u8::MAX };
    let first_byte = range.start / 8;
    let first = (bytes[first_byte] ^ turn) & low_bits(8 - range.start % 8);
    let position = if first != 0 {
        8 * first_byte + first.leading_zeros() as usize
    } else {
        let rest = &bytes[first_byte + 1..range.end.div_ceil(8)];
        8 * (first_byte + 1) + find_set_bit(rest, turn)?
    };
    (position < range.end).then_some(position)
}

/// Returns the first set bit in `bytes`, each XORed with `turn`.
fn find_set_bit(bytes: &[u8], turn: u8) -> Option<usize> {
    // No early exit within a block, so that the comparison is vectorized.
    let is_skipped = |block: &&[u8]| block.iter().fold(0, |sum, byte| sum | (byte ^ turn)) == 0;
    let skipped = bytes.chunks_exact(BLOCK_SIZE).take_while(is_skipped).count();
    let (place, byte) =
        bytes.iter().enumerate().skip(BLOCK_SIZE * skipped).find(|(_, byte)| **byte != turn)?;
    Some(8 * place + (byte ^ turn).leading_zeros() as usize)
}

/// Whether bit `offset` is set; bits beyond the end are clear.
pub fn is_set(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte & 0x80 >> (offset % 8) != 0)
}

/// Sets or clears bit `offset`, which lies in `bytes`. Returns its previous value.
pub fn put(bytes: &mut [u8], offset: usize, bit: bool) -> bool {
    let byte = &mut bytes[offset / 8];
    let mask = 0x80 >> (offset % 8);
    let before = *byte & mask != 0;
    if bit {
        *byte |= mask;
    } else {
        *byte &= !mask;
    }
    before
}

/// Maximum bytes touched by 64 bits at any offset.
const WINDOW_SIZE: usize = 9;

/// Returns the integer of `width` bits (1 to 64) at bit `offset`; bits beyond the end are 0.
pub fn unsigned_at(bytes: &[u8], offset: usize, width: u32) -> u64 {
    let tail = bytes.get(offset / 8..).unwrap_or_default();
    let tail = &tail[..tail.len().min(WINDOW_SIZE)];
    let mut window = [0; 16];
    window[..tail.len()].copy_from_slice(tail);
    let shifted = u128::from_be_bytes(window) << (offset % 8);
    (shifted >> (128 - width)) as u64
}

/// Like [`unsigned_at`], as two's complement.
pub fn signed_at(bytes: &[u8], offset: usize, width: u32) -> i64 {
    sign_extended(unsigned_at(bytes, offset, width), width)
}

/// Interprets the lowest `width` bits (1 to 64) of `bits` as two's complement.
pub fn sign_extended(bits: u64, width: u32) -> i64 {
    (bits << (64 - width)).cast_signed() >> (64 - width)
}

/// Stores the lowest `width` bits (1 to 64) of `value` at bit `offset`; they lie in `bytes`.
pub fn put_unsigned(bytes: &mut [u8], offset: usize, width: u32, value: u64) {
    let end = offset + width as usize;
    let part = &mut bytes[offset / 8..end.div_ceil(8)];
    let mut window = [0; 16];
    window[..part.len()].copy_from_slice(part);
    let shift = 128 - width - (offset % 8) as u32;
    let mask = (u128::MAX >> (128 - width)) << shift;
    let new = u128::from_be_bytes(window) & !mask | u128::from(value) << shift & mask;
    part.copy_from_slice(&new.to_be_bytes()[..part.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns byte strings with little pattern, and some with long runs.
    fn samples() -> Vec<Vec<u8>> {
        let mut state = 0x1234_5678_u32;
        let mut random_bytes = |len: usize| -> Vec<u8> {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..len).map(|_| next()).collect()
        };
        let mut samples: Vec<Vec<u8>> =
            [0, 1, 7, 8, 9, 63, 64, 65, 130, 200].into_iter().map(&mut random_bytes).collect();
        samples.push([vec![0; 70], random_bytes(5), vec![0xFF; 40]].concat());
        samples.push([vec![0xFF; 71], vec![0x7F], vec![0; 9]].concat());
        samples
    }

    fn bits_of(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & 0x80 >> bit != 0)).collect()
    }

    #[test]
    fn counting_and_finding_agree_with_a_bitwise_model() {
        for bytes in samples() {
            let bits = bits_of(&bytes);
            assert_eq!(count_ones(&bytes), bits.iter().filter(|bit| **bit).count() as u64);
            for start in (0..=bits.len()).step_by(5) {
                for end in (start..=bits.len()).step_by(7).chain([bits.len()]) {
                    let range = start..end;
                    let ones = bits[range.clone()].iter().filter(|bit| **bit).count();
                    assert_eq!(count_ones_in(&bytes, range.clone()), ones as u64, "{range:?}");
                    for wanted in [false, true] {
                        let expected = range.clone().find(|at| bits[*at] == wanted);
                        assert_eq!(find_bit(&bytes, wanted, range.clone()), expected, "{wanted} {range:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn integers_at_any_offset() {
        for bytes in samples() {
            let bits = bits_of(&bytes);
            for offset in 0..bits.len() + 3 {
                for width in [1, 2, 7, 8, 9, 31, 63, 64] {
                    let bit = |at: usize| bits.get(at).copied().unwrap_or(false);
                    let expected =
                        (0..width).fold(0, |sum, at| sum << 1 | u64::from(bit(offset + at as usize)));
                    assert_eq!(unsigned_at(&bytes, offset, width), expected, "{offset} {width}");
                    if offset + width as usize > bits.len() {
                        continue;
                    }
                    let mut changed = bytes.clone();
                    put_unsigned(&mut changed, offset, width, !expected);
                    let mut expected_bits = bits.clone();
                    expected_bits[offset..offset + width as usize].iter_mut().for_each(|bit| *bit = !*bit);
                    assert_eq!(bits_of(&changed), expected_bits, "{offset} {width}");
                }
            }
        }
    }

    #[test]
    fn two_complements() {
        assert_eq!(signed_at(&[0xFE], 0, 8), -2);
        assert_eq!(signed_at(&[0x7F], 0, 8), 127);
        assert_eq!(signed_at(&[0x40], 1, 1), -1);
        assert_eq!(signed_at(&[0xFF; 8], 0, 64), -1);
    }
}

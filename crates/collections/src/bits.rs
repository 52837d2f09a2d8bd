//! Bit counting with the widest instructions of the processor.
//!
//! The x86-64 baseline has no instruction that counts bits. So there are two versions of one loop. The AVX2
//! version (every x86-64 server processor since 2017) is used where it is available: 32 bytes a step.

/// Bytes counted by one carry-save round.
const BLOCK_SIZE: usize = 64;

/// Bytes counted in one part before the loop switches to the next part.
#[cfg(target_arch = "x86_64")]
const STEP_SIZE: usize = 1024;

/// Returns the number of bits set.
#[must_use]
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has both features.
        return unsafe { count_ones_with_avx2(bytes) };
    }
    count_ones_portably(bytes)
}

/// Counts four parts of a long string in turn: the hardware prefetcher stops at the end of a page, so a
/// single part would stall at the start of each page.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_ones_with_avx2(bytes: &[u8]) -> u64 {
    let part_size = bytes.len() / 4 / STEP_SIZE * STEP_SIZE;
    let (first, rest) = bytes.split_at(part_size);
    let (second, rest) = rest.split_at(part_size);
    let (third, rest) = rest.split_at(part_size);
    let (fourth, rest) = rest.split_at(part_size);
    let mut count = 0;
    for at in (0..part_size).step_by(STEP_SIZE) {
        for part in [first, second, third, fourth] {
            count += sum_of_words(&part[at..at + STEP_SIZE]);
        }
    }
    count + sum_of_words(rest)
}

/// A plain loop, which the compiler vectorizes with several accumulators.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let last: u32 = words.remainder().iter().map(|byte| byte.count_ones()).sum();
    u64::from(last) + words.map(|chunk| u64::from(word(chunk).count_ones())).sum::<u64>()
}

/// Adds eight words at a time bit by bit (carry-save), so that only one word in eight is counted.
fn count_ones_portably(bytes: &[u8]) -> u64 {
    let mut eights_count = 0;
    let (mut ones, mut twos, mut fours) = (0, 0, 0);
    let blocks = bytes.chunks_exact(BLOCK_SIZE);
    let rest = blocks.remainder();
    for block in blocks {
        let mut words = block.chunks_exact(8).map(word);
        let mut next = || words.next().unwrap_or(0);
        let (twos_a, twos_b, twos_c, twos_d, fours_a, fours_b, eights);
        (ones, twos_a) = add(ones, next(), next());
        (ones, twos_b) = add(ones, next(), next());
        (twos, fours_a) = add(twos, twos_a, twos_b);
        (ones, twos_c) = add(ones, next(), next());
        (ones, twos_d) = add(ones, next(), next());
        (twos, fours_b) = add(twos, twos_c, twos_d);
        (fours, eights) = add(fours, fours_a, fours_b);
        eights_count += u64::from(eights.count_ones());
    }
    let rest_words = rest.chunks_exact(8);
    let last: u32 = rest_words.remainder().iter().map(|byte| byte.count_ones()).sum();
    let rest_count: u32 = rest_words.map(|chunk| word(chunk).count_ones()).sum();
    8 * eights_count
        + 4 * u64::from(fours.count_ones())
        + 2 * u64::from(twos.count_ones())
        + u64::from(ones.count_ones())
        + u64::from(rest_count + last)
}

/// Adds three bits in each place. Returns the low and high bits of the sums.
#[inline]
fn add(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, a & b | half & c)
}

#[inline(always)]
fn word(chunk: &[u8]) -> u64 {
    chunk.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_counts_agree_with_bytewise_counts() {
        let mut state = 0x1234_5678_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let bytes: Vec<u8> = (0..600).map(|place| if place < 300 { noise() } else { u8::MAX }).collect();
        let lens = if cfg!(miri) { &[1_000][..] } else { &[4095, 4096, 4097, 12_345, 20_000][..] };
        let long: Vec<u8> = (0..lens[lens.len() - 1]).map(|_| noise()).collect();
        for &len in lens {
            let expected = long[..len].iter().map(|byte| u64::from(byte.count_ones())).sum();
            assert_eq!((count_ones(&long[..len]), count_ones_portably(&long[..len])), (expected, expected));
        }
        let step = if cfg!(miri) { 67 } else { 1 };
        for start in (0..40).step_by(step) {
            for end in (start..bytes.len()).step_by(step) {
                let part = &bytes[start..end];
                let expected = part.iter().map(|byte| u64::from(byte.count_ones())).sum();
                assert_eq!((count_ones(part), count_ones_portably(part)), (expected, expected));
            }
        }
    }
}

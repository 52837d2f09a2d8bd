//! Mapping of an element to a register and the value that the register is raised to.
//!
//! The hash is the 64-bit variant A of MurmurHash2 with Redis's seed: the stored bytes depend on it.

/// Hash bits that select the register.
const REGISTER_BITS: u32 = 14;

/// Number of registers.
pub(super) const REGISTER_COUNT: usize = 1 << REGISTER_BITS;

/// The other hash bits, whose trailing zeros are counted.
pub(super) const PATTERN_BITS: u32 = 64 - REGISTER_BITS;

const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Returns the register of an element, and the number of trailing zeros of the rest of its hash, plus one.
pub(super) fn pattern_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let index = hash as usize & (REGISTER_COUNT - 1);
    // An additional highest bit bounds the number of zeros.
    let rest = hash >> REGISTER_BITS | 1 << PATTERN_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        mixed = (mixed ^ mixed >> SHIFT).wrapping_mul(FACTOR);
        hash = (hash ^ mixed).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

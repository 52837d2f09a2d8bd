//! Random numbers for sampling.

use std::cell::Cell;

/// A small random number generator (xorshift64*), one for each thread: sampling needs speed, not secrecy.
#[derive(Clone, Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// A generator that starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed | 1))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

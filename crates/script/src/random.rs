//! The random numbers of scripts: `drand48`, with the same sequence on every machine for the same seed, as scripts of
//! Redis expect.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 11;
const MASK: u64 = (1 << 48) - 1;

/// The state of a generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The state that POSIX gives to a generator without a seed, as Redis starts with.
    pub(crate) const fn new() -> Self {
        Self(0x1234_ABCD_330E)
    }

    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | 0x330E;
    }

    /// A number in `0.0..1.0`, in steps of 2^-31.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        let bits = (self.0 >> 17) as u32;
        f64::from(bits % i32::MAX as u32) / f64::from(i32::MAX)
    }
}

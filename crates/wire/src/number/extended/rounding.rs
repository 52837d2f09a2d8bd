//! Rounding to the nearest binary float, ties to even.

/// A positive number with more bits than any [`Format`]: `bits * 2^exponent`, plus less than one unit of the
/// last bit if it is inexact. An inexact number has at least 66 significant bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    pub(crate) bits: u128,
    pub(crate) exponent: i32,
    pub(crate) is_inexact: bool,
}

impl Wide {
    /// Larger than any format can hold.
    pub(crate) const HUGE: Self = Self { bits: 1 << 127, exponent: 1 << 20, is_inexact: true };

    /// Smaller than any format can hold, but not 0.
    pub(crate) const TINY: Self = Self { bits: 1 << 127, exponent: -(1 << 20), is_inexact: true };

    /// Whether it is exactly 0.
    pub(crate) fn is_zero(self) -> bool {
        self.bits == 0 && !self.is_inexact
    }
}

/// A binary floating point format, with finite values `significand * 2^exponent`.
pub(crate) struct Format {
    pub(crate) significand_bits: u32,
    pub(crate) exponent_min: i32,
    pub(crate) exponent_max: i32,
}

/// A value of a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounded {
    /// The top bit of the significand is set, unless the exponent is the least one.
    Finite {
        significand: u64,
        exponent: i32,
    },
    Infinite,
}

impl Format {
    /// The nearest value of this format.
    pub(crate) fn round(&self, wide: Wide) -> Rounded {
        if wide.bits == 0 {
            return Rounded::Finite { significand: 0, exponent: self.exponent_min };
        }
        let bit_count = (u128::BITS - wide.bits.leading_zeros()) as i32;
        let surplus = bit_count - self.significand_bits as i32;
        let exponent = (wide.exponent + surplus).max(self.exponent_min);
        let shift = exponent - wide.exponent;
        let (significand, exponent) = if shift <= 0 {
            ((wide.bits << -shift) as u64, exponent)
        } else {
            // A remainder below the last bit matters only if the bits alone are a tie.
            let doubled_tail = wide.bits & 1 == 0 && wide.is_inexact;
            let rounded = shift_right_to_nearest(wide.bits | u128::from(doubled_tail), shift as u32);
            if rounded >> self.significand_bits == 0 {
                (rounded as u64, exponent)
            } else {
                ((rounded >> 1) as u64, exponent + 1)
            }
        };
        if exponent > self.exponent_max {
            return Rounded::Infinite;
        }
        Rounded::Finite { significand, exponent }
    }
}

/// `bits / 2^shift`, rounded to the nearest, ties to even.
pub(crate) fn shift_right_to_nearest(bits: u128, shift: u32) -> u128 {
    match shift {
        0 => bits,
        1..=127 => {
            let (kept, dropped) = (bits >> shift, bits & ((1 << shift) - 1));
            let half = 1 << (shift - 1);
            kept + u128::from(dropped > half || (dropped == half && kept & 1 == 1))
        }
        128 => u128::from(bits > 1 << 127),
        _ => 0,
    }
}

//! Short decimal texts of doubles, by Grisu2.
//!
//! Source: Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers", 2010. The
//! digits always read back as an equal double, and in 99.9 % of all cases they are the fewest. A newer algorithm
//! would have no exceptions, but the replies would differ from Redis and Valkey: both print `3600.89058` as
//! `3600.8905800000002`. The choice of the power, the two comparisons and the last rounding are therefore as in both servers.
//!
//! Invariants while generating digits:
//! 1. `lower < value < upper` have one exponent, between -60 and -32, so that the integer part has at most 32
//!    bits.
//! 2. The generated number plus `rest` is `upper`; once `rest` is within `range`, the number is inside the
//!    boundaries.

/// Largest number of digits of a double.
pub(super) const DIGIT_COUNT_MAX: usize = 17;

/// Digits and a power of ten: a positive number in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: [u8; DIGIT_COUNT_MAX],
    digit_count: usize,
    /// The number is the integer of the digits, times ten to this power.
    pub(super) exponent: i32,
}

impl Decimal {
    /// The digits as text; the first is not 0.
    pub(super) fn digits(&self) -> &[u8] {
        &self.digits[..self.digit_count]
    }

    fn push(&mut self, digit: u32) {
        if self.digit_count > 0 || digit > 0 {
            self.digits[self.digit_count] = b'0' + digit as u8;
            self.digit_count += 1;
        }
    }

    /// Lowers the last digit as long as this brings the number closer to the value and keeps it above the lower
    /// boundary.
    ///
    /// All arguments have one unit: `rest` is the number's distance below the upper boundary, `range` the
    /// allowed distance, `target` the value's distance, and `step` the weight of the last digit.
    fn lower_last_digit(&mut self, range: u64, mut rest: u64, step: u64, target: u64) {
        while rest < target
            && range - rest >= step
            && (rest + step < target || target - rest > rest + step - target)
        {
            self.digits[self.digit_count - 1] -= 1;
            rest += step;
        }
    }
}

/// `significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Binary {
    significand: u64,
    exponent: i32,
}

impl Binary {
    /// The number with the top bit of the significand set.
    fn normalized(self) -> Self {
        let shift = self.significand.leading_zeros();
        Self { significand: self.significand << shift, exponent: self.exponent - shift as i32 }
    }

    /// The product, rounded to 64 bits.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.significand) * u128::from(other.significand);
        Self {
            significand: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// The decimal for a finite double above 0.
pub(super) fn to_decimal(magnitude: f64) -> Decimal {
    // IEEE 754 binary64: 52 bits of fraction below 11 of exponent.
    const HIDDEN_BIT: u64 = 1 << 52;
    let fraction = magnitude.to_bits() & (HIDDEN_BIT - 1);
    let value = match (magnitude.to_bits() >> 52) as i32 {
        0 => Binary { significand: fraction, exponent: -1074 },
        biased => Binary { significand: fraction | HIDDEN_BIT, exponent: biased - 1075 },
    };
    // All numbers between the midpoints to both neighbours read back as this double.
    let upper = Binary { significand: value.significand * 2 + 1, exponent: value.exponent - 1 }.normalized();
    // Below a power of two the next double is only half as far away.
    let lower_shift = if value.significand == HIDDEN_BIT { 2 } else { 1 };
    let lower = Binary {
        significand: ((value.significand << lower_shift) - 1)
            << (value.exponent - lower_shift - upper.exponent),
        exponent: upper.exponent,
    };
    let (power, power_exponent) = power_of_ten(upper.exponent);
    let (value, upper, lower) = (value.normalized().times(power), upper.times(power), lower.times(power));
    // Each product may be off by one, so the boundaries are narrowed by one.
    let (upper_bits, lower_bits) = (upper.significand - 1, lower.significand + 1);
    generate(
        upper_bits,
        upper_bits - lower_bits,
        upper_bits - value.significand,
        -upper.exponent,
        -power_exponent,
    )
}

/// Generates the digits of `upper / 2^point` until the remainder is within `range`, then moves towards the
/// value, which is `target` below.
fn generate(upper: u64, mut range: u64, mut target: u64, point: i32, exponent: i32) -> Decimal {
    let mut decimal = Decimal { digits: [0; DIGIT_COUNT_MAX], digit_count: 0, exponent };
    let fraction_mask = (1u64 << point) - 1;
    let (mut integer, mut fraction) = ((upper >> point) as u32, upper & fraction_mask);
    let mut place_exponent = integer.checked_ilog10().unwrap_or(0);
    let mut place = 10u32.pow(place_exponent);
    while place > 0 {
        decimal.push(integer / place);
        integer %= place;
        let rest = (u64::from(integer) << point) + fraction;
        if rest <= range {
            decimal.exponent += place_exponent as i32;
            decimal.lower_last_digit(range, rest, u64::from(place) << point, target);
            return decimal;
        }
        place /= 10;
        place_exponent = place_exponent.saturating_sub(1);
    }
    loop {
        fraction *= 10;
        range = range.wrapping_mul(10);
        target = target.wrapping_mul(10);
        decimal.exponent -= 1;
        decimal.push((fraction >> point) as u32);
        fraction &= fraction_mask;
        if fraction < range {
            decimal.lower_last_digit(range, fraction, 1 << point, target);
            return decimal;
        }
    }
}

const POWER_EXPONENT_MIN: i32 = -348;
const POWER_EXPONENT_STEP: i32 = 8;

/// Returns a power of ten, and its exponent, that scales a number of this binary exponent to one between -60
/// and -32.
fn power_of_ten(exponent: i32) -> (Binary, i32) {
    // Two powers may fit: the start of the search decides between them.
    let estimate = (f64::from(-(exponent + POWERS_OF_TEN.len() as i32)) * std::f64::consts::LOG10_2) as i32;
    let mut index = (estimate - POWER_EXPONENT_MIN) / POWER_EXPONENT_STEP;
    loop {
        let power_exponent = POWER_EXPONENT_MIN + index * POWER_EXPONENT_STEP;
        // The integer part of the exponent's logarithm to base 2: 217706 / 2^16 approximates log2(10) closely
        // enough for all exponents.
        let binary_exponent = ((power_exponent * 217_706) >> 16) - 63;
        match exponent + binary_exponent + 64 {
            ..-60 => index += 1,
            -60..=-32 => {
                let power = Binary { significand: POWERS_OF_TEN[index as usize], exponent: binary_exponent };
                return (power, power_exponent);
            }
            _ => index -= 1,
        }
    }
}

/// The 64 most significant bits of every eighth power of ten, rounded, from 10^-348 to 10^340.
#[rustfmt::skip]
const POWERS_OF_TEN: [u64; 87] = [
    0xfa8f_d5a0_081c_0288, 0xbaae_e17f_a23e_bf76, 0x8b16_fb20_3055_ac76, 0xcf42_894a_5dce_35ea,
    0x9a6b_b0aa_5565_3b2d, 0xe61a_cf03_3d1a_45df, 0xab70_fe17_c79a_c6ca, 0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c, 0x8dd0_1fad_907f_fc3c, 0xd351_5c28_3155_9a83, 0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb, 0xaecc_4991_4078_536d, 0x823c_1279_5db6_ce57, 0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f, 0xd774_85cb_2582_3ac7, 0xa086_cfcd_97bf_97f4, 0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e, 0x84c8_d4df_d2c6_3f3b, 0xc5dd_4427_1ad3_cdba, 0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584, 0xa3ab_6658_0d5f_daf6, 0xf3e2_f893_dec3_f126, 0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b, 0xc9bc_ff60_34c1_3053, 0x964e_858c_91ba_2655, 0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f, 0xf8a9_5fcf_8874_7d94, 0xb944_7093_8fa8_9bcf, 0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6, 0x993f_e2c6_d07b_7fac, 0xe45c_10c4_2a2b_3b06, 0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e, 0xbce5_0864_9211_1aeb, 0x8cbc_cc09_6f50_88cc, 0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000, 0xe8d4_a510_0000_0000, 0xad78_ebc5_ac62_0000, 0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3, 0x8f7e_32ce_7bea_5c70, 0xd5d2_38a4_abe9_8068, 0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27, 0xb0de_6538_8cc8_ada8, 0x83c7_088e_1aab_65db, 0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758, 0xda01_ee64_1a70_8dea, 0xa26d_a399_9aef_774a, 0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877, 0x865b_8692_5b9b_c5c2, 0xc835_53c5_c896_5d3d, 0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3, 0xa59b_c234_db39_8c25, 0xf6c6_9a72_a398_9f5c, 0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2, 0xcc20_ce9b_d35c_78a5, 0x9816_5af3_7b21_53df, 0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396, 0xfb9b_7cd9_a4a7_443c, 0xbb76_4c4c_a7a4_4410, 0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c, 0x9b10_a4e5_e991_3129, 0xe710_9bfb_a19c_0c9d, 0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85, 0xbf21_e440_03ac_dd2d, 0x8e67_9c2f_5e44_ff8f, 0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9, 0xeb96_bf6e_badf_77d9, 0xaf87_023b_9bf0_ee6b,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `10^exponent` to 64 bits, from the parser of extended floats, which does not use this table.
    fn significand_of_power(exponent: i32) -> u64 {
        crate::number::extended::significand(format!("1e{exponent}").as_bytes()).unwrap()
    }

    #[test]
    fn the_table_has_the_powers_of_ten() {
        for (index, &significand) in POWERS_OF_TEN.iter().enumerate() {
            let exponent = POWER_EXPONENT_MIN + index as i32 * POWER_EXPONENT_STEP;
            assert_eq!(significand, significand_of_power(exponent), "10^{exponent}");
        }
    }

    #[test]
    fn every_exponent_has_a_power() {
        // From the smallest double, normalised, to the largest.
        for exponent in -1074 - 63..=971 {
            let (power, _) = power_of_ten(exponent);
            assert!((-60..=-32).contains(&(exponent + power.exponent + 64)));
        }
    }
}

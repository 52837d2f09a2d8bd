//! Numbers as text, as C's `printf("%.*g")` writes them.

use std::io::Write;

/// Decimal numbers of so many significant digits are told apart by an `f64`.
const DIGITS_TOLD_APART: usize = 15;

/// Appends a finite number with `precision` significant digits.
pub(crate) fn write_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    let precision = precision.max(1);
    if !write_short(out, value, precision) {
        write_rounded(out, value, precision);
    }
}

/// Appends a number that has few digits, without computing those that would be zeros. Returns whether it has few.
fn write_short(out: &mut Vec<u8>, value: f64, precision: usize) -> bool {
    if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
        return true;
    }
    let digit_count_max = precision.min(DIGITS_TOLD_APART);
    let is_fixed = (1e-4..10_f64.powi(digit_count_max as i32)).contains(&value.abs());
    // With more digits than are told apart, the digits beyond are zeros for whole numbers only.
    if !is_fixed || (precision > DIGITS_TOLD_APART && value.fract() != 0.0) {
        return false;
    }
    if value.fract() == 0.0 {
        wire::number::write_i64(out, value as i64);
        return true;
    }
    let start = out.len();
    // The shortest digits that stand for this number. If there are no more than are wanted, rounding gives the same ones.
    let _ = write!(out, "{value}");
    let digits = out[start..].iter().filter(|byte| byte.is_ascii_digit()).skip_while(|digit| **digit == b'0');
    if digits.count() > digit_count_max {
        out.truncate(start);
        return false;
    }
    true
}

fn write_rounded(out: &mut Vec<u8>, value: f64, precision: usize) {
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(without_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        out.extend_from_slice(without_zeros(&format!("{value:.decimals$}")).as_bytes());
    }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_written_as_rounded_ones() {
        let mut short_count = 0;
        let mut check = |value: f64, precision: usize| {
            let (mut short, mut rounded) = (Vec::new(), Vec::new());
            if write_short(&mut short, value, precision) {
                short_count += 1;
                write_rounded(&mut rounded, value, precision);
                assert_eq!(short, rounded, "{value:?} with {precision} digits");
            }
        };
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let decimal = (bits >> 20) as f64 / 10_f64.powi((bits % 20) as i32);
            let near = f64::from_bits(decimal.to_bits() + bits % 3);
            for precision in [1, 2, 5, 14, 15, 16, 17] {
                for value in [decimal, near, -near, near.round(), f64::from_bits(bits)] {
                    check(value, precision);
                }
            }
        }
        for value in
            [0.0, -0.0, 1.0, -1.0, 99_999.5, 9.5, 0.5, 1e14, 999_999_999_999_999.0, 1e15, 1e-4, 9.99e-5]
        {
            (1..=17).for_each(|precision| check(value, precision));
        }
        assert!(short_count > 10_000, "{short_count}");
    }

    #[test]
    fn numbers_are_written_as_by_c() {
        let general = |value: f64| {
            let mut out = Vec::new();
            write_general(&mut out, value, 14);
            String::from_utf8(out).unwrap()
        };
        let texts: Vec<String> =
            [0.0, 1.0, -2.5, 0.1, 1e14, 1e13, 1e-5, 0.0001, 1.0 / 3.0, 1e300].map(general).to_vec();
        assert_eq!(
            texts,
            [
                "0",
                "1",
                "-2.5",
                "0.1",
                "1e+14",
                "10000000000000",
                "1e-05",
                "0.0001",
                "0.33333333333333",
                "1e+300"
            ]
        );
    }
}

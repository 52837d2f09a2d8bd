//! Numbers as text, as C's `printf("%.*g")` writes them.

/// Appends a finite number with `precision` significant digits.
pub(crate) fn write_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    let precision = precision.max(1);
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

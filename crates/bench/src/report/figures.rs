//! Number formats of tables: three significant digits, intervals in brackets.

use crate::sample::Measure;
use crate::statistics::Estimate;

/// Placeholder for a missing figure.
pub const NONE: &str = "–";

/// Formats three significant digits, never in scientific notation.
#[must_use]
pub fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let digits_before = number.abs().log10().floor() as i32 + 1;
    let decimals = (3 - digits_before).clamp(0, 6) as usize;
    format!("{number:.decimals$}")
}

/// Formats a count with thousands separators.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `median [low high]` in the unit of the measure's title.
#[must_use]
pub fn estimate(measure: Measure, estimate: Option<Estimate>) -> String {
    let Some(Estimate { median, low, high }) = estimate else {
        return NONE.to_owned();
    };
    match measure {
        Measure::Throughput => {
            let [median, low, high] = [median, low, high].map(|rate| significant(rate / 1e3));
            format!("{median}k [{low} {high}]")
        }
        _ => interval(Estimate { median: median / 1e3, low: low / 1e3, high: high / 1e3 }),
    }
}

/// Formats only the median of a measure in nanoseconds.
#[must_use]
pub fn median(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| NONE.to_owned(), |estimate| significant(estimate.median / 1e3))
}

/// Formats `median [low high]`.
#[must_use]
pub fn interval(Estimate { median, low, high }: Estimate) -> String {
    format!("{} [{} {}]", significant(median), significant(low), significant(high))
}

/// Formats a ratio with its interval.
#[must_use]
pub fn ratio(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| NONE.to_owned(), interval)
}

/// Formats nanoseconds as microseconds.
#[must_use]
pub fn micros(ns: u64) -> String {
    significant(ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let shown = [0.0, 0.012345, 0.5, 1.0, 12.345, 123.456, 123456.7].map(significant);
        assert_eq!(shown, ["0", "0.0123", "0.500", "1.00", "12.3", "123", "123457"]);
    }

    #[test]
    fn thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn estimates() {
        let some = Some(Estimate { median: 1_000.0, low: 900.0, high: 1_100.0 });
        assert_eq!(estimate(Measure::P50, some), "1.00 [0.900 1.10]");
        assert_eq!(estimate(Measure::Throughput, some), "1.00k [0.900 1.10]");
        assert_eq!(estimate(Measure::P50, None), NONE);
    }
}

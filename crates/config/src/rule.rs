//! The accepted values of a directive, beyond those implied by its type: bounds, unit, form.

use std::borrow::Cow;

/// The reason for a refusal, in Redis's words where they exist.
pub(crate) type Reason = Cow<'static, str>;

/// A check of a text that has the right form.
pub(crate) type TextCheck = fn(&str) -> Result<(), &'static str>;

/// The form and bounds of a directive's value.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Any value of the type: yes or no, a choice, or the form that the type parses.
    ByType,
    /// A whole number of `unit` (empty for a plain count) between the bounds, inclusive.
    Int {
        /// Smallest number accepted.
        min: i128,
        /// Largest number accepted.
        max: i128,
        /// The unit, in the plural.
        unit: &'static str,
    },
    /// An octal number between the bounds.
    Octal {
        /// Smallest number accepted.
        min: i128,
        /// Largest number accepted.
        max: i128,
    },
    /// A number of bytes between the bounds, with or without a unit: `1k` is 1000 bytes, `1kb` 1024.
    Memory {
        /// Fewest bytes accepted.
        min: i128,
        /// Most bytes accepted.
        max: i128,
    },
    /// A text that passes the check.
    Text {
        /// Whether an empty text unsets the directive, which then has no line in the file.
        empty_is_unset: bool,
        /// Returns the error of an invalid text.
        check: TextCheck,
    },
}

/// Largest C `int`: the upper bound of most numbers in Redis's table.
pub(crate) const INT_MAX: i128 = i32::MAX as i128;
/// Largest C `long`.
pub(crate) const LONG_MAX: i128 = i64::MAX as i128;

pub(crate) const fn int(min: i128, max: i128) -> Rule {
    Rule::Int { min, max, unit: "" }
}

pub(crate) const fn seconds(min: i128, max: i128) -> Rule {
    Rule::Int { min, max, unit: "seconds" }
}

pub(crate) const fn milliseconds(min: i128, max: i128) -> Rule {
    Rule::Int { min, max, unit: "milliseconds" }
}

pub(crate) const fn microseconds(min: i128, max: i128) -> Rule {
    Rule::Int { min, max, unit: "microseconds" }
}

pub(crate) const fn bytes(min: i128, max: i128) -> Rule {
    Rule::Int { min, max, unit: "bytes" }
}

pub(crate) const fn octal(min: i128, max: i128) -> Rule {
    Rule::Octal { min, max }
}

pub(crate) const fn memory(min: i128, max: i128) -> Rule {
    Rule::Memory { min, max }
}

/// Any text. An empty text is an ordinary value.
pub(crate) const fn text() -> Rule {
    Rule::Text { empty_is_unset: false, check: anything }
}

/// Any text. An empty text unsets the directive.
pub(crate) const fn text_or_unset() -> Rule {
    Rule::Text { empty_is_unset: true, check: anything }
}

pub(crate) const fn checked_text(check: TextCheck) -> Rule {
    Rule::Text { empty_is_unset: false, check }
}

pub(crate) const fn checked_text_or_unset(check: TextCheck) -> Rule {
    Rule::Text { empty_is_unset: true, check }
}

fn anything(_: &str) -> Result<(), &'static str> {
    Ok(())
}

impl Rule {
    /// The number in `text` under this rule.
    pub(crate) fn number(&self, text: &[u8]) -> Result<i128, Reason> {
        let (number, min, max) = match *self {
            Self::Int { min, max, .. } => {
                (parse_integer(text).ok_or("argument couldn't be parsed into an integer")?, min, max)
            }
            Self::Octal { min, max } => {
                (parse_octal(text).ok_or("argument couldn't be parsed as an octal number")?, min, max)
            }
            Self::Memory { min, max } => {
                // Negative numbers with a special meaning are given without a unit.
                let size = match min < 0 {
                    true => parse_memory(text).map(wrapped).or_else(|| parse_integer(text)),
                    false => parse_memory(text),
                };
                (size.ok_or("argument must be a memory value")?, min, max)
            }
            Self::ByType | Self::Text { .. } => return Err("argument is not a number".into()),
        };
        if (min..=max).contains(&number) { Ok(number) } else { Err(self.out_of_bounds()) }
    }

    /// The error for a number outside the bounds.
    pub(crate) fn out_of_bounds(&self) -> Reason {
        match *self {
            Self::Octal { min, max } => {
                format!("argument must be between {min:o} and {max:o} inclusive").into()
            }
            Self::Int { min, max, .. } | Self::Memory { min, max } => {
                format!("argument must be between {min} and {max} inclusive").into()
            }
            Self::ByType | Self::Text { .. } => "argument is out of bounds".into(),
        }
    }

    /// The accepted numbers, in words.
    pub(crate) fn describe_number(&self) -> String {
        match *self {
            Self::Int { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            Self::Int { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
            Self::Octal { min, max } => format!("an octal number from {min:o} to {max:o}"),
            Self::Memory { min, max } => {
                format!(
                    "a number of bytes from {min} to {max}, or one with a unit such as 64kb, 100mb or 2gb"
                )
            }
            Self::ByType | Self::Text { .. } => "a text".into(),
        }
    }
}

/// A decimal number in canonical form: no plus sign, no leading zeros, within 64 bits.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i128> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        b"0" if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<i64>().ok().map(i128::from)
}

/// Converts a number of bytes to the signed type that Redis uses: values of 2^63 and more become negative.
pub(crate) fn wrapped(size: i128) -> i128 {
    i128::from(size as i64)
}

fn parse_octal(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    i64::from_str_radix(text, 8).ok().map(i128::from)
}

/// A number of bytes: digits, then nothing or one of `b k kb m mb g gb` in any case. Missing digits mean 0, as
/// in Redis.
pub(crate) fn parse_memory(text: &[u8]) -> Option<i128> {
    let digit_count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = text.split_at(digit_count);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number: u64 = match digits {
        b"" => 0,
        digits => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    number.checked_mul(factor).map(i128::from)
}

/// `size` in the largest unit that divides it, as in files.
pub(crate) fn format_memory(size: i128) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        if size != 0 && size % (1 << shift) == 0 {
            return format!("{}{unit}", size >> shift);
        }
    }
    size.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("100b", Some(100)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("2m", Some(2_000_000)),
            ("2mB", Some(2 << 20)),
            ("1g", Some(1_000_000_000)),
            ("1Gb", Some(1 << 30)),
            ("18446744073709551615", Some(i128::from(u64::MAX))),
            ("18446744073709551616", None),
            ("18446744073709551615kb", None),
            ("-1", None),
            ("", Some(0)),
            ("kb", Some(0)),
            ("1tb", None),
            ("1.5gb", None),
            ("1 gb", None),
        ] {
            assert_eq!(parse_memory(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn memory_sizes_round_trip() {
        for size in [0, 1, 1000, 1024, 1025, 1 << 20, 3 << 20, 5 << 30, (1 << 30) + 1024] {
            let text = format_memory(size);
            assert_eq!(parse_memory(text.as_bytes()), Some(size), "{text}");
        }
    }

    #[test]
    fn integers_have_one_form() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("42", Some(42)),
            ("9223372036854775807", Some(LONG_MAX)),
            ("9223372036854775808", None),
            ("-0", None),
            ("007", None),
            ("+1", None),
            ("", None),
            ("-", None),
            ("1x", None),
            (" 1", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text}");
        }
    }
}

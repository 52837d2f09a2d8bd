//! Key format: a prefix and zero-padded decimal digits. All keys have equal length.
//!
//! A key number is rendered into bytes that already contain the prefix and the zeros. A request of fixed
//! length therefore costs one copy and an eight-byte store per key.

use std::ops::Range;

use crate::error::BenchError;

/// Largest number of distinct keys: their numbers are 32-bit.
pub const KEY_COUNT_MAX: u64 = u32::MAX as u64;

const BLOCK_DIGITS: usize = 8;
const BLOCK_VALUES: u64 = 100_000_000;

/// The format of all keys of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyShape {
    prefix: String,
    size: usize,
    count: u64,
}

impl KeyShape {
    /// Creates the shape of keys of exactly `size` bytes for numbers below `count`. The keys begin with as
    /// much of `prefix` as leaves room for the digits, at least one character.
    pub fn new(prefix: &str, size: usize, count: u64) -> Result<Self, BenchError> {
        if count == 0 || count > KEY_COUNT_MAX {
            return Err(BenchError::usage(format!(
                "the number of keys must be 1 to {KEY_COUNT_MAX}, not {count}"
            )));
        }
        let digits = (count - 1).checked_ilog10().unwrap_or(0) as usize + 1;
        let prefix_size_min = prefix.len().min(1);
        if size < digits + prefix_size_min {
            return Err(BenchError::usage(format!(
                "{count} distinct keys need at least {} bytes per key, not {size}",
                digits + prefix_size_min
            )));
        }
        let kept = prefix.len().min(size - digits);
        let prefix = prefix.get(..kept).unwrap_or("k").to_owned();
        Ok(Self { prefix, size, count })
    }

    /// Returns the key of number 0, which [`write_digits`] turns into any other.
    #[must_use]
    pub fn zeroth(&self) -> Vec<u8> {
        let mut key = self.prefix.clone().into_bytes();
        key.resize(self.size, b'0');
        key
    }

    /// Returns the byte range of the key that depends on its number.
    #[must_use]
    pub fn digits(&self) -> Range<usize> {
        let written = if self.count <= BLOCK_VALUES { BLOCK_DIGITS } else { 2 * BLOCK_DIGITS };
        let start = self.prefix.len().max(self.size.saturating_sub(written));
        start..self.size
    }
}

/// Writes the last `digits.len()` (at most 16) decimal digits of `number`.
pub fn write_digits(number: u64, digits: &mut [u8]) {
    if let Ok(block) = <&mut [u8; BLOCK_DIGITS]>::try_from(&mut *digits) {
        *block = eight_digits((number % BLOCK_VALUES) as u32);
        return;
    }
    let low = eight_digits((number % BLOCK_VALUES) as u32);
    let high = eight_digits((number / BLOCK_VALUES % BLOCK_VALUES) as u32);
    let mut all = [0; 2 * BLOCK_DIGITS];
    all[..BLOCK_DIGITS].copy_from_slice(&high);
    all[BLOCK_DIGITS..].copy_from_slice(&low);
    let from = all.len() - digits.len();
    digits.copy_from_slice(&all[from..]);
}

/// Returns the eight decimal digits of a number below 10^8, computing all lanes of a word at once.
///
/// Each step halves the groups: division by 10^4, then by 100 and by 10, as multiplications that are exact
/// for the lane's range.
fn eight_digits(number: u32) -> [u8; BLOCK_DIGITS] {
    let number = u64::from(number);
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    (ones + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(shape: &KeyShape, number: u64) -> String {
        let mut key = shape.zeroth();
        write_digits(number, &mut key[shape.digits()]);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn default_keys_are_sixteen_bytes() {
        let shape = KeyShape::new("key:", 16, 1_000_000).unwrap();
        assert_eq!(key(&shape, 0), "key:000000000000");
        assert_eq!(key(&shape, 999_999), "key:000000999999");
    }

    #[test]
    fn every_key_width_contains_the_number() {
        for (size, count) in
            [(7, 1_000_000), (16, KEY_COUNT_MAX), (40, KEY_COUNT_MAX), (2, 10), (12, 100_000_001)]
        {
            let shape = KeyShape::new("key:", size, count).unwrap();
            for number in [0, 1, count / 3, count - 1] {
                let key = key(&shape, number);
                assert_eq!(key.len(), size);
                let digits = key.trim_start_matches(|c: char| !c.is_ascii_digit());
                assert_eq!(digits.parse::<u64>().unwrap(), number, "{key}");
            }
        }
    }

    #[test]
    fn eight_digits_agree_with_formatting() {
        for number in (0..100_000_000).step_by(9_973).chain(0..10_000).chain([99_999_999]) {
            assert_eq!(eight_digits(number), format!("{number:08}").as_bytes());
        }
    }

    #[test]
    fn too_short_keys_are_refused() {
        assert!(KeyShape::new("key:", 6, 1_000_000).is_err());
        assert!(KeyShape::new("key:", 16, 0).is_err());
    }
}

//! Value sizes, and the filler bytes of values.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::distribution::below;
use crate::error::BenchError;

/// Largest value size: Redis's limit for a string.
pub const VALUE_SIZE_MAX: usize = 512 * 1024 * 1024;

/// Number of start offsets of values in the filler: small enough for the filler to stay in the L1 cache.
const START_COUNT: usize = 4_096;

/// The sizes of values, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSize {
    /// Smallest size.
    pub min: usize,
    /// Largest size, inclusive; all sizes are equally frequent.
    pub max: usize,
}

impl ValueSize {
    /// Returns the size of all values, if it is constant.
    #[must_use]
    pub const fn as_fixed(self) -> Option<usize> {
        if self.min == self.max { Some(self.min) } else { None }
    }

    /// Returns the mean size.
    #[must_use]
    pub const fn mean(self) -> f64 {
        (self.min + self.max) as f64 / 2.0
    }
}

impl FromStr for ValueSize {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        match (min.parse(), max.parse()) {
            (Ok(min), Ok(max)) if min <= max && max <= VALUE_SIZE_MAX => Ok(Self { min, max }),
            _ => Err(BenchError::usage(format!(
                "not a value size: '{text}'; examples: 64, 16..256; at most {VALUE_SIZE_MAX} bytes"
            ))),
        }
    }
}

impl fmt::Display for ValueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_fixed() {
            Some(size) => write!(f, "{size}"),
            None => write!(f, "{}..{}", self.min, self.max),
        }
    }
}

/// Cuts values out of random letters, so that no value is a number and adjacent values differ.
#[derive(Clone, Debug)]
pub struct ValueSource {
    size: ValueSize,
    filler: Arc<[u8]>,
}

impl ValueSource {
    /// Creates a source of values of these sizes.
    #[must_use]
    pub fn new(size: ValueSize) -> Self {
        let mut rng = SmallRng::seed_from_u64(0);
        let filler = (0..size.max + START_COUNT).map(|_| b'a' + below(26, &mut rng) as u8).collect();
        Self { size, filler }
    }

    /// Returns the range of sizes.
    #[must_use]
    pub const fn size(&self) -> ValueSize {
        self.size
    }

    /// Draws a size.
    #[inline]
    pub fn draw_size(&self, rng: &mut SmallRng) -> usize {
        match self.size.as_fixed() {
            Some(size) => size,
            None => self.size.min + below((self.size.max - self.size.min + 1) as u64, rng) as usize,
        }
    }

    /// Draws a value of `size` bytes, at most the source's largest size.
    #[inline]
    pub fn draw(&self, size: usize, rng: &mut SmallRng) -> &[u8] {
        let start = rng.next_u64() as usize % START_COUNT;
        &self.filler[start..start + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        assert_eq!("64".parse::<ValueSize>().unwrap(), ValueSize { min: 64, max: 64 });
        assert_eq!("16..256".parse::<ValueSize>().unwrap(), ValueSize { min: 16, max: 256 });
        assert_eq!("16..256".parse::<ValueSize>().unwrap().to_string(), "16..256");
        for wrong in ["", "x", "9..8", "1..", "99999999999"] {
            assert!(wrong.parse::<ValueSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn drawn_sizes_are_uniform_over_the_whole_range() {
        let source = ValueSource::new("16..19".parse().unwrap());
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = [0; 4];
        for _ in 0..40_000 {
            let size = source.draw_size(&mut rng);
            assert_eq!(source.draw(size, &mut rng).len(), size);
            counts[size - 16] += 1;
        }
        assert!(counts.iter().all(|n| (9_600..10_400).contains(n)), "{counts:?}");
    }

    #[test]
    fn values_are_letters() {
        let source = ValueSource::new("64".parse().unwrap());
        let mut rng = SmallRng::seed_from_u64(1);
        assert!(source.draw(64, &mut rng).iter().all(u8::is_ascii_lowercase));
    }
}

//! Cardinality estimation from the registers, by Otmar Ertl's "New cardinality estimation algorithms for
//! HyperLogLog sketches" (arXiv:1702.01284).

use super::pattern::{PATTERN_BITS, REGISTER_COUNT};

/// 0.5 / ln 2
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The number of registers with each value.
pub(super) type Histogram = [u32; 64];

/// Returns the estimated number of distinct elements.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let count = REGISTER_COUNT as f64;
    let top = f64::from(histogram[PATTERN_BITS as usize + 1]);
    let mut sum = count * tau((count - top) / count);
    for number in (1..=PATTERN_BITS as usize).rev() {
        sum += f64::from(histogram[number]);
        sum *= 0.5;
    }
    sum += count * sigma(f64::from(histogram[0]) / count);
    (ALPHA * count * count / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

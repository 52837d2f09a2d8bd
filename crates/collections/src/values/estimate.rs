//! Sizes of structures with many parts, estimated from the first few parts.

/// Parts that an estimate reads.
pub(crate) const SAMPLE_LEN: usize = 8;

/// Estimates the sum over all `len` parts from the average of the first `sample_len`.
pub(crate) fn estimated_sum(parts: impl Iterator<Item = usize>, len: usize, sample_len: usize) -> usize {
    let sampled = len.min(sample_len);
    let sum: usize = parts.take(sampled).sum();
    if sampled == len { sum } else { (sum as u128 * len as u128 / sampled.max(1) as u128) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_parts_are_summed_and_many_are_estimated() {
        assert_eq!(estimated_sum([1, 2, 3].into_iter(), 3, usize::MAX), 6);
        assert_eq!(estimated_sum([1, 2, 3].into_iter(), 3, 3), 6);
        assert_eq!(estimated_sum((0..).map(|_| 10), 1000, 8), 10_000);
        assert_eq!(estimated_sum([].into_iter(), 0, 8), 0);
    }
}

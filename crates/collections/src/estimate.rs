//! Sizes of what consists of many parts, estimated from the first few of them.

/// Parts that are looked at for an estimate.
pub(crate) const SAMPLE_LEN: usize = 8;

/// The sum over all `len` parts, as if those behind the first `sample_len` were like them on average.
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

//! The order of a sorted set: by score, and members of equal score by their bytes.
//!
//! A score's *order* is a `u64` that compares as scores do: the bits of the double, inverted below zero. -0
//! and 0 have the same order, so they are equal here as in C.

/// A place between elements of a sorted set: a bound for counting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound<'a> {
    /// Before the first element with at least this score.
    BeforeScore(f64),
    /// After the last element with at most this score.
    AfterScore(f64),
    /// Before the first member that is not less, where all scores are equal.
    BeforeMember(&'a [u8]),
    /// After the last member that is not greater, where all scores are equal.
    AfterMember(&'a [u8]),
}

/// A place in the order that a search looks for: the search compares elements with it.
#[derive(Clone, Copy, Debug)]
pub(super) enum SearchTarget<'a> {
    /// The first element of at least this order.
    Order(u64),
    /// The place of this element.
    Element(u64, &'a [u8]),
    /// The first member that is not less than this one.
    Member(&'a [u8]),
    /// The first member that is greater.
    AfterMember(&'a [u8]),
}

impl<'a> Bound<'a> {
    pub(super) fn target(self) -> SearchTarget<'a> {
        match self {
            Self::BeforeScore(score) => SearchTarget::Order(score_key(score)),
            Self::AfterScore(score) => SearchTarget::Order(score_key(score) + 1),
            Self::BeforeMember(member) => SearchTarget::Member(member),
            Self::AfterMember(member) => SearchTarget::AfterMember(member),
        }
    }
}

impl SearchTarget<'_> {
    /// Whether an element lies before the target. `member` is called only if its order does not decide.
    #[inline]
    pub(super) fn is_behind<'m>(&self, order: u64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match *self {
            Self::Order(target) => order < target,
            Self::Element(target, bytes) => order < target || order == target && member() < bytes,
            Self::Member(bytes) => member() < bytes,
            Self::AfterMember(bytes) => member() <= bytes,
        }
    }

    /// The order of the target, if it has one.
    #[inline]
    pub(super) fn order(&self) -> Option<u64> {
        match *self {
            Self::Order(order) | Self::Element(order, _) => Some(order),
            Self::Member(_) | Self::AfterMember(_) => None,
        }
    }
}

/// The order of a score, which is not NaN.
#[inline]
pub(super) fn score_key(score: f64) -> u64 {
    debug_assert!(!score.is_nan());
    // Adding 0 turns -0 into 0 and changes nothing else.
    let bits = (score + 0.0).to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

/// The first of the indexes `start..end` for which `is_behind` is false; it is true for those before.
#[inline]
pub(super) fn partition_point(start: usize, end: usize, mut is_behind: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (start, end);
    while low < high {
        let middle = low.midpoint(high);
        if is_behind(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_keys_compare_like_scores() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            1.0 + f64::EPSILON,
            1e300,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.map(score_key).is_sorted_by(|a, b| a < b));
        assert_eq!(score_key(-0.0), score_key(0.0));
        assert!(score_key(f64::INFINITY) < u64::MAX, "a greater key exists");
    }
}

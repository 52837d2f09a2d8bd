//! The id of a stream's entry: a time and a sequence number, ordered.

use std::fmt;

/// An entry's id: Unix time in milliseconds, and a number among those of the same millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix time in milliseconds, or the client's number in its place.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The smallest: `0-0`, which no entry can have.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The largest.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The id with these parts.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// Whether it is `0-0`.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::MIN
    }

    /// The next larger id; `None` for the largest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// The next smaller id; `None` for the smallest.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_and_previous_ids_carry_over() {
        let cases = [
            (StreamId::new(1, 1), Some(StreamId::new(1, 2)), Some(StreamId::new(1, 0))),
            (StreamId::new(1, u64::MAX), Some(StreamId::new(2, 0)), Some(StreamId::new(1, u64::MAX - 1))),
            (StreamId::new(1, 0), Some(StreamId::new(1, 1)), Some(StreamId::new(0, u64::MAX))),
            (StreamId::MIN, Some(StreamId::new(0, 1)), None),
            (StreamId::MAX, None, Some(StreamId::new(u64::MAX, u64::MAX - 1))),
        ];
        for (id, next, previous) in cases {
            assert_eq!((id.next(), id.previous()), (next, previous), "{id}");
        }
    }
}

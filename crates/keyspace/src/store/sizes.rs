//! Histograms of the sizes of values, by type: bytes of strings, elements of collections. Streams are not counted.
//!
//! The counters of a thread change only when a value enters another bin ([`ValueSize::bin`]).

use collections::{Kind, ValueSize};
use sync::ThreadCounter as Counter;

/// The number of values of one database in each bin of each type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Empty: all are zero.
    counts: Vec<u64>,
}

/// The counters of one thread and database.
#[cold]
pub(super) fn counters() -> Box<[Counter]> {
    (0..ValueSize::ALL_BIN_COUNT).map(|_| Counter::default()).collect()
}

impl Sizes {
    /// The bins of a type that have values: the smallest size of the bin, and the number of values.
    pub fn bins(&self, kind: Kind) -> impl Iterator<Item = (u64, u64)> {
        let kind = kind as usize;
        let counts = self
            .counts
            .get(kind * ValueSize::BIN_COUNT..(kind + 1) * ValueSize::BIN_COUNT)
            .unwrap_or_default();
        // A sum may include a removal and miss the insertion before it.
        let positive = counts.iter().enumerate().filter(|(_, count)| (1..=i64::MAX as u64).contains(*count));
        positive.map(|(bin, count)| (bin.checked_sub(1).map_or(0, |power| 1 << power), *count))
    }

    /// Whether nothing is counted.
    pub(super) fn are_zero(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// Adds the counters of one thread.
    pub(super) fn add(&mut self, counters: &[Counter]) {
        self.counts.resize(counters.len(), 0);
        for (count, counter) in self.counts.iter_mut().zip(counters) {
            *count = count.wrapping_add(counter.value());
        }
    }

    /// Subtracts the numbers from the counters of one thread.
    pub(super) fn subtract_from(&self, counters: &[Counter]) {
        for (count, counter) in self.counts.iter().zip(counters) {
            counter.add(count.wrapping_neg());
        }
    }

    /// The numbers less those of the other.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let len = self.counts.len().max(other.counts.len());
        let of = |sizes: &Self, index| sizes.counts.get(index).copied().unwrap_or(0);
        Self { counts: (0..len).map(|index| of(self, index).wrapping_sub(of(other, index))).collect() }
    }

    /// The numbers, of the values with these types and sizes.
    #[doc(hidden)]
    #[must_use]
    pub fn of(values: impl Iterator<Item = (Kind, usize)>) -> Self {
        let mut counts = vec![0; ValueSize::ALL_BIN_COUNT];
        values
            .filter_map(|(kind, size)| ValueSize::new(kind, size).bin())
            .for_each(|index| counts[index] += 1);
        Self { counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_powers_of_two() {
        let sizes = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, usize::MAX].map(|size| (Kind::List, size));
        let counted = Sizes::of(sizes.into_iter().chain([(Kind::Stream, 5)]));
        let bins: Vec<_> = counted.bins(Kind::List).collect();
        assert_eq!(bins, [(0, 1), (1, 1), (2, 2), (4, 2), (8, 1), (512, 1), (1024, 1), (1 << 47, 1)]);
        assert_eq!(counted.bins(Kind::Hash).count() + Sizes::default().bins(Kind::String).count(), 0);
    }
}

//! Histograms of the sizes of values, by type: bytes of strings, elements of collections. Streams are not counted.
//!
//! A bin has the sizes with the same number of binary digits: 0, 1, 2 to 3, 4 to 7, and so on. The counters of a thread
//! change only when a value enters another bin, so most changes of a value cost a comparison.

use collections::Kind;
use sync::ThreadCounter as Counter;

/// Number of types that are counted, which are the first ones.
const KIND_COUNT: usize = 5;

/// Number of bins of a type. The last one has all sizes from 2^47 on.
const BIN_COUNT: usize = 49;

const _: () = assert!(Kind::Hash as usize + 1 == KIND_COUNT && Kind::Stream as usize == KIND_COUNT);

/// The number of values of one database in each bin of each type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Empty: all are zero.
    counts: Vec<u64>,
}

/// The bin of a size.
#[inline]
pub(super) fn bin_of(size: usize) -> usize {
    ((usize::BITS - size.leading_zeros()) as usize).min(BIN_COUNT - 1)
}

/// The index of the counter of a value, if its type is counted.
#[inline]
pub(super) fn index_of(kind: Kind, size: usize) -> Option<usize> {
    let kind = kind as usize;
    (kind < KIND_COUNT).then(|| kind * BIN_COUNT + bin_of(size))
}

/// The counters of one thread and database.
#[cold]
pub(super) fn counters() -> Box<[Counter]> {
    (0..KIND_COUNT * BIN_COUNT).map(|_| Counter::default()).collect()
}

impl Sizes {
    /// The bins of a type that have values: the smallest size of the bin, and the number of values.
    pub fn bins(&self, kind: Kind) -> impl Iterator<Item = (u64, u64)> {
        let kind = kind as usize;
        let counts = self.counts.get(kind * BIN_COUNT..(kind + 1) * BIN_COUNT).unwrap_or_default();
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
        let mut counts = vec![0; KIND_COUNT * BIN_COUNT];
        values.filter_map(|(kind, size)| index_of(kind, size)).for_each(|index| counts[index] += 1);
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

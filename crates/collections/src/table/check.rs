//! The invariants of a table as code, and statistics of its shape.

use crate::table::Table;
use crate::table::bucket::{BucketItem, Position, WIDTH};
use crate::table::directory::Directory;
use crate::table::segment::{Segment, capacity};

/// The shape of a table, as `DEBUG HTSTATS` reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Keys.
    pub entry_count: usize,
    /// Keys with an expiry.
    pub volatile_count: usize,
    /// Segments.
    pub segment_count: usize,
    /// Leading position bits that index the directory; 0 if there is none.
    pub directory_depth: u32,
    /// Buckets of all segments.
    pub bucket_count: usize,
    /// Buckets by the number of keys they hold.
    pub bucket_count_by_fill: [usize; WIDTH + 1],
    /// Keys by the number of buckets that a search for them reads, one to eight or more.
    pub entry_count_by_reads: [usize; 8],
    /// Bytes of segments and directory.
    pub memory_bytes: usize,
}

impl Table {
    /// Returns statistics of the table's shape. O(keys), without access to an entry.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let mut stats = TableStats {
            entry_count: self.len(),
            volatile_count: self.volatile_len(),
            directory_depth: if self.root.is_directory() { self.root.depth() } else { 0 },
            memory_bytes: self.memory_bytes(),
            ..TableStats::default()
        };
        for (_, segment) in self.segments() {
            stats.segment_count += 1;
            stats.bucket_count += segment.buckets.len();
            for (bucket_index, bucket) in segment.buckets.iter().enumerate() {
                stats.bucket_count_by_fill[bucket.items().count()] += 1;
                for (_, item) in bucket.items() {
                    let read_count = 1 + buckets_before(segment, item, bucket_index).count();
                    stats.entry_count_by_reads[read_count.min(8) - 1] += 1;
                }
            }
        }
        stats
    }

    /// Verifies the invariants in the header of `table.rs`. The error names the violated one and its place.
    pub fn check(&self) -> Result<(), String> {
        if self.root.is_none() {
            let is_zero = self.len == 0 && self.volatile_len == 0;
            return require(is_zero, "3: entries without a segment");
        }
        let mut next_start = 0;
        let (mut len, mut volatile_len, mut members_len) = (0, 0, 0);
        let mut deepest_count = 0;
        for (start, segment) in self.segments() {
            let depth = segment.reference.depth();
            require(start.get() == next_start, "1: ranges have a gap or overlap")?;
            require(segment.range_start(start) == start.get(), "1: a range does not start at its depth")?;
            next_start += Position::END >> depth;
            self.check_directory_words(start, segment)?;
            check_segment(segment, start.get()..next_start)?;
            let segment_len = segment.items().count();
            if self.root.is_directory() {
                // SAFETY: the root is the table's directory, and the table is borrowed.
                let counted = unsafe { Directory::view(self.root) }.len(start);
                require(counted == segment_len, "3: a segment's counter is wrong")?;
            }
            let limit = capacity(segment.buckets.len());
            require(segment_len <= limit, "6: a segment is too full")?;
            len += segment_len;
            deepest_count += u32::from(self.root.is_directory() && depth == self.root.depth());
            for item in segment.items() {
                volatile_len += u32::from(item.is_volatile());
                members_len += u32::from(item.has_volatile_members());
                // SAFETY: (1) the segment is the table's.
                let volatility = unsafe { self.entry_of(item) }.volatility();
                require(item.volatility() == volatility, "4: a word and its entry disagree on expiry")?;
            }
        }
        require(next_start == Position::END, "1: ranges do not cover all positions")?;
        require(len == self.len, "3: len is wrong")?;
        require(volatile_len == self.volatile_len, "4: volatile_len is wrong")?;
        require(members_len == self.volatile_members_len, "4: volatile_members_len is wrong")?;
        let depth_is_used = !self.root.is_directory() || deepest_count > 0;
        require(depth_is_used, "5: no segment is as deep as the directory")?;
        require(!self.root.is_directory() || deepest_count == self.deepest_count, "5: deepest_count is wrong")
    }

    fn check_directory_words(&self, start: Position, segment: Segment<'_>) -> Result<(), String> {
        if !self.root.is_directory() {
            return Ok(());
        }
        let step = 1 << (24 - self.root.depth());
        let end = start.get() + (Position::END >> segment.reference.depth());
        let is_same = (start.get()..end)
            .step_by(step)
            .all(|position| self.segment(Position::new(position)).reference == segment.reference);
        require(is_same, "1: a directory word of a range has another segment")
    }
}

fn check_segment(segment: Segment<'_>, range: std::ops::Range<u32>) -> Result<(), String> {
    let bucket_count = segment.buckets.len();
    let mut passed = vec![0u64; bucket_count];
    for (bucket_index, bucket) in segment.buckets.iter().enumerate() {
        for (_, item) in bucket.items() {
            let is_inside = range.contains(&item.position.get());
            require(is_inside, "2: an entry is in a segment of other positions")?;
            for full_index in buckets_before(segment, item, bucket_index) {
                passed[full_index] += 1;
            }
        }
    }
    for (bucket, &passed) in segment.buckets.iter().zip(&passed) {
        let counted = bucket.overflow_count();
        require(counted == passed || counted == 255, "2: an overflow count is wrong")?;
    }
    Ok(())
}

/// The buckets that an item's probe sequence has before its own.
fn buckets_before(
    segment: Segment<'_>,
    item: BucketItem,
    bucket_index: usize,
) -> impl Iterator<Item = usize> {
    let mut probes = segment.probe_sequence(item.position);
    std::iter::from_fn(move || {
        let passed = probes.bucket_index();
        (passed != bucket_index && probes.advance()).then_some(passed)
    })
}

fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("table invariant {what}")) }
}

// Not under Miri: the checker is safe code, and the crate's integration tests run the rest of the table.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::entry::owned_entry::{ExpiryChange, NewValue};
    use crate::entry::volatility::Volatility;
    use crate::memory::heap::Heap;

    /// A table with a directory, crowded buckets and some expiries.
    fn table(heap: &Heap) -> Table {
        let mut table = Table::new();
        for number in 0..2_000u64 {
            let hash = number
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(17)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let expiry = if number % 5 == 0 { ExpiryChange::At(number as i64) } else { ExpiryChange::Clear };
            table.upsert(heap, hash, &number.to_le_bytes(), NewValue::Int(1), expiry);
        }
        assert_eq!(table.check(), Ok(()));
        assert!(table.root.is_directory());
        table
    }

    /// Plants a fault, asserts that it is reported as a violation of this invariant, and repairs it.
    fn check(invariant: &str, mut plant: impl FnMut(&mut Table), mut repair: impl FnMut(&mut Table)) {
        let heap = Heap::new();
        let mut table = table(&heap);
        plant(&mut table);
        let violation = table.check().expect_err("the fault is noticed");
        assert!(violation.starts_with(&format!("table invariant {invariant}:")), "{violation}");
        repair(&mut table);
        assert_eq!(table.check(), Ok(()));
    }

    #[test]
    fn planted_faults_are_noticed() {
        check("3", |table| table.len += 1, |table| table.len -= 1);
        check("4", |table| table.volatile_len -= 1, |table| table.volatile_len += 1);
        check("5", |table| table.deepest_count += 1, |table| table.deepest_count -= 1);
    }

    #[test]
    fn a_wrong_overflow_count_is_noticed() {
        let bucket = |table: &Table| {
            let (_, segment) = table.segments().next().expect("the container is not empty");
            segment.buckets[3].add_overflow();
        };
        let repair = |table: &Table| {
            let (_, segment) = table.segments().next().expect("the container is not empty");
            segment.buckets[3].remove_overflow();
        };
        check("2", |table| bucket(table), |table| repair(table));
    }

    #[test]
    fn an_entry_in_the_wrong_segment_is_noticed() {
        let heap = Heap::new();
        let table = table(&heap);
        let [a, b] = [0, Position::END - 1].map(|position| {
            let segment = table.segment(Position::new(position));
            let item = segment.items().next().expect("no segment is empty");
            let mut places = segment.places_of_home(segment.reference.home(item.position));
            places.find(|place| place.item == item).expect("the item is in the segment")
        });
        a.bucket.clear(a.index);
        b.bucket.clear(b.index);
        a.bucket.insert(b.item);
        b.bucket.insert(a.item);
        let violation = table.check().expect_err("the fault is noticed");
        assert!(violation.starts_with("table invariant 2:"), "{violation}");
    }

    #[test]
    fn a_wrong_volatile_bit_is_noticed() {
        let heap = Heap::new();
        let table = table(&heap);
        let (_, segment) = table.segments().next().expect("the container is not empty");
        let (bucket, index, item) = segment
            .buckets
            .iter()
            .find_map(|bucket| bucket.items().next().map(|(index, item)| (bucket, index, item)))
            .expect("the container is not empty");
        bucket.store(index, item.with_volatility(Volatility::new(!item.is_volatile(), false)));
        assert!(table.check().expect_err("the fault is noticed").starts_with("table invariant 4:"));
    }

    #[test]
    fn stats_count_every_key_once() {
        let heap = Heap::new();
        let table = table(&heap);
        let stats = table.stats();
        assert_eq!(stats.entry_count_by_reads.iter().sum::<usize>(), table.len());
        let by_fill = stats.bucket_count_by_fill.iter().enumerate();
        assert_eq!(by_fill.map(|(fill, count)| fill * count).sum::<usize>(), table.len());
        assert_eq!(stats.bucket_count_by_fill.iter().sum::<usize>(), stats.bucket_count);
    }
}

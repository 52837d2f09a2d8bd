//! Walks over a table: `SCAN`, iteration, sampling, and the search for expired keys.
//!
//! A cursor is a position. Positions are bits of the hash, so a cursor means the same place for any segments:
//! positions before it were visited and later ones were not. An entry that stays is visited exactly once in a
//! full walk; an entry that is deleted and set again may be visited twice.

use crate::entry::Entry;
use crate::entry::owned_entry::OwnedEntry;
use crate::memory::heap::Heap;
use crate::table::Table;
use crate::table::bucket::{BucketItem, POSITION_BITS, Position, WIDTH};
use crate::table::segment::{EntryPlace, Segment};

/// The progress of a walk for expired keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryWalk {
    /// The position to continue from; `None` at the end of the table.
    pub next: Option<u32>,
    /// Keys with an expiry that were examined.
    pub volatile_count: usize,
    /// Number of these keys that had expired.
    pub expired_count: usize,
    /// The earliest expiry of the other examined keys.
    pub earliest: Option<i64>,
}

impl ExpiryWalk {
    /// Counts an entry with an expiry. Returns whether it has expired.
    #[inline]
    fn is_over(&mut self, entry: Entry<'_>, now: i64) -> bool {
        self.volatile_count += 1;
        let Some(at) = entry.expiry() else { return false };
        if at <= now {
            self.expired_count += 1;
            return true;
        }
        self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
        false
    }
}

impl Table {
    /// Visits the entries of one bucket's worth of positions from `from` on (below 2^24, 0 to begin). Returns
    /// the position to continue from, or `None` at the end.
    #[inline]
    pub fn scan<'a>(&'a self, from: u32, mut visit: impl FnMut(Entry<'a>)) -> Option<u32> {
        self.visit_home(from, |_, entry| visit(entry))
    }

    /// Iterates over the entries in storage order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let items = self.segments().flat_map(|(_, segment)| segment.items());
        // SAFETY: (1) the segments are the table's.
        items.map(|item| unsafe { self.entry_of(item) })
    }

    /// A nearly uniformly random entry, given 64 random bits; `None` if the table is empty.
    #[must_use]
    pub fn sample(&self, random: u64) -> Option<Entry<'_>> {
        if self.is_empty() {
            return None;
        }
        // A try reads one word of one segment: entries of a segment are equally likely, and on average the
        // probability of a segment is proportional to its number of entries.
        let mut random = random;
        for _ in 0..SAMPLE_TRY_COUNT_MAX {
            random = mix(random);
            let segment = self.segment(Position::new((random >> 40) as u32));
            let word = scale(random as u32, segment.buckets.len() * WIDTH);
            if let Some(item) = segment.buckets[word / WIDTH].item(word % WIDTH) {
                // SAFETY: (1) the segment is the table's.
                return Some(unsafe { self.entry_of(item) });
            }
        }
        // The table is nearly empty: take the first entry from a random place on.
        let start = Position::new((mix(random) >> 40) as u32);
        let (before, after): (Vec<_>, Vec<_>) =
            self.segments().flat_map(|(_, segment)| segment.items()).partition(|item| item.position < start);
        // SAFETY: (1) the segments are the table's.
        after.first().or(before.first()).map(|&item| unsafe { self.entry_of(item) })
    }

    /// An entry with an expiry from a random place on, found within `bucket_count_max` buckets, given 64
    /// random bits.
    #[must_use]
    pub fn sample_volatile(&self, random: u64, bucket_count_max: usize) -> Option<Entry<'_>> {
        if self.volatile_len() == 0 {
            return None;
        }
        let mut position = Position::new((mix(random) >> 40) as u32);
        for _ in 0..bucket_count_max {
            let (segment, mut volatile) = self.entries_of_home(position, BucketItem::is_volatile);
            if let Some((_, entry)) = volatile.next() {
                return Some(entry);
            }
            position = Position::new(next_position(segment, position).unwrap_or(0));
        }
        None
    }

    /// Visits the entries that have expired at `now` (Unix time in ms) in up to `bucket_count_max` buckets from
    /// position `from` on. Reads no entry without an expiry.
    pub fn expire_walk<'a>(
        &'a self,
        from: u32,
        bucket_count_max: usize,
        now: i64,
        mut visit: impl FnMut(Entry<'a>),
    ) -> ExpiryWalk {
        let mut walk = ExpiryWalk { next: Some(from), ..ExpiryWalk::default() };
        if self.volatile_len() == 0 || from >= Position::END {
            walk.next = None;
        }
        for _ in 0..bucket_count_max {
            let Some(position) = walk.next.map(Position::new) else { break };
            let (segment, volatile) = self.entries_of_home(position, BucketItem::is_volatile);
            for (_, entry) in volatile {
                if walk.is_over(entry, now) {
                    visit(entry);
                }
            }
            walk.next = next_position(segment, position);
        }
        walk
    }

    /// As [`Self::expire_walk`], but removes the expired entries.
    pub fn remove_expired(
        &mut self,
        heap: &Heap,
        from: u32,
        bucket_count_max: usize,
        now: i64,
        mut expired: impl FnMut(OwnedEntry),
    ) -> ExpiryWalk {
        let mut walk = ExpiryWalk { next: Some(from), ..ExpiryWalk::default() };
        if self.volatile_len() == 0 || from >= Position::END {
            walk.next = None;
        }
        for _ in 0..bucket_count_max {
            let Some(position) = walk.next.map(Position::new) else { break };
            // SAFETY: (1) segments are replaced at the end of the round, when the view is no longer used.
            let segment: Segment<'_> = unsafe { self.segment(position).reference.view() };
            for place in segment.places_of_home(segment.reference.home(position)) {
                if !place.item.is_volatile() {
                    continue;
                }
                // SAFETY: (1) the segment is the table's, which was not changed at this place.
                if walk.is_over(unsafe { self.entry_of(place.item) }, now) {
                    // SAFETY: (1, 2) as above, and each place is visited once.
                    expired(unsafe { self.take_out(segment, place) });
                }
            }
            walk.next = next_position(segment, position);
            self.make_compact(heap, position);
        }
        walk
    }
}

impl Table {
    /// The segment of this position, and the entries with the same home that `takes` selects, each with its place. Reads no
    /// entry.
    #[inline]
    pub(super) fn entries_of_home<'a>(
        &'a self,
        position: Position,
        takes: impl Fn(BucketItem) -> bool,
    ) -> (Segment<'a>, impl Iterator<Item = (EntryPlace<'a>, Entry<'a>)>) {
        let segment = self.segment(position);
        let places = segment.places_of_home(segment.reference.home(position));
        // SAFETY: (1) the segment is the table's, which is borrowed for `'a`.
        let entry_of = |place: EntryPlace<'a>| (place, unsafe { self.entry_of(place.item) });
        (segment, places.filter(move |place| takes(place.item)).map(entry_of))
    }

    /// Visits the entries whose values have members with an expiry, in up to `bucket_count_max` buckets from
    /// position `from` on, until `visit` returns true. Returns the position to continue from, after a stop
    /// that of the current bucket; `None` at the end of the table.
    pub fn volatile_members_walk<'a>(
        &'a self,
        from: u32,
        bucket_count_max: usize,
        mut visit: impl FnMut(Entry<'a>) -> bool,
    ) -> Option<u32> {
        if self.volatile_members_len() == 0 || from >= Position::END {
            return None;
        }
        let mut next = Some(from);
        for _ in 0..bucket_count_max {
            let position = Position::new(next?);
            let (segment, mut entries) = self.entries_of_home(position, BucketItem::has_volatile_members);
            if entries.any(|(_, entry)| visit(entry)) {
                return next;
            }
            next = next_position(segment, position);
        }
        next
    }
}

/// Tries before sampling falls back to a walk: a table with one bucket and one entry then misses one time in
/// 20.
const SAMPLE_TRY_COUNT_MAX: usize = 20;

/// The first position whose home is the next bucket; `None` at the end of the table.
pub(crate) fn next_position(segment: Segment<'_>, position: Position) -> Option<u32> {
    let next = segment.position_after_home(position);
    (next < Position::END).then_some(next)
}

/// Maps 32 random bits to a number below `bound`.
fn scale(random: u32, bound: usize) -> usize {
    ((u64::from(random) * bound as u64) >> 32) as usize
}

/// Spreads the bits of a number (the finaliser of SplitMix64).
fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

const _: () = assert!(POSITION_BITS == 24, "24 random bits make a position");

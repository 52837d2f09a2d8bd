//! Members while a snapshot of them is taken: every function that changes a leaf or the table passes through here first.
//!
//! Leaves and side table are tracked separately: an element that moves between them is removed from the one and
//! new in the other. A split changes no position, nor does a merge that moves nothing to the side table.

use super::linear_hash::LinearHashDirectory;
use super::position::{MemberPlace, scan_position};
use super::{Keyed, Many, Member};
use crate::entry::Entry;
use crate::values::estimate::{SAMPLE_LEN, estimated_sum};
use crate::values::tracking::{PortionLimits, Tracker, TrackingState, Walkable};

impl<K: Member> Many<K> {
    pub(super) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Called before an element with this hash is added to a leaf, changed or removed.
    #[inline]
    pub(super) fn before_leaf_changes(&mut self, hash: u64) {
        if self.tracker.is_set() {
            self.preserve_in_leaf(hash);
        }
    }

    /// Called before the element at a place changes.
    #[inline]
    pub(super) fn before_change_at(&mut self, place: MemberPlace) {
        if self.tracker.is_set() {
            self.tracker.preserve(|state| {
                let hash = state.hasher.hash(K::key(self.directory.at(place)));
                preserve_in_leaf(&self.directory, state, hash);
            });
        }
    }

    /// Called before an entry with this hash is added to the table, changed or removed.
    #[inline]
    pub(super) fn before_side_table_changes(&mut self, hash: u64) {
        if self.tracker.is_set() {
            self.tracker.preserve(|state| self.preserve_in_side_table(state, hash));
        }
    }

    /// Called before the last leaf is merged, which may move its elements to the table.
    #[inline]
    pub(super) fn before_merge(&mut self) {
        if self.tracker.is_set() {
            self.tracker.preserve(|state| {
                for element in self.directory.leaf(self.directory.leaf_count() - 1).iter() {
                    let hash = state.hasher.hash(K::key(element));
                    preserve_in_leaf(&self.directory, state, hash);
                    self.preserve_in_side_table(state, hash);
                }
            });
        }
    }

    /// Called before the expired entries in some buckets of the table are removed.
    pub(super) fn before_expiry(&mut self, from: u32, bucket_count_max: usize, now: i64) {
        if self.tracker.is_set() {
            self.tracker.preserve(|state| {
                self.side_table.expire_walk(from, bucket_count_max, now, |entry| {
                    let hash = state.hasher.hash(entry.key());
                    self.preserve_in_side_table(state, hash);
                });
            });
        }
    }

    #[cold]
    fn preserve_in_leaf(&self, hash: u64) {
        self.tracker.preserve(|state| preserve_in_leaf(&self.directory, state, hash));
    }

    fn preserve_in_side_table(&self, state: &mut TrackingState, hash: u64) {
        state.preserve_in_table(&self.side_table, hash, K::side_table_element, |_, _| true);
    }
}

fn preserve_in_leaf<K: Keyed>(directory: &LinearHashDirectory<K>, state: &mut TrackingState, hash: u64) {
    let TrackingState { sink, hasher, leaves, .. } = state;
    let Some(positions) = leaves.begin_change(scan_position(hash)) else { return };
    let mut next = positions.start;
    while next < positions.end {
        next = directory.scan(hasher, next as u32, &mut |element| {
            let position = scan_position(hasher.hash(K::key(element)));
            if positions.contains(&u64::from(position)) {
                sink.add(K::element(element));
            }
        });
    }
}

impl<K: Member> Walkable for Many<K> {
    fn held_size(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn walk(&self, state: &mut TrackingState, limits: PortionLimits) -> bool {
        while let Some(from) = state.leaves.next() {
            if state.is_enough(limits) {
                return false;
            }
            let mut len = 0;
            let TrackingState { sink, hasher, leaves, .. } = state;
            let next = self.directory.scan(hasher, from, &mut |element| {
                len += 1;
                let is_preserved = || leaves.is_preserved(scan_position(hasher.hash(K::key(element))));
                if !leaves.has_marks() || !is_preserved() {
                    sink.add(K::element(element));
                }
            });
            leaves.advance(Some(next));
            state.visit(len);
        }
        state.walk_table(&self.side_table, limits, K::side_table_element)
    }
}

impl<K: Member> Many<K> {
    /// Bytes of memory that it owns, estimated from some of its elements.
    pub(super) fn estimated_bytes(&self, sample_len: usize) -> usize {
        let entries = self.side_table.iter().map(Entry::allocated_bytes);
        let side_table = estimated_sum(entries, self.side_table.len(), sample_len);
        size_of::<Self>() + self.directory.memory_bytes() + self.side_table.memory_bytes() + side_table
    }
}

impl<K: Member> Drop for Many<K> {
    #[inline]
    fn drop(&mut self) {
        if self.tracker.is_set() {
            let Self { directory, side_table, tracker } = self;
            tracker.detach(|| {
                let directory = std::mem::replace(directory, LinearHashDirectory::new());
                Box::new(Self {
                    directory,
                    side_table: std::mem::take(side_table),
                    tracker: Tracker::default(),
                })
            });
        }
    }
}

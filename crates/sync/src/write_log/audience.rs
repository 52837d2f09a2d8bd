//! Ranges of the log that are not for all readers.
//!
//! Invariants:
//! 1. A range is noted before the lane of its record becomes idle. So a reader finds all ranges below a complete end
//!    that it has loaded before.
//! 2. Ranges do not overlap. Those below the tail are removed.

use super::WriteLog;
use super::room::RoomState;
use crate::shim::{Ordering, lock};

/// The readers for which a range of the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Every reader.
    #[default]
    All,
    /// Those that write files.
    File,
    /// Those that send to replicas.
    Replicas,
}

/// A range that is not for all readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialRange {
    pub(super) end: u64,
    audience: Audience,
}

impl WriteLog {
    /// Notes a range for some readers only, before its record is published.
    #[cold]
    #[inline(never)]
    pub(super) fn note_partial(&self, start: u64, end: u64, audience: Audience) {
        let mut state = lock(&self.state);
        if audience == Audience::All || start == end || !self.is_on() {
            return;
        }
        state.add_partial(start, end, audience);
        self.partial_count.store(state.partial.len() as u32, Ordering::Relaxed);
    }

    /// The first range from `from` on, and below `to`, that is not for this reader: its beginning, not below `from`, and its
    /// end.
    pub(super) fn next_passed_over(&self, from: u64, to: u64, reader: Audience) -> Option<(u64, u64)> {
        // The count was stored before the lane became idle: invariant 1.
        if self.partial_count.load(Ordering::Relaxed) == 0 || reader == Audience::All {
            return None;
        }
        let state = lock(&self.state);
        let covering = state.partial.range(..=from).next_back();
        let following = state.partial.range(from + 1..to.max(from + 1));
        covering
            .into_iter()
            .chain(following)
            .find(|(_, range)| range.end > from && range.audience != reader)
            .map(|(start, range)| ((*start).max(from), range.end))
    }
}

impl RoomState {
    fn add_partial(&mut self, start: u64, end: u64, audience: Audience) {
        if let Some((_, last)) = self.partial.range_mut(..start).next_back()
            && last.end == start
            && last.audience == audience
        {
            last.end = end;
            return;
        }
        self.partial.insert(start, PartialRange { end, audience });
    }

    /// Removes the ranges below the tail.
    pub(super) fn trim_partial(&mut self, tail: u64) {
        while let Some(first) = self.partial.first_entry()
            && first.get().end <= tail
        {
            first.remove();
        }
    }
}

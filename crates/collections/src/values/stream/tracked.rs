//! A stream while a snapshot walks it in portions, see `tracking.rs`.
//!
//! The nodes of the cut are in `order.rs`.

use super::Stream;
use super::id::StreamId;
use super::order::{StreamOrder, StreamPart};
use crate::values::estimate::SAMPLE_LEN;
use crate::values::tracking::{Element, PortionLimits, Tracker, TrackingState, Walkable, is_large};

impl Stream {
    pub(crate) fn is_large(&self) -> bool {
        is_large(usize::try_from(self.len).unwrap_or(usize::MAX), || self.estimated_bytes(SAMPLE_LEN))
    }

    pub(crate) fn tracked(&self) -> (&Tracker, &dyn Walkable) {
        (&self.tracker, self)
    }
}

impl Walkable for Stream {
    fn held_size(&self) -> usize {
        self.estimated_bytes(SAMPLE_LEN)
    }

    fn begin(&self, state: &mut TrackingState) {
        let cut_end = self.nodes.last_key_value().map_or(StreamId::MIN, |(first, _)| *first);
        state.stream = StreamOrder::new(cut_end);
    }

    fn walk(&self, state: &mut TrackingState, limits: PortionLimits) -> bool {
        let mut live = self.nodes.range(state.stream.unwalked()).peekable();
        while !state.is_enough(limits) {
            while live.next_if(|(first, _)| !state.stream.is_due(**first)).is_some() {}
            let next = live.peek().map(|(first, _)| **first);
            if let Some((first, node)) = state.stream.take_kept_before(next) {
                state.add_entries(StreamPart::new(first, &node));
            } else if let Some((first, node)) = live.next() {
                state.add_entries(StreamPart::new(*first, node));
            } else {
                return true;
            }
        }
        false
    }
}

impl TrackingState {
    fn add_entries(&mut self, part: StreamPart<'_>) {
        self.stream.note_walked(&part);
        self.visit(part.len());
        self.sink.add(Element::Entries(part));
    }
}

impl Drop for Stream {
    #[inline]
    fn drop(&mut self) {
        if self.tracker.is_set() {
            let mut parts = Self::default();
            std::mem::swap(&mut parts.nodes, &mut self.nodes);
            self.tracker.detach(|| Box::new(parts));
        }
    }
}

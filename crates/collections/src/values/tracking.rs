//! Large collections while a snapshot of them is taken: a walk in portions, and the elements that changes preserve
//! before it.
//!
//! A collection is *tracked* from the moment when the snapshot's walk reaches it, or when it is about to change
//! before that, until its walk ends. Its contents at that moment are those at the cut. Meanwhile each function
//! that changes elements first *preserves* those with the same position that the walk has not visited: they go
//! to the [`ElementSink`], and the position is marked, so that the walk passes over it. An element that is at a
//! marked position later is not of the cut.
//!
//! | part of a collection | position | order of the walk |
//! |---|---|---|
//! | leaves of a set or hash | bits of the hash, as for `SCAN` | ascending positions |
//! | their table of long and volatile members | position in the table | ascending positions |
//! | sorted set | position in the table | descending scores: servers load these fastest |
//! | list (`list/tracked.rs`) | number of the node at the cut | as in the list |
//! | stream (`stream/tracked.rs`) | first id of the node | ascending ids |
//!
//! The elements of lists and streams are written in order. So the elements of them that changes preserve stay
//! in the [`TrackingState`] until the walk reaches them.
//!
//! When a tracked collection is dropped, its contents move into its [`Tracking`] instead of being freed, and
//! the walk continues there. So deletion, replacement and conversion need no further care. A collection that is
//! moved to another key stays tracked; a copy is not.
//!
//! Invariants
//! 1. Each element of the cut is passed to the sink exactly once.
//! 2. A [`Tracking`] is used under the latch of its collection, or after the collection was dropped.
//! 3. After [`Tracking::close`], and after the end of the walk, nothing is preserved or detached.
//!
//! This file depends on no collection type: beginning and walking are in `object/tracked.rs`, elements in tables in
//! `tracking/in_table.rs`.
//!
//! Cost: a change of a collection that is not tracked tests one word of its memory.

mod grains;
mod in_table;

use std::sync::{Arc, PoisonError};

use sync::{Mutex, MutexGuard};

use crate::hasher::KeyHasher;
use crate::packed::Item;
use crate::values::list::order::{ListOrder, ListPart};
use crate::values::stream::order::{StreamOrder, StreamPart};
pub(crate) use grains::Grains;

/// Elements from which on a collection is large.
const LARGE_LEN_MIN: usize = if crate::IS_TINY { 40 } else { 4096 };

/// Elements from which on a collection is large if it has [`LARGE_SIZE_MIN`].
const SIZED_LEN_MIN: usize = if crate::IS_TINY { 20 } else { 64 };

/// Bytes of memory from which on a collection of few elements is large.
const LARGE_SIZE_MIN: usize = 1 << 20;

/// Whether a collection with these elements and, approximately, bytes is walked in portions.
#[inline]
pub(crate) fn is_large(len: usize, size: impl FnOnce() -> usize) -> bool {
    len >= LARGE_LEN_MIN || len >= SIZED_LEN_MIN && size() >= LARGE_SIZE_MIN
}

/// An element of a collection, or several at once.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set, and its score.
    Scored(&'a [u8], f64),
    /// A field of a hash, its value, and its expiry as a Unix time in milliseconds.
    Field(Item<'a>, Item<'a>, Option<i64>),
    /// Elements of a list, in their order.
    Items(ListPart<'a>),
    /// Entries of a stream, in their order.
    Entries(StreamPart<'a>),
}

impl Element<'_> {
    /// Number of elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Items(part) => part.len(),
            Self::Entries(part) => part.len(),
            Self::Member(_) | Self::Scored(..) | Self::Field(..) => 1,
        }
    }
}

/// Receives the elements that a tracked collection had at the cut: those of lists and streams in order, others in any.
pub trait ElementSink: Send {
    /// Takes an element.
    fn add(&mut self, element: Element<'_>);

    /// Number of elements that were added.
    fn len(&self) -> usize;

    /// Bytes that were added and not taken.
    fn size(&self) -> usize;

    /// Runs after a change has preserved elements, and after each portion of the walk. `kept_size`: bytes of the elements
    /// that are preserved and not added yet.
    fn settle(&mut self, kept_size: usize);

    /// Runs when the contents of a collection that was dropped stay in memory for the snapshot, approximately these bytes,
    /// and with 0 when they are freed.
    fn hold(&mut self, _size: usize) {}

    /// Runs after the last element was added.
    fn finish(&mut self);

    /// Takes out the bytes that were added.
    fn take(&mut self) -> Vec<u8>;
}

/// How much one portion of a walk visits.
#[derive(Clone, Copy, Debug)]
pub struct PortionLimits {
    /// Elements, whether they are passed to the sink or not.
    pub len_max: usize,
    /// Bytes in the sink.
    pub size_max: usize,
}

/// The snapshot of one collection. See the module documentation.
pub struct Tracking {
    /// Elements at the cut.
    cut_len: usize,
    state: Mutex<TrackingState>,
}

/// The state that changes and the walk share.
pub(crate) struct TrackingState {
    pub(crate) sink: Box<dyn ElementSink>,
    pub(crate) hasher: KeyHasher,
    /// Of the leaves of a set or hash.
    pub(crate) leaves: Grains,
    /// Of a table.
    pub(crate) table: Grains,
    /// Of a sorted set: the order and the member of the last element that the walk has visited.
    pub(crate) last: Option<(u64, Box<[u8]>)>,
    /// Of a list.
    pub(crate) list: ListOrder,
    /// Of a stream.
    pub(crate) stream: StreamOrder,
    /// Elements that this portion has visited.
    visited_len: usize,
    is_over: bool,
    /// The contents of the collection, after it was dropped.
    detached: Option<Box<dyn Walkable>>,
}

/// The parts of a collection that have its elements.
pub(crate) trait Walkable: Send {
    /// Begins to track them.
    fn begin(&self, _state: &mut TrackingState) {}

    /// Bytes of memory, approximately.
    fn held_size(&self) -> usize;

    /// Passes elements that are not preserved to the sink, until the limits or the end. Returns whether it is the end.
    fn walk(&self, state: &mut TrackingState, limits: PortionLimits) -> bool;
}

impl Tracking {
    /// Begins to track parts with this number of elements.
    pub(crate) fn begin_with(
        tracker: &Tracker,
        parts: &dyn Walkable,
        len: usize,
        hasher: &KeyHasher,
        sink: Box<dyn ElementSink>,
    ) -> Arc<Self> {
        let mut state = TrackingState {
            sink,
            hasher: hasher.clone(),
            leaves: Grains::new(len),
            table: Grains::new(len),
            last: None,
            list: ListOrder::default(),
            stream: StreamOrder::default(),
            visited_len: 0,
            is_over: false,
            detached: None,
        };
        parts.begin(&mut state);
        let tracking = Arc::new(Self { cut_len: len, state: Mutex::new(state) });
        *tracker.lock() = Some(Arc::clone(&tracking));
        tracking
    }

    /// Whether it tracks the parts with this tracker.
    pub(crate) fn is_in(&self, tracker: &Tracker) -> bool {
        tracker.lock().as_ref().is_some_and(|tracking| std::ptr::eq(&raw const **tracking, self))
    }

    /// Walks a portion of the parts, which are not tracked any more after the last one. Returns whether it was.
    pub(crate) fn walk_parts(&self, tracker: &Tracker, parts: &dyn Walkable, limits: PortionLimits) -> bool {
        let is_done = self.lock().walk(parts, limits);
        if is_done {
            *tracker.lock() = None;
        }
        is_done
    }

    /// Walks a portion of the contents of a collection that was dropped, which are freed at the end. Returns whether
    /// it was the last one; `None` if the collection was not dropped yet.
    pub fn walk_detached(&self, limits: PortionLimits) -> Option<bool> {
        let mut state = self.lock();
        let parts = state.detached.take()?;
        let is_done = state.walk(&*parts, limits);
        if is_done {
            drop(parts);
            state.sink.hold(0);
        } else {
            state.detached = Some(parts);
        }
        Some(is_done)
    }

    /// The number of elements that were passed to the sink, and the number at the cut: equal after the end of
    /// the walk.
    #[must_use]
    pub fn lens(&self) -> (usize, usize) {
        (self.lock().sink.len(), self.cut_len)
    }

    /// Takes out the bytes in the sink.
    pub fn take(&self) -> Vec<u8> {
        self.lock().sink.take()
    }

    /// Ends the tracking before the end of the walk.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        (state.list, state.stream) = (ListOrder::default(), StreamOrder::default());
        drop(state.detached.take());
        state.sink.hold(0);
    }

    fn lock(&self) -> MutexGuard<'_, TrackingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrackingState {
    fn walk(&mut self, parts: &dyn Walkable, limits: PortionLimits) -> bool {
        self.visited_len = 0;
        if !self.is_over && parts.walk(self, limits) {
            self.is_over = true;
            self.sink.finish();
        }
        self.settle();
        self.is_over
    }

    fn settle(&mut self) {
        self.sink.settle(self.list.kept_size() + self.stream.kept_size());
    }

    /// Whether a portion ends here.
    #[inline]
    pub(crate) fn is_enough(&self, limits: PortionLimits) -> bool {
        self.visited_len >= limits.len_max || self.sink.size() >= limits.size_max
    }

    /// Counts visited elements.
    #[inline]
    pub(crate) fn visit(&mut self, len: usize) {
        self.visited_len += len;
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tracker({})", self.lock().is_some())
    }
}

/// The place in a collection that leads to its [`Tracking`].
#[derive(Default)]
pub(crate) struct Tracker(Mutex<Option<Arc<Tracking>>>);

impl Tracker {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Tracking>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tracking of the collection, if any.
    pub(crate) fn tracking(&self) -> Option<Arc<Tracking>> {
        self.lock().clone()
    }

    /// Whether changes must preserve elements.
    #[inline(always)]
    pub(crate) fn is_set(&mut self) -> bool {
        self.0.get_mut().map_or(true, |tracking| tracking.is_some())
    }

    /// Runs `preserve`, before a change of the collection. Called if [`Self::is_set`].
    pub(crate) fn preserve(&self, preserve: impl FnOnce(&mut TrackingState)) {
        let mut tracker = self.lock();
        let Some(tracking) = &*tracker else { return };
        let mut state = tracking.lock();
        if !state.is_over {
            preserve(&mut state);
            state.settle();
            return;
        }
        drop(state);
        *tracker = None;
    }

    /// Keeps the contents of a collection that is dropped, if the walk needs them.
    #[cold]
    pub(crate) fn detach(&mut self, parts: impl FnOnce() -> Box<dyn Walkable>) {
        let Some(tracking) = self.lock().take() else { return };
        let mut state = tracking.lock();
        if !state.is_over {
            let parts = parts();
            state.sink.hold(parts.held_size());
            state.detached = Some(parts);
        }
    }
}

//! The reserve: chunks that are prepared before they are needed.
//!
//! Touches the pool's mutex, and between two calls of it the system, through [`PageHooks::prepare`]. Only memory that is in no
//! pool yet is ever prepared.
//!
//! Size: half a chunk is kept vacant, plus as many chunks ahead as are needed so that none has to be created on
//! demand. Each time a chunk is created on demand, this number is doubled; it shrinks when fewer are used up
//! from one [`SpanPool::note_time`] to the next. The first chunks are never prepared, as a small store would be
//! resident as a whole.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::{CHUNK_SIZE, LooseChunk, PoolState, SPANS_OF_CHUNK, SpanPool, VACANT_ALL};

/// Number of chunks that are never prepared: a store's first chunks are created on demand.
const UNPREPARED_COUNT: usize = if cfg!(miri) { 1 } else { 2 };

/// Largest number of chunks kept ahead, and the number of allocated chunks that permits one of them.
const AHEAD_MAX: usize = 16;
const AHEAD_SHARE: usize = 16;

/// The state of a pool's reserve.
pub(super) struct Reserve {
    /// Chunks that should be vacant in addition to the half of one.
    ahead: usize,
    /// Number of chunks when the time was last noted.
    chunk_count_before: usize,
    /// Whether a keeper was requested and has not ended.
    is_requested: bool,
}

impl Reserve {
    pub(super) const NONE: Self = Self { ahead: 0, chunk_count_before: 0, is_requested: false };
}

/// Prepares the chunks of a pool, on a background thread.
pub struct ChunkKeeper(Arc<SpanPool>);

impl ChunkKeeper {
    /// Prepares chunks until there are enough.
    pub fn prepare(self) {
        self.0.prepare();
    }
}

impl SpanPool {
    /// Requests a keeper if more chunks are needed.
    pub(super) fn request_keeper(self: &Arc<Self>) {
        if self.hooks.prepare.is_none() {
            return;
        }
        let Some(keep) = &self.hooks.keep else { return };
        if self.state().should_request() {
            keep(ChunkKeeper(Arc::clone(self)));
        }
    }

    /// Called about once a second: a reserve that is not used up shrinks.
    pub(crate) fn note_time(&self) {
        let mut state = self.state();
        let chunk_count = state.chunk_count;
        let before = std::mem::replace(&mut state.reserve.chunk_count_before, chunk_count);
        state.reserve.ahead = state.reserve.ahead.min(chunk_count.saturating_sub(before));
    }

    fn prepare(&self) {
        let Some(prepare) = self.hooks.prepare else { return };
        while self.state().should_go_on() {
            self.state().mapped_count += 1;
            let memory = LooseChunk::new();
            // SAFETY: the chunk was just allocated with this size, is exclusively owned, and may be
            // uninitialised.
            prepare(unsafe {
                std::slice::from_raw_parts_mut(memory.0.cast::<MaybeUninit<u8>>().as_ptr(), CHUNK_SIZE)
            });
            self.state().add_chunk(memory, VACANT_ALL);
        }
    }
}

impl PoolState {
    /// Number of vacant spans wanted: while the store is small, none is created for the reserve.
    pub(super) fn wanted_count(&self) -> usize {
        let used_count = self.chunk_count * SPANS_OF_CHUNK - self.vacant_count;
        if used_count <= (UNPREPARED_COUNT - 1) * SPANS_OF_CHUNK {
            return 0;
        }
        SPANS_OF_CHUNK / 2 + self.reserve.ahead * SPANS_OF_CHUNK
    }

    /// Records that a chunk had to be created on demand.
    pub(super) fn note_miss(&mut self) {
        if self.chunk_count > UNPREPARED_COUNT {
            let limit = (self.chunk_count / AHEAD_SHARE).clamp(1, AHEAD_MAX);
            self.reserve.ahead = (2 * self.reserve.ahead).clamp(1, limit);
        }
    }

    fn should_request(&mut self) -> bool {
        let should = !self.reserve.is_requested && self.vacant_count < self.wanted_count();
        self.reserve.is_requested |= should;
        should
    }

    fn should_go_on(&mut self) -> bool {
        self.reserve.is_requested = self.vacant_count < self.wanted_count();
        self.reserve.is_requested
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, OnceLock};

    use super::super::{PageHook, PageHooks, SPAN_SIZE, wipe};
    use super::*;
    use crate::memory::span::Span;

    fn give(pool: &SpanPool, spans: Vec<NonNull<Span>>) {
        for span in spans {
            // SAFETY: taken by the test, unused, and returned once.
            unsafe { pool.give(span) };
        }
    }

    #[test]
    fn a_chunk_counts_as_mapped_while_it_is_prepared() {
        static POOL: OnceLock<Arc<SpanPool>> = OnceLock::new();
        static MAPPED_SIZE: AtomicUsize = AtomicUsize::new(0);
        let prepare: PageHook = |_| {
            let pool = POOL.get().expect("made before a chunk is taken");
            MAPPED_SIZE.store(pool.mapped_bytes(), Ordering::Relaxed);
        };
        let hooks =
            PageHooks { prepare: Some(prepare), keep: Some(Arc::new(ChunkKeeper::prepare)), purge: None };
        let pool = POOL.get_or_init(|| Arc::new(SpanPool::new(hooks)));
        let spans: Vec<_> = (0..UNPREPARED_COUNT * SPANS_OF_CHUNK).map(|_| pool.take()).collect();
        assert_eq!(MAPPED_SIZE.load(Ordering::Relaxed), pool.mapped_bytes());
        assert_eq!(pool.mapped_bytes(), (UNPREPARED_COUNT + 1) * CHUNK_SIZE);
        give(pool, spans);
        pool.trim();
    }

    #[test]
    fn chunks_are_prepared_ahead_in_the_needed_number() {
        static PREPARED_COUNT: AtomicUsize = AtomicUsize::new(0);
        let prepared_count = || PREPARED_COUNT.load(Ordering::Relaxed);
        let requested: Arc<Mutex<Vec<ChunkKeeper>>> = Arc::default();
        let keepers = Arc::clone(&requested);
        let pool = Arc::new(SpanPool::new(PageHooks {
            prepare: Some(|memory| {
                wipe(memory);
                PREPARED_COUNT.fetch_add(1, Ordering::Relaxed);
            }),
            keep: Some(Arc::new(move |keeper| keepers.lock().expect("no test has panicked").push(keeper))),
            purge: None,
        }));
        let requested_count = || requested.lock().expect("no test has panicked").len();
        let keep = || {
            let keepers = std::mem::take(&mut *requested.lock().expect("no test has panicked"));
            keepers.into_iter().for_each(ChunkKeeper::prepare);
        };
        let mut spans: Vec<_> =
            (0..(UNPREPARED_COUNT - 1) * SPANS_OF_CHUNK + 1).map(|_| pool.take()).collect();
        assert_eq!(requested_count(), 0, "a small store has no reserve");
        spans.extend((0..SPANS_OF_CHUNK / 2).map(|_| pool.take()));
        assert_eq!((requested_count(), prepared_count()), (1, 0));
        keep();
        assert_eq!((requested_count(), prepared_count()), (0, 1));
        assert_eq!(pool.mapped_bytes(), (UNPREPARED_COUNT + 1) * CHUNK_SIZE);
        pool.trim();
        assert_eq!(pool.mapped_bytes(), (UNPREPARED_COUNT + 1) * CHUNK_SIZE, "the reserve is kept");
        // Without a keeper, chunks are created on demand, and the reserve becomes larger.
        spans.extend((0..3 * SPANS_OF_CHUNK).map(|_| pool.take()));
        assert_eq!((requested_count(), prepared_count()), (1, 1));
        keep();
        let vacant = pool.state().vacant_count;
        assert!((SPANS_OF_CHUNK * 3 / 2..SPANS_OF_CHUNK * 5 / 2).contains(&vacant), "{vacant}");
        pool.note_time();
        pool.note_time();
        pool.trim();
        let vacant = pool.state().vacant_count;
        assert!((SPANS_OF_CHUNK / 2..SPANS_OF_CHUNK * 3 / 2).contains(&vacant), "{vacant}");
        assert!(pool.dirty_bytes() >= SPANS_OF_CHUNK / 2 * SPAN_SIZE - SPAN_SIZE);
        give(&pool, spans);
        pool.trim();
        assert_eq!(pool.mapped_bytes(), 0);
    }
}

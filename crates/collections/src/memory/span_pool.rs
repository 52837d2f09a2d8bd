//! Spans: the 32 KiB pieces of memory that heaps carve into blocks of one size.
//!
//! Owns: chunks of 4 MiB from the global allocator. The first span of a chunk holds the headers of all the
//! others, 32 bytes each, after the chunk's own. So the header of any block's span is computed from the
//! block's address alone, headers are dense (and spread over the cache sets), and spans start on a page.
//!
//! Touches only the header of a span; the heap that took a span manages its contents.
//!
//! A chunk created when a span is needed has ordinary pages, and the thread that first writes to them waits
//! for page faults. So chunks are prepared ahead, on a background thread (`reserve.rs`). Pages of memory in
//! use are left alone.
//!
//! Invariants
//! 1. A bit of `dirty` is set only for a vacant span: one whose pages were touched since they were last purged.
//! 2. A chunk is in the vacant list if all of its spans are vacant, else in the dirty list if one is dirty,
//!    else in the clean list if one is vacant, else in none.
//! 3. `vacant_count` and `dirty_count` are the numbers of bits set in `vacant` and `dirty` of all chunks.
//!
//! Cost: one mutex operation a span. System calls are made only for a new chunk and in [`SpanPool::trim`].

mod reserve;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};

use sync::{Mutex, MutexGuard};

use crate::memory::ADDRESS_BITS;
use crate::memory::span::Span;

pub use self::reserve::ChunkKeeper;
use self::reserve::Reserve;

/// Bytes of a span.
pub(crate) const SPAN_SIZE: usize = 32 * 1024;

/// Bytes and alignment of a chunk: whole huge pages. Smaller under Miri, which models every byte.
pub(crate) const CHUNK_SIZE: usize = if cfg!(miri) { 8 * SPAN_SIZE } else { 4 * 1024 * 1024 };

/// Bytes of a span's header.
pub(crate) const HEADER_SIZE: usize = size_of::<Span>();

/// Spans of a chunk, the first one (headers) included.
const SPAN_COUNT: usize = CHUNK_SIZE / SPAN_SIZE;

const _: () = assert!(SPAN_COUNT * HEADER_SIZE <= SPAN_SIZE);
const _: () = assert!(SPAN_COUNT <= u128::BITS as usize);
const _: () = assert!(size_of::<Chunk>() <= FIRST_INDEX * HEADER_SIZE);

/// Informs the system about memory whose contents are not needed. May change them.
pub type PageHook = fn(&mut [MaybeUninit<u8>]);

/// Requests that a keeper prepare chunks, soon and on another thread. No further request is made until it
/// has ended. Called outside all locks.
pub type KeeperHook = Arc<dyn Fn(ChunkKeeper) + Send + Sync>;

/// The hooks by which a pool informs the system about its memory; this crate makes no system calls.
#[derive(Clone, Default)]
pub struct PageHooks {
    /// Makes the memory of a chunk of 4 MiB, aligned to its size, resident in huge pages before it is used.
    /// With them lookups among 5 million keys take 25 to 40 % less time. Created at the first touch
    /// instead, each would be zeroed while a write waits: up to 10 ms on a virtual machine whose host has
    /// to provide the memory first.
    pub prepare: Option<PageHook>,
    /// Called when more prepared chunks are needed.
    pub keep: Option<KeeperHook>,
    /// Returns the pages of vacant memory to the system (`MADV_DONTNEED`).
    pub purge: Option<PageHook>,
}

impl std::fmt::Debug for PageHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageHooks").finish_non_exhaustive()
    }
}

/// Header of a chunk, in the place of its first spans' headers. Written under the pool's mutex.
#[repr(C)]
struct Chunk {
    /// Bit `i` is set if span `i` is vacant.
    vacant: Cell<u128>,
    /// Bit `i` is set if span `i` is vacant and has pages that could be returned to the system.
    dirty: Cell<u128>,
    next: Cell<*const Chunk>,
    previous: Cell<*const Chunk>,
}

const DIRTY: usize = 0;
const CLEAN: usize = 1;
const VACANT: usize = 2;

impl Chunk {
    /// The list that it belongs in.
    fn list(&self) -> Option<usize> {
        match (self.dirty.get(), self.vacant.get()) {
            (_, VACANT_ALL) => Some(VACANT),
            (0, 0) => None,
            (0, _) => Some(CLEAN),
            _ => Some(DIRTY),
        }
    }
}

fn chunk_vacant(chunk: &Chunk) -> u128 {
    chunk.vacant.get()
}

fn chunk_dirty(chunk: &Chunk) -> u128 {
    chunk.dirty.get()
}

/// First usable span; the headers of those before it would overlap the chunk's.
const FIRST_INDEX: usize = 2;

/// Spans of a chunk that can be taken.
const SPANS_OF_CHUNK: usize = SPAN_COUNT - FIRST_INDEX;

/// The bits of all usable spans.
const VACANT_ALL: u128 = (u128::MAX >> (u128::BITS as usize - SPAN_COUNT)) & !((1 << FIRST_INDEX) - 1);

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK_SIZE, CHUNK_SIZE) {
    Ok(layout) => layout,
    Err(_) => panic!("the chunk size is a power of two"),
};

/// The memory that a family of heaps shares, span by span.
pub(crate) struct SpanPool {
    state: Mutex<PoolState>,
    hooks: PageHooks,
}

struct PoolState {
    /// First chunks of the dirty, the clean and the vacant list.
    lists: [*const Chunk; 3],
    chunk_count: usize,
    /// Number of allocated chunks: those of the pool, and those being prepared or freed. Never below the
    /// actual number.
    mapped_count: usize,
    vacant_count: usize,
    dirty_count: usize,
    reserve: Reserve,
}

// SAFETY: the chunks behind the pointers are accessed only under the mutex.
unsafe impl Send for PoolState {}

impl SpanPool {
    pub(crate) fn new(hooks: PageHooks) -> Self {
        let state = PoolState {
            lists: [ptr::null(); 3],
            chunk_count: 0,
            mapped_count: 0,
            vacant_count: 0,
            dirty_count: 0,
            reserve: Reserve::NONE,
        };
        Self { state: Mutex::new(state), hooks }
    }

    /// Takes a vacant span: the address of its header, whose contents are stale. Its memory is not initialised.
    pub(crate) fn take(self: &Arc<Self>) -> NonNull<Span> {
        let (chunk, index) = self.state().occupy_any();
        self.request_keeper();
        let address = chunk.addr() + index * HEADER_SIZE;
        let header = NonNull::new(ptr::with_exposed_provenance_mut(address));
        header.expect("an address inside a chunk is not null")
    }

    /// Returns a span to the pool.
    ///
    /// # Safety
    /// 1. The span was taken from this pool and not returned since.
    /// 2. Its memory and its header are not used any more.
    pub(crate) unsafe fn give(&self, header: NonNull<Span>) {
        let index = (header.addr().get() % CHUNK_SIZE) / HEADER_SIZE;
        let address = header.addr().get() - index * HEADER_SIZE;
        let mut state = self.state();
        // SAFETY: (1) the span lies in a live chunk of this pool, whose header is at the chunk's start.
        let chunk: &Chunk = unsafe { &*ptr::with_exposed_provenance(address) };
        debug_assert!(chunk.vacant.get() & (1 << index) == 0, "span given back twice");
        // SAFETY: (1) as above.
        unsafe { state.update(chunk, chunk.vacant.get() | 1 << index, chunk.dirty.get() | 1 << index) };
    }

    /// Returns vacant memory to the system: chunks that are vacant as a whole to the global allocator, and,
    /// if the pool has a hook for it, the pages of other vacant spans.
    pub(crate) fn trim(&self) {
        loop {
            // System calls are made outside the mutex.
            let Some(chunk) = self.state().remove_surplus() else { break };
            // The global allocator may keep the chunk; its pages (except those of the headers) are returned
            // to the system anyway.
            // SAFETY: (1) the chunk is in no pool any more.
            unsafe { self.purge(chunk.0.addr().get(), SPAN_SIZE, CHUNK_SIZE - SPAN_SIZE) };
            chunk.free();
            self.state().mapped_count -= 1;
        }
        if self.hooks.purge.is_none() {
            return;
        }
        // At most one pass over the spans dirty now: other threads may be adding more.
        let chunk_count = self.state().chunk_count;
        for _ in 0..chunk_count {
            let Some((chunk, spans)) = self.state().occupy_dirty() else { break };
            let mut left = spans;
            while left != 0 {
                let start = left.trailing_zeros() as usize;
                let count = (left >> start).trailing_ones() as usize;
                // SAFETY: (1) the spans were just occupied, and are exclusive to this thread.
                unsafe { self.purge(chunk.addr(), start * SPAN_SIZE, count * SPAN_SIZE) };
                left &= left.checked_add(1 << start).unwrap_or(0);
            }
            let mut state = self.state();
            // SAFETY: the chunk is of this pool, and live while these spans of it are not vacant.
            let chunk = unsafe { &*chunk };
            // SAFETY: (1) likewise.
            unsafe { state.update(chunk, chunk.vacant.get() | spans, chunk.dirty.get()) };
        }
    }

    /// Returns pages of the chunk at this address to the system.
    ///
    /// # Safety
    /// 1. The range lies in a live chunk, behind its headers, and is exclusive to the caller.
    unsafe fn purge(&self, chunk: usize, offset: usize, size: usize) {
        let Some(purge) = self.hooks.purge else { return };
        let memory = ptr::with_exposed_provenance_mut(chunk + offset);
        // SAFETY: (1), and it may be uninitialised.
        purge(unsafe { std::slice::from_raw_parts_mut(memory, size) });
    }

    /// Bytes of all chunks that are allocated, whether touched or not.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.state().mapped_count * CHUNK_SIZE
    }

    /// Bytes of vacant spans that [`Self::trim`] keeps.
    pub(crate) fn reserve_bytes(&self) -> usize {
        self.state().wanted_count() * SPAN_SIZE
    }

    /// Bytes of vacant spans that were touched since their pages were last returned.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.state().dirty_count * SPAN_SIZE
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpanPool {
    fn drop(&mut self) {
        self.hooks.purge = None;
        self.state().reserve = Reserve::NONE;
        self.trim();
        debug_assert_eq!(self.mapped_bytes(), 0, "every heap has given its spans back");
    }
}

impl PoolState {
    /// Occupies a span: one whose pages are resident, if possible, and not the first of its chunk.
    fn occupy_any(&mut self) -> (*const Chunk, usize) {
        let partial = self.occupy(DIRTY, chunk_dirty).or_else(|| self.occupy(CLEAN, chunk_vacant));
        partial.or_else(|| self.occupy(VACANT, chunk_vacant)).unwrap_or_else(|| {
            self.note_miss();
            self.mapped_count += 1;
            self.add_chunk(LooseChunk::new(), 0);
            self.occupy(VACANT, chunk_vacant).expect("the new chunk is vacant")
        })
    }

    /// Occupies all dirty spans of a chunk.
    fn occupy_dirty(&mut self) -> Option<(*const Chunk, u128)> {
        // SAFETY: a chunk in a list is live.
        let chunk = unsafe { self.lists[DIRTY].as_ref() }?;
        let spans = chunk.dirty.get();
        // SAFETY: (1) it is in a list of this pool.
        unsafe { self.update(chunk, chunk.vacant.get() & !spans, 0) };
        Some((ptr::from_ref(chunk), spans))
    }

    /// Occupies one of `spans` of the first chunk of a list.
    fn occupy(&mut self, list: usize, spans: fn(&Chunk) -> u128) -> Option<(*const Chunk, usize)> {
        // SAFETY: a chunk in a list is live.
        let chunk = unsafe { self.lists[list].as_ref() }?;
        let spans = spans(chunk);
        let bit = spans & spans.wrapping_neg();
        // SAFETY: (1) it is in a list of this pool.
        unsafe { self.update(chunk, chunk.vacant.get() & !bit, chunk.dirty.get() & !bit) };
        (bit != 0).then(|| (ptr::from_ref(chunk), bit.trailing_zeros() as usize))
    }

    /// Removes a chunk that is vacant as a whole from the pool, unless it is to be kept.
    fn remove_surplus(&mut self) -> Option<LooseChunk> {
        if self.vacant_count < self.wanted_count() + SPANS_OF_CHUNK {
            return None;
        }
        // SAFETY: a chunk in a list is live.
        let chunk = unsafe { self.lists[VACANT].as_ref() }?;
        // SAFETY: (1) it is in a list of this pool.
        unsafe { self.update(chunk, 0, 0) };
        self.chunk_count -= 1;
        let memory = ptr::with_exposed_provenance_mut(ptr::from_ref(chunk).addr());
        Some(LooseChunk(NonNull::new(memory).expect("a reference is not null")))
    }

    /// Updates the vacant and dirty bits of a chunk, and its list.
    ///
    /// # Safety
    /// 1. The chunk is of this pool, and live.
    unsafe fn update(&mut self, chunk: &Chunk, vacant: u128, dirty: u128) {
        let before = chunk.list();
        self.vacant_count -= chunk.vacant.get().count_ones() as usize;
        self.vacant_count += vacant.count_ones() as usize;
        self.dirty_count -= chunk.dirty.get().count_ones() as usize;
        self.dirty_count += dirty.count_ones() as usize;
        chunk.vacant.set(vacant);
        chunk.dirty.set(dirty);
        if chunk.list() == before {
            return;
        }
        if let Some(list) = before {
            // SAFETY: (1) it is in the list of its old bits (invariant 2).
            unsafe { self.unlink(chunk, list) };
        }
        if let Some(list) = chunk.list() {
            // SAFETY: (1) it is in no list now.
            unsafe { self.link(chunk, list) };
        }
    }

    /// Adds a chunk of which these spans were touched.
    fn add_chunk(&mut self, memory: LooseChunk, dirty: u128) {
        let header = Chunk {
            vacant: Cell::new(VACANT_ALL),
            dirty: Cell::new(dirty),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        };
        let chunk = memory.0.cast::<Chunk>();
        // SAFETY: the chunk is in no pool, aligned, and larger than its header.
        unsafe { chunk.write(header) };
        // SAFETY: just written.
        let chunk = unsafe { chunk.as_ref() };
        self.chunk_count += 1;
        self.vacant_count += SPANS_OF_CHUNK;
        self.dirty_count += dirty.count_ones() as usize;
        // SAFETY: (1) it is new.
        unsafe { self.link(chunk, VACANT) };
    }

    /// # Safety
    /// 1. The chunk is live, in no list, and removed from this one before it is freed.
    unsafe fn link(&mut self, chunk: &Chunk, list: usize) {
        let head = self.lists[list];
        chunk.next.set(head);
        chunk.previous.set(ptr::null());
        // SAFETY: a chunk in a list is live.
        if let Some(head) = unsafe { head.as_ref() } {
            head.previous.set(chunk);
        }
        self.lists[list] = chunk;
    }

    /// # Safety
    /// 1. The chunk is in this list.
    unsafe fn unlink(&mut self, chunk: &Chunk, list: usize) {
        let (next, previous) = (chunk.next.get(), chunk.previous.get());
        // SAFETY: a chunk in a list is live.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
        // SAFETY: likewise.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.lists[list] = next,
        }
    }
}

/// The memory of a chunk that is not yet, or not any more, in a pool.
struct LooseChunk(NonNull<u8>);

impl LooseChunk {
    fn new() -> Self {
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc(CHUNK_LAYOUT) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(CHUNK_LAYOUT) };
        let end = memory.as_ptr().expose_provenance() + CHUNK_SIZE;
        assert!(end <= 1 << ADDRESS_BITS, "an address does not fit a bucket's word");
        Self(memory)
    }

    fn free(self) {
        // SAFETY: allocated with this layout, and this is the only handle.
        unsafe { dealloc(self.0.as_ptr(), CHUNK_LAYOUT) };
    }
}

/// Writes zeros, without a loop, each step of which is slow under Miri.
#[cfg(test)]
fn wipe(memory: &mut [MaybeUninit<u8>]) {
    // SAFETY: the bytes are the slice's.
    unsafe { memory.as_mut_ptr().write_bytes(0, memory.len()) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn give_all(pool: &SpanPool, spans: impl Iterator<Item = NonNull<Span>>) {
        for span in spans {
            // SAFETY: taken by the test, unused, and returned once.
            unsafe { pool.give(span) };
        }
    }

    #[test]
    fn spans_are_distinct_reused_and_returned() {
        let pool = Arc::new(SpanPool::new(PageHooks::default()));
        let spans: Vec<_> = (0..3 * SPANS_OF_CHUNK).map(|_| pool.take()).collect();
        let mut sorted = spans.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), spans.len());
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);

        give_all(&pool, spans.iter().copied().step_by(3));
        let reused: Vec<_> = (0..4).map(|_| pool.take()).collect();
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);
        pool.trim();
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);

        let rest = spans.iter().enumerate().filter(|(index, _)| index % 3 != 0).map(|(_, &span)| span);
        give_all(&pool, rest.chain(reused));
        assert_eq!(pool.dirty_bytes(), spans.len() * SPAN_SIZE);
        pool.trim();
        assert_eq!((pool.mapped_bytes(), pool.dirty_bytes()), (0, 0));
    }

    #[test]
    fn vacant_spans_are_purged_once_with_their_neighbours() {
        static PURGED_SIZE: AtomicUsize = AtomicUsize::new(0);
        static CALL_COUNT: AtomicUsize = AtomicUsize::new(0);
        let pool = Arc::new(SpanPool::new(PageHooks {
            purge: Some(|memory| {
                wipe(memory);
                PURGED_SIZE.fetch_add(memory.len(), Ordering::Relaxed);
                CALL_COUNT.fetch_add(1, Ordering::Relaxed);
            }),
            ..PageHooks::default()
        }));
        let spans: Vec<_> = (0..5).map(|_| pool.take()).collect();
        give_all(&pool, spans[1..3].iter().chain(&spans[4..]).copied());
        for _ in 0..2 {
            pool.trim();
            assert_eq!(PURGED_SIZE.load(Ordering::Relaxed), 3 * SPAN_SIZE);
            assert_eq!(CALL_COUNT.load(Ordering::Relaxed), 2);
            assert_eq!(pool.dirty_bytes(), 0);
        }
        give_all(&pool, [spans[0], spans[3]].into_iter());
    }
}

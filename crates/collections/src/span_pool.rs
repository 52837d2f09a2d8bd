//! Spans: the 32 KiB pieces of memory that heaps carve into blocks of one size.
//!
//! Owns: chunks of 4 MiB from the global allocator. The first span of a chunk holds the headers of all the others,
//! 32 bytes each and the chunk's own before them. So the header of any block's span is found from the block's
//! address alone, headers lie dense (and not all on the same cache sets), and spans start on a page.
//!
//! Touches nothing of a span but its header; the heap that took a span decides what is in it.
//!
//! Invariants
//! 1. A bit of `dirty` is set only for a vacant span: one whose pages were touched since they were last purged.
//! 2. A chunk is in the list of vacant ones if all of its spans are vacant, else in the dirty list if one is dirty,
//!    else in the clean list if one is vacant, else in none.
//!
//! Cost: one mutex operation a span. The system is called for a new chunk and in [`SpanPool::trim`], only there.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bucket::ADDRESS_BITS;
use crate::span::Span;

/// Bytes of a span.
pub(crate) const SPAN_SIZE: usize = 32 * 1024;

/// Bytes and alignment of a chunk: whole huge pages. Miri models every byte, so it gets smaller ones.
pub(crate) const CHUNK_SIZE: usize = if cfg!(miri) { 8 * SPAN_SIZE } else { 4 * 1024 * 1024 };

/// Bytes of a span's header.
pub(crate) const HEADER_SIZE: usize = size_of::<Span>();

/// Spans of a chunk, the first one (headers) included.
const SPAN_COUNT: usize = CHUNK_SIZE / SPAN_SIZE;

const _: () = assert!(SPAN_COUNT * HEADER_SIZE <= SPAN_SIZE);
const _: () = assert!(SPAN_COUNT <= u128::BITS as usize);
const _: () = assert!(size_of::<Chunk>() <= FIRST_INDEX * HEADER_SIZE);

/// Tells the system something about memory that holds nothing yet or nothing any more. May change its contents.
pub type PageHook = fn(&mut [MaybeUninit<u8>]);

/// Tells the system something about memory that is in use: where it starts, and its size in bytes. Changes no contents.
pub type AdviceHook = fn(NonNull<u8>, usize);

/// What a pool tells the system about its memory; this crate knows no system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageHooks {
    /// Called once with each chunk of 4 MiB, aligned to its size, when all of it is first in use. With huge pages lookups
    /// among 5 million keys take 25 to 40 % less time. Asked for earlier, each would be made, and wiped, while a write
    /// waits for it: up to 10 ms on a virtual machine whose host has to find the memory first.
    pub settle: Option<AdviceHook>,
    /// Gives the pages of vacant memory back (`MADV_DONTNEED`).
    pub purge: Option<PageHook>,
}

/// Header of a chunk, where those of its first spans would be. Written under the pool's mutex.
#[repr(C)]
struct Chunk {
    /// Bit `i` is set if span `i` is vacant.
    vacant: Cell<u128>,
    /// Bit `i` is set if span `i` is vacant and holds pages that the system could have.
    dirty: Cell<u128>,
    next: Cell<*const Chunk>,
    previous: Cell<*const Chunk>,
    /// Whether it was in use as a whole before.
    is_settled: Cell<bool>,
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

/// First span that is not headers; those of the spans before it would be where the chunk's is.
const FIRST_INDEX: usize = 2;

/// All bits that stand for spans.
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
    dirty_count: usize,
}

// SAFETY: the chunks behind the pointers are reached only under the mutex.
unsafe impl Send for PoolState {}

impl SpanPool {
    pub(crate) const fn new(hooks: PageHooks) -> Self {
        let state = PoolState { lists: [ptr::null(); 3], chunk_count: 0, dirty_count: 0 };
        Self { state: Mutex::new(state), hooks }
    }

    /// Takes a vacant span: the address of its header, whose contents are stale. Its memory is not initialised.
    pub(crate) fn take(&self) -> NonNull<Span> {
        let (chunk, index, settles) = {
            let mut state = self.state();
            let (chunk, index) = state.occupy_any();
            (chunk, index, chunk.list().is_none() && !chunk.is_settled.replace(true))
        };
        if settles && let Some(settle) = self.hooks.settle {
            settle(NonNull::from(chunk).cast(), CHUNK_SIZE);
        }
        let address = ptr::from_ref(chunk).addr() + index * HEADER_SIZE;
        let header = NonNull::new(ptr::with_exposed_provenance_mut(address));
        header.expect("an address inside a chunk is not null")
    }

    /// Gives a span back.
    ///
    /// # Safety
    /// 1. The span was taken from this pool and not given back since.
    /// 2. Nobody uses its memory or its header any more.
    pub(crate) unsafe fn give(&self, header: NonNull<Span>) {
        let index = (header.addr().get() % CHUNK_SIZE) / HEADER_SIZE;
        let address = header.addr().get() - index * HEADER_SIZE;
        let mut state = self.state();
        // SAFETY: (1) the span lies in a live chunk of this pool, whose header is at the chunk's start.
        let chunk: &Chunk = unsafe { &*ptr::with_exposed_provenance(address) };
        debug_assert!(chunk.vacant.get() & (1 << index) == 0, "span given back twice");
        state.update(chunk, chunk.vacant.get() | 1 << index, chunk.dirty.get() | 1 << index);
    }

    /// Gives vacant memory back to the system: chunks that are vacant as a whole to the global allocator, and, if
    /// the pool was given a way to do so, the pages of other vacant spans.
    pub(crate) fn trim(&self) {
        loop {
            // Not under the mutex what calls the system.
            let Some(chunk) = self.state().remove_vacant() else { break };
            // The allocator beneath may keep it; the system shall have the pages (but the headers') anyway.
            self.purge(chunk, SPAN_SIZE, CHUNK_SIZE - SPAN_SIZE);
            // SAFETY: allocated with this layout, in no list, and all of its spans are vacant.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(ptr::from_ref(chunk).addr()), CHUNK_LAYOUT) };
        }
        if self.hooks.purge.is_none() {
            return;
        }
        // At most once through what is dirty now: others may be making more.
        let dirty_count = self.state().dirty_count;
        for _ in 0..dirty_count {
            let Some((chunk, index)) = self.state().occupy(DIRTY, chunk_dirty) else { break };
            self.purge(chunk, index * SPAN_SIZE, SPAN_SIZE);
            self.state().update(chunk, chunk.vacant.get() | 1 << index, chunk.dirty.get());
        }
    }

    /// Lets the system have pages of a chunk, which nobody else may use and which are not the headers'.
    fn purge(&self, chunk: &Chunk, offset: usize, size: usize) {
        let Some(purge) = self.hooks.purge else { return };
        let memory = ptr::with_exposed_provenance_mut(ptr::from_ref(chunk).addr() + offset);
        // SAFETY: the range lies in the chunk, is nobody else's, and may be uninitialised.
        purge(unsafe { std::slice::from_raw_parts_mut(memory, size) });
    }

    /// Bytes of all chunks, whether touched or not.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.state().chunk_count * CHUNK_SIZE
    }

    /// Bytes of vacant spans that were touched since the system last had them.
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
        self.trim();
        debug_assert_eq!(self.mapped_bytes(), 0, "every heap has given its spans back");
    }
}

impl PoolState {
    /// Makes some span not vacant: one whose pages are there already, if possible, and not the first of its chunk.
    fn occupy_any<'a>(&mut self) -> (&'a Chunk, usize) {
        let partial = self.occupy(DIRTY, chunk_dirty).or_else(|| self.occupy(CLEAN, chunk_vacant));
        partial.or_else(|| self.occupy(VACANT, chunk_vacant)).unwrap_or_else(|| {
            self.new_chunk();
            self.occupy(VACANT, chunk_vacant).expect("the new chunk is vacant")
        })
    }

    /// Makes a span not vacant: one of `spans` of the first chunk of a list.
    fn occupy<'a>(&mut self, list: usize, spans: fn(&Chunk) -> u128) -> Option<(&'a Chunk, usize)> {
        // SAFETY: a chunk in a list is live, and stays so: a span of it is not vacant any more.
        let chunk: &Chunk = unsafe { self.lists[list].as_ref() }?;
        let spans = spans(chunk);
        let bit = spans & spans.wrapping_neg();
        self.update(chunk, chunk.vacant.get() & !bit, chunk.dirty.get() & !bit);
        (bit != 0).then(|| (chunk, bit.trailing_zeros() as usize))
    }

    /// Takes a chunk that is vacant as a whole out of the pool.
    fn remove_vacant<'a>(&mut self) -> Option<&'a Chunk> {
        // SAFETY: a chunk in a list is live until the caller frees it.
        let chunk = unsafe { self.lists[VACANT].as_ref() }?;
        self.update(chunk, 0, 0);
        self.chunk_count -= 1;
        Some(chunk)
    }

    /// Changes what is vacant and dirty, and with it the chunk's list.
    fn update(&mut self, chunk: &Chunk, vacant: u128, dirty: u128) {
        let before = chunk.list();
        self.dirty_count -= chunk.dirty.get().count_ones() as usize;
        self.dirty_count += dirty.count_ones() as usize;
        chunk.vacant.set(vacant);
        chunk.dirty.set(dirty);
        if chunk.list() == before {
            return;
        }
        if let Some(list) = before {
            self.unlink(chunk, list);
        }
        if let Some(list) = chunk.list() {
            self.link(chunk, list);
        }
    }

    fn new_chunk(&mut self) {
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc(CHUNK_LAYOUT) };
        if memory.is_null() {
            handle_alloc_error(CHUNK_LAYOUT);
        }
        assert!(memory.addr() + CHUNK_SIZE <= 1 << ADDRESS_BITS, "an address does not fit a bucket's word");
        memory.expose_provenance();
        let header = Chunk {
            vacant: Cell::new(VACANT_ALL),
            dirty: Cell::new(0),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            is_settled: Cell::new(false),
        };
        let chunk = memory.cast::<Chunk>();
        // SAFETY: the chunk is fresh, aligned, and larger than its header.
        unsafe { chunk.write(header) };
        // SAFETY: just written.
        let chunk = unsafe { &*chunk };
        self.chunk_count += 1;
        self.link(chunk, VACANT);
    }

    fn link(&mut self, chunk: &Chunk, list: usize) {
        let head = self.lists[list];
        chunk.next.set(head);
        chunk.previous.set(ptr::null());
        // SAFETY: a chunk in a list is live.
        if let Some(head) = unsafe { head.as_ref() } {
            head.previous.set(chunk);
        }
        self.lists[list] = chunk;
    }

    fn unlink(&mut self, chunk: &Chunk, list: usize) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SPANS_OF_CHUNK: usize = SPAN_COUNT - FIRST_INDEX;

    fn give_all(pool: &SpanPool, spans: impl Iterator<Item = NonNull<Span>>) {
        for span in spans {
            // SAFETY: taken by the test, unused, and given back once.
            unsafe { pool.give(span) };
        }
    }

    #[test]
    fn spans_are_distinct_reused_and_returned() {
        let pool = SpanPool::new(PageHooks::default());
        let spans: Vec<_> = (0..3 * SPANS_OF_CHUNK).map(|_| pool.take()).collect();
        let mut sorted = spans.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), spans.len());
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);

        give_all(&pool, spans.iter().copied().step_by(3));
        let again: Vec<_> = (0..4).map(|_| pool.take()).collect();
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);
        pool.trim();
        assert_eq!(pool.mapped_bytes(), 3 * CHUNK_SIZE);

        let rest = spans.iter().enumerate().filter(|(index, _)| index % 3 != 0).map(|(_, &span)| span);
        give_all(&pool, rest.chain(again));
        assert_eq!(pool.dirty_bytes(), spans.len() * SPAN_SIZE);
        pool.trim();
        assert_eq!((pool.mapped_bytes(), pool.dirty_bytes()), (0, 0));
    }

    #[test]
    fn vacant_spans_of_chunks_in_use_are_purged_once_and_full_chunks_settle_once() {
        static SETTLED_SIZE: AtomicUsize = AtomicUsize::new(0);
        static PURGED_COUNT: AtomicUsize = AtomicUsize::new(0);
        let pool = SpanPool::new(PageHooks {
            settle: Some(|_, size| {
                SETTLED_SIZE.fetch_add(size, Ordering::Relaxed);
            }),
            purge: Some(|memory| {
                memory.fill(MaybeUninit::new(0));
                PURGED_COUNT.fetch_add(1, Ordering::Relaxed);
            }),
        });
        let spans: Vec<_> = (0..5).map(|_| pool.take()).collect();
        give_all(&pool, spans[1..].iter().copied());
        for _ in 0..2 {
            pool.trim();
            assert_eq!(PURGED_COUNT.load(Ordering::Relaxed), 4);
            assert_eq!(pool.dirty_bytes(), 0);
        }
        give_all(&pool, spans[..1].iter().copied());
        assert_eq!(SETTLED_SIZE.load(Ordering::Relaxed), 0);
        for _ in 0..2 {
            let all: Vec<_> = (0..SPANS_OF_CHUNK).map(|_| pool.take()).collect();
            assert_eq!(SETTLED_SIZE.load(Ordering::Relaxed), CHUNK_SIZE);
            give_all(&pool, all.into_iter());
        }
    }
}

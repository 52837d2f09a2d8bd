//! The allocator of entries and segments.
//!
//! Owns: spans of a pool that all heaps of a family share, each carved into blocks of one size. The caller
//! selects the heap by slot, so two threads seldom contend for one. Any thread may free: a block's address
//! leads to its span and from there to its heap, so there are no remote frees and no abandoned pages. Partly
//! used spans are filled before a new one is taken; empty ones return to the pool.
//!
//! Touches: the spin lock of one heap at a time, for about ten nanoseconds; never the pool's mutex under
//! it.
//!
//! Invariants
//! 1. A span is in its class's list exactly if it has a free block.
//! 2. `live_count` is the number of blocks handed out and not yet freed, large ones included.
//! 3. `freed_counts` has, for each class whose freed blocks may be subdivided, the number of carved blocks
//!    that are neither live nor subdivided.
//! 4. A core outlives its [`Heap`] until its last block is freed; the thread that frees that block destroys
//!    the core.
//!
//! Why not a general allocator: none has a size class of 88 bytes. `benches/heap_cost.rs`, 5 million
//! blocks, one thread of a busy two-core machine (bytes are exact, ns indicative; an entry is read to be
//! freed, a box is not):
//! ```text
//!                                              this heap   glibc 2.36   jemalloc 5.3   mimalloc 2.0
//! bytes resident for an entry of 88               88.4        96.0          97.2           96.8
//! ns to allocate it                                 73          74            72             65
//! ns to free one at random and allocate another    500         310           135            425
//! bytes for 160 after every size has changed       250         176           269            266
//! ... and 167 here once `Table::defragment` has moved entries together
//! ```
//! Start reading at [`Heap::allocate`].

mod large;

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};

use sync::atomic::{AtomicU64, Ordering};

use crate::memory::replaced::Retired;
use crate::memory::size_class::{
    CLASS_COUNT, INNER_CLASS_END, LINE_SIZE, SUBDIVIDED_CLASS_COUNT, SUBDIVIDED_CLASS_START, class_of,
    class_size, is_large,
};
use crate::memory::span::Span;
use crate::memory::span_pool::{PageHooks, SpanPool};
use crate::memory::spin::SpinLock;

/// An allocator for the entries and segments of some slots.
///
/// Dropping it while entries still exist is allowed: the last of them releases its memory.
pub struct Heap {
    core: NonNull<HeapCore>,
}

// SAFETY: every field of the core is atomic or behind a lock.
unsafe impl Send for Heap {}
// SAFETY: likewise.
unsafe impl Sync for Heap {}

#[repr(align(128))]
pub(crate) struct HeapCore {
    state: SpinLock<HeapState>,
    /// Bytes of live blocks. Written under the lock only, so without read-modify-write.
    block_bytes: AtomicU64,
    /// Bytes of carved blocks, live or free. Written under the lock only.
    carved_bytes: AtomicU64,
    /// Bytes of blocks and buffers from the global allocator.
    external_bytes: AtomicU64,
    /// Segments to be freed once no prefetch can read them; `None` after the heap was dropped.
    retired: sync::Mutex<Option<Vec<Retired>>>,
    /// Bytes of the retired segments: at zero, frequent callers need not lock the mutex.
    retired_bytes: AtomicU64,
    pool: Arc<SpanPool>,
}

struct HeapState {
    /// For each class the spans with free blocks.
    partial: [*const Span; CLASS_COUNT],
    freed_counts: [u32; SUBDIVIDED_CLASS_COUNT],
    live_count: u64,
    is_orphaned: bool,
}

// SAFETY: the spans behind the pointers are accessed only under the lock that guards this.
unsafe impl Send for HeapState {}

impl Heap {
    /// A heap with a separate pool.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pool(Arc::new(SpanPool::new(PageHooks::default())))
    }

    /// `count` heaps that share one pool, so that one can use spans that another has emptied. [`Self::trim`]
    /// returns only chunks of 4 MiB that are vacant as a whole.
    #[must_use]
    pub fn family(count: usize) -> Vec<Self> {
        Self::family_with(count, PageHooks::default())
    }

    /// [`Self::family`] with hooks that inform the system about its pages.
    #[must_use]
    pub fn family_with(count: usize, hooks: PageHooks) -> Vec<Self> {
        let pool = Arc::new(SpanPool::new(hooks));
        (0..count).map(|_| Self::with_pool(Arc::clone(&pool))).collect()
    }

    /// Bytes of live blocks that were carved from spans, without those from the global allocator.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.core().block_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of live blocks and of the buffers they own, as allocated (rounded up to size classes).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let core = self.core();
        core.block_bytes.load(Ordering::Relaxed) + core.external_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory that this heap holds and has touched, free blocks included.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let core = self.core();
        core.carved_bytes.load(Ordering::Relaxed) + core.external_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of address space that this heap's family has reserved, touched or not.
    #[must_use]
    pub fn family_mapped_bytes(&self) -> usize {
        self.core().pool.mapped_bytes()
    }

    /// Bytes of the memory that [`Self::take_retired`] would return.
    #[must_use]
    pub fn retired_bytes(&self) -> u64 {
        self.core().retired_bytes.load(Ordering::Relaxed)
    }

    /// Returns the memory that was retired since the last call.
    ///
    /// Dropping it frees it. The creator of a [`crate::Hint`] must keep it long enough ([`crate::Hint::new`]).
    #[must_use]
    pub fn take_retired(&self) -> Vec<Retired> {
        if self.retired_bytes() == 0 {
            return Vec::new();
        }
        let mut retired = self.core().retired.lock().unwrap_or_else(PoisonError::into_inner);
        self.core().retired_bytes.store(0, Ordering::Relaxed);
        retired.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Bytes of touched but vacant memory of this heap's family, which [`Self::trim`] may return.
    #[must_use]
    pub fn family_vacant_bytes(&self) -> usize {
        self.core().pool.dirty_bytes()
    }

    /// Bytes of vacant memory that [`Self::trim`] keeps, as it may soon be needed.
    #[must_use]
    pub fn family_reserve_bytes(&self) -> usize {
        self.core().pool.reserve_bytes()
    }

    /// Called about once a second: the family's reserve follows the growth in between.
    pub fn note_time(&self) {
        self.core().pool.note_time();
    }

    /// Returns memory: this heap's empty spans to the family, and the family's vacant memory, except the
    /// reserve, to the system.
    ///
    /// Nothing else returns memory to the system, so the owner should call this about once a second. It may
    /// take long.
    pub fn trim(&self) {
        self.core().give_empty_spans();
        self.core().pool.trim();
    }

    /// Returns uninitialised memory of at least `size` bytes, aligned to 8, and to 64 if `size` is a multiple of 64.
    #[inline]
    pub(crate) fn allocate(&self, size: usize) -> NonNull<u8> {
        if is_large(size) {
            return self.allocate_large(size);
        }
        let class = class_of(size);
        let core = self.core();
        let mut state = core.state.lock();
        while !state.has_room(class) && !state.subdivide(core, class) {
            drop(state);
            // SAFETY: a span's header stays until the span is returned, which is not before one of its
            // blocks is freed.
            let span = unsafe { core.new_span(class).as_ref() };
            state = core.state.lock();
            // SAFETY: (1) the span was just taken for this class.
            unsafe { state.link(class, span) };
        }
        state.live_count += 1;
        add_unshared(&core.block_bytes, class_size(class) as u64);
        state.pop(core, class)
    }

    /// Passes memory that prefetches may be reading to the owner, which frees it later.
    pub(crate) fn retire(retired: Retired) {
        let (address, size) = (retired.address(), retired.size());
        // SAFETY: (1) the block is live, and of this size.
        let core = unsafe { core_of(address, size) };
        let mut list = core.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = list.as_mut() {
            list.push(retired);
            core.retired_bytes.fetch_add(size as u64, Ordering::Relaxed);
        } else {
            // The list cannot be taken any more. It is freed outside the mutex: freeing it may destroy the core
            // that has the mutex.
            drop(list);
            drop(retired);
        }
    }

    /// Whether a block lies in a sparse span while another span is being filled.
    ///
    /// # Safety
    /// As for [`core_of`].
    pub(crate) unsafe fn is_sparse_at(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's.
        if is_large(size) || !unsafe { self.owns(block, size) } {
            return false;
        }
        let class = class_of(size);
        let state = self.core().state.lock();
        // SAFETY: the block is live and of this class.
        let span = unsafe { Span::of(block, class) };
        !ptr::eq(state.partial[class], span) && span.is_sparse()
    }

    /// Whether a block should move to another one of this heap: it is that of another heap, as after `RENAME`, or lies in a sparse
    /// span.
    ///
    /// # Safety
    /// As for [`core_of`].
    pub(crate) unsafe fn should_move(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's.
        !is_large(size) && (!unsafe { self.owns(block, size) } || unsafe { self.is_sparse_at(block, size) })
    }

    /// Whether a block of this size came from this heap.
    ///
    /// # Safety
    /// As for [`core_of`].
    pub(crate) unsafe fn owns(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the caller's.
        ptr::eq(self.core.as_ptr(), unsafe { core_of(block, size) })
    }

    pub(crate) fn core(&self) -> &HeapCore {
        // SAFETY: (invariant 4) the core lives at least as long as the heap.
        unsafe { self.core.as_ref() }
    }

    fn with_pool(pool: Arc<SpanPool>) -> Self {
        let core = Box::new(HeapCore {
            state: SpinLock::new(HeapState {
                partial: [ptr::null(); CLASS_COUNT],
                freed_counts: [0; SUBDIVIDED_CLASS_COUNT],
                live_count: 0,
                is_orphaned: false,
            }),
            block_bytes: AtomicU64::new(0),
            carved_bytes: AtomicU64::new(0),
            external_bytes: AtomicU64::new(0),
            retired: sync::Mutex::new(Some(Vec::new())),
            retired_bytes: AtomicU64::new(0),
            pool,
        });
        let core = NonNull::from(Box::leak(core));
        // The thread that frees the last block destroys the core, of which it has only the address.
        core.as_ptr().expose_provenance();
        Self { core }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap")
            .field("used_bytes", &self.used_bytes())
            .field("resident_bytes", &self.resident_bytes())
            .finish()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let retired = self.core().retired.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(retired);
        let is_last = {
            let mut state = self.core().state.lock();
            state.is_orphaned = true;
            state.live_count == 0
        };
        if is_last {
            // SAFETY: (invariant 4) the heap is dropped and no block is left, so the core is unreachable.
            unsafe { HeapCore::destroy(self.core.as_ptr()) };
        }
    }
}

impl HeapCore {
    /// Counts bytes of a buffer that an entry owns outside the heap; a negative `delta` subtracts.
    pub(crate) fn note_external(&self, delta: isize) {
        self.external_bytes.fetch_add(delta as u64, Ordering::Relaxed);
    }

    /// Takes a span from the pool and initialises its header for `class`.
    #[cold]
    fn new_span(&self, class: usize) -> NonNull<Span> {
        let span = self.pool.take();
        // SAFETY: the span was just taken, so this thread owns its header.
        unsafe { span.write(Span::new(self, class)) };
        span
    }

    /// # Safety
    /// 1. No other reference to the core exists or can be obtained.
    #[cold]
    unsafe fn destroy(core: *const Self) {
        let core = ptr::with_exposed_provenance_mut::<Self>(core.addr());
        // SAFETY: created by `Box::leak`, and (1) this is the last use.
        let core = unsafe { Box::from_raw(core) };
        core.give_empty_spans();
    }

    fn give_empty_spans(&self) {
        for class in 0..CLASS_COUNT {
            let empty = self.state.lock().take_empty_spans(self, class);
            for span in empty {
                // SAFETY: the span was taken from this pool, has no live block, and is in no list any more.
                unsafe { self.pool.give(span) };
            }
        }
    }
}

impl HeapState {
    #[inline]
    fn has_room(&self, class: usize) -> bool {
        !self.partial[class].is_null()
    }

    /// Allocates a block of a class that has free blocks.
    #[inline]
    fn pop(&mut self, core: &HeapCore, class: usize) -> NonNull<u8> {
        // SAFETY: spans in the list are taken by this heap.
        let span = unsafe { self.partial[class].as_ref() }.expect("callers check that there is room");
        // SAFETY: (1) the span is in the list (invariant 1), and (2) `self` is guarded by the lock.
        let (block, was_freed) = unsafe { span.pop() };
        if was_freed {
            self.note_freed(class, -1);
        } else if !span.is_subdivided() {
            add_unshared(&core.carved_bytes, class_size(class) as u64);
        }
        if !span.has_room() {
            // SAFETY: (1) the span was the first of the list.
            unsafe { self.unlink(class, span) };
        }
        block
    }

    /// Frees a block. Returns a span that thereby became empty and is in no list any more.
    ///
    /// # Safety
    /// 1. The block is of this class and of this heap, and is not used any more.
    #[inline]
    unsafe fn push(&mut self, core: &HeapCore, class: usize, block: NonNull<u8>) -> Option<NonNull<Span>> {
        // SAFETY: (1) its span is taken while it is not empty.
        let span = unsafe { Span::of(block, class) };
        debug_assert_eq!(span.class(), class, "a block is freed with the size it was allocated with");
        if !span.has_room() {
            // SAFETY: (1) without free blocks it is in no list (invariant 1).
            unsafe { self.link(class, span) };
        }
        // SAFETY: (1)
        unsafe { span.push(block) };
        self.note_freed(class, 1);
        // The only span with free blocks is kept, for threads that allocate and free in turn.
        if !span.is_empty() || (!span.is_subdivided() && self.is_alone(span)) {
            return None;
        }
        if span.is_subdivided() {
            // SAFETY: (1) it has a free block, so it is in the list (invariant 1).
            unsafe { self.unlink(class, span) };
            let block = span.pointer().cast::<u8>();
            // SAFETY: (1) it came from `pop` in `subdivide`.
            let outer_class = unsafe { Span::outer_of(block) }.class();
            // SAFETY: (1) and none of its own blocks is live.
            return unsafe { self.push(core, outer_class, block) };
        }
        // SAFETY: (1) it has a free block, so it is in the list (invariant 1), and is empty, as tested
        // above.
        Some(unsafe { self.detach(core, class, span) })
    }

    fn take_empty_spans(&mut self, core: &HeapCore, class: usize) -> Vec<NonNull<Span>> {
        let mut empty = Vec::new();
        let mut next = self.partial[class];
        // SAFETY: spans in the list are taken by this heap.
        while let Some(span) = unsafe { next.as_ref() } {
            next = span.next.get();
            if span.is_empty() {
                // SAFETY: (1) both conditions were just tested.
                empty.push(unsafe { self.detach(core, class, span) });
            }
        }
        empty
    }

    /// Removes an empty span of 32 KiB from its list, to be returned to the pool once the lock is released.
    ///
    /// # Safety
    /// 1. The span is in the list of this class, and empty.
    unsafe fn detach(&mut self, core: &HeapCore, class: usize, span: &Span) -> NonNull<Span> {
        // SAFETY: (1) is the callee's condition, too.
        unsafe { self.unlink(class, span) };
        let carved_count = span.carved_count();
        self.note_freed(class, -(carved_count as i32));
        add_unshared(&core.carved_bytes, ((carved_count * class_size(class)) as u64).wrapping_neg());
        span.pointer()
    }

    #[inline]
    fn is_alone(&self, span: &Span) -> bool {
        span.next.get().is_null() && span.previous.get().is_null()
    }

    /// Adds blocks to a class by carving a freed block of a larger one, if there is any.
    #[cold]
    fn subdivide(&mut self, core: &HeapCore, class: usize) -> bool {
        if class >= INNER_CLASS_END {
            return false;
        }
        let freed = self.freed_counts.iter().enumerate();
        let (index, count) =
            freed.max_by_key(|&(_, count)| count).expect("some classes' blocks may be subdivided");
        let outer_class = SUBDIVIDED_CLASS_START + index;
        if *count == 0 || !self.bring_freed_forward(outer_class) {
            return false;
        }
        let block = self.pop(core, outer_class).cast::<Span>();
        // SAFETY: the block was just taken, is aligned to a line, and larger than a header.
        unsafe { block.write(Span::new_subdivided(core, class, outer_class)) };
        // SAFETY: just written; it stays until the block is returned to its class.
        let span = unsafe { block.as_ref() };
        // SAFETY: (1) it was created for this class, and is removed from the list before the block is
        // returned.
        unsafe { self.link(class, span) };
        true
    }

    /// Moves a span with a freed block to the front of its class's list. Tests only a few spans.
    fn bring_freed_forward(&mut self, class: usize) -> bool {
        let mut next = self.partial[class];
        for _ in 0..4 {
            // SAFETY: spans in the list are taken by this heap.
            let Some(span) = (unsafe { next.as_ref() }) else { return false };
            if span.has_freed_block() {
                // SAFETY: (1) it was found in the list.
                unsafe { self.unlink(class, span) };
                // SAFETY: (1) it was just removed.
                unsafe { self.link(class, span) };
                return true;
            }
            next = span.next.get();
        }
        false
    }

    #[inline]
    fn note_freed(&mut self, class: usize, delta: i32) {
        if class >= SUBDIVIDED_CLASS_START {
            let count = &mut self.freed_counts[class - SUBDIVIDED_CLASS_START];
            *count = count.wrapping_add_signed(delta);
        }
    }

    /// # Safety
    /// 1. The span is of this class, taken by this heap, and in no list; it is removed from this one before
    ///    it is returned.
    unsafe fn link(&mut self, class: usize, span: &Span) {
        let head = self.partial[class];
        span.next.set(head);
        span.previous.set(ptr::null());
        // SAFETY: spans in the list are taken by this heap.
        if let Some(head) = unsafe { head.as_ref() } {
            head.previous.set(span);
        }
        self.partial[class] = span;
    }

    /// # Safety
    /// 1. The span is in the list of this class.
    unsafe fn unlink(&mut self, class: usize, span: &Span) {
        let (next, previous) = (span.next.get(), span.previous.get());
        // SAFETY: spans in the list are taken by this heap.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
        // SAFETY: likewise.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.partial[class] = next,
        }
        span.next.set(ptr::null());
        span.previous.set(ptr::null());
    }
}

/// Frees a block, on any thread.
///
/// # Safety
/// 1. The block came from [`Heap::allocate`] with a size of the same class (the same size if it is large).
/// 2. It is not used any more.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, size: usize) {
    if is_large(size) {
        // SAFETY: (1, 2) the caller's.
        unsafe { large::free(block, size) };
        return;
    }
    // SAFETY: (1) the block is live until `push`, and so is the core.
    let core = unsafe { core_of(block, size) };
    let mut state = core.state.lock();
    let class = class_of(size);
    state.live_count -= 1;
    add_unshared(&core.block_bytes, (class_size(class) as u64).wrapping_neg());
    // SAFETY: (1, 2)
    let empty = unsafe { state.push(core, class, block) };
    let is_last = state.is_orphaned && state.live_count == 0;
    if empty.is_none() && !is_last {
        return;
    }
    // Once the lock is released another thread may destroy the core, unless this one has to.
    let pool = Arc::clone(&core.pool);
    drop(state);
    if let Some(span) = empty {
        // SAFETY: no block of the span is live, and it is in no list any more.
        unsafe { pool.give(span) };
    }
    if is_last {
        // SAFETY: (1) the heap is dropped and this was the last block.
        unsafe { HeapCore::destroy(core) };
    }
}

/// The heap that a block came from.
///
/// # Safety
/// 1. The block is live, and of this size.
/// 2. The heap is not used after the block is freed.
#[inline]
pub(crate) unsafe fn heap_of(block: NonNull<u8>, size: usize) -> ManuallyDrop<Heap> {
    // SAFETY: (1) is the callee's condition, too.
    ManuallyDrop::new(Heap { core: NonNull::from(unsafe { core_of(block, size) }) })
}

/// The core of the heap that a block came from.
///
/// # Safety
/// 1. The block is live, and of this size.
#[inline]
pub(crate) unsafe fn core_of<'a>(block: NonNull<u8>, size: usize) -> &'a HeapCore {
    let core = if is_large(size) {
        let owner = block.as_ptr().wrapping_sub(LINE_SIZE).cast::<*const HeapCore>();
        // SAFETY: (1) a large block has its owner's address a line before it.
        unsafe { owner.read() }
    } else {
        // SAFETY: (1) a live block's span is taken.
        unsafe { Span::outer_of(block) }.heap.get()
    };
    // SAFETY: (1) a core outlives its blocks.
    unsafe { &*core }
}

/// Adds to a counter that is written under a lock only.
#[inline]
fn add_unshared(counter: &AtomicU64, delta: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(delta), Ordering::Relaxed);
}

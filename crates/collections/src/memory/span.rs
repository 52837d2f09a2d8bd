//! A span: memory carved into blocks of one size class, with an intrusive list of freed blocks.
//!
//! ```text
//! header in the chunk's first span         the span is 32 KiB of its own, blocks start at its base
//! header inside a block of a large class   the span is that block, subdivided: its blocks come after the header
//! ```
//! Subdividing: when tables grow, their old segments leave holes in spans that never become empty, since some
//! tables keep their size. So a freed block of a large class is carved again, for a small class, instead of
//! taking another span from the pool. Otherwise tables that outgrow a size would leave up to 5 bytes a key
//! unused.
//!
//! All fields but `heap` are accessed under the lock of the heap that has taken the span.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::memory::heap::HeapCore;
use crate::memory::size_class::{LINE_SIZE, class_size};
use crate::memory::span_pool::{CHUNK_SIZE, HEADER_SIZE, SPAN_SIZE};

/// Header of a span.
#[repr(C)]
pub(crate) struct Span {
    /// The heap that took the span; constant while a block of the span is live, so that it may be read
    /// without the lock.
    pub(crate) heap: Cell<*const HeapCore>,
    /// Neighbours in the heap's list of spans of this class with room.
    pub(crate) next: Cell<*const Span>,
    pub(crate) previous: Cell<*const Span>,
    /// The first freed block: distance from the base in words, plus one; 0 if there is none. Each freed block
    /// holds the next one's in its first bytes.
    free: Cell<u16>,
    /// Blocks at the span's start that were never allocated; their memory is untouched. Carved from the last.
    uncarved_count: Cell<u16>,
    /// Live blocks.
    used_count: Cell<u16>,
    class: Cell<u8>,
}

const _: () = assert!(HEADER_SIZE == 32);
const _: () = assert!(SPAN_SIZE / 8 < u16::MAX as usize);

impl Span {
    /// The header of a span of 32 KiB.
    pub(crate) fn new(heap: *const HeapCore, class: usize) -> Self {
        Self::with_size(heap, class, SPAN_SIZE)
    }

    /// The header of a span inside a subdivided block of `outer_class`.
    pub(crate) fn new_subdivided(heap: *const HeapCore, class: usize, outer_class: usize) -> Self {
        Self::with_size(heap, class, class_size(outer_class) - subdivided_offset(class))
    }

    fn with_size(heap: *const HeapCore, class: usize, size: usize) -> Self {
        Self {
            heap: Cell::new(heap),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            free: Cell::new(0),
            uncarved_count: Cell::new((size / class_size(class)) as u16),
            used_count: Cell::new(0),
            class: Cell::new(class as u8),
        }
    }

    /// The span of 32 KiB that contains a block; for a block in a subdivided block, the span of the latter.
    ///
    /// # Safety
    /// 1. `block` came from a span that is still taken.
    #[inline]
    pub(crate) unsafe fn outer_of<'a>(block: NonNull<u8>) -> &'a Self {
        let offset = block.addr().get() % CHUNK_SIZE;
        let address = block.addr().get() - offset + offset / SPAN_SIZE * HEADER_SIZE;
        // SAFETY: (1) headers of taken spans are at their chunk's start, and were written when they were taken.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }

    /// The span of a block of this class.
    ///
    /// # Safety
    /// 1. `block` is of this class and came from a span that is still taken.
    #[inline]
    pub(crate) unsafe fn of<'a>(block: NonNull<u8>, class: usize) -> &'a Self {
        // SAFETY: (1)
        let outer = unsafe { Self::outer_of(block) };
        if outer.class() == class {
            return outer;
        }
        let outer_size = class_size(outer.class());
        let offset = block.addr().get() % SPAN_SIZE;
        let address = block.addr().get() - offset % outer_size;
        // SAFETY: (1) a block whose class differs from the outer span's lies in a subdivided block, which begins
        // with its header.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }

    #[inline]
    pub(crate) fn class(&self) -> usize {
        usize::from(self.class.get())
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.free.get() != 0 || self.uncarved_count.get() != 0
    }

    /// Whether the span has a free block whose memory was touched before.
    pub(crate) fn has_freed_block(&self) -> bool {
        self.free.get() != 0
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used_count.get() == 0
    }

    /// Whether the span is a subdivided block.
    #[inline]
    pub(crate) fn is_subdivided(&self) -> bool {
        self.address() % CHUNK_SIZE >= SPAN_SIZE
    }

    /// Whether at most three quarters of the blocks are live.
    pub(crate) fn is_sparse(&self) -> bool {
        let size = if self.is_subdivided() {
            // SAFETY: (1) a subdivided block came from the span that contains it.
            let outer = unsafe { Self::outer_of(self.pointer().cast()) };
            class_size(outer.class()) - subdivided_offset(self.class())
        } else {
            SPAN_SIZE
        };
        4 * usize::from(self.used_count.get()) <= 3 * (size / class_size(self.class()))
    }

    /// Blocks that were allocated at least once.
    pub(crate) fn carved_count(&self) -> usize {
        debug_assert!(!self.is_subdivided());
        SPAN_SIZE / class_size(self.class()) - usize::from(self.uncarved_count.get())
    }

    /// Takes a block. The flag says whether it was freed before; otherwise it is newly carved.
    ///
    /// # Safety
    /// 1. There is room.
    /// 2. The span is taken, and the caller has the lock of the heap that took it.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> (NonNull<u8>, bool) {
        debug_assert!(self.has_room());
        self.used_count.set(self.used_count.get() + 1);
        let free = self.free.get();
        if free == 0 {
            let index = self.uncarved_count.get() - 1;
            self.uncarved_count.set(index);
            return (self.at(usize::from(index) * class_size(self.class())), false);
        }
        let block = self.at((usize::from(free) - 1) * 8);
        // SAFETY: (1, 2) a freed block holds the next one's place in its first bytes, and is aligned to 8.
        let next = unsafe { block.cast::<u16>().read() };
        self.free.set(next);
        if next != 0 {
            crate::memory::prefetch::line(self.base() + (usize::from(next) - 1) * 8);
        }
        (block, true)
    }

    /// Frees a block.
    ///
    /// # Safety
    /// 1. The block came from this span's [`Self::pop`], and is no longer used.
    #[inline]
    pub(crate) unsafe fn push(&self, block: NonNull<u8>) {
        // SAFETY: (1) the block is at least 16 bytes, aligned to 8, and unused.
        unsafe { block.cast::<u16>().write(self.free.get()) };
        self.free.set(((block.addr().get() - self.base()) / 8) as u16 + 1);
        self.used_count.set(self.used_count.get() - 1);
    }

    /// The header's address with provenance for all of the memory around it, while that is allocated.
    pub(crate) fn pointer(&self) -> NonNull<Span> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.address())).expect("a reference is not null")
    }

    /// The address of the first block.
    #[inline]
    fn base(&self) -> usize {
        let address = self.address();
        let offset = address % CHUNK_SIZE;
        if offset >= SPAN_SIZE {
            address + subdivided_offset(self.class())
        } else {
            address - offset + offset / HEADER_SIZE * SPAN_SIZE
        }
    }

    #[inline]
    fn at(&self, offset: usize) -> NonNull<u8> {
        let block = ptr::with_exposed_provenance_mut(self.base() + offset);
        NonNull::new(block).expect("an address inside a chunk is not null")
    }

    #[inline]
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// The offset of the first block in a subdivided block: after the header, aligned to a line if the block size is a
/// multiple of a line.
const fn subdivided_offset(class: usize) -> usize {
    if class_size(class).is_multiple_of(LINE_SIZE) { LINE_SIZE } else { HEADER_SIZE }
}

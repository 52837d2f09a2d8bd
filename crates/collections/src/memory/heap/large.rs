//! Blocks that are too large for spans: each is a separate allocation, with the address of its heap's core
//! before it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use sync::atomic::Ordering;

use super::{Heap, HeapCore, core_of};
use crate::memory::ADDRESS_BITS;
use crate::memory::size_class::LINE_SIZE;

impl Heap {
    #[cold]
    pub(super) fn allocate_large(&self, size: usize) -> NonNull<u8> {
        let layout = large_layout(size);
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let end = memory.as_ptr().expose_provenance() + layout.size();
        assert!(end <= 1 << ADDRESS_BITS, "an address does not fit a bucket's word");
        // SAFETY: the layout leaves a line before the block for the owner's address.
        unsafe { memory.cast::<*const HeapCore>().write(self.core.as_ptr()) };
        self.core().state.lock().live_count += 1;
        self.core().external_bytes.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: the address is inside the allocation, whose size is more than a line.
        unsafe { memory.add(LINE_SIZE) }
    }
}

/// # Safety
/// As for [`super::free`], and the block is large.
#[cold]
pub(super) unsafe fn free(block: NonNull<u8>, size: usize) {
    // SAFETY: the block is live.
    let core = unsafe { core_of(block, size) };
    core.external_bytes.fetch_sub(size as u64, Ordering::Relaxed);
    let is_last = {
        let mut state = core.state.lock();
        state.live_count -= 1;
        state.is_orphaned && state.live_count == 0
    };
    let memory = block.as_ptr().wrapping_sub(LINE_SIZE);
    // SAFETY: allocated with this layout, a line before the block.
    unsafe { dealloc(memory, large_layout(size)) };
    if is_last {
        // SAFETY: (1) the heap is dropped and this was the last block.
        unsafe { HeapCore::destroy(core) };
    }
}

fn large_layout(size: usize) -> Layout {
    Layout::from_size_align(size + LINE_SIZE, LINE_SIZE).expect("sizes of values are far below isize::MAX")
}

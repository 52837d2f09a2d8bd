//! A global allocator that counts: how many bytes are allocated, without a counter that all threads fight for.
//!
//! Owns one counter a stripe; a thread always uses the same stripe. A byte may be counted in on one stripe and out on
//! another, so only the sum means anything. Counts what was asked for, not what the inner allocator rounds it up to.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use crate::Padded;

const STRIPE_COUNT: usize = 64;

static STRIPES: [Padded<AtomicIsize>; STRIPE_COUNT] = [const { Padded(AtomicIsize::new(0)) }; STRIPE_COUNT];
static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts what goes through the allocator `A`.
pub struct CountingAllocator<A>(pub A);

/// Bytes allocated now through any [`CountingAllocator`] of the process.
#[must_use]
pub fn allocated_bytes() -> usize {
    // A thread that is ending uses the first one.
    let used_count = NEXT_STRIPE.load(Relaxed).clamp(1, STRIPE_COUNT);
    let stripes = STRIPES[..used_count].iter();
    stripes.map(|stripe| stripe.0.load(Relaxed)).fold(0isize, isize::wrapping_add).max(0) as usize
}

/// Bytes that the calling thread has allocated and not freed, those of threads on the same stripe included. What another
/// thread allocated and this one freed is missing: only differences mean anything. 0 in a simulation, whose threads must not
/// depend on what else the process does.
#[inline]
#[must_use]
pub fn allocated_here() -> isize {
    if crate::simulation::is_simulated() {
        return 0;
    }
    let stripe = STRIPE.try_with(Cell::get).unwrap_or(0);
    STRIPES.get(stripe).map_or(0, |stripe| stripe.0.load(Relaxed))
}

#[inline]
fn count(change: isize) {
    // A thread that is ending may free after its locals are gone: any stripe will do.
    let stripe = STRIPE.try_with(Cell::get).unwrap_or(0);
    let stripe = if stripe == usize::MAX { choose_stripe() } else { stripe };
    STRIPES[stripe].0.fetch_add(change, Relaxed);
}

#[cold]
fn choose_stripe() -> usize {
    let stripe = NEXT_STRIPE.fetch_add(1, Relaxed) % STRIPE_COUNT;
    let _ = STRIPE.try_with(|mine| mine.set(stripe));
    stripe
}

// SAFETY: (1) every call is passed on unchanged to `A`, which keeps the contract; counting neither allocates nor
// unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: (1) the caller's promises are `A`'s preconditions.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: (1) the caller's promises are `A`'s preconditions.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: (1) the caller's promises are `A`'s preconditions.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: (1) the caller's promises are `A`'s preconditions.
        unsafe { self.0.realloc(pointer, layout, new_size) }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn counts_in_and_out_across_threads() {
        let allocator = CountingAllocator(System);
        let layout = Layout::from_size_align(1 << 20, 8).expect("a valid layout");
        let before = allocated_bytes();
        // SAFETY: (1) the layout has a size.
        let address = unsafe { allocator.alloc(layout) }.expose_provenance();
        assert_eq!(allocated_bytes() - before, 1 << 20);
        std::thread::spawn(move || {
            let pointer = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: (1) allocated above by the same allocator with the same layout.
            unsafe { CountingAllocator(System).dealloc(pointer, layout) };
        })
        .join()
        .expect("the thread ends well");
        assert_eq!(allocated_bytes(), before);
    }
}

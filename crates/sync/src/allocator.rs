//! A counting global allocator: the number of allocated bytes, without a counter that all threads contend for.
//!
//! Owns one counter per stripe; a thread always uses the same stripe. A byte may be allocated on one stripe and
//! freed on another, so only the sum is meaningful. Counts requested sizes, not the inner allocator's rounded
//! sizes.

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

/// An allocator that counts the bytes allocated through `A`.
pub struct CountingAllocator<A>(pub A);

/// Bytes currently allocated through any [`CountingAllocator`] of the process.
#[must_use]
pub fn allocated_bytes() -> usize {
    // A thread that is ending uses the first stripe.
    let used_count = NEXT_STRIPE.load(Relaxed).clamp(1, STRIPE_COUNT);
    let stripes = STRIPES[..used_count].iter();
    stripes.map(|stripe| stripe.0.load(Relaxed)).fold(0isize, isize::wrapping_add).max(0) as usize
}

/// Bytes that the calling thread, and threads on its stripe, have allocated and not freed. Memory allocated by
/// one thread and freed by another is subtracted from the latter, so only differences are meaningful. Returns 0
/// in a simulation, whose threads must not depend on the rest of the process.
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
    // A thread that is ending may free memory after its locals are destroyed: any stripe is correct.
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

// SAFETY: (1) every call is forwarded unchanged to `A`, which keeps the contract; counting neither allocates
// nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: (1) the caller upholds `A`'s preconditions.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: (1) the caller upholds `A`'s preconditions.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: (1) the caller upholds `A`'s preconditions.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: (1) the caller upholds `A`'s preconditions.
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
        // SAFETY: (1) the layout's size is not zero.
        let address = unsafe { allocator.alloc(layout) }.expose_provenance();
        assert_eq!(allocated_bytes() - before, 1 << 20);
        std::thread::spawn(move || {
            let pointer = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: (1) allocated above by the same allocator with the same layout.
            unsafe { CountingAllocator(System).dealloc(pointer, layout) };
        })
        .join()
        .expect("the thread does not panic");
        assert_eq!(allocated_bytes(), before);
    }
}

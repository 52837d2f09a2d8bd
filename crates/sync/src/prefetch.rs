//! Prefetching for writing.

/// Prefetches the cache line at an address, in exclusive state. Any address is allowed: a wrong one costs time and never
/// causes a fault.
#[inline(always)]
pub fn prefetch_for_writing(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and faults nowhere; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = address;
}

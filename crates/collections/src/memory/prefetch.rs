//! Prefetches of cache lines, on processors with an instruction for them.

use crate::memory::size_class::LINE_SIZE;

/// Lines prefetched at once: a processor supports about a dozen outstanding loads.
const LINE_COUNT_MAX: usize = 6;

/// Prefetches the lines of these bytes, at most [`LINE_COUNT_MAX`].
#[inline(always)]
pub(crate) fn bytes(bytes: &[u8]) {
    let start = bytes.as_ptr().addr();
    let size = bytes.len().min(LINE_COUNT_MAX * LINE_SIZE);
    for at in (0..size).step_by(LINE_SIZE) {
        line(start + at);
    }
    if size > 0 {
        line(start + size - 1);
    }
}

/// Prefetches the line at `address`. Any address is allowed: a wrong one costs time and never causes a fault.
#[inline(always)]
pub(crate) fn line(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that a program can observe, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: a prefetch has no effect that a program can observe, for any address.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

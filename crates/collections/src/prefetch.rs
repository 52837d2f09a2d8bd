//! Asking the processor to load a cache line, where it can be asked.

use crate::size_class::LINE_SIZE;

/// Lines that are asked for at once: a processor has about a dozen requests under way.
const LINE_COUNT_MAX: usize = 6;

/// Starts loading the lines that these bytes lie in, but no more than [`LINE_COUNT_MAX`].
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

/// Starts loading the line at `address`. Any address is allowed: a wrong one costs time, never a fault.
#[inline(always)]
pub(crate) fn line(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that a program can observe, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: a prefetch reads nothing that a program can observe, whatever the address.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

//! Asking the processor to load a cache line, where it can be asked.

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

//! Pages of memory: huge ones, and returning them to the kernel.

use std::io;
use std::mem::MaybeUninit;

use crate::check;

/// Makes memory resident in huge pages, if available, which reduces TLB misses. Size and start must be
/// multiples of 2 MiB. Only the caller waits while the kernel zeroes the pages. Afterwards the kernel does not
/// create huge pages there by itself, which would delay users of the memory.
pub fn populate_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    const HUGE_PAGE_SIZE: usize = 2 << 20;
    let (start, size) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the range is this slice's, and the advice changes no contents.
    let _ = unsafe { libc::madvise(start, size, libc::MADV_HUGEPAGE) };
    // Touches each page once. A call that fills the range would hold the process-wide lock.
    for page in memory.chunks_mut(HUGE_PAGE_SIZE) {
        page[0].write(0);
        std::hint::black_box(&page[0]);
    }
    // SAFETY: as above.
    let _ = unsafe { libc::madvise(start, size, libc::MADV_NOHUGEPAGE) };
}

/// Returns the pages entirely inside this memory to the kernel; they read as zeros when next touched.
pub fn discard_pages(memory: &mut [MaybeUninit<u8>]) {
    let page_size = page_size() as usize;
    // The kernel would round the end up, into memory of other owners.
    let before = memory.as_ptr().addr().next_multiple_of(page_size) - memory.as_ptr().addr();
    let size = memory.len().saturating_sub(before) / page_size * page_size;
    let Some(pages) = memory.get_mut(before..before + size).filter(|pages| !pages.is_empty()) else { return };
    // SAFETY: the pages belong to this slice, which holds no values: its bytes may be uninitialised, and so may
    // change.
    let _ = unsafe { libc::madvise(pages.as_mut_ptr().cast(), size, libc::MADV_DONTNEED) };
}

/// The number of `mi_option_purge_delay` in mimalloc 3.
const PURGE_DELAY_OPTION: libmimalloc_sys::mi_option_t = 15;
/// The delay in milliseconds: years, so that only [`purge_free_memory`] returns memory.
const PURGE_DELAY: std::ffi::c_long = 1 << 40;

/// Leaves the return of the allocator's free memory to [`purge_free_memory`]: otherwise the next thread that
/// allocates a second later returns the memory freed by all threads, which takes milliseconds. No effect unless
/// `mimalloc` is the allocator.
pub fn defer_purges() {
    // SAFETY: may be called at any time, by any thread.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY) }
}

/// Makes the calling thread hand its free memory to the allocator, for all threads to use and
/// [`purge_free_memory`] to return. The time grows with the memory in use. No effect unless `mimalloc` is the
/// allocator.
pub fn release_free_memory() {
    // SAFETY: may be called at any time, by any thread.
    unsafe { libmimalloc_sys::mi_collect(false) }
}

/// Returns the memory that the allocator keeps free to the kernel, whichever thread freed it. Takes
/// milliseconds if it is much. No effect unless `mimalloc` is the allocator.
pub fn purge_free_memory() {
    // SAFETY: may be called at any time, by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Disables transparent huge pages for this process.
pub fn disable_huge_pages() -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, none, none, none) }).map(drop)
}

/// Disables transparent huge pages for this process, except where requested ([`populate_huge_pages`]). Fails on
/// kernels before 6.18.
pub fn disable_unrequested_huge_pages() -> io::Result<()> {
    const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
    let none: libc::c_ulong = 0;
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, EXCEPT_ADVISED, none, none) })
        .map(drop)
}

/// Bytes in a page of memory.
#[must_use]
pub fn page_size() -> u64 {
    // SAFETY: takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::{discard_pages, page_size};

    #[test]
    fn only_whole_pages_are_discarded() {
        let page_size = page_size() as usize;
        let mut memory = vec![MaybeUninit::new(7_u8); 4 * page_size];
        let first = memory.as_ptr().addr().next_multiple_of(page_size) - memory.as_ptr().addr();
        discard_pages(&mut memory[first..first + page_size + 100]);
        // SAFETY: all of it was initialised, and the kernel writes zeros.
        let byte = |place: usize| unsafe { memory[place].assume_init() };
        assert_eq!([first, first + page_size - 1].map(byte), [0, 0]);
        assert_eq!([first + page_size, first + page_size + 99, first + page_size + 100].map(byte), [7, 7, 7]);
        discard_pages(&mut memory[first + 1..first + page_size]);
        discard_pages(&mut []);
    }
}

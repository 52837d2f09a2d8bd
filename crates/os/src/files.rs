//! Open files: advice about the pages of the system's cache.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Drops the cached pages of a range of a file. Pages that are not synced, and the first and last one if the range has only a
/// part of it, stay. An error is ignored: the pages only stay longer.
pub fn drop_cached(file: &File, range: Range<u64>) {
    let as_offset = |offset| libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    let size = range.end.saturating_sub(range.start);
    // A size of 0 is the rest of the file.
    if size > 0 {
        let (from, size) = (as_offset(range.start), as_offset(size));
        // SAFETY: the descriptor is open; the call accesses no memory of this process.
        let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), from, size, libc::POSIX_FADV_DONTNEED) };
    }
}

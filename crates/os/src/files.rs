//! Open files: the pages of the system's cache.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Drops the cached pages of a range of a file. Pages that are not synced, and the first and last one if the range has only a
/// part of it, stay. An error is ignored: the pages only stay longer.
pub fn drop_cached(file: &File, range: Range<u64>) {
    if let Some((from, size)) = offset_and_size(range) {
        // SAFETY: the descriptor is open; the call accesses no memory of this process.
        let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), from, size, libc::POSIX_FADV_DONTNEED) };
    }
}

/// Begins to write the cached pages of a range of a file to the device, without waiting for them. An error is ignored: a sync
/// reports it.
pub fn begin_writing(file: &File, range: Range<u64>) {
    if let Some((from, size)) = offset_and_size(range) {
        // SAFETY: the descriptor is open; the call accesses no memory of this process.
        let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), from, size, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

/// `None` for an empty range: a size of 0 would be the rest of the file.
fn offset_and_size(range: Range<u64>) -> Option<(libc::off_t, libc::off_t)> {
    let as_offset = |offset| libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    let size = range.end.saturating_sub(range.start);
    (size > 0).then(|| (as_offset(range.start), as_offset(size)))
}

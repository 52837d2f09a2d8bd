//! Anonymous mappings.

use std::io;
use std::ptr::NonNull;

/// Anonymous memory, page-aligned and zeroed, unmapped when dropped. Pages are allocated when first touched.
pub struct Mapping {
    start: NonNull<u8>,
    size: usize,
}

impl Mapping {
    /// Maps `size` bytes, which must not be 0.
    pub fn new(size: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, size })
    }

    /// The first byte; aligned to a page.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made by `new`, which is not used any more.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
        debug_assert_eq!(result, 0, "a whole mapping can be unmapped");
    }
}

//! Releases the cached pages of a file that is only written, so that its pages are reused for its next bytes. Otherwise each
//! write allocates new memory, and the cache displaces other files.

use super::DiskFile;

/// Bytes after which pages are released.
const RELEASE_SIZE: u64 = 1 << 20;

/// The largest size of a page that is accounted for: the next range begins with the page in which the last one ended.
const PAGE_SIZE: u64 = 64 << 10;

/// How far the pages of a file are released.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released(u64);

impl Released {
    /// Nothing of the file's first `size` bytes is released.
    pub(crate) fn from(size: u64) -> Self {
        Self(size)
    }

    /// Releases the pages up to `synced_size`, if they are worth a system call.
    pub(crate) fn advance(&mut self, file: &mut impl DiskFile, synced_size: u64) {
        if synced_size >= self.0.saturating_add(RELEASE_SIZE) {
            file.release_cached(self.0..synced_size);
            self.0 = synced_size / PAGE_SIZE * PAGE_SIZE;
        }
    }
}

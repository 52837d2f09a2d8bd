//! A file of a [`Disk`](super::Disk) as a sequence of bytes.

use std::io::{self, Read};

use super::DiskFile;

/// Reads a file from an offset on.
pub struct FileReader<F> {
    file: F,
    offset: u64,
}

impl<F: DiskFile> FileReader<F> {
    /// Reads from the file's beginning.
    #[must_use]
    pub fn new(file: F) -> Self {
        Self { file, offset: 0 }
    }

    /// Continues at an offset.
    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The file's size.
    ///
    /// # Errors
    /// Of the file system.
    pub fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    /// Bytes that the file has behind the present offset, if its size is known.
    #[must_use]
    pub fn size_left(&self) -> Option<usize> {
        usize::try_from(self.size().ok()?.saturating_sub(self.offset)).ok()
    }
}

impl<F: DiskFile> Read for FileReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read_at(self.offset, buffer)?;
        self.offset += size as u64;
        Ok(size)
    }
}

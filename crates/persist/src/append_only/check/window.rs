//! A piece of a file in memory, which moves forward.

use crate::disk::DiskFile;
use std::io;

const READ_SIZE: usize = 1 << 20;
/// Progress is reported for files of at least this size.
const LARGE_FILE_SIZE: u64 = 64 << 20;

pub(super) struct Window<'a, F> {
    file: &'a F,
    size: u64,
    /// The offset of `buffer` in the file.
    start: u64,
    buffer: Vec<u8>,
    consumed: usize,
}

impl<'a, F: DiskFile> Window<'a, F> {
    pub(super) fn open(file: &'a F) -> io::Result<Self> {
        Ok(Window { file, size: file.size()?, start: 0, buffer: Vec::new(), consumed: 0 })
    }

    /// The size of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The offset of the first byte of [`Self::bytes`].
    pub(super) fn offset(&self) -> u64 {
        self.start + self.consumed as u64
    }

    /// The bytes that are in memory and not consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.consumed..]
    }

    /// Reads until at least `size` bytes are in memory. Returns false if the file is shorter: then all of the rest is
    /// in memory.
    pub(super) fn fill(&mut self, size: u64) -> io::Result<bool> {
        self.buffer.drain(..self.consumed);
        self.start += self.consumed as u64;
        self.consumed = 0;
        // Memory grows with the bytes present, not with an announced length.
        while (self.buffer.len() as u64) < size {
            let at = self.buffer.len();
            self.buffer.resize(at + READ_SIZE, 0);
            let read = self.file.read_at(self.start + at as u64, &mut self.buffer[at..])?;
            self.buffer.truncate(at + read);
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops the bytes before `offset`, which is in memory.
    pub(super) fn consume_to(&mut self, offset: u64) {
        self.consumed = (offset - self.start) as usize;
    }

    /// The consumed tenths of a large file; 0 for a small file.
    pub(super) fn tenth(&self) -> u64 {
        if self.size < LARGE_FILE_SIZE { 0 } else { self.offset() * 10 / self.size }
    }
}

//! Where the bytes of an RDB file come from: a file, or a connection (`received.rs`).

use std::io::{self, Read};

use crate::disk::FileReader;

/// A sequence of bytes that begins as an RDB file does.
pub trait RdbSource: Read {
    /// The number of all its bytes, if it is known.
    fn total_size(&self) -> Option<u64>;

    /// The number of bytes that have not been read yet, if it is known.
    fn size_left(&self) -> Option<usize>;

    /// The first bytes, up to this number, which are read again afterwards. Called before others are read.
    ///
    /// # Errors
    /// They can't be read.
    fn head(&mut self, size: usize) -> io::Result<Vec<u8>>;

    /// Appends bytes to `buffer`: at most `wanted`, fewer if a wait for them would delay those that are there. Returns their number; 0:
    /// there are no more.
    ///
    /// # Errors
    /// They can't be read.
    fn read_stretch(&mut self, wanted: usize, buffer: &mut Vec<u8>) -> io::Result<usize>;
}

impl RdbSource for FileReader {
    fn total_size(&self) -> Option<u64> {
        Some(self.size().unwrap_or(0))
    }

    fn size_left(&self) -> Option<usize> {
        FileReader::size_left(self)
    }

    fn head(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.take(size as u64).read_to_end(&mut head)?;
        self.seek(0);
        Ok(head)
    }

    fn read_stretch(&mut self, wanted: usize, buffer: &mut Vec<u8>) -> io::Result<usize> {
        buffer.reserve_exact(wanted);
        self.take(wanted as u64).read_to_end(buffer)
    }
}

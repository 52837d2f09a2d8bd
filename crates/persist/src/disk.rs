//! The file system operations that this crate needs. The rest of the crate is logic over these two traits.
//!
//! Names and durability are as on Linux: a synced file keeps its contents, a synced directory keeps its names.
//! Unsynced changes may survive a crash in part and in any order.

pub mod crashing;
mod lock;
mod reader;
pub(crate) mod released;
pub mod system;

use std::io;
use std::ops::Range;
use std::path::Path;

pub use lock::DirectoryLock;
pub use reader::FileReader;

/// A file system.
pub trait Disk {
    /// An open file.
    type File: DiskFile;

    /// Opens a file for reading and appending.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens a file for appending; an error if it can't be written.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn open_to_append(&self, path: &Path) -> io::Result<Self::File> {
        self.open(path)
    }

    /// Locks the file at `path`, which is created where necessary, against other processes. `None`: this file system has
    /// no locks.
    ///
    /// # Errors
    /// `WouldBlock`: another process has it; the text names that. `NotFound`: there is no such directory.
    fn lock(&self, _path: &Path) -> io::Result<Option<DirectoryLock>> {
        Ok(None)
    }

    /// Creates an empty file, or empties an existing one, and opens it.
    ///
    /// # Errors
    /// Of the file system.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Renames a file, and replaces a file of that name. Atomic.
    ///
    /// # Errors
    /// Of the file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory, unless it exists.
    ///
    /// # Errors
    /// Of the file system.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// Of the file system.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory.
    fn list(&self, path: &Path) -> io::Result<Vec<Vec<u8>>>;
}

/// An open file.
pub trait DiskFile {
    /// Writes at the end. After an error, any part of `bytes` may have been written.
    ///
    /// # Errors
    /// `StorageFull` and others.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the contents durable. After an error it is unknown which bytes are durable, and a later success
    /// does not cover the bytes written before the error.
    ///
    /// # Errors
    /// Of the file system.
    fn sync(&mut self) -> io::Result<()>;

    /// The system may begin to write this range to the device, so that the next [`sync`](Self::sync) is short.
    fn begin_writing(&mut self, _: Range<u64>) {}

    /// The bytes of this range, which are synced, will not be read soon: memory that caches them can be freed.
    fn release_cached(&mut self, _: Range<u64>) {}

    /// Cuts the file at `size`.
    ///
    /// # Errors
    /// Of the file system.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// The file's size.
    ///
    /// # Errors
    /// Of the file system.
    fn size(&self) -> io::Result<u64>;

    /// Reads at most `buffer.len()` bytes from `offset` on, and returns their number: 0 only at the end.
    ///
    /// # Errors
    /// Of the file system.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Reads a whole file, which is known to be small.
pub(crate) fn read_small(file: &impl DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match file.read_at(bytes.len() as u64, &mut buffer)? {
            0 => return Ok(bytes),
            size => bytes.extend(&buffer[..size]),
        }
    }
}

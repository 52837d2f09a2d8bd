//! A snapshot's file: written under a temporary name, then renamed, so that its name never refers to a partial file.
//!
//! | from | to | by |
//! |---|---|---|
//! | - | writing | [`SnapshotFile::create`] |
//! | writing | complete | [`SnapshotFile::finish`]: end mark, checksum, sync |
//! | complete | published | [`SnapshotFile::publish`]: rename, sync of the directory |
//! | writing, complete | - | drop: the temporary file is removed |
//!
//! After an error of any step the name refers to the former file. If only the sync of the directory failed, it refers to
//! the new file, and a crash may restore the former one.

use std::io;
use std::path::{Path, PathBuf};

use rdb::Checksum;

use crate::disk::released::Released;
use crate::disk::{Disk, DiskFile};

/// Bytes after which a file is synced while it is written, so that the last sync is short.
const SYNC_SIZE: u64 = 4 << 20;

/// The number of a snapshot, with which it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId(pub u64);

/// Another snapshot is being taken; the request was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Whether it ends with a checksum (`rdbchecksum`).
    pub has_checksum: bool,
    /// Whether it is synced while it is written (`rdb-save-incremental-fsync`).
    pub syncs_early: bool,
}

/// See the module documentation.
#[derive(Debug)]
pub struct SnapshotFile<D: Disk> {
    disk: D,
    /// `None` when it was renamed, or left to the caller.
    temporary: Option<PathBuf>,
    file: D::File,
    checksum: Option<Checksum>,
    syncs_early: bool,
    size: u64,
    synced_size: u64,
    released: Released,
}

impl<D: Disk> SnapshotFile<D> {
    /// Creates the file under a temporary name, and empties it if it exists.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(disk: D, temporary: PathBuf, options: FileOptions) -> io::Result<Self> {
        let file = disk.create(&temporary)?;
        Ok(Self {
            disk,
            temporary: Some(temporary),
            file,
            checksum: options.has_checksum.then(Checksum::new),
            syncs_early: options.syncs_early,
            size: 0,
            synced_size: 0,
            released: Released::default(),
        })
    }

    /// Bytes that were written.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes at the end.
    ///
    /// # Errors
    /// Of the file system; then the file must not be used any more.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.file.append(bytes)?;
        self.size += bytes.len() as u64;
        if self.syncs_early && self.size - self.synced_size >= SYNC_SIZE {
            self.file.sync()?;
            self.synced_size = self.size;
            self.released.advance(&mut self.file, self.synced_size);
        }
        Ok(())
    }

    /// Writes the end mark and the checksum, and makes the contents durable.
    ///
    /// # Errors
    /// Of the file system.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut end = Vec::new();
        rdb::write_end(&mut end);
        self.append(&end)?;
        let checksum = self.checksum.take().map_or(0, |checksum| checksum.value());
        self.append(&checksum.to_le_bytes())?;
        self.file.sync()
    }

    /// Gives the complete file its name, and replaces a file of that name.
    ///
    /// # Errors
    /// Of the file system.
    pub fn publish(mut self, path: &Path) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            self.disk.rename(temporary, path)?;
            self.temporary = None;
        }
        self.disk.sync_directory(path.parent().unwrap_or(Path::new("")))
    }

    /// Leaves the complete file to the caller, under its temporary name.
    pub fn leave(mut self) {
        self.temporary = None;
    }
}

impl<D: Disk> Drop for SnapshotFile<D> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // An error is ignored: the next file of this name replaces it.
            let _ = self.disk.remove(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::crashing::{CrashingDisk, Failing};
    use crate::disk::read_small;

    const OPTIONS: FileOptions = FileOptions { has_checksum: true, syncs_early: true };

    fn save(disk: &CrashingDisk, text: &[u8]) -> io::Result<()> {
        let mut file = SnapshotFile::create(disk.clone(), "d/temp".into(), OPTIONS)?;
        let rest = vec![b'x'; SYNC_SIZE as usize];
        for part in [text, &rest, text] {
            file.append(part)?;
        }
        file.finish()?;
        file.publish(Path::new("d/dump"))
    }

    fn starts_with(disk: &CrashingDisk, text: &[u8]) -> bool {
        let file = disk.open(Path::new("d/dump")).expect("it exists");
        read_small(&file).expect("it can be read").starts_with(text)
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_complete() {
        let mut failed_count = 0;
        for number in 0..40 {
            for seed in 0..4 {
                let disk = CrashingDisk::new(seed, Failing::Nothing);
                disk.create_directory(Path::new("d")).expect("nothing fails");
                disk.sync_directory(Path::new("")).expect("nothing fails");
                save(&disk, b"former").expect("nothing fails");
                let before = disk.operation_count();
                disk.set_failing(Failing::From(before + number));
                let saved = save(&disk, b"newer");
                let crashed = disk.crash();
                if saved.is_ok() {
                    assert!(starts_with(&crashed, b"newer"), "operation {number}, seed {seed}");
                } else {
                    failed_count += 1;
                    let is_whole = starts_with(&crashed, b"former") || starts_with(&crashed, b"newer");
                    assert!(is_whole, "operation {number}, seed {seed}");
                }
            }
        }
        assert!(failed_count > 30, "{failed_count}");
    }

    #[test]
    fn dropped_snapshots_leave_no_files() {
        let disk = CrashingDisk::new(1, Failing::Nothing);
        disk.create_directory(Path::new("d")).expect("nothing fails");
        let mut file = SnapshotFile::create(disk.clone(), "d/temp".into(), OPTIONS).expect("nothing fails");
        file.append(b"x").expect("nothing fails");
        drop(file);
        assert_eq!(disk.list(Path::new("d")).expect("it exists"), Vec::<Vec<u8>>::new());
        save(&disk, b"text").expect("nothing fails");
        assert_eq!(disk.list(Path::new("d")).expect("it exists"), [b"dump"]);
    }
}

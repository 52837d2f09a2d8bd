//! A snapshot's file: written under a temporary name, then renamed, so that its name never refers to a partial file.
//!
//! [`FileOutput`] is such a file as the output of a snapshot.
//!
//! | from | to | by |
//! |---|---|---|
//! | - | writing | [`SnapshotFile::create`] |
//! | writing | complete | [`SnapshotFile::sync`] |
//! | complete | published | [`SnapshotFile::publish`]: rename, sync of the directory |
//! | writing, complete | - | drop: the temporary file is removed |
//!
//! After an error of any step the name refers to the former file. If only the sync of the directory failed, it refers to
//! the new file, and a crash may restore the former one.

use std::io;
use std::path::{Path, PathBuf};

use super::output::{OutputError, SnapshotOutput};
use crate::disk::released::Released;
use crate::disk::{Disk, DiskFile};

/// Bytes after which a file is synced while it is written, so that the last sync is short.
const SYNC_SIZE: u64 = 4 << 20;

/// See the module documentation.
#[derive(Debug)]
pub struct SnapshotFile<D: Disk> {
    disk: D,
    /// `None` when it was renamed, or left to the caller.
    temporary: Option<PathBuf>,
    file: D::File,
    syncs_early: bool,
    size: u64,
    synced_size: u64,
    released: Released,
}

impl<D: Disk> SnapshotFile<D> {
    /// Creates the file under a temporary name, and empties it if it exists. `syncs_early`: it is synced while it is written.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(disk: D, temporary: PathBuf, syncs_early: bool) -> io::Result<Self> {
        let file = disk.create(&temporary)?;
        Ok(Self {
            disk,
            temporary: Some(temporary),
            file,
            syncs_early,
            size: 0,
            synced_size: 0,
            released: Released::default(),
        })
    }

    /// Writes at the end.
    ///
    /// # Errors
    /// Of the file system; then the file must not be used any more.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)?;
        self.size += bytes.len() as u64;
        if self.syncs_early && self.size - self.synced_size >= SYNC_SIZE {
            self.file.sync()?;
            self.synced_size = self.size;
            self.released.advance(&mut self.file, self.synced_size);
        }
        Ok(())
    }

    /// Makes the contents durable.
    ///
    /// # Errors
    /// Of the file system.
    pub fn sync(&mut self) -> io::Result<()> {
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

/// A file that receives a snapshot.
pub struct FileOutput<D: Disk> {
    disk: D,
    temporary: PathBuf,
    /// The name of the complete file; `None`: it keeps its temporary one.
    name: Option<PathBuf>,
    syncs_early: bool,
    file: Option<SnapshotFile<D>>,
}

impl<D: Disk> FileOutput<D> {
    /// A file that is written as `temporary`, and renamed to `name` when it is complete. `syncs_early`: it is synced while it is
    /// written.
    pub fn new(disk: D, temporary: PathBuf, name: Option<PathBuf>, syncs_early: bool) -> Self {
        Self { disk, temporary, name, syncs_early, file: None }
    }
}

impl<D> SnapshotOutput for FileOutput<D>
where
    D: Disk + Clone + Send,
    D::File: Send,
{
    fn begin(&mut self) -> Result<(), OutputError> {
        let file = SnapshotFile::create(self.disk.clone(), self.temporary.clone(), self.syncs_early);
        let failed = |error| OutputError::new(format!("create {}", self.temporary.display()), error);
        self.file = Some(file.map_err(failed)?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.append(bytes).map_err(|error| OutputError::new("write the temporary file", error))
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let completed = file.sync().and_then(|()| match &self.name {
            Some(name) => file.publish(name),
            None => {
                file.leave();
                Ok(())
            }
        });
        let name = self.name.as_ref().unwrap_or(&self.temporary);
        completed.map_err(|error| OutputError::new(format!("write {}", name.display()), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::crashing::{CrashingDisk, Failing};
    use crate::disk::read_small;

    fn save(disk: &CrashingDisk, text: &[u8]) -> io::Result<()> {
        let mut file = SnapshotFile::create(disk.clone(), "d/temp".into(), true)?;
        let rest = vec![b'x'; SYNC_SIZE as usize];
        for part in [text, &rest, text] {
            file.append(part)?;
        }
        file.sync()?;
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
        let mut file = SnapshotFile::create(disk.clone(), "d/temp".into(), true).expect("nothing fails");
        file.append(b"x").expect("nothing fails");
        drop(file);
        assert_eq!(disk.list(Path::new("d")).expect("it exists"), Vec::<Vec<u8>>::new());
        save(&disk, b"text").expect("nothing fails");
        assert_eq!(disk.list(Path::new("d")).expect("it exists"), [b"dump"]);
    }
}

//! The directory of the append-only files: created, locked against other processes, and made anew or elsewhere for a
//! rewrite; adopting the single file of older versions.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::error::doing;
use super::{AppendOnlyFiles, FilesError, FilesState, Layout, exists};
use crate::disk::Disk;
use crate::manifest::Manifest;

impl Layout {
    /// Checks that the directory has no append-only files: writing others would overwrite them.
    ///
    /// # Errors
    /// [`FilesError::Foreign`], or of the file system.
    pub fn check_vacant<D: Disk>(&self, disk: &D) -> Result<(), FilesError> {
        let directory = self.directory_path();
        let names = exists(disk.list(&directory)).map_err(|error| doing("read", &directory, error))?;
        let (beginning, lock) = ([&self.stem, b".".as_slice()].concat(), self.lock_name());
        match names.iter().flatten().any(|name| name.starts_with(&beginning) && *name != lock) {
            true => Err(FilesError::Foreign(directory.display().to_string())),
            false => Ok(()),
        }
    }
}

impl<D: Disk> AppendOnlyFiles<D> {
    /// The working directories in which files of this data set are: one, unless a rewrite is moving them.
    #[must_use]
    pub fn homes(&self) -> &[PathBuf] {
        &self.homes
    }

    /// Its name becomes durable before the first manifest in it is in effect: a step that begins synchronises nothing.
    pub(super) fn create_directory(&mut self) -> Result<(), FilesError> {
        let directory = self.layout.directory_path();
        self.parent_unsynced = true;
        self.disk.create_directory(&directory).map_err(|error| doing("create", &directory, error))?;
        self.lock()
    }

    /// Locks the directory against other processes, if it exists.
    pub(super) fn lock(&mut self) -> Result<(), FilesError> {
        let path = self.layout.path(&self.layout.lock_name());
        let lock = exists(self.disk.lock(&path)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => FilesError::Locked {
                directory: self.layout.directory_path().display().to_string(),
                path: path.display().to_string(),
                holder: error.to_string(),
            },
            _ => doing("write", &path, error),
        })?;
        // The former one is kept if this file system has none, or is full.
        self.lock = lock.flatten().or(self.lock.take());
        Ok(())
    }

    /// Prepares the directory for a rewrite: it is made anew if it was removed. If `parent`, the working directory, is
    /// another one than before, the files of the rewrite are there; those before the rewrite stay where they are.
    ///
    /// # Errors
    /// Of the file system, [`FilesError::Locked`] or [`FilesError::Foreign`]; then the files stay in the former directory.
    pub fn prepare_rewrite(&mut self, parent: PathBuf) -> Result<(), FilesError> {
        if self.state == FilesState::Appending && self.layout.parent != parent {
            if !self.homes.contains(&parent) {
                Layout { parent: parent.clone(), ..self.layout.clone() }.check_vacant(&self.disk)?;
            }
            self.settle()?;
            let (former, lock) = (std::mem::replace(&mut self.layout.parent, parent), self.lock.take());
            let created = self.create_directory();
            match created {
                Ok(()) => {
                    // The current increment stays in the former directory until the cut.
                    self.former_lock = self.former_lock.take().or(lock);
                    self.is_moving = true;
                    self.homes.push(self.layout.parent.clone());
                }
                Err(_) => {
                    self.layout.parent = former;
                    self.lock = lock;
                }
            }
            return created;
        }
        let directory = self.layout.directory_path();
        let is_there =
            exists(self.disk.list(&directory)).map_err(|error| doing("read", &directory, error))?;
        if is_there.is_none() {
            self.create_directory()?;
            self.is_moving = true;
        }
        Ok(())
    }

    /// Whether the files are in two directories, so that a start from either one lacks changes or fails: a rewrite began
    /// in another directory or one that was made anew, and none has succeeded since.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.is_split
    }

    /// Moves the single file of Redis before 7.0 into the directory, as its base. The manifest is written
    /// first: after a crash in between, its only file is the stem, which is still outside of the directory.
    pub(super) fn adopt_single_file(&mut self) -> Result<(), FilesError> {
        let outside = self.layout.parent.join(OsStr::from_bytes(&self.layout.stem));
        if exists(self.disk.open(&outside)).map_err(|error| doing("open", &outside, error))?.is_none() {
            return Ok(());
        }
        let inside = self.layout.path(&self.layout.stem);
        let is_interrupted = self.manifest.increments.is_empty()
            && self.manifest.base.as_ref().is_some_and(|base| base.name == self.layout.stem)
            && exists(self.disk.open(&inside)).map_err(|error| doing("open", &inside, error))?.is_none();
        if !self.manifest.is_empty() && !is_interrupted {
            return Ok(());
        }
        let parent = self.layout.parent.clone();
        self.create_directory()?;
        self.persist(Manifest::of_single_file(&self.layout.stem))?;
        self.sync_directory()?;
        self.disk.rename(&outside, &inside).map_err(|error| doing("rename", &outside, error))?;
        self.disk.sync_directory(&parent).map_err(|error| doing("sync", &parent, error))?;
        self.sync_directory()
    }
}

//! The append-only directory as a state machine: Redis 7's multi-part layout.
//!
//! | FROM | TO | step |
//! |---|---|---|
//! | - | `Closed` | [`AppendOnlyFiles::open`]: reads the manifest, moves an old single file into the directory |
//! | `Closed` | `Appending` | [`AppendOnlyFiles::resume`]: continues the last increment, or creates one |
//! | `Closed` | `Starting` | [`AppendOnlyFiles::start`]: a new history, not in effect before its base is complete |
//! | `Closed` | `BaseOnly` | [`AppendOnlyFiles::start_base_only`]: the same, without an increment |
//! | `Appending` | `Rewriting` | [`AppendOnlyFiles::begin_rewrite`]: a new increment from the cut on |
//! | `Starting`, `Rewriting` | `Appending` | [`AppendOnlyFiles::finish_rewrite`] |
//! | `Rewriting` | `Appending` | [`AppendOnlyFiles::abort_rewrite`]: both increments stay |
//! | `BaseOnly` | `Closed` | [`AppendOnlyFiles::finish_rewrite`] |
//! | `Starting`, `BaseOnly` | `Closed` | [`AppendOnlyFiles::abort_rewrite`] |
//! | any | `Closed` | [`AppendOnlyFiles::close`] |
//!
//! A step takes effect when the manifest is renamed; the names of all files that it lists are durable
//! before. A step that fails before the rename changes nothing. If only the sync of the directory after
//! the rename fails, the step is done, but [`AppendOnlyFiles::sync`] fails until the directory is synced, so that
//! no write is acknowledged that the former manifest would lose. If the rename itself fails, it may have taken effect
//! nevertheless, so `sync` and `append` first write the former manifest again.
//!
//! Invariants:
//! 1. The increment that is appended to is the last of the manifest, or, in `Starting`, not in it.
//! 2. All increments but the last are synced and end with a whole append: only the last one may have a damaged end.
//! 3. `synced_size` bytes of the current file are durable if the directory is synced.
//!
//! After a failed write no further byte is accepted before [`AppendOnlyFiles::undo_append`] or
//! [`AppendOnlyFiles::rollback`]; after a failed sync, before `rollback`: unsynced bytes are then not trusted, and
//! the caller writes them again.

mod directory;
mod error;

pub use error::FilesError;
use error::doing;

use crate::disk::released::Released;
use crate::disk::{DirectoryLock, Disk, DiskFile, read_small};
use crate::manifest::{BaseFormat, Manifest};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where the files are: `dir`, `appenddirname` and `appendfilename`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The working directory; empty for that of the process.
    pub parent: PathBuf,
    /// The name of the directory of append-only files.
    pub directory: PathBuf,
    /// The start of the names of all files.
    pub stem: Vec<u8>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct AppendOnlyFiles<D: Disk> {
    disk: D,
    layout: Layout,
    manifest: Manifest,
    state: FilesState,
    /// The increment that is appended to; `None` in `Closed` and `BaseOnly`.
    current: Option<Increment<D::File>>,
    /// The manifest was renamed, and its directory not synced since.
    directory_unsynced: bool,
    /// The rename of another manifest has failed: it is unknown which one is in effect.
    is_unsettled: bool,
    /// Held while the directory is used; `None` before it exists.
    lock: Option<DirectoryLock>,
    /// That of the directory before a move, in which the current increment is until the cut.
    former_lock: Option<DirectoryLock>,
    /// The directory is another one, or was made anew, and the current increment is not in it yet.
    is_moving: bool,
    /// See [`AppendOnlyFiles::is_split`].
    is_split: bool,
    /// See [`AppendOnlyFiles::homes`].
    homes: Vec<PathBuf>,
    /// The directory may have been created, and its parent not synced since.
    parent_unsynced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilesState {
    Closed,
    Starting,
    BaseOnly,
    Appending,
    Rewriting,
}

#[derive(Debug)]
struct Increment<F> {
    file: F,
    /// The size up to which all appends succeeded.
    size: u64,
    synced_size: u64,
    /// Whether the file was cut since it was last synced.
    is_cut: bool,
    released: Released,
    failed: Option<Failed>,
}

impl<F> Increment<F> {
    /// A file whose `size` bytes are synced.
    fn new(file: F, size: u64) -> Self {
        let released = Released::from(size);
        Self { file, size, synced_size: size, is_cut: false, released, failed: None }
    }
}

/// The last failed operation, if no recovery has succeeded since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Append,
    Sync,
}

impl Layout {
    fn path(&self, name: &[u8]) -> PathBuf {
        self.directory_path().join(OsStr::from_bytes(name))
    }

    /// The path of the directory.
    #[must_use]
    pub fn directory_path(&self) -> PathBuf {
        self.parent.join(&self.directory)
    }

    fn manifest_name(&self) -> Vec<u8> {
        [&self.stem, b".manifest".as_slice()].concat()
    }

    fn lock_name(&self) -> Vec<u8> {
        [&self.stem, b".lock".as_slice()].concat()
    }

    fn temporary(&self, suffix: &str) -> Vec<u8> {
        [b"temp-", self.stem.as_slice(), suffix.as_bytes()].concat()
    }
}

impl<D: Disk> AppendOnlyFiles<D> {
    /// Opens the directory, and locks it against other processes. An old single file of the same name is moved into it. If
    /// neither exists, nothing is created. Temporary files of an interrupted rewrite are removed.
    ///
    /// # Errors
    /// An invalid manifest, a missing file, the file system, or [`FilesError::Locked`].
    pub fn open(disk: D, layout: Layout) -> Result<Self, FilesError> {
        let mut files = AppendOnlyFiles {
            disk,
            manifest: Manifest::default(),
            state: FilesState::Closed,
            current: None,
            directory_unsynced: false,
            is_unsettled: false,
            lock: None,
            former_lock: None,
            is_moving: false,
            is_split: false,
            homes: vec![layout.parent.clone()],
            parent_unsynced: false,
            layout,
        };
        files.lock()?;
        let path = files.layout.path(&files.layout.manifest_name());
        if let Some(file) = exists(files.disk.open(&path)).map_err(|error| doing("open", &path, error))? {
            let text = read_small(&file).map_err(|error| doing("read", &path, error))?;
            files.manifest = Manifest::parse(&text)?;
        }
        files.adopt_single_file()?;
        for file in files.manifest.loaded() {
            let path = files.layout.path(&file.name);
            if exists(files.disk.open(&path)).map_err(|error| doing("open", &path, error))?.is_none() {
                return Err(FilesError::Missing(path.display().to_string()));
            }
        }
        files.remove_temporary();
        Ok(files)
    }

    /// The files, with those to load in order.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The path of a file of the manifest.
    #[must_use]
    pub fn path(&self, name: &[u8]) -> PathBuf {
        self.layout.path(name)
    }

    /// Opens a file of the manifest for reading.
    ///
    /// # Errors
    /// Of the file system.
    pub fn open_file(&self, name: &[u8]) -> Result<D::File, FilesError> {
        let path = self.layout.path(name);
        self.disk.open(&path).map_err(|error| doing("open", &path, error))
    }

    /// Cuts off the damaged end of the last file, before [`Self::resume`].
    ///
    /// # Errors
    /// Of the file system.
    pub fn truncate_last(&mut self, size: u64) -> Result<(), FilesError> {
        assert_eq!(self.state, FilesState::Closed, "only before appending");
        let Some(last) = self.manifest.loaded().last() else { return Ok(()) };
        let path = self.layout.path(&last.name);
        let mut file = self.disk.open(&path).map_err(|error| doing("open", &path, error))?;
        file.truncate(size).and_then(|()| file.sync()).map_err(|error| doing("truncate", &path, error))
    }

    /// Continues the last increment. The manifest must not be empty; to begin without data, use
    /// [`Self::start`].
    ///
    /// # Errors
    /// Of the file system; then nothing has changed.
    pub fn resume(&mut self) -> Result<(), FilesError> {
        assert!(self.state == FilesState::Closed && !self.manifest.is_empty(), "there is nothing to resume");
        let current = match self.manifest.increments.last() {
            Some(last) => {
                let path = self.layout.path(&last.name);
                let opened = self.disk.open_to_append(&path);
                let mut file = opened.map_err(|error| doing("open for writing", &path, error))?;
                let size = file.size().and_then(|size| file.sync().map(|()| size));
                let size = size.map_err(|error| doing("sync", &path, error))?;
                self.sync_directory()?;
                Increment::new(file, size)
            }
            None => self.add_increment()?,
        };
        self.current = Some(current);
        self.state = FilesState::Appending;
        Ok(())
    }

    /// Begins a new history, not in effect before [`Self::finish_rewrite`]: the server starts without data,
    /// or the append-only file is switched on while it runs. Called at the cut.
    ///
    /// # Errors
    /// Of the file system; then nothing has changed.
    pub fn start(&mut self) -> Result<(), FilesError> {
        assert_eq!(self.state, FilesState::Closed, "already appending");
        self.create_directory()?;
        self.current = Some(self.create_increment(&self.layout.temporary(".incr"))?);
        self.state = FilesState::Starting;
        Ok(())
    }

    /// Begins a new history of a base and no increment: nothing is appended. Not in effect before
    /// [`Self::finish_rewrite`].
    ///
    /// # Errors
    /// Of the file system; then nothing has changed.
    pub fn start_base_only(&mut self) -> Result<(), FilesError> {
        assert_eq!(self.state, FilesState::Closed, "already appending");
        self.create_directory()?;
        self.state = FilesState::BaseOnly;
        Ok(())
    }

    /// Appends whole records to the current increment.
    ///
    /// # Errors
    /// Of the file system; then nothing more is accepted before [`Self::rollback`]. [`FilesError::Closed`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        self.append_pieces(&[bytes])
    }

    /// As [`Self::append`], for records in several pieces. After an error, [`Self::undo_append`] cuts off all of them.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_pieces(&mut self, pieces: &[&[u8]]) -> Result<(), FilesError> {
        if self.is_unsettled {
            // The manifest in effect may list an increment behind this one: invariant 2.
            self.settle()?;
        }
        let current = self.current.as_mut().ok_or(FilesError::Closed)?;
        if current.failed.is_some() {
            return Err(FilesError::Failed);
        }
        for bytes in pieces {
            if let Err(source) = current.file.append(bytes) {
                current.failed = Some(Failed::Append);
                return Err(FilesError::Disk { action: "write the append-only file".to_owned(), source });
            }
        }
        current.size += pieces.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Makes all appends durable. In `Starting` only the file is synced: the appends can be recovered once
    /// [`Self::finish_rewrite`] has succeeded.
    ///
    /// # Errors
    /// Of the file system; then nothing more is accepted before [`Self::rollback`].
    pub fn sync(&mut self) -> Result<(), FilesError> {
        self.sync_current()?;
        self.settle()
    }

    /// Whether appends are accepted, or were before one failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a sync has failed, so that only [`Self::rollback`] helps.
    #[must_use]
    pub fn has_failed_sync(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.failed == Some(Failed::Sync))
    }

    /// The size of the current increment, and of its durable part.
    #[must_use]
    pub fn current_size(&self) -> (u64, u64) {
        self.current.as_ref().map_or((0, 0), |current| (current.size, current.synced_size))
    }

    /// Cuts the current increment to its durable size, after a failure, and accepts appends again. Returns how many
    /// appended bytes were cut off; the caller appends them again, or begins a rewrite if it no longer has them.
    ///
    /// # Errors
    /// Of the file system: the disk has not recovered.
    pub fn rollback(&mut self) -> Result<u64, FilesError> {
        let current = self.current.as_mut().ok_or(FilesError::Closed)?;
        let failed = |source| FilesError::Disk { action: "truncate the append-only file".to_owned(), source };
        current.file.truncate(current.synced_size).map_err(failed)?;
        current.file.sync().map_err(failed)?;
        let lost = current.size - current.synced_size;
        current.size = current.synced_size;
        current.failed = None;
        Ok(lost)
    }

    /// Cuts the current increment back to its last whole append, after a failed append, and accepts appends again.
    ///
    /// # Errors
    /// Of the file system: the disk has not recovered. [`FilesError::Failed`] if a sync has failed: only
    /// [`Self::rollback`] helps then.
    pub fn undo_append(&mut self) -> Result<(), FilesError> {
        let current = self.current.as_mut().ok_or(FilesError::Closed)?;
        if current.failed == Some(Failed::Sync) {
            return Err(FilesError::Failed);
        }
        let failed = |source| FilesError::Disk { action: "truncate the append-only file".to_owned(), source };
        current.file.truncate(current.size).map_err(failed)?;
        current.is_cut = true;
        current.failed = None;
        Ok(())
    }

    /// The size of the files to load, in bytes. Files that cannot be opened count as empty.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        let size_of = |name: &[u8]| {
            self.open_file(name)
                .and_then(|file| file.size().map_err(|error| doing("examine", &self.path(name), error)))
        };
        self.manifest.loaded().map(|file| size_of(&file.name).unwrap_or(0)).sum()
    }

    /// The disk on which the files are.
    #[must_use]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Opens the file at [`Self::base_path`], which is complete.
    ///
    /// # Errors
    /// Of the file system.
    pub fn open_base(&self) -> Result<D::File, FilesError> {
        let path = self.base_path();
        self.disk.open(&path).map_err(|error| doing("open", &path, error))
    }

    /// The path of the file that [`Self::create_base`] creates.
    #[must_use]
    pub fn base_path(&self) -> PathBuf {
        self.layout.path(&self.layout.temporary(".base"))
    }

    /// The path of a base in the form of requests, which is written from the file at [`Self::base_path`].
    #[must_use]
    pub fn requests_path(&self) -> PathBuf {
        self.layout.path(&self.layout.temporary(".requests"))
    }

    /// Puts the file at [`Self::requests_path`], which is complete, in place of that at [`Self::base_path`].
    ///
    /// # Errors
    /// Of the file system.
    pub fn take_requests(&self) -> Result<(), FilesError> {
        let path = self.requests_path();
        self.disk.rename(&path, &self.base_path()).map_err(|error| doing("rename", &path, error))
    }

    /// Begins a rewrite at the cut: later appends belong to a new increment.
    ///
    /// # Errors
    /// Of the file system; then the former increment is continued, and there is no rewrite.
    pub fn begin_rewrite(&mut self) -> Result<(), FilesError> {
        assert_ne!(self.state, FilesState::Rewriting, "one rewrite at a time");
        if self.state != FilesState::Appending {
            return Err(FilesError::Closed);
        }
        // Invariant 2.
        self.sync()?;
        self.current = Some(self.add_increment()?);
        self.former_lock = None;
        self.is_split |= std::mem::take(&mut self.is_moving);
        self.state = FilesState::Rewriting;
        Ok(())
    }

    /// Creates the file for the data at the cut, to be written and then passed to [`Self::finish_rewrite`].
    ///
    /// # Errors
    /// Of the file system.
    pub fn create_base(&self) -> Result<D::File, FilesError> {
        self.create_file(&self.layout.temporary(".base"))
    }

    /// Ends a rewrite: the base is complete. The files before the cut become history, see [`Self::remove_history`].
    ///
    /// # Errors
    /// Of the file system; then the rewrite goes on. The base is not usable: the caller writes another base or
    /// aborts.
    pub fn finish_rewrite(&mut self, mut base: D::File, format: BaseFormat) -> Result<(), FilesError> {
        if !matches!(self.state, FilesState::Starting | FilesState::BaseOnly | FilesState::Rewriting) {
            return Err(FilesError::Closed);
        }
        let temporary = self.layout.path(&self.layout.temporary(".base"));
        base.sync().map_err(|error| doing("sync", &temporary, error))?;
        let mut manifest = self.manifest.clone();
        let base_name = manifest.replace_base(&self.layout.stem, format);
        manifest.retire_increments(usize::from(self.state == FilesState::Rewriting));
        if self.state == FilesState::Starting {
            self.sync_current()?;
            let name = manifest.push_increment(&self.layout.stem);
            let (from, to) = (self.layout.path(&self.layout.temporary(".incr")), self.layout.path(&name));
            match self.disk.rename(&from, &to) {
                // An earlier attempt has renamed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.disk.open(&to).is_ok() => {}
                other => other.map_err(|error| doing("rename", &from, error))?,
            }
        }
        let to = self.layout.path(&base_name);
        self.disk.rename(&temporary, &to).map_err(|error| doing("rename", &temporary, error))?;
        self.persist(manifest)?;
        self.state = if self.current.is_some() { FilesState::Appending } else { FilesState::Closed };
        (self.is_moving, self.is_split) = (false, false);
        self.homes = vec![self.layout.parent.clone()];
        Ok(())
    }

    /// Ends a rewrite without a result. After [`Self::begin_rewrite`] nothing is lost: the increments stay. After
    /// [`Self::start`] the append-only files are as before it.
    pub fn abort_rewrite(&mut self) {
        match self.state {
            FilesState::Starting | FilesState::BaseOnly => self.close(),
            FilesState::Rewriting => self.state = FilesState::Appending,
            FilesState::Closed | FilesState::Appending => {}
        }
        self.remove_temporary();
    }

    /// Removes the files of the history, and then their lines.
    ///
    /// # Errors
    /// Of the file system; the caller repeats the call later.
    pub fn remove_history(&mut self) -> Result<(), FilesError> {
        if self.manifest.history.is_empty() {
            return Ok(());
        }
        self.settle()?;
        for file in &self.manifest.history {
            let path = self.layout.path(&file.name);
            exists(self.disk.remove(&path)).map_err(|error| doing("remove", &path, error))?;
        }
        self.persist(Manifest { history: Vec::new(), ..self.manifest.clone() })
    }

    /// Stops appending. Appends that the caller has not synced before may be lost in a crash.
    pub fn close(&mut self) {
        self.current = None;
        self.former_lock = None;
        self.state = FilesState::Closed;
    }

    /// Adds an increment to the manifest, and returns its file.
    fn add_increment(&mut self) -> Result<Increment<D::File>, FilesError> {
        let mut manifest = self.manifest.clone();
        let increment = self.create_increment(&manifest.push_increment(&self.layout.stem))?;
        self.persist(manifest)?;
        Ok(increment)
    }

    fn create_increment(&self, name: &[u8]) -> Result<Increment<D::File>, FilesError> {
        Ok(Increment::new(self.create_file(name)?, 0))
    }

    fn create_file(&self, name: &[u8]) -> Result<D::File, FilesError> {
        let path = self.layout.path(name);
        self.disk.create(&path).map_err(|error| doing("create", &path, error))
    }

    fn sync_current(&mut self) -> Result<(), FilesError> {
        let current = self.current.as_mut().ok_or(FilesError::Closed)?;
        if current.failed.is_some() {
            return Err(FilesError::Failed);
        }
        if current.synced_size < current.size || current.is_cut {
            if let Err(source) = current.file.sync() {
                current.failed = Some(Failed::Sync);
                return Err(FilesError::Disk { action: "sync the append-only file".to_owned(), source });
            }
            current.synced_size = current.size;
            current.is_cut = false;
            current.released.advance(&mut current.file, current.synced_size);
        }
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), FilesError> {
        if self.parent_unsynced {
            let parent = &self.layout.parent;
            self.disk.sync_directory(parent).map_err(|error| doing("sync", parent, error))?;
            self.parent_unsynced = false;
        }
        let directory = self.layout.directory_path();
        self.disk.sync_directory(&directory).map_err(|error| doing("sync", &directory, error))?;
        self.directory_unsynced = false;
        Ok(())
    }

    /// Makes sure that the manifest in memory is in effect, and durable. [`Self::sync`] includes it.
    ///
    /// # Errors
    /// Of the file system; the caller repeats the call later.
    pub fn settle(&mut self) -> Result<(), FilesError> {
        if self.is_unsettled {
            self.persist(self.manifest.clone())?;
        }
        if self.directory_unsynced {
            self.sync_directory()?;
        }
        Ok(())
    }

    /// Puts a manifest in effect. After an error the former manifest is in effect.
    fn persist(&mut self, manifest: Manifest) -> Result<(), FilesError> {
        // The names of the new files that the manifest lists.
        self.sync_directory()?;
        let temporary = self.layout.path(&self.layout.temporary(".manifest"));
        let mut file = self.disk.create(&temporary).map_err(|error| doing("create", &temporary, error))?;
        let written = file.append(&manifest.format()).and_then(|()| file.sync());
        written.map_err(|error| doing("write", &temporary, error))?;
        let path = self.layout.path(&self.layout.manifest_name());
        self.is_unsettled = true;
        self.disk.rename(&temporary, &path).map_err(|error| doing("rename", &temporary, error))?;
        self.is_unsettled = false;
        self.manifest = manifest;
        self.directory_unsynced = true;
        // Reported by the next `sync`, if it fails.
        let _ = self.sync_directory();
        Ok(())
    }

    /// Removes temporary files of an interrupted step. Errors are ignored: such files are overwritten.
    fn remove_temporary(&self) {
        for suffix in [".base", ".requests", ".incr", ".manifest"] {
            let _ = self.disk.remove(&self.layout.path(&self.layout.temporary(suffix)));
        }
    }
}

/// `None` if there is no such file.
fn exists<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

//! A file system in memory that fails and crashes, for tests.
//!
//! Each operation that changes something has a number. One of them can fail, or all from a number on. A crash
//! keeps all synced data. A seed selects the unsynced data that survives: any subset of the changes of names,
//! in their order, and of each file any subset of its unsynced writes, cut anywhere, with zeros in the gaps.
//!
//! A failing `append` writes a part. A failing `sync` of a file excludes the unsynced bytes from later syncs, and
//! the next sync by each other handle of that file fails, too, as on Linux. The other operations do nothing, or
//! take effect and report an error nevertheless, as the seed decides.

use super::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which operations fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failing {
    /// None.
    #[default]
    Nothing,
    /// The operation of this number, from 0.
    Only(u64),
    /// All from this number on.
    From(u64),
    /// Every append from this number on, after a part of it: the disk is full.
    Appends(u64),
    /// Every synchronisation of a file from this number on.
    Syncs(u64),
    /// Every synchronisation of a directory from this number on.
    Directories(u64),
}

/// See the module documentation. Clones share their contents.
#[derive(Clone, Debug, Default)]
pub struct CrashingDisk {
    state: Arc<Mutex<DiskState>>,
}

/// An open file of a [`CrashingDisk`].
#[derive(Debug)]
pub struct CrashingFile {
    disk: CrashingDisk,
    file: usize,
    /// The failed syncs of the file that this handle has reported, or that were before it.
    reported_failure_count: u64,
}

#[derive(Clone, Debug, Default)]
struct DiskState {
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    /// Changes of names since the directories were synced.
    pending: Vec<NameChange>,
    files: Vec<Contents>,
    operation_count: u64,
    failing: Failing,
    random: u64,
}

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Append,
    Sync,
    Directory,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Contents {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync.
    changes: Vec<Change>,
    failed_sync_count: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl CrashingDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new(seed: u64, failing: Failing) -> Self {
        let state = DiskState { failing, random: seed, ..DiskState::default() };
        CrashingDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The number of operations that changed something or tried to.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.lock().operation_count
    }

    /// Changes which operations fail.
    pub fn set_failing(&self, failing: Failing) {
        self.lock().failing = failing;
    }

    /// Returns the disk after a crash, on which nothing fails. `self` and its files must not be used any more.
    #[must_use]
    pub fn crash(&self) -> CrashingDisk {
        let mut state = self.lock().clone();
        for change in std::mem::take(&mut state.pending) {
            if state.flip() {
                change.apply(&mut state.durable_names);
            }
        }
        state.names.clone_from(&state.durable_names);
        for index in 0..state.files.len() {
            let mut contents = std::mem::take(&mut state.files[index]);
            for change in std::mem::take(&mut contents.changes) {
                if state.flip() {
                    let cut = state.next() as usize;
                    change.apply(&mut contents.durable, cut);
                }
            }
            state.files[index] = Contents { current: contents.durable.clone(), ..contents };
        }
        state.failing = Failing::Nothing;
        CrashingDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, file: usize, state: &DiskState) -> CrashingFile {
        let reported_failure_count = state.files[file].failed_sync_count;
        CrashingFile { disk: self.clone(), file, reported_failure_count }
    }

    /// Counts and performs an operation on names.
    fn change_name(&self, change: NameChange) -> io::Result<()> {
        let mut state = self.lock();
        let fails = state.next_fails(OperationKind::Other);
        if !fails || state.flip() {
            change.apply(&mut state.names);
            state.pending.push(change);
        }
        if fails { Err(failure()) } else { Ok(()) }
    }
}

impl DiskState {
    /// Counts an operation and returns whether it fails.
    fn next_fails(&mut self, kind: OperationKind) -> bool {
        let number = self.operation_count;
        self.operation_count += 1;
        match self.failing {
            Failing::Nothing => false,
            Failing::Only(nth) => number == nth,
            Failing::From(first) => number >= first,
            Failing::Appends(first) => kind == OperationKind::Append && number >= first,
            Failing::Syncs(first) => kind == OperationKind::Sync && number >= first,
            Failing::Directories(first) => kind == OperationKind::Directory && number >= first,
        }
    }

    fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// The next random number (xorshift of a Weyl sequence).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) >> 8
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            NameChange::Add(path, node) => _ = names.insert(path.clone(), *node),
            NameChange::Remove(path) => _ = names.remove(path),
            NameChange::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }

    fn is_in(&self, directory: &Path) -> bool {
        let is_in = |path: &Path| path.parent() == Some(directory);
        match self {
            NameChange::Add(path, _) | NameChange::Remove(path) => is_in(path),
            NameChange::Rename(from, to) => is_in(from) || is_in(to),
        }
    }
}

impl Change {
    /// Applies a change as it reached the disk: `cut` determines whether wholly, and otherwise the size of the part.
    fn apply(&self, durable: &mut Vec<u8>, cut: usize) {
        match self {
            Change::Write { offset, bytes } => {
                // Half of the writes are complete.
                let size = if cut & 1 == 0 { bytes.len() } else { (cut >> 1) % (bytes.len() + 1) };
                if durable.len() < offset + size {
                    durable.resize(offset + size, 0);
                }
                durable[*offset..offset + size].copy_from_slice(&bytes[..size]);
            }
            Change::Truncate(size) => durable.truncate(*size),
        }
    }
}

fn failure() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk for CrashingDisk {
    type File = CrashingFile;

    fn open(&self, path: &Path) -> io::Result<CrashingFile> {
        let state = self.lock();
        match state.names.get(path) {
            Some(Node::File(file)) => Ok(self.handle(*file, &state)),
            _ => Err(not_found()),
        }
    }

    fn create(&self, path: &Path) -> io::Result<CrashingFile> {
        let state = self.lock();
        let existing = state.names.get(path).copied();
        if let Some(Node::File(file)) = existing {
            let mut file = self.handle(file, &state);
            drop(state);
            file.truncate(0)?;
            return Ok(file);
        }
        drop(state);
        let file = {
            let mut state = self.lock();
            state.files.push(Contents::default());
            state.files.len() - 1
        };
        self.change_name(NameChange::Add(path.to_owned(), Node::File(file)))?;
        Ok(CrashingFile { disk: self.clone(), file, reported_failure_count: 0 })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.lock().names.contains_key(from) {
            return Err(not_found());
        }
        self.change_name(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.lock().names.contains_key(path) {
            return Err(not_found());
        }
        self.change_name(NameChange::Remove(path.to_owned()))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if self.lock().names.contains_key(path) {
            return Ok(());
        }
        self.change_name(NameChange::Add(path.to_owned(), Node::Directory))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if state.next_fails(OperationKind::Directory) {
            return Err(failure());
        }
        let (synced, pending) =
            std::mem::take(&mut state.pending).into_iter().partition(|it: &NameChange| it.is_in(path));
        state.pending = pending;
        let synced: Vec<NameChange> = synced;
        synced.iter().for_each(|change| change.apply(&mut state.durable_names));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let state = self.lock();
        if !path.as_os_str().is_empty() && state.names.get(path) != Some(&Node::Directory) {
            return Err(not_found());
        }
        let is_file =
            |(name, node): &(&PathBuf, &Node)| name.parent() == Some(path) && **node != Node::Directory;
        let name = |(name, _): (&PathBuf, &Node)| Some(name.file_name()?.as_encoded_bytes().to_vec());
        Ok(state.names.iter().filter(is_file).filter_map(name).collect())
    }
}

impl DiskFile for CrashingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        let fails = state.next_fails(OperationKind::Append);
        let size = if fails { state.next() as usize % (bytes.len() + 1) } else { bytes.len() };
        let contents = &mut state.files[self.file];
        let offset = contents.current.len();
        contents.current.extend(&bytes[..size]);
        contents.changes.push(Change::Write { offset, bytes: bytes[..size].to_vec() });
        if fails { Err(failure()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let fails = state.next_fails(OperationKind::Sync);
        let contents = &mut state.files[self.file];
        if fails {
            // The pages count as clean from now on, and may never reach the disk: unsynced writes are lost to the
            // durable contents, though they can still be read.
            contents.changes.clear();
            contents.failed_sync_count += 1;
        }
        // Each handle that was open at a failure reports it once.
        let failed_sync_count = contents.failed_sync_count;
        if std::mem::replace(&mut self.reported_failure_count, failed_sync_count) < failed_sync_count {
            return Err(failure());
        }
        for change in std::mem::take(&mut contents.changes) {
            change.apply(&mut contents.durable, 0);
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let fails = state.next_fails(OperationKind::Other);
        if fails {
            return Err(failure());
        }
        let contents = &mut state.files[self.file];
        contents.current.truncate(size as usize);
        contents.changes.push(Change::Truncate(size as usize));
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].current.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.lock();
        let rest = state.files[self.file].current.get(offset as usize..).unwrap_or_default();
        let size = rest.len().min(buffer.len());
        buffer[..size].copy_from_slice(&rest[..size]);
        Ok(size)
    }
}

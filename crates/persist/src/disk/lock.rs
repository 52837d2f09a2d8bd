//! Locks of directories against other processes: a file that one process has locked.
//!
//! The kernel releases the lock when the process ends, however it ends; the file stays. It has the id of the process, for the
//! message of the next one. A process that locks a directory again shares its lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};

use sync::Mutex;

/// The locks of this process.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// A lock that is held until the last copy is dropped or the process ends.
#[derive(Clone, Debug)]
pub struct DirectoryLock {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    /// The device and number of the file: its name may be given to another one.
    id: (u64, u64),
    _file: File,
}

impl DirectoryLock {
    /// See [`Disk::lock`](super::Disk::lock).
    pub(super) fn acquire(path: &Path) -> io::Result<Option<Self>> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|lock| lock.strong_count() > 0);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = match options {
            Ok(file) => file,
            // Loading needs no room.
            Err(error) if is_full(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        if let Some(own) = held.iter().filter_map(Weak::upgrade).find(|lock| lock.id == id) {
            return Ok(Some(Self { _held: own }));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let text = format!("in use by process {}", holder.trim());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
        // The lock holds without the text.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        let own = Arc::new(Held { id, _file: file });
        held.push(Arc::downgrade(&own));
        Ok(Some(Self { _held: own }))
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

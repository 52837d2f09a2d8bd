//! Where a snapshot for replicas goes: to the worker of one while it is taken, or first to a file that those share to which its size
//! must be sent before. The file has no name while it is written, so a crash leaves none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use persist::snapshots::{FileOutput, OutputError, SnapshotOutput};

use crate::connection::replica::{Replica, ReplicaState};
use crate::disk::{self, ServerDisk};
use crate::process::identity::random_id;
use crate::shared::Shared;
use crate::shared::replicas::ServedReplicas;

/// The interval at which a full pipe is looked at.
const FULL_INTERVAL: Duration = Duration::from_millis(2);

/// Bytes of a file that are read at a time.
const FILE_PART_SIZE: u64 = 256 << 10;

/// A replica, for those that have bytes for it.
pub(super) struct Target {
    pub(super) shared: &'static Shared,
    pub(super) replica: Arc<Replica>,
    /// It, and those that share its snapshot.
    pub(super) served: Arc<ServedReplicas>,
}

/// A replica that receives a snapshot while it is taken, with a mark at the end.
pub(super) struct DirectOutput {
    target: Target,
    mark: String,
}

/// Replicas that receive a snapshot from a file, whose size precedes it.
pub(super) struct FileFirst {
    targets: Vec<Target>,
    path: PathBuf,
    file: FileOutput<ServerDisk>,
    /// What is read of the file.
    reader: Option<Arc<File>>,
}

impl Target {
    fn push(&self, bytes: Vec<u8>) -> Result<(), OutputError> {
        self.fill(|replica| replica.pipe.push(bytes))
    }

    fn push_last(&self, bytes: Vec<u8>) -> Result<(), OutputError> {
        self.fill(|replica| replica.pipe.push_last(bytes))
    }

    fn fill(&self, push: impl FnOnce(&Replica) -> bool) -> Result<(), OutputError> {
        self.check()?;
        if push(&self.replica) {
            self.shared.replication.replicas.wake(&self.replica);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), OutputError> {
        match self.is_gone() {
            false => Ok(()),
            true => Err(gone()),
        }
    }

    fn is_gone(&self) -> bool {
        self.replica.state() == ReplicaState::Gone
    }

    /// Sends a file as fast as the replica takes it.
    fn send_file(&self, file: &File) -> Result<(), OutputError> {
        let failed = |error| OutputError::new("read the file", error);
        let size = file.metadata().map_err(failed)?.len();
        self.replica.begin_snapshot(false);
        self.push(format!("${size}\r\n").into_bytes())?;
        let mut at = 0;
        while at < size {
            while self.replica.pipe.is_full() && !self.is_gone() {
                sync::thread::sleep(FULL_INTERVAL);
            }
            let mut part = vec![0; (size - at).min(FILE_PART_SIZE) as usize];
            file.read_exact_at(&mut part, at).map_err(failed)?;
            at += part.len() as u64;
            match at < size {
                true => self.push(part)?,
                false => self.push_last(part)?,
            }
        }
        Ok(())
    }
}

impl DirectOutput {
    pub(super) fn new(target: Target) -> Self {
        Self { target, mark: random_id() }
    }
}

impl SnapshotOutput for DirectOutput {
    fn begin(&mut self) -> Result<(), OutputError> {
        self.target.replica.begin_snapshot(true);
        self.target.push(format!("$EOF:{}\r\n", self.mark).into_bytes())
    }

    fn is_ready(&mut self) -> bool {
        self.target.is_gone() || !self.target.replica.pipe.is_full()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.target.push(bytes.to_vec())
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        self.target.push_last(self.mark.clone().into_bytes())?;
        self.target.served.log_end();
        Ok(())
    }
}

impl FileFirst {
    /// `path`: the name of the file until it is open.
    pub(super) fn new(targets: Vec<Target>, path: PathBuf) -> Self {
        let file = FileOutput::new(disk::current(), path.clone(), None, false);
        Self { targets, path, file, reader: None }
    }
}

impl SnapshotOutput for FileFirst {
    fn begin(&mut self) -> Result<(), OutputError> {
        self.file.begin()?;
        let failed = |error| OutputError::new("open the file", error);
        self.reader = Some(Arc::new(File::open(&self.path).map_err(failed)?));
        std::fs::remove_file(&self.path).map_err(failed)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        if self.targets.iter().all(Target::is_gone) {
            return Err(gone());
        }
        self.file.write(bytes)
    }

    /// The file is not finished: it need not survive a crash, and ends when the last replica has it.
    fn finish(&mut self) -> Result<(), OutputError> {
        let Some(reader) = &self.reader else { return Ok(()) };
        for target in self.targets.drain(..) {
            let reader = Arc::clone(reader);
            let body = move || {
                if let Err(error) = target.send_file(&reader) {
                    log::warn!("Snapshot for replica {} has failed: {error}", target.replica.address());
                    target.shared.end_replica(&target.replica);
                }
            };
            let thread = sync::thread::Builder::new().name("broadloom-send".to_owned());
            thread.spawn(body).map_err(|error| OutputError::new("start a thread", error))?;
        }
        Ok(())
    }
}

fn gone() -> OutputError {
    OutputError::new("send the snapshot", io::ErrorKind::ConnectionAborted.into())
}

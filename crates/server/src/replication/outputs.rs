//! Where a snapshot for a replica goes: to its worker while it is taken, or first to a file, if its size must be known before.

use std::fs::File;
use std::io::{self, Read};
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

/// A replica that receives a snapshot from a file, whose size precedes it.
pub(super) struct FileFirst {
    target: Target,
    path: PathBuf,
    file: FileOutput<ServerDisk>,
}

impl Target {
    fn push(&self, bytes: Vec<u8>) -> Result<(), OutputError> {
        self.check()?;
        if self.replica.pipe.push(bytes) {
            self.shared.replication.replicas.wake(&self.replica);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), OutputError> {
        match self.is_gone() {
            false => Ok(()),
            true => Err(OutputError::new("send the snapshot", io::ErrorKind::ConnectionAborted.into())),
        }
    }

    fn is_gone(&self) -> bool {
        self.replica.state() == ReplicaState::Gone
    }

    fn complete(&self) {
        if self.replica.pipe.complete() {
            self.shared.replication.replicas.wake(&self.replica);
        }
    }

    /// Ends the connection of the replica.
    pub(super) fn end(&self) {
        self.shared.end_stream_of(&self.replica);
        self.replica.end();
        self.shared.replication.replicas.wake(&self.replica);
    }

    /// Sends a file as fast as the replica takes it.
    fn send_file(&self, mut file: File, size: u64) -> Result<(), OutputError> {
        self.replica.begin_snapshot(false);
        self.push(format!("${size}\r\n").into_bytes())?;
        let mut left = size;
        while left > 0 {
            while self.replica.pipe.is_full() && !self.is_gone() {
                sync::thread::sleep(FULL_INTERVAL);
            }
            let mut part = vec![0; left.min(FILE_PART_SIZE) as usize];
            file.read_exact(&mut part).map_err(|error| OutputError::new("read the file", error))?;
            left -= part.len() as u64;
            self.push(part)?;
        }
        self.complete();
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
        self.target.push(self.mark.clone().into_bytes())?;
        self.target.complete();
        self.target.served.log_end();
        Ok(())
    }
}

impl FileFirst {
    /// `path`: the name of the file, which is removed with this output.
    pub(super) fn new(target: Target, path: PathBuf) -> Self {
        let file = FileOutput::new(disk::current(), path.clone(), None, false);
        Self { target, path, file }
    }
}

impl SnapshotOutput for FileFirst {
    fn begin(&mut self) -> Result<(), OutputError> {
        self.file.begin()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.target.check()?;
        self.file.write(bytes)
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        // Its file is not finished: it need not survive a crash, and is removed with this output.
        let failed = |error| OutputError::new("open the file", error);
        let file = File::open(&self.path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let Target { shared, replica, served } = &self.target;
        let target = Target { shared, replica: Arc::clone(replica), served: Arc::clone(served) };
        let body = move || {
            if let Err(error) = target.send_file(file, size) {
                log::warn!("Snapshot for replica {} has failed: {error}", target.replica.address());
                target.end();
            }
        };
        let thread = sync::thread::Builder::new().name("broadloom-send".to_owned());
        thread.spawn(body).map_err(|error| OutputError::new("start a thread", error))?;
        Ok(())
    }
}

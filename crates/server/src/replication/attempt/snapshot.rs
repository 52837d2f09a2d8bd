//! The snapshot of a full synchronisation: into a file that is then loaded, or loaded while it is received
//! (`repl-diskless-load`).
//!
//! | way | the data until the snapshot is loaded | if that fails |
//! |---|---|---|
//! | a file | stay until it is complete | they stay if it is not complete, otherwise there are none |
//! | in place | are deleted when its beginning is known | there are none |
//! | beside the data | stay, and are shown if their history is that of the primary | stay |
//!
//! Without a file, the thread of the connection passes what it receives to the thread `broadloom-load`, by a bounded pipe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::DbIndex;
use config::{Config, ReplDisklessLoad};
use os::clock::{self, Uptime};
use persist::disk::{Disk, DiskFile};
use replication::replica::{SnapshotFrame, SnapshotStep};
use sync::atomic::Ordering;
use sync::mpsc::{Receiver, channel};

use super::{Attempt, AttemptError};
use crate::disk;
use crate::persistence::loading::received::{self, SnapshotFeed};
use crate::process::identity::random_id;
use crate::replication::install::{self, NotInstalled, SnapshotOf};
use crate::replication::wire::Wire;
use crate::shared::role::Transfer;

/// The interval of line ends to the primary, which show that this server lives, in milliseconds.
const SIGN_INTERVAL_MS: i64 = 1_000;

/// The longest wait for input, or for room in the pipe, without a look at the loader.
const LOADER_INTERVAL: Duration = Duration::from_millis(50);

/// The wait for a loader when the connection has ended.
const LONE_LOADER_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of a file that the system begins to write while the next are received. Otherwise the sync at the end writes everything at once,
/// and keeps others from the disk.
const WRITE_SIZE: u64 = 4 << 20;

/// How a snapshot is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadWay {
    File,
    InPlace,
    Beside,
}

/// Line ends to the primary.
pub(super) enum Signs {
    /// When the next one is due.
    At(Uptime),
    /// Another connection has them.
    Elsewhere,
}

type Installed = Result<DbIndex, NotInstalled>;

impl Signs {
    /// From now on.
    pub(super) fn now() -> Self {
        Self::At(Uptime::now())
    }

    fn send_if_due(&mut self, wire: &mut Wire<'_>) -> Result<(), AttemptError> {
        if let Self::At(next) = self
            && Uptime::now() >= *next
        {
            *next = Uptime::now().plus_ms(SIGN_INTERVAL_MS);
            wire.send(b"\n".to_vec())?;
        }
        Ok(())
    }
}

impl Attempt<'_> {
    /// How the snapshot that follows is to be loaded.
    pub(super) fn load_way(&self) -> LoadWay {
        let keyspace = &self.shared.keyspace;
        match self.shared.config.load().repl_diskless_load {
            ReplDisklessLoad::Disabled => LoadWay::File,
            ReplDisklessLoad::OnEmptyDb if keyspace.key_count() == 0 => LoadWay::InPlace,
            ReplDisklessLoad::OnEmptyDb => LoadWay::File,
            ReplDisklessLoad::FlushBeforeLoad => LoadWay::InPlace,
            ReplDisklessLoad::SwapDb if keyspace.can_stage() => LoadWay::Beside,
            ReplDisklessLoad::SwapDb => {
                log::warn!("The snapshot is received into a file: there are too many databases for `swapdb`");
                LoadWay::File
            }
        }
    }

    /// Receives the snapshot and loads it. Returns the database that the stream has selected.
    pub(super) fn synchronise(&self, wire: &mut Wire<'_>, of: SnapshotOf) -> Result<DbIndex, AttemptError> {
        let transfer = self.begin_transfer()?;
        let way = self.load_way();
        let db = if way == LoadWay::File {
            let path = temporary_path();
            let received = self.receive(wire, &transfer, &path);
            let installed = received.and_then(|()| {
                wire.pause();
                self.install(wire, of, &path)
            });
            self.keep_file_or_remove(&path, installed.is_ok());
            installed?
        } else {
            self.load_received(wire, &transfer, of, way, Signs::now())?
        };
        self.note_loaded(of, db);
        Ok(db)
    }

    /// Makes the file of a snapshot the dump file, if it is loaded and to be kept, and removes it otherwise.
    pub(super) fn keep_file_or_remove(&self, path: &Path, is_loaded: bool) {
        // As they are now: the transfer may have taken long.
        let config = self.shared.config.load();
        let is_kept = is_loaded
            && keeps_file(&config)
            && disk::current()
                .rename(path, &PathBuf::from(&config.dbfilename))
                .inspect_err(|error| {
                    log::warn!(
                        "Failed trying to rename the temp DB into {} in PRIMARY <-> REPLICA synchronization: {error}",
                        config.dbfilename
                    );
                })
                .is_ok();
        if !is_kept {
            // It may not exist.
            let _ = disk::current().remove(path);
        }
    }

    /// Receives the snapshot into a file.
    pub(super) fn receive(
        &self,
        wire: &mut Wire<'_>,
        transfer: &Transfer,
        path: &Path,
    ) -> Result<(), AttemptError> {
        let mut file = disk::current().create(path).map_err(AttemptError::File)?;
        let mut frame = SnapshotFrame::default();
        await_beginning(wire, transfer, &mut frame, "to disk")?;
        let (mut size, mut written) = (0, 0);
        loop {
            let (bytes, is_complete) = take_input(wire, transfer, &mut frame)?;
            if !bytes.is_empty() {
                file.append(&bytes).map_err(AttemptError::File)?;
                size += bytes.len() as u64;
            }
            if is_complete {
                return file.sync().map_err(AttemptError::File);
            }
            if size - written >= WRITE_SIZE {
                file.begin_writing(written..size);
                written = size;
            }
            wire.receive()?;
        }
    }

    /// Loads the file of a snapshot on another thread. Meanwhile the primary is told that this one lives.
    fn install(&self, wire: &mut Wire<'_>, of: SnapshotOf, path: &Path) -> Result<DbIndex, AttemptError> {
        let (shared, path) = (self.shared, path.to_owned());
        let loader = self.start_loader(move || install::replace_data(shared, &path, of))?;
        Ok(self.await_loader(wire, &loader, &mut Signs::now())?)
    }

    /// Loads the snapshot while it is received. Returns the database that the stream has selected.
    pub(super) fn load_received(
        &self,
        wire: &mut Wire<'_>,
        transfer: &Transfer,
        of: SnapshotOf,
        way: LoadWay,
        mut signs: Signs,
    ) -> Result<DbIndex, AttemptError> {
        let mut frame = SnapshotFrame::default();
        let size = await_beginning(wire, transfer, &mut frame, "to parser")?;
        let (feed, snapshot) = received::pipe(size);
        let shared = self.shared;
        let load = match way {
            LoadWay::Beside => install::swap_data_received,
            LoadWay::File | LoadWay::InPlace => install::replace_data_received,
        };
        let loader = self.start_loader(move || load(shared, snapshot, of))?;
        let fed = feed_loader(wire, transfer, &mut frame, &feed, &loader, &mut signs);
        drop(feed);
        match fed {
            Ok(()) => {
                wire.pause();
                self.await_loader(wire, &loader, &mut signs).map_err(|_| AttemptError::NotLoaded)
            }
            Err(AttemptError::NotLoaded) => Err(AttemptError::NotLoaded),
            Err(error) => {
                // It ends because its input has.
                let _ = loader.recv();
                log::warn!("{}", AttemptError::NotLoaded);
                Err(error)
            }
        }
    }

    /// Notes that the data are those of a snapshot: if the stream is lost, another attempt continues from here.
    pub(super) fn note_loaded(&self, of: SnapshotOf, db: DbIndex) {
        let mut state = self.shared.replication.role.lock();
        if state.epoch == of.epoch {
            (state.may_continue, state.stream_db) = (true, db);
        }
    }

    /// Runs `load` on a thread of its own.
    fn start_loader(
        &self,
        load: impl FnOnce() -> Installed + Send + 'static,
    ) -> Result<Receiver<Installed>, AttemptError> {
        let (sender, receiver) = channel();
        let shared = self.shared;
        let body = move || {
            let _handler_stack = os::fault::prepare_thread();
            // The receiver is waiting.
            let _ = sender.send(load());
            shared.replication.role.wake();
        };
        let started = sync::thread::Builder::new().name("broadloom-load".to_owned()).spawn(body);
        started.map(|_| receiver).map_err(AttemptError::File)
    }

    /// Waits for the loader, which has all that it needs.
    fn await_loader(
        &self,
        wire: &mut Wire<'_>,
        loader: &Receiver<Installed>,
        signs: &mut Signs,
    ) -> Installed {
        let mut is_alive = matches!(signs, Signs::At(_));
        loop {
            if let Ok(installed) = loader.try_recv() {
                return installed;
            }
            // The load goes on if the connection ends: the data replace the former ones as a whole.
            if is_alive {
                is_alive = self.is_current()
                    && signs.send_if_due(wire).is_ok()
                    && wire.idle(Duration::from_secs(1)).is_ok();
            } else {
                sync::thread::sleep(LONE_LOADER_INTERVAL);
            }
        }
    }
}

/// Whether the file of a snapshot becomes the dump file.
fn keeps_file(config: &Config) -> bool {
    config.appendonly || !config.save.0.is_empty() || !config.rdb_del_sync_files
}

/// Receives the first line. Returns the size of the snapshot, if that is announced.
fn await_beginning(
    wire: &mut Wire<'_>,
    transfer: &Transfer,
    frame: &mut SnapshotFrame,
    target: &str,
) -> Result<Option<u64>, AttemptError> {
    loop {
        if wire.input.is_empty() {
            wire.receive()?;
        }
        note_arrival(transfer);
        let bytes = std::mem::take(&mut wire.input);
        let (taken, step) = frame.receive(&bytes, &mut Vec::new())?;
        wire.input = bytes[taken..].to_vec();
        let SnapshotStep::Begun(size) = step else { continue };
        match size {
            Some(size) => {
                log::info!("PRIMARY <-> REPLICA sync: receiving {size} bytes from primary {target}");
                transfer.total.store(size, Ordering::Relaxed);
            }
            None => {
                log::info!("PRIMARY <-> REPLICA sync: receiving streamed RDB from primary with EOF {target}")
            }
        }
        return Ok(size);
    }
}

/// Takes what has arrived. Returns the bytes of the snapshot in it, and whether the snapshot is complete; then the stream stays.
fn take_input(
    wire: &mut Wire<'_>,
    transfer: &Transfer,
    frame: &mut SnapshotFrame,
) -> Result<(Vec<u8>, bool), AttemptError> {
    let input = std::mem::take(&mut wire.input);
    note_arrival(transfer);
    let mut bytes = Vec::with_capacity(input.len());
    let (taken, step) = frame.receive(&input, &mut bytes)?;
    transfer.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let is_complete = step == SnapshotStep::Ended;
    if is_complete {
        wire.input = input[taken..].to_vec();
    }
    Ok((bytes, is_complete))
}

fn note_arrival(transfer: &Transfer) {
    transfer.at.store((clock::unix_millis() / 1000) as u64, Ordering::Relaxed);
}

/// Receives the snapshot and passes it to the loader, at the speed of the slower.
///
/// # Errors
/// Of the connection; the loader has failed.
fn feed_loader(
    wire: &mut Wire<'_>,
    transfer: &Transfer,
    frame: &mut SnapshotFrame,
    feed: &SnapshotFeed,
    loader: &Receiver<Installed>,
    signs: &mut Signs,
) -> Result<(), AttemptError> {
    loop {
        let (bytes, is_complete) = take_input(wire, transfer, frame)?;
        feed.add(bytes);
        if is_complete {
            feed.complete();
            return Ok(());
        }
        let mut is_paused = false;
        while !feed.await_room(LOADER_INTERVAL) {
            if !is_paused {
                wire.pause();
                is_paused = true;
            }
            signs.send_if_due(wire)?;
            wire.idle(Duration::ZERO)?;
            // It notices that the attempt is given up.
            wire.receive_within(Duration::ZERO)?;
        }
        if is_paused {
            wire.resume();
        }
        if loader.try_recv().is_ok() {
            return Err(AttemptError::NotLoaded);
        }
        signs.send_if_due(wire)?;
        if wire.input.is_empty() {
            wire.receive_within(LOADER_INTERVAL)?;
        }
    }
}

/// A name for the file of a snapshot. Servers with the same directory, even several of one simulation, have files of their own.
pub(super) fn temporary_path() -> PathBuf {
    let seconds = clock::unix_millis() / 1000;
    PathBuf::from(format!("temp-{seconds}.{}.rdb", &random_id()[..16]))
}

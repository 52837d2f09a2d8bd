//! Snapshots: at most one at a time, taken by threads of their own while clients are served.
//!
//! [`Snapshots::begin`] accepts a [`Request`] and returns. Then, on a thread `broadloom-save`:
//!
//! 1. the *cut*: under all latches the state to be saved is fixed, and `request.at_cut` runs. A command that holds all
//!    latches can make the cut itself, see [`Snapshots::begin_now`];
//! 2. walkers encode the entries in the slots, and write them and the preserved entries to the outputs;
//! 3. `done` of each output runs with its result: it is complete, or has nothing of the snapshot.
//!
//! Owns the threads, the buffer of preserved entries and the state for `INFO`. Waits for latches by parking, as sessions
//! do, with tokens that no connection has ([`LatchWakes`]).
//!
//! | state | to | by |
//! |---|---|---|
//! | idle | busy | [`Snapshots::begin`] |
//! | busy | busy, cancelled | [`Snapshots::cancel`], or an error: the walk continues, to remove its marks |
//! | either | idle | the end of the walk; then `done` runs |

mod elements;
mod file;
mod output;
mod pass;
mod preserved;
mod settings;
mod status;
mod wakes;

use std::sync::{Arc, PoisonError};

use keyspace::{CutDatabase, Keyspace, Latched};
use os::clock::Uptime;
use rdb::{Checksum, Encoder, Family, Version};
use sync::atomic::{AtomicI64, AtomicU64, Ordering};
use sync::mpsc::{self, Sender};
use sync::{Mutex, OnceLock};

pub use self::file::{FileOutput, SnapshotFile};
pub use self::output::{Done, OutputError, Recipient, SnapshotOutput};
pub use self::pass::{SaveError, Saved};
use self::preserved::{Preserved, PreservedSink};
pub use self::settings::Settings;
pub use self::status::{SaveFigures, Status};
pub use self::wakes::LatchWakes;

/// The purpose of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPurpose {
    /// A dump.
    Dump(SaveKind),
    /// The base of an append-only file.
    Base,
    /// The data for replicas.
    Replicas,
}

/// The kinds of saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveKind {
    /// `BGSAVE` or a save point: no client waits for it. After a failure writes are refused if save points require that.
    Background,
    /// `SAVE`, or a save for a shutdown: its client receives the error if it fails.
    Foreground,
}

/// A request for a snapshot.
pub struct Request {
    /// Why it is taken.
    pub purpose: SnapshotPurpose,
    /// Who receives it; at least one.
    pub recipients: Vec<Recipient>,
    /// How it is written.
    pub settings: Settings,
    /// Runs at the cut, under all latches. Returns further properties for the file, with their names.
    pub at_cut: AtCut,
}

/// See [`Request::at_cut`].
pub type AtCut = Box<dyn FnOnce() -> Vec<(&'static str, String)> + Send>;

/// The versions of the servers that the file names, for each family of versions of the format.
#[derive(Clone, Copy, Debug)]
pub struct ServerVersions {
    /// Of Redis.
    pub redis: &'static str,
    /// Of Valkey.
    pub valkey: &'static str,
}

impl ServerVersions {
    /// The property with the server's version.
    fn property(&self, family: Family) -> (&'static str, &'static str) {
        match family {
            Family::Redis => ("redis-ver", self.redis),
            Family::Valkey => ("valkey-ver", self.valkey),
        }
    }
}

/// A complete snapshot with these libraries of functions and no keys, in a version that all servers read that have functions.
#[must_use]
pub fn without_keys(libraries: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = Encoder::new(Version::V11, false);
    let mut bytes = Vec::new();
    encoder.write_header(&mut bytes);
    libraries.iter().for_each(|source| encoder.write_function(source, &mut bytes));
    rdb::write_end(&mut bytes);
    bytes.extend(Checksum::of(&bytes).to_le_bytes());
    bytes
}

/// The number of a snapshot, with which it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId(pub(crate) u64);

/// Another snapshot is being taken; the request was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The bit of a [`SnapshotId`] that a dump has.
const DUMP: u64 = 1;

/// No number: a snapshot is about to have one.
const BEGINNING: u64 = u64::MAX;

/// An accepted request, with the databases of its cut if the cut is already made.
struct Job {
    request: Box<Request>,
    databases: Option<Vec<CutDatabase>>,
}

/// See the module documentation.
pub struct Snapshots {
    keyspace: OnceLock<&'static Keyspace>,
    preserved: Arc<Preserved>,
    wakes: &'static LatchWakes,
    versions: ServerVersions,
    sender: Mutex<Option<Sender<Job>>>,
    /// The [`SnapshotId`] of the snapshot that is being taken; 0: none.
    running: AtomicU64,
    /// That of the last one that was cancelled: it says nothing about the following one.
    cancelled: AtomicU64,
    begun_count: AtomicU64,
    /// Those that were begun for no waiting client, since the last reset.
    background_count: AtomicU64,
    /// `rdb-key-save-delay`: microseconds for a key; negative: keys for a microsecond.
    key_delay: AtomicI64,
    /// Returns how many requests the server has run.
    request_count: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    /// Returns the sources of the libraries of functions.
    libraries: OnceLock<Box<dyn Fn() -> Vec<Vec<u8>> + Send + Sync>>,
    /// The sources at the cut of the running snapshot.
    cut_libraries: Mutex<Vec<Vec<u8>>>,
    /// What the request's `at_cut` has returned.
    cut_properties: Mutex<Vec<(&'static str, String)>>,
    /// The state for `INFO`.
    pub status: Status,
}

impl Snapshots {
    /// Returns the snapshots of a keyspace that is still to be created.
    #[must_use]
    pub fn new(wakes: &'static LatchWakes, versions: ServerVersions, started_at_seconds: i64) -> Self {
        Self {
            keyspace: OnceLock::new(),
            preserved: Arc::default(),
            wakes,
            versions,
            sender: Mutex::default(),
            running: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            begun_count: AtomicU64::new(0),
            background_count: AtomicU64::new(0),
            key_delay: AtomicI64::new(0),
            request_count: OnceLock::new(),
            libraries: OnceLock::new(),
            cut_libraries: Mutex::default(),
            cut_properties: Mutex::default(),
            status: Status::new(started_at_seconds),
        }
    }

    /// Sets the keyspace. Called once.
    pub fn connect(&self, keyspace: &'static Keyspace) {
        self.keyspace.get_or_init(|| keyspace);
        keyspace.snapshot.connect(Box::new(PreservedSink(Arc::clone(&self.preserved))));
    }

    /// Sets the function that receives whether changes of unsaved entries must wait. Called once.
    pub fn at_pressure(&self, pressure: impl Fn(bool) + Send + Sync + 'static) {
        self.preserved.at_pressure(Box::new(pressure));
    }

    /// Sets the function that returns how many requests the server has run: while it runs none, a snapshot leaves no CPU time to
    /// them. Called once.
    pub fn beside_requests(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.request_count.get_or_init(|| Box::new(count));
    }

    fn request_count(&self) -> Option<u64> {
        self.request_count.get().map(|count| count())
    }

    /// Sets the function that returns the sources of the libraries of functions. Called once.
    pub fn with_libraries(&self, libraries: impl Fn() -> Vec<Vec<u8>> + Send + Sync + 'static) {
        self.libraries.get_or_init(|| Box::new(libraries));
    }

    /// Sets `rdb-key-save-delay`, also for the snapshot that is being taken.
    pub fn set_key_delay(&self, delay: i32) {
        self.key_delay.store(delay.into(), Ordering::Relaxed);
    }

    fn key_delay(&self) -> i64 {
        self.key_delay.load(Ordering::Relaxed)
    }

    /// Whether a snapshot is being taken.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.running.load(Ordering::Acquire) != 0
    }

    /// Whether a snapshot is being taken that is not about to end because it was cancelled.
    #[must_use]
    pub fn is_going_on(&self) -> bool {
        self.is_busy() && !self.is_cancelled()
    }

    /// Whether this snapshot is being taken.
    #[must_use]
    pub fn is_running(&self, id: SnapshotId) -> bool {
        id.0 != 0 && self.running.load(Ordering::Acquire) == id.0
    }

    /// Whether the snapshot that is being taken was cancelled. Exact for its own threads.
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) == self.running.load(Ordering::Acquire)
    }

    /// Bytes of preserved entries that are not written yet.
    #[must_use]
    pub fn preserved_bytes(&self) -> usize {
        self.preserved.size()
    }

    /// Bytes of memory of the buffers of the running snapshot.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.preserved.memory()
    }

    /// Begins a snapshot, whose cut follows soon.
    ///
    /// # Errors
    /// Another one is being taken.
    pub fn begin(&'static self, request: Request) -> Result<SnapshotId, Busy> {
        let (request, id) = self.accept(request)?;
        self.send(Job { request, databases: None });
        Ok(id)
    }

    /// Begins a snapshot of this instant. All slots must be held.
    ///
    /// # Errors
    /// Another one is being taken.
    pub fn begin_now(&'static self, data: &mut Latched<'_>, request: Request) -> Result<SnapshotId, Busy> {
        let (mut request, id) = self.accept(request)?;
        let databases = data.begin_snapshot(|databases| self.at_cut(databases, &mut request));
        self.send(Job { request, databases: Some(databases) });
        Ok(id)
    }

    /// Ends the snapshot that is being taken, whatever it is, without a result: each `done` gets [`SaveError::Cancelled`].
    pub fn cancel(&self) {
        // One that begins in between is not affected.
        self.cancel_only(SnapshotId(self.running.load(Ordering::Acquire)));
    }

    /// As [`Self::cancel`], if it is a dump.
    pub fn cancel_dump(&self) {
        let running = self.running.load(Ordering::Acquire);
        if running & DUMP != 0 {
            self.cancel_only(SnapshotId(running));
        }
    }

    /// As [`Self::cancel`], if it is this one.
    pub fn cancel_only(&self, id: SnapshotId) {
        // A late call for a former snapshot must not hide the call for this one.
        if id.0 != 0 && id.0 != BEGINNING && id.0 == self.running.load(Ordering::Acquire) {
            self.cancelled.fetch_max(id.0, Ordering::AcqRel);
        }
    }

    /// The number of snapshots that were begun in the background, since the start or the last reset.
    #[must_use]
    pub fn background_count(&self) -> u64 {
        self.background_count.load(Ordering::Relaxed)
    }

    /// Resets [`Self::background_count`].
    pub fn reset_count(&self) {
        self.background_count.store(0, Ordering::Relaxed);
    }

    /// Ends the threads when they are idle.
    pub fn end(&self) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(sender);
    }

    fn accept(&self, request: Request) -> Result<(Box<Request>, SnapshotId), Busy> {
        if self.running.compare_exchange(0, BEGINNING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(Busy);
        }
        // Only one thread is here, so numbers ascend.
        let number = self.begun_count.fetch_add(1, Ordering::Relaxed) + 1;
        let id = number << 1 | u64::from(matches!(request.purpose, SnapshotPurpose::Dump(_)));
        self.running.store(id, Ordering::Release);
        if request.purpose != SnapshotPurpose::Dump(SaveKind::Foreground) {
            self.background_count.fetch_add(1, Ordering::Relaxed);
        }
        self.status.begin(request.purpose, Uptime::now());
        Ok((Box::new(request), SnapshotId(id)))
    }

    /// The work at the cut besides the keyspace's part. No entry may be preserved before.
    fn at_cut(&self, databases: &[CutDatabase], request: &mut Request) {
        let has_volatile_members = databases.iter().any(|database| database.population.volatile_members > 0);
        request.settings.decide_version(has_volatile_members);
        self.preserved.begin(request.settings.encoding(), request.settings.preserved_size_max);
        *self.cut_libraries.lock().unwrap_or_else(PoisonError::into_inner) = self.libraries();
        let keyspace = self.keyspace();
        self.status.cut(keyspace.counters.sum(|counters| &counters.dirty), databases);
        let at_cut = std::mem::replace(&mut request.at_cut, Box::new(Vec::new));
        *self.cut_properties.lock().unwrap_or_else(PoisonError::into_inner) = at_cut();
    }

    /// The sources of the libraries of functions.
    #[must_use]
    pub fn libraries(&self) -> Vec<Vec<u8>> {
        self.libraries.get().map(|libraries| libraries()).unwrap_or_default()
    }

    fn keyspace(&self) -> &'static Keyspace {
        self.keyspace.get().expect("connected at the start")
    }

    /// Passes a job to the thread, which is started if necessary.
    fn send(&'static self, job: Job) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = self.start();
        }
        let unsent = match &*sender {
            Some(sender) => sender.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        drop(sender);
        if let Some(job) = unsent {
            // Without a thread the marks of a finished cut would stay: this thread removes them.
            self.cancel();
            self.run(job);
        }
    }

    fn start(&'static self) -> Option<Sender<Job>> {
        let (sender, receiver) = mpsc::channel::<Job>();
        let run = move || receiver.iter().for_each(|job| self.run(job));
        match sync::thread::Builder::new().name("broadloom-save".to_owned()).spawn(run) {
            Ok(_) => Some(sender),
            Err(error) => {
                log::warn!("Can't start the snapshot thread: {error}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(purpose: SnapshotPurpose) -> Request {
        let settings = Settings::of(&config::Config::default(), 0, (0, 0));
        Request { purpose, recipients: Vec::new(), settings, at_cut: Box::new(Vec::new) }
    }

    #[test]
    fn a_late_cancellation_does_not_hit_the_next_snapshot() {
        let snapshots =
            Snapshots::new(Box::leak(Box::default()), ServerVersions { redis: "7", valkey: "8" }, 0);
        let base = || request(SnapshotPurpose::Base);
        let dump = SnapshotPurpose::Dump(SaveKind::Background);
        let (_, first) = snapshots.accept(base()).unwrap();
        assert!(snapshots.accept(base()).is_err());
        snapshots.cancel_dump();
        assert!(snapshots.is_going_on(), "it is no dump");
        snapshots.running.store(0, Ordering::Release);
        snapshots.accept(request(dump)).unwrap();
        snapshots.cancel_only(first);
        assert!(snapshots.is_going_on());
        snapshots.cancel_dump();
        assert!(snapshots.is_busy() && !snapshots.is_going_on());
        snapshots.cancel_only(first);
        assert!(snapshots.is_cancelled());
        snapshots.running.store(0, Ordering::Release);
        snapshots.accept(base()).unwrap();
        assert!(snapshots.is_going_on());
    }
}

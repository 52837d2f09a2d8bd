//! One snapshot: the cut, the walk by several threads, and the file.
//!
//! The threads take slots in ascending order. Each encodes a portion under a read latch, and writes to the file when it
//! has enough bytes, without a latch. Between portions it sleeps as long as its share of the CPU requires.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::limits::SLOT_COUNT;
use base::{DbIndex, Slot};
use keyspace::{CutDatabase, CutEntry, Keyspace, Waiting};
use os::clock::{Ticks, Uptime};
use persist::snapshot::SnapshotFile;
use rdb::Encoder;
use sync::Mutex;
use sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::preserved::Records;
use super::settings::Settings;
use super::wakes::LatchWakes;
use super::{Job, Snapshots, Target};
use crate::disk::{self, ServerDisk};

/// Entries, and bytes of their records, after which a slot is released: some tens of microseconds.
const PORTION_LEN: usize = 64;
const PORTION_SIZE: usize = 16 << 10;

/// Bytes that a thread collects before it writes them.
const WRITE_SIZE: usize = 256 << 10;

/// Bytes of preserved entries from which they are written.
const PRESERVED_SIZE: usize = 64 << 10;

/// Nanoseconds of work after which a thread sleeps: a worker that wakes on the same CPU may wait so long.
const WORK_NS: u64 = 400_000;

/// The time slice of a thread: longer than its work, so that it seldom ends under a latch.
const TIME_SLICE: Duration = Duration::from_micros(500);

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Number of keys.
    pub key_count: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// An operation of the file system failed.
    #[error("can't {action}: {source}")]
    Disk {
        /// The operation.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// A hash has field expiries, which the configured version does not have.
    #[error("rdb-version {0} can't hold the expiries of hash fields")]
    Version(u16),
    /// Not every element of a large collection is in the file.
    #[error("{saved} elements of {expected} of a collection are in the file")]
    IncompleteCollection {
        /// Elements that were written.
        saved: usize,
        /// Elements at the cut.
        expected: usize,
    },
    /// Not every key of the cut is in the file.
    #[error("{saved} keys are in the file, not {expected}")]
    Incomplete {
        /// Keys that were written.
        saved: u64,
        /// Keys at the cut.
        expected: u64,
    },
}

/// The state that the threads of a snapshot share.
pub(super) struct Run {
    pub(super) snapshots: &'static Snapshots,
    pub(super) keyspace: &'static Keyspace,
    settings: Settings,
    pub(super) databases: Vec<CutDatabase>,
    next_slot: AtomicUsize,
    key_count: AtomicU64,
    output: Mutex<Output>,
}

/// The file.
pub(super) struct Output {
    /// `None` after an error.
    file: Option<SnapshotFile<ServerDisk>>,
    error: Option<SaveError>,
    /// The database of the last record.
    selected: Option<DbIndex>,
    /// For each database of the cut, whether its size was written.
    is_announced: Vec<bool>,
}

impl Snapshots {
    /// Takes a snapshot.
    pub(super) fn run(&'static self, job: Job) {
        let Job { mut request, databases } = job;
        adapt_thread(&request.settings.cpus);
        let keyspace = self.keyspace();
        let databases = databases.unwrap_or_else(|| {
            let wait = || self.wakes.wait(0);
            let all = keyspace.latch_all_slots(&waiting(0, &wait));
            all.begin_snapshot(|databases| self.at_cut(databases, &mut request))
        });
        let (target, settings) = (request.target.clone(), request.settings.clone());
        let run = Arc::new(Run {
            snapshots: self,
            keyspace,
            output: Mutex::new(Output::create(&target, &settings, databases.len())),
            settings,
            databases,
            next_slot: AtomicUsize::new(0),
            key_count: AtomicU64::new(0),
        });
        run.begin_file(&target);
        run.walk_all();
        let result = run.end(&target);
        self.status.end(match &result {
            Ok(_) => Some(true),
            Err(SaveError::Cancelled) => None,
            Err(_) => Some(false),
        });
        self.running.store(0, Ordering::Release);
        (request.done)(result);
    }
}

impl Run {
    /// Writes the header and the properties, which precede the keys.
    fn begin_file(&self, target: &Target) {
        let encoding = self.settings.encoding();
        let mut encoder = Encoder::new(encoding.version, false);
        let mut bytes = Vec::new();
        encoder.write_header(&mut bytes);
        let (name, version) = encoding.server_version();
        let is_base = u8::from(matches!(target, Target::Base { .. }));
        let properties = [
            (name, version.to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", (self.settings.now_ms / 1000).to_string()),
            ("used-mem", self.settings.used_memory.to_string()),
            ("aof-base", is_base.to_string()),
        ];
        for (name, value) in properties {
            encoder.write_aux(name.as_bytes(), value.as_bytes(), &mut bytes);
        }
        let mut libraries = self.snapshots.cut_libraries.lock().unwrap_or_else(PoisonError::into_inner);
        for source in std::mem::take(&mut *libraries) {
            encoder.write_function(&source, &mut bytes);
        }
        drop(libraries);
        self.lock_output().append(&bytes);
        self.stop_after_error();
    }

    /// Walks all slots, and the tables that are flushed meanwhile.
    fn walk_all(self: &Arc<Self>) {
        let others: Vec<_> = (1..self.settings.thread_count)
            .filter_map(|walker| {
                let run = Arc::clone(self);
                let walk = move || {
                    adapt_thread(&run.settings.cpus);
                    run.walk_slots(walker);
                };
                let thread = sync::thread::Builder::new().name(format!("broadloom-save-{walker}"));
                thread
                    .spawn(walk)
                    .map_err(|error| log::warn!("Can't start a further snapshot thread: {error}"))
                    .ok()
            })
            .collect();
        self.walk_slots(0);
        for other in others {
            if other.join().is_err() {
                self.lock_output().fail("walk", io::Error::other("a thread has ended early"));
            }
        }
        self.walk_flushed();
    }

    /// One thread's part of the walk.
    fn walk_slots(&self, number: usize) {
        let wait = || self.snapshots.wakes.wait(number);
        let waiting = waiting(number, &wait);
        let walker = RefCell::new(Walker::new(self));
        loop {
            let slot = self.next_slot.fetch_add(1, Ordering::Relaxed);
            if slot >= SLOT_COUNT {
                break;
            }
            let slot = Slot::new(slot as u16);
            let mut is_done = false;
            while !is_done {
                walker.borrow_mut().begin_portion();
                let visit = |entry: CutEntry<'_>| walker.borrow_mut().add(entry);
                let enough = || walker.borrow().has_enough();
                is_done = self.keyspace.snapshot_slot(slot, &self.databases, &waiting, visit, enough);
                walker.borrow_mut().write_collections(&waiting);
                walker.borrow_mut().end_portion();
            }
        }
        walker.borrow_mut().write();
    }

    fn walk_flushed(&self) {
        let wait = || self.snapshots.wakes.wait(0);
        let waiting = waiting(0, &wait);
        let walker = RefCell::new(Walker::new(self));
        let mut is_done = false;
        while !is_done {
            walker.borrow_mut().begin_portion();
            let visit = |entry: CutEntry<'_>| walker.borrow_mut().add(entry);
            is_done = self.keyspace.snapshot_flushed(visit, || walker.borrow().has_enough());
            walker.borrow_mut().write_collections(&waiting);
            walker.borrow_mut().end_portion();
        }
        walker.borrow_mut().write();
    }

    /// Whether the walk only removes marks.
    pub(super) fn is_over(&self) -> bool {
        self.snapshots.is_cancelled()
    }

    /// If the file has failed, makes the rest of the walk only remove marks.
    pub(super) fn stop_after_error(&self) {
        if self.lock_output().error.is_some() {
            self.snapshots.cancel();
        }
    }

    fn write(&self, records: &mut Records) {
        let mut output = self.lock_output();
        for (db, bytes) in records.runs() {
            output.select(db, &self.databases);
            output.append(bytes);
        }
        drop(output);
        self.note_written(records.key_count as u64);
        records.clear();
        self.stop_after_error();
    }

    /// Counts keys that are written.
    pub(super) fn note_written(&self, key_count: u64) {
        let before = self.key_count.fetch_add(key_count, Ordering::Relaxed);
        self.snapshots.status.processed(before + key_count);
    }

    /// Completes the file.
    fn end(&self, target: &Target) -> Result<Saved, SaveError> {
        self.keyspace.snapshot.cancel();
        self.snapshots.preserved.take(|mut records| self.write(&mut records));
        let mut output = self.lock_output();
        let (file, error) = (output.file.take(), output.error.take());
        drop(output);
        if let Some(error) = error {
            return Err(error);
        }
        if self.snapshots.preserved.has_failed() {
            return Err(SaveError::Version(self.settings.encoding().version.number));
        }
        let Some(mut file) = file.filter(|_| !self.is_over()) else { return Err(SaveError::Cancelled) };
        let expected = self.databases.iter().map(|database| database.population.keys).sum();
        let key_count = self.key_count.load(Ordering::Relaxed);
        if key_count != expected {
            return Err(SaveError::Incomplete { saved: key_count, expected });
        }
        let path = path_of(target);
        let failed = |source| SaveError::Disk { action: format!("write {}", path.display()), source };
        file.finish().map_err(failed)?;
        self.log_reduced();
        let saved = Saved { key_count, size: file.size() };
        match target {
            Target::Dump { .. } => file.publish(&path).map_err(failed)?,
            Target::Base { .. } => file.leave(),
        }
        Ok(saved)
    }

    /// Logs what the version left out.
    fn log_reduced(&self) {
        let count = self.snapshots.preserved.reduced_count();
        if count > 0 {
            log::warn!(
                "rdb-version {} has no place for parts of {count} streams, which are not in the file: the numbers of entries \
                 added and read, the greatest deleted id, and when consumers were active",
                self.settings.encoding().version.number
            );
        }
    }

    pub(super) fn lock_output(&self) -> sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    fn create(target: &Target, settings: &Settings, db_count: usize) -> Self {
        let path = match target {
            Target::Dump { directory, .. } => directory.join(format!("temp-{}.rdb", std::process::id())),
            Target::Base { path } => path.clone(),
        };
        let mut output =
            Self { file: None, error: None, selected: None, is_announced: vec![false; db_count] };
        match SnapshotFile::create(disk::current(), path.clone(), settings.file) {
            Ok(file) => output.file = Some(file),
            Err(source) => {
                let action = format!("create {}", path.display());
                output.error = Some(SaveError::Disk { action, source });
            }
        }
        output
    }

    /// Selects a database of the cut, and writes its size the first time.
    pub(super) fn select(&mut self, db: DbIndex, databases: &[CutDatabase]) {
        if self.selected == Some(db) {
            return;
        }
        self.selected = Some(db);
        let mut bytes = Vec::new();
        rdb::write_select(db.0.into(), &mut bytes);
        if let Some(place) = databases.iter().position(|database| database.db == db)
            && !std::mem::replace(&mut self.is_announced[place], true)
        {
            let population = databases[place].population;
            rdb::write_resize(population.keys, population.volatile, &mut bytes);
        }
        self.append(&bytes);
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(source) = file.append(bytes) {
            self.fail("write the temporary file", source);
        }
    }

    /// Drops the file, which removes it.
    fn fail(&mut self, action: &str, source: io::Error) {
        self.fail_with(SaveError::Disk { action: action.to_owned(), source });
    }

    pub(super) fn fail_with(&mut self, error: SaveError) {
        self.file = None;
        self.error.get_or_insert(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// The records that one thread has encoded and not yet written.
pub(super) struct Walker<'a> {
    pub(super) run: &'a Run,
    encoder: Encoder,
    records: Records,
    /// Whether the walk only removes marks.
    pub(super) is_over: bool,
    /// The time at which it began to work after its last sleep.
    worked_since: Ticks,
    /// Keys, and bytes of records, of this portion.
    portion_len: usize,
    portion_size: usize,
    /// Keys that were not delayed yet.
    undelayed: u64,
    /// Bytes of memory of `records` that are counted.
    counted_memory: usize,
}

impl<'a> Walker<'a> {
    fn new(run: &'a Run) -> Self {
        let encoding = run.settings.encoding();
        Self {
            run,
            encoder: Encoder::new(encoding.version, encoding.is_packing),
            records: Records::default(),
            is_over: false,
            worked_since: Ticks::now(),
            portion_len: 0,
            portion_size: 0,
            undelayed: 0,
            counted_memory: 0,
        }
    }

    fn begin_portion(&mut self) {
        (self.portion_len, self.portion_size) = (0, 0);
        if !self.is_over && self.run.is_over() {
            self.is_over = true;
            self.records.clear();
            // Changes need not preserve entries any more.
            self.run.keyspace.snapshot.cancel();
        }
    }

    fn has_enough(&self) -> bool {
        self.portion_len >= PORTION_LEN || self.portion_size >= PORTION_SIZE
    }

    /// Runs under a read latch.
    fn add(&mut self, seen: CutEntry<'_>) {
        self.portion_len += 1;
        if self.is_over {
            return;
        }
        let (encoding, size_before) = (self.run.settings.encoding(), self.records.bytes.len());
        let (preserved, entry) = (&self.run.snapshots.preserved, (seen.entry, seen.alloc));
        let encoding = (&mut self.encoder, &encoding);
        self.counted_memory =
            preserved.encode(&mut self.records, encoding, seen.db, entry, self.counted_memory);
        self.portion_size += self.records.bytes.len() - size_before;
    }

    /// Without a latch: writes, delays and sleeps as necessary.
    fn end_portion(&mut self) {
        if self.is_over {
            return;
        }
        if self.records.bytes.len() >= WRITE_SIZE {
            self.write();
        }
        if self.run.snapshots.preserved.size() >= PRESERVED_SIZE {
            self.run.snapshots.preserved.take(|mut records| self.run.write(&mut records));
        }
        if self.run.settings.key_delay != 0 {
            self.delay();
        }
        self.sleep_if_due();
    }

    /// Sleeps after [`WORK_NS`] of work, as long as its share of the CPU requires.
    pub(super) fn sleep_if_due(&mut self) {
        let percent = u64::from(self.run.settings.cpu_percent);
        let worked_ns = Ticks::now().ns_since(self.worked_since);
        if worked_ns >= WORK_NS {
            if percent < 100 {
                sync::thread::sleep(Duration::from_nanos(worked_ns * (100 - percent) / percent));
            }
            self.worked_since = Ticks::now();
        }
    }

    /// `rdb-key-save-delay`, in short parts, so that a cancelled snapshot ends soon.
    fn delay(&mut self) {
        self.undelayed += self.portion_len as u64;
        let delay = self.run.settings.key_delay;
        let keys_a_micro = if delay < 0 { u64::from(delay.unsigned_abs()) } else { 1 };
        let micros = self.undelayed / keys_a_micro * delay.max(1) as u64;
        self.undelayed %= keys_a_micro;
        let until = Uptime::now().plus(Duration::from_micros(micros));
        while Uptime::now() < until && !self.run.is_over() {
            sync::thread::sleep(Duration::from_micros(micros.min(10_000)));
        }
        self.worked_since = Ticks::now();
    }

    fn write(&mut self) {
        if !self.is_over {
            self.run.write(&mut self.records);
        }
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        self.run.snapshots.preserved.note_memory(self.counted_memory, 0);
    }
}

fn waiting<'a>(walker: usize, wait: &'a dyn Fn()) -> Waiting<'a> {
    Waiting { token: LatchWakes::token(walker), wait }
}

fn path_of(target: &Target) -> PathBuf {
    match target {
        Target::Dump { directory, name, .. } => directory.join(Path::new(name)),
        Target::Base { path } => path.clone(),
    }
}

fn adapt_thread(cpus: &[usize]) {
    if sync::simulation::is_simulated() {
        return;
    }
    if !cpus.is_empty()
        && let Err(error) = os::threads::set_thread_affinity(cpus)
    {
        log::warn!("A snapshot thread can't be bound to its CPUs: {error}");
    }
    // On a crowded machine, a walker that is preempted while it holds a latch runs again after one short slice of each other
    // thread. With a longer slice it waited for several slices of all others, and clients of the slot with it.
    if let Err(error) = os::threads::set_time_slice(TIME_SLICE) {
        log::debug!("A snapshot thread has an ordinary time slice: {error}");
    }
}

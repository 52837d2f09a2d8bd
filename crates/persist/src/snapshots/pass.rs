//! One snapshot: the cut, the walk by several threads, and the outputs.
//!
//! The threads take slots in ascending order. Each encodes a portion under a read latch, and writes to the outputs when it
//! has enough bytes, without a latch. Between portions it sleeps as long as its share of the CPU requires, if there are
//! requests beside it.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::Slot;
use base::limits::SLOT_COUNT;
use keyspace::{CutDatabase, CutEntry, Keyspace, Waiting};
use os::clock::Ticks;
use rdb::Encoder;
use sync::Mutex;
use sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::output::{OutputError, Outputs, Recipient};
use super::preserved::Records;
use super::settings::Settings;
use super::wakes::LatchWakes;
use super::{Job, Request, SnapshotPurpose, Snapshots};

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

/// The time after which outputs that were not ready are asked again.
const READY_INTERVAL: Duration = Duration::from_millis(1);

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Number of keys.
    pub key_count: u64,
    /// Bytes that each output has received.
    pub size: u64,
}

/// Why an output has no snapshot.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SaveError {
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The output has failed.
    #[error(transparent)]
    Output(#[from] OutputError),
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
    outputs: Mutex<Outputs>,
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
        let Request { purpose, recipients, settings, .. } = *request;
        let (outputs, done): (Vec<_>, Vec<_>) =
            recipients.into_iter().map(|Recipient { output, done }| (output, done)).unzip();
        let run = Arc::new(Run {
            snapshots: self,
            keyspace,
            outputs: Mutex::new(Outputs::begin(outputs, settings.has_checksum, databases.len())),
            settings,
            databases,
            next_slot: AtomicUsize::new(0),
            key_count: AtomicU64::new(0),
        });
        run.begin_file(purpose);
        run.walk_all();
        let results = run.end();
        // A file comes first: what is reported as saved is in it.
        self.status.end(match results.first() {
            Some(Ok(_)) => Some(true),
            Some(Err(SaveError::Cancelled)) | None => None,
            Some(Err(_)) => Some(false),
        });
        self.running.store(0, Ordering::Release);
        done.into_iter().zip(results).for_each(|(done, result)| done(result));
    }
}

impl Run {
    /// Writes the header and the properties, which precede the keys.
    fn begin_file(&self, purpose: SnapshotPurpose) {
        let encoding = self.settings.encoding();
        let mut encoder = Encoder::new(encoding.version, false);
        let mut bytes = Vec::new();
        encoder.write_header(&mut bytes);
        let (name, version) = self.snapshots.versions.property(self.settings.family());
        let is_base = u8::from(purpose == SnapshotPurpose::Base);
        let properties = [
            (name, version.to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", (self.settings.now_ms / 1000).to_string()),
            ("used-mem", self.settings.used_memory.to_string()),
            ("aof-base", is_base.to_string()),
        ];
        let mut cut_properties = self.snapshots.cut_properties.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in properties.into_iter().chain(std::mem::take(&mut *cut_properties)) {
            encoder.write_aux(name.as_bytes(), value.as_bytes(), &mut bytes);
        }
        drop(cut_properties);
        let mut libraries = self.snapshots.cut_libraries.lock().unwrap_or_else(PoisonError::into_inner);
        for source in std::mem::take(&mut *libraries) {
            encoder.write_function(&source, &mut bytes);
        }
        drop(libraries);
        self.lock_outputs().write(&bytes);
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
                let error = OutputError::new("walk", io::Error::other("a thread has ended early"));
                self.lock_outputs().fail(&error.into());
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

    /// If all outputs have failed, makes the rest of the walk only remove marks.
    pub(super) fn stop_after_error(&self) {
        if self.lock_outputs().have_failed() {
            self.snapshots.cancel();
        }
    }

    /// Returns whether it had to wait for the outputs.
    fn write(&self, records: &mut Records) -> bool {
        let mut outputs = self.lock_outputs();
        let has_waited = self.await_outputs(&mut outputs);
        for (db, bytes) in records.runs() {
            outputs.select(db, &self.databases);
            outputs.write(bytes);
        }
        drop(outputs);
        self.note_written(records.key_count as u64);
        records.clear();
        self.stop_after_error();
        has_waited
    }

    /// Waits, without a latch, until the outputs are ready. Those that are not ready when half of the room for preserved entries
    /// is used fail: no change of a client waits for them. Returns whether it had to wait.
    pub(super) fn await_outputs(&self, outputs: &mut Outputs) -> bool {
        let mut has_waited = false;
        while !outputs.are_ready() && !self.is_over() {
            if self.snapshots.preserved.is_half_full() {
                outputs.fail_slow();
                break;
            }
            has_waited = true;
            sync::thread::sleep(READY_INTERVAL);
        }
        has_waited
    }

    /// Counts keys that are written.
    pub(super) fn note_written(&self, key_count: u64) {
        let before = self.key_count.fetch_add(key_count, Ordering::Relaxed);
        self.snapshots.status.processed(before + key_count);
    }

    /// Completes the outputs. Returns the result of each.
    fn end(&self) -> Vec<Result<Saved, SaveError>> {
        self.keyspace.snapshot.cancel();
        self.snapshots.preserved.take(|mut records| _ = self.write(&mut records));
        let mut outputs = self.lock_outputs();
        let key_count = self.key_count.load(Ordering::Relaxed);
        match self.check(key_count) {
            Err(error) => outputs.fail(&error),
            Ok(()) => {
                outputs.finish();
                if !outputs.have_failed() {
                    self.log_reduced();
                }
            }
        }
        outputs.results(key_count)
    }

    /// Why no output may have the snapshot.
    fn check(&self, key_count: u64) -> Result<(), SaveError> {
        if self.snapshots.preserved.has_failed() {
            return Err(SaveError::Version(self.settings.encoding().version.number));
        }
        if self.is_over() {
            return Err(SaveError::Cancelled);
        }
        let expected = self.databases.iter().map(|database| database.population.keys).sum();
        match key_count == expected {
            true => Ok(()),
            false => Err(SaveError::Incomplete { saved: key_count, expected }),
        }
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

    pub(super) fn lock_outputs(&self) -> sync::MutexGuard<'_, Outputs> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// How many requests the server had run then.
    requests_seen: Option<u64>,
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
            requests_seen: None,
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
            self.run.snapshots.preserved.take(|mut records| _ = self.run.write(&mut records));
        }
        self.delay();
        self.sleep_if_due();
    }

    /// Sleeps after [`WORK_NS`] of work, as long as its share of the CPU requires. It does not sleep if
    /// no request has run since the last time.
    pub(super) fn sleep_if_due(&mut self) {
        let percent = u64::from(self.run.settings.cpu_percent);
        let worked_ns = Ticks::now().ns_since(self.worked_since);
        if worked_ns >= WORK_NS {
            let requests = self.run.snapshots.request_count();
            let is_beside_clients = requests.is_none() || requests != self.requests_seen;
            self.requests_seen = requests;
            if percent < 100 && is_beside_clients {
                sync::thread::sleep(Duration::from_nanos(worked_ns * (100 - percent) / percent));
            }
            self.worked_since = Ticks::now();
        }
    }

    /// What it has waited for is no work.
    pub(super) fn has_rested(&mut self) {
        self.worked_since = Ticks::now();
    }

    /// `rdb-key-save-delay`, in short parts, so that a cancelled snapshot ends soon, and another delay takes effect.
    fn delay(&mut self) {
        let snapshots = self.run.snapshots;
        if snapshots.key_delay() == 0 {
            return;
        }
        self.undelayed += self.portion_len as u64;
        let begun = Ticks::now();
        loop {
            let delay = snapshots.key_delay();
            let keys_a_micro = if delay < 0 { delay.unsigned_abs() } else { 1 };
            let micros = if delay == 0 { 0 } else { self.undelayed / keys_a_micro * delay.max(1) as u64 };
            // Not by `Uptime`, which has whole milliseconds: a portion may have a few keys only.
            if Ticks::now().ns_since(begun) / 1000 >= micros || self.run.is_over() {
                self.undelayed %= keys_a_micro;
                break;
            }
            sync::thread::sleep(Duration::from_micros(micros.min(10_000)));
        }
        self.worked_since = Ticks::now();
    }

    fn write(&mut self) {
        if !self.is_over && self.run.write(&mut self.records) {
            self.has_rested();
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

//! Entries that were about to change, encoded by the threads that change them, until a walker writes them.
//!
//! Each thread has a part, so threads do not wait for each other. The buffer is bounded: when it is full, changes of
//! entries that are not saved yet wait before they latch, see [`Preserved::at_pressure`]. A thread that already holds
//! latches exceeds the bound by its own entries.

use std::sync::{Arc, PoisonError};

use base::DbIndex;
use base::limits::WRITER_COUNT_MAX;
use collections::{AllocContext, ElementSink, Entry, ValueRef};
use keyspace::SnapshotSink;
use rdb::Encoder;
use sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use sync::{Mutex, OnceLock};

use super::elements::Elements;
use super::settings::Encoding;

/// How far below the limit preserved entries are when changes continue. Not far: the elements that a list keeps are freed as
/// slowly as the list is written.
const CONTINUED_SIZE: usize = 256 << 10;

/// Bytes from which on walkers do not sleep.
const SIZE_BUSY: usize = 8 << 20;

/// Bytes of a string that counts before it is encoded.
const COUNTED_AHEAD_SIZE: usize = 64 << 10;

/// Receives whether changes must wait.
pub(super) type Pressure = Box<dyn Fn(bool) + Send + Sync>;

/// The buffer of preserved entries.
pub(super) struct Preserved {
    parts: Box<[Mutex<Part>]>,
    /// Bytes in all parts.
    size: AtomicUsize,
    /// Bytes of memory of the buffers of the snapshot: of these parts, of walkers and of large collections.
    memory: AtomicUsize,
    /// Bytes of preserved entries at which changes begin to wait.
    size_max: AtomicUsize,
    has_failed: AtomicBool,
    /// Number of values of which the version leaves out a part.
    reduced_count: AtomicU64,
    is_full: AtomicBool,
    pressure: OnceLock<Pressure>,
}

/// One thread's part.
#[derive(Default)]
struct Part {
    /// `None` before the first snapshot.
    encoding: Option<Encoding>,
    encoder: Option<Box<Encoder>>,
    records: Records,
}

/// Encoded records of several databases.
#[derive(Default)]
pub(super) struct Records {
    pub(super) bytes: Vec<u8>,
    /// For each run of records of one database: the database, and the end of the run in `bytes`.
    runs: Vec<(DbIndex, usize)>,
    pub(super) key_count: usize,
}

impl Records {
    /// Encodes an entry. Returns whether the version can hold it.
    pub(super) fn add(
        &mut self,
        (encoder, encoding): (&mut Encoder, &Encoding),
        db: DbIndex,
        entry: Entry<'_>,
        alloc: AllocContext<'_>,
    ) -> bool {
        let head = encoding.head(entry);
        if encoder.write_record(head, entry.key(), alloc, entry.value(), &mut self.bytes).is_err() {
            return false;
        }
        self.key_count += 1;
        match self.runs.last_mut() {
            Some((last, end)) if *last == db => *end = self.bytes.len(),
            _ => self.runs.push((db, self.bytes.len())),
        }
        true
    }

    /// The runs of records of one database.
    pub(super) fn runs(&self) -> impl Iterator<Item = (DbIndex, &[u8])> {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|(_, end)| *end));
        self.runs.iter().zip(starts).map(|((db, end), start)| (*db, &self.bytes[start..*end]))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.key_count = 0;
    }
}

impl Default for Preserved {
    fn default() -> Self {
        Self {
            parts: (0..WRITER_COUNT_MAX).map(|_| Mutex::default()).collect(),
            size: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            size_max: AtomicUsize::new(usize::MAX),
            has_failed: AtomicBool::new(false),
            reduced_count: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            pressure: OnceLock::new(),
        }
    }
}

impl Preserved {
    /// Begins a snapshot, and drops the rest of a cancelled one. Changes wait while `size_max` bytes are preserved.
    pub(super) fn begin(&self, encoding: Encoding, size_max: usize) {
        self.size_max.store(size_max, Ordering::Relaxed);
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            self.note_memory(part.records.bytes.capacity(), 0);
            *part = Part { encoding: Some(encoding), ..Part::default() };
        }
        self.size.store(0, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
        self.reduced_count.store(0, Ordering::Relaxed);
    }

    /// Sets the function that receives whether changes must wait.
    pub(super) fn at_pressure(&self, pressure: Pressure) {
        self.pressure.get_or_init(|| pressure);
    }

    /// Reports that the buffer has become full, or has room again.
    #[cold]
    fn set_full(&self, is_full: bool) {
        if self.is_full.swap(is_full, Ordering::Relaxed) != is_full
            && let Some(pressure) = self.pressure.get()
        {
            pressure(is_full);
        }
    }

    /// Bytes that are not written yet.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Bytes of memory of the buffers of the snapshot.
    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Counts the memory of a buffer, which had `before` bytes at the last call.
    pub(super) fn note_memory(&self, before: usize, now: usize) {
        if before != now {
            self.memory.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Encodes an entry, and counts the memory of the records, which had `counted` bytes at the last call. A large string
    /// counts before its memory is allocated, so that no other thread evicts keys for it. Returns the bytes now.
    pub(super) fn encode(
        &self,
        records: &mut Records,
        encoding: (&mut Encoder, &Encoding),
        db: DbIndex,
        (entry, alloc): (Entry<'_>, AllocContext<'_>),
        counted: usize,
    ) -> usize {
        let mut counted = counted;
        let expected = if matches!(entry.value(), ValueRef::Object(_)) { 0 } else { entry.allocated_bytes() };
        if expected >= COUNTED_AHEAD_SIZE {
            // Of the record and its compressed form.
            let most = counted.max(2 * records.bytes.len()) + 2 * expected;
            self.note_memory(counted, most);
            counted = most;
        }
        self.note_value(encoding.0, entry);
        if !records.add(encoding, db, entry, alloc) {
            self.fail();
        }
        self.note_memory(counted, records.bytes.capacity());
        records.bytes.capacity()
    }

    /// Counts a value of which the version leaves out a part.
    pub(super) fn note_value(&self, encoder: &Encoder, entry: Entry<'_>) {
        if encoder.loses_part_of(entry.value()) {
            self.reduced_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of values of which the version leaves out a part.
    pub(super) fn reduced_count(&self) -> u64 {
        self.reduced_count.load(Ordering::Relaxed)
    }

    /// Records that the version cannot hold an entry.
    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether the version cannot hold an entry.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Removes and returns the records of all threads.
    pub(super) fn take(&self, mut each: impl FnMut(Records)) {
        if self.size() == 0 {
            return;
        }
        let mut size = 0;
        for part in &self.parts {
            let records = std::mem::take(&mut part.lock().unwrap_or_else(PoisonError::into_inner).records);
            let memory = records.bytes.capacity();
            if records.key_count > 0 {
                size += records.bytes.len();
                each(records);
            }
            self.note_memory(memory, 0);
        }
        self.note_taken(size);
    }

    /// Counts bytes that were added. Too many make changes wait.
    pub(super) fn note_added(&self, size: usize) {
        if self.size.fetch_add(size, Ordering::Relaxed) + size >= self.size_max.load(Ordering::Relaxed) {
            self.set_full(true);
        }
    }

    /// Counts bytes that were taken out.
    pub(super) fn note_taken(&self, size: usize) {
        self.size.fetch_sub(size, Ordering::Relaxed);
        let continued = self.size_max.load(Ordering::Relaxed).saturating_sub(CONTINUED_SIZE);
        if self.is_full.load(Ordering::Relaxed) && self.size() < continued {
            self.set_full(false);
        }
    }

    /// Whether the buffer has so much that it should be written without sleeping.
    pub(super) fn is_busy(&self) -> bool {
        self.size() >= SIZE_BUSY
    }

    /// Whether it has half of what it may have before changes wait.
    pub(super) fn is_half_full(&self) -> bool {
        self.size() >= self.size_max.load(Ordering::Relaxed) / 2
    }

    /// How entries are encoded; `None` before the first snapshot.
    fn encoding(&self) -> Option<Encoding> {
        self.parts[0].lock().unwrap_or_else(PoisonError::into_inner).encoding
    }
}

/// The buffer as the keyspace's sink.
pub(super) struct PreservedSink(pub(super) Arc<Preserved>);

impl SnapshotSink for PreservedSink {
    fn preserve(&self, thread: usize, db: DbIndex, entry: Entry<'_>, alloc: AllocContext<'_>) {
        let mut part = self.0.parts[thread].lock().unwrap_or_else(PoisonError::into_inner);
        let Part { encoding: Some(encoding), encoder, records } = &mut *part else { return };
        let encoder =
            encoder.get_or_insert_with(|| Box::new(Encoder::new(encoding.version, encoding.is_packing)));
        let (size_before, memory_before) = (records.bytes.len(), records.bytes.capacity());
        self.0.encode(records, (encoder, encoding), db, (entry, alloc), memory_before);
        let size = records.bytes.len() - size_before;
        self.0.note_added(size);
    }

    fn begin_elements(&self, entry: Entry<'_>) -> Option<Box<dyn ElementSink>> {
        let elements = Elements::begin(&self.0, self.0.encoding()?, entry);
        if elements.is_none() {
            self.0.fail();
        }
        Some(Box::new(elements?))
    }
}

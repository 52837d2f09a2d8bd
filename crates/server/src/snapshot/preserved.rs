//! Entries that were about to change, encoded by the threads that change them, until a walker writes them.
//!
//! Each thread has a part, so threads do not wait for each other. The buffer is bounded: when it is full, changes of
//! entries that are not saved yet wait before they latch, see [`Preserved::at_pressure`]. A thread that already holds
//! latches exceeds the bound by its own entries.

use std::sync::{Arc, PoisonError};

use base::DbIndex;
use base::limits::WRITER_COUNT_MAX;
use collections::{AllocContext, ElementSink, Entry};
use keyspace::SnapshotSink;
use rdb::Encoder;
use sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::{Mutex, OnceLock};

use super::elements::Elements;
use super::settings::Encoding;

/// Bytes of preserved entries at which changes begin to wait, and at which they continue. The two are close together: the
/// elements that a list keeps are freed as slowly as the list is written.
const SIZE_MAX: usize = 32 << 20;
const SIZE_CONTINUED: usize = SIZE_MAX - (256 << 10);

/// Bytes from which on walkers do not sleep.
const SIZE_BUSY: usize = SIZE_MAX / 4;

/// Receives whether changes must wait.
pub(super) type Pressure = Box<dyn Fn(bool) + Send + Sync>;

/// The buffer of preserved entries.
pub(super) struct Preserved {
    parts: Box<[Mutex<Part>]>,
    /// Bytes in all parts.
    size: AtomicUsize,
    has_failed: AtomicBool,
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
            has_failed: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            pressure: OnceLock::new(),
        }
    }
}

impl Preserved {
    /// Begins a snapshot, and drops the rest of a cancelled one.
    pub(super) fn begin(&self, encoding: Encoding) {
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            *part = Part { encoding: Some(encoding), ..Part::default() };
        }
        self.size.store(0, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
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

    /// Records that the version cannot hold an entry.
    pub(super) fn fail(&self) {
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
            if records.key_count > 0 {
                size += records.bytes.len();
                each(records);
            }
        }
        self.note_taken(size);
    }

    /// Counts bytes that were added. Too many make changes wait.
    pub(super) fn note_added(&self, size: usize) {
        if self.size.fetch_add(size, Ordering::Relaxed) + size >= SIZE_MAX {
            self.set_full(true);
        }
    }

    /// Counts bytes that were taken out.
    pub(super) fn note_taken(&self, size: usize) {
        self.size.fetch_sub(size, Ordering::Relaxed);
        if self.is_full.load(Ordering::Relaxed) && self.size() < SIZE_CONTINUED {
            self.set_full(false);
        }
    }

    /// Whether the buffer is a quarter full, so that it should be written without sleeping.
    pub(super) fn is_busy(&self) -> bool {
        self.size() >= SIZE_BUSY
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
        let size_before = records.bytes.len();
        if !records.add((encoder, encoding), db, entry, alloc) {
            self.0.fail();
        }
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

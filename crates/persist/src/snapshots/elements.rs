//! Large collections, which are written in portions: the record of each is complete when its walk ends.
//!
//! A record can't be interrupted by others: the outputs are locked while a collection is walked. Entries that are preserved
//! meanwhile stay in the buffer; when it has 8 MiB, the walk continues without sleeping.

use std::sync::Arc;
use std::time::Duration;

use collections::{Element, ElementSink, Entry, PortionLimits};
use keyspace::{CollectionStep, TrackedCollection, Waiting};
use rdb::{ElementForm, Encoder};

use super::pass::{SaveError, Walker};
use super::preserved::Preserved;
use super::settings::Encoding;

/// What a portion visits under a read latch: some tens of microseconds.
const LIMITS: PortionLimits = PortionLimits { len_max: 512, size_max: 16 << 10 };

/// How often to try, each a millisecond apart, whether a collection without a key was dropped. Another thread drops it
/// soon, unless it has others to drop before.
const MISSING_COUNT_MAX: u32 = 60_000;

/// The record of a collection, up to the elements that are known.
pub(super) struct Elements {
    preserved: Arc<Preserved>,
    encoder: Encoder,
    form: ElementForm,
    bytes: Vec<u8>,
    /// What follows the elements.
    end: Vec<u8>,
    /// Bytes of preserved elements that are not in the record yet.
    kept_size: usize,
    /// Bytes that the buffer counts.
    counted_size: usize,
    /// Bytes of the contents of the collection, if it was dropped.
    held_size: usize,
    /// Bytes of memory that the buffer counts.
    counted_memory: usize,
    len: usize,
}

impl Elements {
    /// Begins a record. `None` if the version does not hold it.
    pub(super) fn begin(preserved: &Arc<Preserved>, encoding: Encoding, entry: Entry<'_>) -> Option<Self> {
        let (mut encoder, mut bytes) = (Encoder::new(encoding.version, encoding.is_packing), Vec::new());
        let form =
            encoder.begin_record(encoding.head(entry), entry.key(), entry.value(), &mut bytes).ok()??;
        preserved.note_value(&encoder, entry);
        let mut end = Vec::new();
        encoder.write_end(entry.value(), &mut end);
        let preserved = Arc::clone(preserved);
        Some(Self {
            preserved,
            encoder,
            form,
            bytes,
            end,
            kept_size: 0,
            counted_size: 0,
            held_size: 0,
            counted_memory: 0,
            len: 0,
        })
    }

    /// Makes the buffer count what is there.
    fn count(&mut self) {
        let (size, before) = (self.bytes.len() + self.end.len() + self.kept_size, self.counted_size);
        self.counted_size = size;
        let memory = self.bytes.capacity() + self.end.capacity() + self.kept_size + self.held_size;
        self.preserved.note_memory(std::mem::replace(&mut self.counted_memory, memory), memory);
        if size > before {
            self.preserved.note_added(size - before);
        } else if size < before {
            self.preserved.note_taken(before - size);
        }
    }
}

impl ElementSink for Elements {
    fn add(&mut self, element: Element<'_>) {
        self.len += element.len();
        self.encoder.write_element(self.form, element, &mut self.bytes);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn settle(&mut self, kept_size: usize) {
        self.kept_size = kept_size;
        self.count();
    }

    fn hold(&mut self, size: usize) {
        self.held_size = size;
        self.count();
    }

    fn finish(&mut self) {
        self.bytes.append(&mut self.end);
    }

    fn take(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.bytes);
        self.count();
        bytes
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        (self.bytes, self.end, self.kept_size, self.held_size) = (Vec::new(), Vec::new(), 0, 0);
        self.count();
    }
}

impl Walker<'_> {
    /// Writes the large collections that the walk or changes have met.
    pub(super) fn write_collections(&mut self, waiting: &Waiting<'_>) {
        let keyspace = self.run.keyspace;
        while let Some(collection) = keyspace.next_collection() {
            if !self.is_over {
                self.write_collection(&collection, waiting);
            }
            keyspace.end_collection(&collection);
        }
    }

    fn write_collection(&mut self, collection: &TrackedCollection, waiting: &Waiting<'_>) {
        let (run, mut outputs) = (self.run, None);
        let (mut missing_count, mut is_done) = (0, false);
        while !is_done && !run.is_over() {
            match run.keyspace.snapshot_collection(collection, LIMITS, waiting) {
                CollectionStep::Missing if missing_count < MISSING_COUNT_MAX => {
                    missing_count += 1;
                    sync::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                CollectionStep::Portion => {}
                CollectionStep::Done | CollectionStep::Missing => is_done = true,
            }
            let outputs = outputs.get_or_insert_with(|| {
                let mut outputs = run.lock_outputs();
                outputs.select(collection.db, &run.databases);
                outputs
            });
            let portion = collection.tracking.take();
            if run.await_outputs(outputs) {
                self.has_rested();
            }
            outputs.write(&portion);
            if outputs.have_failed() {
                break;
            }
            if !run.snapshots.preserved.is_busy() {
                self.sleep_if_due();
            }
        }
        let (saved, expected) = collection.tracking.lens();
        if let Some(outputs) = &mut outputs
            && is_done
            && saved != expected
        {
            outputs.fail(&SaveError::IncompleteCollection { saved, expected });
        }
        drop(outputs);
        run.stop_after_error();
        run.note_written(1);
    }
}

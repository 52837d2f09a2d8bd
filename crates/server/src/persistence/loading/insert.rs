//! Decodes records of an RDB file in the heap of their slot, and inserts the entries under its latch.
//!
//! Each decoding thread has an [`Inserter`]. Records come in jobs, a stretch of the file each, so that the keys of
//! a job are prefetched ahead of their insertion.
//! Invariants: nothing is logged, no event is sent, no change is counted. A key is inserted once, unless keys may be replaced.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use base::limits::{DECODER_COUNT_MAX, REPLAY_THREAD};
use base::{DbIndex, Millis};
use collections::{AllocContext, ExpiryChange, NewValue};
use keyspace::{Key, Latching};
use os::clock;
use rdb::{DecodeContext, Limits, Progress, Record, Value, ValueType};
use sync::Mode;
use sync::atomic::Ordering;

use super::rdb_file::{RdbError, RdbFault, RdbOptions};
use crate::shared::Shared;
use crate::shared::memory::aging;

/// Keys whose slots, and whose buckets, are prefetched ahead of the inserted one.
const SLOTS_AHEAD: usize = 16;
const BUCKETS_AHEAD: usize = 8;

/// Bytes of the text of a string from which on its buffer becomes the value: read apart from the file, or unpacked.
pub(super) const LONG_TEXT_SIZE_MIN: usize = 256 << 10;

/// The number of empty keys that are named in the log.
const NAMED_EMPTY_COUNT_MAX: u64 = 10;

/// A stretch of a file with whole records.
pub(super) struct Job {
    bytes: Vec<u8>,
    records: Vec<Place>,
    /// The value of its only record, if that is a long string, which was read apart.
    text: Option<Vec<u8>>,
    /// Bytes of the file up to the end of the last record, as far as they are not counted as loaded.
    size: usize,
}

/// A record in a job.
struct Place {
    db: DbIndex,
    key: KeyPlace,
    value: Range<usize>,
    value_type: ValueType,
    expiry: Option<i64>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
    /// The offset of the value in the file.
    offset: u64,
}

enum KeyPlace {
    At(Range<usize>),
    /// The key is compressed, or a number, in the file.
    Own(Box<[u8]>),
}

/// Inserts records, on one thread.
pub(super) struct Inserter {
    shared: &'static Shared,
    latching: Latching<'static>,
    options: RdbOptions,
    limits: Limits,
    hashes: Vec<u64>,
    retired: Vec<collections::Retired>,
}

impl Job {
    /// A job for records in these bytes, of which they and what is between them are the first `size`.
    pub(super) fn new(bytes: Vec<u8>, records: Vec<PendingRecord>, size: usize) -> Self {
        Self { bytes, text: None, size, records: records.into_iter().map(|record| record.0).collect() }
    }

    /// A job for a long string, whose record lies in `bytes` except for its text. Its bytes are counted already.
    pub(super) fn of_text(bytes: Vec<u8>, record: PendingRecord, text: Vec<u8>) -> Self {
        Self { bytes, text: Some(text), size: 0, records: vec![record.0] }
    }
}

/// A record of a job that is being filled.
pub(super) struct PendingRecord(Place);

impl PendingRecord {
    /// The record, which lies in `bytes`.
    pub(super) fn new(record: Record<'_>, db: DbIndex, bytes: &[u8]) -> Self {
        let range = |part: &[u8]| {
            let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
            start..start + part.len()
        };
        let key = match record.key {
            Cow::Borrowed(key) => KeyPlace::At(range(key)),
            Cow::Owned(key) => KeyPlace::Own(key.into()),
        };
        Self(Place {
            db,
            key,
            value: range(record.value),
            value_type: record.value_type,
            expiry: record.expiry,
            idle_seconds: record.idle_seconds,
            frequency: record.frequency,
            offset: record.offset,
        })
    }
}

impl Place {
    fn key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.key {
            KeyPlace::At(range) => &bytes[range.clone()],
            KeyPlace::Own(key) => key,
        }
    }
}

impl Inserter {
    /// The inserter of a thread; `number` is below [`DECODER_COUNT_MAX`], and no other thread uses it meanwhile.
    pub(super) fn new(shared: &'static Shared, number: usize, options: RdbOptions) -> Self {
        assert!(number < DECODER_COUNT_MAX, "a number for each decoder");
        let mut latching = Latching::new(&shared.keyspace, REPLAY_THREAD + 1 + number, number as u64);
        // Without a place among the epochs' participants it prefetches nothing.
        let _ = latching.join_epochs();
        latching.mode.sees_expired = true;
        latching.mode.touch = false;
        let config = shared.config.load();
        latching.mode.aging = aging(&config, clock::unix_millis());
        let limits = commands::value_limits(&config);
        Self { shared, latching, options, limits, hashes: Vec::new(), retired: Vec::new() }
    }

    /// Inserts all records of a job.
    pub(super) fn run(&mut self, job: Job) -> Result<(), RdbError> {
        self.latching.mode.now = Millis(clock::unix_millis());
        let hasher = self.shared.keyspace.hasher();
        let Job { bytes, records, mut text, size } = job;
        let bytes = &bytes;
        self.hashes.clear();
        self.hashes.extend(records.iter().map(|place| hasher.hash(place.key(bytes))));
        let (mut loaded_count, mut decoded_size) = (0, 0);
        for (index, place) in records.iter().enumerate() {
            if let Some(hash) = self.hashes.get(index + SLOTS_AHEAD) {
                let db = self.target(records[index + SLOTS_AHEAD].db);
                self.shared.keyspace.hints(db).prefetch_slot(*hash);
            }
            if let Some(hash) = self.hashes.get(index + BUCKETS_AHEAD) {
                let db = self.target(records[index + BUCKETS_AHEAD].db);
                let _ = self.latching.prefetcher(db).prefetch_home(*hash);
            }
            let is_loaded = match &mut text {
                Some(text) => {
                    self.insert(place, self.hashes[index], bytes, NewValue::Buffer(text))?;
                    true
                }
                None => self.decode(place, self.hashes[index], bytes, &mut decoded_size)?,
            };
            loaded_count += u64::from(is_loaded);
        }
        self.shared.loading.loaded_key_count.fetch_add(loaded_count, Ordering::Relaxed);
        self.shared.loading.note_loaded((size - decoded_size) as u64);
        self.latching.quiescent();
        self.shared.keyspace.reclaim(&mut self.retired);
        Ok(())
    }

    /// The database into which the keys of a database of the file are loaded.
    fn target(&self, db: DbIndex) -> DbIndex {
        if self.options.is_beside { self.shared.keyspace.staged(db) } else { db }
    }

    /// Returns whether the record became an entry. Adds to `decoded_size` the bytes that it has counted as loaded.
    fn decode(
        &mut self,
        place: &Place,
        hash: u64,
        bytes: &[u8],
        decoded_size: &mut usize,
    ) -> Result<bool, RdbError> {
        let name = place.key(bytes);
        let key = Key::with_hash(name, hash, place.db);
        let keyspace = &self.shared.keyspace;
        let context = DecodeContext {
            alloc: AllocContext { heap: keyspace.heap(key.slot), hasher: keyspace.hasher() },
            limits: self.limits,
            drop_fields_before: (!self.options.keeps_expired && !self.options.deletes_expired)
                .then_some(self.latching.mode.now.0),
        };
        let (counted, shared) = (Cell::new(0), self.shared);
        let pass = |size| {
            counted.set(counted.get() + size);
            shared.loading.note_loaded(size as u64);
        };
        let progress = Progress::new(&pass);
        let text = &bytes[place.value.clone()];
        let decoded = rdb::decode_noting(place.value_type, text, place.offset, context, &progress);
        *decoded_size += counted.get();
        let value = decoded.map_err(|error| RdbError::of_value(error, place.value_type).of_key(name))?;
        let mut unpacked;
        let value = match value {
            Value::Bytes(Cow::Owned(text)) if text.len() >= LONG_TEXT_SIZE_MIN => {
                unpacked = text;
                NewValue::Buffer(&mut unpacked)
            }
            Value::Bytes(ref bytes) => NewValue::Auto(bytes),
            Value::Int(value) => NewValue::Int(value),
            Value::Object(object) => NewValue::Object(Box::new(object)),
            Value::Empty => {
                self.note_empty(name);
                return Ok(false);
            }
        };
        self.insert(place, hash, bytes, value).map(|()| true)
    }

    fn insert(
        &mut self,
        place: &Place,
        hash: u64,
        bytes: &[u8],
        value: NewValue<'_>,
    ) -> Result<(), RdbError> {
        let name = place.key(bytes);
        let key = Key::with_hash(name, hash, self.target(place.db));
        while self.latching.latch(key.slot, Mode::Write).is_err() {
            super::wait_a_moment();
        }
        let expiry = place.expiry.map_or(ExpiryChange::Clear, ExpiryChange::At);
        let was_there = self.latching.set(key, value, expiry).0;
        let aging = self.latching.mode.aging;
        let idle = place.idle_seconds.and_then(|seconds| aging.of_idle_seconds(seconds));
        let access = idle.or_else(|| aging.of_frequency(place.frequency?));
        if let (Some(access), Some(entry)) = (access, self.latching.peek(key)) {
            entry.set_access(access);
        }
        self.latching.release();
        self.latching.deferred.garbage.clear();
        if was_there && !self.options.replaces {
            let fault = RdbFault::DuplicateKey { db: place.db };
            return Err(RdbError { fault, offset: place.offset, key: Some(name.into()) });
        }
        Ok(())
    }

    fn note_empty(&self, key: &[u8]) {
        if self.shared.loading.empty_key_count.fetch_add(1, Ordering::Relaxed) < NAMED_EMPTY_COUNT_MAX {
            log::info!("Loading: skipping empty key: {}", key.escape_ascii());
        }
    }
}

//! Loads an RDB file: one thread reads and cuts it, others decode and insert.
//!
//! The reader passes stretches of the file to the decoders through a bounded queue, so the memory in use is a few times
//! [`STRETCH_SIZE`], or the size of the largest values. Short files are decoded by the reader itself.
//! The first error ends the load: keys inserted before stay, and the caller ends the server or replies with an error.

use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use base::DbIndex;
use base::limits::{DECODER_COUNT_MAX, STREAM_OFFSET_MAX};
use config::{Config, RdbVersionCheck};
use os::{clock, process};
use rdb::{Cut, Cutter, Error, Event, Family, Fault, Record, ValueType};
use replication::ReplicationId;
use sync::Mutex;
use sync::atomic::{AtomicBool, Ordering};

use super::delay::Delay;
use super::deletions::Deletions;
use super::insert::{Inserter, Job, LONG_TEXT_SIZE_MIN, PendingRecord};
use super::progress::ProgressLog;
use super::queue::Queue;
use super::source::RdbSource;
use crate::script_runs::LibraryLoader;
use crate::scripts::libraries::Libraries;
use crate::shared::loading::StreamPosition;
use crate::shared::{Shared, background};

/// The most bytes that are reserved for a string before it is there: the length that a snapshot on the way names may be false.
const RESERVED_SIZE_MAX: usize = 64 << 20;

/// Bytes of a file that are decoded together.
const STRETCH_SIZE: usize = 256 << 10;
/// The stretch size of loads that are delayed for tests, so that their progress is visible.
const DELAYED_STRETCH_SIZE: usize = 4 << 10;
/// Shorter files are decoded without further threads.
const SHORT_FILE_SIZE: u64 = 1 << 20;
/// Types and opcodes whose meaning depends on the family, where they are not known.
const FOREIGN_TYPES: std::ops::RangeInclusive<u8> = 22..=243;
/// Bytes that hold the properties of a file.
const PROPERTIES_SIZE_MAX: usize = 4096;
/// Bytes that hold the header of every version.
const HEADER_SIZE_MAX: usize = 16;
/// Queued stretches for each decoder.
const STRETCHES_A_DECODER: usize = 2;

/// How a file is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct RdbOptions {
    /// Keys that exist already are replaced; otherwise they are an error.
    pub replaces: bool,
    /// A library that exists already is an error, unless `replaces`.
    pub adds_libraries: bool,
    /// Expired keys and fields are kept: the file is the base of a log, whose requests refer to exactly this data.
    pub keeps_expired: bool,
    /// Expired keys are deleted in the stream for replicas, which have them. Expired fields are kept until they are deleted in
    /// the same way.
    pub deletes_expired: bool,
    /// Keys are loaded beside the present data ([`keyspace::Keyspace::staged`]).
    pub is_beside: bool,
    /// Decoders leave the CPU to others that need it. Not if clients use the data meanwhile: they would wait for a decoder that is
    /// preempted under a latch.
    pub yields_cpu: bool,
}

/// Why an RDB file can't be loaded.
#[derive(Debug)]
pub struct RdbError {
    /// The error.
    pub fault: RdbFault,
    /// The position of the error, in bytes from the beginning of the file.
    pub offset: u64,
    /// The key whose record has the error.
    pub key: Option<Box<[u8]>>,
}

/// A fault of an RDB file, or of its loading.
#[derive(Debug, thiserror::Error)]
pub enum RdbFault {
    /// The file is not valid.
    #[error("{0}")]
    Format(Fault),
    /// A value is not valid.
    #[error("{}", rdb::describe_fault(*fault, *value_type))]
    Value {
        /// The error.
        fault: Fault,
        /// The type of the value.
        value_type: ValueType,
    },
    /// A library of functions can't be loaded.
    #[error("failed to load a library of functions: {0}")]
    Library(String),
    /// The file can't be read.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// A type of a version of Redis that is not known.
    #[error("Can't handle foreign type or opcode {value_type} in RDB with version {version}")]
    ForeignType {
        /// The type.
        value_type: u8,
        /// The version of the file.
        version: u16,
    },
    /// A database beyond `databases`.
    #[error("a key in database {db}, but `databases` is {count}")]
    Database {
        /// The number in the file.
        db: u64,
        /// The configured number.
        count: usize,
    },
    /// A key that exists already.
    #[error("Duplicated key found in RDB file, DB {}", db.0)]
    DuplicateKey {
        /// Its database.
        db: DbIndex,
    },
    /// The server is ending.
    #[error("the server is shutting down")]
    Stopped,
}

impl From<Error> for RdbError {
    fn from(error: Error) -> Self {
        Self { fault: RdbFault::Format(error.fault), offset: error.offset, key: error.key }
    }
}

impl RdbError {
    /// The error of decoding a value.
    pub(super) fn of_value(error: Error, value_type: ValueType) -> Self {
        let is_known = error.fault != Fault::Module;
        let fault = is_known.then_some(RdbFault::Value { fault: error.fault, value_type });
        Self { fault: fault.unwrap_or(RdbFault::Format(error.fault)), offset: error.offset, key: error.key }
    }

    /// The error with this key.
    pub(super) fn of_key(self, key: &[u8]) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// The failures of decoders, of which the first in the file is reported.
#[derive(Default)]
struct Failures {
    first: Mutex<Option<RdbError>>,
    are_any: AtomicBool,
}

impl Failures {
    fn add(&self, error: RdbError) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| error.offset < first.offset) {
            *first = Some(error);
        }
        self.are_any.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<RdbError> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The threads that decode, or the reader's own inserter.
enum Decoders {
    Inline(Box<Inserter>),
    Threads { queue: Arc<Queue<Job>>, failures: Arc<Failures>, threads: Vec<sync::thread::JoinHandle<()>> },
}

/// Loads the data of an RDB file, which is open and at its beginning, and its functions into `target`. Returns the end of the data,
/// which precedes requests, if the file is an append-only file.
///
/// # Errors
/// The file is not valid or can't be read, or the server is ending.
pub(super) fn load(
    shared: &'static Shared,
    file: &mut dyn RdbSource,
    options: RdbOptions,
    target: &Libraries,
) -> Result<u64, RdbError> {
    background::let_others_preempt();
    if options.yields_cpu {
        // Decoders may have the first work for them.
        shared.memory.pages.prepare();
        shared.memory.background.prepare();
    }
    let mut decoders = Decoders::start(shared, file.total_size(), options);
    let cutter = cutter(&shared.config.load());
    let libraries = LibraryLoader::default();
    let deletions = options.deletes_expired.then(|| Deletions::new(shared)).flatten();
    let read = Reading { shared, options, cutter, libraries, target, deletions }.read(file, &mut decoders);
    let is_stopped = matches!(read, Err(RdbError { fault: RdbFault::Stopped, .. }));
    let failure = decoders.end(is_stopped);
    match (read, failure) {
        // A decoder's error is earlier in the file than the reader's, which may be its consequence.
        (_, Some(error)) => Err(error),
        (read, None) => read,
    }
}

/// Checks that a file, which is at its beginning, has the header of a version that can be loaded.
///
/// # Errors
/// It has not, or can't be read.
pub(super) fn check_header(shared: &Shared, file: &mut dyn RdbSource) -> Result<(), RdbError> {
    let head = file.head(HEADER_SIZE_MAX);
    let head = head.map_err(|error| RdbError { fault: error.into(), offset: 0, key: None })?;
    let mut cutter = cutter(&shared.config.load());
    match cutter.next(&head)? {
        Some(_) => Ok(()),
        None => Err(cutter.unexpected_end(head.len()).into()),
    }
}

/// The position in a replication stream that a file, which is at its beginning, says its data have.
pub(super) fn stream_position(shared: &Shared, file: &mut dyn RdbSource) -> Option<StreamPosition> {
    let head = file.head(PROPERTIES_SIZE_MAX).ok()?;
    let mut cutter = cutter(&shared.config.load());
    let (mut start, mut id, mut offset, mut db) = (0, None, None, 0);
    while let Ok(Some(Cut { event, size })) = cutter.next(&head[start..]) {
        start += size;
        match event {
            Event::Header(_) => {}
            Event::Aux { name, value } => {
                let number = || std::str::from_utf8(&value).ok()?.parse::<u64>().ok();
                match &*name {
                    b"repl-id" => id = ReplicationId::parse(&value),
                    b"repl-offset" => offset = number().filter(|offset| *offset <= STREAM_OFFSET_MAX),
                    b"repl-stream-db" => db = number().unwrap_or(0),
                    _ => {}
                }
            }
            _ => break,
        }
    }
    let db = (db < shared.keyspace.db_count() as u64).then_some(DbIndex(db as u16))?;
    Some(StreamPosition { id: id?, offset: offset?, db })
}

fn cutter(config: &Config) -> Cutter {
    let cutter = Cutter::new(config.rdbchecksum);
    match config.rdb_version_check {
        RdbVersionCheck::Relaxed => cutter.taking_any_version(),
        RdbVersionCheck::Strict => cutter,
    }
}

impl Decoders {
    /// Decoders of a file of this size, if it is known.
    fn start(shared: &'static Shared, file_size: Option<u64>, options: RdbOptions) -> Self {
        let wanted = process::cpu_count().clamp(1, DECODER_COUNT_MAX);
        let inline = || Self::Inline(Box::new(Inserter::new(shared, 0, options)));
        if file_size.is_some_and(|size| size < SHORT_FILE_SIZE) {
            return inline();
        }
        let queue = Arc::new(Queue::new(wanted * STRETCHES_A_DECODER));
        let failures = Arc::new(Failures::default());
        let start = |number| {
            let (queue, failures) = (Arc::clone(&queue), Arc::clone(&failures));
            let body = move || decode(shared, number, options, &queue, &failures);
            sync::thread::Builder::new().name(format!("broadloom-load-{number}")).spawn(body)
        };
        let threads: Vec<_> = (0..wanted).map_while(|number| start(number).ok()).collect();
        if threads.is_empty() { inline() } else { Self::Threads { queue, failures, threads } }
    }

    /// Passes a stretch on. `false`: a decoder has failed.
    fn take(&mut self, job: Job) -> Result<bool, RdbError> {
        match self {
            Self::Inline(inserter) => inserter.run(job).map(|()| true),
            Self::Threads { queue, .. } => Ok(queue.push(job)),
        }
    }

    fn have_failed(&self) -> bool {
        match self {
            Self::Inline(_) => false,
            Self::Threads { failures, .. } => failures.are_any.load(Ordering::Acquire),
        }
    }

    /// Waits for the end of all threads; `abandons`: drops what is queued. Returns their first failure.
    fn end(self, abandons: bool) -> Option<RdbError> {
        let Self::Threads { queue, failures, threads } = self else { return None };
        if abandons {
            queue.abandon();
        } else {
            queue.close();
        }
        for thread in threads {
            if let Err(payload) = thread.join() {
                std::panic::resume_unwind(payload);
            }
        }
        failures.take()
    }
}

/// The body of a decoder.
fn decode(
    shared: &'static Shared,
    number: usize,
    options: RdbOptions,
    queue: &Queue<Job>,
    failures: &Failures,
) {
    let _handler_stack = os::fault::prepare_thread();
    background::let_others_preempt();
    if options.yields_cpu {
        background::lower_priority();
    }
    let mut inserter = Inserter::new(shared, number, options);
    while let Some(job) = queue.pop() {
        if let Err(error) = inserter.run(job) {
            failures.add(error);
            queue.close();
            // Other decoders may still work on earlier stretches; later stretches do not matter.
            return;
        }
    }
}

struct Reading<'a> {
    shared: &'static Shared,
    options: RdbOptions,
    cutter: Cutter,
    libraries: LibraryLoader,
    /// Where libraries are added.
    target: &'a Libraries,
    deletions: Option<Deletions>,
}

impl Reading<'_> {
    fn read(mut self, file: &mut dyn RdbSource, decoders: &mut Decoders) -> Result<u64, RdbError> {
        let now = clock::unix_millis();
        let mut delay = Delay::new(self.shared);
        let mut progress = ProgressLog::new(self.shared);
        let mut bytes = Vec::new();
        loop {
            let stretch_size = if delay.is_on() { DELAYED_STRETCH_SIZE } else { STRETCH_SIZE };
            // No more than the file has, and one byte to notice its end.
            let left = file.size_left().map_or(usize::MAX, |left| left.saturating_add(1));
            let wanted = stretch_size.max(bytes.len()).min(left);
            let read = file.read_stretch(wanted, &mut bytes);
            let is_at_end = read.map_err(|error| self.error(error.into()))? == 0;
            let mut records = Vec::new();
            let mut start = 0;
            let mut end_at = None;
            while let Some(Cut { event, size }) = self.cut(&bytes[start..])? {
                start += size;
                match event {
                    Event::Key(record) => {
                        delay.after_key();
                        if let Some(record) = self.pending(record, now, &bytes)? {
                            records.push(record);
                        }
                    }
                    Event::End { is_checked } => {
                        self.note_end(is_checked);
                        end_at = Some(self.cutter.offset());
                        break;
                    }
                    other => self.note(&other)?,
                }
                if delay.is_stopped() {
                    return Err(self.error(RdbFault::Stopped));
                }
            }
            if start > 0 {
                let rest = bytes[start..].to_vec();
                let stretch = std::mem::replace(&mut bytes, rest);
                if records.is_empty() {
                    self.shared.loading.note_loaded(start as u64);
                } else if !decoders.take(Job::new(stretch, records, start))? {
                    return Err(self.error(RdbFault::Stopped));
                }
            }
            progress.note();
            if let Some(end) = end_at {
                return Ok(end);
            }
            if let Some(place) = self.long_text(file, &bytes) {
                self.read_text(file, std::mem::take(&mut bytes), &place, now, decoders, &mut progress)?;
                continue;
            }
            if is_at_end {
                return Err(self.cutter.unexpected_end(bytes.len()).into());
            }
            if self.shared.modes.is_stopping() || decoders.have_failed() {
                return Err(self.error(RdbFault::Stopped));
            }
        }
    }

    /// The place from the beginning of `bytes` of the text of a long string, if all of it is in `bytes` and the rest of
    /// the file: a false length reserves no memory.
    fn long_text(&self, file: &dyn RdbSource, bytes: &[u8]) -> Option<Range<usize>> {
        let place = self.cutter.pending_text(bytes).filter(|place| place.len() >= LONG_TEXT_SIZE_MIN)?;
        file.size_left().is_some_and(|left| place.end - bytes.len() <= left).then_some(place)
    }

    /// Reads the text of a string, of which a part is in `bytes` behind its head, into the buffer that becomes the value.
    fn read_text(
        &mut self,
        file: &mut dyn RdbSource,
        mut bytes: Vec<u8>,
        place: &Range<usize>,
        now: i64,
        decoders: &mut Decoders,
        progress: &mut ProgressLog<'_>,
    ) -> Result<(), RdbError> {
        let mut text = Vec::new();
        let begun = bytes.split_off(place.start);
        let head = bytes;
        let record = self.cutter.next_head(&head)?;
        let record = self.pending(record, now, &head)?;
        if record.is_some() {
            text.reserve_exact(place.len().min(RESERVED_SIZE_MAX));
        }
        self.cutter.pass_text(&begun);
        text.extend_from_slice(&begun);
        self.shared.loading.note_loaded(place.start as u64 + begun.len() as u64);
        let mut left = place.len() - begun.len();
        while left > 0 {
            if self.shared.modes.is_stopping() || decoders.have_failed() {
                return Err(self.error(RdbFault::Stopped));
            }
            if record.is_none() {
                text.clear();
            }
            let before = text.len();
            let part = left.min(STRETCH_SIZE);
            text.resize(before + part, 0);
            file.read_exact(&mut text[before..]).map_err(|error| self.error(error.into()))?;
            self.cutter.pass_text(&text[before..]);
            self.shared.loading.note_loaded(part as u64);
            left -= part;
            progress.note();
        }
        if let Some(record) = record
            && !decoders.take(Job::of_text(head, record, text))?
        {
            return Err(self.error(RdbFault::Stopped));
        }
        Ok(())
    }

    /// The next event. The error for an unknown type depends on the family of the file.
    fn cut<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Cut<'a>>, RdbError> {
        let result = self.cutter.next(bytes);
        let version = self.cutter.version();
        result.map_err(|error| match error.fault {
            Fault::UnknownType(value_type)
                if version.family == Family::Redis && FOREIGN_TYPES.contains(&value_type) =>
            {
                RdbError {
                    fault: RdbFault::ForeignType { value_type, version: version.number },
                    ..error.into()
                }
            }
            _ => error.into(),
        })
    }

    /// The record, if it must be loaded.
    fn pending(
        &mut self,
        record: Record<'_>,
        now: i64,
        bytes: &[u8],
    ) -> Result<Option<PendingRecord>, RdbError> {
        let count = self.shared.keyspace.db_count();
        let Some(db) = u16::try_from(record.db).ok().filter(|db| usize::from(*db) < count) else {
            let error = self.error(RdbFault::Database { db: record.db, count });
            return Err(error.of_key(&record.key));
        };
        // As in Redis, which reads to the millisecond: a key that expires now is loaded.
        if !self.options.keeps_expired && record.expiry.is_some_and(|at| at < now) {
            self.shared.loading.expired_key_count.fetch_add(1, Ordering::Relaxed);
            if let Some(deletions) = &mut self.deletions {
                deletions.add(DbIndex(db), &record.key);
            }
            return Ok(None);
        }
        Ok(Some(PendingRecord::new(record, DbIndex(db), bytes)))
    }

    /// Handles the items of the file other than keys.
    fn note(&self, event: &Event<'_>) -> Result<(), RdbError> {
        match event {
            Event::Aux { name, value } => self.note_property(name, &String::from_utf8_lossy(value)),
            Event::Select(db) if *db >= self.shared.keyspace.db_count() as u64 => {
                let count = self.shared.keyspace.db_count();
                log::warn!(
                    "FATAL: Data file was created with a server configured to handle more than {count} databases. Exiting"
                );
                return Err(self.error(RdbFault::Database { db: *db, count }));
            }
            Event::Function(source) => {
                let replaces = self.options.replaces || !self.options.adds_libraries;
                if let Err(error) = self.libraries.load(self.shared, self.target, source, replaces) {
                    let problem = error.text().escape_ascii().to_string();
                    return Err(self.error(RdbFault::Library(problem)));
                }
            }
            Event::ModuleAux(id) => {
                log::warn!(
                    "The RDB file has data of the module '{}' beside its keys; they are skipped",
                    module_name(*id)
                );
            }
            Event::Header(_)
            | Event::Select(_)
            | Event::Resize { .. }
            | Event::Slot
            | Event::Key(_)
            | Event::End { .. } => {}
        }
        Ok(())
    }

    fn note_property(&self, name: &[u8], value: &str) {
        let number = || value.parse::<i64>().unwrap_or(0);
        match name.to_ascii_lowercase().as_slice() {
            [b'%', ..] => log::info!("RDB '{}': {value}", name.escape_ascii()),
            b"redis-ver" => log::info!("Loading RDB produced by Redis version {value}"),
            b"valkey-ver" => log::info!("Loading RDB produced by Valkey version {value}"),
            b"broadloom-ver" => log::info!("Loading RDB produced by Broadloom version {value}"),
            b"ctime" => {
                let age = (clock::unix_millis() / 1000 - number()).max(0);
                log::info!("RDB age {age} seconds");
            }
            b"used-mem" => {
                let size = number();
                log::info!("RDB memory usage when created {:.2} Mb", size as f64 / f64::from(1 << 20));
                self.shared.loading.written_memory.store(size.max(0) as u64, Ordering::Relaxed);
            }
            b"aof-preamble" if number() != 0 => log::info!("RDB has an AOF tail"),
            b"aof-base" if number() != 0 => log::info!("RDB is base AOF"),
            b"aof-preamble" | b"aof-base" | b"redis-bits" | b"lua" | b"slot-info" => {}
            b"repl-stream-db" => self.shared.loading.stream_db.store(number(), Ordering::Relaxed),
            b"repl-id" | b"repl-offset" => {}
            _ => log::debug!("Unrecognized RDB AUX field: '{}'", name.escape_ascii()),
        }
    }

    fn note_end(&self, is_checked: bool) {
        if !is_checked && self.shared.config.load().rdbchecksum && self.cutter.version().has_checksum() {
            log::info!("RDB file was saved with checksum disabled: no check performed.");
        }
    }

    fn error(&self, fault: RdbFault) -> RdbError {
        RdbError { fault, offset: self.cutter.offset(), key: None }
    }
}

/// The name of a module in its id: nine characters of six bits, above ten bits of a version.
fn module_name(id: u64) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).map(|place| char::from(ALPHABET[(id >> (58 - 6 * place) & 63) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_names() {
        // "ReJSON-RL", version 3.
        let digits = b"ReJSON-RL".iter().map(|byte| {
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                .iter()
                .position(|other| other == byte)
                .unwrap() as u64
        });
        let id = digits.fold(0, |id, digit| id << 6 | digit) << 10 | 3;
        assert_eq!(module_name(id), "ReJSON-RL");
    }
}

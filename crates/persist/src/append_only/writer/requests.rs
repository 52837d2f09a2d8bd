//! The base of an append-only file as requests (`aof-use-rdb-preamble no`): the snapshot, which is an RDB file, is read
//! again and written as the requests that create its keys.
//!
//! Works on one record of the snapshot at a time, on a thread of its own, so it delays neither clients nor other snapshots.
//! A stream with groups is restored from its dump: no sequence of requests creates its consumers with their times.

use std::io::{self, Read};
use std::path::Path;

use collections::stream::{Stream, StreamId};
use collections::{AllocContext, DecimalBuffer, Hash, Heap, Item, KeyHasher, Object, ValueRef};
use rdb::{
    Cut, Cutter, DecodeContext, Encoder, Error, Event, Limits, Payload, Record, Value, Version, decode,
};
use sync::atomic::{AtomicBool, Ordering};

use crate::disk::{Disk, DiskFile, FileReader};
use crate::reading::timestamp_annotation;

/// Bytes that are read at a time. Output of this size is written.
const PORTION_SIZE: usize = 256 << 10;

/// Elements that one request adds.
const ELEMENT_COUNT_MAX: usize = 64;

/// Why the requests can't be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConvertError {
    /// The rewrite was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The snapshot is not valid.
    #[error("the snapshot can't be read: {0}")]
    Snapshot(Error),
    /// Of the file system.
    #[error("can't write the base: {0}")]
    Disk(#[from] io::Error),
}

impl From<Error> for ConvertError {
    fn from(error: Error) -> Self {
        Self::Snapshot(error)
    }
}

/// Writes the requests that create the keys of a snapshot to the file `target`, which is then complete and synced. The values are
/// decoded with `limits`. `annotated_at`: the Unix time in seconds with which the file begins.
///
/// # Errors
/// Of the snapshot and the file system, or it was cancelled. The other file is then removed.
pub(super) fn convert(
    disk: &impl Disk,
    (snapshot, target): (&Path, &Path),
    limits: Limits,
    annotated_at: Option<i64>,
    is_cancelled: &AtomicBool,
) -> Result<(), ConvertError> {
    let result = disk.create(target).map_err(ConvertError::from).and_then(|file| {
        let mut conversion = Conversion::new(file, limits, is_cancelled);
        conversion.out.extend(annotated_at.map(timestamp_annotation).unwrap_or_default());
        conversion.run(FileReader::new(disk.open(snapshot)?))
    });
    // A file that stays is overwritten by the next conversion.
    result.inspect_err(|_| _ = disk.remove(target))
}

struct Conversion<'a, F> {
    file: F,
    is_cancelled: &'a AtomicBool,
    out: Vec<u8>,
    /// The database of the last request.
    db: u64,
    values: Values,
}

/// The memory in which values are decoded. Each value is dropped before the next one is decoded.
struct Values {
    heap: Heap,
    hasher: KeyHasher,
    limits: Limits,
    encoder: Encoder,
}

impl<'a, F: DiskFile> Conversion<'a, F> {
    fn new(file: F, limits: Limits, is_cancelled: &'a AtomicBool) -> Self {
        let values = Values {
            heap: Heap::new(),
            hasher: KeyHasher::new([0; 4]),
            limits,
            encoder: Encoder::new(Version::V11, true),
        };
        // No database is selected at the beginning of a file, so that one is, even the first.
        Self { file, is_cancelled, out: Vec::new(), db: u64::MAX, values }
    }

    fn run(mut self, mut snapshot: FileReader<impl DiskFile>) -> Result<(), ConvertError> {
        let mut cutter = Cutter::new(false).taking_any_version();
        let mut buffer = Vec::new();
        let mut start = 0;
        loop {
            let Some(Cut { event, size }) = cutter.next(&buffer[start..])? else {
                buffer.drain(..std::mem::take(&mut start));
                let wanted = PORTION_SIZE.max(buffer.len()) as u64;
                if snapshot.by_ref().take(wanted).read_to_end(&mut buffer)? == 0 {
                    return Err(cutter.unexpected_end(buffer.len()).into());
                }
                continue;
            };
            start += size;
            match event {
                Event::Key(record) => self.write_key(&record)?,
                Event::Function(source) => push(&mut self.out, &[b"FUNCTION", b"LOAD", source.as_ref()]),
                Event::End { .. } => break,
                _ => {}
            }
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err(ConvertError::Cancelled);
            }
            if self.out.len() >= PORTION_SIZE {
                self.flush()?;
            }
        }
        self.flush()?;
        Ok(self.file.sync()?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.append(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn write_key(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        if self.db != record.db {
            self.db = record.db;
            push(&mut self.out, &[b"SELECT", record.db.to_string().as_bytes()]);
        }
        let context = DecodeContext {
            alloc: AllocContext { heap: &self.values.heap, hasher: &self.values.hasher },
            limits: self.values.limits,
            drop_fields_before: None,
        };
        let key = record.key.as_ref();
        let value = decode(record.value_type, record.value, record.offset, context)?;
        match &value {
            Value::Bytes(bytes) => push(&mut self.out, &[b"SET", key, bytes]),
            Value::Int(value) => push(&mut self.out, &[b"SET", key, value.to_string().as_bytes()]),
            Value::Object(object) => self.write_object(key, object)?,
            Value::Empty => return Ok(()),
        }
        if let Some(at) = record.expiry {
            push(&mut self.out, &[b"PEXPIREAT", key, at.to_string().as_bytes()]);
        }
        Ok(())
    }

    fn write_object(&mut self, key: &[u8], object: &Object) -> Result<(), ConvertError> {
        match object {
            Object::List(list) => {
                let mut request = Growing::new(&mut self.out, b"RPUSH", key, 1);
                list.walk(0, |_, item| {
                    request.add([text(item, &mut DecimalBuffer::new())]);
                    true
                });
                request.end();
            }
            Object::Set(set) => {
                let mut request = Growing::new(&mut self.out, b"SADD", key, 1);
                set.iter().for_each(|item| request.add([text(item, &mut DecimalBuffer::new())]));
                request.end();
            }
            Object::SortedSet(set) => {
                let mut request = Growing::new(&mut self.out, b"ZADD", key, 2);
                for (member, score) in set.iter() {
                    request.add([score_text(score).as_bytes(), member]);
                }
                request.end();
            }
            Object::Hash(hash) => self.write_hash(key, hash),
            Object::Stream(stream) if stream.group_count() == 0 => write_stream(&mut self.out, key, stream),
            object => self.write_dump(key, object)?,
        }
        // Long values are written before the next one is decoded.
        if self.out.len() >= PORTION_SIZE {
            self.flush()?;
        }
        Ok(())
    }

    fn write_hash(&mut self, key: &[u8], hash: &Hash) {
        let alloc = AllocContext { heap: &self.values.heap, hasher: &self.values.hasher };
        let mut expiring = Vec::new();
        let mut request = Growing::new(&mut self.out, b"HSET", key, 2);
        let mut from = Some(0);
        while let Some(start) = from {
            from = hash.scan_with_expiries(alloc, start, |field, value, expiry| {
                let (mut of_field, mut of_value) = (DecimalBuffer::new(), DecimalBuffer::new());
                let (field, value) = (text(field, &mut of_field), text(value, &mut of_value));
                request.add([field, value]);
                if let Some(at) = expiry {
                    let at = at.to_string();
                    push(&mut expiring, &[b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", field]);
                }
            });
        }
        request.end();
        self.out.append(&mut expiring);
    }

    fn write_dump(&mut self, key: &[u8], object: &Object) -> Result<(), ConvertError> {
        let alloc = AllocContext { heap: &self.values.heap, hasher: &self.values.hasher };
        let (encoder, value) = (&mut self.values.encoder, ValueRef::Object(object));
        let mut payload = Vec::new();
        let encoded = encoder.type_byte(value).and_then(|byte| {
            payload.push(byte);
            encoder.write_value(alloc, value, &mut payload)
        });
        encoded.map_err(|_| io::Error::other("a value has no dump"))?;
        Payload::seal(Version::V11, &mut payload);
        push(&mut self.out, &[b"RESTORE", key, b"0", &payload]);
        Ok(())
    }
}

/// A request that adds elements to a collection, and is followed by another one when it has enough.
struct Growing<'a> {
    out: &'a mut Vec<u8>,
    head: [&'a [u8]; 2],
    /// Arguments of an element.
    width: usize,
    args: Vec<u8>,
    count: usize,
}

impl<'a> Growing<'a> {
    fn new(out: &'a mut Vec<u8>, command: &'a [u8], key: &'a [u8], width: usize) -> Self {
        Self { out, head: [command, key], width, args: Vec::new(), count: 0 }
    }

    fn add<const N: usize>(&mut self, element: [&[u8]; N]) {
        element.into_iter().for_each(|arg| push_arg(&mut self.args, arg));
        self.count += 1;
        if self.count == ELEMENT_COUNT_MAX {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.count == 0 {
            return;
        }
        push_count(self.out, self.head.len() + self.count * self.width);
        self.head.into_iter().for_each(|arg| push_arg(self.out, arg));
        self.out.append(&mut self.args);
        self.count = 0;
    }
}

/// Writes a stream without groups.
fn write_stream(out: &mut Vec<u8>, key: &[u8], stream: &Stream) {
    if stream.is_empty() {
        // A stream without entries is one that has lost its last one.
        push(out, &[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
    }
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        push_count(out, 3 + 2 * entry.pair_count());
        let id = entry.id.to_string();
        [b"XADD".as_slice(), key, id.as_bytes()].into_iter().for_each(|arg| push_arg(out, arg));
        for (name, value) in entry.pairs() {
            push_arg(out, name);
            push_arg(out, value);
        }
    }
    let numbers =
        [stream.last_id.to_string(), stream.entries_added.to_string(), stream.max_deleted_id.to_string()];
    let [last_id, added, deleted] = numbers.each_ref().map(|number| number.as_bytes());
    push(out, &[b"XSETID", key, last_id, b"ENTRIESADDED", added, b"MAXDELETEDID", deleted]);
}

fn text<'a>(item: Item<'a>, buffer: &'a mut DecimalBuffer) -> &'a [u8] {
    item.text(buffer)
}

/// The shortest text that is read as this score.
fn score_text(score: f64) -> String {
    if score.is_infinite() {
        return if score > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    format!("{score:?}")
}

fn push(out: &mut Vec<u8>, args: &[&[u8]]) {
    push_count(out, args.len());
    args.iter().for_each(|arg| push_arg(out, arg));
}

fn push_count(out: &mut Vec<u8>, count: usize) {
    out.extend(format!("*{count}\r\n").into_bytes());
}

fn push_arg(out: &mut Vec<u8>, arg: &[u8]) {
    out.extend(format!("${}\r\n", arg.len()).into_bytes());
    out.extend_from_slice(arg);
    out.extend_from_slice(b"\r\n");
}

//! `DEBUG DIGEST` and `DEBUG DIGEST-VALUE`: digests of content, independent of encodings and of internal order.
//!
//! A digest covers values with the expiries of fields, and streams with their groups and pending entries. It omits the
//! last times of a stream's consumers, because replaying a log does not repeat them.

use base::DbIndex;
use collections::stream::{Stream, StreamId};
use collections::{AllocContext, DecimalBuffer, Entry, Hash, Item, Object, ValueRef};
use keyspace::Key;
use xxhash_rust::xxh3::xxh3_128;

use crate::context::Ctx;
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DEBUG DIGEST`: equal for equal data in any order; zero for an empty dataset.
pub(super) fn digest(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut digest = 0;
    for db in 0..ctx.data.db_count() {
        let db = DbIndex(db as u16);
        ctx.data.for_each(db, |entry| {
            let alloc = ctx.data.alloc_context(Key::new(ctx.hasher, entry.key(), db));
            let value = digest_of(entry, alloc);
            let mut text = format!("{} {:?} {value:032x} ", db.0, entry.expiry()).into_bytes();
            text.extend_from_slice(entry.key());
            digest ^= xxh3_128(&text);
        });
    }
    Ok(reply.simple(&format!("{digest:040x}")))
}

/// `DEBUG DIGEST-VALUE key ...`
pub(super) fn digest_values(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.array(ctx.planned.len());
    for key in ctx.keys() {
        let digest = ctx.data.peek(key).map_or(0, |entry| digest_of(entry, ctx.alloc_context(key)));
        out.simple(format!("{digest:040x}"));
    }
    Ok(out.done())
}

/// Returns a digest of a value, printed as 40 hexadecimal digits.
fn digest_of(entry: Entry<'_>, alloc: AllocContext<'_>) -> u128 {
    let ValueRef::Object(object) = entry.value() else {
        let mut buffer = DecimalBuffer::new();
        return xxh3_128(entry.value().text(&mut buffer).unwrap_or_default());
    };
    let mut digest = Digest::new();
    match object {
        Object::Set(set) => set.iter().for_each(|member| digest.add(&[member])),
        Object::Hash(hash) => add_hash(&mut digest, hash, alloc),
        Object::SortedSet(set) => set.iter().for_each(|(member, score)| {
            digest.add(&[Item::Bytes(member), Item::Bytes(&score.to_be_bytes())])
        }),
        Object::List(list) => {
            let mut index = 0;
            list.walk(0, |_, item| {
                digest.add(&[Item::Int(index), item]);
                index += 1;
                true
            });
        }
        Object::Stream(stream) => add_stream(&mut digest, stream),
        other => digest.add_text(&format!("{other:?}")),
    }
    digest.0
}

/// A digest of parts, independent of their order. A part whose position matters includes it.
struct Digest(u128);

impl Digest {
    /// The initial value distinguishes a single element from an equal string.
    fn new() -> Self {
        Self(!0)
    }

    fn add(&mut self, part: &[Item<'_>]) {
        let mut text = Vec::new();
        for item in part {
            text.extend_from_slice(item.text(&mut DecimalBuffer::new()));
            text.push(0);
        }
        self.0 ^= xxh3_128(&text);
    }

    fn add_text(&mut self, text: &str) {
        self.add(&[Item::Bytes(text.as_bytes())]);
    }
}

fn add_hash(digest: &mut Digest, hash: &Hash, alloc: AllocContext<'_>) {
    let has_expiries = hash.has_expiries();
    hash.visit(i64::MIN, |field, value| {
        let mut buffer = DecimalBuffer::new();
        let found = has_expiries.then(|| hash.find(alloc, field.text(&mut buffer), i64::MIN)).flatten();
        match found.and_then(|found| found.expiry) {
            Some(at) => digest.add(&[field, value, Item::Int(at)]),
            None => digest.add(&[field, value]),
        }
        true
    });
}

fn add_stream(digest: &mut Digest, stream: &Stream) {
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        let mut text = entry.id.to_string().into_bytes();
        for (field, value) in entry.pairs() {
            for part in [field, value] {
                text.push(0);
                text.extend_from_slice(part);
            }
        }
        digest.add(&[Item::Bytes(&text)]);
    }
    digest.add_text(&format!("{} {} {}", stream.last_id, stream.max_deleted_id, stream.entries_added));
    for (name, group) in stream.groups() {
        let name = name.escape_ascii();
        digest.add_text(&format!("group {name} {} {:?}", group.last_id, group.entries_read));
        for (_, consumer) in group.consumers() {
            digest.add_text(&format!("consumer {name} {}", consumer.name.escape_ascii()));
        }
        for (id, delivery) in group.pending_from(StreamId::MIN) {
            let consumer = group.consumer(delivery.consumer).name.escape_ascii();
            digest.add_text(&format!("pending {name} {id} {consumer} {} {}", delivery.at, delivery.count));
        }
    }
}

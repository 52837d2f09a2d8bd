//! Hash commands.

use std::collections::BTreeMap;

use collections::{CollectionLimits, DecimalBuffer, Hash, Item};
use config::Config;
use keyspace::Key;
use wire::reply::ReplyBuffer;

use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, ArgType};

mod fields;
pub mod hdel;
pub mod hexists;
pub mod hexpire;
pub mod hget;
pub mod hgetall;
pub mod hgetdel;
pub mod hgetex;
pub mod hincrby;
pub mod hincrbyfloat;
pub mod hlen;
pub mod hmget;
pub mod hpersist;
pub mod hrandfield;
pub mod hscan;
pub mod hset;
pub mod hsetex;
pub mod hsetnx;
pub mod hstrlen;
pub mod httl;
mod options;

/// Documentation of `FIELDS numfields field [field ...]`.
const FIELDS: Arg = fields_arg(&[Arg::integer("numfields").of_key(0), Arg::string("field").multiple()]);

/// [`FIELDS`] of `HEXPIRE`, which Valkey describes without a key spec.
const PLAIN_FIELDS: Arg = fields_arg(&[Arg::integer("numfields"), Arg::string("field").multiple()]);

const fn fields_arg(parts: &'static [Arg]) -> Arg {
    Arg::block("fields", parts).token("FIELDS")
}

/// Documentation of the expiry options of `HGETEX` and `HSETEX`.
const fn expirations(last: Arg) -> [Arg; 5] {
    [
        Arg::integer("seconds").token("EX"),
        Arg::integer("milliseconds").token("PX"),
        Arg::new("unix-time-seconds", ArgType::UnixTime).token("EXAT"),
        Arg::new("unix-time-milliseconds", ArgType::UnixTime).token("PXAT"),
        last,
    ]
}

/// Returns the limits of the `listpack` encoding.
pub(crate) fn limits(config: &Config) -> CollectionLimits {
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    CollectionLimits {
        entry_count_max: size(config.hash_max_listpack_entries),
        value_size_max: size(config.hash_max_listpack_value),
    }
}

/// Writes a field or value as a bulk string.
#[inline]
fn write_item(out: &mut ReplyBuffer<'_>, item: Item<'_>) {
    match item {
        Item::Bytes(bytes) => out.bulk(bytes),
        Item::Int(value) => out.bulk_int(value),
    }
}

/// Records a change of some fields: the command, then `FIELDS` and the fields with their number.
fn log_fields(ctx: &mut Ctx<'_>, command: &[EffectArg<'_>], fields: &[&[u8]]) {
    if ctx.records_effects() {
        let counted = [EffectArg::from("FIELDS"), (fields.len() as i64).into()];
        let fields = fields.iter().map(|field| EffectArg::from(*field));
        let args: Vec<EffectArg<'_>> = command.iter().copied().chain(counted).chain(fields).collect();
        ctx.record_effect(&args);
    }
}

/// Records the removal of some fields.
fn log_removed(ctx: &mut Ctx<'_>, key: Key<'_>, fields: &[&[u8]]) {
    if ctx.records_effects() {
        let command = [EffectArg::from("HDEL"), key.bytes.into()];
        let args: Vec<EffectArg<'_>> =
            command.into_iter().chain(fields.iter().map(|field| EffectArg::from(*field))).collect();
        ctx.record_effect(&args);
    }
}

/// Records an expiry of some fields.
fn log_expiry(ctx: &mut Ctx<'_>, key: Key<'_>, at: i64, fields: &[&[u8]]) {
    log_fields(ctx, &["HPEXPIREAT".into(), key.bytes.into(), at.into()], fields);
}

/// Records the expiries of fields that were assigned without changing them: the logged `HSET` clears them.
fn log_kept_expiries(ctx: &mut Ctx<'_>, key: Key<'_>, fields: &[&[u8]]) {
    let (alloc, due) = (ctx.alloc_context(key), ctx.data.due());
    let Some(hash) = ctx.peek::<Hash>(key) else { return };
    let expiry = |field: &&[u8]| hash.find(alloc, field, due).and_then(|found| found.expiry);
    let kept: Vec<(i64, &[u8])> =
        fields.iter().filter_map(|field| expiry(field).map(|at| (at, *field))).collect();
    for same in kept.chunk_by(|one, next| one.0 == next.0) {
        log_expiry(ctx, key, same[0].0, &same.iter().map(|(_, field)| *field).collect::<Vec<_>>());
    }
}

/// Records the assignment of a field whose expiry was not changed.
fn log_set(ctx: &mut Ctx<'_>, key: Key<'_>, field: &[u8], value: &[u8]) {
    if ctx.records_effects() {
        ctx.record_effect(&["HSET".into(), key.bytes.into(), field.into(), value.into()]);
        log_kept_expiries(ctx, key, &[field]);
    }
}

/// Fields in one logged request.
const LOGGED_FIELD_COUNT_MAX: usize = 1024;

/// Records a new hash, field by field: the values, then the expiries, also those that are past.
pub(crate) fn log_all(ctx: &mut Ctx<'_>, key: Key<'_>) {
    const FIRST: i64 = i64::MIN;
    let alloc = ctx.alloc_context(key);
    let Some(hash) = ctx.peek::<Hash>(key).filter(|_| ctx.records_effects()) else { return };
    let mut pairs: Vec<[Vec<u8>; 2]> = Vec::new();
    let mut expiries: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    hash.visit(FIRST, |field, value| {
        let pair = [field, value].map(|item| item.text(&mut DecimalBuffer::new()).to_vec());
        if let Some(at) = hash.find(alloc, &pair[0], FIRST).and_then(|found| found.expiry) {
            expiries.entry(at).or_default().push(pairs.len());
        }
        pairs.push(pair);
        true
    });
    for pairs in pairs.chunks(LOGGED_FIELD_COUNT_MAX) {
        let words = pairs.iter().flatten().map(|word| EffectArg::from(&word[..]));
        let effect: Vec<_> = [EffectArg::from("HSET"), key.bytes.into()].into_iter().chain(words).collect();
        ctx.record_effect(&effect);
    }
    for (at, places) in expiries {
        for places in places.chunks(LOGGED_FIELD_COUNT_MAX) {
            let fields: Vec<&[u8]> = places.iter().map(|place| &pairs[*place][0][..]).collect();
            log_expiry(ctx, key, at, &fields);
        }
    }
}

/// Counts expired fields that a command overwrote, and publishes their expiry, as if they had expired just before.
fn note_expired(ctx: &mut Ctx<'_>, count: usize, key: Key<'_>) {
    if count > 0 {
        ctx.data.counters.expired_fields.add(count as u64);
        ctx.announce(EventClass::Hash, "hexpired", key);
    }
}

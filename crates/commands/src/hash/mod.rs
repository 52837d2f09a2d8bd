//! Hash commands.

use collections::{CollectionLimits, Item};
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
const FIELDS: Arg =
    Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()]).token("FIELDS");

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
    if ctx.logs() {
        let counted = [EffectArg::from("FIELDS"), (fields.len() as i64).into()];
        let fields = fields.iter().map(|field| EffectArg::from(*field));
        let args: Vec<EffectArg<'_>> = command.iter().copied().chain(counted).chain(fields).collect();
        ctx.log(&args);
    }
}

/// Records the removal of some fields.
fn log_removed(ctx: &mut Ctx<'_>, key: Key<'_>, fields: &[&[u8]]) {
    if ctx.logs() {
        let command = [EffectArg::from("HDEL"), key.bytes.into()];
        let args: Vec<EffectArg<'_>> =
            command.into_iter().chain(fields.iter().map(|field| EffectArg::from(*field))).collect();
        ctx.log(&args);
    }
}

/// Records the assignment of a field: of a new one if it was expired.
fn log_set(ctx: &mut Ctx<'_>, key: Key<'_>, field: &[u8], value: &[u8], has_expiry: bool) {
    let (key, field, value) = (key.bytes.into(), field.into(), value.into());
    if has_expiry {
        ctx.log(&["HSETEX".into(), key, "KEEPTTL".into(), "FIELDS".into(), 1.into(), field, value]);
    } else {
        ctx.log(&["HSET".into(), key, field, value]);
    }
}

/// Counts expired fields that a command overwrote, and publishes their expiry, as if they had expired just before.
fn note_expired(ctx: &mut Ctx<'_>, count: usize, key: Key<'_>) {
    if count > 0 {
        ctx.data.counters.expired_fields.add(count as u64);
        ctx.announce(EventClass::Hash, "hexpired", key);
    }
}

//! The hash family.

use collections::{CollectionLimits, Item};
use config::Config;
use keyspace::Key;
use wire::reply::ReplyBuffer;

use crate::context::{Ctx, EventClass};
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
mod lifetime;

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
fn limits(config: &Config) -> CollectionLimits {
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

/// Counts and announces expired fields that a command overwrote, as if they had expired just before.
fn note_expired(ctx: &mut Ctx<'_>, count: usize, key: Key<'_>) {
    if count > 0 {
        ctx.data.counters.expired_fields.add(count as u64);
        ctx.announce(EventClass::Hash, "hexpired", key);
    }
}

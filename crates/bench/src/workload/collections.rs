//! The named workloads on lists, sets, hashes, sorted sets and streams, and on channels.

use super::{HOT, IN_ORDER, Named, Own, USUAL};

/// 10,000 collections of 50 elements of 70 bytes: 40 MB, which exceeds every cache.
const WIDE: Own = Own { key_count: Some(10_000), value_size: Some(70), ..USUAL };

/// Small elements in 100,000 collections.
const MANY: Own = Own { key_count: Some(100_000), value_size: Some(8), ..USUAL };
const STREAMS: Own = Own { fill_times: 10, ..MANY };
const USED_UP: Own = Own { uses_up: Some(10), ..MANY };

/// Small elements in one collection.
const ONE: Own = Own { key_count: Some(1), ..MANY };
const ONE_USED_UP: Own = Own { fill_times: 10_000, uses_up: Some(1_000_000), ..ONE };
const ONE_STREAM: Own = Own { fill_times: 5_000_000, ..ONE };

/// The key count of the user, often as members of one collection.
const MILLION: Own = Own { value_size: Some(8), ..USUAL };

/// One hundred subscribers.
const NEWS: Own = Own { listener_count: 100, value_size: Some(64), ..USUAL };

/// One queue, with 150 blocked consumers.
const QUEUE: Own = Own { waiting: Some((150, "BRPOP {key} 1")), ..ONE };
const PRIORITY_QUEUE: Own = Own { waiting: Some((150, "BZPOPMIN {key} 1")), ..ONE };

const HASHES: Option<&str> = Some("HSET {key} {times:50 f{nth} {value} }");
const SORTED_SETS: Option<&str> = Some(
    "ZADD {key} {times:50 {nth} m{nth}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx }",
);
const LISTS: Option<&str> = Some("RPUSH {key} {times:50 {value} }");
const SETS: Option<&str> = Some("SADD {key} {times:50 element:{nth} }");
const STREAM: Option<&str> = Some("XADD {key} * field {value}");
const BIG: Option<&str> = Some("ZADD big {int:0..9999999} m:{key}");

#[rustfmt::skip]
pub(super) static NAMED: &[Named] = &[
    Named { name: "fill-hash", key_prefix: "f:", fill: Some("HSET one field:{key} {value}"), distribution: None, from_empty: false, own: MILLION, commands: &[(1, "PING")],
        about: "for its fill only: one hash with --keys fields of 8 bytes" },
    Named { name: "fill-hashes", key_prefix: "h:", fill: Some("HSET {key} {times:10 field:{nth} {value} }"), distribution: None, from_empty: false, own: MILLION, commands: &[(1, "PING")],
        about: "for its fill only: hashes of 10 fields of 8 bytes" },
    Named { name: "fill-lists", key_prefix: "l:", fill: Some("RPUSH {key} {times:20 {value} }"), distribution: None, from_empty: false, own: MILLION, commands: &[(1, "PING")],
        about: "for its fill only: lists of 20 elements of 8 bytes" },
    Named { name: "fill-set", key_prefix: "f:", fill: Some("SADD one member:{key}"), distribution: None, from_empty: false, own: MILLION, commands: &[(1, "PING")],
        about: "for its fill only: one set with --keys members" },
    Named { name: "fill-stream", key_prefix: "s:", fill: Some("XADD {key} * field {value}"), distribution: None, from_empty: false, own: ONE_STREAM, commands: &[(1, "PING")],
        about: "for its fill only: one stream with entries of one field" },
    Named { name: "fill-zset", key_prefix: "f:", fill: Some("ZADD one {int} member:{key}"), distribution: None, from_empty: false, own: MILLION, commands: &[(1, "PING")],
        about: "for its fill only: one sorted set with --keys members" },
    Named { name: "hgetall", key_prefix: "h:", fill: HASHES, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "HGETALL {key}")],
        about: "HGETALL of hashes of 50 fields of 70 bytes" },
    Named { name: "hmixed", key_prefix: "h:", fill: HASHES, distribution: None, from_empty: false, own: WIDE, commands: &[(80, "HGET {key} f{num:50}"), (20, "HSET {key} f{num:50} {value}")],
        about: "80 % HGET and 20 % HSET on hashes of 50 fields of 70 bytes" },
    Named { name: "hmixed-hot", key_prefix: "h:", fill: HASHES, distribution: HOT, from_empty: false, own: WIDE, commands: &[(80, "HGET {key} f{num:50}"), (20, "HSET {key} f{num:50} {value}")],
        about: "80 % HGET and 20 % HSET on a single hash of 50 fields of 70 bytes" },
    Named { name: "hset", key_prefix: "h:", fill: HASHES, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "HSET {key} f{num:50} {value}")],
        about: "HSET of one field in hashes of 50 fields of 70 bytes" },
    Named { name: "incr-small", key_prefix: "i:", fill: None, distribution: None, from_empty: false, own: MANY, commands: &[(1, "INCR {key}")],
        about: "INCR of 100,000 numbers" },
    Named { name: "lindex", key_prefix: "l:", fill: LISTS, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "LINDEX {key} {int:0..49}")],
        about: "LINDEX in lists of 50 elements of 70 bytes" },
    Named { name: "lmixed", key_prefix: "l:", fill: LISTS, distribution: None, from_empty: false, own: WIDE, commands: &[(80, "LINDEX {key} {int:0..49}"), (20, "LSET {key} {int:0..49} {value}")],
        about: "80 % LINDEX and 20 % LSET on lists of 50 elements of 70 bytes" },
    Named { name: "lmixed-hot", key_prefix: "l:", fill: LISTS, distribution: HOT, from_empty: false, own: WIDE, commands: &[(80, "LINDEX {key} {int:0..49}"), (20, "LSET {key} {int:0..49} {value}")],
        about: "80 % LINDEX and 20 % LSET on a single list of 50 elements of 70 bytes" },
    Named { name: "lpush", key_prefix: "q:", fill: None, distribution: None, from_empty: false, own: MANY, commands: &[(1, "LPUSH {key} {value}")],
        about: "LPUSH of 8 bytes to 100,000 lists" },
    Named { name: "lpush-one", key_prefix: "q:", fill: None, distribution: None, from_empty: false, own: ONE, commands: &[(1, "LPUSH {key} {value}")],
        about: "LPUSH of 8 bytes to one list" },
    Named { name: "lset", key_prefix: "l:", fill: LISTS, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "LSET {key} {int:0..49} {value}")],
        about: "LSET in lists of 50 elements of 70 bytes" },
    Named { name: "publish", key_prefix: "k:", fill: None, distribution: None, from_empty: false, own: NEWS, commands: &[(1, "PUBLISH news {value}")],
        about: "PUBLISH to 100 subscribers; counts delivered messages" },
    Named { name: "queue", key_prefix: "b:", fill: None, distribution: None, from_empty: false, own: QUEUE, commands: &[(1, "LPUSH {key} {value}")],
        about: "LPUSH to one list; 150 connections run BRPOP on it" },
    Named { name: "queue-zset", key_prefix: "v:", fill: None, distribution: None, from_empty: false, own: PRIORITY_QUEUE, commands: &[(1, "ZADD {key} {int} job:{+0}")],
        about: "ZADD to one sorted set; 150 connections run BZPOPMIN on it" },
    Named { name: "rpop", key_prefix: "p:", fill: Some("RPUSH {key} {times:10 {value} }"), distribution: IN_ORDER, from_empty: false, own: USED_UP, commands: &[(1, "RPOP {key}")],
        about: "RPOP of 8 bytes from 100,000 lists of 10, until they are empty" },
    Named { name: "rpop-one", key_prefix: "p:", fill: Some("RPUSH {key} {times:100 {value} }"), distribution: None, from_empty: false, own: ONE_USED_UP, commands: &[(1, "RPOP {key}")],
        about: "RPOP of 8 bytes from one list of a million" },
    Named { name: "sadd", key_prefix: "t:", fill: None, distribution: None, from_empty: false, own: MANY, commands: &[(1, "SADD {key} element:{num:99}")],
        about: "SADD to 100,000 sets of up to 99 members" },
    Named { name: "sadd-one", key_prefix: "t:", fill: None, distribution: None, from_empty: false, own: ONE, commands: &[(1, "SADD {key} element:{num:1000000}")],
        about: "SADD to one set of up to a million members" },
    Named { name: "smixed", key_prefix: "s:", fill: SETS, distribution: None, from_empty: false, own: MANY, commands: &[(80, "SISMEMBER {key} element:{num:99}"), (10, "SADD {key} element:{num:99}"), (10, "SREM {key} element:{num:99}")],
        about: "80 % SISMEMBER, 10 % SADD and 10 % SREM on sets of about 50 members" },
    Named { name: "spop", key_prefix: "u:", fill: Some("SADD {key} {times:10 element:{nth} }"), distribution: IN_ORDER, from_empty: false, own: USED_UP, commands: &[(1, "SPOP {key}")],
        about: "SPOP from 100,000 sets of 10, until they are empty" },
    Named { name: "spop-one", key_prefix: "u:", fill: Some("SADD {key} {times:100 e:{num:999999999} }"), distribution: None, from_empty: false, own: ONE_USED_UP, commands: &[(1, "SPOP {key}")],
        about: "SPOP from one set of a million" },
    Named { name: "xadd", key_prefix: "y:", fill: None, distribution: None, from_empty: false, own: MANY, commands: &[(1, "XADD {key} * field {value}")],
        about: "XADD of one field of 8 bytes to 100,000 streams" },
    Named { name: "xadd-one", key_prefix: "y:", fill: None, distribution: None, from_empty: false, own: ONE, commands: &[(1, "XADD {key} * field {value}")],
        about: "XADD of one field of 8 bytes to one stream" },
    Named { name: "xmixed", key_prefix: "x:", fill: STREAM, distribution: None, from_empty: false, own: MANY, commands: &[(80, "XREAD COUNT 1 STREAMS {key} 0"), (20, "XADD {key} MAXLEN ~ 100 * field {value}")],
        about: "80 % XREAD of one entry and 20 % XADD on 100,000 streams" },
    Named { name: "xread", key_prefix: "w:", fill: STREAM, distribution: None, from_empty: false, own: STREAMS, commands: &[(1, "XREAD COUNT 10 STREAMS {key} 0")],
        about: "XREAD of 10 entries from 100,000 streams" },
    Named { name: "zadd", key_prefix: "z:", fill: SORTED_SETS, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "ZADD {key} {int:0..99} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
        about: "ZADD of another score in sorted sets of 50 members of 70 bytes" },
    Named { name: "zadd-big", key_prefix: "m:", fill: BIG, distribution: None, from_empty: false, own: MILLION, commands: &[(1, "ZADD big {int:0..9999999} m:{key}")],
        about: "ZADD of another score in one sorted set of a million members" },
    Named { name: "zmixed", key_prefix: "z:", fill: SORTED_SETS, distribution: None, from_empty: false, own: WIDE, commands: &[(80, "ZSCORE {key} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), (20, "ZADD {key} {int:0..99} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
        about: "80 % ZSCORE and 20 % ZADD on sorted sets of 50 members of 70 bytes" },
    Named { name: "zmixed-hot", key_prefix: "z:", fill: SORTED_SETS, distribution: HOT, from_empty: false, own: WIDE, commands: &[(80, "ZSCORE {key} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), (20, "ZADD {key} {int:0..99} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
        about: "80 % ZSCORE and 20 % ZADD on a single sorted set of 50 members of 70 bytes" },
    Named { name: "zrange-big", key_prefix: "m:", fill: BIG, distribution: None, from_empty: false, own: MILLION, commands: &[(1, "ZRANGE big {int:0..999900} {+99}")],
        about: "ZRANGE of 100 members in one sorted set of a million members" },
    Named { name: "zrank", key_prefix: "z:", fill: SORTED_SETS, distribution: None, from_empty: false, own: WIDE, commands: &[(1, "ZRANK {key} m{num:50}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
        about: "ZRANK in sorted sets of 50 members of 70 bytes" },
    Named { name: "zrank-big", key_prefix: "m:", fill: BIG, distribution: None, from_empty: false, own: MILLION, commands: &[(1, "ZRANK big m:{key}")],
        about: "ZRANK in one sorted set of a million members" },
];

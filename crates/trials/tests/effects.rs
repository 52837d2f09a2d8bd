//! The append-only file has only commands that Redis 7.2 and Valkey 8 know, and those of hash fields with an expiry of
//! their successors: each form of each write command is run, and its effects give the same data in every peer and here.
//!
//! A form that uses a new command or option belongs into [`FORMS`]. A write command that is missing there fails the test.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use trials::connection::Connection;
use trials::reply::Reply;
use trials::server::{Server, peers_or_skip};

/// Requests that belong together, separated by `;`. `@` begins each key, and is replaced by the number of the form. `FAR` is a
/// time far away.
const FORMS: &[&str] = &[
    // Strings.
    "SET @a 1; SET @b 2 EX 1000; SET @c 3 PX 1000000; SET @d 4 EXAT 4102444800; SET @e 5 PXAT FAR",
    "SET @a 1 PXAT FAR; SET @a 2 KEEPTTL; SET @a 3 XX KEEPTTL; SET @b 1 NX; SET @b 2 NX; SET @b 3 GET; SET @c 1 NX GET",
    "SET @a 1; SET @a 2 IFEQ 1; SET @a 3 IFEQ 1; SET @a 4 IFNE 1; SET @b 5 IFNE x; SET @c 5 IFEQ x",
    "SET @a 1 PXAT FAR; SET @a 2 IFEQ 1 KEEPTTL; SET @b 1; SET @b 2 IFEQ 1 PXAT FAR; SET @c 1 PXAT FAR; SET @c 2 IFNE 3",
    "SET @a 1; SET @a 2 IFEQ 1 GET; SET @b 1; SET @b 2 IFNE 2 GET PX 1000000; SET @c 1; SET @c 2 IFEQ 1 PXAT 1",
    "SET @a 1; SET @a 2 IFDNE 0000000000000000; SET @b 1 IFDNE 0000000000000000; SET @a 3 IFDEQ 0000000000000000",
    "SET @a x; SET @b y; SET @a 1 PXAT 1; SETEX @b 1000 z; PSETEX @c 1000000 z",
    "SETNX @a 1; SETNX @a 2; GETSET @a 3; GETSET @b 4; APPEND @a 5; APPEND @c 6; SETRANGE @c 3 x; SETRANGE @d 2 x",
    "MSET @a 1 @b 2; MSETNX @c 1 @d 2; MSETNX @c 3 @e 4",
    "MSETEX 2 @a 1 @b 2 PXAT FAR; MSETEX 2 @a 3 @b 4 KEEPTTL; MSETEX 1 @a 5 XX; MSETEX 1 @c 1 NX EX 1000; MSETEX 1 @c 1 NX",
    "SET @a 1; GETDEL @a; SET @b 1; GETEX @b PXAT FAR; SET @c 1 PXAT FAR; GETEX @c PERSIST; SET @d 1; GETEX @d PXAT 1",
    "SET @a 1; GETEX @a EX 1000; SET @b 1; GETEX @b PX 1000000; SET @c 1; GETEX @c EXAT 4102444800",
    "INCR @a; INCRBY @a 7; DECR @b; DECRBY @b 7; INCRBYFLOAT @c 1.5; SET @d 1 PXAT FAR; INCRBYFLOAT @d 0.1; INCR @e",
    "SET @a 1; DELEX @a; SET @b 1; DELEX @b IFEQ 1; SET @c 1; DELEX @c IFEQ 2; DELEX @c IFNE 2; SET @d 1; DELEX @d IFNE 1",
    "SET @a 1; DELIFEQ @a 1; SET @b 1; DELIFEQ @b 2; SET @c 1; DELEX @c IFDNE 0000000000000000",
    // Bitmaps and HyperLogLogs.
    "SETBIT @a 7 1; SETBIT @a 100 1; BITFIELD @b SET u8 0 200 INCRBY u8 0 100 OVERFLOW SAT INCRBY i5 100 1",
    "SET @a abc; SET @b abd; SET @c xyz; BITOP AND @1 @a @b; BITOP OR @2 @a @b; BITOP XOR @3 @a @b; BITOP NOT @4 @a",
    "SET @a abc; SET @b abd; SET @c xyz PXAT FAR; BITOP DIFF @1 @a @b @c; BITOP DIFF1 @2 @a @b @c; BITOP ANDOR @c @a @b",
    "SET @a abc; SET @b abd; SET @1 x PXAT FAR; BITOP ONE @1 @a @b; SET @2 old; BITOP DIFF @2 @x @y; BITOP ONE @3 @x",
    "PFADD @a x y z; PFADD @b; PFADD @c u v; PFMERGE @d @a @c; PFCOUNT @a; PFDEBUG TODENSE @c; PFMERGE @e; PFADD @a x",
    // Hashes.
    "HSET @a f 1 g 2; HMSET @b f 1; HSETNX @a f 3; HSETNX @a h 3; HDEL @a g x; HINCRBY @a f 5; HINCRBYFLOAT @a f 0.5",
    "HSET @a f 1 g 2 h 3; HPEXPIRE @a 1000000 FIELDS 2 f g; HEXPIRE @a 2000 GT FIELDS 1 g; HPERSIST @a FIELDS 1 f",
    "HSET @a f 1 g 2 h 3; HPEXPIREAT @a FAR FIELDS 2 f g; HEXPIREAT @a 4102444801 FIELDS 1 h; HPEXPIREAT @a 1 FIELDS 1 f",
    "HSETEX @a FIELDS 2 f 1 g 2; HSETEX @a PXAT FAR FIELDS 2 f 3 h 4; HSETEX @b EX 1000 FIELDS 1 f 1; HSETEX @b EXAT 4102444800 FIELDS 1 g 1",
    "HSET @a f 1 g 2 h 3; HPEXPIREAT @a FAR FIELDS 2 f g; HSETEX @a KEEPTTL FIELDS 3 f 4 h 5 i 6; HSETEX @a FIELDS 1 g 7",
    "HSETEX @a FNX PX 1000000 FIELDS 1 f 1; HSETEX @a FNX FIELDS 1 f 2; HSETEX @a FXX KEEPTTL FIELDS 1 f 3; HSETEX @b FXX FIELDS 1 f 1",
    "HSETEX @a NX FIELDS 1 f 1; HSETEX @a XX PXAT FAR FIELDS 1 f 2; HSETEX @a PXAT 1 FIELDS 1 g 2; HSET @b f 1; HSETEX @b PXAT 1 FIELDS 1 f 2",
    "HSET @a f 1 g 2; HPEXPIREAT @a FAR FIELDS 2 f g; HINCRBY @a f 5; HINCRBYFLOAT @a g 0.25; HSET @a h 1; HINCRBYFLOAT @a h 1",
    "HSET @a f 1 g 2 h 3; HGETEX @a PXAT FAR FIELDS 2 f g; HGETEX @a PERSIST FIELDS 1 g; HGETEX @a EX 1000 FIELDS 1 h; HGETEX @a PXAT 1 FIELDS 1 f",
    "HSET @a f 1 g 2; HGETDEL @a FIELDS 1 f; HSET @b f 1; HGETDEL @b FIELDS 2 f x; HSET @c f 1; HDEL @c f",
    // Lists.
    "RPUSH @a 1 2 3 4; LPUSH @a 0; LPUSHX @a x; RPUSHX @a y; RPUSHX @b z; LPOP @a; RPOP @a 2; LINSERT @a BEFORE 2 1.5; LSET @a 0 s",
    "RPUSH @a 1 2 3 2 2; LREM @a 1 2; LREM @a -1 2; LTRIM @a 0 1; RPUSH @b 1; LTRIM @b 5 9",
    "RPUSH @a 1 2 3 4; LMOVE @a @b LEFT RIGHT; LMOVE @a @a RIGHT LEFT; RPOPLPUSH @a @c; BLMOVE @a @b RIGHT LEFT 1; BRPOPLPUSH @b @d 1",
    "RPUSH @a 1 2 3 4 5; LMPOP 2 @x @a LEFT; LMPOP 1 @a RIGHT COUNT 2; BLMPOP 1 1 @a LEFT COUNT 2; RPUSH @b 1 2 3; BLPOP @b 1; BRPOP @x @b 1",
    "RPUSH @a 3 1 2; SORT @a STORE @b; SORT @a DESC LIMIT 0 2 STORE @c; SET @d x; SORT @x STORE @d",
    // Sets.
    "SADD @a 1 2 3; SADD @b 2 3 x; SREM @a 1 9; SMOVE @a @b 2; SINTERSTORE @1 @a @b; SUNIONSTORE @2 @a @b; SDIFFSTORE @3 @b @a",
    "SADD @a 1 2 3 4 5 6; SPOP @a; SPOP @a 2; SADD @b x; SPOP @b; SADD @c x y; SPOP @c 5; SET @d 1; SINTERSTORE @d @x @y",
    // Sorted sets.
    "ZADD @a 1 a 2 b 3 c; ZADD @a NX 5 a 4 d; ZADD @a XX CH 6 a; ZADD @a GT 1 a 9 b; ZADD @a INCR 2 c; ZINCRBY @a 1.5 c; ZREM @a d",
    "ZADD @a 1 a 2 b 3 c 4 d 5 e 6 f; ZPOPMIN @a; ZPOPMAX @a 2; ZMPOP 1 @a MIN; BZMPOP 1 2 @x @a MAX COUNT 1; BZPOPMIN @a 1; ZADD @a 1 x 2 y; BZPOPMAX @a 1",
    "ZADD @a 1 a 2 b 3 c; ZADD @b 1 a 7 z; ZUNIONSTORE @1 2 @a @b WEIGHTS 2 3; ZINTERSTORE @2 2 @a @b AGGREGATE MAX; ZDIFFSTORE @3 2 @a @b",
    "ZADD @a 1 a 2 b 3 c 4 d; ZRANGESTORE @1 @a 1 2; ZRANGESTORE @2 @a (1 3 BYSCORE LIMIT 1 1; ZRANGESTORE @3 @a [d [b BYLEX REV; ZRANGESTORE @1 @a 9 9",
    "ZADD @a 1 a 2 b 3 c 4 d 5 e; ZREMRANGEBYRANK @a 0 0; ZREMRANGEBYSCORE @a 2 2; ZADD @b 0 a 0 b 0 c; ZREMRANGEBYLEX @b [a (c",
    // Geospatial indexes.
    "GEOADD @g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2 48 Paris; GEOADD @g XX CH 13 38 Palermo; GEOADD @g NX 1 1 Paris",
    "GEOADD @g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2 48 Paris; GEOSEARCHSTORE @1 @g FROMLONLAT 15 37 BYRADIUS 200 km; GEOSEARCHSTORE @2 @g FROMLONLAT 15 37 BYBOX 400 400 km ASC STOREDIST",
    "GEOADD @g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2 48 Paris; GEOSEARCHSTORE @1 @g BYPOLYGON 4 12 36 16 36 16 39 12 39; GEOSEARCHSTORE @2 @g FROMLONLAT 15 37 BYRADIUS 5000 km COUNT 1 ANY",
    "GEOADD @g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania; GEORADIUS @g 15 37 200 km STORE @1; GEORADIUS @g 15 37 200 km STOREDIST @2; GEORADIUSBYMEMBER @g Palermo 300 km STORE @3; SET @4 x; GEORADIUS @g 0 0 1 m STORE @4",
    // Keys.
    "SET @a 1; SET @b 1; SET @c 1; DEL @a @x; UNLINK @b; SET @d 1; RENAME @d @e; SET @f 1; RENAMENX @f @e; RENAMENX @f @g",
    "SET @a 1; EXPIRE @a 1000; SET @b 1; PEXPIRE @b 1000000; SET @c 1; EXPIREAT @c 4102444800; SET @d 1; PEXPIREAT @d FAR; SET @e 1; EXPIRE @e -1",
    "SET @a 1 PXAT FAR; PERSIST @a; SET @b 1; EXPIRE @b 1000 NX; EXPIRE @b 2000 XX; EXPIRE @b 3000 GT; EXPIRE @b 1500 LT; SET @c 1; PEXPIREAT @c 1",
    "SET @a 1 PXAT FAR; COPY @a @b; RPUSH @c 1 2; COPY @c @a REPLACE; COPY @a @b DB 1; SET @m 1; MOVE @m 1",
    "SADD @a 1 2; DUMP @a; RESTORE-DUMP @a @b 0; RESTORE-DUMP @a @c 1000000; RESTORE-DUMP @a @b FAR REPLACE ABSTTL",
    "SADD @a 1 2; RESTORE-NEWER @a @b; SET @c x; RESTORE-NEWER @c @d; RPUSH @e 1 2 x; RESTORE-NEWER @e @f",
    "SELECT 1; SET @a 1; SELECT 0; SET @b 2; SWAPDB 1 2; SWAPDB 2 1; SELECT 3; SET @c 1; FLUSHDB; SET @d 1; SELECT 0",
    "MULTI; SET @a 1; SET @a 2 IFEQ 1; BITOP ONE @b @a; HSETEX @c PXAT FAR FIELDS 1 f 1; EXEC",
    // Scripts and functions.
    "EVAL redis.call('set',KEYS[1],1);redis.call('set',KEYS[1],2,'IFEQ',1);redis.call('hsetex',KEYS[2],'EX','1000','FIELDS','1','f','v') 2 @a @b",
    "FUNCTION LOAD LIBRARY; FCALL f 1 @a; FUNCTION DELETE lib; FUNCTION LOAD LIBRARY; FUNCTION LOAD REPLACE LIBRARY",
    "FUNCTION FLUSH; FUNCTION LOAD LIBRARY; FUNCTION-DUMP; FUNCTION RESTORE DUMPED REPLACE; EVALSHA-OF @a",
    // Streams.
    "XADD @a 1-1 f v; XADD @a 1-* f v; XADD @a * f v; XADD @b NOMKSTREAM 1-1 f v; XADD @a NOMKSTREAM 9999999999999-0 f v; XDEL @a 1-1",
    "STREAM @a; XADD @a MAXLEN 3 9-1 f v; XADD @a MAXLEN ~ 1 9-2 f v; XADD @a MINID 5-0 9-3 f v; XADD @a MINID ~ 8-0 LIMIT 1 9-4 f v",
    "STREAM @a; XTRIM @a MAXLEN 5; XTRIM @a MAXLEN ~ 1; XTRIM @a MINID 3-0; XTRIM @a MAXLEN = 1; XTRIM @a MAXLEN 0",
    "STREAM @a; XTRIM @a MAXLEN 4 KEEPREF; XTRIM @a MAXLEN 3 DELREF; STREAM @b; XTRIM @b MAXLEN 1 ACKED; STREAM @c; XTRIM @c MINID 3-0 DELREF",
    "STREAM @a; XADD @a DELREF MAXLEN 4 9-1 f v; STREAM @b; XADD @b ACKED MAXLEN 2 9-1 f v; STREAM @c; XADD @c KEEPREF MAXLEN 2 9-1 f v",
    "STREAM @a; XDEL @a 2-1; XTRIM @a MINID 4-0 DELREF; STREAM @b; XDEL @b 2-1; XTRIM @b MINID 4-0 ACKED",
    "STREAM @a; XDELEX @a IDS 2 1-1 9-9; XDELEX @a KEEPREF IDS 1 2-1; XDELEX @a DELREF IDS 2 2-1 3-1; XDELEX @a ACKED IDS 3 4-1 5-1 1-1",
    "STREAM @a; XACKDEL @a g IDS 1 1-1; XACKDEL @a g KEEPREF IDS 1 2-1; XACKDEL @a h DELREF IDS 1 1-1; XACKDEL @a g ACKED IDS 2 3-1 6-1",
    "STREAM @a; XDEL @a 1-1 2-1; XACKDEL @a g DELREF IDS 2 1-1 3-1; XACKDEL @a h ACKED IDS 1 2-1; XDELEX @a DELREF IDS 6 1-1 2-1 3-1 4-1 5-1 6-1",
    "STREAM @a; XACK @a g 1-1; XACK @a g 9-9; XCLAIM @a g other 0 2-1; XCLAIM @a g other 0 3-1 TIME 1000 RETRYCOUNT 7 FORCE JUSTID; XCLAIM @a g c 0 5-1 LASTID 6-1 IDLE 5",
    "STREAM @a; XAUTOCLAIM @a g other 0 0 COUNT 2; XDEL @a 3-1; XAUTOCLAIM @a g third 0 0; XREADGROUP GROUP h new COUNT 1 STREAMS @a >; XREADGROUP GROUP h late NOACK STREAMS @a >",
    "STREAM @a; XGROUP CREATE @a x 2-1; XGROUP CREATE @a y $ ENTRIESREAD 3; XGROUP CREATE @n z 0 MKSTREAM; XGROUP SETID @a x 4-1; XGROUP SETID @a y 1-1 ENTRIESREAD 1; XGROUP SETID @a g $",
    "STREAM @a; XGROUP CREATE @a x 0 ENTRIESREAD 700; XGROUP CREATE @a y 6-1 ENTRIESREAD 700; XGROUP SETID @a h 1-1 ENTRIESREAD 700",
    "STREAM @a; XGROUP CREATECONSUMER @a g new; XGROUP DELCONSUMER @a g c; XGROUP DESTROY @a h; XREADGROUP GROUP g new STREAMS @a >",
    "STREAM @a; XSETID @a 20-1; XSETID @a 30-1 ENTRIESADDED 40 MAXDELETEDID 25-1; XADD @b 1-1 f v; XDEL @b 1-1; XSETID @b 5-5",
    "XADD @a 1-1 f v; XGROUP CREATE @a g 0; XREADGROUP GROUP g c BLOCK 1 STREAMS @a >; XADD @a 2-1 f v; XREADGROUP GROUP g c STREAMS @a 0",
];

/// Write commands that are not in the table, with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("flushall", "removes what the other forms have left"),
    ("migrate", "needs another server; its effects are deletions"),
    ("restore-asking", "RESTORE, for clusters"),
    ("restore", "RESTORE-DUMP"),
];

/// The commands that a file may have: those of Redis 7.2 and Valkey 8.
const KNOWN: &str = "append bitfield bitop copy decr decrby del eval expire flushall flushdb function geoadd getset hdel \
    hincrby hmset hset hsetnx incr incrby linsert lmove lpop lpush lpushx lrem lset ltrim move mset msetnx multi exec persist \
    pexpireat pfadd pfcount pfdebug pfmerge rename renamenx restore rpop rpoplpush rpush rpushx sadd sdiffstore select set \
    setbit setnx setrange sinterstore smove srem sunionstore swapdb unlink xack xadd xclaim xdel xgroup xsetid xtrim zadd \
    zdiffstore zincrby zinterstore zpopmax zpopmin zrangestore zrem zremrangebylex zremrangebyrank zremrangebyscore zunionstore";

/// The commands of hash fields with an expiry, which Redis 7.4 and Valkey 9.0 have added.
const KNOWN_TO_SUCCESSORS: &[&str] = &["hpexpireat", "hpersist"];

const FAR: &str = "4102444800000";
const LIBRARY: &str =
    "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('incr', keys[1]) end)";
const DB_COUNT: usize = 4;

fn call(connection: &mut Connection, words: &[&[u8]]) -> Reply {
    connection.call(words).unwrap().reply
}

/// A stream of six entries. Group `g` has read five and acknowledged one, `h` has read two.
fn make_stream(connection: &mut Connection, key: &str) {
    for id in 1..=6 {
        run(connection, &format!("XADD {key} {id}-1 f v{id}"));
    }
    run(connection, &format!("XGROUP CREATE {key} g 0"));
    run(connection, &format!("XGROUP CREATE {key} h 0"));
    run(connection, &format!("XREADGROUP GROUP g c COUNT 5 STREAMS {key} >"));
    run(connection, &format!("XREADGROUP GROUP h c COUNT 2 STREAMS {key} >"));
    run(connection, &format!("XACK {key} g 4-1"));
}

fn bulk(reply: Reply) -> Vec<u8> {
    let Reply::Bulk(bytes) = reply else { panic!("no bulk string: {reply:?}") };
    bytes
}

/// Runs a request of a form.
fn run(connection: &mut Connection, request: &str) {
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let reply = match request.split(' ').collect::<Vec<_>>()[..] {
        ["STREAM", key] => return make_stream(connection, key),
        ["RESTORE-DUMP", from, to, ..] => {
            let payload = bulk(call(connection, &[b"DUMP", from.as_bytes()]));
            let restore = [b"RESTORE", to.as_bytes(), words[3], &payload];
            call(connection, &[&restore[..], &words[4..]].concat())
        }
        // A payload of a later version, which is not signed, restored while signatures are not checked.
        ["RESTORE-NEWER", from, to] => {
            let mut payload = bulk(call(connection, &[b"DUMP", from.as_bytes()]));
            let version_at = payload.len() - 10;
            payload[version_at] = 12;
            call(connection, &[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"1"]);
            let reply = call(connection, &[b"RESTORE", to.as_bytes(), b"0", &payload]);
            call(connection, &[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"0"]);
            reply
        }
        ["FUNCTION", "LOAD", ..] => {
            call(connection, &[&words[..words.len() - 1], &[LIBRARY.as_bytes()]].concat())
        }
        ["FUNCTION-DUMP"] => return,
        ["FUNCTION", "RESTORE", ..] => {
            let payload = bulk(call(connection, &[b"FUNCTION", b"DUMP"]));
            call(connection, &[b"FUNCTION", b"RESTORE", &payload, b"REPLACE"])
        }
        ["EVALSHA-OF", key] => {
            let sha = bulk(call(connection, &[b"SCRIPT", b"LOAD", b"return redis.call('incr', KEYS[1])"]));
            call(connection, &[b"EVALSHA", &sha, b"1", key.as_bytes()])
        }
        _ => call(connection, &words),
    };
    assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
}

fn run_forms(connection: &mut Connection) {
    for (number, form) in FORMS.iter().enumerate() {
        for request in form.split("; ") {
            run(connection, &request.replace('@', &format!("k{number}:")).replace("FAR", FAR));
        }
    }
}

/// The names of the write commands of a server.
fn write_commands(connection: &mut Connection) -> BTreeSet<String> {
    let Reply::List(_, commands) = call(connection, &[b"COMMAND"]) else { panic!("no list") };
    let is_write = |command: &Reply| {
        let Reply::List(_, facts) = command else { panic!("{command:?}") };
        let Reply::List(_, flags) = &facts[2] else { panic!("{command:?}") };
        let name = String::from_utf8(bulk(facts[0].clone())).unwrap();
        flags.contains(&Reply::Simple(b"write".to_vec())).then_some(name)
    };
    commands.iter().filter_map(is_write).collect()
}

/// The value of a key as clients read it, in an order that does not depend on the server.
fn content(connection: &mut Connection, key: &[u8]) -> Vec<Reply> {
    let kind = call(connection, &[b"TYPE", key]);
    let Reply::Simple(kind_name) = &kind else { panic!("{kind:?}") };
    let value = match kind_name.as_slice() {
        b"string" => vec![call(connection, &[b"GET", key])],
        b"list" => vec![call(connection, &[b"LRANGE", key, b"0", b"-1"])],
        b"set" => vec![Reply::List(b'*', chunks(call(connection, &[b"SMEMBERS", key]), 1).concat())],
        b"zset" => vec![call(connection, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])],
        b"hash" => {
            let pairs = chunks(call(connection, &[b"HGETALL", key]), 2);
            let fields: Vec<Vec<u8>> = pairs.iter().map(|pair| bulk(pair[0].clone())).collect();
            let count = fields.len().to_string();
            let head = [b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
            let words = head.into_iter().chain(fields.iter().map(|field| &field[..])).collect::<Vec<_>>();
            vec![Reply::List(b'*', pairs.concat()), call(connection, &words)]
        }
        b"stream" => {
            let info = call(connection, &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
            vec![call(connection, &[b"XRANGE", key, b"-", b"+"]), without_internals(info)]
        }
        other => panic!("{}", other.escape_ascii()),
    };
    let expiry = call(connection, &[b"PEXPIRETIME", key]);
    [kind].into_iter().chain(value).chain([expiry]).collect()
}

fn chunks(reply: Reply, len: usize) -> Vec<Vec<Reply>> {
    let Reply::List(_, items) = reply else { panic!("{reply:?}") };
    let mut chunks: Vec<Vec<Reply>> = items.chunks(len).map(<[Reply]>::to_vec).collect();
    chunks.sort();
    chunks
}

/// Facts of streams that are not data: the layout, derived values, the time of the replay, and what only one server knows.
const INTERNALS: &[&str] = &[
    "radix-tree-keys",
    "radix-tree-nodes",
    "lag",
    "seen-time",
    "active-time",
    "idmp-duration",
    "idmp-maxsize",
    "pids-tracked",
    "iids-tracked",
    "iids-added",
    "iids-duplicates",
    "nacked-count",
];

/// The facts in a description of a stream, without the internal ones.
fn without_internals(reply: Reply) -> Reply {
    let Reply::List(kind, items) = reply else { return reply };
    let is_internal =
        |name: &Reply| INTERNALS.iter().any(|internal| *name == Reply::Bulk(internal.as_bytes().to_vec()));
    let mut kept = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        if is_internal(&item) {
            items.next();
        } else {
            kept.push(without_internals(item));
        }
    }
    Reply::List(kind, kept)
}

type Data = BTreeMap<(usize, Vec<u8>), Vec<Reply>>;

fn data(connection: &mut Connection) -> Data {
    let mut data = Data::new();
    for db in 0..DB_COUNT {
        call(connection, &[b"SELECT", db.to_string().as_bytes()]);
        let Reply::List(_, keys) = call(connection, &[b"KEYS", b"*"]) else { panic!("no list") };
        for key in keys.into_iter().map(bulk) {
            let content = content(connection, &key);
            data.insert((db, key), content);
        }
    }
    let libraries = call(connection, &[b"FUNCTION", b"LIST", b"WITHCODE"]);
    data.insert((DB_COUNT, b"libraries".to_vec()), vec![libraries]);
    data
}

/// Panics with the differing keys and their forms.
fn assert_same(expected: &Data, found: &Data, server: &str) {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = |key: &&&(usize, Vec<u8>)| expected.get(**key) != found.get(**key);
    let differing: Vec<_> = keys.iter().filter(differ).collect();
    for key in &differing {
        let name = String::from_utf8_lossy(&key.1);
        let number = name.strip_prefix('k').and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
        println!("{server}, db {} {name}: {}", key.0, number.map_or("", |number| FORMS[number]));
        println!("  expected {:?}\n  found    {:?}", expected.get(*key), found.get(*key));
    }
    assert!(differing.is_empty(), "{} keys differ in {server}", differing.len());
}

/// The increments of an append-only file.
fn increments(directory: &Path) -> Vec<u8> {
    let files = fs::read_dir(directory.join("appendonlydir")).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .flat_map(|path| fs::read(path).unwrap())
        .collect()
}

/// The names of the commands in an increment.
fn commands_in(mut bytes: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    while !bytes.is_empty() {
        let (request, size) = trials::reply::parse(bytes).unwrap().expect("whole requests");
        let Reply::List(_, words) = request else { panic!("{request:?}") };
        names.insert(String::from_utf8(bulk(words[0].clone())).unwrap().to_ascii_lowercase());
        bytes = &bytes[size..];
    }
    names
}

#[test]
fn effects_give_the_same_data_everywhere() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let program = ours.with_arguments(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--rdb-version",
        "11",
        "--enable-debug-command",
        "yes",
    ]);
    let mut server = Server::start(&program).unwrap();
    let mut here = server.connect().unwrap();
    run_forms(&mut here);
    let expected = data(&mut here);
    let directory = server.data_dir().to_owned();

    let known: BTreeSet<&str> =
        KNOWN.split(' ').chain(KNOWN_TO_SUCCESSORS.iter().copied()).filter(|name| !name.is_empty()).collect();
    let names = commands_in(&increments(&directory));
    let unknown: Vec<&String> = names.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "older servers do not know {unknown:?}");

    for peer in peers {
        let peer = peer.with_arguments(&["--enable-debug-command", "yes"]);
        let there = Server::start(&peer).unwrap();
        let mut connection = there.connect().unwrap();
        let target = there.data_dir().join("appendonlydir");
        fs::create_dir_all(&target).unwrap();
        for file in fs::read_dir(directory.join("appendonlydir")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
        let reply = call(&mut connection, &[b"DEBUG", b"LOADAOF"]);
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "{}", there.name());
        assert_same(&expected, &data(&mut connection), there.name());
    }

    server.kill().unwrap();
    server.start_again().unwrap();
    assert_same(&expected, &data(&mut server.connect().unwrap()), "broadloom");
}

#[test]
fn the_table_has_every_write_command() {
    let Some((ours, _)) = peers_or_skip() else { return };
    let server = Server::start(&ours).unwrap();
    let commands = write_commands(&mut server.connect().unwrap());
    let words = |form: &&str| {
        form.split("; ").map(|request| request.split(' ').next().unwrap().to_lowercase()).collect::<Vec<_>>()
    };
    let in_table: BTreeSet<String> = FORMS.iter().flat_map(words).collect();
    let others: BTreeSet<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&String> =
        commands.iter().filter(|name| !in_table.contains(*name) && !others.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no form of {missing:?}");
    for (name, reason) in OTHERS {
        assert!(!in_table.contains(*name), "{name} is in the table, so it is not an exception: {reason}");
    }
}

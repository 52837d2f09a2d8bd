//! Keys of any type, transactions, channels and the server itself.

use super::{Case, EMPTY_SLOTS, SLOTS};

/// Keys of every small encoding.
const MIXED: &str = "N/6: SET s# v ; N/6: RPUSH l# a b c ; N/6: SADD i# 1 2 3 ; N/6: SADD m# a b c ; N/6: HSET h# a b ; N/6: ZADD z# 1 a 2 b";

/// Cases of keys.
#[rustfmt::skip] // A line each.
pub(super) const CASES: &[Case] = &[
    Case::arguments("DEL", &["MSET {k# v#}*N"], "DEL {k#}*N").quick_up_to(5.0, SLOTS),
    Case::arguments("DEL of missing keys", &["MSET {k# v#}*N"], "DEL {x#}*N").quick_up_to(5.0, SLOTS),
    Case::arguments("DEL of small collections", &[MIXED], "DEL {s# l# i# m# h# z#}*N/6").quick_up_to(5.0, SLOTS),
    Case::arguments("DEL of sets, one by one", &["N: SADD s# {m#%200}*10"], "N: DEL s#"),
    Case::arguments("UNLINK", &["MSET {k# v#}*N"], "UNLINK {k#}*N").quick_up_to(5.0, SLOTS),
    Case::elements("UNLINK of a large hash", &["HSET h {f# v#}*N"], "UNLINK h"),
    Case::arguments("EXISTS", &["MSET {k# v#}*N"], "EXISTS {k#}*N").quick_up_to(5.0, SLOTS),
    Case::arguments("EXISTS of one key", &["SET k v"], "EXISTS {k}*N"),
    Case::arguments("TOUCH", &["MSET {k# v#}*N"], "TOUCH {k#}*N").quick_up_to(5.0, SLOTS),
    Case::arguments("EXPIRE, deep pipeline", &["MSET {k# v#}*N"], "N: EXPIRE k# 1000"),
    Case::arguments("RENAME, deep pipeline", &["MSET {k# v#}*N"], "N: RENAME k# x#"),
    Case::arguments("COPY, deep pipeline", &["MSET {k# v#}*N"], "N: COPY k# x#"),
    Case::arguments("MOVE, deep pipeline", &["MSET {k# v#}*N"], "N: MOVE k# 1"),
    Case::elements("KEYS of all", &["MSET {k# v#}*N"], "KEYS *").quick_up_to(12.0, EMPTY_SLOTS),
    Case::elements("KEYS of few", &["MSET {k# v#}*N"], "KEYS k1234*").quick_up_to(12.0, EMPTY_SLOTS),
    Case::elements("SCAN of all at once", &["MSET {k# v#}*N"], "SCAN 0 COUNT N").quick_up_to(12.0, EMPTY_SLOTS),
    Case::elements("SCAN of a type", &["MSET {k# v#}*N"], "SCAN 0 COUNT N TYPE list").quick_up_to(12.0, EMPTY_SLOTS),
    Case::elements("SCAN, one call", &["MSET {k# v#}*N"], "100: SCAN 0"),
    Case::arguments("RANDOMKEY, deep pipeline", &["MSET {k# v#}*N"], "N: RANDOMKEY"),
    Case::elements("FLUSHDB", &["MSET {k# v#}*N"], "FLUSHDB").quick_up_to(8.0, EMPTY_SLOTS),
    Case::elements("FLUSHALL SYNC", &["MSET {k# v#}*N"], "FLUSHALL SYNC").quick_up_to(8.0, EMPTY_SLOTS),
    Case::arguments("FLUSHALL of small collections", &[MIXED], "FLUSHALL").up_to(6.0, EMPTY_SLOTS).quick_up_to(12.0, EMPTY_SLOTS),
    Case::elements("SWAPDB", &["MSET {k# v#}*N"], "10: SWAPDB 0 1").up_to(60.0, "every slot is latched"),
    Case::elements("DUMP of a list", &["RPUSH l {e#}*N"], "DUMP l").up_to(16.0, "listpacks are built; Valkey copies its own"),
    Case::elements("DUMP of a set", &["SADD s {m#}*N"], "DUMP s"),
    Case::elements("DUMP of a sorted set", &["ZADD z {# m#}*N"], "DUMP z"),
    Case::elements("DUMP of a hash", &["HSET h {f# v#}*N"], "DUMP h"),
    Case::elements("DUMP of a stream", &["N: XADD s #-1 a b"], "DUMP s").up_to(30.0, "listpacks are built; Valkey copies its own"),
    Case::elements("DBSIZE", &["MSET {k# v#}*N"], "10: DBSIZE"),
    Case::elements("OBJECT ENCODING", &["SADD s {m#}*N"], "100: OBJECT ENCODING s"),
    Case::elements("MEMORY USAGE of all samples", &["HSET h {f# v#}*N"], "MEMORY USAGE h SAMPLES 0"),
    Case::elements("MEMORY USAGE of a stream", &["N: XADD s #-1 a b"], "MEMORY USAGE s"),
    Case::elements("DEBUG POPULATE", &[], "DEBUG POPULATE N"),

    Case::arguments("MULTI with many commands", &[], "MULTI ; N: SET k# v ; EXEC"),
    Case::arguments("MULTI with many reads of one key", &["SET k v"], "MULTI ; N: GET k ; EXEC"),
    Case::arguments("MULTI and EXEC, deep pipeline", &[], "N: MULTI | INCR k | INCR x# | EXEC"),
    Case::arguments("DISCARD of many commands", &[], "MULTI ; N: SET k# v ; DISCARD"),
    Case::arguments("WATCH", &[], "WATCH {k#}*N ; UNWATCH"),
    Case::arguments("WATCH of one key", &[], "WATCH {k}*N ; UNWATCH"),
    Case::arguments("WATCH, deep pipeline", &[], "N: WATCH k# | MULTI | INCR k# | EXEC"),

    Case::arguments("SUBSCRIBE", &[], "SUBSCRIBE {c#}*N ; UNSUBSCRIBE {c#}*N").up_to(2.5, "the lists of subscribers can be read while they change"),
    Case::arguments("PSUBSCRIBE", &[], "PSUBSCRIBE {c#*}*N/10 ; PUNSUBSCRIBE {c#*}*N/10").up_to(2.5, "the lists of subscribers can be read while they change"),
    Case::arguments("SSUBSCRIBE", &[], "SSUBSCRIBE {c#}*N ; SUNSUBSCRIBE {c#}*N").up_to(2.5, "the lists of subscribers can be read while they change"),
    Case::arguments("PUBSUB NUMSUB", &[], "PUBSUB NUMSUB {c#}*N"),
    Case::arguments("PUBLISH, deep pipeline", &[], "N: PUBLISH c# x"),

    Case::arguments("COMMAND INFO of many", &[], "COMMAND INFO {get}*N/10"),
    Case::arguments("CONFIG GET of many", &[], "CONFIG GET {max#*}*N/100"),
    Case::arguments("INFO of many sections", &[], "INFO {clients}*N"),
    Case::arguments("CLIENT LIST by many ids", &[], "CLIENT LIST ID {1#%7}*N"),
];

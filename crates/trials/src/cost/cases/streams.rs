//! Streams and their groups.

use super::{Case, SLOTS};

/// N entries with the ids 1-0 to N-0.
const ENTRIES: &str = "N: XADD s #-1 name v#";

/// A group to which all entries are delivered.
const PENDING: &str = "XGROUP CREATE s g 0 ; XREADGROUP GROUP g c COUNT N STREAMS s >";

/// Cases of streams.
#[rustfmt::skip] // A line each.
pub(super) const CASES: &[Case] = &[
    Case::arguments("XADD, deep pipeline", &[], "N: XADD s * name v#"),
    Case::arguments("XADD of many fields", &[], "XADD s * {f# v#}*N"),
    Case::arguments("XADD that trims all the time", &["200: XADD s * name v"], "N: XADD s MAXLEN 100 * name v#"),
    Case::arguments("XADD that trims all the time, about", &["200: XADD s * name v"], "N: XADD s MAXLEN ~~ 100 * name v#"),
    Case::elements("XADD that trims nearly all", &[ENTRIES], "XADD s MAXLEN 10 * name v"),
    Case::elements("XADD with MINID", &[ENTRIES], "XADD s MINID N/2 * name v"),
    Case::arguments("XADD with many groups", &["XADD s 0-1 a b", "N: XGROUP CREATE s g# $"], "100: XADD s * name v"),
    Case::elements("XTRIM to half", &[ENTRIES], "XTRIM s MAXLEN N/2"),
    Case::elements("XTRIM to half, about", &[ENTRIES], "XTRIM s MAXLEN ~ N/2 LIMIT 0"),
    Case::elements("XTRIM by id", &[ENTRIES], "XTRIM s MINID N/2"),
    Case::arguments("XDEL", &[ENTRIES], "XDEL s {#-1}*N"),
    Case::arguments("XDEL of every second", &[ENTRIES], "XDEL s {#*2-1}*N/2"),
    Case::arguments("XDELEX", &[ENTRIES], "XDELEX s IDS N {#-1}*N"),
    Case::elements("XRANGE", &[ENTRIES], "XRANGE s - +"),
    Case::elements("XRANGE of one in the middle", &[ENTRIES], "100: XRANGE s N/2 + COUNT 1"),
    Case::elements("XREVRANGE", &[ENTRIES], "XREVRANGE s + -"),
    Case::elements("XREVRANGE of a few", &[ENTRIES], "100: XREVRANGE s + - COUNT 3"),
    Case::elements("XREAD", &[ENTRIES], "XREAD STREAMS s 0"),
    Case::elements("XREAD at the end", &[ENTRIES], "100: XREAD COUNT 10 STREAMS s N"),
    Case::arguments("XREAD of many streams", &["N: XADD s# 1-1 name v"], "XREAD STREAMS {s#}*N {0}*N"),
    Case::arguments("XREAD of many streams, nothing new", &[], "XREAD BLOCK 1 STREAMS {s#}*N {0}*N").quick_up_to(4.0, SLOTS),
    Case::elements("XREADGROUP", &[ENTRIES, "XGROUP CREATE s g 0"], "XREADGROUP GROUP g c STREAMS s >"),
    Case::elements("XREADGROUP NOACK", &[ENTRIES, "XGROUP CREATE s g 0"], "XREADGROUP GROUP g c NOACK STREAMS s >"),
    Case::elements("XREADGROUP of what is pending", &[ENTRIES, PENDING], "XREADGROUP GROUP g c STREAMS s 0"),
    Case::arguments("XREADGROUP, deep pipeline", &[ENTRIES, "XGROUP CREATE s g 0"], "N: XREADGROUP GROUP g c COUNT 1 STREAMS s >"),
    Case::arguments("XREADGROUP of many consumers", &[ENTRIES, "XGROUP CREATE s g 0"], "N: XREADGROUP GROUP g c# COUNT 1 STREAMS s >"),
    Case::arguments("XREADGROUP of many streams", &["N: XADD s# 1-1 name v", "N: XGROUP CREATE s# g 0"], "XREADGROUP GROUP g c STREAMS {s#}*N {>}*N"),
    Case::arguments("XACK", &[ENTRIES, PENDING], "XACK s g {#-1}*N"),
    Case::arguments("XACK, deep pipeline", &[ENTRIES, PENDING], "N: XACK s g #-1"),
    Case::arguments("XACKDEL", &[ENTRIES, PENDING], "XACKDEL s g IDS N {#-1}*N"),
    Case::arguments("XCLAIM", &[ENTRIES, PENDING], "XCLAIM s g other 0 {#-1}*N JUSTID"),
    Case::elements("XAUTOCLAIM", &[ENTRIES, PENDING], "XAUTOCLAIM s g other 0 0 COUNT N"),
    Case::elements("XAUTOCLAIM of deleted entries", &[ENTRIES, PENDING, "XTRIM s MAXLEN 0"], "XAUTOCLAIM s g other 0 0 COUNT N"),
    Case::elements("XAUTOCLAIM of nothing idle", &[ENTRIES, PENDING], "XAUTOCLAIM s g other 1000000 0 COUNT N"),
    Case::elements("XPENDING", &[ENTRIES, PENDING], "XPENDING s g"),
    Case::arguments("XPENDING of many consumers", &[ENTRIES, "XGROUP CREATE s g 0", "N: XREADGROUP GROUP g c# COUNT 1 STREAMS s >"], "XPENDING s g"),
    Case::elements("XPENDING with a range", &[ENTRIES, PENDING], "XPENDING s g - + N"),
    Case::elements("XPENDING IDLE", &[ENTRIES, PENDING], "XPENDING s g IDLE 1000000 - + 10"),
    Case::elements("XPENDING of one consumer", &[ENTRIES, PENDING], "XPENDING s g - + N c"),
    Case::elements("XPENDING of another consumer", &[ENTRIES, PENDING, "XGROUP CREATECONSUMER s g d"], "XPENDING s g - + 10 d"),
    Case::arguments("XGROUP CREATE, many groups", &["XADD s 1-1 a b"], "N: XGROUP CREATE s g# 0"),
    Case::arguments("XGROUP CREATECONSUMER, many", &["XGROUP CREATE s g 0 MKSTREAM"], "N: XGROUP CREATECONSUMER s g c#"),
    Case::arguments("XGROUP DELCONSUMER, many", &["XGROUP CREATE s g 0 MKSTREAM", "N: XGROUP CREATECONSUMER s g c#"], "N: XGROUP DELCONSUMER s g c#"),
    Case::elements("XGROUP DELCONSUMER with much pending", &[ENTRIES, PENDING], "XGROUP DELCONSUMER s g c"),
    Case::elements("XGROUP DESTROY with much pending", &[ENTRIES, PENDING], "XGROUP DESTROY s g"),
    Case::arguments("XGROUP DESTROY, many groups", &["XADD s 1-1 a b", "N: XGROUP CREATE s g# 0"], "N: XGROUP DESTROY s g#"),
    Case::elements("XINFO STREAM", &[ENTRIES, PENDING], "10: XINFO STREAM s"),
    Case::elements("XINFO STREAM FULL", &[ENTRIES, PENDING], "XINFO STREAM s FULL COUNT 0"),
    Case::arguments("XINFO GROUPS, many", &["XADD s 1-1 a b", "N: XGROUP CREATE s g# 0"], "XINFO GROUPS s"),
    Case::arguments("XINFO CONSUMERS, many", &["XGROUP CREATE s g 0 MKSTREAM", "N: XGROUP CREATECONSUMER s g c#"], "XINFO CONSUMERS s g"),
    Case::elements("COPY of a stream", &[ENTRIES], "COPY s other"),
    Case::elements("COPY of a stream with much pending", &[ENTRIES, PENDING], "COPY s other"),
    Case::elements("DEL of a stream", &[ENTRIES], "DEL s"),
    Case::elements("DEL of a stream with much pending", &[ENTRIES, PENDING], "DEL s"),
];

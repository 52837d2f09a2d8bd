//! Consumer groups

use expect_test::expect;

use crate::check::check;

/// As in Redis from 8.4 on. Valkey 9.1 and older versions of Redis store the given number, and have a
/// negative lag.
#[test]
fn entries_read_is_bounded_by_entries_added() {
    check(expect![[r#"
        @redis-8.4 Valkey and older versions keep what they are given
        > XADD s 1-1 f v
        "1-1"
        > XADD s 2-1 f v
        "2-1"
        > XGROUP CREATE s g 2-1 ENTRIESREAD 100
        +OK
        > XGROUP CREATE s h $ ENTRIESREAD 1
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 2, "lag", 0], ["name", "h", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 1, "lag", 1]]
        > XGROUP SETID s h 2-1 ENTRIESREAD 9223372036854775807
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 2, "lag", 0], ["name", "h", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 2, "lag", 0]]
    "#]]);
}

#[test]
fn groups_are_made_and_deleted() {
    check(expect![[r#"
        > XGROUP CREATE s g 0
        -ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        > XGROUP CREATE s g $ MKSTREAM
        +OK
        > XGROUP CREATE s g $ MKSTREAM
        -BUSYGROUP Consumer Group name already exists
        > XLEN s
        0
        > XGROUP CREATE s g2 0 ENTRIESREAD 0
        +OK
        > XGROUP CREATE s g3 0 ENTRIESREAD -2
        -ERR value for ENTRIESREAD must be positive or -1
        > XGROUP CREATE s g3 0 ENTRIESREAD x
        -ERR value is not an integer or out of range
        > XGROUP CREATE s g3 0 FOO
        -ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
        > XGROUP CREATE s g3 x
        -ERR Invalid stream ID specified as stream command argument
        > XGROUP CREATE s g3
        -ERR wrong number of arguments for 'xgroup|create' command
        > XGROUP SETID s g 5-5
        +OK
        > XGROUP SETID s g + ENTRIESREAD 0
        +OK
        > XGROUP SETID s none 5-5
        -NOGROUP No such consumer group 'none' for key name 's'
        > XGROUP SETID none g 5-5
        -ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        > XGROUP SETID s g 5 MKSTREAM
        -ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.
        > XGROUP CREATECONSUMER s g c
        1
        > XGROUP CREATECONSUMER s g c
        0
        > XGROUP CREATECONSUMER s none c
        -NOGROUP No such consumer group 'none' for key name 's'
        > XGROUP DELCONSUMER s g c
        0
        > XGROUP DELCONSUMER s g c
        0
        > XGROUP DELCONSUMER s none c
        -NOGROUP No such consumer group 'none' for key name 's'
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "18446744073709551615-18446744073709551615", "entries-read", 0, "lag", 0], ["name", "g2", "consumers", 0, "pending", 0, "last-delivered-id", "0-0", "entries-read", 0, "lag", 0]]
        > XINFO CONSUMERS s g
        []
        > XINFO CONSUMERS s none
        -NOGROUP No such consumer group 'none' for key name 's'
        > XINFO GROUPS none
        -ERR no such key
        > XGROUP DESTROY s g
        1
        > XGROUP DESTROY s g
        0
        > XGROUP DESTROY none g
        -ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        > XGROUP FOO s g
        -ERR unknown subcommand 'FOO'. Try XGROUP HELP.
        > XGROUP
        -ERR wrong number of arguments for 'xgroup' command
        > SET t 1
        +OK
        > XGROUP CREATE t g 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > XGROUP DESTROY t g
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn reading_and_acknowledging() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c COUNT 2 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XREADGROUP GROUP g d STREAMS s >
        [["s", [["1-3", ["a", "3"]]]]]
        > XREADGROUP GROUP g d STREAMS s >
        *-1
        > XREADGROUP GROUP g c STREAMS s 0
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XREADGROUP GROUP g c STREAMS s 1-1
        [["s", [["1-2", ["a", "2"]]]]]
        > XREADGROUP GROUP g new STREAMS s 0
        [["s", []]]
        > XPENDING s g
        [3, "1-1", "1-3", [["c", "2"], ["d", "1"]]]
        > XPENDING s g - + 10 none
        []
        > XACK s g 1-1 1-1 7-7
        1
        > XACK s none 1-1
        0
        > XACK none g x
        0
        > XACK s g x
        -ERR Invalid stream ID specified as stream command argument
        > XREADGROUP GROUP g c STREAMS s 0
        [["s", [["1-2", ["a", "2"]]]]]
        > XDEL s 1-2
        1
        > XREADGROUP GROUP g c STREAMS s 0
        [["s", [["1-2", *-1]]]]
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s
        ["length", 2, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-3", "max-deleted-entry-id", "1-2", "entries-added", 3, "recorded-first-entry-id", "1-1", "groups", 1, "first-entry", ["1-1", ["a", "1"]], "last-entry", ["1-3", ["a", "3"]]]
        > XREADGROUP GROUP none c STREAMS s >
        -NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option
        > XREADGROUP GROUP g c STREAMS none >
        -NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
        > XREADGROUP GROUP g c STREAMS s $
        -ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.
        > XREADGROUP GROUP g c STREAMS s +
        -ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.
        > XREADGROUP STREAMS s > a b c
        -ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.
        > XREADGROUP COUNT 1 NOACK STREAMS s >
        -ERR Missing GROUP option for XREADGROUP
        > XREADGROUP GROUP g c STREAMS s s >
        -ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.
        > XADD s 2-1 a 4
        "2-1"
        > XREADGROUP GROUP g c NOACK STREAMS s >
        [["s", [["2-1", ["a", "4"]]]]]
        > XPENDING s g
        [2, "1-2", "1-3", [["c", "1"], ["d", "1"]]]
        > XGROUP DELCONSUMER s g d
        1
        > XPENDING s g
        [1, "1-2", "1-2", [["c", "1"]]]
        @resp3
        > XREADGROUP GROUP g c STREAMS s 0
        {"s": [["1-2", _]]}
        > XREADGROUP GROUP g c STREAMS s >
        _
        > XPENDING s g
        [1, "1-2", "1-2", [["c", "1"]]]
        > SET t 1
        +OK
        > XREADGROUP GROUP g c STREAMS t >
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn progress_is_counted() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 1
        "1-2"
        > XADD s 1-3 a 1
        "1-3"
        > XADD s 1-4 a 1
        "1-4"
        > XGROUP CREATE s g 0
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "0-0", "entries-read", $-1, "lag", 4]]
        > XREADGROUP GROUP g c COUNT 1 STREAMS s >
        [["s", [["1-1", ["a", "1"]]]]]
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-1", "entries-read", 1, "lag", 3]]
        > XDEL s 1-3
        1
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-1", "entries-read", 1, "lag", $-1]]
        > XREADGROUP GROUP g c COUNT 1 STREAMS s >
        [["s", [["1-2", ["a", "1"]]]]]
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 2, "last-delivered-id", "1-2", "entries-read", $-1, "lag", $-1]]
        > XREADGROUP GROUP g c COUNT 1 STREAMS s >
        [["s", [["1-4", ["a", "1"]]]]]
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 3, "last-delivered-id", "1-4", "entries-read", 4, "lag", 0]]
        > XGROUP SETID s g 1-2
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 3, "last-delivered-id", "1-2", "entries-read", $-1, "lag", $-1]]
        > XTRIM s MAXLEN 1
        2
        @differs redis it counts the lag from the first entry
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 3, "last-delivered-id", "1-2", "entries-read", $-1, "lag", $-1]]
        > XGROUP SETID s g 1
        +OK
        @differs redis it counts the lag from the first entry
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 3, "last-delivered-id", "1-0", "entries-read", $-1, "lag", $-1]]
        > XADD s 1-9 a 1
        "1-9"
        > XREADGROUP GROUP g c STREAMS s >
        [["s", [["1-4", ["a", "1"]], ["1-9", ["a", "1"]]]]]
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 4, "last-delivered-id", "1-9", "entries-read", 5, "lag", 0]]
        > XTRIM s MAXLEN 0
        2
        > XINFO GROUPS s
        [["name", "g", "consumers", 1, "pending", 4, "last-delivered-id", "1-9", "entries-read", 5, "lag", 0]]
    "#]]);
}

#[test]
fn pending_entries() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XGROUP CREATE s g 0
        +OK
        > XPENDING s g
        [0, $-1, $-1, *-1]
        > XREADGROUP GROUP g c COUNT 2 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XREADGROUP GROUP g d STREAMS s >
        [["s", [["1-3", ["a", "3"]]]]]
        > XPENDING s g
        [3, "1-1", "1-3", [["c", "2"], ["d", "1"]]]
        > XPENDING s g IDLE 100000 - + 10
        []
        > XPENDING s g IDLE 10 - +
        -ERR syntax error
        > XPENDING s g - +
        -ERR syntax error
        > XPENDING s g - + x
        -ERR value is not an integer or out of range
        > XPENDING s g - + 0
        []
        > XPENDING s g - + -1
        []
        > XPENDING s g x + 1
        -ERR Invalid stream ID specified as stream command argument
        > XPENDING s g (1-1 + 0
        []
        > XPENDING s g (18446744073709551615-18446744073709551615 + 1
        -ERR invalid start ID for the interval
        > XPENDING s none
        -NOGROUP No such key 's' or consumer group 'none'
        > XPENDING none g
        -NOGROUP No such key 'none' or consumer group 'g'
        > XPENDING s g 1 2 3 4 5 6 7
        -ERR syntax error
        > SET t 1
        +OK
        > XPENDING t g
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn claiming() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c COUNT 2 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XCLAIM s g d 0 1-1
        [["1-1", ["a", "1"]]]
        > XCLAIM s g d 100000 1-2
        []
        > XCLAIM s g d 0 1-2 JUSTID
        ["1-2"]
        > XCLAIM s g d 0 1-3
        []
        > XCLAIM s g d 0 1-3 FORCE JUSTID
        ["1-3"]
        > XCLAIM s g d 0 9-9 FORCE
        []
        > XCLAIM s g e 0 1-1 1-2 IDLE 5 RETRYCOUNT 7 LASTID 1-3 JUSTID
        ["1-1", "1-2"]
        > XCLAIM s g e 0 1-1 TIME 99999999999999 JUSTID
        ["1-1"]
        > XPENDING s g
        [3, "1-1", "1-3", [["d", "1"], ["e", "2"]]]
        > XDEL s 1-1
        1
        > XCLAIM s g e 0 1-1
        []
        > XPENDING s g
        [2, "1-2", "1-3", [["d", "1"], ["e", "1"]]]
        > XCLAIM s g e x 1-1
        -ERR Invalid min-idle-time argument for XCLAIM
        > XCLAIM s g e -5 1-2 JUSTID
        ["1-2"]
        > XCLAIM s g e 0 1-2 IDLE x
        -ERR Invalid IDLE option argument for XCLAIM
        > XCLAIM s g e 0 1-2 TIME x
        -ERR Invalid TIME option argument for XCLAIM
        > XCLAIM s g e 0 1-2 RETRYCOUNT x
        -ERR Invalid RETRYCOUNT option argument for XCLAIM
        > XCLAIM s g e 0 1-2 LASTID x
        -ERR Invalid stream ID specified as stream command argument
        > XCLAIM s g e 0 1-2 FOO
        -ERR Unrecognized XCLAIM option 'FOO'
        > XCLAIM s g e 0 1-2 IDLE
        -ERR Unrecognized XCLAIM option 'IDLE'
        > XCLAIM s g e 0 foo
        -ERR Unrecognized XCLAIM option 'foo'
        > XCLAIM s none e 0 1-2
        -NOGROUP No such key 's' or consumer group 'none'
        > XCLAIM none g e 0 1-2
        -NOGROUP No such key 'none' or consumer group 'g'
        > SET t 1
        +OK
        > XCLAIM t g e 0 1-2
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn claiming_automatically() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XADD s 1-4 a 4
        "1-4"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]], ["1-3", ["a", "3"]], ["1-4", ["a", "4"]]]]]
        > XAUTOCLAIM s g d 0 - COUNT 1
        ["1-2", [["1-1", ["a", "1"]]], []]
        > XAUTOCLAIM s g d 0 1-2 COUNT 2 JUSTID
        ["1-4", ["1-2", "1-3"], []]
        > XDEL s 1-1
        1
        > XAUTOCLAIM s g d 0 0 COUNT 2 JUSTID
        ["1-3", ["1-2"], ["1-1"]]
        > XAUTOCLAIM s g d 100000 0
        ["0-0", [], []]
        > XAUTOCLAIM s g d 0 (1-3 JUSTID
        ["0-0", ["1-4"], []]
        > XAUTOCLAIM s g d 0 0 COUNT 0
        -ERR COUNT must be > 0
        > XAUTOCLAIM s g d 0 0 COUNT x
        -ERR COUNT must be > 0
        > XAUTOCLAIM s g d 0 0 COUNT
        -ERR syntax error
        > XAUTOCLAIM s g d 0 0 FOO
        -ERR syntax error
        > XAUTOCLAIM s g d x 0
        -ERR Invalid min-idle-time argument for XAUTOCLAIM
        > XAUTOCLAIM s g d 0 x
        -ERR Invalid stream ID specified as stream command argument
        > XAUTOCLAIM s none d 0 0
        -NOGROUP No such key 's' or consumer group 'none'
        > XAUTOCLAIM none g d 0 0
        -NOGROUP No such key 'none' or consumer group 'g'
        > XPENDING s g
        [3, "1-2", "1-4", [["d", "3"]]]
        @resp3
        > XAUTOCLAIM s g e 0 0
        ["0-0", [["1-2", ["a", "2"]], ["1-3", ["a", "3"]], ["1-4", ["a", "4"]]], []]
    "#]]);
}

#[test]
fn information() {
    check(expect![[r#"
        > XINFO STREAM s
        -ERR no such key
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XINFO STREAM s FOO
        -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
        > XINFO STREAM s FULL COUNT
        -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
        > XINFO STREAM s FULL FOO 1
        -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
        > XINFO STREAM s FULL COUNT x
        -ERR value is not an integer or out of range
        > XINFO FOO s
        -ERR unknown subcommand 'FOO'. Try XINFO HELP.
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s FULL COUNT 1
        ["length", 2, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-2", "max-deleted-entry-id", "0-0", "entries-added", 2, "recorded-first-entry-id", "1-1", "entries", [["1-1", ["a", "1"]]], "groups", []]
        > XGROUP CREATE s g 0
        +OK
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s FULL
        ["length", 2, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-2", "max-deleted-entry-id", "0-0", "entries-added", 2, "recorded-first-entry-id", "1-1", "entries", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]], "groups", [["name", "g", "last-delivered-id", "0-0", "entries-read", $-1, "lag", 2, "pel-count", 0, "pending", [], "consumers", []]]]
        @resp3
        > XINFO GROUPS s
        [{"name": "g", "consumers": 0, "pending": 0, "last-delivered-id": "0-0", "entries-read": _, "lag": 2}]
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s FULL COUNT 0
        {"length": 2, "radix-tree-keys": 1, "radix-tree-nodes": 2, "last-generated-id": "1-2", "max-deleted-entry-id": "0-0", "entries-added": 2, "recorded-first-entry-id": "1-1", "entries": [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]], "groups": [{"name": "g", "last-delivered-id": "0-0", "entries-read": _, "lag": 2, "pel-count": 0, "pending": [], "consumers": []}]}
        > COPY s u
        1
        > XRANGE u - +
        [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]
        > XINFO GROUPS u
        [{"name": "g", "consumers": 0, "pending": 0, "last-delivered-id": "0-0", "entries-read": _, "lag": 2}]
        > SET t 1
        +OK
        > XINFO STREAM t
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn deleting_with_regard_to_groups() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XADD s 1-4 a 4
        "1-4"
        > XADD s 1-5 a 5
        "1-5"
        > XGROUP CREATE s g 0
        +OK
        > XGROUP CREATE s h 0
        +OK
        > XREADGROUP GROUP g c STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]], ["1-3", ["a", "3"]], ["1-4", ["a", "4"]], ["1-5", ["a", "5"]]]]]
        > XDELEX s KEEPREF IDS 2 1-1 9-9
        [1, -1]
        > XDELEX s ACKED IDS 1 1-2
        [2]
        > XDELEX s DELREF IDS 1 1-2
        [1]
        > XPENDING s g
        [4, "1-1", "1-5", [["c", "4"]]]
        > XACKDEL s g IDS 2 1-1 1-3
        [1, 1]
        > XACKDEL s g ACKED IDS 1 1-4
        [2]
        > XREADGROUP GROUP h c COUNT 1 STREAMS s >
        [["s", [["1-4", ["a", "4"]]]]]
        > XACKDEL s h ACKED IDS 1 1-4
        [1]
        > XLEN s
        1
        > XDELEX none IDS 1 1-1
        [-1]
        > XACKDEL s none IDS 1 1-1
        [-1]
        > XDELEX s IDS 2 1-1
        -ERR The `numids` parameter must match the number of arguments
        > XDELEX s IDS 0 1-1
        -ERR Number of IDs must be a positive integer
        > XDELEX s IDS x 1-1
        -ERR Number of IDs must be a positive integer
        > XDELEX s FOO IDS 1 1-1
        -ERR syntax error
        > XDELEX s KEEPREF DELREF IDS 1 1-1
        -ERR syntax error
        > XDELEX s KEEPREF 1-1 1-2
        -ERR syntax error
        > SET t 1
        +OK
        > XDELEX t IDS 1 1-1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn trimming_with_regard_to_groups() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XADD s 1-4 a 4
        "1-4"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c COUNT 3 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]], ["1-3", ["a", "3"]]]]]
        > XACK s g 1-2
        1
        > XTRIM s MAXLEN 1 ACKED
        1
        > XRANGE s - +
        [["1-1", ["a", "1"]], ["1-3", ["a", "3"]], ["1-4", ["a", "4"]]]
        @differs redis-8.6 it does not count what trimming deletes
        > XINFO STREAM s
        ["length", 3, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-4", "max-deleted-entry-id", "1-2", "entries-added", 4, "recorded-first-entry-id", "1-1", "groups", 1, "first-entry", ["1-1", ["a", "1"]], "last-entry", ["1-4", ["a", "4"]]]
        > XTRIM s MAXLEN ~ 0 ACKED
        0
        > XADD s DELREF MAXLEN 2 1-5 a 5
        "1-5"
        > XRANGE s - +
        [["1-4", ["a", "4"]], ["1-5", ["a", "5"]]]
        > XPENDING s g
        [0, $-1, $-1, *-1]
        > XADD s MAXLEN 2 KEEPREF 1-6 a 6
        "1-6"
        > XPENDING s g
        [0, $-1, $-1, *-1]
        > XACK s g 1-3
        0
        > XTRIM s MINID 1-6 DELREF
        1
        > XADD s ACKED 1-7 a 7
        "1-7"
        > XLEN s
        2
        > XTRIM s MAXLEN 1 ACKED KEEPREF
        -ERR syntax error
        > XTRIM s ACKED DELREF
        -ERR syntax error
        > XTRIM s KEEPREF
        -ERR wrong number of arguments for 'xtrim' command
        > XTRIM s MAXLEN 1 LIMIT 1 ACKED
        -ERR syntax error, LIMIT cannot be used without the special ~ option
        > XADD s KEEPREF ACKED 1-8 a 8
        -ERR Invalid stream ID specified as stream command argument
        > XADD s NOMKSTREAM DELREF DELREF * a 8
        -ERR Invalid stream ID specified as stream command argument
    "#]]);
}

//! `XADD`, `XLEN`, `XTRIM`, `XDEL` and `XSETID`

use expect_test::expect;

use crate::check::check;

#[test]
fn ids_ascend() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-1 a 1
        -ERR The ID specified in XADD is equal or smaller than the target stream top item
        > XADD s 1-0 a 1
        -ERR The ID specified in XADD is equal or smaller than the target stream top item
        > XADD s 0-0 a 1
        -ERR The ID specified in XADD must be greater than 0-0
        > XADD s 1-* a 2
        "1-2"
        > XADD s 2-* a 3
        "2-0"
        > XADD s 1-* a 3
        -ERR The ID specified in XADD is equal or smaller than the target stream top item
        > XADD s 3 a 4
        "3-0"
        > XADD s 5-18446744073709551615 a 5
        "5-18446744073709551615"
        > XADD s 5-* a 6
        -ERR The ID specified in XADD is equal or smaller than the target stream top item
        > XADD s x a 1
        -ERR Invalid stream ID specified as stream command argument
        > XADD s 1-2-3 a 1
        -ERR Invalid stream ID specified as stream command argument
        > XADD s 6-1 a
        -ERR wrong number of arguments for 'xadd' command
        > XADD s 6-1 a 1 b
        -ERR wrong number of arguments for 'xadd' command
        > XADD s *
        -ERR wrong number of arguments for 'xadd' command
        > XADD s 007-1 a 1
        "7-1"
        > XLEN s
        6
        > XADD s 18446744073709551615-18446744073709551615 a 1
        "18446744073709551615-18446744073709551615"
        > XADD s * a 1
        -ERR The stream has exhausted the last possible ID, unable to add more items
        > XLEN none
        0
        > TYPE s
        +stream
        > OBJECT ENCODING s
        "stream"
        > SET t 1
        +OK
        > XADD t * a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > XLEN t
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn nomkstream_and_invalid_ids_create_no_stream() {
    check(expect![[r#"
        > XADD s NOMKSTREAM 1-1 a 1
        $-1
        > EXISTS s
        0
        > XADD s 0-0 a 1
        -ERR The ID specified in XADD must be greater than 0-0
        > EXISTS s
        0
        > XADD s 1-1 a 1
        "1-1"
        > XADD s nomkstream 1-2 a 1
        "1-2"
        > XLEN s
        2
    "#]]);
}

#[test]
fn trimming_while_adding() {
    check(expect![[r#"
        > XADD s MAXLEN 2 1-1 a 1
        "1-1"
        > XADD s MAXLEN = 2 1-2 a 2
        "1-2"
        > XADD s MAXLEN 2 1-3 a 3
        "1-3"
        > XRANGE s - +
        [["1-2", ["a", "2"]], ["1-3", ["a", "3"]]]
        > XADD s MINID 1-3 1-4 a 4
        "1-4"
        > XRANGE s - +
        [["1-3", ["a", "3"]], ["1-4", ["a", "4"]]]
        > XADD s MAXLEN ~ 1 1-5 a 5
        "1-5"
        > XLEN s
        3
        > XADD s MAXLEN ~ 1 LIMIT 0 1-6 a 5
        "1-6"
        > XADD s MAXLEN 1 LIMIT 3 1-7 a 5
        -ERR syntax error, LIMIT cannot be used without the special ~ option
        > XADD s LIMIT 3 1-7 a 5
        -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        > XADD s MAXLEN 1 MINID 1 1-7 a 5
        -ERR syntax error, MAXLEN and MINID options at the same time are not compatible
        > XADD s MAXLEN -1 1-7 a 5
        -ERR The MAXLEN argument must be >= 0.
        > XADD s MAXLEN x 1-7 a 5
        -ERR value is not an integer or out of range
        > XADD s MINID x 1-7 a 5
        -ERR Invalid stream ID specified as stream command argument
        > XADD s MAXLEN ~ 1 LIMIT -1 1-7 a 5
        -ERR The LIMIT argument must be >= 0.
        > XADD s MAXLEN 0 1-9 a 5
        "1-9"
        > XLEN s
        0
        > EXISTS s
        1
    "#]]);
}

#[test]
fn trimming() {
    check(expect![[r#"
        @config stream-node-max-entries 3
        > XTRIM s MAXLEN 1
        0
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XADD s 1-4 a 4
        "1-4"
        > XADD s 1-5 b 5
        "1-5"
        > XADD s 1-6 b 6
        "1-6"
        > XADD s 1-7 b 7
        "1-7"
        > XTRIM s MAXLEN ~ 5
        0
        > XTRIM s MAXLEN ~ 4
        3
        > XTRIM s MAXLEN 3
        1
        > XTRIM s MAXLEN = 3
        0
        > XTRIM s MINID ~ 1-6
        0
        > XTRIM s MINID 1-6
        1
        > XTRIM s MINID ~ 5 LIMIT 1
        1
        > XTRIM s MINID ~ 5 LIMIT 2
        1
        > XRANGE s - +
        []
        > XTRIM s MAXLEN 0
        0
        > XLEN s
        0
        > XTRIM s
        -ERR wrong number of arguments for 'xtrim' command
        > XTRIM s FOO 1
        -ERR syntax error
        > XTRIM s MAXLEN
        -ERR wrong number of arguments for 'xtrim' command
        > XTRIM s LIMIT 1
        -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        > SET t 1
        +OK
        > XTRIM t MAXLEN 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn deleting() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD s 1-3 a 3
        "1-3"
        > XDEL s 1-2
        1
        > XDEL s 1-2
        0
        > XDEL s 1-1 1-3 1-3 9-9
        2
        > XDEL s
        -ERR wrong number of arguments for 'xdel' command
        > XDEL s x
        -ERR Invalid stream ID specified as stream command argument
        > XDEL none 1-1
        0
        > XDEL none x
        0
        > XLEN s
        0
        > EXISTS s
        1
        > XADD s 1-3 a 1
        -ERR The ID specified in XADD is equal or smaller than the target stream top item
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s
        ["length", 0, "radix-tree-keys", 0, "radix-tree-nodes", 1, "last-generated-id", "1-3", "max-deleted-entry-id", "1-3", "entries-added", 3, "recorded-first-entry-id", "0-0", "groups", 0, "first-entry", $-1, "last-entry", $-1]
        > SET t 1
        +OK
        > XDEL t 1-1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn streams_keep_last_and_deleted_ids() {
    check(expect![[r#"
        > XSETID s 1-1
        -ERR no such key
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 1
        "1-2"
        > XSETID s 1-1
        -ERR The ID specified in XSETID is smaller than the target stream top item
        > XSETID s 5-5 ENTRIESADDED 1
        -ERR The entries_added specified in XSETID is smaller than the target stream length
        > XSETID s 5-5 ENTRIESADDED -1
        -ERR entries_added must be positive
        > XSETID s 5-5 ENTRIESADDED 9 MAXDELETEDID 6-0
        -ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
        > XSETID s 5-5 ENTRIESADDED 9 MAXDELETEDID 4-0
        +OK
        @differs redis-8.6 it reports idempotent producers
        > XINFO STREAM s
        ["length", 2, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "5-5", "max-deleted-entry-id", "4-0", "entries-added", 9, "recorded-first-entry-id", "1-1", "groups", 0, "first-entry", ["1-1", ["a", "1"]], "last-entry", ["1-2", ["a", "1"]]]
        > XSETID s 3-9
        -ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
        > XSETID s 5-5 FOO 1
        -ERR syntax error
        > XSETID s 5-5 ENTRIESADDED
        -ERR syntax error
        > XSETID s x
        -ERR Invalid stream ID specified as stream command argument
        > XSETID s -
        -ERR Invalid stream ID specified as stream command argument
        > SET t 1
        +OK
        > XSETID t 1-1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

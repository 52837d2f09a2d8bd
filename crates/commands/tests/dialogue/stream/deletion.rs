//! Deleted entries that are still pending, and what is read behind them

use expect_test::expect;

use crate::check::check;

#[test]
fn entries_that_are_pending_after_their_deletion() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 2-1 a 2
        "2-1"
        > XADD s 3-1 a 3
        "3-1"
        > XADD s 4-1 a 4
        "4-1"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c COUNT 4 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["2-1", ["a", "2"]], ["3-1", ["a", "3"]], ["4-1", ["a", "4"]]]]]
        > XDEL s 1-1 2-1 3-1
        3
        > XDELEX s ACKED IDS 1 1-1
        [2]
        > XDELEX s KEEPREF IDS 1 1-1
        [-1]
        > XDELEX s DELREF IDS 1 1-1
        [-1]
        > XDELEX s ACKED IDS 1 1-1
        [-1]
        > XACKDEL s g ACKED IDS 1 2-1
        [1]
        > XACKDEL s g DELREF IDS 1 3-1
        [1]
        > XPENDING s g
        [1, "4-1", "4-1", [["c", "1"]]]
        > XDELEX s ACKED IDS 1 99-1
        [2]
        > XACKDEL s g ACKED IDS 1 99-1
        [-1]
    "#]]);
}

/// As Redis 8.6 does: a trim does not meet entries that were deleted before it.
#[test]
fn a_trim_keeps_references_to_entries_that_were_deleted_before() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 2-1 a 2
        "2-1"
        > XADD s 3-1 a 3
        "3-1"
        > XGROUP CREATE s g 0
        +OK
        > XREADGROUP GROUP g c COUNT 3 STREAMS s >
        [["s", [["1-1", ["a", "1"]], ["2-1", ["a", "2"]], ["3-1", ["a", "3"]]]]]
        > XDEL s 1-1
        1
        > XTRIM s MINID 3-0 DELREF
        1
        > XPENDING s g
        [2, "1-1", "3-1", [["c", "2"]]]
        > XTRIM s MAXLEN 0 DELREF
        1
        > XPENDING s g
        [1, "1-1", "1-1", [["c", "1"]]]
    "#]]);
}

#[test]
fn an_approximate_trim_with_regard_to_groups_is_exact() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 2-1 a 2
        "2-1"
        > XADD s 3-1 a 3
        "3-1"
        > XADD s 4-1 a 4
        "4-1"
        > XTRIM s MAXLEN ~ 3
        0
        > XTRIM s MAXLEN ~ 3 KEEPREF
        0
        > XTRIM s MAXLEN ~ 3 DELREF
        1
        > XTRIM s MINID ~ 3 ACKED
        1
        > XTRIM s MAXLEN ~ 1 LIMIT 1 DELREF
        0
        > XADD s DELREF MAXLEN ~ 1 5-1 a 5
        "5-1"
        > XRANGE s - +
        [["5-1", ["a", "5"]]]
    "#]]);
}

#[test]
fn the_error_that_wins() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        > SET k v
        +OK
        > XDELEX k FOO IDS 1 1-1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > XACKDEL k g FOO IDS 1 1-1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > XDELEX n FOO IDS 1 1-1
        -ERR syntax error
        > XDELEX n IDS 1 x
        [-1]
        > XACKDEL n g IDS 1 x
        [-1]
        > XADD s 1-1 a 1
        "1-1"
        > XACKDEL s none IDS 1 x
        [-1]
        > XDELEX s IDS 1 x
        -ERR Invalid stream ID specified as stream command argument
        > XDELEX s IDS 1 1-1 1-2
        -ERR syntax error
        > XDELEX s IDS 1 x IDS 2 2-1 3-1
        [-1, -1]
        > XDELEX s KEEPREF IDS 1
        -ERR The `numids` parameter must match the number of arguments
        > XDELEX s IDS 1 1-1 DELREF
        [1]
    "#]]);
}

/// Valkey 9.1 finds nothing, as Redis did before 8.0.
#[test]
fn the_last_entry_after_a_deletion() {
    check(expect![[r#"
        @redis Valkey searches behind the last ID
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 2-1 a 2
        "2-1"
        > XDEL s 2-1
        1
        > XREAD STREAMS s +
        [["s", [["1-1", ["a", "1"]]]]]
        > XDEL s 1-1
        1
        > XREAD STREAMS s +
        *-1
        > XADD s 3-1 a 3
        "3-1"
        > XREAD STREAMS s +
        [["s", [["3-1", ["a", "3"]]]]]
    "#]]);
}

/// The lag counts the entries added behind the last ID of the group, trimmed ones too, as in Valkey. A number of read
/// entries that does not fit to that ID is limited: Valkey shows a negative lag then.
#[test]
fn the_lag_fits_to_the_last_id() {
    check(expect![[r#"
        @ours Valkey keeps the number, Redis limits it to the number of added entries
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 2-1 a 2
        "2-1"
        > XGROUP CREATE s g 0 ENTRIESREAD 7
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "0-0", "entries-read", 0, "lag", 2]]
        > XGROUP SETID s g 1-1 ENTRIESREAD 7
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "1-1", "entries-read", 1, "lag", 1]]
        > XGROUP SETID s g 2-1 ENTRIESREAD 7
        +OK
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 2, "lag", 0]]
        > XADD s 3-1 a 3
        "3-1"
        > XADD s 4-1 a 4
        "4-1"
        > XTRIM s MAXLEN 1
        3
        > XINFO GROUPS s
        [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "2-1", "entries-read", 2, "lag", 2]]
    "#]]);
}

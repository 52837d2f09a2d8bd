//! Tokens of the grammar end at a NUL, as Redis compares C strings.

use expect_test::expect;

use crate::check::check;

#[test]
fn options_end_at_a_nul() {
    check(expect![[r#"
        @valkey Redis compares whole words
        > SET k v "EX\x00" 100
        +OK
        > TTL k
        100
        > SET k v "E\x00X" 100
        -ERR syntax error
        > SET k v "NX\x00rest" "GET\x00"
        "v"
        > GETEX k "PERSIST\x00"
        "v"
        > TTL k
        -1
        > EXPIRE k 100 "nx\x00x"
        1
        > COPY k copy "REPLACE\x00" "DB\x00" 1
        1
        > RPUSH l b a
        2
        > LINSERT l "BEFORE\x00" a x
        3
        > LMOVE l l "LEFT\x00" "right\x00"
        "b"
        > LPOS l a "RANK\x00" 1
        1
        > LMPOP 1 l "LEFT\x00" "COUNT\x00" 1
        ["l", ["x"]]
        > SORT l "ALPHA\x00" "DESC\x00" "LIMIT\x00" 0 10
        ["b", "a"]
        > ZADD z "NX\x00" "CH\x00" 1 a
        1
        > ZRANGE z 0 -1 "REV\x00" "WITHSCORES\x00"
        ["a", "1"]
        > ZUNIONSTORE d 1 z "WEIGHTS\x00" 2 "AGGREGATE\x00" "SUM\x00"
        1
        > ZMPOP 1 d "MIN\x00"
        ["d", [["a", "2"]]]
        > BITOP "AND\x00" d k k
        1
        > BITPOS k 1 0 -1 "BIT\x00"
        1
        > GEOADD g "NX\x00" 1 2 m 1 2 n
        2
        > GEODIST g m n "km\x00"
        "0.0000"
        > HSET h f v
        1
        > HEXPIRE h 100 "FIELDS\x00" 1 f
        [1]
        > HGETEX h "PERSIST\x00" "FIELDS\x00" 1 f
        ["v"]
        > SCAN 0 "COUNT\x00" 100 "TYPE\x00" "hash\x00"
        ["0", ["h"]]
        > XADD x "MAXLEN\x00" 10 1-1 a b
        "1-1"
        > XRANGE x "-\x00" "+\x00" "COUNT\x00" 1
        [["1-1", ["a", "b"]]]
        > XREAD "COUNT\x00" 1 "STREAMS\x00" x 0
        [["x", [["1-1", ["a", "b"]]]]]
        > XGROUP "CREATE\x00" x group "$\x00"
        +OK
        > XPENDING x group "IDLE\x00" 1 - + 1
        []
        > LCS k copy "LEN\x00"
        0
        > FLUSHDB "SYNC\x00"
        +OK
        > DBSIZE
        0
    "#]]);
}

#[test]
fn names_of_subcommands_end_at_a_nul() {
    check(expect![[r#"
        @valkey Redis compares whole words
        > CLIENT "GETNAME\x00rest"
        $-1
        > CLIENT "NO-EVICT\x00" "on\x00"
        +OK
        > CLIENT REPLY "ON\x00"
        +OK
        > PUBSUB "CHANNELS\x00"
        []
        > CLIENT "SETINFO\x00" "lib-name\x00" name
        +OK
        > COMMAND "COUNT\x00" too many
        -ERR wrong number of arguments for 'command|count' command
    "#]]);
}

//! `ZRANGE` and its older forms

use expect_test::expect;

use crate::check::check;

#[test]
fn by_rank() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c 4 d 5 e
        5
        > ZRANGE z 0 -1
        ["a", "b", "c", "d", "e"]
        > ZRANGE z 1 2
        ["b", "c"]
        > ZRANGE z -2 -1
        ["d", "e"]
        > ZRANGE z -100 100
        ["a", "b", "c", "d", "e"]
        > ZRANGE z 3 1
        []
        > ZRANGE z 5 9
        []
        > ZRANGE z 0 -6
        []
        > ZRANGE z 0 1 REV
        ["e", "d"]
        > ZRANGE z -2 -1 rev WITHSCORES
        ["b", "2", "a", "1"]
        > ZREVRANGE z 0 1
        ["e", "d"]
        > ZREVRANGE z 0 -1 WITHSCORES
        ["e", "5", "d", "4", "c", "3", "b", "2", "a", "1"]
        > ZREVRANGE z 1 0
        []
        > ZRANGE z 0 1 LIMIT 0 1
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        > ZRANGE z 0 1 LIMIT 3 -1
        ["a", "b"]
        > ZRANGE z x 1
        -ERR value is not an integer or out of range
        > ZRANGE z 0 1.5
        -ERR value is not an integer or out of range
        > ZRANGE z 0 9223372036854775807
        ["a", "b", "c", "d", "e"]
        > ZRANGE z -9223372036854775808 -1
        ["a", "b", "c", "d", "e"]
        > ZRANGE z 0 9223372036854775808
        -ERR value is not an integer or out of range
        > ZRANGE z 0
        -ERR wrong number of arguments for 'zrange' command
        > ZREVRANGE z 0 1 REV
        -ERR syntax error
        > ZREVRANGE z 0 1 BYSCORE
        -ERR syntax error
        > ZREVRANGE z 0 1 LIMIT 0 1
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        > ZRANGE nokey 0 1
        []
        > ZRANGE nokey x y
        -ERR value is not an integer or out of range
        > ZRANGE z 0 1 odd
        -ERR syntax error
        @resp3
        > ZRANGE z 0 1 WITHSCORES
        [["a", ,1], ["b", ,2]]
        > ZRANGE z 0 1
        ["a", "b"]
        > ZRANGE nokey 0 1 WITHSCORES
        []
    "#]]);
}

#[test]
fn by_score() {
    check(expect![[r#"
        > ZADD z -inf a 1 b 2 c 2.5 d 3 e inf f
        6
        > ZRANGEBYSCORE z -inf +inf
        ["a", "b", "c", "d", "e", "f"]
        > ZRANGEBYSCORE z 1 2.5 WITHSCORES
        ["b", "1", "c", "2", "d", "2.5"]
        > ZRANGEBYSCORE z (1 3
        ["c", "d", "e"]
        > ZRANGEBYSCORE z (1 (3
        ["c", "d"]
        > ZRANGEBYSCORE z 3 1
        []
        > ZREVRANGEBYSCORE z 3 1
        ["e", "d", "c", "b"]
        > ZREVRANGEBYSCORE z (3 (1 WITHSCORES
        ["d", "2.5", "c", "2"]
        > ZREVRANGEBYSCORE z 1 3
        []
        > ZRANGE z 1 3 BYSCORE
        ["b", "c", "d", "e"]
        > ZRANGE z 3 1 BYSCORE REV
        ["e", "d", "c", "b"]
        > ZRANGE z (3 1 REV BYSCORE WITHSCORES LIMIT 0 1
        ["d", "2.5"]
        > ZRANGE z 1 3 BYLEX BYSCORE
        -ERR syntax error
        > ZRANGEBYSCORE z x 1
        -ERR min or max is not a float
        > ZRANGEBYSCORE z 1 x
        -ERR min or max is not a float
        > ZRANGEBYSCORE z 1 2 REV
        -ERR syntax error
        > ZRANGEBYSCORE z 1 2 BYSCORE
        -ERR syntax error
        > ZRANGEBYSCORE z 1 3 LIMIT
        -ERR syntax error
        > ZRANGEBYSCORE z 1 3 LIMIT 1
        -ERR syntax error
        > ZRANGEBYSCORE z 1 3 LIMIT x 1
        -ERR value is not an integer or out of range
        > ZRANGEBYSCORE z 1 3 LIMIT 1 x
        -ERR value is not an integer or out of range
        > ZRANGEBYSCORE z 1 3 LIMIT 0 1 LIMIT 1 1
        ["c"]
        > ZRANGEBYSCORE z 1 3 odd
        -ERR syntax error
        > ZRANGEBYSCORE nokey 1 3
        []
        @resp3
        > ZRANGEBYSCORE z 1 3 WITHSCORES
        [["b", ,1], ["c", ,2], ["d", ,2.5], ["e", ,3]]
        > ZRANGEBYSCORE nokey 1 3
        []
    "#]]);
}

#[test]
fn limits_at_their_extremes() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c 4 d 5 e
        5
        > ZRANGEBYSCORE z 2 5 LIMIT 0 0
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 0 2
        ["b", "c"]
        > ZRANGEBYSCORE z 2 5 LIMIT 1 2
        ["c", "d"]
        > ZRANGEBYSCORE z 2 5 LIMIT 3 10
        ["e"]
        > ZRANGEBYSCORE z 2 5 LIMIT 4 10
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 5 1
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 2 -1
        ["d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT 2 -5
        ["d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -1 2
        []
        > ZRANGEBYSCORE z 2 5 LIMIT -2 -1
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 9223372036854775807 1
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 0 9223372036854775807
        ["b", "c", "d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -9223372036854775808 -9223372036854775808
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 9223372036854775808 1
        -ERR value is not an integer or out of range
        > ZREVRANGEBYSCORE z 5 2 LIMIT 0 0
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 0 2
        ["e", "d"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT 1 2
        ["d", "c"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT 3 10
        ["b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT 4 10
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 5 1
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 2 -1
        ["c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT 2 -5
        ["c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -1 2
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT -2 -1
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 9223372036854775807 1
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 0 9223372036854775807
        ["e", "d", "c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -9223372036854775808 -9223372036854775808
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 9223372036854775808 1
        -ERR value is not an integer or out of range
    "#]]);
}

#[test]
fn limits_in_a_skiplist() {
    check(expect![[r#"
        @valkey Redis accepts a member of 65 bytes in a listpack
        > ZADD z 1 a 2 b 3 c 4 d 5 e 9 {x*65}
        6
        > ZRANGEBYSCORE z 2 5 LIMIT 0 2
        ["b", "c"]
        > ZRANGEBYSCORE z 2 5 LIMIT 4 10
        []
        > ZRANGEBYSCORE z 2 5 LIMIT 2 -1
        ["d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -1 2
        ["e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -2 -1
        ["d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -2 1
        ["d"]
        > ZRANGEBYSCORE z 2 5 LIMIT -4 9
        ["b", "c", "d", "e"]
        > ZRANGEBYSCORE z 2 5 LIMIT -5 9
        []
        > ZRANGEBYSCORE z 2 5 LIMIT -9223372036854775808 1
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 0 2
        ["e", "d"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT 4 10
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT 2 -1
        ["c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -1 2
        ["b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -2 -1
        ["c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -2 1
        ["c"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -4 9
        ["e", "d", "c", "b"]
        > ZREVRANGEBYSCORE z 5 2 LIMIT -5 9
        []
        > ZREVRANGEBYSCORE z 5 2 LIMIT -9223372036854775808 1
        []
        > ZADD l 0 a 0 b 0 c 0 {x*65}
        4
        > ZRANGEBYLEX l [a [c LIMIT -2 5
        ["b", "c"]
        > ZREVRANGEBYLEX l [c [a LIMIT -2 5
        ["b", "a"]
    "#]]);
}

#[test]
fn by_member() {
    check(expect![[r#"
        > ZADD z 0 alpha 0 bar 0 cool 0 down 0 elephant 0 foo 0 great 0 hill 0 omega
        9
        > ZRANGEBYLEX z [aaaa [omega
        ["alpha", "bar", "cool", "down", "elephant", "foo", "great", "hill", "omega"]
        > ZRANGEBYLEX z (aaaa (foo
        ["alpha", "bar", "cool", "down", "elephant"]
        > ZRANGEBYLEX z - +
        ["alpha", "bar", "cool", "down", "elephant", "foo", "great", "hill", "omega"]
        > ZRANGEBYLEX z - [c
        ["alpha", "bar"]
        > ZRANGEBYLEX z [aaa (g
        ["alpha", "bar", "cool", "down", "elephant", "foo"]
        > ZRANGEBYLEX z + -
        []
        > ZREVRANGEBYLEX z [omega [aaaa
        ["omega", "hill", "great", "foo", "elephant", "down", "cool", "bar", "alpha"]
        > ZREVRANGEBYLEX z (foo (aaaa
        ["elephant", "down", "cool", "bar", "alpha"]
        > ZREVRANGEBYLEX z + -
        ["omega", "hill", "great", "foo", "elephant", "down", "cool", "bar", "alpha"]
        > ZREVRANGEBYLEX z [c -
        ["bar", "alpha"]
        > ZREVRANGEBYLEX z (g [aaa
        ["foo", "elephant", "down", "cool", "bar", "alpha"]
        > ZREVRANGEBYLEX z - +
        []
        > ZRANGEBYLEX z - [cool LIMIT 1 1
        ["bar"]
        > ZREVRANGEBYLEX z + [d LIMIT 1 2
        ["hill", "great"]
        > ZRANGE z [b [d BYLEX
        ["bar", "cool"]
        > ZRANGE z [d [b BYLEX REV LIMIT 0 1
        ["cool"]
        > ZRANGE z - + BYLEX WITHSCORES
        -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        > ZRANGEBYLEX z - + WITHSCORES
        -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        > ZRANGEBYLEX z a b
        -ERR min or max not valid string range item
        > ZRANGEBYLEX z [a
        -ERR wrong number of arguments for 'zrangebylex' command
        > ZRANGEBYLEX z 1 2
        -ERR min or max not valid string range item
        > ZRANGEBYLEX z fooo foo
        -ERR min or max not valid string range item
        > ZREVRANGEBYLEX z + x
        -ERR min or max not valid string range item
        > ZRANGEBYLEX nokey - +
        []
        > ZRANGEBYLEX nokey x y
        -ERR min or max not valid string range item
    "#]]);
}

#[test]
fn storing() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c 4 d
        4
        > ZRANGESTORE d z 0 1
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["a", "1", "b", "2"]
        > ZRANGESTORE d z 2 3 BYSCORE
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["b", "2", "c", "3"]
        > ZRANGESTORE d z 3 2 BYSCORE REV LIMIT 0 1
        1
        > ZRANGE d 0 -1 WITHSCORES
        ["c", "3"]
        > ZRANGESTORE d z [a (c BYLEX
        2
        > ZRANGE d 0 -1
        ["a", "b"]
        > ZRANGESTORE d z 0 0 REV
        1
        > ZRANGE d 0 -1
        ["d"]
        > ZRANGESTORE z z 1 2
        2
        > ZRANGE z 0 -1 WITHSCORES
        ["b", "2", "c", "3"]
        > SET s x
        +OK
        > ZRANGESTORE s z 0 -1
        2
        > TYPE s
        +zset
        > ZRANGESTORE s nokey 0 -1
        0
        > EXISTS s
        0
        > ZRANGESTORE s nokey 0 -1
        0
        > ZRANGESTORE d z 5 9
        0
        > EXISTS d
        0
        > ZRANGESTORE d z 0 1 WITHSCORES
        -ERR syntax error
        > ZRANGESTORE d z 0 1 LIMIT 1 1
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        > ZRANGESTORE d z x y
        -ERR value is not an integer or out of range
        > ZRANGESTORE d z 0
        -ERR wrong number of arguments for 'zrangestore' command
        > ZRANGESTORE d z a b BYSCORE
        -ERR min or max is not a float
    "#]]);
}

#[test]
fn encodings_of_stored_ranges() {
    check(expect![[r#"
        > ZADD z 1 {x*65} 2 b 3 c
        3
        > ZRANGESTORE d z 1 2
        2
        @inspect d
        listpack
        > ZRANGESTORE d z 0 0
        1
        @inspect d
        skiplist
        > CONFIG SET zset-max-listpack-entries 2
        +OK
        > ZRANGESTORE d z 0 2
        3
        @inspect d
        skiplist
        > ZRANGESTORE d z 2 3 BYSCORE
        2
        @inspect d
        listpack
        > ZUNIONSTORE d 1 z
        3
        @inspect d
        skiplist
        > ZINTERSTORE d 2 z d
        3
        @inspect d
        skiplist
        > CONFIG SET zset-max-listpack-entries 128
        +OK
        > ZUNIONSTORE d 1 z
        3
        @inspect d
        skiplist
        > ZREM z {x*65}
        1
        > ZUNIONSTORE d 1 z
        2
        @inspect d
        listpack
    "#]]);
}

#[test]
fn removing_ranges() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c 4 d 5 e
        5
        > ZREMRANGEBYRANK z 0 0
        1
        > ZREMRANGEBYRANK z -1 -1
        1
        > ZREMRANGEBYRANK z 5 9
        0
        > ZREMRANGEBYRANK z 2 1
        0
        > ZREMRANGEBYRANK z x 1
        -ERR value is not an integer or out of range
        > ZREMRANGEBYRANK z 1 x
        -ERR value is not an integer or out of range
        > ZRANGE z 0 -1
        ["b", "c", "d"]
        > ZREMRANGEBYSCORE z (2 3
        1
        > ZREMRANGEBYSCORE z x 3
        -ERR min or max is not a float
        > ZREMRANGEBYSCORE z 9 10
        0
        > ZRANGE z 0 -1
        ["b", "d"]
        > ZREMRANGEBYSCORE z -inf inf
        2
        > EXISTS z
        0
        > ZADD z 0 a 0 b 0 c
        3
        > ZREMRANGEBYLEX z [a (b
        1
        > ZREMRANGEBYLEX z a b
        -ERR min or max not valid string range item
        > ZREMRANGEBYLEX z [x +
        0
        > ZRANGE z 0 -1
        ["b", "c"]
        > ZREMRANGEBYLEX z - +
        2
        > EXISTS z
        0
        > ZREMRANGEBYRANK nokey 0 -1
        0
        > ZREMRANGEBYSCORE nokey x 1
        -ERR min or max is not a float
        > ZREMRANGEBYLEX nokey - +
        0
    "#]]);
}

//! `ZPOPMIN`, `ZPOPMAX`, `ZMPOP` and `ZRANDMEMBER`

use expect_test::expect;

use crate::check::check;

#[test]
fn one_key() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c 4 d 5 e
        5
        > ZPOPMIN z
        ["a", "1"]
        > ZPOPMAX z
        ["e", "5"]
        > ZPOPMIN z 0
        []
        > ZPOPMIN z 2
        ["b", "2", "c", "3"]
        > ZPOPMAX z 10
        ["d", "4"]
        > EXISTS z
        0
        > ZPOPMIN z
        []
        > ZPOPMAX z 3
        []
        > ZPOPMIN z -1
        -ERR value is out of range, must be positive
        > ZPOPMIN z x
        -ERR value is out of range, must be positive
        > ZPOPMIN z 1 2
        -ERR syntax error
        > ZPOPMIN
        -ERR wrong number of arguments for 'zpopmin' command
        @resp3
        > ZADD z 1 a 2 b 3 c 4 d
        4
        > ZPOPMIN z
        ["a", ,1]
        > ZPOPMIN z 1
        [["b", ,2]]
        > ZPOPMAX z 5
        [["d", ,4], ["c", ,3]]
        > ZPOPMIN z 2
        []
    "#]]);
}

#[test]
fn several_keys() {
    check(expect![[r#"
        > ZADD y 1 a 2 b 3 c
        3
        > ZADD z 4 d
        1
        > ZMPOP 2 x y MIN
        ["y", [["a", "1"]]]
        > ZMPOP 2 x y max COUNT 1
        ["y", [["c", "3"]]]
        > ZMPOP 3 x y z MIN COUNT 10
        ["y", [["b", "2"]]]
        > EXISTS y
        0
        > ZMPOP 3 x y z MIN COUNT 10
        ["z", [["d", "4"]]]
        > ZMPOP 3 x y z MIN
        *-1
        > ZMPOP 0 x MIN
        -ERR numkeys should be greater than 0
        > ZMPOP -1 x MIN
        -ERR numkeys should be greater than 0
        > ZMPOP a x MIN
        -ERR numkeys should be greater than 0
        > ZMPOP 1 x
        -ERR wrong number of arguments for 'zmpop' command
        > ZMPOP 1 x ODD
        -ERR syntax error
        > ZMPOP 2 x MIN
        -ERR syntax error
        > ZMPOP 1 x MIN COUNT
        -ERR syntax error
        > ZMPOP 1 x MIN COUNT 0
        -ERR count should be greater than 0
        > ZMPOP 1 x MIN COUNT -1
        -ERR count should be greater than 0
        > ZMPOP 1 x MIN COUNT 1 COUNT 1
        -ERR syntax error
        > ZMPOP 1 x MIN ODD 1
        -ERR syntax error
        > ZMPOP 9223372036854775807 x MIN
        -ERR syntax error
        > SET s x
        +OK
        > ZMPOP 2 s y MIN
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZMPOP 2 x s MIN
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > ZADD z 1 a 2 b
        2
        > ZMPOP 1 z MIN
        ["z", [["a", ,1]]]
        > ZMPOP 1 x MIN
        _
    "#]]);
}

#[test]
fn random_members() {
    check(expect![[r#"
        > ZADD z 1 a
        1
        > ZRANDMEMBER z
        "a"
        > ZRANDMEMBER z 5
        ["a"]
        > ZRANDMEMBER z -3
        ["a", "a", "a"]
        > ZRANDMEMBER z 2 WITHSCORES
        ["a", "1"]
        > ZRANDMEMBER z -2 WITHSCORES
        ["a", "1", "a", "1"]
        > ZRANDMEMBER z 0
        []
        > ZRANDMEMBER nokey -9223372036854775807
        []
        > HRANDFIELD nokey -9223372036854775807
        []
        > ZRANDMEMBER nokey
        $-1
        > ZRANDMEMBER nokey 2
        []
        > ZRANDMEMBER nokey -2 WITHSCORES
        []
        > ZRANDMEMBER z x
        -ERR value is not an integer or out of range
        > ZRANDMEMBER z 1 odd
        -ERR syntax error
        > ZRANDMEMBER z 1 WITHSCORES odd
        -ERR syntax error
        > ZRANDMEMBER z -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > ZRANDMEMBER z -9223372036854775807 WITHSCORES
        -ERR value is out of range
        > ZRANDMEMBER z 9223372036854775807 WITHSCORES
        -ERR value is out of range
        @resp3
        > ZRANDMEMBER z 2 WITHSCORES
        [["a", ,1]]
        > ZRANDMEMBER z -2 WITHSCORES
        [["a", ,1], ["a", ,1]]
        > ZRANDMEMBER nokey
        _
        > ZRANDMEMBER nokey 1
        []
    "#]]);
}

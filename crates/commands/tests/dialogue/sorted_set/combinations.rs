//! `ZUNION`, `ZINTER`, `ZDIFF` and their forms that store or count

use expect_test::expect;

use crate::check::check;

#[test]
fn unions() {
    check(expect![[r#"
        > ZADD a 1 x 2 y
        2
        > ZADD b 10 y 20 z
        2
        > ZUNION 2 a b
        ["x", "y", "z"]
        > ZUNION 2 a b WITHSCORES
        ["x", "1", "y", "12", "z", "20"]
        > ZUNION 2 a b WEIGHTS 2 3 WITHSCORES
        ["x", "2", "y", "34", "z", "60"]
        > ZUNION 2 a b WEIGHTS 2 0.5 AGGREGATE MIN WITHSCORES
        ["x", "2", "y", "4", "z", "10"]
        > ZUNION 2 a b AGGREGATE max WITHSCORES
        ["x", "1", "y", "10", "z", "20"]
        > ZUNION 2 a nokey WITHSCORES
        ["x", "1", "y", "2"]
        > ZUNION 1 nokey
        []
        > ZUNION 2 a a WITHSCORES
        ["x", "2", "y", "4"]
        > ZUNIONSTORE d 2 a b
        3
        > ZRANGE d 0 -1 WITHSCORES
        ["x", "1", "y", "12", "z", "20"]
        > ZUNIONSTORE a 2 a b
        3
        > ZRANGE a 0 -1 WITHSCORES
        ["x", "1", "y", "12", "z", "20"]
        @resp3
        > ZUNION 2 a b WITHSCORES
        [["x", ,1], ["y", ,22], ["z", ,40]]
        > ZUNION 2 a b
        ["x", "y", "z"]
        > ZUNION 1 nokey WITHSCORES
        []
    "#]]);
}

#[test]
fn intersections() {
    check(expect![[r#"
        > ZADD a 1 x 2 y 3 z
        3
        > ZADD b 10 y 20 z 30 w
        3
        > ZINTER 2 a b
        ["y", "z"]
        > ZINTER 2 a b WITHSCORES
        ["y", "12", "z", "23"]
        > ZINTER 2 a b WEIGHTS 2 3 WITHSCORES
        ["y", "34", "z", "66"]
        > ZINTER 2 a b AGGREGATE MIN WITHSCORES
        ["y", "2", "z", "3"]
        > ZINTER 2 a nokey
        []
        > ZINTER 2 a a WITHSCORES
        ["x", "2", "y", "4", "z", "6"]
        > ZINTERCARD 2 a b
        2
        > ZINTERCARD 2 a b LIMIT 1
        1
        > ZINTERCARD 2 a b LIMIT 0
        2
        > ZINTERCARD 2 a b LIMIT 9
        2
        > ZINTERCARD 2 a b LIMIT -1
        -ERR LIMIT can't be negative
        > ZINTERCARD 2 a b LIMIT x
        -ERR LIMIT can't be negative
        > ZINTERCARD 2 a b WITHSCORES
        -ERR syntax error
        > ZINTERCARD 2 a b WEIGHTS 1 1
        -ERR syntax error
        > ZINTERCARD 1 nokey
        0
        > ZINTERSTORE d 2 a b
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["y", "12", "z", "23"]
        > ZINTERSTORE d 2 a nokey
        0
        > EXISTS d
        0
        > ZINTERSTORE a 1 a WEIGHTS -1
        3
        > ZRANGE a 0 -1 WITHSCORES
        ["z", "-3", "y", "-2", "x", "-1"]
    "#]]);
}

#[test]
fn differences() {
    check(expect![[r#"
        > ZADD a 1 x 2 y 3 z
        3
        > ZADD b 10 y
        1
        > ZADD c 10 z 9 q
        2
        > ZDIFF 1 a
        ["x", "y", "z"]
        > ZDIFF 2 a b WITHSCORES
        ["x", "1", "z", "3"]
        > ZDIFF 3 a b c
        ["x"]
        > ZDIFF 2 a a
        []
        > ZDIFF 2 nokey a
        []
        > ZDIFF 2 a nokey
        ["x", "y", "z"]
        > ZDIFF 2 a b WEIGHTS 1 1
        -ERR syntax error
        > ZDIFF 2 a b AGGREGATE MIN
        -ERR syntax error
        > ZDIFFSTORE d 2 a b
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["x", "1", "z", "3"]
        > ZDIFFSTORE d 2 a b WITHSCORES
        -ERR syntax error
        > ZDIFFSTORE a 3 a b c
        1
        > ZRANGE a 0 -1 WITHSCORES
        ["x", "1"]
        > ZDIFFSTORE a 2 a a
        0
        > EXISTS a
        0
        @resp3
        > ZDIFF 1 b WITHSCORES
        [["y", ,10]]
    "#]]);
}

#[test]
fn infinities_and_weights() {
    check(expect![[r#"
        > ZADD a inf x -inf y 0 z
        3
        > ZADD b -inf x inf y 1 z
        3
        > ZUNION 2 a b WITHSCORES
        ["x", "0", "y", "0", "z", "1"]
        > ZINTER 2 a b WITHSCORES
        ["x", "0", "y", "0", "z", "1"]
        > ZUNION 1 a WEIGHTS 0 WITHSCORES
        ["x", "0", "y", "0", "z", "0"]
        > ZINTER 1 a WEIGHTS 0 WITHSCORES
        ["x", "0", "y", "0", "z", "0"]
        > ZUNION 2 a b WEIGHTS 0 inf WITHSCORES
        ["x", "-inf", "y", "inf", "z", "inf"]
        > ZINTER 2 a b WEIGHTS 0 0 AGGREGATE MIN WITHSCORES
        ["x", "0", "y", "0", "z", "0"]
        > ZUNION 2 a b WEIGHTS 1 nan
        -ERR weight value is not a float
        > ZUNION 2 a b WEIGHTS 1 x
        -ERR weight value is not a float
    "#]]);
}

#[test]
fn arguments() {
    check(expect![[r#"
        > ZADD a 1 x
        1
        > ZUNION 0 a
        -ERR at least 1 input key is needed for 'zunion' command
        > ZUNION -1 a
        -ERR at least 1 input key is needed for 'zunion' command
        > ZUNION x a
        -ERR value is not an integer or out of range
        > ZUNION 2 a
        -ERR syntax error
        > ZUNION 9223372036854775807 a
        -ERR syntax error
        > ZUNIONSTORE d 0 a
        -ERR at least 1 input key is needed for 'zunionstore' command
        > ZUNIONSTORE d x a
        -ERR value is not an integer or out of range
        > ZUNIONSTORE d 2 a
        -ERR syntax error
        > ZINTERSTORE d 0 a
        -ERR at least 1 input key is needed for 'zinterstore' command
        > ZDIFFSTORE d 0 a
        -ERR at least 1 input key is needed for 'zdiffstore' command
        > ZDIFF 0 a
        -ERR at least 1 input key is needed for 'zdiff' command
        > ZINTERCARD 0 a
        -ERR at least 1 input key is needed for 'zintercard' command
        > ZINTERCARD x a
        -ERR value is not an integer or out of range
        > ZUNION 1 a odd
        -ERR syntax error
        > ZUNION 1 a WEIGHTS
        -ERR syntax error
        > ZUNION 1 a WEIGHTS 1 2
        -ERR syntax error
        > ZUNION 1 a AGGREGATE
        -ERR syntax error
        > ZUNION 1 a AGGREGATE odd
        -ERR syntax error
        > ZUNIONSTORE d 1 a WITHSCORES
        -ERR syntax error
        > ZUNION 1 a WITHSCORES WITHSCORES
        ["x", "1"]
        > ZUNION 1 a WEIGHTS 2 WEIGHTS 3 WITHSCORES
        ["x", "3"]
        > SET s x
        +OK
        > ZUNION 2 a s odd
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZUNIONSTORE s 1 a
        1
        > TYPE s
        +zset
        > ZINTER
        -ERR wrong number of arguments for 'zinter' command
        > ZUNION 1
        -ERR wrong number of arguments for 'zunion' command
    "#]]);
}

#[test]
fn sets_have_the_score_1() {
    check(expect![[r#"
        > SADD s x 7 y
        3
        > SADD ints 1 2 7
        3
        > ZADD z 10 x 20 7 30 w
        3
        > ZUNION 3 s ints z WITHSCORES
        ["1", "1", "2", "1", "y", "1", "x", "11", "7", "22", "w", "30"]
        > ZINTER 2 s z WITHSCORES
        ["x", "11", "7", "21"]
        > ZINTER 2 z ints WITHSCORES
        ["7", "21"]
        > ZINTER 2 s ints WEIGHTS 2 3 WITHSCORES
        ["7", "5"]
        > ZDIFF 2 z s WITHSCORES
        ["w", "30"]
        > ZDIFF 2 s z WITHSCORES
        ["y", "1"]
        > ZDIFF 2 ints z
        ["1", "2"]
        > ZINTERCARD 3 s ints z
        1
        > ZUNIONSTORE s 2 s z
        4
        > TYPE s
        +zset
        > ZRANGE s 0 -1 WITHSCORES
        ["y", "1", "x", "11", "7", "21", "w", "30"]
        > ZADD ints 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANGESTORE d ints 0 -1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

//! `ZADD`, `ZINCRBY` and `ZREM`

use expect_test::expect;

use crate::check::check;

#[test]
fn scores_and_their_text() {
    check(expect![[r#"
        > ZADD z 1 a 2.5 b -3 c 1e10 d inf e -inf f 0.1 g -0 h 1e300 i 5e-324 j 123456789.123456789 k +5 m
        12
        > ZRANGE z 0 -1 WITHSCORES
        ["f", "-inf", "c", "-3", "h", "0", "j", "5e-324", "g", "0.1", "a", "1", "b", "2.5", "m", "5", "k", "1.2345678912345679e+8", "d", "10000000000", "i", "1e+300", "e", "inf"]
        @resp3
        > ZRANGE z 0 -1 WITHSCORES
        [["f", ,-inf], ["c", ,-3], ["h", ,0], ["j", ,0.000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000005], ["g", ,0.1], ["a", ,1], ["b", ,2.5], ["m", ,5], ["k", ,123456789.12345679], ["d", ,10000000000], ["i", ,1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000], ["e", ,inf]]
        > ZSCORE z g
        ,0.1
        > ZSCORE z e
        ,inf
        > ZSCORE z nobody
        _
        @inspect z
        listpack
    "#]]);
}

#[test]
fn invalid_scores() {
    check(expect![[r#"
        > ZADD z nan a
        -ERR value is not a valid float
        > ZADD z 1 a x b
        -ERR value is not a valid float
        > ZADD z "" a
        -ERR value is not a valid float
        > ZADD z " 1" a
        -ERR value is not a valid float
        > ZADD z 1e400 a
        -ERR value is not a valid float
        > ZADD z 1e-400 a
        -ERR value is not a valid float
        > ZADD z 1x a
        -ERR value is not a valid float
        @differs redis it accepts hexadecimal digits
        > ZADD z 0x10 a
        -ERR value is not a valid float
        @differs redis it accepts hexadecimal digits
        > EXISTS z
        0
        > ZADD z nx a
        -ERR syntax error
        > ZINCRBY z nan a
        -ERR value is not a valid float
        > ZINCRBY z nx a
        -ERR syntax error
        > ZINCRBY z x a
        -ERR value is not a valid float
        > ZINCRBY z 1
        -ERR wrong number of arguments for 'zincrby' command
        > ZADD z 1
        -ERR wrong number of arguments for 'zadd' command
        > ZADD z 1 a 2
        -ERR syntax error
        > ZADD
        -ERR wrong number of arguments for 'zadd' command
    "#]]);
}

#[test]
fn options() {
    check(expect![[r#"
        > ZADD z 1 a 2 b
        2
        > ZADD z NX 5 a 3 c
        1
        > ZSCORE z a
        "1"
        > ZADD z XX 5 a 9 new
        0
        > ZCARD z
        3
        > ZADD z XX CH 6 a 7 b 9 new
        2
        > ZADD z GT CH 1 a 8 b 1 d
        2
        > ZADD z LT CH 1 a 9 b 5 e
        2
        > ZADD z GT XX CH 100 a 100 f
        1
        > ZADD z CH 100 a
        0
        > ZADD z NX XX 1 a
        -ERR XX and NX options at the same time are not compatible
        > ZADD z NX GT 1 a
        -ERR GT, LT, and/or NX options at the same time are not compatible
        > ZADD z NX LT 1 a
        -ERR GT, LT, and/or NX options at the same time are not compatible
        > ZADD z GT LT 1 a
        -ERR GT, LT, and/or NX options at the same time are not compatible
        > ZADD z nx nx ch CH 1 z
        1
        > ZADD z NX
        -ERR wrong number of arguments for 'zadd' command
        > ZADD z XX NX a
        -ERR syntax error
        > ZRANGE z 0 -1 WITHSCORES
        ["d", "1", "z", "1", "c", "3", "e", "5", "b", "8", "a", "100"]
    "#]]);
}

#[test]
fn a_missing_key() {
    check(expect![[r#"
        > ZADD z XX 1 a
        0
        > EXISTS z
        0
        > ZADD z XX INCR 1 a
        $-1
        > ZADD z GT 1 a
        1
        > ZADD z2 LT 1 a
        1
        > ZADD z3 NX 1 a 2 a
        1
        > ZRANGE z3 0 -1 WITHSCORES
        ["a", "1"]
        > ZADD z4 1 a 2 a 3 a
        1
        > ZADD z5 CH 1 a 2 a 2 a
        2
        > ZRANGE z4 0 -1 WITHSCORES
        ["a", "3"]
    "#]]);
}

#[test]
fn incr() {
    check(expect![[r#"
        > ZADD z INCR 1.5 a
        "1.5"
        > ZADD z INCR 2 a
        "3.5"
        > ZADD z INCR 1 a 2 b
        -ERR INCR option supports a single increment-element pair
        > ZADD z NX INCR 1 a
        $-1
        > ZADD z XX INCR 1 b
        $-1
        > ZADD z GT INCR -1 a
        $-1
        > ZADD z LT INCR -1 a
        "2.5"
        > ZADD z INCR 0 a
        "2.5"
        > ZADD z GT INCR 0 a
        $-1
        @resp3
        > ZADD z INCR 1 a
        ,3.5
        > ZADD z NX INCR 1 a
        _
        > ZINCRBY z 0.25 a
        ,3.75
        > ZINCRBY z inf a
        ,inf
        > ZINCRBY z -inf a
        -ERR resulting score is not a number (NaN)
        > ZADD z INCR -inf a
        -ERR resulting score is not a number (NaN)
        > ZSCORE z a
        ,inf
        @resp2
        > ZINCRBY z 1 new
        "1"
        > ZINCRBY new 3 a
        "3"
        > ZINCRBY new 1e308 b
        "1e+308"
        > ZINCRBY new 1e308 b
        "inf"
    "#]]);
}

#[test]
fn wrong_types() {
    check(expect![[r#"
        > SET s x
        +OK
        > ZADD s 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZADD s x a
        -ERR value is not a valid float
        > ZADD s XX 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZINCRBY s 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZREM s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZREMRANGEBYRANK s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZREMRANGEBYRANK s x 1
        -ERR value is not an integer or out of range
        > ZSCORE s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZMSCORE s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANK s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZCARD s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZCOUNT s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZLEXCOUNT s - +
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANGE s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZPOPMIN s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZPOPMIN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZMPOP 1 s MIN
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANDMEMBER s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANDMEMBER s 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZUNION 1 s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZRANGESTORE d s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZUNIONSTORE d 1 s
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn minus_zero_is_zero() {
    check(expect![[r#"
        > ZADD z 0 a -0 b 0 c
        3
        > ZRANGE z 0 -1 WITHSCORES
        ["a", "0", "b", "0", "c", "0"]
        > ZADD z CH -0 a
        0
        > ZSCORE z a
        "0"
        > ZCOUNT z -0 0
        3
        > ZRANK z b
        1
        > ZINCRBY z -0 b
        "0"
        > ZADD z2 -0 a
        1
        > ZINCRBY z2 -0 a
        "0"
        > ZINCRBY z2 0 a
        "0"
    "#]]);
}

#[test]
fn encodings_by_length() {
    check(expect![[r#"
        > CONFIG SET zset-max-listpack-entries 3 zset-max-listpack-value 8
        +OK
        > ZADD z 1 a 2 b 3 c
        3
        @inspect z
        listpack
        > ZADD z 9 a
        0
        @inspect z
        listpack
        > ZADD z 4 d
        1
        @inspect z
        skiplist
        > ZREM z a b c
        3
        @inspect z
        skiplist
        > ZADD y 1 a 1 a 1 a 1 a
        1
        @inspect y
        skiplist
        > ZADD x 1 12345678
        1
        @inspect x
        listpack
        > ZADD x XX 1 123456789
        0
        @differs redis it accepts a longer member in a listpack
        @inspect x
        skiplist
        > ZADD w 1 123456789
        1
        @inspect w
        skiplist
        > CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64
        +OK
    "#]]);
}

#[test]
fn encodings_that_stay() {
    check(expect![[r#"
        > ZADD z 1 {x*64}
        1
        @inspect z
        listpack
        > ZADD z 1 {x*65}
        1
        @inspect z
        skiplist
        > ZREM z {x*65}
        1
        @inspect z
        skiplist
        > COPY z y
        1
        @inspect y
        skiplist
        > RENAME y x
        +OK
        @inspect x
        skiplist
        > ZRANGE x 0 -1
        ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
    "#]]);
}

#[test]
fn removing() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 3 c
        3
        > ZREM z a nobody a
        1
        > ZREM z nobody
        0
        > ZREM nokey a
        0
        > ZRANGE z 0 -1
        ["b", "c"]
        > ZREM z b c
        2
        > EXISTS z
        0
        > ZREM z b
        0
        > ZREM z
        -ERR wrong number of arguments for 'zrem' command
    "#]]);
}

#[test]
fn any_bytes() {
    check(expect![[r#"
        > ZADD z 1 "a\x00b" 1 "" 1 "\xff" 1 "a\r\nb"
        4
        > ZRANGE z 0 -1
        ["", "a\x00b", "a\r\nb", "\xff"]
        > ZSCORE z ""
        "1"
        > ZRANK z "\xff"
        3
        > ZREM z "a\x00b"
        1
        > ZCARD z
        3
    "#]]);
}

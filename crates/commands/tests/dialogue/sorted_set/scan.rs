//! `ZSCAN`

use expect_test::expect;

use crate::check::check;

#[test]
fn listpacks() {
    check(expect![[r#"
        > ZADD z 1 a 2.5 b -0 c 0.1 d 1e300 e inf f
        6
        > ZSCAN z 0
        ["0", ["c", "0", "d", "0.1", "a", "1", "b", "2.5", "e", "1e+300", "f", "inf"]]
        > ZSCAN z 0 MATCH [ab]
        ["0", ["a", "1", "b", "2.5"]]
        > ZSCAN z 0 COUNT 1
        ["0", ["c", "0", "d", "0.1", "a", "1", "b", "2.5", "e", "1e+300", "f", "inf"]]
        @differs redis it has no such option
        > ZSCAN z 0 NOSCORES
        ["0", ["c", "d", "a", "b", "e", "f"]]
        @differs redis it has no such option
        > ZSCAN z 0 MATCH a NOSCORES COUNT 2
        ["0", ["a"]]
        > ZSCAN z 4294967296 MATCH a
        ["0", ["a", "1"]]
        > ZSCAN z 18446744073709551615 MATCH a
        ["0", ["a", "1"]]
        > ZSCAN z x
        -ERR invalid cursor
        > ZSCAN nokey 0
        ["0", []]
        > ZSCAN nokey x
        -ERR invalid cursor
        > ZSCAN z 0 COUNT 0
        -ERR syntax error
        > ZSCAN z 0 COUNT x
        -ERR value is not an integer or out of range
        > ZSCAN z 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        > ZSCAN z 0 odd
        -ERR syntax error
        > ZSCAN z 0 TYPE zset
        -ERR syntax error
        > ZSCAN z
        -ERR wrong number of arguments for 'zscan' command
        > SET s x
        +OK
        > ZSCAN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > ZSCAN z 0 MATCH b
        ["0", ["b", "2.5"]]
    "#]]);
}

#[test]
fn skiplists_show_17_digits() {
    check(expect![[r#"
        > ZADD z 0.1 {x*65}
        1
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "0.10000000000000001"]]
        > ZADD z 1e300 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "1.0000000000000001e+300"]]
        > ZADD z 1e16 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "10000000000000000"]]
        > ZADD z 1e17 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "1e+17"]]
        > ZADD z 123456.789 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "123456.789"]]
        > ZADD z -0.0001 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "-0.0001"]]
        > ZADD z 0.00001234 {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "1.234e-05"]]
        > ZADD z -inf {x*65}
        0
        > ZSCAN z 0
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "-inf"]]
        > ZADD z -3 {x*65}
        0
        @differs redis it has no such option
        > ZSCAN z 0 NOSCORES
        ["0", ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]]
    "#]]);
}

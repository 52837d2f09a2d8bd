//! `SSCAN`, and `SCAN` with `TYPE set`

use expect_test::expect;

use crate::check::check;

#[test]
fn small_sets_are_scanned_at_once() {
    check(expect![[r#"
        > SADD s a b c
        3
        > SSCAN s 0
        ["0", ["a", "b", "c"]]
        > SSCAN s 0 COUNT 1
        ["0", ["a", "b", "c"]]
        > SSCAN s 0 MATCH b*
        ["0", ["b"]]
        > SSCAN s 0 MATCH *
        ["0", ["a", "b", "c"]]
        > SSCAN s 5
        ["0", ["a", "b", "c"]]
        > SADD i 3 1 2
        3
        > SSCAN i 0
        ["0", ["1", "2", "3"]]
        > SSCAN i 0 MATCH 2
        ["0", ["2"]]
        > SSCAN missing 0
        ["0", []]
        > SSCAN missing 0 COUNT x
        ["0", []]
        > SSCAN i 0 count 2 match 1
        ["0", ["1"]]
        @resp3
        > SSCAN i 0
        ["0", ["1", "2", "3"]]
        > SSCAN missing 7
        ["0", []]
    "#]]);
}

#[test]
fn wrong_options() {
    check(expect![[r#"
        > SADD s a
        1
        > SSCAN s x
        -ERR invalid cursor
        > SSCAN s -1
        -ERR invalid cursor
        > SSCAN s 18446744073709551616
        -ERR invalid cursor
        > SSCAN s 0 COUNT
        -ERR syntax error
        > SSCAN s 0 COUNT 0
        -ERR syntax error
        > SSCAN s 0 COUNT -1
        -ERR syntax error
        > SSCAN s 0 COUNT x
        -ERR value is not an integer or out of range
        > SSCAN s 0 MATCH
        -ERR syntax error
        > SSCAN s 0 TYPE set
        -ERR syntax error
        > SSCAN s 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        @differs redis its error text differs
        > SSCAN s 0 NOSCORES
        -ERR NOSCORES option can only be used in ZSCAN
        > SSCAN s 0 x
        -ERR syntax error
        > SET k v
        +OK
        > SSCAN k 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SSCAN k 0 x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SSCAN k x
        -ERR invalid cursor
        > SSCAN s
        -ERR wrong number of arguments for 'sscan' command
    "#]]);
}

#[test]
fn a_hashtable_with_one_member() {
    check(expect![[r#"
        > SADD s {x*65}
        1
        > SADD s a
        1
        > SREM s {x*65}
        1
        > OBJECT ENCODING s
        "hashtable"
        > SSCAN s 0 COUNT 100
        ["0", ["a"]]
        > SSCAN s 0 MATCH x COUNT 100
        ["0", []]
    "#]]);
}

#[test]
fn keys_by_type() {
    check(expect![[r#"
        > SADD s a
        1
        > SET k v
        +OK
        > SCAN 0 TYPE set COUNT 100000
        ["0", ["s"]]
        > SCAN 0 TYPE string COUNT 100000
        ["0", ["k"]]
        > SCAN 0 TYPE SET COUNT 100000
        ["0", ["s"]]
        > SCAN 0 TYPE list COUNT 100000
        ["0", []]
        @differs redis it accepts any type name
        > SCAN 0 TYPE wrong
        -ERR unknown type name 'wrong'
    "#]]);
}

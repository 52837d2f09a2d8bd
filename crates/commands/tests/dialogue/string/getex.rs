//! `GETEX`

use expect_test::expect;

use crate::check::check;

#[test]
fn getex_without_options_is_get() {
    check(expect![[r#"
        > GETEX k
        $-1
        > SET k v EX 100
        +OK
        > GETEX k
        "v"
        @inspect k
        embstr, 100000 ms
        > GETEX
        -ERR wrong number of arguments for 'getex' command
        @resp3
        > GETEX nothing
        _
        > GETEX k
        "v"
    "#]]);
}

#[test]
fn options() {
    check(expect![[r#"
        > SET k v
        +OK
        > GETEX k EX 100
        "v"
        @inspect k
        embstr, 100000 ms
        > GETEX k PX 5000
        "v"
        @inspect k
        embstr, 5000 ms
        > GETEX k persist
        "v"
        @inspect k
        embstr
        > GETEX k PERSIST
        "v"
        > GETEX k EXAT 33177117420
        "v"
        > GETEX k PXAT 33177117420000
        "v"
        > GETEX k EX 100 EX 200
        "v"
        @inspect k
        embstr, 200000 ms
        > GETEX k PERSIST PERSIST
        "v"
        @inspect k
        embstr
        > GETEX nothing EX 100
        $-1
        @inspect nothing
        no key
    "#]]);
}

#[test]
fn a_time_in_the_past_deletes() {
    check(expect![[r#"
        > SET k v
        +OK
        > GETEX k EXAT 1
        "v"
        @inspect k
        no key
        > SET k v EX 100
        +OK
        > GETEX k PXAT 1000
        "v"
        @inspect k
        no key
        > GETEX k PXAT 1000
        $-1
        > SET k v PX 30
        +OK
        @wait 60
        > GETEX k EX 100
        $-1
        @inspect k
        no key
    "#]]);
}

#[test]
fn invalid_options() {
    check(expect![[r#"
        > SET k v
        +OK
        > GETEX k EX
        -ERR syntax error
        > GETEX k EX 0
        -ERR invalid expire time in 'getex' command
        > GETEX k EX -1
        -ERR invalid expire time in 'getex' command
        > GETEX k PX abc
        -ERR value is not an integer or out of range
        > GETEX k EX 9223372036854775807
        -ERR invalid expire time in 'getex' command
        > GETEX k PXAT 0
        -ERR invalid expire time in 'getex' command
        > GETEX k KEEPTTL
        -ERR syntax error
        > GETEX k NX
        -ERR syntax error
        > GETEX k GET
        -ERR syntax error
        > GETEX k IFEQ v
        -ERR syntax error
        > GETEX k EX 10 PERSIST
        -ERR syntax error
        > GETEX k PERSIST EX 10
        -ERR syntax error
        > GETEX k EX 10 PX 10
        -ERR syntax error
        > GETEX k PERSIST EX abc
        -ERR syntax error
        @inspect k
        embstr
    "#]]);
}

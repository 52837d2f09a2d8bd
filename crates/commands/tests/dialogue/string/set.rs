//! `SET`, `SETNX`, `SETEX` and `PSETEX`

use expect_test::expect;

use crate::check::check;

#[test]
fn encodings() {
    check(expect![[r#"
        > SET k 12345
        +OK
        @inspect k
        int
        > SET k -9223372036854775808
        +OK
        @inspect k
        int
        > SET k 9223372036854775807
        +OK
        @inspect k
        int
        > SET k 9223372036854775808
        +OK
        @inspect k
        embstr
        > SET k 0012
        +OK
        @inspect k
        embstr
        > SET k +1
        +OK
        @inspect k
        embstr
        > SET k -0
        +OK
        @inspect k
        embstr
        > SET k 1.0
        +OK
        @inspect k
        embstr
        > SET k ""
        +OK
        @inspect k
        embstr
        > SET k " 1"
        +OK
        @inspect k
        embstr
        > SET k {x*44}
        +OK
        @differs redis-8.6 it embeds shorter strings only
        @inspect k
        embstr
        > SET k {x*2000}
        +OK
        @inspect k
        raw
        > SET k short
        +OK
        @inspect k
        embstr
    "#]]);
}

#[test]
fn nx_and_xx() {
    check(expect![[r#"
        > SET k 1 XX
        $-1
        > SET k 1 NX
        +OK
        > SET k 2 nx
        $-1
        > GET k
        "1"
        > SET k 3 xX
        +OK
        > GET k
        "3"
        > SET k 4 XX XX
        +OK
        > GET k
        "4"
        > SET k 5 NX XX
        -ERR syntax error
        > SET k 5 XX NX
        -ERR syntax error
        > SET k 5 NX NX
        $-1
        > GET k
        "4"
        @resp3
        > SET k 6 NX
        _
    "#]]);
}

#[test]
fn get_returns_the_old_value() {
    check(expect![[r#"
        > SET k v GET
        $-1
        > SET k w GET
        "v"
        > SET k 12 GET XX
        "w"
        > SET k 13 GET NX
        "12"
        > GET k
        "12"
        > SET new 1 GET XX
        $-1
        > GET new
        $-1
        > SET new 1 GET NX
        $-1
        > GET new
        "1"
        > SET new 2 GET GET EX 100 GET
        "1"
        @inspect new
        int, 100000 ms
        > SET new 3 GET EXAT 1
        "2"
        @inspect new
        no key
        @resp3
        > SET other v GET
        _
        > SET other w GET
        "v"
    "#]]);
}

#[test]
fn expiry() {
    check(expect![[r#"
        > SET k v EX 100
        +OK
        @inspect k
        embstr, 100000 ms
        > SET k v PX 5000
        +OK
        @inspect k
        embstr, 5000 ms
        > SET k w
        +OK
        @inspect k
        embstr
        > SET k v ex 100
        +OK
        > SET k w KEEPTTL
        +OK
        @inspect k
        embstr, 100000 ms
        > GET k
        "w"
        > SET other v KEEPTTL
        +OK
        @inspect other
        embstr
        > SET k v EX 100 EX 200
        +OK
        @inspect k
        embstr, 200000 ms
        > SET k v PX 100 EX 200
        -ERR syntax error
        > SET k v EX 100 PX 200
        -ERR syntax error
        > SET k v EX 100 KEEPTTL
        -ERR syntax error
        > SET k v KEEPTTL EX 100
        -ERR syntax error
        > SET k v KEEPTTL KEEPTTL
        +OK
        @inspect k
        embstr, 200000 ms
        > SET k v EX 100 EXAT 33177117420
        -ERR syntax error
        > SET k v PERSIST
        -ERR syntax error
        > SET k v EXAT 33177117420
        +OK
        > SET k v PXAT 33177117420000
        +OK
        > SET k v EX
        -ERR syntax error
        > SET k v PXAT
        -ERR syntax error
    "#]]);
}

#[test]
fn expired_strings_are_absent() {
    check(expect![[r#"
        > SET k v PX 30
        +OK
        > GET k
        "v"
        @wait 60
        > GET k
        $-1
        @inspect k
        no key
        > SET k v PX 30
        +OK
        @wait 60
        > SET k w KEEPTTL
        +OK
        @inspect k
        embstr
        > GET k
        "w"
        > SET k v PX 30
        +OK
        @wait 60
        > SET k w XX
        $-1
        > SET k v PX 30
        +OK
        @wait 60
        > SET k w NX
        +OK
        > SET k v PX 30
        +OK
        @wait 60
        > SET k w GET
        $-1
        > SET k v PX 30
        +OK
        @wait 60
        > SET k w GET XX
        $-1
        > GET k
        $-1
        > SET k v PX 30
        +OK
        @wait 60
        > SETNX k w
        1
        > SET k v PX 30
        +OK
        @wait 60
        > GETSET k w
        $-1
        > SET k v PX 30
        +OK
        @wait 60
        > GETDEL k
        $-1
    "#]]);
}

#[test]
fn invalid_expiry() {
    check(expect![[r#"
        > SET k v EX 0
        -ERR invalid expire time in 'set' command
        > SET k v EX -1
        -ERR invalid expire time in 'set' command
        > SET k v PX 0
        -ERR invalid expire time in 'set' command
        > SET k v EXAT 0
        -ERR invalid expire time in 'set' command
        > SET k v PXAT -5
        -ERR invalid expire time in 'set' command
        > SET k v EX abc
        -ERR value is not an integer or out of range
        > SET k v EX 1.5
        -ERR value is not an integer or out of range
        > SET k v EX " 1"
        -ERR value is not an integer or out of range
        > SET k v EX 01
        -ERR value is not an integer or out of range
        > SET k v EX 9223372036854775807
        -ERR invalid expire time in 'set' command
        > SET k v EX 9223372036854775808
        -ERR value is not an integer or out of range
        > SET k v EX 9223372036854775
        -ERR invalid expire time in 'set' command
        > SET k v EX 9223372036854776
        -ERR invalid expire time in 'set' command
        > SET k v PX 9223372036854775807
        -ERR invalid expire time in 'set' command
        > SET k v EXAT 9223372036854775807
        -ERR invalid expire time in 'set' command
        > SET k v EXAT 9223372036854775
        +OK
        @inspect gone
        no key
        > SET k2 v EX abc NX bad
        -ERR syntax error
        > GET k2
        $-1
    "#]]);
}

#[test]
fn past_time_deletes() {
    check(expect![[r#"
        > SET k v EXAT 1
        +OK
        @inspect k
        no key
        > SET k v
        +OK
        > SET k w PXAT 1000
        +OK
        @inspect k
        no key
        > SET k v
        +OK
        > SET k w NX EXAT 1
        $-1
        > GET k
        "v"
        > SET k w XX EXAT 1
        +OK
        > GET k
        $-1
    "#]]);
}

#[test]
fn a_past_time_is_kept_while_data_is_imported() {
    check(expect![[r#"
        @valkey Redis has no import-mode
        @config import-mode yes
        > SET k v EXAT 1
        +OK
        > DBSIZE
        1
        > GET k
        $-1
        > SET other v
        +OK
        > GETEX other PXAT 1
        "v"
        > EXISTS other
        0
        > DBSIZE
        2
    "#]]);
}

#[test]
fn invalid_requests() {
    check(expect![[r#"
        > SET
        -ERR wrong number of arguments for 'set' command
        > SET k
        -ERR wrong number of arguments for 'set' command
        > SET k v bad
        -ERR syntax error
        > SET k v ""
        -ERR syntax error
        > SET k v NX bad
        -ERR syntax error
        > SET k v GETX
        -ERR syntax error
        > SET k v abcdefghijklmnop
        -ERR syntax error
        > SET k v EX 10 XX NX
        -ERR syntax error
        > GET k
        $-1
    "#]]);
}

#[test]
fn ifeq() {
    check(expect![[r#"
        @valkey Redis accepts IFEQ since 8.4, with other errors
        > SET k v IFEQ x
        $-1
        > SET k v
        +OK
        > SET k w IFEQ x
        $-1
        > GET k
        "v"
        > SET k w ifeq v
        +OK
        > GET k
        "w"
        > SET k 12
        +OK
        > SET k 13 IFEQ 12
        +OK
        > GET k
        "13"
        > SET k 14 IFEQ 013
        $-1
        > GET k
        "13"
        > SET k 14 IFEQ 12 GET
        "13"
        > GET k
        "13"
        > SET k 14 IFEQ 13 GET
        "13"
        > GET k
        "14"
        > SET new 14 IFEQ 13 GET
        $-1
        > GET new
        $-1
        > SET k 15 IFEQ 14 EX 100
        +OK
        @inspect k
        int, 100000 ms
        > SET k 16 IFEQ 15 KEEPTTL
        +OK
        @inspect k
        int, 100000 ms
        > SET k 17 IFEQ 16 EXAT 1
        +OK
        @inspect k
        no key
        > SET k v IFEQ a NX
        -ERR syntax error
        > SET k v NX IFEQ a
        -ERR syntax error
        > SET k v IFEQ a XX
        -ERR syntax error
        > SET k v IFEQ a IFEQ a
        -ERR syntax error
        > SET k v IFEQ
        -ERR syntax error
        @resp3
        > SET k v IFEQ x
        _
    "#]]);
}

#[test]
fn other_comparisons() {
    check(expect![[r#"
        @redis-8.4 Valkey has none of them
        # Redis has them since 8.4, Valkey has not.
        > SET k v IFNE x
        +OK
        > SET k w IFNE v
        $-1
        > GET k
        "v"
        > SET k x ifne v GET
        "v"
        > GET k
        "v"
        > SET k y IFDEQ 0000000000000000
        $-1
        > DIGEST k
        "f7042be43fb80714"
        > SET k y IFDNE f7042be43fb80714
        $-1
        > SET k y IFDEQ F7042BE43FB80714
        +OK
        > GET k
        "y"
        > SET k z IFDNE f7042be43fb80714
        +OK
        > GET k
        "z"
        > SET new v IFDEQ 0000000000000000
        $-1
        > GET new
        $-1
        > SET new v IFDNE 0000000000000000
        +OK
        > GET new
        "v"
        > SET new v IFDNE 123
        -ERR must be exactly 16 hexadecimal characters
        > SET new v IFDEQ 00000000000000000
        -ERR must be exactly 16 hexadecimal characters
        > SET new v IFNE a IFEQ b
        -ERR syntax error
        @differs redis-8.6 it accepts NX and XX after a comparison, but not before it
        > SET new v IFDNE a XX
        -ERR syntax error
        > SET new v IFDNE
        -ERR syntax error
    "#]]);
}

#[test]
fn setnx() {
    check(expect![[r#"
        > SETNX k 1
        1
        > SETNX k 2
        0
        > GET k
        "1"
        @inspect k
        int
        > SETNX k
        -ERR wrong number of arguments for 'setnx' command
        > SETNX k 1 2
        -ERR wrong number of arguments for 'setnx' command
    "#]]);
}

#[test]
fn setex_and_psetex() {
    check(expect![[r#"
        > SETEX k 100 v
        +OK
        @inspect k
        embstr, 100000 ms
        > PSETEX k 5000 12
        +OK
        @inspect k
        int, 5000 ms
        > GET k
        "12"
        > SETEX k 0 v
        -ERR invalid expire time in 'setex' command
        > SETEX k -10 v
        -ERR invalid expire time in 'setex' command
        > PSETEX k 0 v
        -ERR invalid expire time in 'psetex' command
        > PSETEX k -1 v
        -ERR invalid expire time in 'psetex' command
        > SETEX k abc v
        -ERR value is not an integer or out of range
        > SETEX k 9223372036854776 v
        -ERR invalid expire time in 'setex' command
        > SETEX k 9223372036854770 v
        -ERR invalid expire time in 'setex' command
        > PSETEX k 9223372036854770000 v
        -ERR invalid expire time in 'psetex' command
        > PSETEX k 9223372036854775807 v
        -ERR invalid expire time in 'psetex' command
        > SETEX k 100
        -ERR wrong number of arguments for 'setex' command
        > PSETEX k 100 v x
        -ERR wrong number of arguments for 'psetex' command
        @inspect k
        int, 5000 ms
    "#]]);
}

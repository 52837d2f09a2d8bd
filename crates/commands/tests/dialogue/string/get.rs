//! `GET`, `GETDEL`, `GETSET` and `STRLEN`

use expect_test::expect;

use crate::check::check;

#[test]
fn a_value_or_null() {
    check(expect![[r#"
        > GET k
        $-1
        > SET k v
        +OK
        > get k
        "v"
        > SET k 12
        +OK
        > GET k
        "12"
        > SET k ""
        +OK
        > GET k
        ""
        > SET k "\x00\r\n\xff"
        +OK
        > GET k
        "\x00\r\n\xff"
        > SET "\x00bin\xffary" v
        +OK
        > GET "\x00bin\xffary"
        "v"
        > GET "\x00bin\xff"
        $-1
        > SET "" "empty key"
        +OK
        > GET ""
        "empty key"
        > SET k {abcd*250000}
        +OK
        > GET k
        "abcdabcdabcdabcdabcd"...(1000000)
        > GET
        -ERR wrong number of arguments for 'get' command
        > GET a b
        -ERR wrong number of arguments for 'get' command
        @resp3
        > GET nothing
        _
        > GET k
        "abcdabcdabcdabcdabcd"...(1000000)
    "#]]);
}

#[test]
fn getdel_deletes_the_key() {
    check(expect![[r#"
        > GETDEL k
        $-1
        > SET k v
        +OK
        > GETDEL k
        "v"
        > GET k
        $-1
        > SET k 12 EX 100
        +OK
        > GETDEL k
        "12"
        @inspect k
        no key
        > GETDEL
        -ERR wrong number of arguments for 'getdel' command
        > GETDEL a b
        -ERR wrong number of arguments for 'getdel' command
        @resp3
        > GETDEL k
        _
    "#]]);
}

#[test]
fn getset_clears_the_expiry() {
    check(expect![[r#"
        > GETSET k v
        $-1
        > GETSET k 12
        "v"
        @inspect k
        int
        > SET k v EX 100
        +OK
        > GETSET k w
        "v"
        @inspect k
        embstr
        > GET k
        "w"
        > GETSET k
        -ERR wrong number of arguments for 'getset' command
        @resp3
        > GETSET new v
        _
    "#]]);
}

#[test]
fn strlen_counts_bytes() {
    check(expect![[r#"
        > STRLEN k
        0
        > SET k -9223372036854775808
        +OK
        @inspect k
        int
        > STRLEN k
        20
        > SET k 0
        +OK
        > STRLEN k
        1
        > SET k 100
        +OK
        > STRLEN k
        3
        > SET k "caf\xc3\xa9"
        +OK
        > STRLEN k
        5
        > SET k {x*5000}
        +OK
        > STRLEN k
        5000
        > STRLEN
        -ERR wrong number of arguments for 'strlen' command
        > STRLEN a b
        -ERR wrong number of arguments for 'strlen' command
    "#]]);
}

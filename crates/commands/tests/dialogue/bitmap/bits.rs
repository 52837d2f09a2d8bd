//! `SETBIT` and `GETBIT`

use expect_test::expect;

use crate::check::check;

#[test]
fn setbit_and_getbit() {
    check(expect![[r#"
        > GETBIT k 0
        0
        > SETBIT k 7 1
        0
        > GET k
        "\x01"
        > SETBIT k 7 1
        1
        > SETBIT k 7 0
        1
        > GET k
        "\x00"
        > SETBIT k 20 1
        0
        > GET k
        "\x00\x00\x08"
        > GETBIT k 20
        1
        > GETBIT k 21
        0
        > GETBIT k 100000
        0
        > SET k 1
        +OK
        > GETBIT k 2
        1
        > GETBIT k 3
        1
        > SETBIT k 6 1
        0
        > GET k
        "3"
        > OBJECT ENCODING k
        "raw"
        > SET k abc EX 100
        +OK
        > SETBIT k 40 1
        0
        > TTL k
        100
        > STRLEN k
        6
        > SET k {x*2000}
        +OK
        > SETBIT k 2 0
        1
        > SETBIT k 20000 1
        0
        > STRLEN k
        2501
        > GETBIT k 20000
        1
        > SET k v PX 30
        +OK
        @wait 60
        > SETBIT k 1 1
        0
        > GET k
        "@"
        > TTL k
        -1
        @resp3
        > SETBIT k 1 0
        1
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        > SETBIT k
        -ERR wrong number of arguments for 'setbit' command
        > SETBIT k 0
        -ERR wrong number of arguments for 'setbit' command
        > SETBIT k x 1
        -ERR bit offset is not an integer or out of range
        > SETBIT k -1 1
        -ERR bit offset is not an integer or out of range
        > SETBIT k 4294967296 1
        -ERR bit offset is not an integer or out of range
        > SETBIT k 9223372036854775807 1
        -ERR bit offset is not an integer or out of range
        > SETBIT k 1 2
        -ERR bit is not an integer or out of range
        > SETBIT k 1 -1
        -ERR bit is not an integer or out of range
        > SETBIT k 1 x
        -ERR bit is not an integer or out of range
        > SETBIT k x x
        -ERR bit offset is not an integer or out of range
        > SETBIT k #1 1
        -ERR bit offset is not an integer or out of range
        > SETBIT k 1 1 1
        -ERR wrong number of arguments for 'setbit' command
        > GETBIT k
        -ERR wrong number of arguments for 'getbit' command
        > GETBIT k x
        -ERR bit offset is not an integer or out of range
        > GETBIT k -1
        -ERR bit offset is not an integer or out of range
        > GETBIT k 4294967296
        -ERR bit offset is not an integer or out of range
        > GETBIT k #1
        -ERR bit offset is not an integer or out of range
        > EXISTS k
        0
        @config proto-max-bulk-len 1mb
        > SETBIT k 8388607 0
        0
        > SETBIT k 8388608 0
        -ERR bit offset is not an integer or out of range
        > GETBIT k 8388608
        -ERR bit offset is not an integer or out of range
    "#]]);
}

//! `GETRANGE`, `SUBSTR`, `SETRANGE` and `APPEND`

use expect_test::expect;

use crate::check::check;

#[test]
fn getrange() {
    check(expect![[r#"
        > GETRANGE k 0 -1
        ""
        > SET k "Hello World"
        +OK
        > GETRANGE k 0 3
        "Hell"
        > GETRANGE k 0 -1
        "Hello World"
        > GETRANGE k -4 -1
        "orld"
        > GETRANGE k 5 3
        ""
        > GETRANGE k 5 5000
        " World"
        > GETRANGE k -5000 10000
        "Hello World"
        > GETRANGE k 0 -100
        "H"
        > GETRANGE k 1 -100
        ""
        > GETRANGE k -100 -99
        "H"
        > GETRANGE k -100 -101
        ""
        > GETRANGE k 0 4294967297
        "Hello World"
        > GETRANGE k -9223372036854775808 9223372036854775807
        "Hello World"
        > SET k 1234
        +OK
        > GETRANGE k -3 -1
        "234"
        > GETRANGE k 3 5000
        "4"
        > SUBSTR k 1 2
        "23"
        > SET k ""
        +OK
        > GETRANGE k 0 0
        ""
        > GETRANGE k a 1
        -ERR value is not an integer or out of range
        > GETRANGE k 1 b
        -ERR value is not an integer or out of range
        > GETRANGE nothing a 1
        -ERR value is not an integer or out of range
        > GETRANGE k 1
        -ERR wrong number of arguments for 'getrange' command
        > SUBSTR k 1
        -ERR wrong number of arguments for 'substr' command
    "#]]);
}

#[test]
fn setrange() {
    check(expect![[r#"
        > SETRANGE k 0 ""
        0
        @inspect k
        no key
        > SETRANGE k 3 foo
        6
        > GET k
        "\x00\x00\x00foo"
        @inspect k
        raw
        > SET k foo
        +OK
        > SETRANGE k 0 b
        3
        > SETRANGE k 1 ""
        3
        > GET k
        "boo"
        @inspect k
        raw
        > SETRANGE k 6 bar
        9
        > GET k
        "boo\x00\x00\x00bar"
        > SET k 1234
        +OK
        > SETRANGE k 1 ""
        4
        @inspect k
        int
        > SETRANGE k 1 x
        4
        @inspect k
        raw
        > GET k
        "1x34"
        > SET k 1234 EX 100
        +OK
        > SETRANGE k 6 5
        7
        @inspect k
        raw, 100000 ms
        > GET k
        "1234\x00\x005"
        > SETRANGE k 2000 end
        2003
        > GET k
        "1234\x00\x005\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...(2003)
        @inspect k
        raw, 100000 ms
        > SETRANGE k 1 {y*3000}
        3001
        > STRLEN k
        3001
        > GETRANGE k 2998 -1
        "yyy"
        > SET k v PX 30
        +OK
        @wait 60
        > SETRANGE k 2 x
        3
        > GET k
        "\x00\x00x"
    "#]]);
}

#[test]
fn setrange_limits() {
    check(expect![[r#"
        > SETRANGE k -1 x
        -ERR offset is out of range
        > SETRANGE k abc x
        -ERR value is not an integer or out of range
        > SETRANGE k 9223372036854775807 x
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 9223372036854775808 x
        -ERR value is not an integer or out of range
        > SETRANGE k 536870912 x
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 536870908 world
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k -1 ""
        -ERR offset is out of range
        > SETRANGE k 9223372036854775807 ""
        0
        @inspect k
        no key
        @config proto-max-bulk-len 1048576
        > SETRANGE k 1048575 xy
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 1048575 x
        1048576
        > SETRANGE k 0
        -ERR wrong number of arguments for 'setrange' command
    "#]]);
}

#[test]
fn append() {
    check(expect![[r#"
        > APPEND k 12
        2
        @inspect k
        int
        > APPEND k 3
        3
        @inspect k
        raw
        > GET k
        "123"
        > APPEND k ""
        3
        > SET k 7
        +OK
        > APPEND k ""
        1
        @inspect k
        raw
        > SET k foo EX 100
        +OK
        > APPEND k bar
        6
        @inspect k
        raw, 100000 ms
        > APPEND new ""
        0
        @inspect new
        embstr
        > GET new
        ""
        > APPEND new "\x00\xff"
        2
        > GET new
        "\x00\xff"
        > APPEND new {x*1000}
        1002
        > APPEND new {x*1000}
        2002
        > APPEND new {x*1000}
        3002
        @inspect new
        raw
        > SET k v PX 30
        +OK
        @wait 60
        > APPEND k w
        1
        > GET k
        "w"
        @inspect k
        embstr
        > APPEND k
        -ERR wrong number of arguments for 'append' command
    "#]]);
}

#[test]
fn append_limits() {
    check(expect![[r#"
        @config proto-max-bulk-len 1048576
        > SET k {x*1048570}
        +OK
        > APPEND k 123456
        1048576
        > APPEND k 1
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > APPEND other {x*1048576}
        1048576
    "#]]);
}

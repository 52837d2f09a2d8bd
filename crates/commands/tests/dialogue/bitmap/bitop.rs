//! `BITOP`

use expect_test::expect;

use crate::check::check;

#[test]
fn of_valkey() {
    check(expect![[r#"
        > BITOP AND d nothing
        0
        > EXISTS d
        0
        > SET a "\xff\x0f\xaa"
        +OK
        > SET b "\x0f\xff"
        +OK
        > BITOP AND d a b
        3
        > GET d
        "\x0f\x0f\x00"
        > BITOP or d a b
        3
        > GET d
        "\xff\xff\xaa"
        > BITOP XOR d a b
        3
        > GET d
        "\xf0\xf0\xaa"
        > BITOP NOT d a
        3
        > GET d
        "\x00\xf0U"
        > BITOP AND d a nothing
        3
        > GET d
        "\x00\x00\x00"
        > BITOP OR d a nothing b
        3
        > GET d
        "\xff\xff\xaa"
        > BITOP XOR d a a
        3
        > GET d
        "\x00\x00\x00"
        > BITOP AND a a
        3
        > GET a
        "\xff\x0f\xaa"
        > BITOP OR d a
        3
        > OBJECT ENCODING d
        "raw"
        > SET d v EX 100
        +OK
        > BITOP NOT d b
        2
        > TTL d
        -1
        > SET i 12
        +OK
        > BITOP OR d i b
        2
        > GET d
        "?\xff"
        > BITOP OR d nothing
        0
        > EXISTS d
        0
        > SET gone v PX 30
        +OK
        @wait 60
        > BITOP OR d gone b
        2
        > GET d
        "\x0f\xff"
        > SET d v PX 30
        +OK
        @wait 60
        > BITOP OR d nothing
        0
        > SET big {x*1000}
        +OK
        > SET other {y*999}
        +OK
        > BITOP AND d big other b
        1000
        > STRLEN d
        1000
        > BITCOUNT d
        5
        > BITOP XOR d big other
        1000
        > GETRANGE d 990 -1
        "\x01\x01\x01\x01\x01\x01\x01\x01\x01x"
    "#]]);
}

#[test]
fn of_redis() {
    check(expect![[r#"
        @redis-8.2 Valkey has none of them
        # Redis has these since 8.2, Valkey has not.
        > SET a "\xf0\xff\x01"
        +OK
        > SET b "\xcc\x0f"
        +OK
        > SET c "\xaa"
        +OK
        > BITOP DIFF d a b c
        3
        > GET d
        "\x10\xf0\x01"
        > BITOP DIFF1 d a b c
        3
        > GET d
        "\x0e\x00\x00"
        > BITOP ANDOR d a b c
        3
        > GET d
        "\xe0\x0f\x00"
        > BITOP ONE d a b c
        3
        > GET d
        "\x16\xf0\x01"
        > BITOP one d a
        3
        > GET d
        "\xf0\xff\x01"
        > BITOP DIFF d a
        -ERR BITOP DIFF must be called with at least two source keys.
        > BITOP diff1 d a
        -ERR BITOP DIFF1 must be called with at least two source keys.
        > BITOP ANDOR d a
        -ERR BITOP ANDOR must be called with at least two source keys.
        > BITOP DIFF d nothing nothing
        0
        > EXISTS d
        0
        > BITOP DIFF d nothing a
        3
        > GET d
        "\x00\x00\x00"
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        > BITOP
        -ERR wrong number of arguments for 'bitop' command
        > BITOP AND
        -ERR wrong number of arguments for 'bitop' command
        > BITOP AND d
        -ERR wrong number of arguments for 'bitop' command
        > BITOP FOO d a
        -ERR syntax error
        > BITOP NOT d a b
        -ERR BITOP NOT must be called with a single source key.
        > BITOP "" d a
        -ERR syntax error
    "#]]);
}

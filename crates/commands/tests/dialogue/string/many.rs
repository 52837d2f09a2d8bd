//! `MGET`, `MSET`, `MSETNX` and `MSETEX`

use expect_test::expect;

use crate::check::check;

#[test]
fn mget() {
    check(expect![[r#"
        > MSET a 1 b two
        +OK
        > MGET a b
        ["1", "two"]
        > MGET a nothing b a
        ["1", $-1, "two", "1"]
        > MGET a
        ["1"]
        > MGET
        -ERR wrong number of arguments for 'mget' command
        > SET c v PX 30
        +OK
        @wait 60
        > MGET a c
        ["1", $-1]
        @resp3
        > MGET a nothing
        ["1", _]
    "#]]);
}

#[test]
fn mset() {
    check(expect![[r#"
        > MSET a 1 b 2 c {x*100}
        +OK
        > MGET a b c
        ["1", "2", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
        > SET a v EX 100
        +OK
        > MSET a w
        +OK
        @inspect a
        embstr
        > MSET a 1 a 2 b 3 a 4
        +OK
        > MGET a b
        ["4", "3"]
        > MSET a
        -ERR wrong number of arguments for 'mset' command
        > MSET a 1 b
        -ERR wrong number of arguments for 'mset' command
        > MSET "\x00" "\xff"
        +OK
        > MGET "\x00"
        ["\xff"]
    "#]]);
}

#[test]
fn msetnx() {
    check(expect![[r#"
        > MSETNX a 1 b 2
        1
        > MSETNX b 3 c 4
        0
        > MGET a b c
        ["1", "2", $-1]
        > MSETNX c 1 c 2
        1
        > GET c
        "2"
        > MSETNX d
        -ERR wrong number of arguments for 'msetnx' command
        > MSETNX d 1 e
        -ERR wrong number of arguments for 'msetnx' command
        > SET k v PX 30
        +OK
        @wait 60
        > MSETNX k w
        1
        > GET k
        "w"
    "#]]);
}

#[test]
fn msetex() {
    check(expect![[r#"
        @valkey Redis has it since 8.4, with other errors
        > MSETEX 1 a 1
        1
        @inspect a
        int
        > MSETEX 2 a 1 b 2 EX 100
        1
        @inspect a
        int, 100000 ms
        @inspect b
        int, 100000 ms
        > MSETEX 2 a 3 b 4 KEEPTTL
        1
        @inspect a
        int, 100000 ms
        > MGET a b
        ["3", "4"]
        > MSETEX 2 a 5 c 6 NX
        0
        > MSETEX 2 a 5 c 6 XX
        0
        > MGET a b c
        ["3", "4", $-1]
        > MSETEX 2 a 5 b 6 XX PX 5000
        1
        @inspect b
        int, 5000 ms
        > MSETEX 2 c 5 d 6 nx
        1
        > MSETEX 2 a 7 a 8
        1
        @inspect a
        int
        > GET a
        "8"
        > FLUSHALL
        +OK
        > MSETEX 2 c 1 d 2 EXAT 1
        1
        > DBSIZE
        2
        > MGET c d
        [$-1, $-1]
        > DBSIZE
        0
        > SET k v PX 30
        +OK
        @wait 60
        > MSETEX 1 k w XX
        0
        > MSETEX 1 k w NX
        1
    "#]]);
}

#[test]
fn msetex_invalid_requests() {
    check(expect![[r#"
        @valkey Redis has it since 8.4, with other errors
        > MSETEX 0 a 1
        -ERR invalid numkeys value or out of range
        > MSETEX -1 a 1
        -ERR invalid numkeys value or out of range
        > MSETEX abc a 1
        -ERR invalid numkeys value or out of range
        > MSETEX 2147483648 a 1
        -ERR invalid numkeys value or out of range
        > MSETEX 2147483647 a 1
        -ERR syntax error
        > MSETEX 9223372036854775807 a 1
        -ERR invalid numkeys value or out of range
        > MSETEX 2 a 1
        -ERR syntax error
        > MSETEX 2 a 1 b
        -ERR syntax error
        > MSETEX 1 a
        -ERR wrong number of arguments for 'msetex' command
        > MSETEX 1 a 1 b
        -ERR syntax error
        > MSETEX 1 a 1 b 2
        -ERR syntax error
        > MSETEX 1 a 1 EX
        -ERR syntax error
        > MSETEX 1 a 1 EX 0
        -ERR invalid expire time in 'msetex' command
        > MSETEX 1 a 1 EX abc
        -ERR value is not an integer or out of range
        > MSETEX 1 a 1 NX XX
        -ERR syntax error
        > MSETEX 1 a 1 PERSIST
        -ERR syntax error
        > MSETEX 1 a 1 GET
        -ERR syntax error
        > MSETEX 1 a 1 IFEQ 1
        -ERR syntax error
        > MSETEX 1 a 1 EX 10 KEEPTTL
        -ERR syntax error
        @inspect a
        no key
    "#]]);
}

//! `RENAME`, `RENAMENX`, `COPY` and `MOVE`

use expect_test::expect;

use crate::check::check;

#[test]
fn rename() {
    check(expect![[r#"
        > RENAME a b
        -ERR no such key
        > SET a 1
        +OK
        > RENAME a b
        +OK
        > EXISTS a
        0
        > GET b
        "1"
        > RENAME b b
        +OK
        > SET c other
        +OK
        > RENAME b c
        +OK
        > GET c
        "1"
        > OBJECT ENCODING c
        "int"
        > SET d {x*3000} EX 100
        +OK
        > RENAME d c
        +OK
        > STRLEN c
        3000
        > TTL c
        100
        > SET e v
        +OK
        > RENAME e c
        +OK
        > TTL c
        -1
        > SET a v PX 30
        +OK
        @wait 60
        > RENAME a b
        -ERR no such key
        > SET a v PX 30
        +OK
        > SET b w
        +OK
        @wait 60
        > RENAME b a
        +OK
        > GET a
        "w"
        > TTL a
        -1
        > RENAME a
        -ERR wrong number of arguments for 'rename' command
        > RENAME a b c
        -ERR wrong number of arguments for 'rename' command
        > DBSIZE
        2
    "#]]);
}

#[test]
fn renamenx() {
    check(expect![[r#"
        > RENAMENX a b
        -ERR no such key
        > SET a 1
        +OK
        > RENAMENX a b
        1
        > GET b
        "1"
        > RENAMENX b b
        0
        > SET c 2
        +OK
        > RENAMENX b c
        0
        > GET b
        "1"
        > GET c
        "2"
        > SET c v PX 30
        +OK
        @wait 60
        > RENAMENX b c
        1
        > GET c
        "1"
        > RENAMENX a
        -ERR wrong number of arguments for 'renamenx' command
        > DBSIZE
        1
    "#]]);
}

#[test]
fn copy() {
    check(expect![[r#"
        > COPY a b
        0
        > SET a v
        +OK
        > COPY a b
        1
        > GET b
        "v"
        > COPY a b
        0
        > SET a w EX 100
        +OK
        > COPY a b
        0
        > COPY a b REPLACE
        1
        > GET b
        "w"
        > TTL b
        100
        > SET i 12
        +OK
        > COPY i j
        1
        > OBJECT ENCODING j
        "int"
        > INCR j
        13
        > GET i
        "12"
        > SET big {x*3000}
        +OK
        > COPY big other
        1
        > APPEND other y
        3001
        > STRLEN big
        3000
        > STRLEN other
        3001
        > COPY a a
        -ERR source and destination objects are the same
        > COPY a a REPLACE
        -ERR source and destination objects are the same
        > COPY nothing nothing
        -ERR source and destination objects are the same
        > COPY a a DB 1
        1
        > COPY a b DB 1 REPLACE
        1
        > COPY a a DB 1
        0
        > COPY a a REPLACE DB 1 DB 0
        -ERR source and destination objects are the same
        > SET gone v PX 30
        +OK
        @wait 60
        > COPY gone x
        0
        > SET gone v PX 30
        +OK
        @wait 60
        > COPY a gone
        1
        > GET gone
        "w"
    "#]]);
}

#[test]
fn invalid_copies() {
    check(expect![[r#"
        > SET a v
        +OK
        > COPY a
        -ERR wrong number of arguments for 'copy' command
        > COPY a b x
        -ERR syntax error
        > COPY a b DB
        -ERR syntax error
        > COPY a b DB x
        -ERR value is not an integer or out of range
        > COPY a b DB 16
        -ERR DB index is out of range
        > COPY a b DB -1
        -ERR DB index is out of range
        > COPY a b DB 2147483648
        -ERR value is out of range, value must between -2147483648 and 2147483647
        > COPY a b DB 9223372036854775808
        -ERR value is not an integer or out of range
        > COPY a b REPLACE x
        -ERR syntax error
    "#]]);
}

#[test]
fn move_() {
    check(expect![[r#"
        > MOVE k 1
        0
        > SET k v EX 100
        +OK
        > MOVE k 1
        1
        > EXISTS k
        0
        > SET k w
        +OK
        > MOVE k 1
        0
        > GET k
        "w"
        > MOVE k 0
        -ERR source and destination objects are the same
        > MOVE nothing 0
        -ERR source and destination objects are the same
        > MOVE k x
        -ERR value is not an integer or out of range
        > MOVE k 16
        -ERR DB index is out of range
        > MOVE k -1
        -ERR DB index is out of range
        > MOVE k 2147483648
        -ERR value is out of range, value must between -2147483648 and 2147483647
        > MOVE k
        -ERR wrong number of arguments for 'move' command
        > SET gone v PX 30
        +OK
        @wait 60
        > MOVE gone 1
        0
        > MOVE k 1 2
        -ERR wrong number of arguments for 'move' command
    "#]]);
}

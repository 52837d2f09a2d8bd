//! `FLUSHDB`, `FLUSHALL`, `SWAPDB`, `WAIT` and `WAITAOF`

use expect_test::expect;

use crate::check::check;

#[test]
fn flush() {
    check(expect![[r#"
        > SET a 1
        +OK
        > COPY a a DB 1
        1
        > FLUSHDB
        +OK
        > DBSIZE
        0
        > MOVE a 1
        0
        > SET a 2
        +OK
        > MOVE a 1
        0
        > FLUSHALL
        +OK
        > SET a 2
        +OK
        > MOVE a 1
        1
        > SET a 3
        +OK
        > FLUSHDB ASYNC
        +OK
        > FLUSHALL async
        +OK
        > SET a 2
        +OK
        > MOVE a 1
        1
        > SET big {x*100000} EX 100
        +OK
        > FLUSHDB SYNC
        +OK
        > FLUSHALL sync
        +OK
        > DBSIZE
        0
        > FLUSHDB x
        -ERR syntax error
        > FLUSHDB ASYNC SYNC
        -ERR syntax error
        > FLUSHALL SYNC x
        -ERR syntax error
        > FLUSHALL ""
        -ERR syntax error
    "#]]);
}

#[test]
fn swapdb() {
    check(expect![[r#"
        > SET a 0 EX 100
        +OK
        > SWAPDB 0 1
        +OK
        > EXISTS a
        0
        > SET b 1
        +OK
        > SWAPDB 1 0
        +OK
        > GET a
        "0"
        > TTL a
        100
        > GET b
        $-1
        > SWAPDB 0 0
        +OK
        > GET a
        "0"
        > SWAPDB 2 3
        +OK
        > DBSIZE
        1
        > SWAPDB 0 16
        -ERR DB index is out of range
        > SWAPDB -1 0
        -ERR DB index is out of range
        > SWAPDB x 0
        -ERR invalid first DB index
        > SWAPDB 0 x
        -ERR invalid second DB index
        > SWAPDB 99999999999 0
        -ERR invalid first DB index
        > SWAPDB 0 99999999999
        -ERR invalid second DB index
        > SWAPDB 0
        -ERR wrong number of arguments for 'swapdb' command
        > SWAPDB 0 1 2
        -ERR wrong number of arguments for 'swapdb' command
    "#]]);
}

#[test]
fn wait() {
    check(expect![[r#"
        > WAIT 0 0
        0
        > WAIT 0 100
        0
        > WAIT -1 100
        0
        > WAIT x 0
        -ERR value is not an integer or out of range
        > WAIT 0 x
        -ERR timeout is not an integer or out of range
        > WAIT 0 -1
        -ERR timeout is negative
        > WAIT 0 9223372036854775807
        -ERR timeout is out of range
        > WAIT 0 9223372036854775808
        -ERR timeout is not an integer or out of range
        > WAIT 0
        -ERR wrong number of arguments for 'wait' command
        > WAITAOF 0 0 0
        [0, 0]
        > WAITAOF 0 0 100
        [0, 0]
        > WAITAOF 1 0 0
        -ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
        > WAITAOF 2 0 0
        -ERR value is out of range, value must between 0 and 1
        > WAITAOF -1 0 0
        -ERR value is out of range, value must between 0 and 1
        > WAITAOF x 0 0
        -ERR value is not an integer or out of range
        > WAITAOF 0 -1 0
        -ERR value is out of range, must be positive
        > WAITAOF 0 x 0
        -ERR value is out of range, must be positive
        > WAITAOF 0 0 -1
        -ERR timeout is negative
        > WAITAOF 0 0 x
        -ERR timeout is not an integer or out of range
        > WAITAOF 0 0
        -ERR wrong number of arguments for 'waitaof' command
    "#]]);
}

//! `BITCOUNT` and `BITPOS`

use expect_test::expect;

use crate::check::check;

#[test]
fn bitcount() {
    check(expect![[r#"
        @valkey Redis rejects a start without an end
        > BITCOUNT k
        0
        > BITCOUNT k 0 -1
        0
        > SET k foobar
        +OK
        > BITCOUNT k
        26
        > BITCOUNT k 0 0
        4
        > BITCOUNT k 1 1
        6
        > BITCOUNT k 1 1 BYTE
        6
        > BITCOUNT k 5 30 BIT
        17
        > BITCOUNT k 5 -5 bit
        23
        > BITCOUNT k 1
        22
        > BITCOUNT k -2
        7
        > BITCOUNT k 6
        0
        > BITCOUNT k 0 -1 BIT
        26
        > BITCOUNT k -1000 -999
        4
        > BITCOUNT k -999 -1000
        0
        > BITCOUNT k -1000 0
        4
        > BITCOUNT k 3 2
        0
        > BITCOUNT k 100 200
        0
        > BITCOUNT k 0 100 BIT
        26
        > BITCOUNT k 7 8 BIT
        0
        > BITCOUNT k 9223372036854775807
        0
        > BITCOUNT k -9223372036854775808 9223372036854775807
        26
        > BITCOUNT k -9223372036854775808 -9223372036854775808
        4
        > SET k 12
        +OK
        > BITCOUNT k
        6
        > SET k {abc*1000}
        +OK
        > BITCOUNT k
        10000
        > BITCOUNT k 3 -3
        9983
        > BITCOUNT k 3 -3 BIT
        9996
        > SET k ""
        +OK
        > BITCOUNT k
        0
        > BITCOUNT k 0 -1
        0
    "#]]);
}

#[test]
fn bitpos() {
    check(expect![[r#"
        > BITPOS k 0
        0
        > BITPOS k 1
        -1
        > BITPOS k 0 5
        0
        > BITPOS k 1 5 10
        -1
        > BITPOS k 0 5 10 BIT
        0
        > SET k "\xff\xf0\x00"
        +OK
        > BITPOS k 0
        12
        > BITPOS k 1
        0
        > BITPOS k 1 1
        8
        > BITPOS k 0 0
        12
        > BITPOS k 0 1
        12
        > BITPOS k 1 2
        -1
        > BITPOS k 0 0 0
        -1
        > BITPOS k 0 0 1
        12
        > BITPOS k 1 2 2
        -1
        > BITPOS k 0 7 15 BIT
        12
        > BITPOS k 1 7 15 BIT
        7
        > BITPOS k 0 7 11 BIT
        -1
        > BITPOS k 1 12 -1 BIT
        -1
        > BITPOS k 0 -1
        16
        > BITPOS k 0 2 1
        -1
        > BITPOS k 0 100
        -1
        > BITPOS k 0 100 200
        -1
        > SET k "\xff\xff\xff"
        +OK
        > BITPOS k 0
        24
        > BITPOS k 0 0
        24
        > BITPOS k 0 1
        24
        > BITPOS k 0 3
        -1
        > BITPOS k 0 0 -1
        -1
        > BITPOS k 0 0 -1 BIT
        -1
        > BITPOS k 0 0 100 BYTE
        -1
        > BITPOS k 1 23 23 BIT
        23
        > SET k ""
        +OK
        > BITPOS k 0
        -1
        > BITPOS k 1
        -1
        > BITPOS k 0 0
        -1
        > BITPOS k 0 0 -1
        -1
        > SET k {\x00*1}
        +OK
        > SET k 12
        +OK
        > BITPOS k 0
        0
        > BITPOS k 1
        2
        > SETRANGE z 500 "\x01"
        501
        > BITPOS z 1
        4007
        > BITPOS z 1 0 499
        -1
        > BITPOS z 1 3 -1 BIT
        4007
        > BITPOS z 1 4001 4007 BIT
        4007
        > BITPOS z 1 4001 4006 BIT
        -1
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        @valkey Redis rejects a start without an end
        > BITCOUNT
        -ERR wrong number of arguments for 'bitcount' command
        > BITCOUNT k x
        -ERR value is not an integer or out of range
        > BITCOUNT k 0 x
        -ERR value is not an integer or out of range
        > BITCOUNT k 0 1 x
        -ERR syntax error
        > BITCOUNT k x 1 x
        -ERR value is not an integer or out of range
        > BITCOUNT k 0 x x
        -ERR syntax error
        > BITCOUNT k 0 1 BIT x
        -ERR syntax error
        > BITCOUNT k 0 BIT
        -ERR value is not an integer or out of range
        > BITPOS k
        -ERR wrong number of arguments for 'bitpos' command
        > BITPOS k 2
        -ERR The bit argument must be 1 or 0.
        > BITPOS k -1
        -ERR The bit argument must be 1 or 0.
        > BITPOS k x
        -ERR value is not an integer or out of range
        > BITPOS k 1 x
        -ERR value is not an integer or out of range
        > BITPOS k 1 0 x
        -ERR value is not an integer or out of range
        > BITPOS k 1 0 1 x
        -ERR syntax error
        > BITPOS k 1 0 x x
        -ERR syntax error
        > BITPOS k 1 0 1 BIT x
        -ERR syntax error
        > BITPOS k 1 0 BIT
        -ERR value is not an integer or out of range
    "#]]);
}

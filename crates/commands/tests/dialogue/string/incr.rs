//! `INCR`, `DECR`, `INCRBY`, `DECRBY` and `INCRBYFLOAT`

use expect_test::expect;

use crate::check::check;

#[test]
fn integers() {
    check(expect![[r#"
        > INCR k
        1
        > INCR k
        2
        > DECR k
        1
        > INCRBY k 40
        41
        > DECRBY k 50
        -9
        @inspect k
        int
        > GET k
        "-9"
        > INCRBY k -5
        -14
        > DECRBY k -20
        6
        > DECR new
        -1
        > DECRBY other 5
        -5
        > SET k 100 EX 100
        +OK
        > INCR k
        101
        @inspect k
        int, 100000 ms
        > SET k 17179869184
        +OK
        > INCR k
        17179869185
        > INCRBY k 17179869184
        34359738369
        > SET k "10" PX 30
        +OK
        @wait 60
        > INCR k
        1
        @inspect k
        int
    "#]]);
}

#[test]
fn limits_of_integers() {
    check(expect![[r#"
        > SET k 9223372036854775807
        +OK
        > INCR k
        -ERR increment or decrement would overflow
        > GET k
        "9223372036854775807"
        > INCRBY k -1
        9223372036854775806
        > INCRBY k 2
        -ERR increment or decrement would overflow
        > SET k -9223372036854775808
        +OK
        > DECR k
        -ERR increment or decrement would overflow
        > DECRBY k 1
        -ERR increment or decrement would overflow
        > INCRBY k -1
        -ERR increment or decrement would overflow
        > DECRBY k -9223372036854775808
        -ERR decrement would overflow
        > DECRBY nothing -9223372036854775808
        -ERR decrement would overflow
        > INCRBY k 9223372036854775807
        -1
        > INCRBY k 9223372036854775808
        -ERR value is not an integer or out of range
        > INCRBY k 1.5
        -ERR value is not an integer or out of range
        > INCRBY k abc
        -ERR value is not an integer or out of range
        > INCRBY k ""
        -ERR value is not an integer or out of range
        > INCRBY k " 1"
        -ERR value is not an integer or out of range
        > INCRBY k 0
        -1
        > INCR
        -ERR wrong number of arguments for 'incr' command
        > INCRBY k
        -ERR wrong number of arguments for 'incrby' command
        > DECR k 1
        -ERR wrong number of arguments for 'decr' command
    "#]]);
}

#[test]
fn values_that_are_not_integers() {
    check(expect![[r#"
        > SET k "    11"
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k "11    "
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k 011
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k 1.5
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k ""
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k -0
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > SET k 9223372036854775808
        +OK
        > INCR k
        -ERR value is not an integer or out of range
        > DECRBY k abc
        -ERR value is not an integer or out of range
        > GET k
        "9223372036854775808"
        > SET k 1
        +OK
        > APPEND k 2
        2
        @inspect k
        raw
        > INCR k
        13
        @inspect k
        int
    "#]]);
}

#[test]
fn floats() {
    check(expect![[r#"
        > INCRBYFLOAT k 1
        "1"
        @inspect k
        embstr
        > INCRBYFLOAT k 0.25
        "1.25"
        > GET k
        "1.25"
        > SET k 1.5 EX 100
        +OK
        > INCRBYFLOAT k 1.5
        "3"
        @inspect k
        embstr, 100000 ms
        > INCR k
        4
        @inspect k
        int, 100000 ms
        > INCRBYFLOAT k -1.1
        "2.9"
        > INCRBYFLOAT k 1.1
        "4"
        > SET k 17179869184
        +OK
        > INCRBYFLOAT k 1.5
        "17179869185.5"
        > SET k 3.0e3
        +OK
        > INCRBYFLOAT k 200
        "3200"
        > INCRBYFLOAT k 5.0e-3
        "3200.00499999999999989"
        > SET k 0.1
        +OK
        > INCRBYFLOAT k 0.2
        "0.3"
        > SET k 1
        +OK
        > INCRBYFLOAT k 0.00000000000000001
        "1.00000000000000001"
        > SET k 10.50
        +OK
        > INCRBYFLOAT k 0.1
        "10.6"
        > INCRBYFLOAT k -10.6
        "0"
        > SET k 1e17
        +OK
        > INCRBYFLOAT k 1
        "100000000000000001"
        > SET k 0x10
        +OK
        > INCRBYFLOAT k 0x.8p1
        "17"
        > SET k v PX 30
        +OK
        @wait 60
        > INCRBYFLOAT k 1
        "1"
        @resp3
        > INCRBYFLOAT k 1.5
        "2.5"
    "#]]);
}

#[test]
fn values_that_are_no_floats() {
    check(expect![[r#"
        > SET k abc
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > SET k " 1"
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > SET k "1 "
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > SET k 1
        +OK
        > INCRBYFLOAT k abc
        -ERR value is not a valid float
        > INCRBYFLOAT k ""
        -ERR value is not a valid float
        > INCRBYFLOAT k " 1"
        -ERR value is not a valid float
        > INCRBYFLOAT k "1 "
        -ERR value is not a valid float
        > INCRBYFLOAT k nan
        -ERR value is not a valid float
        > INCRBYFLOAT k inf
        -ERR increment would produce NaN or Infinity
        > INCRBYFLOAT k -inf
        -ERR increment would produce NaN or Infinity
        > INCRBYFLOAT k +inf
        -ERR increment would produce NaN or Infinity
        > INCRBYFLOAT k 1e5000
        -ERR value is not a valid float
        > SET k inf
        +OK
        > INCRBYFLOAT k 1
        -ERR increment would produce NaN or Infinity
        > INCRBYFLOAT k -inf
        -ERR increment would produce NaN or Infinity
        > SET k nan
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > SET k "1\x002"
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > SET k 1
        +OK
        > INCRBYFLOAT k "1\x002"
        -ERR value is not a valid float
        > SET k ""
        +OK
        > INCRBYFLOAT k 1
        -ERR value is not a valid float
        > INCRBYFLOAT k
        -ERR wrong number of arguments for 'incrbyfloat' command
        > GET k
        ""
    "#]]);
}

//! Blocking commands of a single connection, which always time out.

use expect_test::expect;

use crate::check::check;

#[test]
fn available_elements_are_popped_immediately() {
    check(expect![[r#"
        > RPUSH b 1 2 3 4 5 6 7
        7
        > BLPOP a b 0
        ["b", "1"]
        > BRPOP a b 0.1
        ["b", "7"]
        > BLMPOP 0 2 a b LEFT
        ["b", ["2"]]
        > BLMPOP 0 2 a b RIGHT COUNT 2
        ["b", ["6", "5"]]
        > BLMOVE b c LEFT RIGHT 0
        "3"
        > BRPOPLPUSH b c 0
        "4"
        > LRANGE c 0 -1
        ["4", "3"]
        > EXISTS b
        0
    "#]]);
}

#[test]
fn waits_end() {
    check(expect![[r#"
        > BLPOP a 0.01
        *-1
        > BRPOP a b c 0.01
        *-1
        > BLMPOP 0.01 1 a LEFT
        *-1
        > BLMOVE a b LEFT RIGHT 0.01
        *-1
        > BRPOPLPUSH a b 0.01
        *-1
        @resp3
        > BLPOP a 0.01
        _
        > BLMOVE a b LEFT RIGHT 0.01
        _
    "#]]);
}

#[test]
fn timeouts() {
    check(expect![[r#"
        > BLPOP a -1
        -ERR timeout is negative
        > BLPOP a x
        -ERR timeout is not a float or out of range
        > BLPOP a nan
        -ERR timeout is not a float or out of range
        > BLPOP a inf
        -ERR timeout is out of range
        > BLPOP a -inf
        -ERR timeout is negative
        > BLPOP a 1e30
        -ERR timeout is out of range
        > BLPOP a 9223372036854775
        -ERR timeout is out of range
        > BLMPOP -1 1 a LEFT
        -ERR timeout is negative
        > BLMPOP x 1 a LEFT
        -ERR timeout is not a float or out of range
        > BLMOVE a b LEFT RIGHT -0.1
        -ERR timeout is negative
        > BRPOPLPUSH a b -0.1
        -ERR timeout is negative
        > BLPOP a 0x0.01p0
        *-1
    "#]]);
}

#[test]
fn wrong_types() {
    check(expect![[r#"
        > SET s x
        +OK
        > RPUSH l a
        1
        > BLPOP s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > BLPOP none s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > BLPOP l s 0
        ["l", "a"]
        > BLMOVE s l LEFT LEFT 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > RPUSH l a
        1
        > BLMOVE l s LEFT LEFT 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > BLMPOP 0 2 none s LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > BLMPOP 0 0 none LEFT
        -ERR numkeys should be greater than 0
        > BLMPOP 0 1 none UP
        -ERR syntax error
    "#]]);
}

#[test]
fn a_transaction_never_waits() {
    check(expect![[r#"
        > MULTI
        +OK
        > BLPOP a 0
        +QUEUED
        > BRPOP a b 0
        +QUEUED
        > BLMPOP 0 1 a LEFT
        +QUEUED
        > BLMOVE a b LEFT RIGHT 0
        +QUEUED
        > BRPOPLPUSH a b 0
        +QUEUED
        > RPUSH a x
        +QUEUED
        > BLPOP a 0
        +QUEUED
        > EXEC
        [*-1, *-1, *-1, $-1, $-1, 1, ["a", "x"]]
    "#]]);
}

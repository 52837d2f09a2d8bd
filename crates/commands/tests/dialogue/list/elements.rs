//! `LINDEX`, `LSET`, `LRANGE`, `LTRIM`, `LREM`, `LINSERT` and `LPOS`

use expect_test::expect;

use crate::check::check;

#[test]
fn by_index() {
    check(expect![[r#"
        > RPUSH l a 17 {x*100} d
        4
        > LINDEX l 0
        "a"
        > LINDEX l 1
        "17"
        > LINDEX l -1
        "d"
        > LINDEX l 4
        $-1
        > LINDEX l -5
        $-1
        > LINDEX l x
        -ERR value is not an integer or out of range
        > LINDEX none x
        $-1
        > LSET l 1 b
        +OK
        > LSET l -1 {y*5000}
        +OK
        > LSET l 4 z
        -ERR index out of range
        > LSET l 4294967296 first
        +OK
        > LSET l -9223372036854775808 a
        +OK
        > LSET l x z
        -ERR value is not an integer or out of range
        > LSET none 0 z
        -ERR no such key
        > LSET none x z
        -ERR no such key
        > LINDEX l -1
        "yyyyyyyyyyyyyyyyyyyy"...(5000)
        > LRANGE l 0 1
        ["a", "b"]
    "#]]);
}

#[test]
fn ranges() {
    check(expect![[r#"
        > RPUSH l 0 1 2 3 4 5 6 7 8 9
        10
        > LRANGE l 2 4
        ["2", "3", "4"]
        > LRANGE l -3 100
        ["7", "8", "9"]
        > LRANGE l 5 3
        []
        > LRANGE l 10 20
        []
        > LRANGE l -100 0
        ["0"]
        > LRANGE l 0 -100
        []
        > LRANGE l a 1
        -ERR value is not an integer or out of range
        > LRANGE l 1 a
        -ERR value is not an integer or out of range
        > LRANGE l -9223372036854775808 9223372036854775807
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
        > LRANGE none 0 -1
        []
        > LTRIM l 1 -2
        +OK
        > LTRIM l 0 100
        +OK
        > LRANGE l 0 -1
        ["1", "2", "3", "4", "5", "6", "7", "8"]
        > LTRIM l 6 2
        +OK
        > EXISTS l
        0
        > LTRIM l 0 1
        +OK
        > LTRIM l x 1
        -ERR value is not an integer or out of range
    "#]]);
}

#[test]
fn equal_elements() {
    check(expect![[r#"
        > RPUSH l a b a c a a d a
        8
        > LREM l 2 a
        2
        > LRANGE l 0 -1
        ["b", "c", "a", "a", "d", "a"]
        > LREM l -1 a
        1
        > LRANGE l 0 -1
        ["b", "c", "a", "a", "d"]
        > LREM l 0 a
        2
        > LREM l 0 a
        0
        > LRANGE l 0 -1
        ["b", "c", "d"]
        > LREM l x a
        -ERR value is not an integer or out of range
        > LREM l -9223372036854775808 a
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > LREM none 0 a
        0
        > LREM l 0 b
        1
        > LREM l 1 c
        1
        > LREM l 1 d
        1
        > EXISTS l
        0
    "#]]);
}

#[test]
fn beside_a_pivot() {
    check(expect![[r#"
        > RPUSH l a 1 c
        3
        > LINSERT l BEFORE 1 x
        4
        > LINSERT l after 1 y
        5
        > LINSERT l AFTER c z
        6
        > LRANGE l 0 -1
        ["a", "x", "1", "y", "c", "z"]
        > LINSERT l BEFORE nobody x
        -1
        > LINSERT none BEFORE a x
        0
        > LINSERT l BESIDE a x
        -ERR syntax error
        > LINSERT l BEFORE 01 x
        -1
    "#]]);
}

#[test]
fn positions() {
    check(expect![[r#"
        > RPUSH l a b c 1 2 3 c c
        8
        > LPOS l c
        2
        > LPOS l 3
        5
        > LPOS l 03
        $-1
        > LPOS l x
        $-1
        > LPOS l c RANK 2
        6
        > LPOS l c RANK -1
        7
        > LPOS l c RANK 4
        $-1
        > LPOS l c COUNT 2
        [2, 6]
        > LPOS l c COUNT 0
        [2, 6, 7]
        > LPOS l c COUNT 0 RANK -1
        [7, 6, 2]
        > LPOS l c COUNT 2 RANK -2
        [6, 2]
        > LPOS l c COUNT 0 MAXLEN 3
        [2]
        > LPOS l c MAXLEN 2
        $-1
        > LPOS l c RANK -1 MAXLEN 1
        7
        > LPOS l x COUNT 1
        []
        > LPOS none x
        $-1
        > LPOS none x COUNT 1
        []
        > LPOS l c RANK 0
        -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        > LPOS l c RANK -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > LPOS l c COUNT -1
        -ERR COUNT can't be negative
        > LPOS l c COUNT x
        -ERR COUNT can't be negative
        > LPOS l c MAXLEN -1
        -ERR MAXLEN can't be negative
        > LPOS l c RANK
        -ERR syntax error
        > LPOS l c WHAT 1
        -ERR syntax error
    "#]]);
}

#[test]
fn of_another_type() {
    check(expect![[r#"
        > SET s x
        +OK
        > LINDEX s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LSET s 0 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LRANGE s 0 -1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LTRIM s 0 -1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LREM s 0 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LINSERT s BEFORE a b
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LPOS s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

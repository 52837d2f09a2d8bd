//! `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`, `LPOP`, `RPOP`, `LMPOP` and `LLEN`

use expect_test::expect;

use crate::check::check;

#[test]
fn elements_are_pushed_and_popped_at_both_ends() {
    check(expect![[r#"
        > RPUSH l a b c
        3
        > LPUSH l 1 2 -3
        6
        > LLEN l
        6
        > LRANGE l 0 -1
        ["-3", "2", "1", "a", "b", "c"]
        > LPOP l
        "-3"
        > RPOP l
        "c"
        > LPOP l 2
        ["2", "1"]
        > RPOP l 10
        ["b", "a"]
        > EXISTS l
        0
        > LPOP l
        $-1
        > RPOP l 3
        *-1
        > LPOP l 0
        *-1
        > LLEN l
        0
    "#]]);
}

#[test]
fn pushx_requires_an_existing_list() {
    check(expect![[r#"
        > LPUSHX l a
        0
        > RPUSHX l a b
        0
        > EXISTS l
        0
        > RPUSH l m
        1
        > LPUSHX l a b
        3
        > RPUSHX l y z
        5
        > LRANGE l 0 -1
        ["b", "a", "m", "y", "z"]
    "#]]);
}

#[test]
fn counts_of_pops() {
    check(expect![[r#"
        > RPUSH l a b c d
        4
        > LPOP l 0
        []
        > LPOP l -1
        -ERR value is out of range, must be positive
        > LPOP l x
        -ERR value is out of range, must be positive
        > LPOP l 9223372036854775808
        -ERR value is out of range, must be positive
        > LPOP l 1 2
        -ERR wrong number of arguments for 'lpop' command
        > RPOP l 9223372036854775807
        ["d", "c", "b", "a"]
        > LPOP l 1
        *-1
        @resp3
        > LPOP l
        _
        > LPOP l 1
        _
    "#]]);
}

#[test]
fn wrong_types() {
    check(expect![[r#"
        > SET s x
        +OK
        > LPUSH s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > RPUSHX s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LPOP s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LPOP s 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LLEN s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LMPOP 1 s LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > GET s
        "x"
    "#]]);
}

#[test]
fn lmpop_uses_the_first_nonempty_list() {
    check(expect![[r#"
        > RPUSH b 1 2 3 4 5
        5
        > LMPOP 2 a b LEFT
        ["b", ["1"]]
        > LMPOP 2 a b RIGHT COUNT 2
        ["b", ["5", "4"]]
        > LMPOP 2 a b left count 10
        ["b", ["2", "3"]]
        > LMPOP 2 a b LEFT
        *-1
        > LMPOP 0 a LEFT
        -ERR numkeys should be greater than 0
        > LMPOP -1 a LEFT
        -ERR numkeys should be greater than 0
        > LMPOP x a LEFT
        -ERR numkeys should be greater than 0
        > LMPOP 1 a MIDDLE
        -ERR syntax error
        > LMPOP 2 a LEFT
        -ERR syntax error
        > LMPOP 3 a b LEFT
        -ERR syntax error
        > LMPOP 1 a LEFT COUNT 0
        -ERR count should be greater than 0
        > LMPOP 1 a LEFT COUNT
        -ERR syntax error
        > LMPOP 1 a LEFT COUNT 1 COUNT 2
        -ERR syntax error
        > LMPOP 1 a LEFT LIMIT 2
        -ERR syntax error
        > LMPOP 9223372036854775807 a LEFT
        -ERR syntax error
        @resp3
        > LMPOP 1 a LEFT
        _
    "#]]);
}

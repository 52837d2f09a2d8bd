//! `LMOVE` and `RPOPLPUSH`

use expect_test::expect;

use crate::check::check;

#[test]
fn between_lists() {
    check(expect![[r#"
        > RPUSH a 1 2 3 4
        4
        > LMOVE a b LEFT RIGHT
        "1"
        > LMOVE a b RIGHT LEFT
        "4"
        > RPOPLPUSH a b
        "3"
        > LRANGE a 0 -1
        ["2"]
        > LRANGE b 0 -1
        ["3", "4", "1"]
        > LMOVE a b left left
        "2"
        > EXISTS a
        0
        > LMOVE a b LEFT LEFT
        $-1
        > RPOPLPUSH a b
        $-1
        > LMOVE b b UP LEFT
        -ERR syntax error
        > LMOVE b b LEFT DOWN
        -ERR syntax error
    "#]]);
}

#[test]
fn within_one_list() {
    check(expect![[r#"
        > RPUSH l 1 2 3
        3
        > LMOVE l l LEFT RIGHT
        "1"
        > LMOVE l l RIGHT RIGHT
        "1"
        > RPOPLPUSH l l
        "1"
        > LRANGE l 0 -1
        ["1", "2", "3"]
        > RPUSH one x
        1
        > RPOPLPUSH one one
        "x"
        > LRANGE one 0 -1
        ["x"]
    "#]]);
}

#[test]
fn wrong_types_change_nothing() {
    check(expect![[r#"
        > SET s x
        +OK
        > RPUSH l a
        1
        > LMOVE s l LEFT LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > LMOVE l s LEFT LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > RPOPLPUSH none s
        $-1
        > LRANGE l 0 -1
        ["a"]
    "#]]);
}

#[test]
fn the_source_keeps_its_expiry_and_a_new_destination_has_none() {
    check(expect![[r#"
        > RPUSH a 1 2
        2
        > EXPIRE a 100
        1
        > RPOPLPUSH a b
        "2"
        > TTL a
        100
        > TTL b
        -1
    "#]]);
}

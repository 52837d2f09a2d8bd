//! `SMOVE`

use expect_test::expect;

use crate::check::check;

#[test]
fn between_sets() {
    check(expect![[r#"
        > SADD a x y 1
        3
        > SADD b 2 3
        2
        > SMOVE a b 1
        1
        > SMEMBERS a
        ["x", "y"]
        > SMEMBERS b
        ["1", "2", "3"]
        > OBJECT ENCODING b
        "intset"
        > SMOVE a b x
        1
        > OBJECT ENCODING b
        "listpack"
        > SMOVE a b x
        0
        > SMOVE a b missing
        0
        > SADD b y
        1
        > SMOVE a b y
        1
        > EXISTS a
        0
        > SMEMBERS b
        ["1", "2", "3", "x", "y"]
        > SMOVE b c 2
        1
        > OBJECT ENCODING c
        "intset"
        > SMOVE missing b x
        0
    "#]]);
}

#[test]
fn to_itself_and_to_other_types() {
    check(expect![[r#"
        > SADD a x
        1
        > SMOVE a a x
        1
        > SMOVE a a y
        0
        > SMEMBERS a
        ["x"]
        > SET k v
        +OK
        > SMOVE a k x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMOVE a k missing
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMOVE k a x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMOVE missing k x
        0
        > SMOVE k missing x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMOVE k k x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMEMBERS a
        ["x"]
        > SMOVE a b
        -ERR wrong number of arguments for 'smove' command
    "#]]);
}

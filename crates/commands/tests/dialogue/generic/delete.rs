//! `DEL`, `UNLINK`, `EXISTS`, `TOUCH` and `TYPE`

use expect_test::expect;

use crate::check::check;

#[test]
fn del_and_unlink() {
    check(expect![[r#"
        > DEL k
        0
        > SET a 1
        +OK
        > SET b 2
        +OK
        > DEL a b a nothing
        2
        > EXISTS a b
        0
        > SET a 1
        +OK
        > UNLINK a b
        1
        > SET big {x*100000}
        +OK
        > UNLINK big
        1
        > SET big {x*100000}
        +OK
        > DEL big
        1
        > SET k v PX 30
        +OK
        @wait 60
        > DEL k
        0
        > SET k v PX 30
        +OK
        @wait 60
        > UNLINK k
        0
        > DEL
        -ERR wrong number of arguments for 'del' command
        > UNLINK
        -ERR wrong number of arguments for 'unlink' command
        > DBSIZE
        0
    "#]]);
}

#[test]
fn exists_and_touch() {
    check(expect![[r#"
        > EXISTS k
        0
        > SET k v
        +OK
        > EXISTS k k nothing k
        3
        > TOUCH k k nothing
        2
        > SET k v PX 30
        +OK
        @wait 60
        > EXISTS k
        0
        > TOUCH k
        0
        > EXISTS
        -ERR wrong number of arguments for 'exists' command
        > TOUCH
        -ERR wrong number of arguments for 'touch' command
        @resp3
        > EXISTS k
        0
    "#]]);
}

#[test]
fn type_() {
    check(expect![[r#"
        > TYPE k
        +none
        > SET k v
        +OK
        > TYPE k
        +string
        > SET k 12
        +OK
        > TYPE k
        +string
        > SETBIT bits 1 1
        0
        > TYPE bits
        +string
        > TYPE
        -ERR wrong number of arguments for 'type' command
        > TYPE a b
        -ERR wrong number of arguments for 'type' command
        @resp3
        > TYPE k
        +string
        > TYPE nothing
        +none
    "#]]);
}

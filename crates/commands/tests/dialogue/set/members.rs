//! `SADD`, `SREM`, `SISMEMBER`, `SMISMEMBER`, `SCARD` and `SMEMBERS`

use expect_test::expect;

use crate::check::check;

#[test]
fn members_are_added_and_removed() {
    check(expect![[r#"
        > SADD s a
        1
        > SADD s a
        0
        > SADD s b a c b
        2
        > SCARD s
        3
        > SMEMBERS s
        ["a", "b", "c"]
        > SISMEMBER s b
        1
        > SISMEMBER s x
        0
        > SMISMEMBER s a x c
        [1, 0, 1]
        > SREM s a x
        1
        > SREM s a
        0
        > SMEMBERS s
        ["b", "c"]
        > SREM s b c x
        2
        > EXISTS s
        0
        > SREM s b
        0
        > SCARD s
        0
        > SMEMBERS s
        []
        > SISMEMBER s a
        0
        > SMISMEMBER s a b
        [0, 0]
        > SADD s ""
        1
        > SISMEMBER s ""
        1
        > SMEMBERS s
        [""]
        > SADD s "a\x00b"
        1
        > SISMEMBER s "a\x00c"
        0
        > SISMEMBER s "a\x00b"
        1
        > TYPE s
        +set
        @resp3
        > SMEMBERS s
        ~["", "a\x00b"]
        > SMEMBERS missing
        ~[]
        > SMISMEMBER s "" x
        [1, 0]
        > SISMEMBER s ""
        1
    "#]]);
}

#[test]
fn integers() {
    check(expect![[r#"
        > SADD s 5 -3 5 100000 -9223372036854775808 9223372036854775807
        5
        > OBJECT ENCODING s
        "intset"
        > SMEMBERS s
        ["-9223372036854775808", "-3", "5", "100000", "9223372036854775807"]
        > SISMEMBER s 100000
        1
        > SISMEMBER s 0100000
        0
        > SISMEMBER s +5
        0
        > SREM s 100000 007
        1
        > SMEMBERS s
        ["-9223372036854775808", "-3", "5", "9223372036854775807"]
        > SADD s 05
        1
        > OBJECT ENCODING s
        "listpack"
        > SMEMBERS s
        ["-9223372036854775808", "-3", "5", "9223372036854775807", "05"]
        > SISMEMBER s 5
        1
        > SISMEMBER s 05
        1
        > SADD s 9223372036854775808
        1
        > SISMEMBER s 9223372036854775808
        1
        > SADD t -0
        1
        > OBJECT ENCODING t
        "listpack"
        @resp3
        > SADD i 3 1 2
        3
        > SMEMBERS i
        ~["1", "2", "3"]
    "#]]);
}

#[test]
fn encodings_follow_the_directives() {
    check(expect![[r#"
        @config set-max-intset-entries 3
        @config set-max-listpack-entries 4
        @config set-max-listpack-value 5
        > SADD s 1 2 3
        3
        > OBJECT ENCODING s
        "intset"
        > SADD s 4
        1
        > OBJECT ENCODING s
        "hashtable"
        > SREM s 1 2 3
        3
        > OBJECT ENCODING s
        "hashtable"
        > SADD l a b c d
        4
        > OBJECT ENCODING l
        "listpack"
        > SADD l a
        0
        > OBJECT ENCODING l
        "listpack"
        > SADD l e
        1
        > OBJECT ENCODING l
        "hashtable"
        > SADD v 12345
        1
        > SADD v 123456
        1
        > OBJECT ENCODING v
        "intset"
        > SADD v a
        1
        > OBJECT ENCODING v
        "hashtable"
        > SADD w a 12345
        2
        > OBJECT ENCODING w
        "listpack"
        > SADD w 123456
        1
        > OBJECT ENCODING w
        "hashtable"
        > SADD i 1 2 3
        3
        > SADD i a
        1
        > OBJECT ENCODING i
        "listpack"
        > SADD j 1 2
        2
        > SADD j a b
        2
        > OBJECT ENCODING j
        "listpack"
        > SADD k 1 2 3 4
        4
        > OBJECT ENCODING k
        "listpack"
        > SADD m 1 2 3 4 5
        5
        > OBJECT ENCODING m
        "hashtable"
        > SADD n a b c d e
        5
        > OBJECT ENCODING n
        "hashtable"
        > SADD o a
        1
        > SADD o a b c d e
        4
        > OBJECT ENCODING o
        "hashtable"
        > SADD p 1
        1
        > SADD p 1 1 1 1
        0
        > OBJECT ENCODING p
        "hashtable"
        > SADD q a a a a a
        1
        > OBJECT ENCODING q
        "hashtable"
        > SCARD q
        1
        > COPY w x
        1
        > OBJECT ENCODING x
        "hashtable"
        @config set-max-listpack-entries 0
        > SADD y a
        1
        > OBJECT ENCODING y
        "hashtable"
        @config set-max-intset-entries 0
        > SADD z 1
        1
        > OBJECT ENCODING z
        "hashtable"
    "#]]);
}

#[test]
fn a_large_set() {
    check(expect![[r#"
        > SADD s a b {x*65}
        3
        > OBJECT ENCODING s
        "hashtable"
        > SMISMEMBER s a b c {x*65} {x*64}
        [1, 1, 0, 1, 0]
        > SADD s {y*255} {y*256} {y*100000}
        3
        > SMISMEMBER s {y*255} {y*256} {y*100000} {y*100001}
        [1, 1, 1, 0]
        > SCARD s
        6
        > SREM s {y*256} a {y*100000} {y*100000}
        3
        > SMISMEMBER s a b {y*255} {y*256} {y*100000} {x*65}
        [0, 1, 1, 0, 0, 1]
        > SREM s b {x*65} {y*255}
        3
        > EXISTS s
        0
    "#]]);
}

#[test]
fn other_types_and_wrong_arguments() {
    check(expect![[r#"
        > SET k v
        +OK
        > SADD k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SREM k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SISMEMBER k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMISMEMBER k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SCARD k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SMEMBERS k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > GET k
        "v"
        > SADD s a
        1
        > GET s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > APPEND s x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > INCR s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SADD s
        -ERR wrong number of arguments for 'sadd' command
        > SREM s
        -ERR wrong number of arguments for 'srem' command
        > SISMEMBER s
        -ERR wrong number of arguments for 'sismember' command
        > SISMEMBER s a b
        -ERR wrong number of arguments for 'sismember' command
        > SMISMEMBER s
        -ERR wrong number of arguments for 'smismember' command
        > SCARD
        -ERR wrong number of arguments for 'scard' command
        > SCARD s t
        -ERR wrong number of arguments for 'scard' command
        > SMEMBERS s t
        -ERR wrong number of arguments for 'smembers' command
        > SET s v
        +OK
        > GET s
        "v"
    "#]]);
}

#[test]
fn a_set_expires_and_is_overwritten() {
    check(expect![[r#"
        > SADD s a
        1
        > PEXPIRE s 40
        1
        > SADD s b
        1
        @wait 80
        > SCARD s
        0
        > SADD s c
        1
        > SMEMBERS s
        ["c"]
        > TTL s
        -1
        > SADD s d
        1
        > RENAME s t
        +OK
        > SMEMBERS t
        ["c", "d"]
        > SADD u x
        1
        > COPY t u
        0
        > COPY t u REPLACE
        1
        > SADD u e
        1
        > SMEMBERS t
        ["c", "d"]
        > SMEMBERS u
        ["c", "d", "e"]
        > UNLINK t
        1
        > DEL u
        1
        > DBSIZE
        0
    "#]]);
}

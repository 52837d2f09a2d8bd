//! `SPOP` and `SRANDMEMBER`

use expect_test::expect;

use crate::check::check;

#[test]
fn pop_one() {
    check(expect![[r#"
        > SADD s a
        1
        > SPOP s
        "a"
        > EXISTS s
        0
        > SPOP s
        $-1
        > SADD s 7
        1
        > SPOP s
        "7"
        > SPOP s 1 2
        -ERR syntax error
        > SPOP s x
        -ERR value is out of range, must be positive
        @resp3
        > SPOP s
        _
        > SADD s {x*300}
        1
        > SPOP s
        "xxxxxxxxxxxxxxxxxxxx"...(300)
        > EXISTS s
        0
    "#]]);
}

#[test]
fn pop_several() {
    check(expect![[r#"
        > SADD s a
        1
        > SPOP s 0
        []
        > SPOP s -1
        -ERR value is out of range, must be positive
        > SPOP s 9223372036854775808
        -ERR value is out of range, must be positive
        > SPOP s 3
        ["a"]
        > EXISTS s
        0
        > SPOP s 3
        []
        > SADD s 3 1 2
        3
        > SPOP s 9223372036854775807
        ["1", "2", "3"]
        > SADD s a
        1
        > SPOP s 2 x
        -ERR syntax error
        > SADD t a b c d e f g h i j
        10
        > SCARD t
        10
        @resp3
        > SPOP s 5
        ~["a"]
        > SPOP s 5
        ~[]
        > SPOP s 0
        ~[]
    "#]]);
}

#[test]
fn the_remainder_chooses_its_encoding_anew() {
    check(expect![[r#"
        @config set-max-listpack-value 5
        > SADD s a b c d e f longer
        7
        > SREM s longer
        1
        > OBJECT ENCODING s
        "hashtable"
        @config set-max-listpack-value 64
        > SADD s longer
        1
        > OBJECT ENCODING s
        "hashtable"
        > SADD t 1 2 3 4 5 6 7 8 9
        9
        > OBJECT ENCODING t
        "intset"
    "#]]);
}

#[test]
fn pick_one() {
    check(expect![[r#"
        > SADD s a
        1
        > SRANDMEMBER s
        "a"
        > SRANDMEMBER missing
        $-1
        > SADD i 42
        1
        > SRANDMEMBER i
        "42"
        > SADD l {x*300}
        1
        > SRANDMEMBER l
        "xxxxxxxxxxxxxxxxxxxx"...(300)
        > SMEMBERS s
        ["a"]
        @resp3
        > SRANDMEMBER s
        "a"
        > SRANDMEMBER missing
        _
    "#]]);
}

#[test]
fn pick_several() {
    check(expect![[r#"
        > SADD s a
        1
        > SRANDMEMBER s 3
        ["a"]
        > SRANDMEMBER s -3
        ["a", "a", "a"]
        > SRANDMEMBER s 0
        []
        > SRANDMEMBER missing 3
        []
        > SRANDMEMBER missing -3
        []
        > SADD i 3 1 2
        3
        > SRANDMEMBER i 3
        ["1", "2", "3"]
        > SRANDMEMBER i 4
        ["1", "2", "3"]
        > SRANDMEMBER s x
        -ERR value is not an integer or out of range
        > SRANDMEMBER s 1 x
        -ERR syntax error
        > SRANDMEMBER s -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > SRANDMEMBER missing -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > SRANDMEMBER s -9223372036854775809
        -ERR value is not an integer or out of range
        > SRANDMEMBER s 9223372036854775807
        ["a"]
        > SADD l {x*300}
        1
        > SRANDMEMBER l 2
        ["xxxxxxxxxxxxxxxxxxxx"...(300)]
        > SRANDMEMBER l -2
        ["xxxxxxxxxxxxxxxxxxxx"...(300), "xxxxxxxxxxxxxxxxxxxx"...(300)]
        @resp3
        > SRANDMEMBER s 3
        ["a"]
        > SRANDMEMBER s -2
        ["a", "a"]
        > SRANDMEMBER missing 3
        []
    "#]]);
}

#[test]
fn wrong_types() {
    check(expect![[r#"
        > SET k v
        +OK
        > SPOP k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SPOP k 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SPOP k 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SPOP k -1
        -ERR value is out of range, must be positive
        > SRANDMEMBER k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SRANDMEMBER k 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SRANDMEMBER k 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SPOP
        -ERR wrong number of arguments for 'spop' command
        > SRANDMEMBER
        -ERR wrong number of arguments for 'srandmember' command
    "#]]);
}

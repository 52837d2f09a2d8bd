//! `SINTER`, `SUNION`, `SDIFF` with their `STORE` forms, and `SINTERCARD`

use expect_test::expect;

use crate::check::check;

#[test]
fn intersections() {
    check(expect![[r#"
        > SADD a 1 2 3 4 5
        5
        > SADD b 2 4 6
        3
        > SADD c x 4 2
        3
        > SINTER a b
        ["2", "4"]
        > SINTER a b c
        ["2", "4"]
        > SINTER c
        ["x", "4", "2"]
        > SINTER a missing
        []
        > SINTER missing
        []
        > SINTER a a
        ["1", "2", "3", "4", "5"]
        > SINTER c b
        ["4", "2"]
        > SINTERSTORE d a b
        2
        > SMEMBERS d
        ["2", "4"]
        > OBJECT ENCODING d
        "intset"
        > SINTERSTORE d a c
        2
        > OBJECT ENCODING d
        "intset"
        > SINTERSTORE d c c
        3
        > OBJECT ENCODING d
        "listpack"
        > SMEMBERS d
        ["x", "4", "2"]
        > SINTERSTORE d a missing
        0
        > EXISTS d
        0
        > SINTERSTORE d a missing
        0
        > SINTERSTORE a a b
        2
        > SMEMBERS a
        ["2", "4"]
        @resp3
        > SINTER b c
        ~["2", "4"]
        > SINTER missing
        ~[]
    "#]]);
}

#[test]
fn cardinality() {
    check(expect![[r#"
        > SADD a 1 2 3 4 5
        5
        > SADD b 2 4 6 3
        4
        > SINTERCARD 1 a
        5
        > SINTERCARD 2 a b
        3
        > SINTERCARD 2 a b LIMIT 2
        2
        > SINTERCARD 2 a b LIMIT 0
        3
        > SINTERCARD 2 a b limit 10
        3
        > SINTERCARD 2 a b LIMIT 1 LIMIT 2
        2
        > SINTERCARD 2 a missing
        0
        > SINTERCARD 0 a
        -ERR numkeys should be greater than 0
        > SINTERCARD x a
        -ERR numkeys should be greater than 0
        > SINTERCARD -1 a
        -ERR numkeys should be greater than 0
        > SINTERCARD 3 a b
        -ERR Number of keys can't be greater than number of args
        > SINTERCARD 9223372036854775807 a b
        -ERR Number of keys can't be greater than number of args
        > SINTERCARD 2 a b LIMIT
        -ERR syntax error
        > SINTERCARD 2 a b LIMIT -1
        -ERR LIMIT can't be negative
        > SINTERCARD 2 a b LIMIT x
        -ERR LIMIT can't be negative
        > SINTERCARD 2 a b x
        -ERR syntax error
        > SINTERCARD 2 a b x 1
        -ERR syntax error
        > SINTERCARD 1 a b
        -ERR syntax error
        > SINTERCARD 1
        -ERR wrong number of arguments for 'sintercard' command
        > SET k v
        +OK
        > SINTERCARD 2 a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SINTERCARD 2 missing k
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn unions() {
    check(expect![[r#"
        > SADD a 1 2
        2
        > SADD b 3 2
        2
        > SADD c 1
        1
        > SUNION a b
        ["1", "2", "3"]
        > SUNION c c
        ["1"]
        > SUNION c missing
        ["1"]
        > SUNION missing
        []
        > SUNIONSTORE d a b
        3
        > OBJECT ENCODING d
        "intset"
        > SMEMBERS d
        ["1", "2", "3"]
        > SADD e x 2
        2
        > SUNIONSTORE d a e
        3
        > OBJECT ENCODING d
        "listpack"
        > SMEMBERS d
        ["1", "2", "x"]
        > SUNIONSTORE d missing other
        0
        > EXISTS d
        0
        > SUNIONSTORE d missing
        0
        > SUNIONSTORE a a b
        3
        > SMEMBERS a
        ["1", "2", "3"]
        > SUNIONSTORE a b c
        3
        > SMEMBERS a
        ["1", "2", "3"]
        > SADD f x
        1
        > SUNION f
        ["x"]
        @resp3
        > SUNION a c
        ~["1", "2", "3"]
        > SUNION f missing
        ~["x"]
    "#]]);
}

#[test]
fn differences() {
    check(expect![[r#"
        > SADD a 1 2 3 4
        4
        > SADD b 2
        1
        > SADD c 4 5
        2
        > SADD d x y z
        3
        > SADD e y
        1
        > SDIFF a b
        ["1", "3", "4"]
        > SDIFF a b c
        ["1", "3"]
        > SDIFF a
        ["1", "2", "3", "4"]
        > SDIFF a a
        []
        > SDIFF a missing
        ["1", "2", "3", "4"]
        > SDIFF missing a
        []
        @may-differ redis it replies in the order of its hash table
        > SDIFF d e
        ["x", "z"]
        > SDIFF d d
        []
        @may-differ redis it replies in the order of its hash table
        > SDIFF d e a
        ["x", "z"]
        > SDIFFSTORE f a b
        3
        > OBJECT ENCODING f
        "intset"
        > SMEMBERS f
        ["1", "3", "4"]
        > SDIFFSTORE f d e
        2
        > OBJECT ENCODING f
        "listpack"
        > SMEMBERS f
        ["x", "z"]
        > SDIFFSTORE f a a
        0
        > EXISTS f
        0
        > SDIFFSTORE a a b
        3
        > SMEMBERS a
        ["1", "3", "4"]
        > SDIFFSTORE b a b c
        2
        > SMEMBERS b
        ["1", "3"]
        @resp3
        @may-differ redis it replies in the order of its hash table
        > SDIFF d e
        ~["x", "z"]
        > SDIFF missing
        ~[]
    "#]]);
}

#[test]
fn sdiff_copies_the_first_set_for_many_small_sets() {
    check(expect![[r#"
        > SADD a 1 2 3 4 5 6 7 8 9 10
        10
        > SADD b 1
        1
        > SADD c 2
        1
        > SADD d 3
        1
        > SADD e 11
        1
        > SDIFF a b c d e missing
        ["4", "5", "6", "7", "8", "9", "10"]
        > SDIFFSTORE f a b c d e missing
        7
        > SMEMBERS f
        ["4", "5", "6", "7", "8", "9", "10"]
    "#]]);
}

#[test]
fn results_keep_to_the_thresholds() {
    check(expect![[r#"
        @config set-max-intset-entries 4
        @config set-max-listpack-entries 3
        @config set-max-listpack-value 5
        > SADD a 1 2 3
        3
        > SADD b 3 4 5
        3
        > SADD c a b c d
        4
        > SADD d c d
        2
        > SADD e longer
        1
        > SUNIONSTORE t a b
        5
        > OBJECT ENCODING t
        "hashtable"
        > SUNIONSTORE t a d
        5
        > OBJECT ENCODING t
        "hashtable"
        > SINTERSTORE t c d
        2
        > OBJECT ENCODING t
        "listpack"
        > SINTERSTORE t c c
        4
        > OBJECT ENCODING t
        "hashtable"
        > SINTERSTORE t e e
        1
        > OBJECT ENCODING t
        "hashtable"
        > SDIFFSTORE t a b
        2
        > OBJECT ENCODING t
        "intset"
        > SADD f 1 2 3 4 5 6
        6
        > OBJECT ENCODING f
        "hashtable"
        > SINTERSTORE t f a
        3
        > OBJECT ENCODING t
        "intset"
        > SADD g 1 2 3 4 x
        5
        > SADD h 1 2 3 4 y
        5
        > OBJECT ENCODING g
        "hashtable"
        > SINTERSTORE t g h
        4
        > OBJECT ENCODING t
        "intset"
        > SDIFFSTORE t f a
        3
        > OBJECT ENCODING t
        "intset"
        > SDIFFSTORE t c d
        2
        > OBJECT ENCODING t
        "listpack"
    "#]]);
}

#[test]
fn a_destination_of_another_type_is_overwritten() {
    check(expect![[r#"
        > SADD a 1
        1
        > SET d v EX 100
        +OK
        > SUNIONSTORE d a
        1
        > TTL d
        -1
        > TYPE d
        +set
        > SET d v
        +OK
        > SINTERSTORE d a missing
        0
        > EXISTS d
        0
        > SET d v
        +OK
        > SDIFFSTORE d a
        1
        > SMEMBERS d
        ["1"]
    "#]]);
}

#[test]
fn wrong_types() {
    check(expect![[r#"
        > SET k v
        +OK
        > SADD a 1
        1
        > SINTER a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SINTER k missing
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SINTER missing k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SUNION a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SDIFF a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SDIFF missing k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SINTERSTORE d a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SUNIONSTORE d k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SDIFFSTORE d a k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > EXISTS d
        0
        > SINTERSTORE k a
        1
        > TYPE k
        +set
        > SINTER
        -ERR wrong number of arguments for 'sinter' command
        > SUNION
        -ERR wrong number of arguments for 'sunion' command
        > SDIFF
        -ERR wrong number of arguments for 'sdiff' command
        > SINTERSTORE d
        -ERR wrong number of arguments for 'sinterstore' command
        > SUNIONSTORE d
        -ERR wrong number of arguments for 'sunionstore' command
        > SDIFFSTORE d
        -ERR wrong number of arguments for 'sdiffstore' command
    "#]]);
}

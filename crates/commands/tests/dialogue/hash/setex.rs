//! `HSETEX`, `HGETEX` and `HGETDEL`

use expect_test::expect;

use crate::check::check;

#[test]
fn hsetex() {
    check(expect![[r#"
        > HSETEX h FIELDS 1 a 1
        1
        > HSETEX h EX 100 FIELDS 2 b 2 c 3
        1
        > HTTL h FIELDS 3 a b c
        [-1, 100, 100]
        > HSETEX h PX 100000 FIELDS 1 a 1
        1
        > HSETEX h EXAT 33177117420 FIELDS 1 b 2
        1
        > HSETEX h PXAT 33177117420123 FIELDS 1 c 2
        1
        > HPEXPIRETIME h FIELDS 2 b c
        [33177117420000, 33177117420123]
        > HSETEX h KEEPTTL FIELDS 2 b 9 d 9
        1
        > HPEXPIRETIME h FIELDS 2 b d
        [33177117420000, -1]
        > HSETEX h FIELDS 1 b 10
        1
        > HTTL h FIELDS 1 b
        [-1]
        > HMGET h a b c d
        ["1", "10", "2", "9"]
        @differs redis it names the encoding of a small hash with expiries listpackex
        @inspect h
        hashtable
        > SET s x
        +OK
        > HSETEX s FIELDS 1 a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn hsetex_conditions() {
    check(expect![[r#"
        @valkey Redis has other options and error texts
        > HSETEX h XX FIELDS 1 a 1
        0
        > HSETEX h FXX FIELDS 1 a 1
        0
        > EXISTS h
        0
        > HSETEX h NX FIELDS 1 a 1
        1
        > HSETEX h NX FIELDS 1 a 2
        0
        > HSETEX h XX FIELDS 1 a 3
        1
        > HSETEX h FNX FIELDS 2 b 1 a 1
        0
        > HSETEX h FXX FIELDS 2 b 1 a 1
        0
        > HSETEX h FNX FIELDS 1 b 1
        1
        > HSETEX h FXX FIELDS 2 a 8 b 8
        1
        > HSETEX h XX FXX EX 100 FIELDS 2 a 9 b 9
        1
        > HTTL h FIELDS 2 a b
        [100, 100]
        > HMGET h a b
        ["9", "9"]
        > HSETEX h NX XX FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h FNX FXX FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h EX 1 PX 1 FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h EX 1 KEEPTTL FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h EX FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h PERSIST FIELDS 1 a 1
        -ERR syntax error
        > HSETEX h EX 10 EX 20 FIELDS 1 a 1
        1
        > HTTL h FIELDS 1 a
        [20]
        > HSETEX h FOO FIELDS 1 a 1
        -ERR syntax error
    "#]]);
}

#[test]
fn hsetex_invalid_requests() {
    check(expect![[r#"
        @valkey Redis has other options and error texts
        > HSETEX h FIELDS 2 a 1
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h FIELDS 1 a 1 b
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h FIELDS 1 a 1 b 2
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h FIELDS 0 a 1
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h FIELDS -1 a 1
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h FIELDS x a 1
        -ERR value is not an integer or out of range
        > HSETEX h FIELDS 9223372036854775807 a 1
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HSETEX h EX x FIELDS 1 a 1
        -ERR value is not an integer or out of range
        > HSETEX h EX -1 FIELDS 1 a 1
        -ERR invalid expire time in 'hsetex' command
        > HSETEX h EX 9223372036854775807 FIELDS 1 a 1
        -ERR invalid expire time in 'hsetex' command
        > HSETEX h 1 a 1 b
        -ERR numfields should be greater than 0 and match the provided number of fields
        > EXISTS h
        0
        > HSETEX h FIELDS 1 a
        -ERR wrong number of arguments for 'hsetex' command
        > HSETEX fields FIELDS 1 a 1
        -ERR value is not an integer or out of range
    "#]]);
}

#[test]
fn hsetex_in_the_past() {
    check(expect![[r#"
        > HSET h a 1 b 2
        2
        > HSETEX h EX 0 FIELDS 1 a 5
        1
        > HGETALL h
        ["b", "2"]
        > HSETEX h PXAT 1 FIELDS 2 b 5 c 5
        1
        > EXISTS h
        0
        > HSETEX h EXAT 1 FIELDS 1 b 5
        1
        > EXISTS h
        0
    "#]]);
}

#[test]
fn hgetex() {
    check(expect![[r#"
        > HSET h a 1 b 2
        2
        > HGETEX h FIELDS 3 a x b
        ["1", $-1, "2"]
        > HTTL h FIELDS 2 a b
        [-1, -1]
        @inspect h
        listpack
        > HGETEX h EX 100 FIELDS 2 a x
        ["1", $-1]
        > HTTL h FIELDS 2 a b
        [100, -1]
        > HGETEX h PERSIST FIELDS 2 a b
        ["1", "2"]
        > HTTL h FIELDS 2 a b
        [-1, -1]
        > HGETEX h PX 100000 FIELDS 1 b
        ["2"]
        > HGETEX h EXAT 33177117420 FIELDS 1 a
        ["1"]
        > HPEXPIRETIME h FIELDS 1 a
        [33177117420000]
        > HGETEX h PXAT 33177117420123 FIELDS 1 a
        ["1"]
        > HPEXPIRETIME h FIELDS 1 a
        [33177117420123]
        > HGETEX h EX 0 FIELDS 1 a
        ["1"]
        > HLEN h
        1
        > HGETEX h PXAT 1 FIELDS 2 b b
        ["2", $-1]
        > EXISTS h
        0
        > HGETEX h EX 100 FIELDS 2 a b
        [$-1, $-1]
        @resp3
        > HGETEX h FIELDS 1 a
        [_]
    "#]]);
}

#[test]
fn hgetex_invalid_requests() {
    check(expect![[r#"
        @valkey Redis has other options and error texts
        > HSET h a 1
        1
        > HGETEX h FIELDS 0 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HGETEX h FIELDS 2 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HGETEX h FIELDS x a
        -ERR value is not an integer or out of range
        > HGETEX h EX x FIELDS 1 a
        -ERR value is not an integer or out of range
        > HGETEX h EX -1 FIELDS 1 a
        -ERR invalid expire time in 'hgetex' command
        > HGETEX h EX 1 PX 1 FIELDS 1 a
        -ERR syntax error
        > HGETEX h KEEPTTL FIELDS 1 a
        -ERR syntax error
        > HGETEX h NX FIELDS 1 a
        -ERR syntax error
        > HGETEX h PERSIST EX 1 FIELDS 1 a
        -ERR syntax error
        > HGETEX h EX FIELDS 1 a
        -ERR syntax error
        > HGETEX h 1 a b
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HGETEX h FIELDS 1
        -ERR wrong number of arguments for 'hgetex' command
        > SET s x
        +OK
        > HGETEX s FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HGETEX s EX x FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn hgetdel() {
    check(expect![[r#"
        @valkey Redis has other error texts
        > HGETDEL h FIELDS 2 a b
        [$-1, $-1]
        > HSET h a 1 b 2 c 3
        3
        > HGETDEL h FIELDS 3 a x a
        ["1", $-1, $-1]
        > HGETDEL h FIELDS 1 y
        [$-1]
        > HLEN h
        2
        > HGETDEL h FIELDS 3 b c d
        ["2", "3", $-1]
        > EXISTS h
        0
        > HGETDEL h FIELDS 0 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HGETDEL h FIELDS 2 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HGETDEL h FIELDS x a
        -ERR value is not an integer or out of range
        > HGETDEL h FIELD 1 a
        -ERR syntax error
        > HGETDEL h FIELDS 1
        -ERR wrong number of arguments for 'hgetdel' command
        > SET s x
        +OK
        > HGETDEL s FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > HSET h a 1
        1
        > HGETDEL h FIELDS 2 x a
        [_, "1"]
        > HGETDEL h FIELDS 2 x a
        [_, _]
    "#]]);
}

//! Expiry of fields: `HEXPIRE`, `HTTL` and their variants, `HPERSIST`, and the effect on other commands

use expect_test::expect;

use crate::check::check;

#[test]
fn expiries_are_set_and_reported() {
    check(expect![[r#"
        > HSET h a 1 b 2
        2
        @inspect h
        listpack
        > HEXPIRE h 100 FIELDS 2 a x
        [1, -2]
        @differs redis it names the encoding of a small hash with expiries listpackex
        @inspect h
        hashtable
        > HTTL h FIELDS 3 a b x
        [100, -1, -2]
        > HPEXPIRE h 100000 FIELDS 1 b
        [1]
        > HTTL h FIELDS 2 a b
        [100, 100]
        > HEXPIREAT h 33177117420 FIELDS 1 a
        [1]
        > HEXPIRETIME h FIELDS 1 a
        [33177117420]
        > HPEXPIRETIME h FIELDS 3 a x a
        [33177117420000, -2, 33177117420000]
        > HPEXPIREAT h 33177117420123 FIELDS 1 b
        [1]
        @differs redis it rounds seconds up
        > HEXPIRETIME h FIELDS 1 b
        [33177117420]
        > HPEXPIRETIME h FIELDS 1 b
        [33177117420123]
        > HPERSIST h FIELDS 3 a b x
        [1, 1, -2]
        > HPERSIST h FIELDS 1 a
        [-1]
        > HTTL h FIELDS 2 a b
        [-1, -1]
        @differs redis it names the encoding of a small hash with expiries listpackex
        @inspect h
        hashtable
        > HTTL g FIELDS 2 a b
        [-2, -2]
        > HEXPIRE g 100 FIELDS 2 a b
        [-2, -2]
        > HPERSIST g FIELDS 1 a
        [-2]
        @resp3
        > HTTL h FIELDS 2 a x
        [-1, -2]
        > HEXPIRE h 100 FIELDS 2 a x
        [1, -2]
    "#]]);
}

#[test]
fn conditions() {
    check(expect![[r#"
        @valkey Redis has other options and error texts
        > HSET h a 1 b 2
        2
        > HEXPIRE h 100 XX FIELDS 1 a
        [0]
        > HEXPIRE h 100 GT FIELDS 1 a
        [0]
        @inspect h
        listpack
        > HEXPIRE h 100 NX FIELDS 1 a
        [1]
        > HEXPIRE h 200 NX FIELDS 2 a b
        [0, 1]
        > HEXPIRE h 50 GT FIELDS 1 a
        [0]
        > HEXPIRE h 100000 GT FIELDS 1 a
        [1]
        > HEXPIRE h 200000 LT FIELDS 1 a
        [0]
        > HEXPIRE h 50 LT FIELDS 1 a
        [1]
        > HEXPIRE h 60 XX FIELDS 2 a x
        [1, -2]
        > HEXPIRE h 70 XX GT FIELDS 1 a
        [1]
        > HEXPIRE h 70 nx xx FIELDS 1 a
        -ERR NX and XX, GT or LT options at the same time are not compatible
        > HEXPIRE h 70 nx gt FIELDS 1 a
        -ERR NX and XX, GT or LT options at the same time are not compatible
        > HEXPIRE h 70 gt lt FIELDS 1 a
        -ERR GT and LT options at the same time are not compatible
        > HEXPIRE h 70 foo FIELDS 1 a
        -ERR Unsupported option foo
        > HEXPIRE h 70 NX NX FIELDS 1 a
        [0]
        > HPERSIST h FIELDS 1 a
        [1]
        > HEXPIRE h 70 LT FIELDS 1 a
        [1]
        > HEXPIRE h 0 GT FIELDS 1 a
        [0]
        > HEXPIRE h 0 LT FIELDS 1 a
        [2]
        > HGET h a
        $-1
    "#]]);
}

#[test]
fn invalid_requests() {
    check(expect![[r#"
        @valkey Redis has other options and error texts
        > HSET h a 1
        1
        > HEXPIRE h 100 FIELDS 0 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HEXPIRE h 100 FIELDS 2 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HEXPIRE h 100 FIELDS 1 a b
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HEXPIRE h 100 FIELDS x a
        -ERR value is not an integer or out of range
        > HEXPIRE h 100 FIELDS -1 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HEXPIRE h 100 1 a b
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HEXPIRE h x FIELDS 1 a
        -ERR value is not an integer or out of range
        > HEXPIRE h -1 FIELDS 1 a
        -ERR invalid expire time in 'hexpire' command
        > HEXPIRE h 9223372036854775807 FIELDS 1 a
        -ERR invalid expire time in 'hexpire' command
        > HPEXPIRE h 9223372036854775807 FIELDS 1 a
        -ERR invalid expire time in 'hpexpire' command
        > HEXPIREAT h 9223372036854775 FIELDS 1 a
        [1]
        > HPEXPIREAT h 9223372036854775808 FIELDS 1 a
        -ERR value is not an integer or out of range
        > HTTL h FIELDS 2 a
        -ERR syntax error
        > HTTL h FIELD 1 a
        -ERR syntax error
        > HTTL h FIELDS x a
        -ERR value is not an integer or out of range
        > HTTL h FIELDS 0 a
        -ERR syntax error
        > HPERSIST h FIELDS 2 a
        -ERR numfields should be greater than 0 and match the provided number of fields
        > HPERSIST h FIELD 1 a
        -ERR syntax error
        > HPERSIST h FIELDS x a
        -ERR value is not an integer or out of range
        > HEXPIRE h 100 FIELDS 1
        -ERR wrong number of arguments for 'hexpire' command
        > HTTL h FIELDS 1
        -ERR wrong number of arguments for 'httl' command
        > SET s x
        +OK
        > HEXPIRE s 100 FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HTTL s FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HPERSIST s FIELDS 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HEXPIRE s -1 FIELDS 1 a
        -ERR invalid expire time in 'hexpire' command
        > HTTL s FIELDS 2 a
        -ERR syntax error
    "#]]);
}

#[test]
fn past_expiries_delete_fields() {
    check(expect![[r#"
        > HSET h a 1 b 2 c 3
        3
        > HEXPIRE h 0 FIELDS 2 a x
        [2, -2]
        > HLEN h
        2
        > HPEXPIREAT h 1 FIELDS 1 b
        [2]
        > HEXPIREAT h 1 FIELDS 1 b
        [-2]
        @differs redis it names the encoding of a small hash with expiries listpackex
        @inspect h
        listpack
        > HPEXPIRE h 0 FIELDS 1 c
        [2]
        > EXISTS h
        0
    "#]]);
}

#[test]
fn writes_keep_or_clear_field_expiries() {
    check(expect![[r#"
        > HSET h a 1 b 2 c 3 d 4
        4
        > HEXPIRE h 100 FIELDS 4 a b c d
        [1, 1, 1, 1]
        > HINCRBY h a 1
        2
        > HINCRBYFLOAT h b 1
        "3"
        > HSET h c 5
        0
        > HSETNX h d 6
        0
        > HTTL h FIELDS 4 a b c d
        [100, 100, -1, 100]
        > COPY h g
        1
        > HTTL g FIELDS 4 a b c d
        [100, 100, -1, 100]
        @differs redis it names the encoding of a small hash with expiries listpackex
        @inspect g
        hashtable
        > RENAME g f
        +OK
        > HTTL f FIELDS 4 a b c d
        [100, 100, -1, 100]
        > HDEL f a
        1
        > HSET f a 1
        1
        > HTTL f FIELDS 1 a
        [-1]
    "#]]);
}

#[test]
fn an_expired_field_is_new_when_it_is_set() {
    check(expect![[r#"
        > HSET h a 1 b 2 c 3 d 4 e 5
        5
        > HPEXPIRE h 20 FIELDS 4 a b c d
        [1, 1, 1, 1]
        @wait 40
        @may-differ redis its expiry cycle may have deleted the field by then
        > HSET h a 9
        1
        > HSETNX h b 9
        1
        > HINCRBY h c 9
        9
        > HINCRBYFLOAT h d 9
        "9"
        > HTTL h FIELDS 4 a b c d
        [-1, -1, -1, -1]
        > HMGET h a b c d
        ["9", "9", "9", "9"]
        > HLEN h
        5
    "#]]);
}

#[test]
fn persisting_or_expiring_an_expired_field() {
    check(expect![[r#"
        > HSET h a 1 b 2
        2
        > HPEXPIRE h 20 FIELDS 1 a
        [1]
        @wait 40
        > HPERSIST h FIELDS 1 a
        [-2]
        @may-differ redis its expiry cycle may have deleted the field by then
        > HEXPIRE h 100 FIELDS 1 a
        [-2]
        @may-differ redis its expiry cycle may have deleted the field by then
        > HEXPIRE h 0 FIELDS 1 a
        [-2]
        > HTTL h FIELDS 1 a
        [-2]
        > HGETEX h EX 100 FIELDS 2 a b
        [$-1, "2"]
        > HTTL h FIELDS 2 a b
        [-2, 100]
    "#]]);
}

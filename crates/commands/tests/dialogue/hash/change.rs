//! `HSET`, `HMSET`, `HSETNX`, `HDEL`, `HINCRBY` and `HINCRBYFLOAT`

use expect_test::expect;

use crate::check::check;

#[test]
fn fields_are_set_and_counted() {
    check(expect![[r#"
        > HSET h a 1
        1
        > HSET h a 2 b x
        1
        > HSET h c 3 c 4
        1
        > HGET h c
        "4"
        > HLEN h
        3
        > HSET h a
        -ERR wrong number of arguments for 'hset' command
        > HSET h
        -ERR wrong number of arguments for 'hset' command
        > HSET h a 1 b
        -ERR wrong number of arguments for 'hset' command
        > HMSET h d 5 e 6
        +OK
        > HMSET h d
        -ERR wrong number of arguments for 'hmset' command
        > HMSET h d 5 e
        -ERR wrong number of arguments for 'hmset' command
        @inspect h
        listpack
        > HGETALL h
        ["a", "2", "b", "x", "c", "4", "d", "5", "e", "6"]
        > SET s x
        +OK
        > HSET s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HMSET s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > HSET h z 1
        1
        > HMSET h z 1
        +OK
    "#]]);
}

#[test]
fn empty_and_binary_fields_are_fields() {
    check(expect![[r#"
        > HSET h "" ""
        1
        > HGET h ""
        ""
        > HSET h "a\x00b" "\xff\x00"
        1
        > HGET h "a\x00b"
        "\xff\x00"
        > HSTRLEN h "a\x00b"
        2
        > HEXISTS h ""
        1
        > HDEL h ""
        1
        > HLEN h
        1
    "#]]);
}

#[test]
fn encodings() {
    check(expect![[r#"
        > HSET h a 1
        1
        @inspect h
        listpack
        > HSET h a {x*64}
        0
        @inspect h
        listpack
        > HSET h a {x*65}
        0
        @inspect h
        hashtable
        > HSET h a 1
        0
        @inspect h
        hashtable
        > DEL h
        1
        > HSET h {f*65} 1
        1
        @inspect h
        hashtable
        @config hash-max-listpack-entries 3
        > DEL h
        1
        > HSET h a 1 b 2 c 3
        3
        @inspect h
        listpack
        > HSET h d 4
        1
        @inspect h
        hashtable
        > HDEL h d c
        2
        @inspect h
        hashtable
        > DEL h
        1
        > HSET h a 1 a 2 a 3 a 4
        1
        @inspect h
        hashtable
        @config hash-max-listpack-value 2
        > DEL h
        1
        > HSETNX h a xyz
        1
        @inspect h
        hashtable
        > DEL h
        1
        > HSET h a 99
        1
        > HINCRBY h a 1
        100
        @inspect h
        hashtable
        > DEL h
        1
        > HINCRBYFLOAT h a 1.25
        "1.25"
        @inspect h
        hashtable
        > COPY h g
        1
        @inspect g
        hashtable
        > RENAME g f
        +OK
        @inspect f
        hashtable
    "#]]);
}

#[test]
fn hsetnx() {
    check(expect![[r#"
        > HSETNX h a 1
        1
        > HSETNX h a 2
        0
        > HGET h a
        "1"
        > HSETNX h b 2
        1
        > HLEN h
        2
        > SET s x
        +OK
        > HSETNX s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HSETNX h a
        -ERR wrong number of arguments for 'hsetnx' command
    "#]]);
}

#[test]
fn hdel_and_the_last_field() {
    check(expect![[r#"
        > HDEL h a
        0
        > HSET h a 1 b 2 c 3
        3
        > HDEL h x
        0
        > HDEL h a a x
        1
        > HDEL h b c
        2
        > EXISTS h
        0
        > SET s x
        +OK
        > HDEL s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HDEL h
        -ERR wrong number of arguments for 'hdel' command
        > HSET h {v*70} 1
        1
        > HDEL h {v*70}
        1
        > EXISTS h
        0
    "#]]);
}

#[test]
fn hincrby() {
    check(expect![[r#"
        > HINCRBY h a 5
        5
        > HINCRBY h a -7
        -2
        > HSET h b x c " 1" d 9223372036854775807 e -9223372036854775808 f 12345678901234567890
        5
        > HINCRBY h b 1
        -ERR hash value is not an integer
        > HINCRBY h c 1
        -ERR hash value is not an integer
        > HINCRBY h d 1
        -ERR increment or decrement would overflow
        > HINCRBY h e -1
        -ERR increment or decrement would overflow
        > HINCRBY h f 1
        -ERR hash value is not an integer
        > HINCRBY h a 1.5
        -ERR value is not an integer or out of range
        > HINCRBY h a x
        -ERR value is not an integer or out of range
        > HINCRBY h a 9223372036854775808
        -ERR value is not an integer or out of range
        > HINCRBY new a x
        -ERR value is not an integer or out of range
        > EXISTS new
        0
        > HSET h g 007
        1
        > HINCRBY h g 1
        -ERR hash value is not an integer
        > SET s x
        +OK
        > HINCRBY s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HINCRBY h a
        -ERR wrong number of arguments for 'hincrby' command
        > HSET h {f*70} 10
        1
        > HINCRBY h {f*70} 5
        15
        > HGET h {f*70}
        "15"
    "#]]);
}

#[test]
fn hincrbyfloat() {
    check(expect![[r#"
        > HINCRBYFLOAT h a 1.5
        "1.5"
        > HINCRBYFLOAT h a 1.5
        "3"
        > HGET h a
        "3"
        > HINCRBYFLOAT h a -3
        "0"
        > HINCRBYFLOAT h a 5.0e3
        "5000"
        > HINCRBYFLOAT h a x
        -ERR value is not a valid float
        > HINCRBYFLOAT h a nan
        -ERR value is not a valid float
        > HINCRBYFLOAT h a inf
        -ERR value is NaN or Infinity
        > HINCRBYFLOAT h a -inf
        -ERR value is NaN or Infinity
        > HSET h b x c " 1" d 1e300
        3
        > HINCRBYFLOAT h b 1
        -ERR hash value is not a float
        > HINCRBYFLOAT h c 1
        -ERR hash value is not a float
        > HINCRBYFLOAT h d 1e300
        "20000000000000000000"...(301)
        > HINCRBYFLOAT h e 0.1
        "0.1"
        > HINCRBYFLOAT h e 0.2
        "0.3"
        > HSET h f 1e4932
        1
        > HINCRBYFLOAT h f 1.18e4932
        -ERR increment would produce NaN or Infinity
        > HINCRBYFLOAT h g 3.0e-5
        "0.00003"
        > SET s x
        +OK
        > HINCRBYFLOAT s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > HINCRBYFLOAT h a 1
        "5001"
    "#]]);
}

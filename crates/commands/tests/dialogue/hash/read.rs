//! `HGET`, `HMGET`, `HGETALL`, `HKEYS`, `HVALS`, `HLEN`, `HSTRLEN` and `HEXISTS`

use expect_test::expect;

use crate::check::check;

#[test]
fn single_fields() {
    check(expect![[r#"
        > HGET h a
        $-1
        > HSET h a 1 b -17 c text
        3
        > HGET h a
        "1"
        > HGET h b
        "-17"
        > HGET h c
        "text"
        > HGET h d
        $-1
        > HSTRLEN h a
        1
        > HSTRLEN h b
        3
        > HSTRLEN h c
        4
        > HSTRLEN h d
        0
        > HSTRLEN g d
        0
        > HEXISTS h a
        1
        > HEXISTS h d
        0
        > HEXISTS g d
        0
        > HLEN g
        0
        > SET s x
        +OK
        > HGET s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HSTRLEN s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HEXISTS s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HLEN s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HGET h
        -ERR wrong number of arguments for 'hget' command
        > HSTRLEN h
        -ERR wrong number of arguments for 'hstrlen' command
        > HEXISTS h
        -ERR wrong number of arguments for 'hexists' command
        > HLEN
        -ERR wrong number of arguments for 'hlen' command
        @resp3
        > HGET h a
        "1"
        > HGET h d
        _
        > HGET g d
        _
    "#]]);
}

#[test]
fn several_fields() {
    check(expect![[r#"
        > HMGET h a b
        [$-1, $-1]
        > HSET h a 1 b 2
        2
        > HMGET h a x b a
        ["1", $-1, "2", "1"]
        > SET s x
        +OK
        > HMGET s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HMGET h
        -ERR wrong number of arguments for 'hmget' command
        @resp3
        > HMGET h a x
        ["1", _]
        > HMGET g a x
        [_, _]
    "#]]);
}

#[test]
fn all_of_them() {
    check(expect![[r#"
        > HGETALL h
        []
        > HKEYS h
        []
        > HVALS h
        []
        > HSET h a 1 b two c ""
        3
        > HGETALL h
        ["a", "1", "b", "two", "c", ""]
        > HKEYS h
        ["a", "b", "c"]
        > HVALS h
        ["1", "two", ""]
        > HSET g {f*65} 1
        1
        > HGETALL g
        ["fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "1"]
        > HKEYS g
        ["fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"]
        > HVALS g
        ["1"]
        > SET s x
        +OK
        > HGETALL s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HKEYS s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HVALS s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HGETALL h h
        -ERR wrong number of arguments for 'hgetall' command
        @resp3
        > HGETALL h
        {"a": "1", "b": "two", "c": ""}
        > HKEYS h
        ["a", "b", "c"]
        > HVALS h
        ["1", "two", ""]
        > HGETALL none
        {}
        > HKEYS none
        []
        > HVALS none
        []
    "#]]);
}

#[test]
fn fields_that_expire_are_not_shown() {
    check(expect![[r#"
        > HSET h a 1 b 2
        2
        > HPEXPIRE h 20 FIELDS 1 a
        [1]
        > HMGET h a b
        ["1", "2"]
        @wait 40
        > HGETALL h
        ["b", "2"]
        > HKEYS h
        ["b"]
        > HVALS h
        ["2"]
        > HGET h a
        $-1
        > HMGET h a b
        [$-1, "2"]
        > HEXISTS h a
        0
        > HSTRLEN h a
        0
        > HDEL h a
        0
        > HGETDEL h FIELDS 1 a
        [$-1]
        > HRANDFIELD h
        "b"
        > HRANDFIELD h 5
        ["b"]
        > HSCAN h 0
        ["0", ["b", "2"]]
        @resp3
        > HGETALL h
        {"b": "2"}
        > HKEYS h
        ["b"]
        > HRANDFIELD h 5 WITHVALUES
        [["b", "2"]]
    "#]]);
}

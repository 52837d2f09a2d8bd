//! `HRANDFIELD` and `HSCAN`

use expect_test::expect;

use crate::check::check;

#[test]
fn hrandfield() {
    check(expect![[r#"
        > HRANDFIELD h
        $-1
        > HRANDFIELD h 3
        []
        > HRANDFIELD h 3 WITHVALUES
        []
        > HSET h a 1
        1
        > HRANDFIELD h
        "a"
        > HRANDFIELD h 0
        []
        > HRANDFIELD h 5
        ["a"]
        > HRANDFIELD h -3
        ["a", "a", "a"]
        > HRANDFIELD h 5 WITHVALUES
        ["a", "1"]
        > HRANDFIELD h -2 WITHVALUES
        ["a", "1", "a", "1"]
        > HRANDFIELD h x
        -ERR value is not an integer or out of range
        > HRANDFIELD h 1 foo
        -ERR syntax error
        > HRANDFIELD h 1 WITHVALUES x
        -ERR syntax error
        > HRANDFIELD h -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        > HRANDFIELD h -9223372036854775807 WITHVALUES
        -ERR value is out of range
        > HRANDFIELD h 9223372036854775807 WITHVALUES
        -ERR value is out of range
        > HRANDFIELD h 9223372036854775807
        ["a"]
        > SET s x
        +OK
        > HRANDFIELD s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HRANDFIELD s 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HSET h b 2 c 3
        2
        > HRANDFIELD h 3
        ["a", "b", "c"]
        @resp3
        > HRANDFIELD none
        _
        > HRANDFIELD none 1
        []
        > HDEL h b c
        2
        > HRANDFIELD h 1 WITHVALUES
        [["a", "1"]]
        > HRANDFIELD h -2 WITHVALUES
        [["a", "1"], ["a", "1"]]
        > HRANDFIELD h -2
        ["a", "a"]
    "#]]);
}

#[test]
fn hscan() {
    check(expect![[r#"
        > HSCAN h 0
        ["0", []]
        > HSET h a 1 b 2 ab 3
        3
        > HSCAN h 0
        ["0", ["a", "1", "b", "2", "ab", "3"]]
        > HSCAN h 0 MATCH a*
        ["0", ["a", "1", "ab", "3"]]
        > HSCAN h 0 MATCH *
        ["0", ["a", "1", "b", "2", "ab", "3"]]
        > HSCAN h 0 COUNT 1
        ["0", ["a", "1", "b", "2", "ab", "3"]]
        > HSCAN h 0 NOVALUES
        ["0", ["a", "b", "ab"]]
        > HSCAN h 0 NOVALUES MATCH *b COUNT 100
        ["0", ["b", "ab"]]
        > HSCAN h 0 COUNT 0
        -ERR syntax error
        > HSCAN h 0 COUNT x
        -ERR value is not an integer or out of range
        > HSCAN h 0 COUNT
        -ERR syntax error
        > HSCAN h 0 FOO
        -ERR syntax error
        > HSCAN h 0 TYPE hash
        -ERR syntax error
        @differs redis its error text differs
        > HSCAN h 0 NOSCORES
        -ERR NOSCORES option can only be used in ZSCAN
        > HSCAN h x
        -ERR invalid cursor
        > HSCAN g x
        -ERR invalid cursor
        > HSCAN g 0 FOO
        ["0", []]
        > SET s x
        +OK
        > HSCAN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > HSCAN h
        -ERR wrong number of arguments for 'hscan' command
        @resp3
        > HSCAN h 0
        ["0", ["a", "1", "b", "2", "ab", "3"]]
        > HSCAN h 0 NOVALUES
        ["0", ["a", "b", "ab"]]
        > HSCAN g 0
        ["0", []]
    "#]]);
}

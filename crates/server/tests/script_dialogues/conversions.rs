//! Values of Lua become replies, and replies values of Lua.

use expect_test::expect;

use crate::check::check;

#[test]
fn values_become_replies_in_resp2() {
    check(expect![[r#"
        > EVAL "return {1, 2.9, -2.9, 'x', true, false}" 0
        [1, 2, -2, "x", 1, $-1]
        > EVAL "return {1, nil, 3}" 0
        [1]
        > EVAL "return {ok = 'fine'}" 0
        +fine
        > EVAL "return {err = 'CODE no'}" 0
        -CODE no
        > EVAL "return {{err = 'CODE no'}, {ok = 'fine'}}" 0
        [-CODE no, +fine]
        > EVAL "return {err = 5}" 0
        []
        > EVAL "return {double = 1.5}" 0
        "1.5"
        > EVAL "return {map = {a = 1}}" 0
        ["a", 1]
        > EVAL "return {set = {a = true}}" 0
        ["a"]
        > EVAL "return {big_number = '123'}" 0
        "123"
        > EVAL "return {verbatim_string = {format = 'txt', string = 'hi'}}" 0
        "hi"
        > EVAL "return true" 0
        1
        > EVAL "return false" 0
        $-1
        > EVAL "return nil" 0
        $-1
        > EVAL "return" 0
        $-1
        > EVAL "return 1e20" 0
        -9223372036854775808
        > EVAL "return function() end" 0
        $-1
        > EVAL "return {}" 0
        []
        > EVAL "return {a = 1}" 0
        []
        > EVAL "return 1, 2, 3" 0
        1
        > EVAL "return {KEYS, ARGV}" 2 a b c
        [["a", "b"], ["c"]]
        > EVAL "redis.setresp(3) return {true, false}" 0
        [1, 0]
    "#]]);
}

#[test]
fn values_become_replies_in_resp3() {
    check(expect![[r#"
        @resp3
        > EVAL "return {1, 2.9, -2.9, 'x', true, false}" 0
        [1, 2, -2, "x", 1, _]
        > EVAL "return {ok = 'fine'}" 0
        +fine
        > EVAL "return {err = 'CODE no'}" 0
        -CODE no
        > EVAL "return {double = 1.5}" 0
        ,1.5
        > EVAL "return {map = {a = 1}}" 0
        {"a": 1}
        > EVAL "return {set = {a = true}}" 0
        ~["a"]
        > EVAL "return {big_number = '123'}" 0
        (123
        > EVAL "return {verbatim_string = {format = 'txt', string = 'hi'}}" 0
        txt:"hi"
        > EVAL "return {verbatim_string = {format = 'x', string = 'hi'}}" 0
        x  :"hi"
        > EVAL "return true" 0
        1
        > EVAL "return false" 0
        _
        > EVAL "return nil" 0
        _
        > EVAL "redis.setresp(3) return {true, false}" 0
        [#t, #f]
        > EVAL "redis.setresp(3) return nil" 0
        _
    "#]]);
}

#[test]
fn replies_become_values() {
    check(expect![[r#"
        > HSET hash field value
        1
        > ZADD zset 1.5 member
        1
        > SADD set member
        1
        > RPUSH list a b
        2
        > EVAL "return redis.call('TYPE', KEYS[1]).ok" 1 list
        "list"
        > EVAL "return redis.call('GET', 'nothing') == false" 0
        1
        > EVAL "return redis.call('LRANGE', KEYS[1], 0, -1)[2]" 1 list
        "b"
        > EVAL "return redis.call('HGETALL', KEYS[1])" 1 hash
        ["field", "value"]
        > EVAL "return redis.call('ZSCORE', KEYS[1], 'member')" 1 zset
        "1.5"
        > EVAL "return redis.call('SISMEMBER', KEYS[1], 'member')" 1 set
        1
        > EVAL "return redis.pcall('INCR', KEYS[1]).err" 1 list
        "WRONGTYPE Operation against a key holding the wrong kind of value"
        > EVAL "redis.setresp(3) return redis.call('GET', 'nothing') == nil" 0
        1
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1]).map.field" 1 hash
        "value"
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1])" 1 hash
        ["field", "value"]
        > EVAL "redis.setresp(3) return tostring(redis.call('ZSCORE', KEYS[1], 'member').double)" 1 zset
        "1.5"
        > EVAL "redis.setresp(3) return redis.call('SMEMBERS', KEYS[1]).set.member" 1 set
        1
        @resp3
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1])" 1 hash
        {"field": "value"}
        > EVAL "redis.setresp(3) return redis.call('SMEMBERS', KEYS[1])" 1 set
        ~["member"]
        > EVAL "redis.setresp(3) return redis.call('ZSCORE', KEYS[1], 'member')" 1 zset
        ,1.5
        > EVAL "return redis.call('HGETALL', KEYS[1])" 1 hash
        ["field", "value"]
    "#]]);
}

#[test]
fn numbers_become_arguments() {
    check(expect![[r#"
        > EVAL "return redis.call('ECHO', 12)" 0
        "12"
        > EVAL "return redis.call('ECHO', -12.5)" 0
        "-12.5"
        > EVAL "return redis.call('ECHO', 1e15)" 0
        "1000000000000000"
        > EVAL "return redis.call('ECHO', 2^53)" 0
        "9007199254740992"
        > EVAL "return redis.call('ECHO', 1e20)" 0
        "1e+20"
        > EVAL "return redis.call('ECHO', 0.1)" 0
        "0.1"
    "#]]);
}

//! Values of Lua become replies, and replies values of Lua.

use expect_test::expect;

use crate::check::check;

#[test]
fn values_become_replies_in_resp2() {
    check(expect![[r#"
        > EVAL "return {1, 2.9, -2.9, 'x', true, false}" 0
        > EVAL "return {1, nil, 3}" 0
        > EVAL "return {ok = 'fine'}" 0
        > EVAL "return {err = 'CODE no'}" 0
        > EVAL "return {{err = 'CODE no'}, {ok = 'fine'}}" 0
        > EVAL "return {err = 5}" 0
        > EVAL "return {double = 1.5}" 0
        > EVAL "return {map = {a = 1}}" 0
        > EVAL "return {set = {a = true}}" 0
        > EVAL "return {big_number = '123'}" 0
        > EVAL "return {verbatim_string = {format = 'txt', string = 'hi'}}" 0
        > EVAL "return true" 0
        > EVAL "return false" 0
        > EVAL "return nil" 0
        > EVAL "return" 0
        > EVAL "return 1e20" 0
        > EVAL "return function() end" 0
        > EVAL "return {}" 0
        > EVAL "return {a = 1}" 0
        > EVAL "return 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25" 0
        > EVAL "return {KEYS, ARGV}" 2 a b c
        > EVAL "redis.setresp(3) return {true, false}" 0
    "#]]);
}

#[test]
fn values_become_replies_in_resp3() {
    check(expect![[r#"
        @resp3
        > EVAL "return {1, 2.9, -2.9, 'x', true, false}" 0
        > EVAL "return {ok = 'fine'}" 0
        > EVAL "return {err = 'CODE no'}" 0
        > EVAL "return {double = 1.5}" 0
        > EVAL "return {map = {a = 1}}" 0
        > EVAL "return {set = {a = true}}" 0
        > EVAL "return {big_number = '123'}" 0
        > EVAL "return {verbatim_string = {format = 'txt', string = 'hi'}}" 0
        > EVAL "return {verbatim_string = {format = 'x', string = 'hi'}}" 0
        > EVAL "return true" 0
        > EVAL "return false" 0
        > EVAL "return nil" 0
        > EVAL "redis.setresp(3) return {true, false}" 0
        > EVAL "redis.setresp(3) return nil" 0
    "#]]);
}

#[test]
fn replies_become_values() {
    check(expect![[r#"
        > HSET hash field value
        > ZADD zset 1.5 member
        > SADD set member
        > RPUSH list a b
        > EVAL "return redis.call('TYPE', KEYS[1]).ok" 1 list
        > EVAL "return redis.call('GET', 'nothing') == false" 0
        > EVAL "return redis.call('LRANGE', KEYS[1], 0, -1)[2]" 1 list
        > EVAL "return redis.call('HGETALL', KEYS[1])" 1 hash
        > EVAL "return redis.call('ZSCORE', KEYS[1], 'member')" 1 zset
        > EVAL "return redis.call('SISMEMBER', KEYS[1], 'member')" 1 set
        > EVAL "return redis.pcall('INCR', KEYS[1]).err" 1 list
        > EVAL "redis.setresp(3) return redis.call('GET', 'nothing') == nil" 0
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1]).map.field" 1 hash
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1])" 1 hash
        > EVAL "redis.setresp(3) return tostring(redis.call('ZSCORE', KEYS[1], 'member').double)" 1 zset
        > EVAL "redis.setresp(3) return redis.call('SMEMBERS', KEYS[1]).set.member" 1 set
        @resp3
        > EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1])" 1 hash
        > EVAL "redis.setresp(3) return redis.call('SMEMBERS', KEYS[1])" 1 set
        > EVAL "redis.setresp(3) return redis.call('ZSCORE', KEYS[1], 'member')" 1 zset
        > EVAL "return redis.call('HGETALL', KEYS[1])" 1 hash
    "#]]);
}

#[test]
fn numbers_become_arguments() {
    check(expect![[r#"
        > EVAL "return redis.call('ECHO', 12)" 0
        > EVAL "return redis.call('ECHO', -12.5)" 0
        > EVAL "return redis.call('ECHO', 1e15)" 0
        > EVAL "return redis.call('ECHO', 2^53)" 0
        > EVAL "return redis.call('ECHO', 1e20)" 0
        > EVAL "return redis.call('ECHO', 0.1)" 0
    "#]]);
}

//! `CONFIG`

use expect_test::expect;

use crate::check::check;

#[test]
fn get() {
    check(expect![[r#"
        > CONFIG GET maxmemory-policy
        ["maxmemory-policy", "noeviction"]
        > CONFIG GET MAXMEMORY-POLICY
        ["MAXMEMORY-POLICY", "noeviction"]
        > CONFIG GET "lfu-*-time"
        ["lfu-decay-time", "1"]
        > CONFIG GET nope
        []
        @may-differ redis it replies in the order of its hash table
        > CONFIG GET timeout nope "tcp-keepali?e"
        ["tcp-keepalive", "300", "timeout", "0"]
        > CONFIG GET
        -ERR wrong number of arguments for 'config|get' command
        @resp3
        > CONFIG GET timeout
        {"timeout": "0"}
        > CONFIG GET nope
        {}
    "#]]);
}

#[test]
fn set() {
    check(expect![[r#"
        > CONFIG SET lfu-decay-time 3
        +OK
        > CONFIG GET lfu-decay-time
        ["lfu-decay-time", "3"]
        > CONFIG SET lfu-decay-time 1 lfu-log-factor 11
        +OK
        @may-differ redis it replies in the order of its hash table
        > CONFIG GET "lfu-*"
        ["lfu-decay-time", "1", "lfu-log-factor", "11"]
        > CONFIG SET lfu-log-factor 10
        +OK
        > CONFIG SET
        -ERR wrong number of arguments for 'config|set' command
        > CONFIG SET lfu-decay-time
        -ERR wrong number of arguments for 'config|set' command
        > CONFIG SET lfu-decay-time 1 lfu-log-factor
        -ERR syntax error
        > CONFIG SET nope 1
        -ERR Unknown option or number of arguments for CONFIG SET - 'nope'
        > CONFIG SET lfu-decay-time -1
        -ERR CONFIG SET failed (possibly related to argument 'lfu-decay-time') - argument must be between 0 and 2147483647 inclusive
        > CONFIG SET lfu-decay-time abc
        -ERR CONFIG SET failed (possibly related to argument 'lfu-decay-time') - argument couldn't be parsed into an integer
        > CONFIG SET lfu-decay-time 2 nope 1
        -ERR Unknown option or number of arguments for CONFIG SET - 'nope'
        > CONFIG SET lfu-decay-time 2 lfu-decay-time 3
        -ERR CONFIG SET failed (possibly related to argument 'lfu-decay-time') - duplicate parameter
        @differs valkey it has fewer policies
        @differs redis it has fewer policies, or names them in another order
        > CONFIG SET maxmemory-policy nope
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lrm, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lrm, allkeys-lfu, allkeys-random, noeviction
        > CONFIG SET appendonly maybe
        -ERR CONFIG SET failed (possibly related to argument 'appendonly') - argument must be 'yes' or 'no'
        > CONFIG SET maxmemory-clients 101%
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100
        > CONFIG SET databases 3
        -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config
        > CONFIG SET port 70000
        -ERR CONFIG SET failed (possibly related to argument 'port') - argument must be between 0 and 65535 inclusive
        > CONFIG GET lfu-decay-time
        ["lfu-decay-time", "1"]
    "#]]);
}

#[test]
fn other_subcommands() {
    check(expect![[r#"
        > CONFIG RESETSTAT
        +OK
        > CONFIG RESETSTAT now
        -ERR wrong number of arguments for 'config|resetstat' command
        > CONFIG NOPE
        -ERR unknown subcommand 'NOPE'. Try CONFIG HELP.
        > CONFIG
        -ERR wrong number of arguments for 'config' command
    "#]]);
}

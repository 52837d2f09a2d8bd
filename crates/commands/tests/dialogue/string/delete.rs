//! `DELIFEQ`, `DELEX` and `DIGEST`

use expect_test::expect;

use crate::check::check;

#[test]
fn delifeq() {
    check(expect![[r#"
        @valkey Redis has DELEX instead
        > DELIFEQ k v
        0
        > SET k v
        +OK
        > DELIFEQ k w
        0
        > DELIFEQ k v
        1
        > GET k
        $-1
        > SET k 12
        +OK
        > DELIFEQ k 012
        0
        > DELIFEQ k 12
        1
        > SET k v PX 30
        +OK
        @wait 60
        > DELIFEQ k v
        0
        > DELIFEQ k
        -ERR wrong number of arguments for 'delifeq' command
        > DELIFEQ k v w
        -ERR wrong number of arguments for 'delifeq' command
    "#]]);
}

#[test]
fn delex() {
    check(expect![[r#"
        @redis-8.4 Valkey has DELIFEQ instead
        # Redis has it since 8.4, Valkey has not.
        > DELEX k
        0
        > SET k v
        +OK
        > DELEX k
        1
        > GET k
        $-1
        > SET k v
        +OK
        > DELEX k IFEQ w
        0
        > DELEX k IFNE v
        0
        > DELEX k ifeq v
        1
        > DELEX k IFEQ v
        0
        > DELEX k IFNE v
        0
        > SET k v
        +OK
        > DELEX k IFNE w
        1
        > SET k "Hello world"
        +OK
        > DIGEST k
        "b6acb9d84a38ff74"
        > DELEX k IFDEQ 0123456789abcdef
        0
        > DELEX k IFDNE B6ACB9D84A38FF74
        0
        > DELEX k IFDEQ B6ACB9D84A38FF74
        1
        > SET k v
        +OK
        > DELEX k IFDNE b6acb9d84a38ff74
        1
        > SET k v
        +OK
        > DELEX k IFDEQ 123
        -ERR must be exactly 16 hexadecimal characters
        > DELEX k IFEQ
        -ERR wrong number of arguments for 'delex' command
        > DELEX k IFEQ v w
        -ERR wrong number of arguments for 'delex' command
        > DELEX none IF v
        0
        > DELEX k IF v
        -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        > RPUSH l 1
        1
        > DELEX l IF v
        -ERR Key should be of string type if conditions are specified
        > DELEX
        -ERR wrong number of arguments for 'delex' command
    "#]]);
}

#[test]
fn digest() {
    check(expect![[r#"
        @redis-8.4 Valkey has it not
        # Redis has it since 8.4, Valkey has not. The digests are those in the documentation of Redis and Dragonfly.
        > DIGEST k
        $-1
        > SET k "Hello world"
        +OK
        > DIGEST k
        "b6acb9d84a38ff74"
        > SET k test
        +OK
        > DIGEST k
        "9ec9f7918d7dfc40"
        > SET k "Hello, Dragonfly!"
        +OK
        > DIGEST k
        "063b4909128e92b7"
        > SET k 12
        +OK
        > DIGEST k
        "7ecd2e572c949f74"
        > SET k {x*10000}
        +OK
        > DIGEST k
        "cb763e2ccd065fab"
        > DIGEST
        -ERR wrong number of arguments for 'digest' command
        @resp3
        > DIGEST nothing
        _
    "#]]);
}

//! `EXPIRE` and its variants, `TTL` and its variants, `PERSIST`

use expect_test::expect;

use crate::check::check;

#[test]
fn expire_and_ttl() {
    check(expect![[r#"
        > EXPIRE k 100
        0
        > TTL k
        -2
        > PTTL k
        -2
        > EXPIRETIME k
        -2
        > PEXPIRETIME k
        -2
        > SET k v
        +OK
        > TTL k
        -1
        > PTTL k
        -1
        > EXPIRETIME k
        -1
        > PEXPIRETIME k
        -1
        > EXPIRE k 100
        1
        > TTL k
        100
        > PEXPIRE k 100499
        1
        > TTL k
        100
        > PEXPIRE k 101900
        1
        > TTL k
        102
        > EXPIREAT k 4102444800
        1
        > EXPIRETIME k
        4102444800
        > PEXPIRETIME k
        4102444800000
        > PEXPIREAT k 4102444800499
        1
        > EXPIRETIME k
        4102444800
        > PEXPIRETIME k
        4102444800499
        > PEXPIREAT k 4102444800500
        1
        > EXPIRETIME k
        4102444801
        > PEXPIREAT k 9223372036854775807
        1
        > EXPIRETIME k
        9223372036854776
        > PEXPIRETIME k
        9223372036854775807
        > PERSIST k
        1
        > PERSIST k
        0
        > TTL k
        -1
        > PERSIST nothing
        0
        > GET k
        "v"
    "#]]);
}

#[test]
fn integers_and_long_strings_expire_too() {
    check(expect![[r#"
        > SET i 12
        +OK
        > EXPIRE i 100
        1
        > OBJECT ENCODING i
        "int"
        > GET i
        "12"
        > TTL i
        100
        > PERSIST i
        1
        > GET i
        "12"
        > SET big {x*2000}
        +OK
        > EXPIRE big 100
        1
        > STRLEN big
        2000
        > TTL big
        100
        > PERSIST big
        1
        > STRLEN big
        2000
        > PEXPIRE i 30
        1
        > PEXPIRE big 30
        1
        @wait 60
        > EXISTS i big
        0
        > DBSIZE
        0
    "#]]);
}

#[test]
fn times_in_the_past_delete() {
    check(expect![[r#"
        > SET k v
        +OK
        > EXPIRE k 0
        1
        > EXISTS k
        0
        > SET k v
        +OK
        > EXPIRE k -100
        1
        > EXISTS k
        0
        > SET k v
        +OK
        > PEXPIRE k -1
        1
        > EXISTS k
        0
        > SET k v
        +OK
        > EXPIREAT k 1000
        1
        > EXISTS k
        0
        > SET k v
        +OK
        > PEXPIREAT k -9223372036854775808
        1
        > EXISTS k
        0
        > SET k v
        +OK
        > EXPIREAT k -1
        1
        > EXISTS k
        0
        > EXPIRE k -1
        0
        > SET k v
        +OK
        > EXPIRE k -1 GT
        0
        > EXISTS k
        1
        > EXPIRE k -1 XX
        0
        > EXPIRE k -1 LT
        1
        > EXISTS k
        0
    "#]]);
}

#[test]
fn conditions() {
    check(expect![[r#"
        > SET k v
        +OK
        > EXPIRE k 100 XX
        0
        > EXPIRE k 100 GT
        0
        > TTL k
        -1
        > EXPIRE k 100 NX
        1
        > EXPIRE k 200 NX
        0
        > TTL k
        100
        > EXPIRE k 50 GT
        0
        > EXPIRE k 300 gt
        1
        > TTL k
        300
        > EXPIRE k 400 LT
        0
        > EXPIRE k 200 lt
        1
        > TTL k
        200
        > EXPIRE k 500 XX
        1
        > TTL k
        500
        > EXPIRE k 400 XX GT
        0
        > EXPIRE k 600 XX GT
        1
        > TTL k
        600
        > EXPIRE k 300 XX LT XX
        1
        > TTL k
        300
        > PERSIST k
        1
        > EXPIRE k 100 XX LT
        0
        > EXPIRE k 100 LT
        1
        > TTL k
        100
        > PEXPIRE k 200000 GT
        1
        > EXPIREAT k 4102444800 GT
        1
        > PEXPIREAT k 4102444800000 GT
        0
        > PEXPIREAT k 4102444799999 LT
        1
        > EXPIRETIME k
        4102444800
        > EXPIRE nothing 100 NX
        0
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        > SET k v
        +OK
        > EXPIRE k
        -ERR wrong number of arguments for 'expire' command
        > EXPIRE k x
        -ERR value is not an integer or out of range
        > EXPIRE k 1.5
        -ERR value is not an integer or out of range
        > EXPIRE k ""
        -ERR value is not an integer or out of range
        > EXPIRE k " 1"
        -ERR value is not an integer or out of range
        > EXPIRE k 100 AB
        -ERR Unsupported option AB
        > EXPIRE k 100 XX AB
        -ERR Unsupported option AB
        > EXPIRE k 100 NX XX
        -ERR NX and XX, GT or LT options at the same time are not compatible
        > EXPIRE k 100 NX GT
        -ERR NX and XX, GT or LT options at the same time are not compatible
        > EXPIRE k 100 LT NX
        -ERR NX and XX, GT or LT options at the same time are not compatible
        > EXPIRE k 100 GT LT
        -ERR GT and LT options at the same time are not compatible
        > EXPIRE k x GT LT
        -ERR GT and LT options at the same time are not compatible
        > EXPIRE k 9223372036854775807
        -ERR invalid expire time in 'expire' command
        > EXPIRE k 9223372036854776
        -ERR invalid expire time in 'expire' command
        > EXPIRE k -9223372036854776
        -ERR invalid expire time in 'expire' command
        > EXPIRE k -9223372036854775
        1
        > SET k v
        +OK
        > EXPIRE k 9223372036854775
        -ERR invalid expire time in 'expire' command
        > PEXPIRE k 9223372036854775807
        -ERR invalid expire time in 'pexpire' command
        > PEXPIRE k 9223372036854770000
        -ERR invalid expire time in 'pexpire' command
        > EXPIREAT k 9223372036854776
        -ERR invalid expire time in 'expireat' command
        > EXPIREAT k 9223372036854775
        1
        > PTTL nothing
        -2
        > PEXPIREAT k 9223372036854775807
        1
        > PEXPIRETIME k
        9223372036854775807
        > PEXPIREAT k 9223372036854775808
        -ERR value is not an integer or out of range
        > PEXPIRE k
        -ERR wrong number of arguments for 'pexpire' command
        > EXPIREAT k
        -ERR wrong number of arguments for 'expireat' command
        > PEXPIREAT
        -ERR wrong number of arguments for 'pexpireat' command
        > TTL
        -ERR wrong number of arguments for 'ttl' command
        > PTTL a b
        -ERR wrong number of arguments for 'pttl' command
        > EXPIRETIME
        -ERR wrong number of arguments for 'expiretime' command
        > PEXPIRETIME
        -ERR wrong number of arguments for 'pexpiretime' command
        > PERSIST
        -ERR wrong number of arguments for 'persist' command
        > PERSIST a b
        -ERR wrong number of arguments for 'persist' command
        > TTL k x
        -ERR wrong number of arguments for 'ttl' command
    "#]]);
}

#[test]
fn expired_keys_are_absent() {
    check(expect![[r#"
        > SET k v PX 30
        +OK
        @wait 60
        > TTL k
        -2
        > PTTL k
        -2
        > EXPIRETIME k
        -2
        > PEXPIRETIME k
        -2
        > SET k v PX 30
        +OK
        @wait 60
        > EXPIRE k 100
        0
        > SET k v PX 30
        +OK
        @wait 60
        > PERSIST k
        0
        > SET k v PX 30
        +OK
        @wait 60
        > EXPIRE k 100 LT
        0
        > EXISTS k
        0
    "#]]);
}

//! `KEYS`, `SCAN`, `RANDOMKEY` and `DBSIZE`

use expect_test::expect;

use crate::check::check;

#[test]
fn keys() {
    check(expect![[r#"
        > KEYS *
        []
        > SET foo:1 v
        +OK
        > KEYS *
        ["foo:1"]
        > KEYS foo*
        ["foo:1"]
        > KEYS bar*
        []
        > KEYS f??:1
        ["foo:1"]
        > KEYS f?:1
        []
        > KEYS [e-g]oo:[0-9]
        ["foo:1"]
        > KEYS [^f]*
        []
        > KEYS foo\\:1
        []
        > KEYS FOO:1
        []
        > KEYS ""
        []
        > SET "" v
        +OK
        > KEYS ""
        [""]
        > KEYS **
        ["foo:1"]
        > DEL ""
        1
        > SET a*c v
        +OK
        > KEYS a\\*c
        []
        > DEL a*c
        1
        > SET foo:1 v PX 30
        +OK
        @wait 60
        > KEYS *
        []
        > KEYS
        -ERR wrong number of arguments for 'keys' command
        > KEYS a b
        -ERR wrong number of arguments for 'keys' command
    "#]]);
}

#[test]
fn abusive_patterns() {
    check(expect![[r#"
        > SET {a*50000} 1
        +OK
        > KEYS {*?*50000}
        []
        > KEYS {a**30}b
        []
        > KEYS {a*100}*
        []
        > KEYS {[a]*100}*
        []
    "#]]);
}

#[test]
fn dbsize_and_randomkey() {
    check(expect![[r#"
        > DBSIZE
        0
        > RANDOMKEY
        $-1
        > SET k v
        +OK
        > DBSIZE
        1
        > RANDOMKEY
        "k"
        > SET k v PX 30
        +OK
        @wait 60
        > GET k
        $-1
        > DBSIZE
        0
        > RANDOMKEY
        $-1
        > DBSIZE x
        -ERR wrong number of arguments for 'dbsize' command
        > RANDOMKEY x
        -ERR wrong number of arguments for 'randomkey' command
        @resp3
        > RANDOMKEY
        _
    "#]]);
}

#[test]
fn scan_deletes_expired_keys_it_would_return() {
    check(expect![[r#"
        @ours the expiry cycle of a real server may be faster
        # A real server's expiry cycle may be faster.
        > SET stays v
        +OK
        > SET goes v PX 30
        +OK
        > HSET other f v
        1
        > PEXPIRE other 30
        1
        @wait 60
        > SCAN 0 COUNT 100000 MATCH g* TYPE hash
        ["0", []]
        > DBSIZE
        3
        > SCAN 0 COUNT 100000 TYPE string
        ["0", ["stays"]]
        > DBSIZE
        2
        > SCAN 0 COUNT 100000
        ["0", ["stays"]]
        > DBSIZE
        1
    "#]]);
}

#[test]
fn scan() {
    check(expect![[r#"
        > SCAN 0
        ["0", []]
        > SET k v
        +OK
        > SCAN 0 COUNT 100000
        ["0", ["k"]]
        > SCAN 0 COUNT 100000 MATCH k*
        ["0", ["k"]]
        > SCAN 0 COUNT 100000 MATCH x*
        ["0", []]
        > SCAN 0 match * type string count 100000
        ["0", ["k"]]
        > SCAN 0 TYPE list COUNT 100000
        ["0", []]
        > SCAN 0 TYPE STRING COUNT 100000
        ["0", ["k"]]
        > SCAN 0 MATCH x* MATCH k COUNT 1 COUNT 100000
        ["0", ["k"]]
        > SET k v PX 30
        +OK
        @wait 60
        > SCAN 0 COUNT 100000
        ["0", []]
        @resp3
        > SCAN 0 COUNT 100000
        ["0", []]
    "#]]);
}

#[test]
fn invalid_scans() {
    check(expect![[r#"
        @valkey Redis has other error texts
        > SCAN
        -ERR wrong number of arguments for 'scan' command
        > SCAN x
        -ERR invalid cursor
        > SCAN ""
        -ERR invalid cursor
        > SCAN -1
        -ERR invalid cursor
        > SCAN 1.5
        -ERR invalid cursor
        > SCAN 18446744073709551616
        -ERR invalid cursor
        > SCAN 0 COUNT
        -ERR syntax error
        > SCAN 0 COUNT 0
        -ERR syntax error
        > SCAN 0 COUNT -5
        -ERR syntax error
        > SCAN 0 COUNT x
        -ERR value is not an integer or out of range
        > SCAN 0 MATCH
        -ERR syntax error
        > SCAN 0 TYPE
        -ERR syntax error
        > SCAN 0 TYPE nothing
        -ERR unknown type name 'nothing'
        > SCAN 0 TYPE ""
        -ERR unknown type name ''
        > SCAN 0 FOO 1
        -ERR syntax error
        > SCAN 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        > SCAN 0 NOSCORES
        -ERR NOSCORES option can only be used in ZSCAN
        > SCAN 0 COUNT 9223372036854775808
        -ERR value is not an integer or out of range
        > SCAN 0 COUNT 9223372036854775807
        ["0", []]
        > SCAN " 0"
        ["0", []]
        > SCAN +0
        ["0", []]
        > SCAN 00
        ["0", []]
        > SCAN 0x
        -ERR invalid cursor
    "#]]);
}

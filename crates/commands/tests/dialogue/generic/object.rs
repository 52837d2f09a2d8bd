//! `OBJECT`

use expect_test::expect;

use crate::check::check;

#[test]
fn encoding() {
    check(expect![[r#"
        > OBJECT ENCODING k
        $-1
        > SET k v
        +OK
        > OBJECT ENCODING k
        "embstr"
        > SET k 12
        +OK
        > OBJECT ENCODING k
        "int"
        > SET k 9223372036854775807
        +OK
        > OBJECT ENCODING k
        "int"
        > SET k 9223372036854775808
        +OK
        > OBJECT ENCODING k
        "embstr"
        > SET k 012
        +OK
        > OBJECT ENCODING k
        "embstr"
        > APPEND k x
        4
        > OBJECT ENCODING k
        "raw"
        > SET k {x*5000}
        +OK
        > OBJECT ENCODING k
        "raw"
        > SETBIT bits 1 1
        0
        > OBJECT ENCODING bits
        "raw"
        > SET k v PX 30
        +OK
        @wait 60
        > OBJECT ENCODING k
        $-1
        @resp3
        > OBJECT ENCODING k
        _
    "#]]);
}

#[test]
fn idletime_freq_refcount() {
    check(expect![[r#"
        > OBJECT IDLETIME k
        $-1
        > OBJECT FREQ k
        $-1
        > OBJECT REFCOUNT k
        $-1
        > SET k v
        +OK
        > OBJECT IDLETIME k
        0
        > OBJECT FREQ k
        -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
        > OBJECT REFCOUNT k
        1
        > object refcount k
        1
        @resp3
        > OBJECT IDLETIME nothing
        _
        > OBJECT FREQ nothing
        _
        > OBJECT REFCOUNT nothing
        _
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        > OBJECT
        -ERR wrong number of arguments for 'object' command
        > OBJECT FOO
        -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        > OBJECT FOO k
        -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        > OBJECT ENCODING
        -ERR wrong number of arguments for 'object|encoding' command
        > OBJECT ENCODING k x
        -ERR wrong number of arguments for 'object|encoding' command
        > OBJECT HELP x
        -ERR wrong number of arguments for 'object|help' command
        > OBJECT FREQ
        -ERR wrong number of arguments for 'object|freq' command
        > OBJECT IDLETIME
        -ERR wrong number of arguments for 'object|idletime' command
        > OBJECT REFCOUNT
        -ERR wrong number of arguments for 'object|refcount' command
    "#]]);
}

/// Valkey 9 decides by the total size of key, expiry and value; Redis by the value alone.
#[test]
fn embedded_strings() {
    check(expect![[r#"
        @valkey Redis embeds up to 44 bytes
        > SET k {v*112}
        +OK
        > OBJECT ENCODING k
        "embstr"
        > SET k {v*113}
        +OK
        > OBJECT ENCODING k
        "raw"
        > SET k {v*104} EX 100
        +OK
        > OBJECT ENCODING k
        "embstr"
        > SET k {v*105} EX 100
        +OK
        > OBJECT ENCODING k
        "raw"
        > SET {k*31} {v*82}
        +OK
        > OBJECT ENCODING {k*31}
        "embstr"
        > SET {k*31} {v*83}
        +OK
        > OBJECT ENCODING {k*31}
        "raw"
        > SET {k*32} {v*79}
        +OK
        > OBJECT ENCODING {k*32}
        "embstr"
        > SET {k*32} {v*80}
        +OK
        > OBJECT ENCODING {k*32}
        "raw"
        > SET {k*120} v
        +OK
        > OBJECT ENCODING {k*120}
        "raw"
    "#]]);
}

//! `DUMP`, `RESTORE`, `RESTORE-ASKING`. The payloads have versions that every server can read.

use expect_test::expect;

use crate::check::check;

#[test]
fn a_value_is_restored() {
    check(expect![[r#"
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04"
        +OK
        > GET k
        "foo"
        > TTL k
        -1
        > RESTORE k 100000 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE
        +OK
        @inspect k
        embstr, 100000 ms
        > RESTORE k 4102444800000 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE ABSTTL
        +OK
        > PEXPIRETIME k
        4102444800000
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE ABSTTL
        +OK
        > TTL k
        -1
        > RESTORE-ASKING k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE
        +OK
        > restore k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" replace absttl
        +OK
        > GET k
        "foo"
        @resp3
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE
        +OK
        > DUMP nothing
        _
    "#]]);
}

#[test]
fn a_dump_is_null_without_a_key() {
    check(expect![[r#"
        > DUMP k
        $-1
        > DUMP
        -ERR wrong number of arguments for 'dump' command
        > DUMP k k
        -ERR wrong number of arguments for 'dump' command
        > RESTORE k 0
        -ERR wrong number of arguments for 'restore' command
        > RESTORE-ASKING k 0
        -ERR wrong number of arguments for 'restore-asking' command
        @resp3
        > DUMP k
        _
    "#]]);
}

#[test]
fn a_present_key_is_kept() {
    check(expect![[r#"
        > SET k v
        +OK
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04"
        -BUSYKEY Target key name already exists.
        > RESTORE k bad bad
        -BUSYKEY Target key name already exists.
        > RESTORE k bad bad REPLACE
        -ERR value is not an integer or out of range
        > GET k
        "v"
        > DEL k
        1
        > SET k v PX 30
        +OK
        @wait 60
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04"
        +OK
        > GET k
        "foo"
    "#]]);
}

#[test]
fn an_expiry_in_the_past_deletes() {
    check(expect![[r#"
        > RESTORE k 1000 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" ABSTTL
        +OK
        > EXISTS k
        0
        > SET k v
        +OK
        > RESTORE k 1000 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" ABSTTL
        -BUSYKEY Target key name already exists.
        > GET k
        "v"
        > RESTORE k 1000 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" ABSTTL REPLACE
        +OK
        > EXISTS k
        0
        > RESTORE k 9223372036854775807 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" ABSTTL
        +OK
        > PEXPIRETIME k
        9223372036854775807
    "#]]);
}

#[test]
fn options() {
    check(expect![[r#"
        > RESTORE k -1 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04"
        -ERR Invalid TTL value, must be >= 0
        > RESTORE k x "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04"
        -ERR value is not an integer or out of range
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" WORD
        -ERR syntax error
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" IDLETIME
        -ERR syntax error
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" FREQ
        -ERR syntax error
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" IDLETIME x
        -ERR value is not an integer or out of range
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" IDLETIME -1
        -ERR Invalid IDLETIME value, must be >= 0
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" FREQ x
        -ERR value is not an integer or out of range
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" FREQ -1
        -ERR Invalid FREQ value, must be >= 0 and <= 255
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" FREQ 256
        -ERR Invalid FREQ value, must be >= 0 and <= 255
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" FREQ 1 IDLETIME 1
        -ERR syntax error
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" IDLETIME 1 FREQ 1
        -ERR syntax error
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" IDLETIME 1000
        +OK
        > OBJECT IDLETIME k
        1000
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE FREQ 200
        +OK
        > OBJECT IDLETIME k
        0
    "#]]);
}

#[test]
fn payloads_of_another_version_or_checksum_are_refused() {
    check(expect![[r#"
        > RESTORE k 0 ""
        -ERR DUMP payload version or checksum are wrong
        > RESTORE k 0 abc
        -ERR DUMP payload version or checksum are wrong
        > RESTORE k 0 "\x00\x03foo\xff\x7fCQE\xe6?X\x13\xa0"
        -ERR DUMP payload version or checksum are wrong
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x05"
        -ERR DUMP payload version or checksum are wrong
        > EXISTS k
        0
    "#]]);
}

#[test]
fn a_hash_with_a_repeated_field_or_without_a_value_is_refused() {
    check(expect![[r##"
        @valkey Redis accepts both
        > RESTORE k 0 "\x04\x02\x01f\x01v\x01f\x01w\x09\x00rY1w[E\x9ev"
        -ERR Bad data format
        > RESTORE k 0 "\x10\x10\x10\x00\x00\x00\x03\x00\x81f\x02\x81v\x02\x81g\x02\xff\x0a\x00P\xc3&\xb8U\x83\xbe:"
        -ERR Bad data format
    "##]]);
}

#[test]
fn malformed_values_are_refused() {
    check(expect![[r##"
        # no type
        > RESTORE k 0 "\x09\x00\x8di\x0d\x8c[\xf9\xc1k"
        -ERR Bad data format
        # unknown type
        > RESTORE k 0 "\x1e\x01a\x09\x00\xed\xdd\x1c\xd8\xa1\xd5\xdf\x15"
        -ERR Bad data format
        # module
        > RESTORE k 0 "\x07\x01\x00\x09\x00\xd1\x19\x04\xc2\x8a)>l"
        -ERR Bad data format
        # cut string
        > RESTORE k 0 "\x00?abc\x09\x00%\xad?\x9c\xac\x93\xd8\x93"
        -ERR Bad data format
        # reserved length
        > RESTORE k 0 "\x00\x82\x09\x00\x9b\xad\x8f]\x8c!\xe4y"
        -ERR Bad data format
        # string lzf too long
        > RESTORE k 0 "\x00\xc3\x05\x1f\x00a\xe0\x14\x00\x09\x00\x98\xe5\x9f\x9d\xa2\xbe\x06#"
        -ERR Bad data format
        # empty list
        > RESTORE k 0 "\x01\x00\x09\x00\x8b\x0at\x008\x91 \xe7"
        -ERR Bad data format
        # empty set
        > RESTORE k 0 "\x02\x00\x09\x00\xea<h\xcc\xcf\x0fZY"
        -ERR Bad data format
        # empty hash
        > RESTORE k 0 "\x04\x00\x09\x00C\xc3\xc7\x0cs\x14\xf6\x0e"
        -ERR Bad data format
        # empty zset
        > RESTORE k 0 "\x05\x00\x09\x00E\xa0\xbe\x80\x10|\x17\x82"
        -ERR Bad data format
        # duplicate member
        > RESTORE k 0 "\x02\x02\x01a\x01a\x09\x00\x87L'\xe3\x96P1\x8b"
        -ERR Bad data format
        # duplicate in zset
        > RESTORE k 0 "\x05\x02\x01a\x00\x00\x00\x00\x00\x00\x04@\x01a\x00\x00\x00\x00\x00\x00\x08@\x09\x00\x91g\xb0\xb08'\x98\xb4"
        -ERR Bad data format
        # nan
        > RESTORE k 0 "\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f\x09\x00 \x0bxeR\xd2:\x96"
        -ERR Bad data format
        # wrong ziplist size
        > RESTORE k 0 "\x0a\x0e\x10\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x01a\xff\x09\x00\x04\xf1\x0c\xdaB6\xe3\x92"
        -ERR Bad data format
        # cut intset
        > RESTORE k 0 "\x0b\x0c\x02\x00\x00\x00\x03\x00\x00\x00\xfd\xff\x07\x00\x09\x00;\x03\xb3Jz<\x12\x15"
        -ERR Bad data format
        # unknown container
        > RESTORE k 0 "\x12\x01\x03\x05plain\x0a\x00 \x0f`\xde=\xad\x7do"
        -ERR Bad data format
        # pending entry without consumer
        > RESTORE k 0 "\x15\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff\x01\x01\x01\x01\x01\x00\x00\x01\x01\x01g\x01\x01\x01\x00\x01\x01c\xd0\x07\x00\x00\x00\x00\x00\x00\xdc\x05\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x0b\x00\x857;\x0b?v\xca\xd8"
        -ERR Bad data format
        > EXISTS k
        0
    "##]]);
}

#[test]
fn every_encoding_is_read() {
    check(expect![[r##"
        # string
        > RESTORE k 0 "\x00\x03foo\x06\x00\xe5\xa4Q[\xb8\x94\x86\x04" REPLACE
        +OK
        > GET k
        "foo"
        > OBJECT ENCODING k
        "embstr"
        # string-int8
        > RESTORE k 0 "\x00\xc0\xfb\x06\x00\xdf)\xaet\"s\x03\xfb" REPLACE
        +OK
        > GET k
        "-5"
        > OBJECT ENCODING k
        "int"
        # string-lzf
        > RESTORE k 0 "\x00\xc3\x05\x1e\x00a\xe0\x14\x00\x06\x00\x9a\xbe\xc9\x18\x16mD9" REPLACE
        +OK
        > GET k
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        > OBJECT ENCODING k
        "embstr"
        # list
        > RESTORE k 0 "\x01\x02\x01a\xc0\x05\x06\x00\xd1N\x1f\x09\x05\x9a\x87\x04" REPLACE
        +OK
        > LRANGE k 0 -1
        ["a", "5"]
        > OBJECT ENCODING k
        "listpack"
        # set
        > RESTORE k 0 "\x02\x02\x01a\x01b\x06\x00h\x89I\xa5\x1eV\x01\x9e" REPLACE
        +OK
        > SORT k ALPHA
        ["a", "b"]
        > OBJECT ENCODING k
        "listpack"
        # zset-text
        > RESTORE k 0 "\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff\x06\x00\x90;\xddQ\xee\x854\xdc" REPLACE
        +OK
        > ZRANGE k 0 -1 WITHSCORES
        ["c", "-inf", "a", "1.5", "b", "inf"]
        > OBJECT ENCODING k
        "listpack"
        # hash
        > RESTORE k 0 "\x04\x01\x01f\x01v\x06\x00;\x1f+\xd6D\xd32o" REPLACE
        +OK
        > HGETALL k
        ["f", "v"]
        > OBJECT ENCODING k
        "listpack"
        # zset
        > RESTORE k 0 "\x05\x01\x01a\x00\x00\x00\x00\x00\x00\x04@\x09\x00\x09[A\x07t\xe2\xd7\xe1" REPLACE
        +OK
        > ZRANGE k 0 -1 WITHSCORES
        ["a", "2.5"]
        > OBJECT ENCODING k
        "listpack"
        # zipmap
        > RESTORE k 0 "\x09\x1a\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff\x06\x00\xfd\xfe\x99\xe4=\xe9H\x9f" REPLACE
        +OK
        > HGETALL k
        ["foo", "bar", "hello", "world"]
        > OBJECT ENCODING k
        "listpack"
        # ziplist
        > RESTORE k 0 "\x0a\x17\x17\x00\x00\x00\x12\x00\x00\x00\x04\x00\x00\x01a\x03\xf6\x02\xfe\x80\x03\xc090\xff\x06\x00\x7d\xd2\xa6\x96\x02\x7b]\x8e" REPLACE
        +OK
        > LRANGE k 0 -1
        ["a", "5", "-128", "12345"]
        > OBJECT ENCODING k
        "quicklist"
        # intset
        > RESTORE k 0 "\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\xfd\xff\x07\x00\x06\x00\xb1Z\x0b\xed\xd4\x1d\xd7\x98" REPLACE
        +OK
        > SORT k ALPHA
        ["-3", "7"]
        > OBJECT ENCODING k
        "intset"
        # zset-ziplist
        > RESTORE k 0 "\x0c\x18\x18\x00\x00\x00\x15\x00\x00\x00\x04\x00\x00\x01a\x03\x031.5\x05\x01b\x03\xf4\xff\x06\x00\x17\xcd\x83)Y%\x9c:" REPLACE
        +OK
        > ZRANGE k 0 -1 WITHSCORES
        ["a", "1.5", "b", "3"]
        > OBJECT ENCODING k
        "listpack"
        # hash-ziplist
        > RESTORE k 0 "\x0d\x16\x16\x00\x00\x00\x13\x00\x00\x00\x04\x00\x00\x01f\x03\x01v\x03\x01g\x03\xf4\xff\x06\x00[\xf7\x059]%\x8fc" REPLACE
        +OK
        > HGETALL k
        ["f", "v", "g", "3"]
        > OBJECT ENCODING k
        "listpack"
        # quicklist
        > RESTORE k 0 "\x0e\x02\x0e\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x01a\xff\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01b\x03\x01c\xff\x07\x00\x81\xd9goS8\xe2&" REPLACE
        +OK
        > LRANGE k 0 -1
        ["a", "b", "c"]
        > OBJECT ENCODING k
        "quicklist"
        # hash-listpack
        > RESTORE k 0 "\x10\x0d\x0d\x00\x00\x00\x02\x00\x81f\x02\x81v\x02\xff\x0a\x00 \xf1=D#T\x08\x9d" REPLACE
        +OK
        > HGETALL k
        ["f", "v"]
        > OBJECT ENCODING k
        "listpack"
        # zset-listpack
        > RESTORE k 0 "\x11\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff\x0a\x00\xa8\x05\xce\xb8\xd7\xa93\x02" REPLACE
        +OK
        > ZRANGE k 0 -1 WITHSCORES
        ["a", "1"]
        > OBJECT ENCODING k
        "listpack"
        # quicklist-2
        > RESTORE k 0 "\x12\x02\x01\x05plain\x02\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x05\x01\xff\x0a\x00\xa5A\x05\x9d]\x1a\xb1\x86" REPLACE
        +OK
        > LRANGE k 0 -1
        ["plain", "a", "5"]
        > OBJECT ENCODING k
        "quicklist"
        # set-listpack
        > RESTORE k 0 "\x14\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x05\x01\xff\x0b\x00\x984\x7b]y\x8d\xab\x9c" REPLACE
        +OK
        > SORT k ALPHA
        ["5", "a"]
        > OBJECT ENCODING k
        "listpack"
        # stream
        > RESTORE k 0 "\x0f\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff\x01\x01\x01\x01\x01g\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xe8\x03\x00\x00\x00\x00\x00\x00\x02\x01\x01c\xd0\x07\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x09\x00W\x9c\xd0\"W\xd3(\xb8" REPLACE
        +OK
        > XRANGE k - +
        [["1-1", ["f", "v"]]]
        > XPENDING k g
        [1, "1-1", "1-1", [["c", "1"]]]
        > XINFO GROUPS k
        [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-1", "entries-read", 1, "lag", 0]]
        # stream-2
        > RESTORE k 0 "\x13\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff\x01\x01\x01\x01\x01\x00\x00\x01\x01\x01g\x01\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xe8\x03\x00\x00\x00\x00\x00\x00\x02\x01\x01c\xd0\x07\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x0a\x00\x09Mm\xa7YK\x9f\xb3" REPLACE
        +OK
        > XRANGE k - +
        [["1-1", ["f", "v"]]]
        > XPENDING k g
        [1, "1-1", "1-1", [["c", "1"]]]
        > XINFO GROUPS k
        [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-1", "entries-read", 1, "lag", 0]]
        # stream-3
        > RESTORE k 0 "\x15\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff\x01\x01\x01\x01\x01\x00\x00\x01\x01\x01g\x01\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xe8\x03\x00\x00\x00\x00\x00\x00\x02\x01\x01c\xd0\x07\x00\x00\x00\x00\x00\x00\xdc\x05\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x0b\x00EaSBm\x95\xe2\x82" REPLACE
        +OK
        > XRANGE k - +
        [["1-1", ["f", "v"]]]
        > XPENDING k g
        [1, "1-1", "1-1", [["c", "1"]]]
        > XINFO GROUPS k
        [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-1", "entries-read", 1, "lag", 0]]
    "##]]);
}

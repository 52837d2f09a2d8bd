//! `BITFIELD` and `BITFIELD_RO`

use expect_test::expect;

use crate::check::check;

#[test]
fn get_set_incrby() {
    check(expect![[r#"
        > BITFIELD k
        []
        > BITFIELD k GET u8 0
        [0]
        > EXISTS k
        0
        > BITFIELD k SET u8 0 255 GET u8 0
        [0, 255]
        > BITFIELD k SET i8 #1 -100 SET u4 16 3 GET i8 8
        [0, 0, -100]
        > GET k
        "\xff\x9c0"
        > BITFIELD k incrby u2 100 1 get u2 100
        [1, 1]
        > STRLEN k
        13
        > BITFIELD k GET i64 0 GET u63 1 GET i1 0 GET u1 #3
        [-28094721112932352, 9195277315741843456, -1, 1]
        > BITFIELD k INCRBY i5 100 1 GET u4 0
        [9, 15]
        > BITFIELD k GET u8 100000
        [0]
        > SET k 12
        +OK
        > BITFIELD k GET u8 0 GET u8 #1 GET u8 #2
        [49, 50, 0]
        > OBJECT ENCODING k
        "int"
        > BITFIELD k SET u8 0 51
        [49]
        > GET k
        "32"
        > SET k v EX 100
        +OK
        > BITFIELD k SET u16 32 1
        [0]
        > TTL k
        100
        > SET k v PX 30
        +OK
        @wait 60
        > BITFIELD k INCRBY u8 0 1
        [1]
        > TTL k
        -1
        > SET k {x*2000}
        +OK
        > BITFIELD k SET i64 3 -1 GET i64 3 GET u63 3
        [-4340410370284600381, -1, 9223372036854775807]
        > STRLEN k
        2000
    "#]]);
}

#[test]
fn overflow() {
    check(expect![[r#"
        > BITFIELD k SET u8 0 255 INCRBY u8 0 1
        [0, 0]
        > BITFIELD k SET u8 0 255 OVERFLOW SAT INCRBY u8 0 1
        [0, 255]
        > BITFIELD k OVERFLOW FAIL INCRBY u8 0 1 OVERFLOW WRAP INCRBY u8 0 1
        [$-1, 0]
        > BITFIELD k OVERFLOW SAT INCRBY u8 0 -100
        [0]
        > BITFIELD k INCRBY u8 0 -1 overflow fail INCRBY u8 0 1
        [255, $-1]
        > BITFIELD k SET i8 0 127 INCRBY i8 0 1 INCRBY i8 0 -1
        [-1, -128, 127]
        > BITFIELD k OVERFLOW SAT SET i8 0 127 INCRBY i8 0 1 INCRBY i8 0 -300
        [127, 127, -128]
        > BITFIELD k OVERFLOW SAT SET i8 0 1000 GET i8 0 SET i8 0 -1000 GET i8 0
        [-128, 127, 127, -128]
        > BITFIELD k OVERFLOW WRAP SET i8 0 1000 GET i8 0 SET i8 0 -1000 GET i8 0
        [-128, -24, -24, 24]
        > BITFIELD k OVERFLOW FAIL SET i8 0 1000 GET i8 0 SET i8 0 -1000 GET i8 0
        [$-1, 24, $-1, 24]
        > BITFIELD k OVERFLOW SAT SET u8 0 1000 GET u8 0 SET u8 0 -1 GET u8 0
        [24, 255, 255, 255]
        > BITFIELD k OVERFLOW WRAP SET u8 0 1000 GET u8 0 SET u8 0 -1 GET u8 0
        [255, 232, 232, 255]
        > BITFIELD k OVERFLOW FAIL SET u8 0 1000 GET u8 0 SET u8 0 -1 GET u8 0
        [$-1, 255, $-1, 255]
        > BITFIELD k SET i64 0 9223372036854775807 INCRBY i64 0 1 INCRBY i64 0 -1
        [-72057594037927936, -9223372036854775808, 9223372036854775807]
        > BITFIELD k OVERFLOW SAT INCRBY i64 0 1 SET i64 0 -9223372036854775808 INCRBY i64 0 -1
        [9223372036854775807, 9223372036854775807, -9223372036854775808]
        > BITFIELD k OVERFLOW FAIL INCRBY i64 0 -1
        [$-1]
        > BITFIELD k SET u63 0 9223372036854775807 INCRBY u63 0 1
        [4611686018427387904, 0]
        > BITFIELD k OVERFLOW SAT SET u63 0 9223372036854775807 INCRBY u63 0 9223372036854775807
        [0, 9223372036854775807]
        > BITFIELD k OVERFLOW FAIL INCRBY u63 0 9223372036854775807 INCRBY u63 0 -9223372036854775808
        [$-1, $-1]
        > BITFIELD k SET i1 0 1 INCRBY i1 0 1
        [-1, 0]
        > DEL k
        1
        > BITFIELD k OVERFLOW FAIL SET u8 0 256
        [$-1]
        > EXISTS k
        1
        @resp3
        > BITFIELD k OVERFLOW FAIL SET u8 0 256 SET u8 0 1
        [_, 0]
        > BITFIELD longer OVERFLOW FAIL SET u8 8 256
        [_]
        > STRLEN longer
        2
    "#]]);
}

#[test]
fn read_only() {
    check(expect![[r#"
        > BITFIELD_RO k
        []
        > BITFIELD_RO k GET u8 0
        [0]
        > SET k "\x12\x34"
        +OK
        > BITFIELD_RO k GET u8 0 get u4 #2 GET i16 0
        [18, 3, 4660]
        > BITFIELD_RO k SET u8 0 1
        -ERR BITFIELD_RO only supports the GET subcommand
        > BITFIELD_RO k INCRBY u8 0 1
        -ERR BITFIELD_RO only supports the GET subcommand
        > BITFIELD_RO k GET u8 0 SET u8 0 1
        -ERR BITFIELD_RO only supports the GET subcommand
        > BITFIELD_RO k OVERFLOW SAT GET u8 0
        [18]
        > BITFIELD_RO
        -ERR wrong number of arguments for 'bitfield_ro' command
        > BITFIELD_RO k GET u8
        -ERR syntax error
    "#]]);
}

#[test]
fn invalid_arguments() {
    check(expect![[r#"
        > BITFIELD
        -ERR wrong number of arguments for 'bitfield' command
        > BITFIELD k GET
        -ERR syntax error
        > BITFIELD k GET u8
        -ERR syntax error
        > BITFIELD k SET u8 0
        -ERR syntax error
        > BITFIELD k INCRBY u8 0
        -ERR syntax error
        > BITFIELD k FOO u8 0
        -ERR syntax error
        > BITFIELD k GET u64 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET i65 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET u0 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET i0 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET x8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET 8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET u 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET "" 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET U8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET u08 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        > BITFIELD k GET u8 -1
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 x
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 #
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 #x
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 #-1
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 4294967296
        -ERR bit offset is not an integer or out of range
        > BITFIELD k GET u8 4294967295
        [0]
        > BITFIELD k GET u8 #536870912
        -ERR bit offset is not an integer or out of range
        > BITFIELD k SET u8 0 x
        -ERR value is not an integer or out of range
        > BITFIELD k SET u8 0 9223372036854775808
        -ERR value is not an integer or out of range
        > BITFIELD k INCRBY u8 0 1.5
        -ERR value is not an integer or out of range
        > BITFIELD k OVERFLOW
        -ERR syntax error
        > BITFIELD k OVERFLOW FOO
        -ERR Invalid OVERFLOW type specified
        > BITFIELD k OVERFLOW WRAP
        []
        > BITFIELD k SET u8 0 1 FOO
        -ERR syntax error
        > EXISTS k
        0
    "#]]);
}

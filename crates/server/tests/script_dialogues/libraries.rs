//! The libraries that scripts use: `cjson`, `cmsgpack`, `struct`, `bit`.

use expect_test::expect;

use crate::check::check;

#[test]
fn json_is_decoded() {
    check(expect![[r#"
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1, \"a\", null, true, [2]]"
        > EVAL "return cjson.decode(ARGV[1])" 0 ""
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1"
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1 2]"
        > EVAL "return cjson.decode(ARGV[1])" 0 "{1: 2}"
        > EVAL "return cjson.decode(ARGV[1])" 0 "x"
        > EVAL "return cjson.decode(ARGV[1])" 0 "12\x00x"
        > EVAL "return cjson.decode(ARGV[1])" 0 "[12\x00]"
        > EVAL "return cjson.decode(ARGV[1])" 0 "\"ab\x00c\""
        > EVAL "return cjson.decode(ARGV[1])" 0 "1\x00"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[0x10]"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[0x]"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[-1.5e3]"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[1e]"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[1-1-1]"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[-]"
        > EVAL "return cjson.decode(ARGV[1])" 0 "\"\\x\""
    "#]]);
}

#[test]
fn messagepack_is_unpacked() {
    check(expect![[r#"
        > EVAL "return {cmsgpack.unpack(cmsgpack.pack(1, 'a', {1, 2}, -300, true))}" 0
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xc4\x01a"
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xc1"
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xd9\x05a"
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\x81\xc0\x01"
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\x81\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01"
        > EVAL "return tostring(cmsgpack.unpack(ARGV[1]))" 0 "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
        > EVAL "return {cmsgpack.unpack_one(ARGV[1])}" 0 "\x01\x02"
        > EVAL "return {cmsgpack.unpack_limit(ARGV[1], 1, 1)}" 0 "\x01\x02"
        > EVAL "return cmsgpack.unpack_limit(ARGV[1], 'x')" 0 "\x01\x02"
        > EVAL "return cmsgpack.unpack_one(ARGV[1], -1)" 0 "\x01\x02"
        > EVAL "return cmsgpack.unpack_one(ARGV[1], 5)" 0 "\x01\x02"
        > EVAL "return cmsgpack.pack()" 0
    "#]]);
}

#[test]
fn structures_and_bits() {
    check(expect![[r#"
        > EVAL "return struct.pack('>I2hBs', 1, -2, 255, 'text')" 0
        > EVAL "return {struct.unpack('<i4', ARGV[1])}" 0 "\x01\x02\x03\x04"
        > EVAL "return struct.unpack('>I2', ARGV[1])" 0 "a"
        > EVAL "return struct.pack('z', 1)" 0
        > EVAL "return {bit.band(7, 12), bit.bor(1, 2), bit.bxor(5, 3), bit.bnot(0), bit.tohex(255, -4)}" 0
        > EVAL "return bit.band('x')" 0
    "#]]);
}

//! The libraries that scripts use: `cjson`, `cmsgpack`, `struct`, `bit`.

use expect_test::expect;

use crate::check::check;

#[test]
fn json_is_encoded() {
    check(expect![[r#"
        @valkey Redis names the script in errors
        > EVAL "return cjson.encode({a={b={c=function() end}}})" 0
        -ERR user_script:1: Cannot serialise function: type not supported script: on @user_script:1.
        > EVAL "local t={a=function() end} for i=1,100 do t['k'..i]=i end return cjson.encode(t)" 0
        -ERR user_script:1: Cannot serialise function: type not supported script: on @user_script:1.
        > EVAL "local t={} for i=1,100 do t['k'..i]=i end local s=cjson.encode(t) local d=cjson.decode(s) return {#s,d.k1,d.k64,d.k65,d.k100}" 0
        [885, 1, 64, 65, 100]
        > EVAL "return cjson.encode({1,-0.0,0.1,1e14,-99999.5,123456789012345,1/3,2^53,1e-5,0.0001})" 0
        "[1,-0,0.1,1e+14,-99999.5,1.2345678901234e+14,0.33333333333333,9.007199254741e+15,1e-05,0.0001]"
        > EVAL "local t={} for i=1,999 do t={x=t} end return #cjson.encode(t)" 0
        5996
        > EVAL "local t={} for i=1,1000 do t={x=t} end return cjson.encode(t)" 0
        -ERR user_script:1: Cannot serialise, excessive nesting (1001) script: on @user_script:1.
    "#]]);
}

#[test]
fn json_is_decoded() {
    check(expect![[r#"
        @valkey Redis names the script in errors, and has other words in some
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1, \"a\", null, true, [2]]"
        [1, "a", $-1, 1, [2]]
        > EVAL "return cjson.decode(ARGV[1])" 0 ""
        -ERR user_script:1: Expected value but found T_END at character 1 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1"
        -ERR user_script:1: Expected comma or array end but found T_END at character 3 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "[1 2]"
        -ERR user_script:1: Expected comma or array end but found T_NUMBER at character 4 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "{1: 2}"
        -ERR user_script:1: Expected object key string but found T_NUMBER at character 2 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "x"
        -ERR user_script:1: Expected value but found invalid token at character 1 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "12\x00x"
        12
        > EVAL "return cjson.decode(ARGV[1])" 0 "[12\x00]"
        -ERR user_script:1: Expected comma or array end but found T_END at character 4 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "\"ab\x00c\""
        -ERR user_script:1: Expected value but found unexpected end of string at character 4 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "1\x00"
        -ERR user_script:1: JSON parser does not support UTF-16 or UTF-32 script: on @user_script:1.
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[0x10]"
        "16"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[0x]"
        -ERR user_script:1: Expected comma or array end but found invalid token at character 3 script: on @user_script:1.
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[-1.5e3]"
        "-1500"
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[1e]"
        -ERR user_script:1: Expected comma or array end but found invalid token at character 3 script: on @user_script:1.
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[1-1-1]"
        -ERR user_script:1: Expected comma or array end but found T_NUMBER at character 3 script: on @user_script:1.
        > EVAL "return tostring(cjson.decode(ARGV[1])[1])" 0 "[-]"
        -ERR user_script:1: Expected value but found invalid number at character 2 script: on @user_script:1.
        > EVAL "return cjson.decode(ARGV[1])" 0 "\"\\x\""
        -ERR user_script:1: Expected value but found invalid escape code at character 2 script: on @user_script:1.
    "#]]);
}

#[test]
fn messagepack_is_unpacked() {
    check(expect![[r#"
        @valkey Redis names the script in errors, and has other words in some
        > EVAL "return {cmsgpack.unpack(cmsgpack.pack(1, 'a', {1, 2}, -300, true))}" 0
        [1, "a", [1, 2], -300, 1]
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xc4\x01a"
        -ERR user_script:1: Bad data format in input. script: on @user_script:1.
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xc1"
        -ERR user_script:1: Bad data format in input. script: on @user_script:1.
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\xd9\x05a"
        -ERR user_script:1: Missing bytes in input. script: on @user_script:1.
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\x81\xc0\x01"
        -ERR table index is nil script: on @user_script:1.
        > EVAL "return cmsgpack.unpack(ARGV[1])" 0 "\x81\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01"
        -ERR table index is NaN script: on @user_script:1.
        > EVAL "return tostring(cmsgpack.unpack(ARGV[1]))" 0 "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
        "-1"
        > EVAL "return {cmsgpack.unpack_one(ARGV[1])}" 0 "\x01\x02"
        [1, 1]
        > EVAL "return {cmsgpack.unpack_limit(ARGV[1], 1, 1)}" 0 "\x01\x02"
        [-1, 2]
        > EVAL "return cmsgpack.unpack_limit(ARGV[1], 'x')" 0 "\x01\x02"
        -ERR user_script:1: bad argument #2 to 'unpack_limit' (number expected, got string) script: on @user_script:1.
        > EVAL "return cmsgpack.unpack_one(ARGV[1], -1)" 0 "\x01\x02"
        -ERR user_script:1: Invalid request to unpack with offset of -1 and limit of 2. script: on @user_script:1.
        > EVAL "return cmsgpack.unpack_one(ARGV[1], 5)" 0 "\x01\x02"
        -ERR user_script:1: Start offset 5 greater than input length 2. script: on @user_script:1.
        > EVAL "return cmsgpack.pack()" 0
        -ERR user_script:1: bad argument #0 to 'pack' (MessagePack pack needs input.) script: on @user_script:1.
    "#]]);
}

#[test]
fn structures_and_bits() {
    check(expect![[r#"
        @valkey Redis names the script in errors, and has other words in some
        > EVAL "return struct.pack('>I2hBs', 1, -2, 255, 'text')" 0
        "\x00\x01\xff\xfe\xfftext\x00"
        > EVAL "return {struct.unpack('<i4', ARGV[1])}" 0 "\x01\x02\x03\x04"
        [67305985, 5]
        > EVAL "return struct.unpack('>I2', ARGV[1])" 0 "a"
        -ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: on @user_script:1.
        > EVAL "return struct.pack('bb', 1)" 0
        -ERR user_script:1: bad argument #3 to 'pack' (number expected, got nil) script: on @user_script:1.
        > EVAL "return struct.pack('z', 1)" 0
        -ERR user_script:1: bad argument #1 to 'pack' (invalid format option 'z') script: on @user_script:1.
        > EVAL "return {bit.band(7, 12), bit.bor(1, 2), bit.bxor(5, 3), bit.bnot(0), bit.tohex(255, -4)}" 0
        [4, 3, 6, -1, "00FF"]
        > EVAL "return bit.band('x')" 0
        -ERR user_script:1: bad argument #1 to 'band' (number expected, got string) script: on @user_script:1.
    "#]]);
}

/// Numbers are converted to the `int` of C, so that very large ones select elements, too.
#[test]
fn every_range_is_unpacked_or_refused() {
    check(expect![[r#"
        @valkey Redis names the script in errors
        > EVAL "local numbers, rows = {}, {} for number in string.gmatch(ARGV[2], '%S+') do numbers[#numbers + 1] = tonumber(number) end local t = {} for i = 1, ARGV[1] do t[i] = i end local function count(...) local ok, n = pcall(function(...) return select('#', unpack(...)) end, ...) return ok and tostring(n) or (string.gsub(n, '^user_script:1: too many results to unpack$', 'x')) end rows[1] = count(t) for _, i in ipairs(numbers) do local row = {count(t, i), count(t, nil, i)} for _, j in ipairs(numbers) do row[#row + 1] = count(t, i, j) end rows[#rows + 1] = table.concat(row, ' ') end return rows" 0 0 "-1e300 -4294967297 -2147483649 -2147483648 -8000 -2 -1.9 0 1 2 4 7997 7998 8001 2147483646 2147483647 2147483648 4294967296 4294967299 9007199254740993 1e19 nan 0x10"
        ["0", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "2 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "x 0 x x x 0 1 x x x x x x x x x x x 0 x x x x x x", "3 0 3 2 x 0 0 1 2 3 4 5 7 x x x x x 0 3 6 3 3 3 19", "2 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "0 1 0 0 x 0 0 0 0 0 1 2 4 7997 x x x x 0 0 3 0 0 0 16", "0 2 0 0 x 0 0 0 0 0 0 1 3 7996 7997 x x x 0 0 2 0 0 0 15", "0 4 0 0 x 0 0 0 0 0 0 0 1 7994 7995 x x x 0 0 0 0 0 0 13", "0 7997 0 0 x 0 0 0 0 0 0 0 0 1 2 5 x x 0 0 0 0 0 0 0", "0 x 0 0 x 0 0 0 0 0 0 0 0 0 1 4 x x 0 0 0 0 0 0 0", "0 x 0 0 x 0 0 0 0 0 0 0 0 0 0 1 x x 0 0 0 0 0 0 0", "0 x 0 0 2 0 0 0 0 0 0 0 0 0 0 0 1 2 0 0 0 0 0 0 0", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "0 3 0 0 x 0 0 0 0 0 0 0 2 7995 7996 x x x 0 0 1 0 0 0 14", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "1 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "0 16 0 0 x 0 0 0 0 0 0 0 0 7982 7983 7986 x x 0 0 0 0 0 0 1"]
        > EVAL "local numbers, rows = {}, {} for number in string.gmatch(ARGV[2], '%S+') do numbers[#numbers + 1] = tonumber(number) end local t = {} for i = 1, ARGV[1] do t[i] = i end local function count(...) local ok, n = pcall(function(...) return select('#', unpack(...)) end, ...) return ok and tostring(n) or (string.gsub(n, '^user_script:1: too many results to unpack$', 'x')) end rows[1] = count(t) for _, i in ipairs(numbers) do local row = {count(t, i), count(t, nil, i)} for _, j in ipairs(numbers) do row[#row + 1] = count(t, i, j) end rows[#rows + 1] = table.concat(row, ' ') end return rows" 0 3 "-1e300 -4294967297 -2147483649 -2147483648 -8000 -2 -1.9 0 1 2 4 7997 7998 8001 2147483646 2147483647 2147483648 4294967296 4294967299 9007199254740993 1e19 nan 0x10"
        ["3", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "5 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "x 0 x x x 0 1 x x x x x x x x x x x 0 x x x x x x", "6 0 3 2 x 0 0 1 2 3 4 5 7 x x x x x 0 3 6 3 3 3 19", "5 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "3 1 0 0 x 0 0 0 0 0 1 2 4 7997 x x x x 0 0 3 0 0 0 16", "2 2 0 0 x 0 0 0 0 0 0 1 3 7996 7997 x x x 0 0 2 0 0 0 15", "0 4 0 0 x 0 0 0 0 0 0 0 1 7994 7995 x x x 0 0 0 0 0 0 13", "0 7997 0 0 x 0 0 0 0 0 0 0 0 1 2 5 x x 0 0 0 0 0 0 0", "0 x 0 0 x 0 0 0 0 0 0 0 0 0 1 4 x x 0 0 0 0 0 0 0", "0 x 0 0 x 0 0 0 0 0 0 0 0 0 0 1 x x 0 0 0 0 0 0 0", "0 x 0 0 2 0 0 0 0 0 0 0 0 0 0 0 1 2 0 0 0 0 0 0 0", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "1 3 0 0 x 0 0 0 0 0 0 0 2 7995 7996 x x x 0 0 1 0 0 0 14", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "4 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "0 16 0 0 x 0 0 0 0 0 0 0 0 7982 7983 7986 x x 0 0 0 0 0 0 1"]
        > EVAL "local numbers, rows = {}, {} for number in string.gmatch(ARGV[2], '%S+') do numbers[#numbers + 1] = tonumber(number) end local t = {} for i = 1, ARGV[1] do t[i] = i end local function count(...) local ok, n = pcall(function(...) return select('#', unpack(...)) end, ...) return ok and tostring(n) or (string.gsub(n, '^user_script:1: too many results to unpack$', 'x')) end rows[1] = count(t) for _, i in ipairs(numbers) do local row = {count(t, i), count(t, nil, i)} for _, j in ipairs(numbers) do row[#row + 1] = count(t, i, j) end rows[#rows + 1] = table.concat(row, ' ') end return rows" 0 8000 "-1e300 -4294967297 -2147483649 -2147483648 -8000 -2 -1.9 0 1 2 4 7997 7998 8001 2147483646 2147483647 2147483648 4294967296 4294967299 9007199254740993 1e19 nan 0x10"
        ["x", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "x 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "x 0 x x x 0 1 x x x x x x x x x x x 0 x x x x x x", "x 0 3 2 x 0 0 1 2 3 4 5 7 x x x x x 0 3 6 3 3 3 19", "x 0 2 1 x 0 0 0 1 2 3 4 6 x x x x x 0 2 5 2 2 2 18", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "x 1 0 0 x 0 0 0 0 0 1 2 4 7997 x x x x 0 0 3 0 0 0 16", "x 2 0 0 x 0 0 0 0 0 0 1 3 7996 7997 x x x 0 0 2 0 0 0 15", "7997 4 0 0 x 0 0 0 0 0 0 0 1 7994 7995 x x x 0 0 0 0 0 0 13", "4 7997 0 0 x 0 0 0 0 0 0 0 0 1 2 5 x x 0 0 0 0 0 0 0", "3 x 0 0 x 0 0 0 0 0 0 0 0 0 1 4 x x 0 0 0 0 0 0 0", "0 x 0 0 x 0 0 0 0 0 0 0 0 0 0 1 x x 0 0 0 0 0 0 0", "0 x 0 0 2 0 0 0 0 0 0 0 0 0 0 0 1 2 0 0 0 0 0 0 0", "0 x 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0", "x 0 x x x 1 x x x x x x x x x x x x 1 x x x x x x", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "7998 3 0 0 x 0 0 0 0 0 0 0 2 7995 7996 x x x 0 0 1 0 0 0 14", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "x 0 1 0 x 0 0 0 0 1 2 3 5 x x x x x 0 1 4 1 1 1 17", "7985 16 0 0 x 0 0 0 0 0 0 0 0 7982 7983 7986 x x 0 0 0 0 0 0 1"]
        > EVAL "return {unpack({1, 2, 3}, 1, 8000)}" 0
        -ERR user_script:1: too many results to unpack script: on @user_script:1.
        > EVAL "return {unpack({}, -2147483648, 2147483647)}" 0
        -ERR user_script:1: too many results to unpack script: on @user_script:1.
        > EVAL "return {unpack({1}, {})}" 0
        -ERR user_script:1: bad argument #2 to 'unpack' (number expected, got table) script: on @user_script:1.
        > EVAL "return {unpack({1}, 1, 'x')}" 0
        -ERR user_script:1: bad argument #3 to 'unpack' (number expected, got string) script: on @user_script:1.
        > EVAL "return {unpack({1}, 'x', 1e300)}" 0
        -ERR user_script:1: bad argument #2 to 'unpack' (number expected, got string) script: on @user_script:1.
        > EVAL "return {unpack()}" 0
        -ERR user_script:1: bad argument #1 to 'unpack' (table expected, got no value) script: on @user_script:1.
        > EVAL "return {unpack(1, 2, 3)}" 0
        -ERR user_script:1: bad argument #1 to 'unpack' (table expected, got number) script: on @user_script:1.
        > EVAL "return {unpack({1, 2, 3}, '2')}" 0
        [2, 3]
        > EVAL "return {unpack({1}, true, 1e9)}" 0
        -ERR user_script:1: bad argument #2 to 'unpack' (number expected, got boolean) script: on @user_script:1.
    "#]]);
}

#[test]
fn values_are_built_in_coroutines_and_nested_calls() {
    check(expect![[r#"
        > EVAL "return cjson.encode(coroutine.wrap(function() return cjson.decode(ARGV[1]) end)())" 0 "[1,{\"a\":[null,2.5]}]"
        "[1,{\"a\":[null,2.5]}]"
        > EVAL "local w = coroutine.wrap(function(...) return cmsgpack.unpack(cmsgpack.pack(...)) end) return cjson.encode({w({1, {a = 'x'}}, 2)})" 0
        "[[1,{\"a\":\"x\"}],2]"
        > EVAL "local function f(d) local ok, r = pcall(function() if d > 0 then return f(d - 1) end return cmsgpack.pack(cjson.decode('[1,[2]]')) end) return ok and r end return f(50)" 0
        "\x92\x01\x91\x02"
        > EVAL "local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)" 0
        "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0"
        > EVAL "return {cmsgpack.pack(-2^63), cmsgpack.pack(2^63), cmsgpack.pack(-0.5), cmsgpack.pack(-0)}" 0
        ["\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "\xca_\x00\x00\x00", "\xca\xbf\x00\x00\x00", "\x00"]
        > EVAL "return cjson.encode(cjson.decode(ARGV[1]))" 0 "[12,-7,012,123456789012345678,1e3,-0.5,1E-2]"
        "[12,-7,12,1.2345678901235e+17,1000,-0.5,0.01]"
        > EVAL "return cjson.decode(ARGV[1])" 0 "[\"plain\",\"a\\n\\\"b\\u00e9c\",{\"x\":1}]"
        ["plain", "a\n\"b\xc3\xa9c", []]
        > EVAL "local ok, e = pcall(cjson.decode, '[1,') return e" 0
        "Expected value but found T_END at character 4"
    "#]]);
}

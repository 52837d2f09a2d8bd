//! The scripts of the family `scripts`: conversions in both directions, errors, libraries, and what a script may call.

use crate::random::Random;

/// Scripts for `EVAL script numkeys key... arg...`. The first key may be missing.
const SCRIPTS: &[&str] = &[
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call(ARGV[1], KEYS[1])",
    "return redis.call(ARGV[1], KEYS[1], ARGV[2])",
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local reply = redis.pcall(unpack(ARGV)) if type(reply) == 'table' and reply.err then return 'failed: ' .. reply.err end \
     return type(reply)",
    "return {redis.call('INCR', KEYS[1]), redis.call('EXISTS', KEYS[1]), KEYS, ARGV, #KEYS, #ARGV}",
    "local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return old",
    "redis.call('SET', KEYS[1], 'written') return redis.call('LPUSH', KEYS[1], 'x')",
    "redis.call('SELECT', 1) redis.call('SET', 'k1', ARGV[1]) return redis.call('GET', 'k1')",
    "redis.call('RPUSH', 'k2', ARGV[1]) return redis.call('LRANGE', 'k2', 0, -1)",
    "return redis.call('HGETALL', KEYS[1])",
    "redis.setresp(3) local count = 0 for _ in pairs(redis.call('HGETALL', KEYS[1]).map) do count = count + 1 end return count",
    "redis.setresp(3) return {redis.call('ZSCORE', KEYS[1], ARGV[1]), redis.call('SISMEMBER', KEYS[1], 'a')}",
    "redis.setresp(3) local reply = redis.call('CONFIG', 'GET', 'maxmemory-samples') return reply.map ~= nil",
    "redis.setresp(3) return {double = tonumber(ARGV[1])}",
    "redis.setresp(3) return {map = {a = 1}}",
    "redis.setresp(3) return {set = {a = true}}",
    "redis.setresp(3) return {big_number = '123456789012345678901234567890'}",
    "redis.setresp(3) return {verbatim_string = {string = ARGV[1], format = 'txt'}}",
    "redis.setresp(3) return redis.call('GET', 'missing')",
    "redis.setresp(4)",
    "return {1, 2.9, -2.9, 'x', true, false, nil, 5}",
    "return {ok = ARGV[1]}",
    "return {err = ARGV[1]}",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1])",
    "return redis.error_reply('MY code')",
    "return {err = 'ERR a\\r\\nb'}",
    "error(ARGV[1])",
    "error({err = 'CODE text'})",
    "error()",
    "return pcall(redis.call, 'INCR', KEYS[1])",
    "local ok, failure = pcall(redis.call, 'nosuch') return {ok, type(failure), failure.err}",
    "local ok, failure = pcall(error, 'text') return {ok, failure}",
    "return nosuch",
    "global = 1",
    "return 1 +",
    "return redis.call()",
    "return redis.call('GET')",
    "return redis.call('GET', {})",
    "return redis.call('GET', nil)",
    "return redis.call('ECHO', 12.5)",
    "return redis.call('ECHO', 100000000000000000000)",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('MULTI')",
    "return redis.call('BLPOP', KEYS[1], 0)",
    "return redis.call('XREAD', 'BLOCK', 0, 'STREAMS', KEYS[1], '$')",
    "return redis.sha1hex(ARGV[1])",
    "return redis.sha1hex()",
    "return {redis.LOG_DEBUG, redis.LOG_WARNING, redis.REPL_ALL, redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE}",
    "redis.set_repl(redis.REPL_NONE) redis.call('SET', KEYS[1], 'unlogged') redis.set_repl(redis.REPL_ALL) return 1",
    "redis.set_repl(77)",
    "return redis.replicate_commands()",
    "return redis.acl_check_cmd('SET', 'x', 'y')",
    "return redis.acl_check_cmd('nosuch')",
    "redis.log(redis.LOG_DEBUG, 'line') return redis.breakpoint and 1 or 0",
    "redis.log(1)",
    "return cjson.encode({1, 2, {a = 'b'}, cjson.null, true, 1.5, 1e20})",
    "return cjson.encode(ARGV)",
    "return cjson.decode(ARGV[1])",
    "local value = cjson.decode('{\"a\": [1, 2.5, null, \"x\", {}], \"b\": true}') return {value.a[1], value.a[2] * 2, value.a[4], #value.a}",
    "return #cjson.encode(cjson.decode('[' .. ARGV[1] .. ']'))",
    "return cmsgpack.pack(1, 'a', {1, 2}, {a = 1}, 1.5, -300, true, nil)",
    "return {cmsgpack.unpack(cmsgpack.pack({1, -1, 70000, 'text', 1.25, false}))}",
    "local value = cmsgpack.unpack(ARGV[1]) return value",
    "return struct.pack('>I2hBs', 1, -2, 255, 'text')",
    "return {struct.unpack('<i4', '\\1\\2\\3\\4')}",
    "return struct.unpack('>I2', ARGV[1])",
    "return {bit.band(tonumber(ARGV[1]) or 7, 255), bit.bor(1, 2), bit.bxor(5, 3), bit.bnot(0), bit.tohex(255, -4)}",
    "return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(1, 33), bit.bswap(1), bit.tobit(2^33)}",
    "return {tostring(1/3), tostring(1e15), tostring(-0.5), string.format('%5.2f|%d|%s|%q', 1.5, 3, 'x', 'a\\nb')}",
    "return {string.rep('ab', 3), ('x'):upper(), #ARGV[1], string.byte(ARGV[1], 1, 3)}",
    "local keys = redis.call('KEYS', '*') table.sort(keys) return keys",
    "return redis.call('SORT', KEYS[1], 'BY', 'nosort')",
    "return redis.call('SMEMBERS', KEYS[1])",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return {redis.call('TYPE', KEYS[1])['ok'], redis.call('DBSIZE') >= 0, redis.call('PING'), redis.call('PING', 'x')}",
    "return redis.call('SCAN', 0, 'COUNT', 1000)[1]",
    "return table.concat(ARGV, ',', 1, 2)",
    "return tonumber(ARGV[1])",
    "return {math.floor(2.7), math.max(1, 5, 3), math.huge > 1, 2^53, -2^63}",
    "local list = {} for index = 1, 300 do list[index] = index end return {unpack(list)}",
    "return loadstring('return 7')()",
    "return load(function() return nil end) ~= nil",
    "return setmetatable({1, 2}, {__index = function() error('x') end})",
    "string.upper = nil",
    "redis.call = nil",
    "rawset(_G, 'x', 1)",
    "return getmetatable('').__index == string",
    "return os.clock() >= 0",
    "return os.time and 1 or 0",
    "return dofile",
    "#!lua\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')",
    "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=nosuch\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!js\nreturn 1",
    "#!lua",
];

/// Libraries for `FUNCTION LOAD`.
const LIBRARIES: &[&str] = &[
    "#!lua name=one\nredis.register_function('one', function(keys, args) return {keys, args} end)",
    "#!lua name=one\nredis.register_function('first', function(keys, args) return redis.call('GET', keys[1]) end)",
    "#!lua name=two\nredis.register_function{function_name='two', callback=function(keys, args) return redis.call(unpack(args)) end, \
     flags={'no-writes'}, description='Calls.'}",
    "#!lua name=three\nlocal function add(a, b) return a + b end\nredis.register_function('One', function() return add(1, 2) end)",
    "#!lua name=two\nredis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)",
    "#!lua name=bad\nredis.register_function('bad', 1)",
    "#!lua name=bad\nreturn nosuch",
    "#!lua name=bad\nlocal x = string.upper('x')",
    "#!lua name=bad\nredis.call('PING')",
    "#!lua name=bad\nreturn 1 +",
    "#!lua name=bad",
    "#!lua\nreturn 1",
    "#!lua name=bad-name\nreturn 1",
    "#!lua nam=bad\nreturn 1",
    "#! name=bad\nreturn 1",
    "#!lua name=\"one\"\nredis.register_function('one', function() return 'quoted' end)",
    "return 1",
];

/// Returns a script.
pub fn script(random: &mut Random) -> Vec<u8> {
    random.pick(SCRIPTS).as_bytes().to_vec()
}

/// Returns a library.
pub fn library(random: &mut Random) -> Vec<u8> {
    random.pick(LIBRARIES).as_bytes().to_vec()
}

/// Returns the name of a function or library.
pub fn function(random: &mut Random) -> Vec<u8> {
    random.pick(&["one", "One", "two", "first", "set", "three", "nosuch"]).as_bytes().to_vec()
}

/// Returns a script for `SCRIPT LOAD`: one that only it loads, or one that `EVAL` runs too.
pub fn loaded(random: &mut Random) -> Vec<u8> {
    random.pick(&["return 1", SCRIPTS[0]]).as_bytes().to_vec()
}

/// Returns the digest of such a script, or of none.
pub fn sha(random: &mut Random) -> Vec<u8> {
    random
        .pick(&[
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
            "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f",
            "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
            "e0e1",
            "f",
        ])
        .as_bytes()
        .to_vec()
}

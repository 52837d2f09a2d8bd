//! Errors of scripts: raised, returned and refused.

use expect_test::expect;

use crate::check::check;

#[test]
fn the_number_of_keys_is_checked() {
    check(expect![[r#"
        > EVAL "return 1"
        > EVAL "return 1" x
        > EVAL "return 1" -1
        > EVAL "return 1" 1
        > EVAL "return 1" 1.5
        > EVALSHA ffffffffffffffffffffffffffffffffffffffff x
        > EVALSHA short x
    "#]]);
}

#[test]
fn commands_fail_in_scripts() {
    check(expect![[r#"
        @valkey Redis names itself in these errors
        > SET string x
        > EVAL "return redis.call('INCR', KEYS[1])" 1 string
        > EVAL "return redis.pcall('INCR', KEYS[1])" 1 string
        > EVAL "return redis.call('LPUSH', KEYS[1], 'x')" 1 string
        > EVAL "return redis.call('nosuch')" 0
        > EVAL "return redis.pcall('nosuch')" 0
        > EVAL "return redis.call()" 0
        > EVAL "return redis.call('GET')" 0
        > EVAL "return redis.call('GET', {})" 0
        > EVAL "return redis.pcall('GET', nil)" 0
        > EVAL "return redis.call('SUBSCRIBE', 'x')" 0
        > EVAL "return redis.call('CONFIG', 'nosuch')" 0
        > EVAL "local ok, failure = pcall(redis.call, 'INCR', KEYS[1]) return {tostring(ok), failure}" 1 string
        > EVAL "local ok, failure = pcall(error, {err = 'CODE text'}) return {tostring(ok), failure}" 0
        > EVAL "redis.call('SET', KEYS[1], 'written') return redis.call('LPUSH', KEYS[1], 'x')" 1 string
        > GET string
    "#]]);
}

#[test]
fn errors_are_raised() {
    check(expect![[r#"
        > EVAL "error('text')" 0
        > EVAL "\n\nerror('text')" 0
        > EVAL "error('text', 0)" 0
        > EVAL "error({err = 'CODE text'})" 0
        > EVAL "error({err = 5.5})" 0
        > EVAL "error({})" 0
        > EVAL "error()" 0
        > EVAL "return nosuch" 0
        > EVAL "global = 1" 0
        > EVAL "return 1 + nil" 0
        > EVAL "local function f() error('deep') end f()" 0
        > EVAL "redis.call = nil" 0
        > EVAL "string.upper = nil" 0
    "#]]);
}

#[test]
fn a_script_that_does_not_compile_is_refused() {
    check(expect![[r#"
        @valkey other words in Redis
        > EVAL "return 1 +" 0
        > EVAL "\n return )" 0
        > SCRIPT LOAD "return 1 +"
    "#]]);
}

#[test]
fn error_texts_end_at_a_nul_and_are_one_line() {
    check(expect![[r#"
        @valkey Redis cuts texts elsewhere
        > EVAL "return {err = ARGV[1]}" 0 "CODE a\x00b"
        > EVAL "return {err = ARGV[1]}" 0 "CODE a\r\nb\r\n"
        > EVAL "return {err = ARGV[1]}" 0 "\nCODE a"
        > EVAL "return {err = ARGV[1]}" 0 ""
        > EVAL "return {ok = ARGV[1]}" 0 "a\x00b"
        > EVAL "return {ok = ARGV[1]}" 0 "\ra\nb\r\n"
        > EVAL "error(ARGV[1])" 0 "a\x00b"
        > EVAL "error(ARGV[1])" 0 "a\r\nb\n"
        > EVAL "error({err = ARGV[1]})" 0 "CODE a\x00b"
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "a\x00b"
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "CODE \r\na\r\n"
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "a\n"
        > EVAL "return _G[ARGV[1]]" 0 "a\x00b"
    "#]]);
}

#[test]
fn error_replies_have_a_code() {
    check(expect![[r#"
        > EVAL "return redis.error_reply('text')" 0
        > EVAL "return redis.error_reply('CODE text')" 0
        > EVAL "return redis.error_reply('-CODE text')" 0
        > EVAL "return redis.error_reply('-text')" 0
        > EVAL "return redis.error_reply(5)" 0
        > EVAL "return redis.error_reply('a', 'b')" 0
        > EVAL "return redis.status_reply('text')" 0
        > EVAL "return redis.status_reply()" 0
    "#]]);
}

#[test]
fn functions_of_the_server_check_their_arguments() {
    check(expect![[r#"
        @valkey Redis names its table in these errors
        > EVAL "redis.setresp(4)" 0
        > EVAL "redis.setresp()" 0
        > EVAL "redis.log(1)" 0
        > EVAL "redis.log(9, 'text')" 0
        > EVAL "redis.log('x', 'text')" 0
        > EVAL "redis.set_repl(77)" 0
        > EVAL "redis.set_repl()" 0
        > EVAL "return redis.sha1hex('')" 0
        > EVAL "return redis.sha1hex()" 0
        > EVAL "return redis.acl_check_cmd('SET', 'k', 'v')" 0
        > EVAL "return redis.acl_check_cmd('nosuch')" 0
        > EVAL "return redis.replicate_commands()" 0
        > EVAL "return redis.breakpoint()" 0
    "#]]);
}

#[test]
fn read_only_scripts_do_not_write() {
    check(expect![[r##"
        > SET k v
        > EVAL_RO "return redis.call('GET', KEYS[1])" 1 k
        > EVAL_RO "return redis.call('SET', KEYS[1], 'x')" 1 k
        > EVAL_RO "return redis.pcall('DEL', KEYS[1])" 1 k
        > EVAL "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')" 1 k
        > EVAL "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', KEYS[1])" 1 k
        > EVAL_RO "#!lua\nreturn 1" 0
        > EVAL_RO "#!lua flags=no-writes\nreturn 1" 0
        > EVAL "#!lua flags=allow-oom,no-cluster,allow-cross-slot-keys\nreturn redis.call('SET', KEYS[1], 'x')" 1 k
        > EVAL "#!lua flags=nosuch\nreturn 1" 0
        > EVAL "#!lua name=x\nreturn 1" 0
        > EVAL "#!lua" 0
        > EVAL "#!lua\nreturn 1" 0
        > GET k
    "##]]);
}

//! Errors of scripts: raised, returned and refused.

use expect_test::expect;

use crate::check::check;

#[test]
fn the_number_of_keys_is_checked() {
    check(expect![[r#"
        > EVAL "return 1"
        -ERR wrong number of arguments for 'eval' command
        > EVAL "return 1" x
        -ERR value is not an integer or out of range
        > EVAL "return 1" -1
        -ERR Number of keys can't be negative
        > EVAL "return 1" 1
        -ERR Number of keys can't be greater than number of args
        > EVAL "return 1" 1.5
        -ERR value is not an integer or out of range
        > EVALSHA ffffffffffffffffffffffffffffffffffffffff x
        -ERR value is not an integer or out of range
        @differs redis a hint follows
        > EVALSHA short x
        -NOSCRIPT No matching script.
    "#]]);
}

#[test]
fn commands_fail_in_scripts() {
    check(expect![[r#"
        @valkey Redis names itself in these errors
        > SET string x
        +OK
        > EVAL "return redis.call('INCR', KEYS[1])" 1 string
        -ERR value is not an integer or out of range script: on @user_script:1.
        > EVAL "return redis.pcall('INCR', KEYS[1])" 1 string
        -ERR value is not an integer or out of range
        > EVAL "return redis.call('LPUSH', KEYS[1], 'x')" 1 string
        -WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1.
        > EVAL "return redis.call('nosuch')" 0
        -ERR Unknown command called from script script: on @user_script:1.
        > EVAL "return redis.pcall('nosuch')" 0
        -ERR Unknown command called from script
        > EVAL "return redis.call()" 0
        -ERR Please specify at least one argument for this call script: on @user_script:1.
        > EVAL "return redis.call('GET')" 0
        -ERR Wrong number of args calling command from script script: on @user_script:1.
        > EVAL "return redis.call('GET', {})" 0
        -ERR Command arguments must be strings or integers script: on @user_script:1.
        > EVAL "return redis.pcall('GET', nil)" 0
        -ERR Command arguments must be strings or integers
        > EVAL "return redis.call('SUBSCRIBE', 'x')" 0
        -ERR This Valkey command is not allowed from script script: on @user_script:1.
        > EVAL "return redis.call('CONFIG', 'nosuch')" 0
        -ERR unknown subcommand 'nosuch'. Try CONFIG HELP. script: on @user_script:1.
        > EVAL "local ok, failure = pcall(redis.call, 'INCR', KEYS[1]) return {tostring(ok), failure}" 1 string
        ["false", "ERR value is not an integer or out of range"]
        > EVAL "local ok, failure = pcall(error, {err = 'CODE text'}) return {tostring(ok), failure}" 0
        ["false", "CODE text"]
        > EVAL "redis.call('SET', KEYS[1], 'written') return redis.call('LPUSH', KEYS[1], 'x')" 1 string
        -WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1.
        > GET string
        "written"
    "#]]);
}

#[test]
fn errors_are_raised() {
    check(expect![[r#"
        @valkey Redis names the script in errors, and has other words in some
        > EVAL "error('text')" 0
        -ERR user_script:1: text script: on @user_script:1.
        > EVAL "\n\nerror('text')" 0
        -ERR user_script:3: text script: on @user_script:3.
        > EVAL "error('text', 0)" 0
        -ERR text script: on @user_script:1.
        > EVAL "error({err = 'CODE text'})" 0
        -CODE text script: on @user_script:1.
        > EVAL "error({err = 5.5})" 0
        -5.5 script: on @user_script:1.
        > EVAL "error({})" 0
        -ERR unknown error script: on @user_script:1.
        > EVAL "error()" 0
        -ERR nil script: on @user_script:1.
        > EVAL "return nosuch" 0
        -ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch' script: on @user_script:1.
        > EVAL "global = 1" 0
        -ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.
        > EVAL "return 1 + nil" 0
        -ERR user_script:1: attempt to perform arithmetic on a nil value script: on @user_script:1.
        > EVAL "local function f() error('deep') end f()" 0
        -ERR user_script:1: deep script: on @user_script:1.
        > EVAL "redis.call = nil" 0
        -ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.
        > EVAL "string.upper = nil" 0
        -ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.
    "#]]);
}

#[test]
fn a_script_that_does_not_compile_is_refused() {
    check(expect![[r#"
        @valkey other words in Redis
        > EVAL "return 1 +" 0
        -ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'
        > EVAL "\n return )" 0
        -ERR Error compiling script (new function): user_script:2: unexpected symbol near ')'
        > SCRIPT LOAD "return 1 +"
        -ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'
    "#]]);
}

#[test]
fn error_texts_end_at_a_nul_and_are_one_line() {
    check(expect![[r#"
        @valkey Redis cuts texts elsewhere
        > EVAL "return {err = ARGV[1]}" 0 "CODE a\x00b"
        -CODE a
        > EVAL "return {err = ARGV[1]}" 0 "CODE a\r\nb\r\n"
        -CODE a  b
        > EVAL "return {err = ARGV[1]}" 0 "\nCODE a"
        - CODE a
        > EVAL "return {err = ARGV[1]}" 0 ""
        -
        > EVAL "return {ok = ARGV[1]}" 0 "a\x00b"
        +a
        > EVAL "return {ok = ARGV[1]}" 0 "\ra\nb\r\n"
        + a b  
        > EVAL "error(ARGV[1])" 0 "a\x00b"
        -ERR user_script:1: a script: on @user_script:1.
        > EVAL "error(ARGV[1])" 0 "a\r\nb\n"
        -ERR user_script:1: a  b  script: on @user_script:1.
        > EVAL "error({err = ARGV[1]})" 0 "CODE a\x00b"
        -CODE a script: on @user_script:1.
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "a\x00b"
        "ERR a"
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "CODE \r\na\r\n"
        "CODE a"
        > EVAL "return redis.error_reply(ARGV[1]).err" 0 "a\n"
        "ERR a\n"
        > EVAL "return _G[ARGV[1]]" 0 "a\x00b"
        -ERR user_script:1: Script attempted to access nonexistent global variable 'a' script: on @user_script:1.
    "#]]);
}

#[test]
fn error_replies_have_a_code() {
    check(expect![[r#"
        > EVAL "return redis.error_reply('text')" 0
        -ERR text
        > EVAL "return redis.error_reply('CODE text')" 0
        -CODE text
        > EVAL "return redis.error_reply('-CODE text')" 0
        -CODE text
        > EVAL "return redis.error_reply('-text')" 0
        -ERR text
        > EVAL "return redis.error_reply(5)" 0
        -ERR wrong number or type of arguments
        > EVAL "return redis.error_reply('a', 'b')" 0
        -ERR wrong number or type of arguments
        > EVAL "return redis.status_reply('text')" 0
        +text
        > EVAL "return redis.status_reply()" 0
        -ERR wrong number or type of arguments
    "#]]);
}

#[test]
fn functions_of_the_server_check_their_arguments() {
    check(expect![[r#"
        @valkey Redis names its table in these errors
        > EVAL "redis.setresp(4)" 0
        -ERR RESP version must be 2 or 3. script: on @user_script:1.
        > EVAL "redis.setresp()" 0
        -ERR server.setresp() requires one argument. script: on @user_script:1.
        > EVAL "redis.log(1)" 0
        -ERR server.log() requires two arguments or more. script: on @user_script:1.
        > EVAL "redis.log(9, 'text')" 0
        -ERR Invalid log level. script: on @user_script:1.
        > EVAL "redis.log('x', 'text')" 0
        -ERR First argument must be a number (log level). script: on @user_script:1.
        > EVAL "redis.set_repl(77)" 0
        -ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. script: on @user_script:1.
        > EVAL "redis.set_repl()" 0
        -ERR server.set_repl() requires one argument. script: on @user_script:1.
        > EVAL "return redis.sha1hex('')" 0
        "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        > EVAL "return redis.sha1hex()" 0
        -ERR wrong number of arguments script: on @user_script:1.
        > EVAL "return redis.acl_check_cmd('SET', 'k', 'v')" 0
        1
        > EVAL "return redis.acl_check_cmd('nosuch')" 0
        -ERR Invalid command passed to server.acl_check_cmd() script: on @user_script:1.
        > EVAL "return redis.replicate_commands()" 0
        1
        > EVAL "return redis.breakpoint()" 0
        $-1
    "#]]);
}

#[test]
fn read_only_scripts_do_not_write() {
    check(expect![[r##"
        @valkey Redis names the script in errors, and has other words in some
        > SET k v
        +OK
        > EVAL_RO "return redis.call('GET', KEYS[1])" 1 k
        "v"
        > EVAL_RO "return redis.call('SET', KEYS[1], 'x')" 1 k
        -ERR Write commands are not allowed from read-only scripts. script: on @user_script:1.
        > EVAL_RO "return redis.pcall('DEL', KEYS[1])" 1 k
        -ERR Write commands are not allowed from read-only scripts.
        > EVAL "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')" 1 k
        -ERR Write commands are not allowed from read-only scripts. script: on @user_script:2.
        > EVAL "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', KEYS[1])" 1 k
        "v"
        > EVAL_RO "#!lua\nreturn 1" 0
        -ERR Can not execute a script with write flag using *_ro command.
        > EVAL_RO "#!lua flags=no-writes\nreturn 1" 0
        1
        > EVAL "#!lua flags=allow-oom,no-cluster,allow-cross-slot-keys\nreturn redis.call('SET', KEYS[1], 'x')" 1 k
        +OK
        > EVAL "#!lua flags=nosuch\nreturn 1" 0
        -ERR Unexpected flag in script shebang: nosuch
        > EVAL "#!lua name=x\nreturn 1" 0
        -ERR Unknown lua shebang option: name=x
        > EVAL "#!lua" 0
        -ERR Invalid script shebang
        > EVAL "#!lua\nreturn 1" 0
        1
        > GET k
        "x"
    "##]]);
}

#[test]
fn errors_of_functions_name_the_place_of_the_call() {
    check(expect![[r#"
        @valkey Redis limits string.rep otherwise
        > EVAL "return rawget(1, 2)" 0
        -ERR user_script:1: bad argument #1 to 'rawget' (table expected, got number) script: on @user_script:1.
        > EVAL "return pairs(nil)" 0
        -ERR user_script:1: bad argument #1 to 'pairs' (table expected, got nil) script: on @user_script:1.
        > EVAL "return unpack({}, 1, 1e8)" 0
        -ERR user_script:1: too many results to unpack script: on @user_script:1.
        > EVAL "return table.insert(1, 2)" 0
        -ERR user_script:1: bad argument #1 to 'insert' (table expected, got number) script: on @user_script:1.
        > EVAL "return ('x'):rep()" 0
        -ERR user_script:1: bad argument #1 to 'rep' (number expected, got no value) script: on @user_script:1.
        > EVAL "local f = string.rep return f()" 0
        -ERR user_script:1: bad argument #1 to 'f' (string expected, got no value) script: on @user_script:1.
        > EVAL "return string.find('x', '[')" 0
        -ERR user_script:1: malformed pattern (missing ']') script: on @user_script:1.
        > EVAL "return string.gsub('x', 'x', function() return {} end)" 0
        -ERR user_script:1: invalid replacement value (a table) script: on @user_script:1.
        > EVAL "return {pcall(string.rep, 'x', 2^40)}" 0
        [1, ""]
        > EVAL "return tostring(server.acl_check_cmd('get'))" 0
        "true"
        > EVAL "return cjson.encode({[1e15]=1}):gsub('%p', '')" 0
        "1e151"
        > EVAL "return {redis.call('ECHO', -2^63), redis.call('ECHO', 0/0), redis.call('ECHO', 2^62)}" 0
        ["-9223372036854776000", "-nan", "4611686018427387904"]
    "#]]);
}

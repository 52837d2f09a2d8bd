//! `FUNCTION`, `FCALL` and `FCALL_RO`.

use expect_test::expect;

use crate::check::check;

#[test]
fn functions_are_called() {
    check(expect![[r##"
        @valkey Redis names the script in errors, and has other words in some
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('echo', function(keys, args) return {keys, args} end)"
        "one"
        > FCALL echo 1 k a b
        [["k"], ["a", "b"]]
        > FCALL ECHO 0
        [[], []]
        > FCALL_RO echo 0
        -ERR Can not execute a script with write flag using *_ro command.
        > FCALL nosuch 0
        -ERR Function not found
        > FCALL nosuch x
        -ERR Function not found
        > FCALL echo x
        -ERR Bad number of keys provided
        > FCALL echo -1
        -ERR Number of keys can't be negative
        > FCALL echo 1
        -ERR Number of keys can't be greater than number of args
        > FUNCTION LOAD "#!lua name=two\nredis.register_function{function_name='read', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}"
        "two"
        > SET k v
        +OK
        > FCALL read 1 k
        "v"
        > FCALL_RO read 1 k
        "v"
        > FUNCTION LOAD "#!lua name=three\nredis.register_function{function_name='write', callback=function(keys) return redis.call('SET', keys[1], 'x') end, flags={'no-writes'}}"
        "three"
        > FCALL write 1 k
        -ERR Write commands are not allowed from read-only scripts. script: on @user_function:2.
        > FUNCTION DELETE three
        +OK
        > FUNCTION DELETE three
        -ERR Library not found
        > FCALL write 1 k
        -ERR Function not found
        > FUNCTION FLUSH
        +OK
        > FCALL echo 0
        -ERR Function not found
        > FUNCTION LIST
        []
    "##]]);
}

#[test]
fn functions_fail() {
    check(expect![[r##"
        @valkey Redis names the script in errors, and has other words in some
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('raise', function() error('text') end)\nredis.register_function('fail', function(keys) return redis.call('INCR', keys[1]) end)\nredis.register_function('reply', function() return redis.error_reply('CODE text') end)"
        "bad"
        > SET k v
        +OK
        > FCALL raise 0
        -ERR user_function:2: text script: on @user_function:2.
        > FCALL fail 1 k
        -ERR value is not an integer or out of range script: on @user_function:3.
        > FCALL reply 0
        -CODE text
    "##]]);
}

#[test]
fn libraries_are_checked() {
    check(expect![[r##"
        @valkey Redis names the script in errors, and has other words in some
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('one', function() return 1 end)"
        "one"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('one', function() return 2 end)"
        -ERR Library 'one' already exists
        > FUNCTION LOAD REPLACE "#!lua name=one\nredis.register_function('one', function() return 2 end)"
        "one"
        > FCALL one 0
        2
        > FUNCTION LOAD "#!lua name=two\nredis.register_function('one', function() return 2 end)"
        -ERR Function one already exists
        > FUNCTION LOAD "#!lua name=bad\nreturn 1"
        -ERR No functions registered
        > FUNCTION LOAD "#!lua name=bad"
        -ERR Invalid library metadata
        > FUNCTION LOAD "#!lua\nreturn 1"
        -ERR Library name was not given
        > FUNCTION LOAD "#!lua name=bad-name\nreturn 1"
        -ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long
        > FUNCTION LOAD "return 1"
        -ERR Missing library metadata
        > FUNCTION LOAD odd "#!lua name=bad\nreturn 1"
        -ERR Unknown option given: odd
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad', 1)"
        -ERR Error registering functions: ERR second argument to server.register_function must be a function
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad-name', function() end)"
        -ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function{function_name='bad', callback=function() end, flags={'nosuch'}}"
        -ERR Error registering functions: ERR unknown flag given
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad')"
        -ERR Error registering functions: ERR calling server.register_function with a single argument is only applicable to Lua table (representing named arguments).
        > FUNCTION DELETE nosuch
        -ERR Library not found
        > FUNCTION FLUSH odd
        -ERR FUNCTION FLUSH only supports SYNC|ASYNC option
        > FUNCTION KILL
        -NOTBUSY No scripts in execution right now.
        > FUNCTION RESTORE odd
        -ERR DUMP payload version or checksum are wrong
    "##]]);
}

#[test]
fn libraries_are_listed() {
    check(expect![[r##"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function{function_name='one', callback=function() end, flags={'no-writes'}, description='Does nothing.'}"
        "one"
        > FUNCTION LIST
        [["library_name", "one", "engine", "LUA", "functions", [["name", "one", "description", "Does nothing.", "flags", [+no-writes]]]]]
        > FUNCTION LIST LIBRARYNAME o* WITHCODE
        [["library_name", "one", "engine", "LUA", "functions", [["name", "one", "description", "Does nothing.", "flags", [+no-writes]]], "library_code", "#!lua name=one\nredis.register_function{function_name='one', callback=function() end, flags={'no-writes'}, description='Does nothing.'}"]]
        > FUNCTION LIST LIBRARYNAME x*
        []
        > FUNCTION LIST LIBRARYNAME
        -ERR library name argument was not given
        > FUNCTION LIST odd
        -ERR Unknown argument odd
        @resp3
        > FUNCTION LIST
        [{"library_name": "one", "engine": "LUA", "functions": [{"name": "one", "description": "Does nothing.", "flags": ~[+no-writes]}]}]
    "##]]);
}

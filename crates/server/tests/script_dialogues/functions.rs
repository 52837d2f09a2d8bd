//! `FUNCTION`, `FCALL` and `FCALL_RO`.

use expect_test::expect;

use crate::check::check;

#[test]
fn functions_are_called() {
    check(expect![[r##"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('echo', function(keys, args) return {keys, args} end)"
        > FCALL echo 1 k a b
        > FCALL ECHO 0
        > FCALL_RO echo 0
        > FCALL nosuch 0
        > FCALL nosuch x
        > FCALL echo x
        > FCALL echo -1
        > FCALL echo 1
        > FUNCTION LOAD "#!lua name=two\nredis.register_function{function_name='read', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}"
        > SET k v
        > FCALL read 1 k
        > FCALL_RO read 1 k
        > FUNCTION LOAD "#!lua name=three\nredis.register_function{function_name='write', callback=function(keys) return redis.call('SET', keys[1], 'x') end, flags={'no-writes'}}"
        > FCALL write 1 k
        > FUNCTION DELETE three
        > FUNCTION DELETE three
        > FCALL write 1 k
        > FUNCTION FLUSH
        > FCALL echo 0
        > FUNCTION LIST
    "##]]);
}

#[test]
fn functions_fail() {
    check(expect![[r##"
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('raise', function() error('text') end)\nredis.register_function('fail', function(keys) return redis.call('INCR', keys[1]) end)\nredis.register_function('reply', function() return redis.error_reply('CODE text') end)"
        > SET k v
        > FCALL raise 0
        > FCALL fail 1 k
        > FCALL reply 0
    "##]]);
}

#[test]
fn libraries_are_checked() {
    check(expect![[r##"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('one', function() return 1 end)"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function('one', function() return 2 end)"
        > FUNCTION LOAD REPLACE "#!lua name=one\nredis.register_function('one', function() return 2 end)"
        > FCALL one 0
        > FUNCTION LOAD "#!lua name=two\nredis.register_function('one', function() return 2 end)"
        > FUNCTION LOAD "#!lua name=bad\nreturn 1"
        > FUNCTION LOAD "#!lua name=bad"
        > FUNCTION LOAD "#!lua\nreturn 1"
        > FUNCTION LOAD "#!lua name=bad-name\nreturn 1"
        > FUNCTION LOAD "return 1"
        > FUNCTION LOAD odd "#!lua name=bad\nreturn 1"
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad', 1)"
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad-name', function() end)"
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function{function_name='bad', callback=function() end, flags={'nosuch'}}"
        > FUNCTION LOAD "#!lua name=bad\nredis.register_function('bad')"
        > FUNCTION DELETE nosuch
        > FUNCTION FLUSH odd
        > FUNCTION KILL
        > FUNCTION RESTORE odd
    "##]]);
}

#[test]
fn libraries_are_listed() {
    check(expect![[r##"
        > FUNCTION LOAD "#!lua name=one\nredis.register_function{function_name='one', callback=function() end, flags={'no-writes'}, description='Does nothing.'}"
        > FUNCTION LIST
        > FUNCTION LIST LIBRARYNAME o* WITHCODE
        > FUNCTION LIST LIBRARYNAME x*
        > FUNCTION LIST LIBRARYNAME
        > FUNCTION LIST odd
        @resp3
        > FUNCTION LIST
    "##]]);
}

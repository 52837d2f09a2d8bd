//! `SCRIPT` and the cache of scripts.

use expect_test::expect;

use crate::check::check;

#[test]
fn scripts_are_loaded_and_found() {
    check(expect![[r#"
        > SCRIPT LOAD "return 1"
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        1
        > EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
        1
        > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        1
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db ffffffffffffffffffffffffffffffffffffffff short
        [1, 0, 0]
        > SCRIPT FLUSH
        +OK
        @differs redis a hint follows
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        -NOSCRIPT No matching script.
        @differs redis a hint follows
        > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        -NOSCRIPT No matching script.
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        [0]
        > SCRIPT FLUSH SYNC
        +OK
        > SCRIPT FLUSH ASYNC
        +OK
        > SCRIPT FLUSH odd
        -ERR SCRIPT FLUSH only support SYNC|ASYNC option
        > SCRIPT KILL
        -NOTBUSY No scripts in execution right now.
        > SCRIPT EXISTS
        -ERR wrong number of arguments for 'script|exists' command
        > SCRIPT LOAD
        -ERR wrong number of arguments for 'script|load' command
    "#]]);
}

#[test]
fn a_script_that_has_not_run_is_not_in_the_cache() {
    check(expect![[r#"
        > EVAL "return 1" x
        -ERR value is not an integer or out of range
        > EVAL "return 1" -1
        -ERR Number of keys can't be negative
        > EVAL "return 1" 1
        -ERR Number of keys can't be greater than number of args
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        [0]
        > MULTI
        +OK
        > EVAL "return 1" 0
        +QUEUED
        > DISCARD
        +OK
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        [0]
        > MULTI
        +OK
        > EVAL "return 1" 0
        +QUEUED
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        +QUEUED
        > EXEC
        [1, [1]]
        > SCRIPT FLUSH
        +OK
        > EVAL "return 1" 0
        1
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        1
    "#]]);
}

#[test]
fn scripts_are_shown() {
    check(expect![[r#"
        @valkey only Valkey has it
        > SCRIPT LOAD "return 1"
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        > SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        "return 1"
        > SCRIPT SHOW ffffffffffffffffffffffffffffffffffffffff
        -NOSCRIPT No matching script.
        > SCRIPT SHOW short
        -NOSCRIPT No matching script.
    "#]]);
}

#[test]
fn there_is_no_debugger() {
    check(expect![[r#"
        > SCRIPT DEBUG NO
        +OK
        > SCRIPT DEBUG
        -ERR wrong number of arguments for 'script|debug' command
        > SCRIPT DEBUG other
        -ERR Use SCRIPT DEBUG YES/SYNC/NO
    "#]]);
    check(expect![[r#"
        @valkey Redis has no name of an engine
        > SCRIPT DEBUG no LUA
        +OK
        > SCRIPT DEBUG NO other
        -ERR No scripting engine found with name 'other' to enable debug
        > SCRIPT DEBUG YES other
        -ERR No scripting engine found with name 'other' to enable debug
        > SCRIPT DEBUG NO LUA other
        -ERR unknown subcommand or wrong number of arguments for 'DEBUG'. Try SCRIPT HELP.
    "#]]);
    check(expect![[r#"
        @ours Valkey begins a session with a protocol of its own
        > SCRIPT DEBUG YES
        -ERR There is no debugger for scripts
        > SCRIPT DEBUG SYNC LUA
        -ERR There is no debugger for scripts
    "#]]);
}
